#!/usr/bin/env python3
"""How far PyTorch's gradients in bf16 (autocast, channels last) are from its own in fp32, on an NVIDIA GPU.

    python3 tools/bf16_gradients.py

The same networks and inputs as `tests/engine/test_cuda_models.c`: as initialised, a little noise on every parameter,
random pictures. Docs/gpu.md puts these figures beside those of the engine `cuda`.
"""

import torch
from torch.nn import functional

import torch_models


def gradients(network, x, labels, half):
    network.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
        loss = functional.cross_entropy(network(x).float(), labels)
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten().double() for p in network.parameters()])


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    cases = (("resnet20", torch_models.resnet20, (3, 32, 32)),
             ("fashion-cnn", lambda: torch_models.FashionCnn(dropout=torch.nn.Identity()), (1, 28, 28)))
    for name, make, shape in cases:
        for seed in range(3):
            torch.manual_seed(seed)
            network = torch_models.kaiming(make()).cuda().to(memory_format=torch.channels_last).train()
            with torch.no_grad():
                for p in network.parameters():
                    p.add_(0.02 * torch.randn_like(p))
            x = torch.rand(6, *shape, device="cuda").sub_(0.45).div_(0.3).contiguous(memory_format=torch.channels_last)
            labels = torch.randint(0, 10, (6,), device="cuda")
            loss, want = gradients(network, x, labels, False)
            half_loss, have = gradients(network, x, labels, True)
            off = ((have - want).norm() / want.norm()).item()
            print(f"{name:<12} seed {seed}: loss {abs(half_loss - loss) / loss:.1e}, gradients {off:.1e}")


if __name__ == "__main__":
    main()
