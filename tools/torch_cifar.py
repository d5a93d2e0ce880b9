#!/usr/bin/env python3
"""The study's single model on CIFAR by PyTorch, at full length: a judge between veche's numbers and the published ones.

    tools/torch_cifar.py --data FOLDER --set cifar-100 --batch 128 --seed 1 [--precision bf16]

ResNet-20, SGD (0.1, momentum 0.9, decay 1e-4), five epochs of warm-up by iterations, a tenth after epochs 81 and 122, 164 epochs;
flips and crops on black; the last batch of an epoch is short. FOLDER holds the binary files of the set. On a GPU the pictures
stay there and a step is captured as one CUDA graph. Prints the training loss and the accuracy on the test pictures every few epochs, and at last
one line of JSON with the last and the best.
"""

import argparse
import json
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
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=164)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--look-every", type=int, default=4, help="epochs")
    p.add_argument("--samples", type=int, help="only so many of the training pictures: to see that it works")
    return p.parse_args()


def read_set(args, files, skip, device):
    records = numpy.concatenate([numpy.fromfile(os.path.join(args.data, f), dtype=numpy.uint8) for f in files])
    records = records.reshape(-1, skip + 3072)
    labels = torch.from_numpy(records[:, skip - 1].astype(numpy.int64)).to(device)
    return torch.from_numpy(records[:, skip:].reshape(-1, 3, 32, 32).copy()).to(device), labels


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
        torch.manual_seed(args.seed)
        network = torch_models.kaiming(torch_models.ResNet(3, about["classes"]))
        self.network = network.to(self.device).to(memory_format=torch.channels_last)
        self.params = [p for p in self.network.parameters()]
        self.pace = [torch.zeros_like(p) for p in self.params]
        self.lr = torch.zeros((), device=self.device)
        self.loss = torch.zeros((), device=self.device)  # the sum over an epoch's samples
        self.picks, self.at, self.flips = self.empty_choice(args.batch)

    def empty_choice(self, n):
        return (torch.zeros(n, dtype=torch.int64, device=self.device),
                torch.zeros(n, 2, dtype=torch.int64, device=self.device),
                torch.zeros(n, dtype=torch.bool, device=self.device))

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

    def learn(self, picks, at, flips):
        """One step; momentum and decay as torch.optim.SGD has them, the rate a number on the device."""
        with self.autocast():
            loss = functional.cross_entropy(self.network(self.pictures(picks, at, flips)), self.labels[picks])
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            self.loss.add_(loss.detach().float(), alpha=len(picks))
            for p, g, v in zip(self.params, grads, self.pace):
                v.mul_(0.9).add_(g).add_(p, alpha=1e-4)
                p.sub_(v * self.lr)

    def capture(self):
        """The step on self.picks as a CUDA graph; what the steps to warm up changed is put back."""
        kept = {k: v.clone() for k, v in self.network.state_dict().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.learn(self.picks, self.at, self.flips)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.learn(self.picks, self.at, self.flips)
        with torch.no_grad():
            for k, v in self.network.state_dict().items():
                v.copy_(kept[k])
            for v in self.pace:
                v.zero_()
        return graph.replay

    def rate_at(self, epoch):
        base = 0.1 * 0.1 ** ((epoch >= 81) + (epoch >= 122))
        return base * min(1, epoch / 5)

    def one_epoch(self, epoch, replay):
        n, batch = len(self.labels), self.args.batch
        order = torch.randperm(n, device=self.device)
        at = torch.randint(0, 9, (n, 2), device=self.device)
        flips = torch.rand(n, device=self.device) < 0.5
        self.loss.zero_()
        for k, first in enumerate(range(0, n, batch)):
            some = slice(first, first + batch)
            self.lr.fill_(self.rate_at(epoch + k * batch / n))
            if replay and first + batch <= n:
                self.picks.copy_(order[some])
                self.at.copy_(at[some])
                self.flips.copy_(flips[some])
                replay()
            else:
                self.learn(order[some], at[some], flips[some])

    def accuracy(self):
        self.network.eval()
        hits = 0
        with torch.no_grad(), self.autocast():
            for first in range(0, len(self.test[1]), 1000):
                said = self.network(self.normal(self.test[0][first:first + 1000])).argmax(1)
                hits += int((said == self.test[1][first:first + 1000]).sum())
        self.network.train()
        return 100 * hits / len(self.test[1])


def main():
    args = read_arguments()
    t = Training(args)
    t.network.train()
    replay = t.capture() if t.device.type == "cuda" else None
    began, best, last = time.monotonic(), 0, 0
    for epoch in range(args.epochs):
        t.one_epoch(epoch, replay)
        if (epoch + 1) % args.look_every == 0 or epoch + 1 == args.epochs:
            last = t.accuracy()
            best = max(best, last)
            print(f"{args.set} seed {args.seed} {args.precision}: epoch {epoch + 1} train loss {float(t.loss) / len(t.labels):.4f} "
                  f"accuracy {last:.2f} ({time.monotonic() - began:.0f} s)", flush=True)
    print(json.dumps(dict(set=args.set, batch=args.batch, seed=args.seed, precision=args.precision, epochs=args.epochs,
                          last=last, best=best, seconds=round(time.monotonic() - began, 1), torch=torch.__version__)))


if __name__ == "__main__":
    main()
