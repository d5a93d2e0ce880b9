#!/usr/bin/env python3
"""Golden values: what PyTorch gives for ten training steps of our networks.

    /usr/bin/python3 tools/golden_models.py > tests/engine/golden_models.h

Parameters, pictures, labels, picks and dropout masks follow from one integer hash (rng_hash in src/base/rng.h), so the
C test starts from the same bits without any file. Everything is computed in float32 and in float64, and again in
float64 from parameters disturbed by a hundred-thousandth: how far those losses spread says what agreement one may ask
of another program at all. One undisturbed float32 run does not say it: it may happen to take no kink of a ReLU the
other way. A case that spreads too far is refused.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from torch_models import FashionCnn, LeNet, Residual, resnet20

KEY = 20240
MOST_STEPS = 10
DISTURBANCE, DISTURBED_RUNS, MOST_SPREAD = 1e-5, 4, 5e-4
EXAM = 16  # test samples examined after the last step


def rng_hash(key, i):
    """rng_hash of src/base/rng.h for an array of positions."""
    with np.errstate(over="ignore"):
        z = np.uint64(key) + (np.asarray(i, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def sub_key(*path):
    key = np.uint64(KEY)
    for p in path:
        key = rng_hash(key, p)
    return key


def uniforms(key, n):
    """n floats in [-1, 1) with 24 bits each: exact in float32."""
    bits = (rng_hash(key, np.arange(n)) >> np.uint64(40)).astype(np.float32)
    return (bits - np.float32(2**23)) * np.float32(2.0**-23)


# --- parameters: [-1, 1) times a power of two near sqrt(6 / fan_in) for convolutions, sqrt(1 / fan_in) for linear
#     layers; weights of batchnorm around one, biases around zero -------------------------------------------------------


def set_parameters(network):
    for p, (name, tensor) in enumerate(network.named_parameters()):
        u = uniforms(sub_key(0, p), tensor.numel())
        if tensor.dim() > 1:
            most = (6 if tensor.dim() == 4 else 1) / tensor[0].numel()
            scale = 1.0
            while scale * scale > most:
                scale /= 2
            values = u * np.float32(scale)
        elif name.endswith("weight"):
            values = np.float32(1) + u * np.float32(0.25)
        else:
            values = u * np.float32(0.125)
        tensor.data = torch.from_numpy(values.reshape(tuple(tensor.shape))).to(tensor.dtype)


# --- samples: a coarse pattern for each class, half hidden by noise ---------------------------------------------------


class Samples:
    def __init__(self, part, n, c, h, w):
        self.labels = (rng_hash(sub_key(1, part), np.arange(n)) % np.uint64(10)).astype(np.int64)
        noise = rng_hash(sub_key(2, part), np.arange(n * c * h * w)).reshape(n, c, h, w) >> np.uint64(57)
        ch, y, x = np.meshgrid(np.arange(c), np.arange(h) // 8, np.arange(w) // 8, indexing="ij")
        cell = (self.labels[:, None, None, None] * c + ch) * 16 + y * 4 + x
        self.pixels = (noise + (rng_hash(sub_key(3), cell) >> np.uint64(57))).astype(np.uint8)

    def batch(self, picks, mean, deviation, dtype):
        """Flip, shift (outside is a zero byte), then normalise, as struct pick says."""
        out = np.zeros((len(picks),) + self.pixels.shape[1:], np.uint8)
        h, w = out.shape[2:]
        for b, (sample, flip, dy, dx) in enumerate(picks):
            picture = self.pixels[sample][:, :, ::-1] if flip else self.pixels[sample]
            padded = np.pad(picture, ((0, 0), (4, 4), (4, 4)))
            out[b] = padded[:, 4 + dy : 4 + dy + h, 4 + dx : 4 + dx + w]
        mean = torch.tensor(mean, dtype=torch.float32).to(dtype)[:, None, None]
        deviation = torch.tensor(deviation, dtype=torch.float32).to(dtype)[:, None, None]
        x = (torch.from_numpy(out).to(dtype) / 255 - mean) / deviation
        return x, torch.from_numpy(self.labels[[p[0] for p in picks]])


def picks_of_step(step, batch):
    picks = []
    for b in range(batch):
        r = int(rng_hash(sub_key(4), step * batch + b))
        picks.append((step * batch + b, r & 1, (r >> 8) % 9 - 4, (r >> 16) % 9 - 4))
    return picks


class HashDropout(nn.Module):
    """veche's dropout: element i of the batch falls where the hash of (seed, op, i) is small."""

    def __init__(self, rate, op):
        super().__init__()
        self.rate, self.op, self.seed = rate, op, 0

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        draws = rng_hash(rng_hash(self.seed, self.op), np.arange(x.numel())) >> np.uint64(40)
        keeps = torch.from_numpy((draws >= self.rate * 2**24).reshape(tuple(x.shape)))
        return x * keeps.to(x.dtype) / (1 - self.rate)


