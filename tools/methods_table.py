#!/usr/bin/env python3
"""A comparison of methods (veche compare --json) as a table in a page: tools/methods_table.py COMPARE.json PAGE

The first method is the single model. The table goes between the lines "<!-- methods: begin -->" and
"<!-- methods: end -->" of the page.
"""

import json
import sys


def is_asynchronous(name):
    return "async" in name or "ssp" in name or name.startswith(("adpsgd", "downpour")) or name in ("easgd, every 4",)


def table(rows):
    single = rows[0]["accuracy"]["mean"]
    yield "| method | agents | their mean model | less than single by | virtual seconds | sent, GB | waiting | staleness |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        if row["state"] != "done":
            yield f"| {row['method']} | {row['failure'] or row['state']} | | | | | | |"
            continue
        accuracy = row["accuracy"]
        mean = row["averaged_accuracy"]
        best = max(accuracy["mean"], mean or 0)
        bound = 2 if is_asynchronous(row["method"]) else 1
        less = single - best
        yield (f"| {row['method']} | {accuracy['mean']:.2f} +- {accuracy['std']:.2f} | "
               f"{'' if mean is None else f'{mean:.2f}'} | {less:.2f}{'' if less <= bound else ' (!)'} | "
               f"{row['virtual_s']:.0f} | {row['bytes'] / 1e9:.1f} | {row['waiting_share']:.0%} | "
               f"{row['staleness_mean']:.1f} |")


def main():
    comparison, page = sys.argv[1:]
    with open(comparison) as text:
        rows = json.load(text)["methods"]
    begin, end = "<!-- methods: begin -->\n", "<!-- methods: end -->\n"
    with open(page) as text:
        old = text.read()
    if begin not in old or end not in old:
        sys.exit(f"{page}: there is no place for the table")
    with open(page, "w") as out:
        out.write(old.split(begin)[0] + begin + "\n".join(table(rows)) + "\n" + end + old.split(end)[1])


if __name__ == "__main__":
    main()
