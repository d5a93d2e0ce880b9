#!/usr/bin/env python3
"""Two programs side by side: what the second costs against the first, as after a change, or with other flags.

    bench/pairs.py FIRST SECOND [--pairs 25] [--only WORDS] [--mpirun mpirun] [--out FILE]

Each row is measured in pairs, a short measurement of the one and at once of the other, in turn: where a shared machine's speed moves, it
moves for both. The ratio is the median of the pairs', second to first, more is faster, with the interval that holds the true median 19
times of 20. `--only ranks,resnet20` takes the rows whose names have one of the words. Nothing else should run meanwhile. The command in
BEFORE (the environment's, mostly empty) stands before each measurement. Rows on ranks are left out where there is no launcher.
"""

import argparse
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

from ranks import ENVIRONMENT

EXPERIMENT = """name: pairs
data: {set: {kind: images, channels: 3, size: 32, samples: 2560, test_samples: 64}, batch: 64}
model: resnet20
optim: {kind: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.0001}
agents: 2
topology: complete:2
strategy: allreduce
world: mpi
engine: {threads: 1}
train: {epochs: 1, evaluate_every: never, checkpoint_every: never}
"""
SMALL = ["data.set={kind: blobs, classes: 3, features: 16, samples: 64000, test_samples: 10}", "data.batch=16", "model=mlp:32"]


def engine(*words):
    return lambda bench, program: bench.say(program, ["bench", "engine", "engine=dnnl", "seconds=0.3", *words])["images_per_s"]


def seconds_of(key, *words):
    return lambda bench, program: 1 / bench.say(program, ["bench", *words])[key]


def training(*settings, ranks=2):
    return lambda bench, program: bench.say(program, ["run", "pairs.yaml", *settings], ranks)["images_per_s"]


def sums(ranks):
    def measure(bench, program):
        spans = bench.say(program, ["bench", "allreduce", "world=mpi", "repeats=3"], ranks)["spans"]
        return 1 / statistics.geometric_mean(span["best_s"] for span in spans)
    return measure


ROWS = {
    "resnet20, batch 32": engine("model=resnet20", "batch=32"),
    "resnet20, batch 128": engine("model=resnet20", "batch=128"),
    "resnet20, batch 32, bf16": engine("model=resnet20", "batch=32", "precision=bf16"),
    "fashion-cnn, batch 32": engine("model=fashion-cnn", "batch=32"),
    "lenet, batch 64": engine("model=lenet", "batch=64"),
    "mlp:500-500, batch 32": engine("model=mlp:500-500", "batch=32"),
    "messages, 36 agents": seconds_of("scheduler_s", "local"),
    "rounds, 36 x resnet20": seconds_of("seconds", "mix"),
    "mixes, 36 x resnet20": seconds_of("mix_s", "mix", "data.batch=1", "data.set.samples=180"),
    "their steps": seconds_of("update_s", "mix", "data.batch=1", "data.set.samples=180"),
    "2 ranks, resnet20": training(),
    "2 ranks, small rounds": training(*SMALL),
    "2 ranks, consensus": training("strategy=consensus"),
    "3 ranks, ps": training("strategy=ps", ranks=3),
    "3 ranks, ps, small rounds": training(*SMALL, "strategy=ps", ranks=3),
    "2 ranks, sums": sums(2),
    "4 ranks, sums": sums(4),
}


class Bench:
    def __init__(self, mpirun, folder):
        self.mpirun, self.folder = mpirun, folder

    def say(self, program, words, ranks=0):
        """What the program prints as JSON."""
        launch = [self.mpirun, "-n", str(ranks)] if ranks else []
        done = subprocess.run([*shlex.split(os.environ.get("BEFORE", "")), *launch, program, *words, "--json"], cwd=self.folder,
                              env=os.environ | ENVIRONMENT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"pairs: {program} {' '.join(words)}: {done.stderr.strip()}")
        shutil.rmtree(os.path.join(self.folder, "runs"), ignore_errors=True)
        return json.loads(done.stdout)


def interval(n):
    """Of n values in order, those between which the true median lies 19 times of 20."""
    below, chance = 0, 0.5**n
    while chance < 0.025:
        below, chance = below + 1, chance + 0.5**n * math.comb(n, below + 1)
    return max(below - 1, 0), min(n - below, n - 1)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("first")
    p.add_argument("second")
    p.add_argument("--pairs", type=int, default=25)
    p.add_argument("--only", help="words of the rows to measure, with commas between")
    p.add_argument("--mpirun", default="mpirun", help="of the MPI the programs were built with")
    p.add_argument("--out", help="a file for every figure, as JSON")
    args = p.parse_args()
    programs = [os.path.abspath(args.first), os.path.abspath(args.second)]
    wanted = [name for name in ROWS if not args.only or any(word in name for word in args.only.split(","))]
    if not wanted:
        p.error(f"--only: no row has a word of '{args.only}': {'; '.join(ROWS)}")
    low, high = interval(args.pairs)
    figures = {}
    print(f"{'':26}{'first':>12}{'second':>12}{'ratio':>8}{'between':>14}")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "pairs.yaml"), "w") as file:
            file.write(EXPERIMENT)
        bench = Bench(args.mpirun, folder)
        for name in wanted:
            if " ranks" in name and not shutil.which(args.mpirun):
                print(f"{name:26}left out: there is no launcher {args.mpirun}")
                continue
            found = figures[name] = [[], []]
            for i in range(args.pairs):
                for which in (0, 1) if i % 2 else (1, 0):
                    found[which].append(ROWS[name](bench, programs[which]))
            ratios = sorted(b / a for a, b in zip(*found))
            a, b = (statistics.median(values) for values in found)
            print(f"{name:26}{a:12.5g}{b:12.5g}{statistics.median(ratios):8.3f}{ratios[low]:7.3f}{ratios[high]:7.3f}", flush=True)
    if args.out:
        with open(args.out, "w") as out:
            json.dump(figures, out, indent=1)


if __name__ == "__main__":
    main()
