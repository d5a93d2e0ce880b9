#!/usr/bin/env python3
"""The study's training on CIFAR by PyTorch, at full length: a judge between veche's numbers and the published ones.

    tools/torch_cifar.py --data FOLDER --set cifar-100 --batch 128 --seed 1 [--precision bf16]
    tools/torch_cifar.py --data FOLDER --set cifar-10 --agents 4 --batch 32 --seed 1

A single model, or agents on a cycle or a torus: each learns from its own share of the pictures, and after every step takes the mean of itself
and its neighbours (on a cycle a third each, on a torus 1/9 and four times 2/9); momentum and batchnorm's statistics are its own. ResNet-20, SGD (0.1, momentum 0.9, decay 1e-4),
five epochs of warm-up by iterations, a tenth after epochs 81 and 122, 164 epochs; flips and crops on black; the last batch of an epoch is
short, or, with --whole, reaches into the next epoch, as veche's do. FOLDER holds the binary files of the set. On a GPU the pictures stay there and a round of all agents is captured as one CUDA
graph. Prints the training loss and the agents' mean accuracy on the test pictures every few epochs, and at last one line of JSON with
the last and the best of each. With --keep FILE a run that was stopped goes on, when started again, from where it last looked.
"""

import argparse
import copy
import json
import math
import os
import sys
import time

import numpy
import torch
from torch.nn import functional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_models  # noqa: E402

SETS = {
    "cifar-10": dict(classes=10, skip=1, train=[f"data_batch_{i}.bin" for i in range(1, 6)], test=["test_batch.bin"],
                     mean=(0.4914, 0.4822, 0.4465), deviation=(0.2023, 0.1994, 0.2010)),
    "cifar-100": dict(classes=100, skip=2, train=["train.bin"], test=["test.bin"],
                      mean=(0.5071, 0.4867, 0.4408), deviation=(0.2675, 0.2565, 0.2761)),
}


def read_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", required=True, help="folder with the set's binary files")
    p.add_argument("--set", choices=SETS, default="cifar-10")
    p.add_argument("--agents", type=int, default=1, help="if there are several, on the graph")
    p.add_argument("--graph", choices=("cycle", "torus"), default="cycle", help="a torus is a square")
    p.add_argument("--batch", type=int, default=128, help="of an agent")
    p.add_argument("--epochs", type=int, default=164)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--look-every", type=int, default=4, help="epochs")
    p.add_argument("--whole", action="store_true", help="batches reach from one epoch into the next: none is short")
    p.add_argument("--keep", metavar="FILE", help="where the run is written at every look, and read when it starts")
    p.add_argument("--samples", type=int, help="only so many of the training pictures: to see that it works")
    return p.parse_args()


def read_set(args, files, skip, device):
    records = numpy.concatenate([numpy.fromfile(os.path.join(args.data, f), dtype=numpy.uint8) for f in files])
    records = records.reshape(-1, skip + 3072)
    labels = torch.from_numpy(records[:, skip - 1].astype(numpy.int64)).to(device)
    return torch.from_numpy(records[:, skip:].reshape(-1, 3, 32, 32).copy()).to(device), labels


class Agent:
    """One model with its momentum; its parameters are one line of the matrix of all agents'."""

    def __init__(self, network, line, batch, device):
        self.network = network.to(device).to(memory_format=torch.channels_last).train()
        self.params = list(self.network.parameters())
        self.line, self.pace = line, torch.zeros_like(line)
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
        self.loss = torch.zeros((), device=device)  # the sum over an epoch's samples
        self.choice = (torch.zeros(batch, dtype=torch.int64, device=device),
                       torch.zeros(batch, 2, dtype=torch.int64, device=device),
                       torch.zeros(batch, dtype=torch.bool, device=device))  # pictures, corners of crops, flips
        first = 0
        for p in self.params:
            part = line[first:first + p.numel()]
            part.copy_(in_order(p.detach()))
            p.data = (part.view(p.shape[0], p.shape[2], p.shape[3], p.shape[1]).permute(0, 3, 1, 2) if p.dim() == 4
                      else part.view(p.shape))
            first += p.numel()


def in_order(x):
    """As numbers lie in a line: channels last."""
    return (x.permute(0, 2, 3, 1) if x.dim() == 4 else x).reshape(-1)