# --- the cases --------------------------------------------------------------------------------------------------------

# resnet20 takes its ten steps under a warm-up (lr (k + 1) / warm-up rounds), as the study does. At 0.1 from the first
# step (batch 8) nothing could be compared: disturbed by 1e-6, PyTorch's float64 losses leave each other by 6e-4 in the
# second step and 1e-2 in the third, and float32 is more than 0.1 from float64 before the tenth.

CIFAR = dict(shape=(3, 32, 32), mean=(0.4914, 0.4822, 0.4465), deviation=(0.2023, 0.1994, 0.2010))
FASHION = dict(shape=(1, 28, 28), mean=(0.28604,), deviation=(0.35302,))
DROPOUT_OP = 8  # conv, batchnorm+relu, maxpool, twice; reshape; linear; dropout


OPTIMISERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "adam": lambda params: torch.optim.Adam(params, lr=0.001),
}

def fashion_cnn(rate):
    return FashionCnn(dropout=HashDropout(rate, DROPOUT_OP))


class Flat(nn.Sequential):
    def forward(self, x):
        return super().forward(x.flatten(1))


def mlp():
    return Flat(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def mixed():
    """A list of layers with every kind that the named networks lack."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.Tanh(),
        Residual(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6)), nn.ReLU(),
        nn.AvgPool2d(3, 2, 1), nn.Conv2d(6, 8, 3, padding=1), nn.Sigmoid(), nn.MaxPool2d(3, 2, 1),
        nn.Flatten(), nn.Linear(32, 10))


def one_hot(labels, x):
    return F.one_hot(labels, x.shape[1]).to(x.dtype)


LOSSES = {
    "cross-entropy": F.cross_entropy,
    "mse": lambda x, labels: F.mse_loss(x, one_hot(labels, x)),
    "hinge": F.multi_margin_loss,
    "logistic": lambda x, labels: F.binary_cross_entropy_with_logits(x, one_hot(labels, x)),
}


def case(id, model, make, data, **rest):
    return dict(dict(id=id, model=model, make=make, data=data, loss="cross-entropy", rate=0, batch=8, steps=10,
                     optim="sgd", warmup=1), **rest)


CASES = [
    case("resnet20", "resnet20", resnet20, CIFAR, batch=4, warmup=1000),
    case("fashion_cnn", "fashion-cnn", lambda: fashion_cnn(0), FASHION, optim="adam"),
    case("fashion_cnn_dropout", "fashion-cnn", lambda: fashion_cnn(0.25), FASHION, rate=0.25, optim="adam"),
    case("lenet", "lenet", LeNet, FASHION, warmup=20),
    case("mlp", "mlp:64-32", mlp, FASHION, warmup=20),
    case("mixed_mse", "mixed", mixed, FASHION, loss="mse"),
    case("mixed_hinge", "mixed", mixed, FASHION, loss="hinge"),
    case("mixed_logistic", "mixed", mixed, FASHION, loss="logistic"),
]


def statistics(network):
    return [(n, t) for n, t in network.named_buffers() if not n.endswith("num_batches_tracked")]


def moved(tensors, before):
    """How far each tensor went: the length of the way, and its sum against a fixed pattern (which sees order)."""
    rows = []
    for p, (name, t) in enumerate(tensors):
        way = (t.detach().double() - before[name].double()).flatten().numpy()
        pattern = uniforms(sub_key(5, p), way.size).astype(np.float64)
        rows.append((name, float(np.sqrt((way * way).sum())), float((way * pattern).sum())))
    return rows


def disturb(network, seed):
    draws = np.random.RandomState(seed)
    for p in network.parameters():
        noise = draws.uniform(-DISTURBANCE, DISTURBANCE, tuple(p.shape))
        p.data *= torch.from_numpy(1 + noise).to(p.dtype)


def train(case, dtype, disturbed=None):
    torch.manual_seed(0)
    network = case["make"]().to(dtype)
    set_parameters(network)
    if disturbed is not None:
        disturb(network, disturbed)
    before = {n: t.detach().clone() for n, t in list(network.named_parameters()) + statistics(network)}
    optimiser = OPTIMISERS[case["optim"]](network.parameters())
    lr = optimiser.param_groups[0]["lr"]
    data = case["data"]
    samples = Samples(0, case["steps"] * case["batch"], *data["shape"])
    criterion = LOSSES[case["loss"]]
    losses = []
    network.train()
    for step in range(case["steps"]):
        for m in network.modules():
            if isinstance(m, HashDropout):
                m.seed = 1000 + step
        optimiser.param_groups[0]["lr"] = lr * min(1, (step + 1) / case["warmup"])
        x, labels = samples.batch(picks_of_step(step, case["batch"]), data["mean"], data["deviation"], dtype)
        optimiser.zero_grad()
        loss = criterion(network(x), labels)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    network.eval()
    test = Samples(1, EXAM, *data["shape"])
    x, labels = test.batch([(i, 0, 0, 0) for i in range(EXAM)], data["mean"], data["deviation"], dtype)
    with torch.no_grad():
        y = network(x)
    return dict(lr=lr, losses=losses, exam=float(criterion(y, labels)), hits=int((y.argmax(1) == labels).sum()),
                params=moved(network.named_parameters(), before), stats=moved(statistics(network), before))


# --- the header -------------------------------------------------------------------------------------------------------


def furthest(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def print_rows(kind, case, rows):
    """Prints the table, if there is one, and gives what the case says of it."""
    if not rows:
        return ""
    print(f"static const struct golden_tensor {case}_{kind}[] = {{")
    for name, length, mark in rows:
        print(f'    {{"{name}", {length:.9g}, {mark:.9g}}},')
    print("};")
    return f"    .{kind} = {case}_{kind},\n    .n_{kind} = {len(rows)},\n"


def print_case(case, single, double, spread):
    name = case["id"]
    listed = lambda xs: ", ".join(f"{x:.9g}" for x in xs)
    gap = furthest(single["losses"], double["losses"])
    print(f"\n/* {name}: PyTorch's losses in float32 lie within {gap:.1e} of those in float64, the exam's within")
    print(f" * {abs(single['exam'] - double['exam']):.1e}; parameters disturbed by {DISTURBANCE:.0e} spread the losses by {spread:.1e}. */")
    tables = print_rows("params", name, double["params"]) + print_rows("stats", name, double["stats"])
    print(f"static const struct golden golden_{name} = {{")
    print(f'    .model = "{case["model"]}",\n    .optim = "{case["optim"]}",\n    .batch = {case["batch"]},')
    print(f'    .lr = {double["lr"]},\n    .warmup = {case["warmup"]},\n    .rate = {case["rate"]},')
    print(f'    .shape = {{{listed(case["data"]["shape"])}}},')
    print(f'    .mean = {{{listed(case["data"]["mean"])}}},\n    .deviation = {{{listed(case["data"]["deviation"])}}},')
    print(f'    .loss_kind = "{case["loss"]}",\n    .steps = {case["steps"]},')
    print(f"    .loss = {{{listed(single['losses'])}}},")
    print(f"    .loss64 = {{{listed(double['losses'])}}},")
    print(f"    .exam = {double['exam']:.9g},\n    .exam_hits = {double['hits']},")
    print(tables + "};")


HEAD = f"""/* golden_models.h - ten training steps as PyTorch takes them. Generated by tools/golden_models.py; do not edit.
 *
 * Made with PyTorch {torch.__version__}. The test computes parameters, samples and masks by the same formulas.
 */
/* clang-format off */
#ifndef VECHE_TESTS_GOLDEN_MODELS_H
#define VECHE_TESTS_GOLDEN_MODELS_H

#include <stddef.h>

enum {{ GOLDEN_KEY = {KEY}, GOLDEN_STEPS = {MOST_STEPS}, GOLDEN_EXAM = {EXAM}, GOLDEN_DROPOUT_OP = {DROPOUT_OP} }};

/* How far a tensor moved in the ten steps (computed in float64). */
struct golden_tensor {{
    const char *name;
    double length; /* Euclidean, of the difference to its start             */
    double mark;   /* sum of the difference times a fixed pattern in [-1, 1) */
}};

struct golden {{
    const char *model, *optim, *loss_kind;
    size_t batch, steps;
    size_t shape[3];             /* channels, rows, columns of a picture             */
    float mean[3], deviation[3]; /* by channel                                       */
    double lr, warmup;           /* step k (from 0) has the rate lr min(1, (k + 1) / warmup) */
    double rate;                 /* of dropout                                       */
    double loss[GOLDEN_STEPS];   /* of each step, PyTorch in float32                 */
    double loss64[GOLDEN_STEPS]; /* the same in float64                              */
    double exam;                 /* loss after the steps on GOLDEN_EXAM test samples */
    size_t exam_hits;
    const struct golden_tensor *params, *stats;
    size_t n_params, n_stats;
}};"""


def main():
    torch.set_num_threads(1)
    print(HEAD)
    for case in CASES:
        single, double = train(case, torch.float32), train(case, torch.float64)
        assert single["hits"] == double["hits"], "a sample lies too near a border to be counted"
        spread = max(furthest(train(case, torch.float64, i)["losses"], double["losses"]) for i in range(DISTURBED_RUNS))
        assert spread < MOST_SPREAD, f"{case['id']}: the losses spread by {spread}: too far to compare"
        print_case(case, single, double, spread)
    print("\n#endif")


if __name__ == "__main__":
    main()
