#!/usr/bin/env python3
"""Does veche learn as PyTorch does? ResNet-20 on the same part of CIFAR-10, several seeds, curves side by side.

    VECHE_DATA=... /usr/bin/python3 tools/curve_cifar.py --veche build/veche --seeds 1 2 3 > curve.json

Without --veche only PyTorch runs. Both programs train on the very same pictures: data.limit takes a subset that follows
from the seed (src/data/dataset.c), and `choose` below draws the same one. Order, crops, flips and initial parameters
come from each program's own random numbers, so single curves differ; their means over the seeds should differ by no more
than chance. Mean and deviation over the seeds for each epoch go to stderr as a table, with the difference in units of
its standard error (by chance alone, with three seeds one in twenty lies beyond 2.8, with five beyond 2.3); everything
goes to stdout as JSON.

Recipe, the same for both: SGD 0.1, momentum 0.9, weight decay 1e-4, warm-up over one epoch, a tenth of the rate for
the last three tenths of the time (which calms the test accuracy), flips, crops with 4 pixels of padding.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch.nn import functional as F

from torch_models import kaiming, resnet20

MEAN = torch.tensor((0.4914, 0.4822, 0.4465))[:, None, None]
DEVIATION = torch.tensor((0.2023, 0.1994, 0.2010))[:, None, None]
LR, MOMENTUM, DECAY, WARMUP_EPOCHS, CROP = 0.1, 0.9, 1e-4, 1.0, 4
RNG_LIMIT, TRAIN, TEST = 6, 0, 1  # src/base/rng.h, src/data/dataset.c
MASK = 2**64 - 1


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--veche", help="the program to compare with")
    p.add_argument("--data", default=os.path.join(os.environ.get("VECHE_DATA", "."), "cifar-10"))
    p.add_argument("--limit", type=int, default=5000)
    p.add_argument("--test-limit", type=int, default=2000)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch", type=int, default=50)
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="at least two where veche is compared")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--patience", type=float, default=3600, help="seconds one run of veche may take")
    args = p.parse_args()
    if args.veche and len(args.seeds) < 2:
        p.error("one seed says nothing about chance: give at least two")
    return args


# --- the subset that veche takes --------------------------------------------------------------------------------------


def rng_hash(key, i):
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def rng_stream(seed, agent, purpose, index):
    """xoshiro256**, seeded as in src/base/rng.c."""
    key = rng_hash(rng_hash(rng_hash(seed, agent), purpose), index)
    s = [rng_hash(key, i) for i in range(4)]
    rotate = lambda x, k: ((x << k) | (x >> (64 - k))) & MASK
    while True:
        yield (rotate((s[1] * 5) & MASK, 7) * 9) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


def below(stream, n):
    x = next(stream)
    while x < 2**64 % n:
        x = next(stream)
    return x % n


def choose(seed, part, n, count):
    stream, chosen = rng_stream(seed, 0, RNG_LIMIT, part), []
    for i in range(n):
        if len(chosen) < count and below(stream, n - i) < count - len(chosen):
            chosen.append(i)
    return chosen


def read_part(folder, names):
    for name in names:
        if not os.path.exists(os.path.join(folder, name)):
            sys.exit(f"curve: {folder} has no {name}: `veche data get cifar-10` fetches it, VECHE_DATA says where it lies")
    records = np.concatenate([np.fromfile(os.path.join(folder, n), np.uint8).reshape(-1, 3073) for n in names])
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def take(part, seed, index, count):
    pixels, labels = part
    chosen = choose(seed, index, len(labels), count)
    return torch.from_numpy(pixels[chosen]), torch.from_numpy(labels[chosen])


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def augment(pixels, draws):
    """Half of the pictures mirrored, each shifted by up to CROP pixels; what comes in from outside is black."""
    padded = F.pad(pixels, (CROP,) * 4)
    out = torch.empty_like(pixels)
    for i in range(len(pixels)):
        flip, dy, dx = (int(torch.randint(0, n, (1,), generator=draws)) for n in (2, 2 * CROP + 1, 2 * CROP + 1))
        picture = padded[i, :, dy : dy + 32, dx : dx + 32]
        out[i] = picture.flip(2) if flip else picture
    return out


def normalise(pixels):
    return ((pixels.float() / 255 - MEAN) / DEVIATION).contiguous(memory_format=torch.channels_last)


def rate(k, rounds_per_epoch, epochs):
    lr = LR * (0.1 if k / rounds_per_epoch >= drop_epoch(epochs) else 1)
    return lr * min(1, (k + 1) / (WARMUP_EPOCHS * rounds_per_epoch))


def drop_epoch(epochs):
    return round(0.7 * epochs, 3)


def examine(network, pixels, labels):
    network.eval()
    loss = hits = 0
    with torch.no_grad():
        for i in range(0, len(labels), 250):
            y = network(normalise(pixels[i : i + 250]))
            loss += float(F.cross_entropy(y, labels[i : i + 250], reduction="sum"))
            hits += int((y.argmax(1) == labels[i : i + 250]).sum())
    network.train()
    return loss / len(labels), 100 * hits / len(labels)


def train_torch(args, seed, train, test):
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed + 1000)
    network = kaiming(resnet20()).to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(network.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    pixels, labels = train
    n, curve, losses = len(labels), [], []
    rounds = math.ceil(args.epochs * n / args.batch)
    order = torch.cat([torch.randperm(n, generator=draws) for _ in range(args.epochs + 1)])
    for k in range(rounds):
        picks = order[k * args.batch : (k + 1) * args.batch]
        optimiser.param_groups[0]["lr"] = rate(k, n / args.batch, args.epochs)
        optimiser.zero_grad()
        loss = F.cross_entropy(network(normalise(augment(pixels[picks], draws))), labels[picks])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if (k + 1) * args.batch // n > k * args.batch // n or k + 1 == rounds:
            test_loss, accuracy = examine(network, *test)
            curve.append(dict(epoch=(k + 1) * args.batch / n, train_loss=statistics.mean(losses), loss=test_loss,
                              accuracy=accuracy))
            losses = []
    return curve


# --- veche ------------------------------------------------------------------------------------------------------------

EXPERIMENT = """
name: curve
data: {{ set: cifar-10, batch: {batch}, limit: {limit}, test_limit: {test_limit}, flip: true, crop: {crop} }}
model: resnet20
optim:
  kind: sgd
  lr: {lr}
  momentum: {momentum}
  weight_decay: {decay}
  schedule: {{ kind: step, epochs: [{drop}], factor: 0.1, warmup_epochs: {warmup} }}
