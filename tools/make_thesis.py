#!/usr/bin/env python3
"""make_thesis.py [FOLDER] - writes experiments/thesis: one experiment for each row of the study's tables, one for
each of their rivals, and index.txt with the published numbers.

The study's settings stand here once, so that forty files cannot drift apart. The files are what is read and run; a
test makes them again and refuses a difference.
"""
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "experiments" / "thesis"
FROM_ROOT = "experiments/thesis"  # how the experiments name their edge lists

SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "fashion": "Fashion-MNIST"}
RATE = {"cifar10": 0.1, "cifar100": 0.1, "fashion": 0.001}

# graph -> (agents, what it is, spec, weights). A cycle's fastest weights are the uniform ones.
GRAPHS = {
    "cycle4": (4, "a cycle of 4", "cycle:4", "uniform"),
    "expander25": (25, "an expander of 25", "expander:25", "fastest"),
    "fifty100": (50, "50 agents with 100 edges", "chords:50:1", "fastest"),
    "fifty150": (50, "50 agents with 150 edges", "chords:50:2", "fastest"),
    "fifty250": (50, "50 agents with 250 edges", "chords:50:4", "fastest"),
    "torus36": (36, "a torus of 6 x 6", "torus:6x6", "fastest"),
    "complete36": (36, "36 agents, all neighbours", "complete:36", "fastest"),
    "random12": (12, "a random graph of 12, some fastest weights negative", f"file:{FROM_ROOT}/random12.txt", "fastest"),
    "dense5": (5, "a dense graph of 5", f"file:{FROM_ROOT}/dense5.txt", "fastest"),
    "sparse10": (10, "a sparse graph of 10", f"file:{FROM_ROOT}/sparse10.txt", "fastest"),
}

# How often the agents learn where their shares are unequal; a share is in proportion to the power 1 / learn_every.
LEARN_EVERY = {
    "cycle4": [1, 2, 2, 4],
    "torus36": [(1, 2, 4)[(row + column) % 3] for row in range(6) for column in range(6)],
}


def row(table, of, graph, batch, agents, spread, single, **how):
    """One row: how the agents work together (every, pairs, unequal, lsr), and what the study published."""
    return dict(table=table, of=of, graph=graph, batch=batch, agents=agents, spread=spread, single=single, **how)


ROWS = [
    row("cifar10", "cifar10", "cycle4", 32, 92.13, 0.04, 91.79),
    row("cifar10", "cifar10", "expander25", 32, 90.12, 0.07, 89.31),
    row("cifar10", "cifar10", "expander25", 32, 89.89, 0.10, 89.31, every=5),
    row("cifar10", "cifar10", "expander25", 32, 89.36, 0.11, 89.31, every=10),
    row("cifar10", "cifar10", "fifty100", 32, 88.40, 0.12, 88.18),
    row("cifar10", "cifar10", "fifty150", 32, 88.51, 0.10, 88.18),
    row("cifar10", "cifar10", "fifty250", 32, 88.61, 0.08, 88.18),
    row("cifar10", "cifar10", "torus36", 32, 89.70, 0.08, 89.21),
    row("cifar10", "cifar10", "torus36", 32, 88.63, 0.08, 89.21, every=5),
    row("cifar10", "cifar10", "torus36", 6, 91.55, 0.08, 91.12),
    row("cifar10", "cifar10", "torus36", 6, 88.99, 0.08, 91.12, every=5),
    row("cifar10", "cifar10", "random12", 16, 91.80, 0.03, 91.24),
    row("cifar10", "cifar10", "complete36", 32, 89.21, 0.09, 89.21),
    row("cifar10", "cifar10", "complete36", 32, 89.09, 0.09, 89.21, every=3),
    row("cifar10", "cifar10", "complete36", 32, 89.18, 0.09, 89.21, every=5),
    row("cifar10", "cifar10", "complete36", 32, 88.14, 0.09, 89.21, every=10),

    row("unequal", "cifar10", "cycle4", 32, 92.19, 0.02, 91.79, unequal="when they learn"),
    row("unequal", "cifar10", "torus36", 32, 89.10, 0.14, 89.21, unequal="when they learn"),
    row("unequal", "cifar10", "torus36", 6, 90.87, 0.10, 91.12, unequal="when they learn"),
    row("unequal", "cifar10", "torus36", 6, 91.13, 0.12, 91.12, unequal="every round"),

    row("cifar100", "cifar100", "cycle4", 32, 68.62, 0.08, 68.21),
    row("cifar100", "cifar100", "torus36", 32, 65.11, 0.11, 63.46),
    row("cifar100", "cifar100", "torus36", 6, 67.99, 0.17, 66.92),

    row("fashion", "fashion", "cycle4", 25, 92.05, 0.09, 92.05),
    row("fashion", "fashion", "torus36", 6, 91.01, 0.17, 91.88),

    row("gossip", "cifar10", "torus36", 32, 89.04, 0.10, 89.21, pairs=36),
    row("gossip", "cifar10", "torus36", 32, 88.14, 0.08, 89.21, pairs=18),
    row("gossip", "cifar100", "cycle4", 32, 68.50, 0.19, 68.21, pairs=4),
    row("gossip", "cifar100", "cycle4", 32, 68.45, 0.10, 68.21, pairs=1),

    row("lsr", "cifar10", "torus36", 32, 74.88, 1.15, 91.5, lsr=True),
    row("lsr", "cifar10", "dense5", 32, 91.14, 0.01, 91.16, lsr=True),
    row("lsr", "cifar10", "sparse10", 32, 90.17, 0.10, 90.77, lsr=True),
    row("lsr", "cifar10", "cycle4", 32, 92.13, 0.09, 91.5, lsr=True),
    row("lsr", "cifar10", "cycle4", 32, 92.02, None, 91.5, lsr=True, pairs=4),
    row("lsr", "cifar10", "cycle4", 32, 91.96, None, 91.5, lsr=True, pairs=2),
    row("lsr", "cifar10", "cycle4", 32, 91.64, None, 91.5, lsr=True, pairs=1),
    row("lsr", "fashion", "cycle4", 100, 91.80, 0.16, 92.18, lsr=True),
    row("lsr", "cifar100", "cycle4", 128, 67.67, None, 68.21, lsr=True),
    row("lsr", "cifar100", "cycle4", 128, 66.63, None, 68.21, lsr=True, pairs=4),
    row("lsr", "cifar100", "cycle4", 128, 67.23, None, 68.21, lsr=True, pairs=1),

    # Ours: the study has no unequal shares on Fashion-MNIST, which is the set everybody has at hand.
    row("ours", "fashion", "cycle4", 25, None, None, None, unequal="every round"),
    row("ours", "fashion", "torus36", 6, None, None, None, unequal="every round"),
]


