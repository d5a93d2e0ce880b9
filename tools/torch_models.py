"""The named networks of veche, written once more in PyTorch.

Shared by the golden values (tools/golden_models.py), the training curve (tools/curve_cifar.py) and the benchmark
(bench/torch_train.py), so that all three speak of the same networks. Names and order of parameters are those that
veche uses for its flat span and its checkpoints.

Works with Debian's python3-torch (1.13) and anything newer.
"""

import torch
from torch import nn
from torch.nn import functional as F


def option_a(x, stride, new_planes):
    """A shortcut without parameters: every stride-th pixel, new channels zero, half before and half after."""
    if stride == 1 and new_planes == 0:
        return x
    before = new_planes // 2
    return F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, before, new_planes - before))


class Block(nn.Module):
    """Two 3x3 convolutions with batchnorm, and a shortcut (He et al. 2015)."""

    def __init__(self, planes_in, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.stride = stride
        self.new_planes = planes - planes_in

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + option_a(x, self.stride, self.new_planes))


class ResNet(nn.Module):
    """ResNet-(6n+2) for pictures of 32 x 32."""

    def __init__(self, n, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(n)])
        self.layer2 = nn.Sequential(*[Block(32 if i else 16, 32, 1 if i else 2) for i in range(n)])
        self.layer3 = nn.Sequential(*[Block(64 if i else 32, 64, 1 if i else 2) for i in range(n)])
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.layer3(self.layer2(self.layer1(y)))
        return self.linear(y.mean(dim=(2, 3)))


class FashionCnn(nn.Module):
    """The 1.48 M parameter network for Fashion-MNIST. `dropout` is any module, to let a test bring its own mask."""

    def __init__(self, classes=10, dropout=None):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
        self.fc1 = nn.Linear(2304, 600)
        self.drop = nn.Dropout(0.25) if dropout is None else dropout
        self.fc2 = nn.Linear(600, 120)
        self.fc3 = nn.Linear(120, classes)

    def forward(self, x):
        y = self.layer2(self.layer1(x)).flatten(1)
        return self.fc3(self.fc2(self.drop(self.fc1(y))))


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling, for pictures of 28 x 28."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.conv1(x)), 2)
        y = F.max_pool2d(F.relu(self.conv2(y)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(y)))))


class Residual(nn.Sequential):
    """y = body(x) + x, a list of layers around which x is led (option A where the shapes differ)."""

    def forward(self, x):
        y = super().forward(x)
        stride, new_planes = x.shape[2] // y.shape[2], y.shape[1] - x.shape[1]
        return y + option_a(x, stride, new_planes)


def resnet20(classes=10):
    return ResNet(3, classes)


def kaiming(network):
    """The initialisation ResNet is trained with: convolutions and linear layers Kaiming-normal, fan-in."""
    for m in network.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(m.weight)
    return network


def count(network):
    return sum(p.numel() for p in network.parameters())


assert count(resnet20()) == 269722 and count(FashionCnn()) == 1475338