train: {{ epochs: {epochs}, seed: {seed}, evaluate_every: 1 epoch, checkpoint_every: never }}
engine: {{ threads: {threads} }}
"""


def train_veche(args, seed):
    text = EXPERIMENT.format(batch=args.batch, limit=args.limit, test_limit=args.test_limit, crop=CROP, lr=LR,
                             momentum=MOMENTUM, decay=DECAY, drop=drop_epoch(args.epochs), warmup=WARMUP_EPOCHS,
                             epochs=args.epochs, seed=seed, threads=args.threads)
    env = dict(os.environ, VECHE_DATA=os.path.dirname(os.path.abspath(args.data)))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "curve.yaml")
        with open(path, "w") as file:
            file.write(text)
        command = [args.veche, "run", path, "--json", f"--folder={folder}/runs"]
        try:
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=args.patience)
        except subprocess.TimeoutExpired:
            sys.exit(f"curve: veche did not end within {args.patience:g} s")
        if done.returncode != 0:
            sys.exit("curve: " + (done.stderr.strip().splitlines() or ["veche failed in silence"])[-1])
        with open(os.path.join(json.loads(done.stdout)["run"], "events.jsonl")) as lines:
            events = [json.loads(line) for line in lines]
    return [dict(epoch=e["epoch"], **{k: e["agents"][0][k] for k in ("train_loss", "loss", "accuracy")})
            for e in events if e["event"] == "evaluation"]


# --- the comparison ---------------------------------------------------------------------------------------------------


def summary(curves, key):
    """Mean and deviation over the seeds, for each epoch."""
    columns = [[curve[i][key] for curve in curves] for i in range(min(map(len, curves)))]
    return [(statistics.mean(c), statistics.stdev(c)) for c in columns]


def show(key, torch_curves, veche_curves):
    print(f"\n{key:<11} {'PyTorch':>17} {'veche':>17} {'difference':>11} {'/ its error':>11}", file=sys.stderr)
    rows = []
    for i, ((a, s), (b, t)) in enumerate(zip(summary(torch_curves, key), summary(veche_curves, key))):
        error = math.sqrt((s * s + t * t) / len(torch_curves))
        z = (b - a) / max(error, 1e-12)
        print(f"epoch {i + 1:<5} {a:>9.3f} +-{s:>6.3f} {b:>9.3f} +-{t:>6.3f} {b - a:>+11.3f} {z:>+11.2f}", file=sys.stderr)
        rows.append(dict(epoch=i + 1, torch=a, torch_deviation=s, veche=b, veche_deviation=t, in_errors=z))
    return rows


def main():
    args = read_arguments()
    torch.set_num_threads(args.threads)
    train = read_part(args.data, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test = read_part(args.data, ["test_batch.bin"])
    result = dict(settings={k: v for k, v in vars(args).items() if k not in ("data", "veche")}, torch=[], veche=[])
    for seed in args.seeds:
        result["torch"].append(train_torch(args, seed, take(train, seed, TRAIN, args.limit),
                                           take(test, seed, TEST, args.test_limit)))
        print(f"seed {seed}: PyTorch {result['torch'][-1][-1]['accuracy']:.2f} %", file=sys.stderr)
        if args.veche:
            result["veche"].append(train_veche(args, seed))
            print(f"seed {seed}: veche   {result['veche'][-1][-1]['accuracy']:.2f} %", file=sys.stderr)
    if args.veche:
        result["comparison"] = {k: show(k, result["torch"], result["veche"]) for k in ("train_loss", "accuracy")}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
