"""ResNet-20 of many agents at once in PyTorch: each has its own parameters, and all are computed together.

A convolution is one batched product of matrices, and activations are [agents, batch, height, width, channels]. On a GPU what happens between
convolutions is compiled into few kernels. For tools/torch_cifar.py, which proves first that these are the networks of torch_models: in fp64
on the processor, so without what is compiled.
"""

import math

import torch
from torch.autograd import Function
from torch.nn import functional

import torch_models


def unroll(x, stride):
    """What each pixel's 3 x 3 window holds: [agents, pixels, 9 channels]."""
    agents, batch, h, w, c = x.shape
    lump = torch.complex128 if c * x.element_size() % 16 == 0 else x.dtype  # copied sixteen bytes at a time
    y = functional.pad(x.view(lump), (0, 0, 1, 1, 1, 1))
    s = y.stride()
    windows = y.as_strided((agents, batch, h // stride, w // stride, 3, 3 * y.shape[-1]),
                           (s[0], s[1], stride * s[2], stride * s[3], s[2], 1))
    return windows.contiguous().view(x.dtype).view(agents, -1, 9 * c)


class Convolution(Function):
    """3 x 3, padded by 1; weights are [agents, outputs, 3 x 3 x inputs]."""

    @staticmethod
    def forward(ctx, x, weights, stride, multiplies):
        columns, weights = unroll(x.to(multiplies), stride), weights.to(multiplies)
        ctx.save_for_backward(columns, weights)
        ctx.stride, ctx.shape = stride, x.shape
        agents, batch, h, w, _ = x.shape
        return torch.bmm(columns, weights.transpose(1, 2)).view(agents, batch, h // stride, w // stride, -1).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        columns, weights = ctx.saved_tensors
        agents, batch, h, w, c = ctx.shape
        dy = grad.contiguous().to(weights.dtype)
        outputs = dy.shape[-1]
        parts = agents * max(n for n in range(1, batch + 1) if batch % n == 0 and agents * n <= max(256, agents))
        dw = torch.bmm(dy.view(parts, -1, outputs).transpose(1, 2), columns.view(parts, -1, 9 * c))  # long sums, for enough products at once
        dw = dw.view(agents, -1, outputs, 9 * c).sum(1).to(grad.dtype)
        if not ctx.needs_input_grad[0]:
            return None, dw, None, None
        if ctx.stride > 1:  # a convolution with the picture spread over zeros
            spread = dy.new_zeros(agents, batch, h, w, outputs)
            spread[:, :, ::ctx.stride, ::ctx.stride] = dy
            dy = spread
        turned = weights.view(agents, outputs, 3, 3, c).flip(2, 3).permute(0, 2, 3, 1, 4).reshape(agents, 9 * outputs, c)
        return torch.bmm(unroll(dy, 1), turned).view(ctx.shape).to(grad.dtype), dw, None, None


def normalise(x, gain, shift, beside):
    """relu(batchnorm(x) + beside) by each agent's own batch, with the mean, the variance and its root's inverse; x is [agents, pixels, channels]."""
    variance, mean = torch.var_mean(x, 1, unbiased=False, keepdim=True)
    r = torch.rsqrt(variance + 1e-5)
    y = (x - mean) * (gain[:, None] * r) + shift[:, None]
    return functional.relu(y if beside is None else y + beside), mean, variance, r


def normalise_back(x, gain, mean, r, y, dy):
    """The gradients of x, gain, shift and what is beside."""
    dy = torch.where(y > 0, dy, 0)
    normal = (x - mean) * r
    dgain, dshift = (dy * normal).sum(1, keepdim=True), dy.sum(1, keepdim=True)
    dx = gain[:, None] * r * (dy - (dshift + normal * dgain) / x.shape[1])
    return dx, dgain[:, 0], dshift[:, 0], dy


def fuse(f):
    if not torch.cuda.is_available():
        return f
    torch._dynamo.config.recompile_limit = 64  # one for each shape
    return torch.compile(f, dynamic=False)


FUSED = fuse(normalise), fuse(normalise_back)


class Normalisation(Function):
    """relu(batchnorm(x) + beside), and the batch's means and variances."""

    @staticmethod
    def forward(ctx, x, gain, shift, beside, fused):
        rows = (x.shape[0], -1, x.shape[-1])
        y, mean, variance, r = (FUSED[0] if fused else normalise)(x.view(rows), gain, shift, None if beside is None else beside.reshape(rows))
        ctx.save_for_backward(x, gain, mean, r, y)
        ctx.mark_non_differentiable(mean, variance)
        ctx.fused, ctx.beside = fused, None if beside is None else beside.shape
        return y.view(x.shape), mean[:, 0], variance[:, 0]

    @staticmethod
    def backward(ctx, dy, *_):
        x, gain, mean, r, y = ctx.saved_tensors
        dx, dgain, dshift, dbeside = (FUSED[1] if ctx.fused else normalise_back)(x.view(y.shape), gain, mean, r, y, dy.reshape(y.shape))
        return dx.view(x.shape), dgain, dshift, None if ctx.beside is None else dbeside.view(ctx.beside), None


def shapes_of(classes):
    """Of a model's parameters, in the order of torch_models; a convolution's channels are last."""
    def convolution(inputs, outputs):
        return [(outputs, 9 * inputs), (outputs,), (outputs,)]  # and its norm's

    shapes, inputs = convolution(3, 16), 16
    for planes in (16, 32, 64):
        for _ in range(3):
            shapes += convolution(inputs, planes) + convolution(planes, planes)
            inputs = planes
    return shapes + [(classes, 64), (classes,)]


def shortcut(x, stride, planes):
    if stride == 1:
        return x
    new = planes - x.shape[-1]
    return functional.pad(x[:, :, ::stride, ::stride], (new // 2, new - new // 2))


def network(x, params, normalised, multiplies):
    """`normalised` is told the layer's number, its input, gain, shift and what is added before the ReLU, if anything is."""
    params, layers = iter(params), iter(range(19))

    def convolve(y, stride=1, beside=None):
        return normalised(next(layers), Convolution.apply(y, next(params), stride, multiplies), next(params), next(params), beside)

    x = convolve(x)
    for planes, first in ((16, 1), (32, 2), (64, 2)):
        for stride in (first, 1, 1):
            x = convolve(convolve(x, stride), beside=shortcut(x, stride, planes))
    weights, bias = next(params), next(params)
    return torch.baddbmm(bias[:, None], x.mean((2, 3)), weights.transpose(1, 2))


def in_order(model):
    """A model's parameters as they lie in a line."""
    return torch.cat([(p.permute(0, 2, 3, 1) if p.dim() == 4 else p).reshape(-1) for p in model.parameters()])


class Networks:
    """The parameters of all agents, a line each, and their batchnorms' means and variances, a line each, too."""

    def __init__(self, first, agents, classes, multiplies=torch.float32, fused_batch=None):
        self.shapes = shapes_of(classes)
        self.sizes = [math.prod(s) for s in self.shapes]
        self.channels = [s[0] for s in self.shapes[1:-2:3]]
        line = in_order(first).detach()
        spare = -len(line) % 64  # every line begins where matrices may
        self.lines = functional.pad(line, (0, spare)).repeat(agents, 1)[:, : len(line)]
        self.means = line.new_zeros(agents, sum(self.channels))
        self.variances = torch.ones_like(self.means)
        self.multiplies, self.fused_batch = multiplies, fused_batch

    def say(self, x, lines, normalised):
        parts = lines.split(self.sizes, 1)
        return network(x, [p.unflatten(1, s) for p, s in zip(parts, self.shapes)], normalised, self.multiplies)

    def lesson(self, x, labels, learns):
        """Each agent's loss and gradient; the statistics of those that learn move."""
        lines = self.lines.detach().requires_grad_()
        means, variances = [], []

        def by_batch(_, y, gain, shift, beside):
            n = y.shape[1] * y.shape[2] * y.shape[3]
            y, mean, variance = Normalisation.apply(y, gain, shift, beside, x.shape[1] == self.fused_batch)
            means.append(mean)
            variances.append(variance * (n / (n - 1)))
            return y

        said = self.say(x, lines, by_batch)
        for kept, now in (self.means, means), (self.variances, variances):
            kept.addcmul_(learns, torch.cat(now, 1) - kept, value=0.1)
        loss = functional.cross_entropy(said.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape).mean(1)
        return loss.detach(), torch.autograd.grad(loss.sum(), lines)[0]

    @torch.no_grad()
    def exam(self, x):
        """What each agent says by its statistics."""
        means, variances = self.means.split(self.channels, 1), self.variances.split(self.channels, 1)

        def by_statistics(layer, y, gain, shift, beside):
            scale = gain * torch.rsqrt(variances[layer] + 1e-5)
            y = torch.addcmul(spread_out(shift - means[layer] * scale), y, spread_out(scale))
            return functional.relu(y if beside is None else y + beside)

        return self.say(x, self.lines, by_statistics)


def spread_out(a):
    """One number for each agent and channel, for all pixels."""
    return a[:, None, None, None, :]


def prove_networks():
    """Losses, gradients, statistics and exams are those of torch_models, for two agents that differ."""
    torch.manual_seed(1)
    originals = [torch_models.kaiming(torch_models.ResNet(3, 10)).double() for _ in range(2)]
    x, labels = torch.randn(2, 3, 32, 32, 3, dtype=torch.float64), torch.randint(10, (2, 3))
    ours = Networks(originals[0], 2, 10, multiplies=torch.float64)
    ours.lines[1].copy_(in_order(originals[1]).detach())
    losses, grads = ours.lesson(x, labels, torch.ones(2, 1, dtype=torch.float64))
    for i, model in enumerate(originals):
        loss = functional.cross_entropy(model.train()(x[i].permute(0, 3, 1, 2)), labels[i])
        loss.backward()
        for p in model.parameters():
            p.data = p.grad
        assert torch.allclose(losses[i], loss, 1e-9) and torch.allclose(grads[i], in_order(model), 1e-7, 1e-9)
        with torch.no_grad():
            for p, part, shape in zip(model.parameters(), ours.lines[i].split(ours.sizes), ours.shapes):
                p.data = part.view(shape[0], 3, 3, -1).permute(0, 3, 1, 2) if p.dim() == 4 else part.view(shape)
            assert torch.allclose(ours.exam(x)[i], model.eval()(x[i].permute(0, 3, 1, 2)), 1e-9)
