#!/usr/bin/env python3
"""Speed on an NVIDIA GPU: `veche bench engine engine=cuda` beside PyTorch, in the same run on the same device.

    python3 bench/gpu.py PATH/TO/veche [--seconds 3] [--precision bf16] [--kernels]

A step gathers a batch of bytes, normalises it, and goes forward, backward and through SGD with momentum. PyTorch, where
it is installed, runs in bf16 with channels last:

    eager    one agent after the other, each operation launched by Python: how such studies are mostly done
    graph    the same, a step of all agents captured once as one CUDA graph and replayed

Each of PyTorch's figures comes from a process of its own; one that fails is a dash, and its last words follow the table.
"""

import argparse
import json
import os
import subprocess
import sys
import time

ROUNDS = ((36, 32), (36, 6), (4, 32), (1, 128), (1, 32))  # agents, batch


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("veche")
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    p.add_argument("--kernels", action="store_true", help="also print each kernel's share of the first row")
    p.add_argument("--torch", nargs=3, metavar=("WAY", "AGENTS", "BATCH"), help="only this figure of PyTorch's")
    return p.parse_args()


def bench_veche(args, agents, batch):
    settings = dict(engine="cuda", model="resnet20", precision=args.precision, replicas=agents, batch=batch,
                    seconds=args.seconds)
    words = [args.veche, "bench", "engine"] + [f"{k}={v}" for k, v in settings.items()]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


class Agent:
    """One model, its optimiser and its step."""

    def __init__(self, torch, samples, batch, precision):
        from torch.nn import functional
        import torch_models

        network = torch_models.kaiming(torch_models.resnet20()).cuda().to(memory_format=torch.channels_last).train()
        optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        pixels, labels, mean, scale = samples
        picks = torch.randint(0, len(labels), (batch,), device="cuda")

        def step():
            x = pixels[picks].float().div_(255).sub_(mean).mul_(scale).contiguous(memory_format=torch.channels_last)
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
                loss = functional.cross_entropy(network(x), labels[picks])
            loss.backward()
            optimiser.step()

        self.step = step


def capture(torch, step):
    """The step as a CUDA graph, after a few to warm up. One graph for all agents: PyTorch 2.11 crashed with one each."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def rate(torch, step, images, seconds):
    step()
    torch.cuda.synchronize()
    n, began = 0, time.monotonic()
    while n < 3 or time.monotonic() - began < seconds:
        step()
        torch.cuda.synchronize()
        n += 1
    return images * n / (time.monotonic() - began)


def measure_torch(args):
    """Prints images a second of one way."""
    import torch

    way, agents, batch = args.torch[0], int(args.torch[1]), int(args.torch[2])
    torch.manual_seed(1)
    samples = (torch.randint(0, 256, (2048, 3, 32, 32), dtype=torch.uint8, device="cuda"),
               torch.randint(0, 10, (2048,), device="cuda"),
               torch.full((3, 1, 1), 0.45, device="cuda"), torch.full((3, 1, 1), 4.0, device="cuda"))
    all_agents = [Agent(torch, samples, batch, args.precision) for _ in range(agents)]

    def step():
        for a in all_agents:
            a.step()

    step = capture(torch, step) if way == "graph" else step
    print(rate(torch, step, agents * batch, args.seconds), flush=True)


def has_torch():
    words = [sys.executable, "-c", "import torch; assert torch.cuda.is_available()"]
    return subprocess.run(words, capture_output=True).returncode == 0


def bench_torch(args, way, agents, batch, troubles):
    """Images a second, or None."""
    words = [sys.executable, os.path.abspath(__file__), args.veche, "--precision", args.precision, "--seconds", str(args.seconds),
             "--torch", way, str(agents), str(batch)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["no word"]
        troubles.append(f"PyTorch, {way}, {agents} x {batch}: exit {done.returncode}: {last[0].strip()}")
        return None
    return float(done.stdout)


def main():
    args = read_arguments()
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
    if args.torch:
        return measure_torch(args)
    ways, troubles = ("eager", "graph") if has_torch() else (), []
    print(f"ResNet-20, {args.precision}: images a second   (TB/s and TFLOP/s of veche, of its ceilings)")
    print(f"{'agents':>6} {'batch':>5} {'veche':>9} {'TB/s':>12} {'TFLOP/s':>12} {'eager':>9} {'graph':>9}", flush=True)
    first = None
    for agents, batch in ROUNDS:
        v = bench_veche(args, agents, batch)
        first, d = first or v, v["device"]
        figures = [bench_torch(args, way, agents, batch, troubles) for way in ways] or [None, None]
        moved = f"{d['gbytes_per_s'] / 1e3:.2f} / {d['peak_gbytes_per_s'] / 1e3:.2f}"
        done = f"{v['gflops'] / 1e3:.0f} / {v['peak_gflops'] / 1e3:.0f}"
        others = " ".join(f"{x:>9.0f}" if x else f"{'-':>9}" for x in figures)
        print(f"{agents:>6} {batch:>5} {v['images_per_s']:>9.0f} {moved:>12} {done:>12} {others}", flush=True)
    for k in first["device"]["kernels"] if args.kernels else []:
        print(f"  {k['name']:<32} {k['calls']:>3} calls {k['ms'] * 1e3:>8.1f} us {100 * k['share']:>5.1f} %")
    for trouble in troubles:
        print(trouble)
    return None


if __name__ == "__main__":
    main()