def name_of(r):
    name = f"{r['of']}-{r['graph']}-batch{r['batch']}"
    if "unequal" in r:
        name += "-unequal" + ("-mixing" if r["unequal"] == "every round" and r["table"] == "unequal" else "")
    name += f"-gossip{r['pairs']}" if "pairs" in r else ""
    name += f"-every{r['every']}" if "every" in r else ""
    return name + ("-lsr" if "lsr" in r else "")


def total_batch(r):
    return r["batch"] * GRAPHS[r["graph"]][0]


def rival_of(r):
    return f"{r['of']}-single-batch{total_batch(r)}" + ("-lsr" if "lsr" in r else "")


# ---- the sections of a file ----

def grid(numbers, indent):
    """A list as YAML writes it; 36 numbers stand in the order of the torus."""
    lines = [numbers[i:i + 6] for i in range(0, len(numbers), 6)]
    return "[" + (",\n" + " " * indent).join(", ".join(map(str, line)) for line in lines) + "]"


def data(of, batch, sizes=None):
    if of == "fashion":
        text = f"data:     {{ set: fashion-mnist, batch: {batch} }}\n"
    else:
        text = f"data:     {{ set: {'cifar-100' if of == 'cifar100' else 'cifar-10'}, batch: {batch}, flip: true, crop: 4 }}\n"
    if sizes:
        text = text.replace(" }\n", f",\n            split: {{ kind: sizes, sizes: {grid(sizes, 42)} }} }}\n")
    return text


def model(of):
    return f"model:    {'fashion-cnn' if of == 'fashion' else 'resnet20'}\n"


def fashion_schedule(agents):
    """Epochs, and where the rate is divided by ten. Batches of six need more of it, and so then does their rival."""
    return (10, [7]) if agents < 12 else (20, [12, 17])


def optim(of, lr, agents, scale=""):
    if of == "fashion":
        steps = fashion_schedule(agents)[1]
        return f"optim:    {{ kind: adam, lr: {lr:g}{scale}, schedule: {{ kind: step, epochs: {steps}, factor: 0.1 }} }}\n"
    return f"""optim:
  kind: sgd
  lr: {lr:g}{scale}
  momentum: 0.9
  weight_decay: 0.0001
  schedule: {{ kind: step, epochs: [81, 122], factor: 0.1, warmup_epochs: 5 }}
"""


