#!/usr/bin/env python3
"""The world `mpi` on this machine: sums beside the MPI's own, training on ranks beside training on threads, buckets.

    bench/ranks.py PATH/TO/veche [--mpirun mpirun] [--rounds 7] [--only sums,training,overlap] [--quick] [--out FILE]

sums       `veche bench allreduce world=mpi` with 2 and 4 ranks: from 1 MiB on the best algorithm of ours should take at most
           1/0.9 of the time of the MPI's own all-reduce
training   resnet20 on made-up pictures of CIFAR-10's shape, fp32: 2 ranks of one thread at batch 64 against one process with
           2 threads at batch 128; at least 0.95 of the images a second are wanted, medians of rounds in which the two take
           turns
overlap    the share of a step that ranks wait, with `bucket_kb` and without, on a network that is made slow

Prints tables, and at last one line of JSON with the ratios; every figure of every round goes to ranks.json beside the program. What other processes took of the cores is
measured beside every figure, and where that is much there is no verdict. Nothing is installed; runs go to a folder that is
taken away again. Whoever is root on this machine must allow Open MPI to run: OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set here.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare import MOST_OTHERS, busy_seconds, child_seconds, processor

EXPERIMENT = """name: ranks
data: {{set: {{kind: images, channels: 3, size: 32, samples: {samples}, test_samples: 64}}, batch: 64}}
model: resnet20
optim: {{kind: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.0001}}
train: {{epochs: 1, evaluate_every: never, checkpoint_every: never}}
"""
ENVIRONMENT = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                   PRTE_MCA_hwloc_default_binding_policy="none")


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("veche")
    p.add_argument("--mpirun", default="mpirun", help="of the MPI the program was built with")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--samples", type=int, default=10240, help="that each training learns from")
    p.add_argument("--only", default="sums,training,overlap")
    p.add_argument("--quick", action="store_true", help="one short round: to see that it works")
    p.add_argument("--out", help="where the figures go (default: ranks.json beside the program)")
    args = p.parse_args()
    args.veche = os.path.abspath(args.veche)
    args.out = args.out or os.path.join(os.path.dirname(args.veche), "ranks.json")
    if args.quick:
        args.rounds, args.samples = 1, 1280
    if not os.access(args.veche, os.X_OK):
        sys.exit(f"ranks: there is no program {args.veche}: `make build` makes it")
    if not shutil.which(args.mpirun):
        sys.exit(f"ranks: there is no launcher {args.mpirun}")
    return args


class Ranks:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.results = dict(processor=processor(), cores=len(os.sched_getaffinity(0)), rounds=args.rounds,
                            samples=args.samples)

    def save(self):
        with open(self.args.out + ".part", "w") as out:
            json.dump(self.results, out, indent=1)
            out.write("\n")
        os.replace(self.args.out + ".part", self.args.out)

    def run(self, words, ranks=0):
        """Runs the program, under the launcher where there are ranks; gives its output and what others took of the cores."""
        launch = [self.args.mpirun, "-n", str(ranks)] if ranks else []
        busy, own, start = busy_seconds(), child_seconds(), time.monotonic()
        done = subprocess.run(launch + [self.args.veche] + words, cwd=self.folder, env=os.environ | ENVIRONMENT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800)
        wall = time.monotonic() - start
        if done.returncode != 0:
            sys.exit(f"ranks: exit code {done.returncode} from: {' '.join(launch + words)}\n{done.stderr.strip()}")
        others = busy_seconds() - busy - (child_seconds() - own)
        return done.stdout, round(max(0, others) / (wall * os.cpu_count()), 4)

    def train(self, settings, ranks=0):
        """One training; its images a second, waiting share and seconds."""
        out, others = self.run(["run", "experiment.yaml", *settings], ranks)
        kept = next(line.split()[-1] for line in out.splitlines() if line.strip().startswith("kept in"))
        with open(os.path.join(self.folder, kept, "summary.json")) as file:
            s = json.load(file)
        shutil.rmtree(os.path.join(self.folder, kept))
        return dict(images_per_s=s["images_per_s"], waiting_share=s["waiting_share"], real_s=s["real_s"], others=others)

    def turns(self, name, measures, rounds):
        """All measures in turn, every other round backwards; all figures of all rounds."""
        figures = self.results.setdefault(name, {})
        for r in range(rounds):
            for label, measure in list(measures.items())[:: -1 if r % 2 else 1]:
                print(f"  {name}, round {r + 1} of {rounds}: {label}", file=sys.stderr)
                figures.setdefault(label, []).append(measure())
                self.save()
        return figures


def median(figures, key):
    return statistics.median(f[key] for f in figures)


def verdict(reached, figures):
    others = max(median(f, "others") for f in figures)
    if others > MOST_OTHERS:
        return f"not judged, others took {others:.0%} of the cores"
    return "reached" if reached else "NOT reached"


def sums(bench):
    words = ["bench", "allreduce", "world=mpi"] + (["repeats=1"] if bench.args.quick else [])

    def measure(ranks):
        out, others = bench.run(words, ranks)
        return dict(json.loads(out), others=others)

    figures = bench.turns("sums", {f"{n} ranks": lambda n=n: measure(n) for n in (2, 4)}, 1 if bench.args.quick else 3)
    table = {}
    for label, rounds in figures.items():
        print(f"\nA sum over {label}, {rounds[0]['library']}: microseconds, medians of {len(rounds)} runs; ratio: the MPI's time to "
              "ours, wanted 0.90 from 1 MiB on\n")
        print(f"{'KiB':>8} {'copy':>9} {'MPI':>9} {'best of ours':>13} {'':<17} {'ratio':>6}  ratio in each run")
        ratios = []
        for i, span in enumerate(rounds[0]["spans"]):
            each = [r["spans"][i] for r in rounds]
            ratio = median(each, "best_over_native")
            ratios += [ratio] if span["bytes"] >= 1 << 20 else []
            table.setdefault(label, {})[f"{span['bytes'] >> 10} KiB"] = [round(e["best_over_native"], 3) for e in each]
            print(f"{span['bytes'] >> 10:8d} {median(each, 'copy_s') * 1e6:9.1f} {median(each, 'native_s') * 1e6:9.1f} "
                  f"{median(each, 'best_s') * 1e6:13.1f} {each[0]['best']:<17} {ratio:6.2f}  "
                  + " ".join(f"{e['best_over_native']:.2f}" for e in each))
        print(f"least ratio from 1 MiB on: {min(ratios):.2f}, {verdict(min(ratios) >= 0.9, [rounds])}")
    return table


def training(bench):
    figures = bench.turns("training", {
        "one process, 2 threads": lambda: bench.train(["strategy=single", "data.batch=128", "engine.threads=2"]),
        "2 ranks of one thread": lambda: bench.train(["strategy=allreduce", "world=mpi", "engine.threads=1"], 2),
    }, bench.args.rounds)
    print("\nresnet20, fp32, 128 images a step: images a second in each round\n")
    for label, rounds in figures.items():
        print(f"  {label:<23} median {median(rounds, 'images_per_s'):6.0f}:  "
              + " ".join(f"{f['images_per_s']:.0f}" for f in rounds)
              + "   others took " + " ".join(f"{f['others']:.0%}" for f in rounds))
    one, two = figures.values()
    ratio = median(two, "images_per_s") / median(one, "images_per_s")
    waits = " ".join(f"{f['waiting_share']:.1%}" for f in two)
    print(f"  ratio {ratio:.3f}, wanted 0.95, {verdict(ratio >= 0.95, [one, two])}; ranks waited {waits}")
    return dict(ratio=round(ratio, 4), rounds=[round(b["images_per_s"] / a["images_per_s"], 4) for a, b in zip(one, two)])


def overlap(bench):
    """On a network on which the gradient travels for about as long as the backward pass takes."""
    settings = ["world=mpi", "engine.threads=1", "network.bandwidth_mbps=150"]
    figures = bench.turns("overlap", {
        "in one piece": lambda: bench.train(settings + ["strategy={kind: allreduce}"], 2),
        "in buckets": lambda: bench.train(settings + ["strategy={kind: allreduce, bucket_kb: 128}"], 2),
    }, 1 if bench.args.quick else 3)
    print("\nresnet20 on 2 ranks, a network of 150 Mbit/s: the share of its time that a rank waits\n")
    for label, rounds in figures.items():
        print(f"  gradient {label:<13} " + " ".join(f"{f['waiting_share']:.1%}" for f in rounds)
              + f"   images a second {median(rounds, 'images_per_s'):.0f}")
    whole, buckets = (median(f, "waiting_share") for f in figures.values())
    print(f"  lower with buckets: {'yes' if buckets < whole else 'NO'}")
    return dict(in_one_piece=round(whole, 4), in_buckets=round(buckets, 4))


def main():
    args = read_arguments()
    folder = tempfile.mkdtemp(prefix="veche-ranks-")
    try:
        with open(os.path.join(folder, "experiment.yaml"), "w") as file:
            file.write(EXPERIMENT.format(samples=args.samples))
        bench = Ranks(args, folder)
        print(f"{processor()}, {len(os.sched_getaffinity(0))} cores")
        parts = {"sums": sums, "training": training, "overlap": overlap}
        bench.results["ratios"] = {part: parts[part](bench) for part in args.only.split(",")}
        bench.save()
        print(f"\nall figures: {args.out}\n" + json.dumps(bench.results["ratios"]))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
