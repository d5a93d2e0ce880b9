#!/usr/bin/env python3
"""thesis_bounds.py BOUNDS < TABLE - says of each row of a markdown table by thesis_table.py whether it holds.

BOUNDS: lines of row, least accuracy in percent, most points behind the rival."""
import sys


def main():
    bounds = dict((w[0], (float(w[1]), float(w[2]))) for w in map(str.split, sys.argv[1].splitlines()))
    bad = 0
    print()
    for line in sys.stdin:
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if cells[0] not in bounds:
            continue
        least, behind = bounds[cells[0]]
        known = cells[1] != "-" and cells[5] != "-"
        holds = known and float(cells[1].split()[0]) >= least and float(cells[5]) >= -behind
        wanted = (f"at least {least:g} % and " if least else "") + f"at most {behind:g} behind its rival"
        print(f"* `{cells[0]}`: {wanted}: {'holds' if holds else 'does not hold' if known else 'not run'}")
        bad += not holds
    sys.exit(bad != 0)


main()