def weights_of(graph, n):
    """Of the mean each agent takes of itself and its neighbours."""
    w, side = torch.zeros(n, n), math.isqrt(n)
    for i in range(n):
        y, x = divmod(i, side)
        near = ([(i - 1) % n, (i + 1) % n] if graph == "cycle" else
                [y * side + (x + d) % side for d in (-1, 1)] + [(y + d) % side * side + x for d in (-1, 1)])
        for j in near:
            w[i, j] += 1 / 3 if graph == "cycle" else 2 / 9
        w[i, i] += 1 - w[i].sum()
    return w


class Training:
    def __init__(self, args):
        about = SETS[args.set]
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.pixels, self.labels = read_set(args, about["train"], about["skip"], self.device)
        self.test = read_set(args, about["test"], about["skip"], self.device)
        if args.samples:
            self.pixels, self.labels = self.pixels[: args.samples], self.labels[: args.samples]
        self.pixels = functional.pad(self.pixels, (4, 4, 4, 4))  # black
        self.mean = torch.tensor(about["mean"], device=self.device).view(3, 1, 1)
        self.deviation = torch.tensor(about["deviation"], device=self.device).view(3, 1, 1)
        self.lr = torch.zeros((), device=self.device)
        self.make_agents(about["classes"])

    def make_agents(self, classes):
        n = self.args.agents
        torch.manual_seed(self.args.seed)
        first = torch_models.kaiming(torch_models.ResNet(3, classes))
        count = sum(p.numel() for p in first.parameters())
        self.lines = torch.zeros(n, -(-count // 64) * 64, device=self.device)[:, :count]  # each begins where cuDNN may read it
        self.weights = weights_of(self.args.graph, n).to(self.device)
        self.agents = [Agent(copy.deepcopy(first), self.lines[i], self.args.batch, self.device) for i in range(n)]
        each = len(self.labels) // n
        self.shares = torch.randperm(len(self.labels), device=self.device)[: each * n].view(n, each)
        self.left = self.shares[:, :0]  # of the last epoch's order, for the next one's first batch

    def normal(self, pixels):
        x = pixels.float().div_(255).sub_(self.mean).div_(self.deviation)
        return x.contiguous(memory_format=torch.channels_last)

    def pictures(self, picks, at, flips):
        line = torch.arange(32, device=self.device)
        columns = torch.where(flips[:, None], 31 - line, line) + at[:, 1:]
        rows = line + at[:, :1]
        return self.normal(self.pixels[picks[:, None, None, None], torch.arange(3, device=self.device)[None, :, None, None],
                                       rows[:, None, :, None], columns[:, None, None, :]])

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.args.precision == "bf16")

    def learn(self, agent, choice):
        """One step; momentum and decay as torch.optim.SGD has them, the rate a number on the device."""
        with self.autocast():
            loss = functional.cross_entropy(agent.network(self.pictures(*choice)), self.labels[choice[0]])
        grads = torch.cat([in_order(g) for g in torch.autograd.grad(loss, agent.params)])
        with torch.no_grad():
            agent.loss.add_(loss.detach().float(), alpha=len(choice[0]))
            agent.pace.mul_(0.9).add_(grads).add_(agent.line, alpha=1e-4)
            agent.line.sub_(agent.pace * self.lr)

    def learn_all(self, choices):
        """On a GPU each of several agents has a stream of its own."""
        if len(self.agents) == 1 or self.device.type != "cuda":
            for agent, choice in zip(self.agents, choices):
                self.learn(agent, choice)
            return
        here = torch.cuda.current_stream()
        for agent, choice in zip(self.agents, choices):
            agent.stream.wait_stream(here)
            with torch.cuda.stream(agent.stream):
                self.learn(agent, choice)
        for agent in self.agents:
            here.wait_stream(agent.stream)

    def round(self, choices):
        self.learn_all(choices)
        if len(self.agents) > 1:
            with torch.no_grad():
                self.lines.copy_(self.weights @ self.lines)

    def capture(self):
        """A round on the agents' own choices as a CUDA graph; what the rounds to warm up changed is put back."""
        kept = [{k: v.clone() for k, v in a.network.state_dict().items()} for a in self.agents]
        choices = [a.choice for a in self.agents]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.round(choices)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.round(choices)
        with torch.no_grad():
            for a, before in zip(self.agents, kept):
                for k, v in a.network.state_dict().items():
                    v.copy_(before[k])
                a.pace.zero_()
        return graph.replay

    def rate_at(self, epoch):
        base = 0.1 * 0.1 ** ((epoch >= 81) + (epoch >= 122))
        return base * min(1, epoch / 5)

    def one_epoch(self, epoch, replay):
        agents, n = self.shares.shape
        batch = self.args.batch
        order = torch.stack([share[torch.randperm(n, device=self.device)] for share in self.shares])
        begun = self.left.shape[1]
        order = torch.cat([self.left, order], 1)
        end = order.shape[1] // batch * batch if self.args.whole else order.shape[1]
        self.left = order[:, end:]
        at = torch.randint(0, 9, (agents, end, 2), device=self.device)
        flips = torch.rand(agents, end, device=self.device) < 0.5
        for a in self.agents:
            a.loss.zero_()
        for first in range(0, end, batch):
            some = slice(first, min(first + batch, end))
            choices = [(order[i, some], at[i, some], flips[i, some]) for i in range(agents)]
            self.lr.fill_(self.rate_at(epoch + (first - begun) / n))
            if replay and first + batch <= end:
                for a, choice in zip(self.agents, choices):
                    for to, what in zip(a.choice, choice):
                        to.copy_(what)
                replay()
            else:
                self.round(choices)

    def keep(self, **more):
        path = self.args.keep
        random = [torch.get_rng_state()] + ([torch.cuda.get_rng_state()] if self.device.type == "cuda" else [])
        agents = [dict(state=a.network.state_dict(), pace=a.pace) for a in self.agents]
        torch.save(dict(more, agents=agents, shares=self.shares, left=self.left, random=random, settings=self.settings()), path + ".new")
        os.replace(path + ".new", path)

    def go_on(self):
        """From where the run was left, if it was: what keep was told besides the run itself."""
        if not self.args.keep or not os.path.exists(self.args.keep):
            return {}
        kept = torch.load(self.args.keep, map_location=self.device)
        if kept["settings"] != self.settings():
            sys.exit(f"{self.args.keep}: a run with other settings: {kept['settings']}")
        for a, b in zip(self.agents, kept["agents"]):
            a.network.load_state_dict(b["state"])
            a.pace.copy_(b["pace"])
        self.shares, self.left = kept["shares"], kept["left"]
        torch.set_rng_state(kept["random"][0].cpu())
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(kept["random"][1].cpu())
        return kept

    def settings(self):
        return {k: v for k, v in vars(self.args).items() if k not in ("data", "keep", "look_every")}

    def loss(self):
        return sum(float(a.loss) for a in self.agents) / self.shares.numel()

    def accuracy(self, agent):
        agent.network.eval()
        hits = 0
        with torch.no_grad(), self.autocast():
            for first in range(0, len(self.test[1]), 1000):
                said = agent.network(self.normal(self.test[0][first:first + 1000])).argmax(1)
                hits += int((said == self.test[1][first:first + 1000]).sum())
        agent.network.train()
        return 100 * hits / len(self.test[1])


def main():
    args = read_arguments()
    t = Training(args)
    replay = t.capture() if t.device.type == "cuda" else None
    kept = t.go_on()
    last, best = kept.get("last", [0] * args.agents), kept.get("best", [0] * args.agents)
    began = time.monotonic() - kept.get("seconds", 0)
    for epoch in range(kept.get("epoch", 0), args.epochs):
        t.one_epoch(epoch, replay)
        if (epoch + 1) % args.look_every == 0 or epoch + 1 == args.epochs:
            last = [t.accuracy(a) for a in t.agents]
            best = [max(b, a) for b, a in zip(best, last)]
            seconds = time.monotonic() - began
            print(f"{args.set} seed {args.seed} {args.precision}: epoch {epoch + 1} train loss {t.loss():.4f} "
                  f"accuracy {numpy.mean(last):.2f} ({seconds:.0f} s)", flush=True)
            if args.keep:
                t.keep(epoch=epoch + 1, last=last, best=best, seconds=seconds)
    print(json.dumps(dict(set=args.set, agents=args.agents, batch=args.batch, seed=args.seed, precision=args.precision,
                          epochs=args.epochs, mean=numpy.mean(last), best_mean=numpy.mean(best), last=last, best=best,
                          seconds=round(time.monotonic() - began, 1), torch=torch.__version__)))


if __name__ == "__main__":
    main()
