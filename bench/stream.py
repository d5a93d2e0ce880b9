#!/usr/bin/env python3
"""Training from samples on disk beside training from samples in memory: the same run, in turns, and the ratio of their speeds.

    bench/stream.py PATH/TO/veche [--gpu] [--window 20] [--rounds 5] [--model resnet20] [--samples 50000] [--epochs EPOCHS] [--out FILE]

The set is made here: random pictures in CIFAR's binary layout, as large as CIFAR-10 (184 MB), which lie in the system's memory for files
once they are written. On the CPU one agent with batch 128; with --gpu 36 agents on a torus with batch 32, in bf16, on the engine `cuda`.
Each round trains in memory and streamed, first the one and then the other in turn. The figures are samples a second of training and
evaluation together, without opening. The ratio is that of a round, and its median is judged: at least 0.95 on the CPU, 0.9 on a GPU. What
other processes take of the cores is measured as well, and where that is much there is no verdict.
The samples trained fill the window several times, else all of them would lie there before they are asked for: fewer epochs are refused.
Both have to come to the same bits.
"""

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare import MOST_OTHERS, busy_seconds, child_seconds, processor

EXPERIMENT = """name: stream
data: {{set: {{kind: cifar-binary, train: train.bin, test: test.bin}}, batch: {batch}, flip: true, crop: 4,
       mean: [0.5, 0.5, 0.5], deviation: [0.25, 0.25, 0.25]}}
model: {model}
optim: {{kind: sgd, lr: 0.01, momentum: 0.9}}
agents: {agents}
topology: "{topology}"
strategy: consensus
engine: {{kind: {engine}, precision: {precision}}}
train: {{epochs: {epochs}, seed: 42, evaluate_every: 1 epoch, checkpoint_every: never}}
"""
CPU = dict(batch=128, agents=1, topology="complete:1", engine="dnnl", precision="fp32", least=0.95)
GPU = dict(batch=32, agents=36, topology="torus:6x6", engine="cuda", precision="bf16", least=0.9)
PIXELS = 3072
LEAST_WINDOWS = 5  # that the samples trained must fill


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("veche")
    p.add_argument("--gpu", action="store_true", help="36 agents on the engine cuda")
    p.add_argument("--window", type=float, default=20, help="megabytes")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--model", default="resnet20")
    p.add_argument("--samples", type=int, default=50000, help="training samples; a fifth as many for tests")
    p.add_argument("--epochs", type=float, help=f"default: what fills the window {LEAST_WINDOWS} times; on a GPU an epoch, if that is more")
    p.add_argument("--out", help="where the figures go (default: stream.json beside the program)")
    args = p.parse_args()
    args.veche = os.path.abspath(args.veche)
    least = math.ceil(100 * LEAST_WINDOWS * args.window * 1e6 / (args.samples * PIXELS)) / 100
    args.epochs = args.epochs or max(least, 1 if args.gpu else 0)
    if args.epochs < least:
        p.error(f"{args.epochs:g} epochs of {args.samples} samples do not fill a window of {args.window:g} MB {LEAST_WINDOWS} times; the least is {least:g}")
    args.out = args.out or os.path.join(os.path.dirname(args.veche), "stream.json")
    return args


def make_set(folder, samples):
    draw = random.Random(1)
    for name, n in (("train.bin", samples), ("test.bin", samples // 5)):
        with open(os.path.join(folder, name), "wb") as file:
            for i in range(n):
                file.write(bytes([i % 10]) + draw.randbytes(PIXELS))


def train(args, folder, settings):
    """Samples a second, seconds of the cores, what others took of them, and what the run came to."""
    shutil.rmtree(os.path.join(folder, "runs"), ignore_errors=True)
    busy, own, began = busy_seconds(), child_seconds(), time.monotonic()
    done = subprocess.run([args.veche, "run", "stream.yaml", "--json", *settings], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"stream: {' '.join(settings)}: {done.stderr.strip()}")
    wall, used = time.monotonic() - began, child_seconds() - own
    others = max(0, busy_seconds() - busy - used) / (wall * os.cpu_count())
    summary = json.loads(done.stdout[done.stdout.index("{"):])
    return dict(rate=summary["images_per_s"], core_s=used, others=round(others, 3), bits=summary["params_sha256"])


def median_of(figures, side, key):
    return statistics.median(f[side][key] for f in figures)


def spread(ratios):
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def table(figures, least):
    """Whether streaming is as fast as wanted, or cannot be judged."""
    print(f"{'':10} {'samples/s':>10} {'core s':>8}  others")
    for side in ("memory", "streamed"):
        rate, cores, others = (median_of(figures, side, key) for key in ("rate", "core_s", "others"))
        print(f"{side:10} {rate:10.0f} {cores:8.2f}  {others:.0%}")
    rates, cores = ([f["streamed"][key] / f["memory"][key] for f in figures] for key in ("rate", "core_s"))
    is_busy = max(median_of(figures, side, "others") for side in ("memory", "streamed")) > MOST_OTHERS
    is_fine = is_busy or statistics.median(rates) >= least
    verdict = "  (not judged: others are busy)" if is_busy else "" if is_fine else "  (too slow)"
    print(f"streamed / memory: {spread(rates)}, wanted {least}{verdict}; core seconds {spread(cores)}")
    return is_fine


def main():
    args = read_arguments()
    way = GPU if args.gpu else CPU
    folder = tempfile.mkdtemp(prefix="veche-stream-")
    sides = {"memory": [], "streamed": ["data.stream=true", f"data.window_mb={args.window}"]}
    figures = []
    try:
        make_set(folder, args.samples)
        with open(os.path.join(folder, "stream.yaml"), "w") as file:
            file.write(EXPERIMENT.format(model=args.model, epochs=args.epochs, **way))
        print(f"{processor()}, {len(os.sched_getaffinity(0))} cores; {args.samples * 1.2 * PIXELS / 1e6:.0f} MB of samples, a window of {args.window:g} MB, {args.epochs:g} epochs")
        for i in range(args.rounds):
            order = list(sides) if i % 2 == 0 else list(sides)[::-1]
            figures.append({side: train(args, folder, sides[side]) for side in order})
            if figures[-1]["memory"]["bits"] != figures[-1]["streamed"]["bits"]:
                sys.exit("stream: streamed samples came to other bits than those in memory")
            print(f"round {i + 1}: {figures[-1]['memory']['rate']:.0f} and {figures[-1]['streamed']['rate']:.0f} samples/s", flush=True)
        fine = table(figures, way["least"])
        with open(args.out, "w") as file:
            json.dump(dict(processor=processor(), arguments=vars(args), figures=figures), file, indent=1)
    finally:
        shutil.rmtree(folder)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
