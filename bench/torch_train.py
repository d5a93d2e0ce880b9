#!/usr/bin/env python3
"""How many samples a second PyTorch trains on: one line of JSON, the counterpart of `veche bench engine`.

    /usr/bin/python3 bench/torch_train.py --model resnet20 --batch 32 --precision fp32 --mode tuned --threads 2

A step gathers a batch of bytes, normalises it, and goes forward, backward and through the optimiser (SGD with momentum
for resnet20, Adam for the others), as a step of veche does.

    default   PyTorch as it comes with Debian's python3-torch: the plain BLAS, contiguous tensors
    tuned     the fastest known to us: channels-last, memory kept instead of given back to the system after every
              tensor, a BLAS that shares PyTorch's OpenMP threads, gradients dropped rather than zeroed

Both are settings of the loader and of malloc, which are read at a program's start, so the script starts itself again
with the right environment.
"""

import argparse
import json
import os
import sys
import sysconfig
import time

LIBRARIES = "/usr/lib/" + (sysconfig.get_config_var("MULTIARCH") or "")
BLAS = {"default": (LIBRARIES + "/blas", LIBRARIES + "/lapack"), "tuned": (LIBRARIES + "/openblas-openmp",)}
MALLOC = {  # the greatest threshold glibc accepts is 32 MiB; from there on nothing is mapped apart
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", choices=("resnet20", "fashion-cnn", "lenet"), default="resnet20")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--mode", choices=("default", "tuned"), default="tuned")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--blas", help="folder with the tuned mode's libblas.so.3 (default: Debian's openblas-openmp)")
    return p.parse_args()


def start_again(args):
    """In the environment of the mode, unless this already is it."""
    if os.environ.get("TORCH_TRAIN_MODE") == args.mode:
        return
    folders = (args.blas,) if args.blas and args.mode == "tuned" else BLAS[args.mode]
    if not os.path.exists(folders[0] + "/libblas.so.3"):
        sys.exit(f"{folders[0]} has no libblas.so.3: `scripts/setup.sh bench` installs it")
    env = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    env.update(TORCH_TRAIN_MODE=args.mode, LD_LIBRARY_PATH=":".join(folders), OMP_NUM_THREADS=str(args.threads))
    if args.mode == "tuned":
        env.update(MALLOC)
    os.execve(sys.executable, [sys.executable] + sys.argv, env)


def loaded_blas():
    """The file that really serves as BLAS, as the kernel sees it."""
    with open("/proc/self/maps") as maps:
        names = {line.split()[-1] for line in maps if "blas" in line}
    return sorted(names)


def make_step(args):
    import torch
    from torch.nn import functional as F

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
    import torch_models

    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    tuned, cifar = args.mode == "tuned", args.model == "resnet20"
    layout = torch.channels_last if tuned else torch.contiguous_format
    network = {"resnet20": lambda: torch_models.kaiming(torch_models.resnet20()), "fashion-cnn": torch_models.FashionCnn,
               "lenet": torch_models.LeNet}[args.model]()
    network = network.to(memory_format=layout).train()
    if cifar:
        optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    else:
        optimiser = torch.optim.Adam(network.parameters(), lr=0.001)

    shape, n = ((3, 32, 32) if cifar else (1, 28, 28)), 2048
    pixels = torch.randint(0, 256, (n,) + shape, dtype=torch.uint8)
    labels = torch.randint(0, 10, (n,))
    mean = torch.full((shape[0], 1, 1), 0.45)
    scale = torch.full((shape[0], 1, 1), 1 / 0.25)

    def step():
        picks = torch.randint(0, n, (args.batch,))
        x = pixels[picks].float().div_(255).sub_(mean).mul_(scale).contiguous(memory_format=layout)
        optimiser.zero_grad(set_to_none=tuned)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = F.cross_entropy(network(x), labels[picks])
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def main():
    args = read_arguments()
    start_again(args)
    step = make_step(args)
    for _ in range(3):
        step()
    n, start = 0, time.monotonic()
    while n < 5 or time.monotonic() - start < args.seconds:
        step()
        n += 1
    seconds = (time.monotonic() - start) / n
    print(json.dumps(dict(engine="pytorch", mode=args.mode, model=args.model, batch=args.batch, threads=args.threads,
                          precision=args.precision, images_per_s=round(args.batch / seconds, 1),
                          ms_per_step=round(seconds * 1e3, 3), steps=n, blas=loaded_blas())))


if __name__ == "__main__":
    main()
