#!/usr/bin/env python3
"""thesis_rows.py FOLDER/rows.txt        - a line for each row: its table, its name, its rival's, the published figures.
thesis_rows.py FOLDER/rows.txt NAME   - the experiment of a row or a rival: its file, then its overrides, one a line.

What the cells of rows.txt mean stands at its head."""
import pathlib
import re
import sys


def read(path):
    """The graphs by name, and the rows, each a dictionary by the names that stand above the columns."""
    heads, graphs, rows = [], {}, []
    for line in path.read_text().splitlines():
        if line.startswith("# table"):
            heads = line[1:].split()
        elif line.startswith("graph"):
            _, name, agents, topology, weights, rounds = line.split()
            graphs[name] = dict(agents=int(agents), topology=topology, weights=weights,
                                rounds=[int(digit) for digit in rounds if digit.isdigit()])
        elif line and not line.startswith("#"):
            rows.append(dict(zip(heads, line.split(), strict=True)))
    for row in rows:
        row["set"] = row["row"].split("-")[0]
        row["graph"] = graphs[row["graph"]]
        row["whole batch"] = int(row["batch"]) * row["graph"]["agents"]
        row["rival"] = f"{row['set']}-single-batch{row['whole batch']}" + ("-lsr" if row["rate"] == "scaled" else "")
    return rows


def epochs(row):
    if row["epochs"] != "-":
        n, falls = row["epochs"].split(":")
        yield f"train.epochs={n}"
        yield f"optim.schedule.epochs=[{falls}]"


def strategy(row):
    mixes, _, n = row["mixes"].partition(":")
    if mixes == "gossip":
        return f"{{kind: gossip, pairs: {n}}}"
    settings = ["kind: consensus"]
    settings += [f"every: {n}"] if mixes == "every" else []
    settings += [f"learn_every: {row['graph']['rounds']}"] if row["shares"] == "unequal" else []
    settings += [f"mix_every: {row['graph']['rounds']}"] if mixes == "learning" else []
    return "{" + ", ".join(settings) + "}"


def agents(row):
    graph = row["graph"]
    yield f"data.batch={row['batch']}"
    if row["shares"] == "unequal":
        yield f"data.split={{kind: sizes, sizes: {[max(graph['rounds']) // every for every in graph['rounds']]}}}"
    if row["rate"] == "scaled":
        yield "optim.scale_lr=true"
    yield from epochs(row)
    yield f"agents={graph['agents']}"
    yield f"topology={{graph: {graph['topology']}, weights: {graph['weights']}}}"
    yield f"strategy={strategy(row)}"
    if row["judged"] != "-":
        yield f"train.evaluate_every={row['judged']} epochs"
        yield f"train.checkpoint_every={row['judged']} epochs"


def single(row, file):
    yield f"data.batch={row['whole batch']}"
    if row["rate"] == "scaled":
        rate = float(re.search(r"\blr: *([\d.]+)", file.read_text())[1])
        yield f"optim.lr={rate * row['graph']['agents']:g}"
    yield from epochs(row)
    yield "strategy=single"


def main():
    path = pathlib.Path(sys.argv[1])
    rows = read(path)
    if len(sys.argv) == 2:
        for row in rows:
            print(*(row[head] for head in ("table", "row", "rival", "mean", "spread", "single")))
        return
    name = sys.argv[2]
    for row in rows:
        if name in (row["row"], row["rival"]):
            file = path.parent / f"{row['set']}.yaml"
            print(file, f"name={name}", *(agents(row) if name == row["row"] else single(row, file)), sep="\n")
            return
    sys.exit(f"thesis_rows.py: {path} has no row and no rival '{name}'")


main()
