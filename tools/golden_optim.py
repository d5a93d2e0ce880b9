#!/usr/bin/env python3
"""Writes tests/optim/golden_optim.h: what PyTorch's optimisers make of given gradients.

Run once with Debian's python3-torch:   /usr/bin/python3 tools/golden_optim.py > tests/optim/golden_optim.h

The starting point and the gradients are small rationals that C and Python compute alike (see `start` and `gradient`
here and in test_steps.c), so that only results are stored: theta after every step, the slots after the last.
"""
import torch

N, STEPS = 7, 15

CASES = [  # a name, the torch class, its settings, and the slots in veche's order
    ("sgd_plain", "SGD", dict(lr=0.1), []),
    ("sgd_decay", "SGD", dict(lr=0.1, weight_decay=0.05), []),
    ("sgd_momentum", "SGD", dict(lr=0.05, momentum=0.9), ["momentum_buffer"]),
    ("sgd_momentum_decay", "SGD", dict(lr=0.05, momentum=0.8, weight_decay=0.02), ["momentum_buffer"]),
    ("sgd_nesterov", "SGD", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01), ["momentum_buffer"]),
    ("adagrad", "Adagrad", dict(lr=0.1), ["sum"]),
    ("adagrad_all", "Adagrad", dict(lr=0.1, lr_decay=0.03, weight_decay=0.02, eps=1e-3), ["sum"]),
    ("rmsprop", "RMSprop", dict(lr=0.01), ["square_avg"]),
    ("rmsprop_all", "RMSprop", dict(lr=0.01, alpha=0.9, momentum=0.7, weight_decay=0.02, eps=1e-3),
     ["square_avg", "momentum_buffer"]),
    ("adam", "Adam", dict(lr=0.01), ["exp_avg", "exp_avg_sq"]),
    ("adam_all", "Adam", dict(lr=0.02, betas=(0.8, 0.95), weight_decay=0.03, eps=1e-3), ["exp_avg", "exp_avg_sq"]),
    ("adamw", "AdamW", dict(lr=0.01), ["exp_avg", "exp_avg_sq"]),
    ("adamw_all", "AdamW", dict(lr=0.02, betas=(0.7, 0.9), weight_decay=0.2, eps=1e-4), ["exp_avg", "exp_avg_sq"]),
]


def start(i):
    return (i * 37 % 11 - 5) / 8


def gradient(t, i):  # t from 1
    return (((t * 29 + i * 53) % 31) - 15) / 16 if (t + i) % 5 else 0.0


def floats(values):
    return "{" + ", ".join(f"{v:.9g}" for v in values) + "}"


def run(name, cls, settings, slots):
    theta = torch.tensor([start(i) for i in range(N)], dtype=torch.float32, requires_grad=True)
    optim = getattr(torch.optim, cls)([theta], **settings)
    path = []
    for t in range(1, STEPS + 1):
        theta.grad = torch.tensor([gradient(t, i) for i in range(N)], dtype=torch.float32)
        optim.step()
        path.append(floats(theta.detach().tolist()))
    state = optim.state[theta]
    ends = [floats(state[s].tolist()) for s in slots]
    print(f"static const struct golden golden_{name} = {{")
    print("    {" + ",\n     ".join(path) + "},")
    print("    {" + ",\n     ".join(ends or ["{0}"]) + "},\n};\n")


def main():
    print(f"/* Made by tools/golden_optim.py with PyTorch {torch.__version__}. */")
    print("/* clang-format off */")
    print(f"enum {{ GOLDEN_N = {N}, GOLDEN_STEPS = {STEPS} }};\n")
    print("struct golden {\n    float theta[GOLDEN_STEPS][GOLDEN_N]; /* after each step */")
    print("    float slot[2][GOLDEN_N];             /* after the last  */\n};\n")
    for case in CASES:
        run(*case)


main()
