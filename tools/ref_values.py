#!/usr/bin/env python3
"""Makes tests/engine/ref_values.h: what PyTorch says every op of the engine gives, forward and backward.

    python3 tools/ref_values.py | clang-format > tests/engine/ref_values.h

Inputs are not stored: number i of input k is 2 sin(1.3 i + 0.7 k) rounded to float, in the test as here, and what
comes back from above (dy) is input 9. A row of `values` is y, then dx, dweight, dbias as far as there are such.
"""
import math

import torch
import torch.nn.functional as F

torch.set_num_threads(1)


def numbers(k, *shape):
    n = math.prod(shape)
    x = torch.tensor([2 * math.sin(1.3 * i + 0.7 * k) for i in range(n)], dtype=torch.float32)
    return x.double().reshape(shape).requires_grad_()


def row(name, y, *leaves):
    y.backward(numbers(9, *y.shape).detach() if y.dim() else None)
    parts = [y.detach()] + [leaf.grad for leaf in leaves]
    flat = torch.cat([p.reshape(-1) for p in parts]).tolist()
    print(f"static const double {name}[] = {{")
    for i in range(0, len(flat), 6):
        print("    " + ", ".join(f"{v:.9g}" for v in flat[i : i + 6]) + ",")
    print("};")


def plain(name, fn, *shape):
    x = numbers(0, *shape)
    row(name, fn(x), x)


print("/* Made by tools/ref_values.py with PyTorch " + torch.__version__.split("+")[0] + "; not to be edited. */")

for name, stride, pad in (("conv_values", 1, 0), ("conv_strided_values", 2, 1)):
    x, w, b = numbers(0, 2, 2, 5, 4), numbers(1, 3, 2, 3, 3), numbers(2, 3)
    row(name, F.conv2d(x, w, b, stride=stride, padding=pad), x, w, b)

# Two groups; and one for each channel, which makes two of it
for name, channels, out, groups in (("groups_values", 4, 6, 2), ("depthwise_values", 3, 6, 3)):
    x, w, b = numbers(0, 2, channels, 4, 3), numbers(1, out, channels // groups, 3, 3), numbers(2, out)
    row(name, F.conv2d(x, w, b, stride=2, padding=1, groups=groups), x, w, b)

x, w, b = numbers(0, 3, 4), numbers(1, 2, 4), numbers(2, 2)
row("linear_values", F.linear(x, w, b), x, w, b)

x, w, b = numbers(0, 3, 2, 2, 3), numbers(1, 2), numbers(2, 2)
mean, var = numbers(3, 2).detach(), numbers(4, 2).detach().abs()
row("batchnorm_values", F.batch_norm(x, mean, var, w, b, True, 0.1, 1e-5), x, w, b)
print("static const double running_values[] = {" + ", ".join(f"{v:.9g}" for v in mean.tolist() + var.tolist()) + "};")
mean, var = numbers(3, 2).detach(), numbers(4, 2).detach().abs()
y = F.batch_norm(x.detach(), mean, var, w.detach(), b.detach(), False, 0.1, 1e-5)
print("static const double batchnorm_exam_values[] = {" + ", ".join(f"{v:.9g}" for v in y.reshape(-1).tolist()) + "};")

a, b = numbers(0, 2, 3), numbers(1, 2, 3)
row("add_values", F.relu(a + b), a, b)
a, b = numbers(0, 2, 2, 2, 3), numbers(1, 2, 3, 2, 3)
row("concat_values", torch.cat([a, b], 1), a, b)
plain("relu_values", F.relu, 2, 5)
plain("tanh_values", torch.tanh, 2, 5)
plain("sigmoid_values", torch.sigmoid, 2, 5)
plain("maxpool_values", lambda x: F.max_pool2d(x, 3, 2, 1), 2, 2, 5, 4)
plain("avgpool_values", lambda x: F.avg_pool2d(x, 3, 2, 1), 2, 2, 5, 4)
plain("globalpool_values", lambda x: F.adaptive_avg_pool2d(x, 1), 2, 2, 3, 4)
# Option A as CIFAR ResNets commonly write it: 2 -> 5 channels, one before and two after
plain("shortcut_values", lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 1, 2)), 2, 2, 5, 4)

labels = torch.tensor([2, 0, 1])
onehot = F.one_hot(labels, 4).double()
plain("cross_entropy_values", lambda x: F.cross_entropy(x, labels), 3, 4)
plain("mse_values", lambda x: F.mse_loss(x, onehot), 3, 4)
plain("hinge_values", lambda x: F.multi_margin_loss(x, labels), 3, 4)
plain("logistic_values", lambda x: F.binary_cross_entropy_with_logits(x, onehot), 3, 4)
