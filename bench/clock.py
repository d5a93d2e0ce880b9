#!/usr/bin/env python3
"""The virtual clock beside the real one: the same experiment in the local world, whose clock is virtual, and on ranks.

    bench/clock.py PATH/TO/veche [--mpirun mpirun] [--rounds 5] [--agents 2] [--samples 8000] [--only allreduce,ps] [--out FILE]

fashion-cnn, batch 32, Adam, agents of one thread each on this machine; Fashion-MNIST must be here (`veche data get`). For every
method and round this machine is measured (`machines: {measured: AGENTS}`), the virtual clock tells from that what the method takes, and the
ranks train. The table has the medians over the rounds, and of the ratios virtual / real the median, least and greatest. Wanted: within
15 % for each method, and the order of the methods that differ by more than they scatter.

The virtual seconds come from the engine `null`, which does nothing: the clock depends on the numbers measured, not on what is
learnt. Neither side counts loading, evaluation and saving. What other processes took of the cores is measured as well; where that
is much, figures mean little.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare import MOST_OTHERS, busy_seconds, child_seconds, processor
from ranks import ENVIRONMENT

EXPERIMENT = """name: clock
data: {{set: fashion-mnist, batch: 32, limit: {samples}, test_limit: 100}}
model: fashion-cnn
optim: {{kind: adam, lr: 0.001}}
agents: {agents}
topology: complete:{agents}
strategy: allreduce
engine: {{threads: 1}}
machines: {{measured: {agents}}}
train: {{epochs: 1, seed: 42, evaluate_every: never, checkpoint_every: never}}
"""
METHODS = {"allreduce": 0, "consensus": 0, "average": 0, "ps": 1, "easgd": 1}  # and how many ranks only help
MOST_OFF = 0.15


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("veche")
    p.add_argument("--mpirun", default="mpirun", help="of the MPI the program was built with")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--agents", type=int, default=2)
    p.add_argument("--samples", type=int, default=8000)
    p.add_argument("--out", help="where the figures go (default: clock.json beside the program)")
    p.add_argument("--only", default=",".join(METHODS), help="methods, with commas between (default: all five)")
    args = p.parse_args()
    args.only = args.only.split(",")
    for method in args.only:
        if method not in METHODS:
            p.error(f"--only: '{method}' is none of {', '.join(METHODS)}")
    args.veche = os.path.abspath(args.veche)
    args.out = args.out or os.path.join(os.path.dirname(args.veche), "clock.json")
    return args


class Clock:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.figures = []  # of each round: {method: [virtual, real]}
        self.measured = []

    def run(self, *settings, ranks=0):
        """The run's summary, and what others took of the cores meanwhile."""
        launch = [self.args.mpirun, "-n", str(ranks)] if ranks else []
        shutil.rmtree(os.path.join(self.folder, "runs"), ignore_errors=True)
        busy, own, began = busy_seconds(), child_seconds(), time.monotonic()
        done = subprocess.run([*launch, self.args.veche, "run", "clock.yaml", "--json", *settings], cwd=self.folder,
                              env=dict(os.environ, **ENVIRONMENT), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"clock: {' '.join(settings)}: {done.stderr.strip()}")
        wall = time.monotonic() - began
        others = max(0, busy_seconds() - busy - (child_seconds() - own)) / (wall * os.cpu_count())
        return json.loads(done.stdout[done.stdout.index("{"):]), others

    def measure(self):
        self.run("train.epochs=0.01")
        with open(os.path.join(self.folder, "runs/clock/experiment.yaml")) as file:
            text = file.read()
        self.measured.append([float(re.search(rf"\b{key}: ([^\s}}]+)", text)[1]) for key in ("rate", "memory_gbps", "sigma")])
        return "machines={{rate: {}, memory_gbps: {}, stragglers: {{scatter: {}}}}}".format(*self.measured[-1])

    def round(self):
        figures = {}
        for method, helpers in ((m, METHODS[m]) for m in self.args.only):
            machines = self.measure()
            there, others = self.run("world=mpi", "machines={}", f"strategy={method}", ranks=self.args.agents + helpers)
            here, _ = self.run("engine.kind=null", machines, f"strategy={method}")
            figures[method] = dict(virtual_s=here["virtual_s"], real_s=there["virtual_s"], others=round(others, 3))
        self.figures.append(figures)


def table(clock):
    rates, memories, sigmas = zip(*clock.measured)
    print(f"measured: {statistics.median(rates):.0f} samples a second ({min(rates):.0f} to {max(rates):.0f}), "
          f"memory {statistics.median(memories):.1f} GB/s, lessons scatter by {statistics.median(sigmas):.3f} ({min(sigmas):.3f} to {max(sigmas):.3f})")
    print(f"{'method':10} {'virtual s':>10} {'real s':>8} {'ratio':>6} {'least':>6} {'most':>6}  others")
    for method in clock.args.only:
        of = [f[method] for f in clock.figures]
        ratios = [f["virtual_s"] / f["real_s"] for f in of]
        middle = {key: statistics.median(f[key] for f in of) for key in of[0]}
        off = abs(statistics.median(ratios) - 1)
        verdict = "" if off <= MOST_OFF else "  off by more than 15 %"
        verdict += "  (others are busy)" if middle["others"] > MOST_OTHERS else ""
        print(f"{method:10} {middle['virtual_s']:10.3f} {middle['real_s']:8.3f} {statistics.median(ratios):6.2f} "
              f"{min(ratios):6.2f} {max(ratios):6.2f}  {middle['others']:.0%}{verdict}")
    for side in ("virtual_s", "real_s"):
        order = sorted(clock.args.only, key=lambda m: statistics.median(f[m][side] for f in clock.figures))
        print(f"{side[:-2]:8} {' < '.join(order)}")


def main():
    args = read_arguments()
    folder = tempfile.mkdtemp(prefix="veche-clock-")
    try:
        with open(os.path.join(folder, "clock.yaml"), "w") as file:
            file.write(EXPERIMENT.format(samples=args.samples, agents=args.agents))
        clock = Clock(args, folder)
        print(f"{processor()}, {len(os.sched_getaffinity(0))} cores")
        for _ in range(args.rounds):
            clock.round()
        table(clock)
        with open(args.out, "w") as file:
            json.dump(dict(processor=processor(), measured=clock.measured, figures=clock.figures), file, indent=1)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
