#!/usr/bin/env python3
"""The study's training on CIFAR by PyTorch, at full length: a judge between veche's numbers and the published ones.

    tools/torch_cifar.py --data FOLDER --set cifar-100 --batch 128 --seed 1 [--precision bf16]
    tools/torch_cifar.py --data FOLDER --agents 4 --batch 32 --seed 1
    tools/torch_cifar.py --data FOLDER --agents 4 --batch 32 --pairs 1 --rate 0.4
    tools/torch_cifar.py --data FOLDER --agents 4 --batch 32 --shares 4 2 2 1 --learn-every 1 2 2 4 --whole
    veche topology expander:25 --json >expander.json
    tools/torch_cifar.py --data FOLDER --agents 25 --batch 32 --graph expander.json --mix-every 10

A single model, or agents on a graph: each learns from its own share of the pictures, and after every step (or every few) takes the mean of itself
and its neighbours; momentum and batchnorm's statistics are its own. The mean on a cycle is a third each, on a torus 1/9 and four times 2/9,
else as the file says; with --pairs it is gossip, and so many random edges, one after the other, make their two ends equal. ResNet-20, SGD (0.1,
momentum 0.9, decay 1e-4), five epochs of warm-up by iterations, a tenth after epochs 81 and 122, 164 epochs; flips and crops on black; the last
batch of an epoch is short, or, with --whole, reaches into the next epoch, as veche's do. Agents with --shares learn and mix only every so many
rounds (two neighbours mix when both do).

FOLDER holds the binary files of the set. All agents' networks are computed together (torch_agents); on a GPU convolutions multiply by TF32, as
PyTorch's own do, the pictures stay there, and a round is captured as a CUDA graph. Prints the training loss and the agents' mean accuracy on
the test pictures every few epochs, and at last one line of JSON with the last and the best of each. With --keep FILE a run that was stopped
goes on, when started again, from where it last looked.
"""

import argparse
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
from torch_agents import Networks, prove_networks  # noqa: E402

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
    p.add_argument("--graph", default="cycle", help="cycle, torus (a square), or a file with what `veche topology SPEC --json` said")
    p.add_argument("--pairs", type=int, default=0, help="gossip on so many random edges a round")
    p.add_argument("--mix-every", type=int, default=1, help="rounds")
    p.add_argument("--shares", type=int, nargs="+", help="how the pictures are shared out, one number an agent; else equally")
    p.add_argument("--learn-every", type=int, nargs="+", help="rounds, one number an agent: it learns and mixes in these alone")
    p.add_argument("--batch", type=int, default=128, help="of an agent")
    p.add_argument("--rate", type=float, default=0.1)
    p.add_argument("--epochs", type=int, default=164)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of what convolutions multiply")
    p.add_argument("--look-every", type=int, default=4, help="epochs")
    p.add_argument("--whole", action="store_true", help="batches reach from one epoch into the next: none is short")
    p.add_argument("--keep", metavar="FILE", help="where the run is written at every look, and read when it starts")
    p.add_argument("--samples", type=int, help="only so many pictures of each kind: to see that it works")
    args = p.parse_args()
    for name in ("shares", "learn_every"):
        if getattr(args, name) and len(getattr(args, name)) != args.agents:
            p.error(f"--{name.replace('_', '-')}: {args.agents} agents need {args.agents} numbers")
    if (args.shares or args.learn_every) and not args.whole:
        p.error("agents that differ end their epochs at different times: say --whole")
    return args


