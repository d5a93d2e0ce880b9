#!/usr/bin/env python3
"""How far the gradient of one lesson is from that in fp32 where a network rounds, by PyTorch.

    python3 tools/rounded_gradients.py

First with factors of convolutions rounded to so many bits, all else in fp32 (8 bits are bf16, 11 are tf32); then, on an NVIDIA GPU, in
PyTorch's own bf16 (autocast, channels last). The same networks and inputs as `tests/engine/test_cuda_models.c`: as initialised, a little noise
on every parameter, random pictures. docs/gpu.md puts these figures beside those of the engine `cuda`.
"""

import torch
from torch.nn import functional

import torch_models

NETWORKS = (("resnet20", torch_models.resnet20, (3, 32, 32)),
            ("fashion-cnn", lambda: torch_models.FashionCnn(dropout=torch.nn.Identity()), (1, 28, 28)))
SEEDS = range(3)


def rounded(x, bits):
    """To the nearest number with so many significant bits; of two, the even one."""
    drop, i = 24 - bits, x.contiguous().view(torch.int32)
    i = i + ((1 << drop - 1) - 1) + ((i >> drop) & 1)
    return (i & -(1 << drop)).view(torch.float32)


class RoundForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bits):
        return rounded(x, bits)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class RoundBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bits):
        ctx.bits = bits
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return rounded(gradient, ctx.bits), None


class RoundedConv(torch.nn.Module):
    """Every product's factors are rounded: pictures and weights forward, their gradients' backward."""

    def __init__(self, conv, bits):
        super().__init__()
        self.conv, self.bits = conv, bits

    def forward(self, x):
        x, weight = RoundForward.apply(x, self.bits), RoundForward.apply(self.conv.weight, self.bits)
        return RoundBackward.apply(self.conv._conv_forward(x, weight, self.conv.bias), self.bits)


def round_convolutions(module, bits):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Conv2d):
            setattr(module, name, RoundedConv(child, bits))
        else:
            round_convolutions(child, bits)
    return module


def lesson(make, shape, seed, device):
    """A network, pictures and labels: the same for the same seed."""
    torch.manual_seed(seed)
    network = torch_models.kaiming(make()).train()
    with torch.no_grad():
        for p in network.parameters():
            p.add_(0.02 * torch.randn_like(p))
    x, labels = torch.rand(6, *shape).sub_(0.45).div_(0.3), torch.randint(0, 10, (6,))
    last = torch.channels_last
    return network.to(device, memory_format=last), x.to(device, memory_format=last), labels.to(device)


def learn(network, x, labels, autocast=False):
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=autocast):
        loss = functional.cross_entropy(network(x).float(), labels)
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten().double() for p in network.parameters()])


def compare(what, have, want):
    off = ((have[1] - want[1]).norm() / want[1].norm()).item()
    print(f"{what}: loss {abs(have[0] - want[0]) / want[0]:.1e}, gradients {off:.1e}", flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name, make, shape in NETWORKS:
        for seed in SEEDS:
            want = learn(*lesson(make, shape, seed, "cpu"))
            for bits in (8, 11, 12, 13, 14, 16):
                network, x, labels = lesson(make, shape, seed, "cpu")
                compare(f"{name:<12} seed {seed}, {bits:>2} bits", learn(round_convolutions(network, bits), x, labels), want)
    for name, make, shape in NETWORKS if torch.cuda.is_available() else ():
        for seed in SEEDS:
            want = learn(*lesson(make, shape, seed, "cuda"))
            compare(f"{name:<12} seed {seed}, autocast", learn(*lesson(make, shape, seed, "cuda"), autocast=True), want)


if __name__ == "__main__":
    main()
