#!/usr/bin/env python3
"""Two comparisons (veche compare --json) as tables in a page: tools/picture_tables.py SLOW.json FAR.json PAGE

The tables go between the lines "<!-- picture: begin -->" and "<!-- picture: end -->" of the page.
"""

import json
import re
import sys

FACTORS = ("1", "2", "10", "100")
EPOCHS = 20  # of the first comparison


def methods(path):
    with open(path) as text:
        return json.load(text)["methods"]


def slow_table(rows):
    """A line for each method: seconds an epoch for every factor by which one machine is slowed."""
    seconds = {}
    for row in rows:
        name, factor = re.fullmatch(r"(.*), factor (\d+)", row["method"]).groups()
        seconds.setdefault(name, {})[factor] = row["virtual_s"] / EPOCHS if row["state"] == "done" else None
    yield "| one of 16 machines slower by | " + " | ".join(f"{f}x" for f in FACTORS) + " |"
    yield "|---" * (1 + len(FACTORS)) + "|"
    for name, at in seconds.items():
        yield f"| {name} | " + " | ".join("-" if at[f] is None else f"{at[f]:.2f}" for f in FACTORS) + " |"


def far_table(rows):
    yield "| method | seconds to 85 % | seconds in all | accuracy | sent, MB | waiting |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        if row["state"] != "done":
            yield f"| {row['method']} | failed: {row['failure']} | | | | |"
            continue
        target = "-" if row["target_s"] is None else f"{row['target_s']:.1f}"
        yield (f"| {row['method']} | {target} | {row['virtual_s']:.1f} | {row['accuracy']['mean']:.2f} | "
               f"{row['bytes'] / 1e6:.0f} | {row['waiting_share']:.0%} |")


def main():
    slow, far, page = sys.argv[1:]
    begin, end = "<!-- picture: begin -->\n", "<!-- picture: end -->\n"
    lines = ["Virtual seconds an epoch, one of sixteen machines slowed down:", "", *slow_table(methods(slow)), "",
             "Sixteen equal machines, 20 ms and 100 Mbit/s apart:", "", *far_table(methods(far)), ""]
    with open(page) as text:
        old = text.read()
    if begin not in old or end not in old:
        sys.exit(f"{page}: there is no place for the tables")
    head, tail = old.split(begin)[0], old.split(end)[1]
    with open(page, "w") as out:
        out.write(head + begin + "\n".join(lines) + end + tail)


if __name__ == "__main__":
    main()