def strategy(r):
    if "pairs" in r:
        return f"strategy: {{ kind: gossip, pairs: {r['pairs']} }}\n"
    if "unequal" in r:
        every = LEARN_EVERY[r["graph"]]
        text = f"strategy:\n  kind: consensus\n  learn_every: {grid(every, 16)}\n"
        return text + (f"  mix_every:   {grid(every, 16)}\n" if r["unequal"] == "when they learn" else "")
    if "every" in r:
        return f"strategy: {{ kind: consensus, every: {r['every']} }}\n"
    return "strategy: consensus\n"


def train(of, agents, rivals):
    """Judging every agent costs about as much as an epoch where there are many, so it is done more rarely."""
    if of == "fashion":
        often = "1 epoch" if agents < 12 else "5 epochs"
        return f"train:    {{ epochs: {fashion_schedule(rivals)[0]}, seed: 1, evaluate_every: {often}, checkpoint_every: 5 epochs }}\n"
    often = "2 epochs" if agents < 12 else "8 epochs"
    return f"train:    {{ epochs: 164, seed: 1, evaluate_every: {often}, checkpoint_every: {often} }}\n"


# ---- the files ----

def published(r):
    spread = f" +- {r['spread']:.2f}" if r["spread"] is not None else ""
    return f"{r['agents']:.2f}{spread} %"


def manner(r):
    words = ["gossip on %d random edge%s a round" % (r["pairs"], "" if r["pairs"] == 1 else "s") if "pairs" in r else "average consensus"]
    words += [f"mixing every {r['every']} rounds"] if "every" in r else []
    words += [f"unequal shares, mixing {r['unequal']}"] if "unequal" in r else []
    words += ["the learning rate times the number of agents"] if "lsr" in r else []
    return ", ".join(words)


def numbers(r):
    if r["agents"] is None:
        return "# Not a row of the study. Its rival is a single model with a batch of %d.\n" % total_batch(r)
    return f"# The study: {published(r)}; its single rival: {r['single']:.2f} %.\n"


def row_text(r):
    agents, what, spec, weights = GRAPHS[r["graph"]]
    every = LEARN_EVERY.get(r["graph"])
    sizes = [max(every) // e for e in every] if "unequal" in r else None
    scale = "" if "lsr" not in r else ", scale_lr: true" if r["of"] == "fashion" else "\n  scale_lr: true"
    return (f"# {SETS[r['of']]}, {what}, batch {r['batch']}:\n# {manner(r)}.\n{numbers(r)}\n"
            f"name:     {name_of(r)}\n" + data(r["of"], r["batch"], sizes) + model(r["of"])
            + optim(r["of"], RATE[r["of"]], agents, scale)
            + f"agents:   {agents}\ntopology: {{ graph: {spec}, weights: {weights} }}\n"
            + strategy(r) + train(r["of"], agents, agents))


def rival_text(r):
    agents, lsr = GRAPHS[r["graph"]][0], "lsr" in r
    lr = RATE[r["of"]] * (agents if lsr else 1)
    why = f"\n# The learning rate is {agents} times the usual one, as theirs." if lsr else ""
    return (f"# {SETS[r['of']]}, a single model with a batch of {total_batch(r)}: the rival of\n"
            f"# {agents} agents with a batch of {r['batch']} each.{why}\n\n"
            f"name:     {rival_of(r)}\n" + data(r["of"], total_batch(r)) + model(r["of"]) + optim(r["of"], lr, agents)
            + "strategy: single\n" + train(r["of"], 1, agents))


def index_text():
    def cell(value):
        return "-" if value is None else f"{value:.2f}"

    lines = ["# What scripts/thesis.sh reads. Every row and every rival is a file beside this one, ROW.yaml.",
             "# Percent, as the study published them: mean and spread over the agents, and the single rival.",
             f"# {'table':<10} {'row':<44} {'rival':<32} {'mean':>6} {'spread':>6} {'single':>6}"]
    for r in ROWS:
        lines.append(f"{r['table']:<12} {name_of(r):<44} {rival_of(r):<32} "
                     f"{cell(r['agents']):>6} {cell(r['spread']):>6} {cell(r['single']):>6}")
    return "\n".join(lines) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    files = {"index.txt": index_text()}
    for r in ROWS:
        if f"{name_of(r)}.yaml" in files:
            sys.exit(f"two rows are called {name_of(r)}")
        files[f"{name_of(r)}.yaml"] = row_text(r)
    for r in ROWS:
        files[f"{rival_of(r)}.yaml"] = rival_text(r)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.yaml"):
        old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text)


main()
