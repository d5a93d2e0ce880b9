#!/usr/bin/env python3
"""thesis_table.py text|markdown RUNS < ROWS - our numbers beside the published ones, for rows of
experiments/thesis/rows.txt whose runs lie in the folder RUNS. What was not run, or is not done, is a dash."""
import json
import pathlib
import sys

HEADS = ["row", "agents %", "study", "single %", "study", "agents - single", "study", "epochs", "minutes"]


def summary(folder):
    try:
        return json.loads((folder / "summary.json").read_text())
    except FileNotFoundError:
        return None


def number(text):
    return None if text == "-" else float(text)


def plus_minus(mean, spread):
    if mean is None:
        return "-"
    return f"{mean:.2f}" + (f" +- {spread:.2f}" if spread is not None else "")


def difference(a, b):
    return "-" if a is None or b is None else f"{a - b:+.2f}"


def cells(runs, line):
    _, row, rival, mean, spread, single = line.split()
    ours, theirs = summary(runs / row), summary(runs / rival)
    our_mean, our_spread = (ours["accuracy"]["mean"], ours["accuracy"]["std"]) if ours else (None, None)
    our_single = theirs["accuracy"]["mean"] if theirs else None
    return [row, plus_minus(our_mean, our_spread), plus_minus(number(mean), number(spread)),
            plus_minus(our_single, None), plus_minus(number(single), None),
            difference(our_mean, our_single), difference(number(mean), number(single)),
            f"{ours['epochs']:.4g}" if ours else "-", f"{ours['real_s'] / 60:.1f}" if ours else "-"]


def main():
    markdown, runs = sys.argv[1] == "markdown", pathlib.Path(sys.argv[2])
    table = [HEADS] + [cells(runs, line) for line in sys.stdin if line.strip()]
    wide = [max(len(r[i]) for r in table) for i in range(len(HEADS))]
    for n, r in enumerate(table):
        padded = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, wide))]
        print("| " + " | ".join(padded) + " |" if markdown else "  ".join(padded))
        if markdown and n == 0:
            print("|" + "---|" + "---:|" * (len(HEADS) - 1))


main()