def read_set(args, files, skip, device):
    """Pictures with channels last, and their labels."""
    records = numpy.concatenate([numpy.fromfile(os.path.join(args.data, f), dtype=numpy.uint8) for f in files])
    records = records.reshape(-1, skip + 3072)
    labels = torch.from_numpy(records[:, skip - 1].astype(numpy.int64)).to(device)
    return torch.from_numpy(records[:, skip:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy()).to(device), labels


def weights_of(graph, n):
    """Of the mean each agent takes of itself and its neighbours."""
    w, side = torch.zeros(n, n, dtype=torch.float64), math.isqrt(n)
    if graph not in ("cycle", "torus"):
        with open(graph) as f:
            for i, j, weight in json.load(f)["weights"]:
                w[i, j] = w[j, i] = weight
        return w
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
            self.test = tuple(x[: args.samples] for x in self.test)
        self.pixels = functional.pad(self.pixels, (0, 0, 4, 4, 4, 4))  # black
        self.mean, self.deviation = (torch.tensor(about[k], device=self.device) for k in ("mean", "deviation"))
        torch.manual_seed(args.seed)
        first = torch_models.kaiming(torch_models.ResNet(3, about["classes"])).to(self.device)
        multiplies = torch.bfloat16 if args.precision == "bf16" else torch.float32
        self.models = Networks(first, args.agents, about["classes"], multiplies, args.batch if self.device.type == "cuda" else None)
        self.pace = torch.zeros_like(self.models.lines)
        self.loss = torch.zeros(args.agents, device=self.device)  # the sum over an epoch's samples
        self.share_out()
        self.weights = weights_of(args.graph, args.agents)
        self.edges = self.weights.triu(1).nonzero()
        n, batch = args.agents, args.batch
        self.rate = torch.zeros((), device=self.device)
        self.inputs = (torch.zeros(n, batch, dtype=torch.int64, device=self.device),  # pictures
                       torch.zeros(n, batch, 2, dtype=torch.int64, device=self.device),  # corners of crops
                       torch.zeros(n, batch, dtype=torch.bool, device=self.device),  # flips
                       torch.zeros(n, 1, device=self.device),  # who learns
                       torch.zeros(n, n, dtype=torch.float64, device=self.device))  # how all mix

    def share_out(self):
        n = self.args.agents
        parts = torch.tensor([0] + (self.args.shares or [1] * n)).cumsum(0)
        order = torch.randperm(len(self.labels), device=self.device)
        if not self.args.shares:
            order = order[: len(order) // n * n]
        ends = [len(order) * int(p) // int(parts[-1]) for p in parts]
        self.shares = [order[a:b] for a, b in zip(ends, ends[1:])]
        self.left = [share[:0] for share in self.shares]  # of each agent's last order, for its next batch
        self.longest = max(len(share) for share in self.shares)

    def pictures(self, picks, at, flips):
        line = torch.arange(32, device=self.device)
        columns = torch.where(flips[..., None], 31 - line, line) + at[..., 1:]
        rows = line + at[..., :1]
        return self.normal(self.pixels[picks[..., None, None], rows[..., :, None], columns[..., None, :]])

    def normal(self, pixels):
        return pixels.float().div_(255).sub_(self.mean).div_(self.deviation)

    def round(self, picks, at, flips, learns, weights):
        """Momentum and decay as torch.optim.SGD has them, the rate a number on the device; then all mix, in fp64, which TF32 does not touch."""
        loss, grads = self.models.lesson(self.pictures(picks, at, flips), self.labels[picks], learns)
        lines = self.models.lines
        with torch.no_grad():
            self.loss.addcmul_(loss, learns[:, 0], value=picks.shape[1])
            self.pace.add_(learns * (grads.add_(lines, alpha=1e-4) - 0.1 * self.pace))
            lines.sub_(learns * self.pace * self.rate)
            if len(lines) > 1:
                lines.copy_(weights @ lines.double())

    def capture(self):
        """A round on the inputs as a CUDA graph; what the rounds to warm up changed is put back."""
        kept = [x.clone() for x in self.state()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.round(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.round(*self.inputs)
        for x, before in zip(self.state(), kept):
            x.copy_(before)
        return graph.replay

    def state(self):
        return [self.models.lines, self.pace, self.models.means, self.models.variances]

    def rate_at(self, epoch):
        base = self.args.rate * 0.1 ** ((epoch >= 81) + (epoch >= 122))
        return base * min(1, epoch / 5)

    def rounds_of(self, epoch):
        """The number of the first, and when each begins, in epochs."""
        batch, n = self.args.batch, self.longest
        if self.args.whole:
            first = epoch * n // batch
            return first, [k * batch / n for k in range(first, (epoch + 1) * n // batch)]
        each = -(-n // batch)
        return epoch * each, [epoch + i * batch / n for i in range(each)]

    def next_pictures(self, agent, n):
        """A share is gone through in one random order after another."""
        left, share = self.left[agent], self.shares[agent]
        while len(left) < n:
            left = torch.cat([left, share[torch.randperm(len(share), device=self.device)]])
        self.left[agent] = left[n:]
        return left[:n]

    def who_takes_part(self, first, n):
        rounds = torch.arange(first + 1, first + n + 1)[:, None]
        return rounds % torch.tensor(self.args.learn_every or [1] * self.args.agents) == 0

    def mixing(self, first, takes_part):
        """Of each round; whoever does not take part leaves its weight to the others themselves."""
        n = self.args.agents
        one = torch.eye(n, dtype=torch.float64)
        mixes = one.repeat(len(takes_part), 1, 1)
        for i, (k, take) in enumerate(zip(range(first, first + len(takes_part)), takes_part)):
            if (k + 1) % self.args.mix_every:
                continue
            if not self.args.pairs:
                w = self.weights * (1 - one) * take[:, None] * take
                mixes[i] = w + torch.diag(1 - w.sum(1))
                continue
            for a, b in self.edges[torch.randint(len(self.edges), (self.args.pairs,))]:
                mixes[i, [a, b]] = mixes[i, [a, b]].mean(0)
        return mixes.to(self.device)

    def one_epoch(self, epoch, replay):
        first, begins = self.rounds_of(epoch)
        n, batch, agents = len(begins), self.args.batch, self.args.agents
        takes_part = self.who_takes_part(first, n)
        picks = torch.zeros(n * batch, agents, dtype=torch.int64, device=self.device)
        for i in range(agents):
            mine = takes_part[:, i].repeat_interleave(batch)
            wanted = int(mine.sum()) if self.args.whole else len(self.shares[i])
            picks[mine.nonzero()[:wanted, 0].to(self.device), i] = self.next_pictures(i, wanted)
        picks = picks.view(n, batch, agents).transpose(1, 2).contiguous()
        at = torch.randint(0, 9, (n, agents, batch, 2), device=self.device)
        flips = torch.rand(n, agents, batch, device=self.device) < 0.5
        everything = (picks, at, flips, takes_part.to(self.device).float()[..., None], self.mixing(first, takes_part))
        self.loss.zero_()
        for k, begin in enumerate(begins):
            short = 0 if self.args.whole or k + 1 < n else self.longest % batch
            self.rate.fill_(self.rate_at(begin))
            inputs = [x[k] for x in everything]
            if short:
                inputs[:3] = [x[:, :short] for x in inputs[:3]]
            if replay and not short:
                for to, what in zip(self.inputs, inputs):
                    to.copy_(what)
                replay()
            else:
                self.round(*inputs)

    def keep(self, **more):
        path = self.args.keep
        random = [torch.get_rng_state()] + ([torch.cuda.get_rng_state()] if self.device.type == "cuda" else [])
        torch.save(dict(more, state=self.state(), shares=self.shares, left=self.left, random=random, settings=self.settings()), path + ".new")
        os.replace(path + ".new", path)

    def go_on(self):
        """From where the run was left, if it was: what keep was told besides the run itself."""
        if not self.args.keep or not os.path.exists(self.args.keep):
            return {}
        kept = torch.load(self.args.keep, map_location=self.device)
        if kept["settings"] != self.settings():
            sys.exit(f"{self.args.keep}: a run with other settings: {kept['settings']}")
        for x, before in zip(self.state(), kept["state"]):
            x.copy_(before)
        self.shares, self.left = kept["shares"], kept["left"]
        torch.set_rng_state(kept["random"][0].cpu())
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(kept["random"][1].cpu())
        return kept

    def settings(self):
        return {k: v for k, v in vars(self.args).items() if k not in ("data", "keep", "look_every")}

    def mean_loss(self):
        return float(self.loss.sum()) / sum(len(share) for share in self.shares)

    def accuracies(self):
        at_once = max(1, 2000 // self.args.agents)
        hits = torch.zeros(self.args.agents, device=self.device)
        for x, labels in zip(self.test[0].split(at_once), self.test[1].split(at_once)):
            said = self.models.exam(self.normal(x)[None].expand(self.args.agents, -1, -1, -1, -1))
            hits += (said.argmax(2) == labels).sum(1)
        return (100 * hits / len(self.test[1])).tolist()


def main():
    args = read_arguments()
    prove_networks()
    torch.backends.cuda.matmul.allow_tf32 = True
    t = Training(args)
    replay = t.capture() if t.device.type == "cuda" else None
    kept = t.go_on()
    last, best = kept.get("last", [0] * args.agents), kept.get("best", [0] * args.agents)
    began = time.monotonic() - kept.get("seconds", 0)
    for epoch in range(kept.get("epoch", 0), args.epochs):
        t.one_epoch(epoch, replay)
        if (epoch + 1) % args.look_every == 0 or epoch + 1 == args.epochs:
            last = t.accuracies()
            best = [max(b, a) for b, a in zip(best, last)]
            seconds = time.monotonic() - began
            print(f"{args.set} seed {args.seed} {args.precision}: epoch {epoch + 1} train loss {t.mean_loss():.4f} "
                  f"accuracy {numpy.mean(last):.2f} ({seconds:.0f} s)", flush=True)
            if args.keep:
                t.keep(epoch=epoch + 1, last=last, best=best, seconds=seconds)
    print(json.dumps(dict(t.settings(), mean=numpy.mean(last), spread=numpy.std(last), best_mean=numpy.mean(best), last=last, best=best,
                          seconds=round(time.monotonic() - began, 1), torch=torch.__version__)))


if __name__ == "__main__":
    main()
