"""PyTorch's side of the goldens whose losses hold gradients: forward gives an output that carries its losses, {name: value}."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def gradient(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)


def with_losses(y, **losses):
    y.losses = losses
    return y


class HeatEquation(nn.Module):
    """models/pinn_heat.nn"""

    def __init__(self, width, alpha=0.1):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)])
        self.alpha = alpha

    def rod(self, x, t):
        h = torch.cat([x, t], 1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)

    def forward(self, x, t):
        x, t = x.clone().requires_grad_(), t.clone().requires_grad_()
        u = self.rod(x, t)
        ut, ux = gradient(u, [t, x])
        uxx, = gradient(ux, x)
        now, one = torch.zeros_like(t), torch.ones_like(t)
        return with_losses(u, physics=((ut - self.alpha * uxx) ** 2).mean(), initial=F.mse_loss(self.rod(x, now), torch.sin(math.pi * x)),
                           boundary=(self.rod(now, t) ** 2 + self.rod(one, t) ** 2).mean())


class Critic(nn.Module):
    """test/models/critic.nn"""

    def __init__(self):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.GroupNorm(2, o), nn.LeakyReLU(0.2))
        self.layers = nn.Sequential(block(1, 4), block(4, 6), nn.Flatten(), nn.Linear(24, 1))

    def forward(self, real, made, mix):
        y = self.layers(made)
        between = (mix * real + (1 - mix) * made).requires_grad_()
        slope = (gradient(self.layers(between), between)[0].square().sum([1, 2, 3]) + 1e-12).sqrt()
        return with_losses(y, distance=y.mean() - self.layers(real).mean(), penalty=10 * (slope - 1).square().mean())


class Maml(nn.Module):
    """models/maml_sine.nn, one task"""

    def __init__(self, rate=0.01):
        super().__init__()
        self.layers, self.rate = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)), rate

    def forward(self, x, y, query, target):
        before, weights = self.layers(x), dict(self.layers.named_parameters())
        slopes = gradient(F.mse_loss(before, y), list(weights.values()))
        fast = {name: w - self.rate * slope for (name, w), slope in zip(weights.items(), slopes)}
        return with_losses(before, loss=F.mse_loss(torch.func.functional_call(self.layers, fast, query), target))


class BatchNorm(nn.Module):
    """nn.BatchNorm1d, whose own op has no third derivative."""

    def __init__(self, features):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.register_buffer('running_mean', torch.zeros(features))
        self.register_buffer('running_var', torch.ones(features))

    def forward(self, x):
        mean, var = x.mean(0), x.var(0, unbiased=False)
        self.running_mean.lerp_(mean.detach(), 0.1)
        self.running_var.lerp_(x.detach().var(0), 0.1)
        return (x - mean) / (var + 1e-5).sqrt() * self.weight + self.bias


class Curvature(nn.Module):
    """test/models/curvature.nn"""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out, self.cell = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8), nn.GRUCell(8, 8)
        self.batch, self.last = BatchNorm(8), nn.Linear(8, 5)

    def forward(self, words, direction, label):
        words = words.clone().requires_grad_()
        n, t, d = words.shape
        q, k, v = (part.view(n, t, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(words)).split(8, -1))
        scores = (q @ k.transpose(-1, -2) / 2).masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
        x = words + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))
        h = x.new_zeros(n, d)
        for step in range(t):
            h = self.cell(x[:, step], h)
        y = self.last(self.batch(h))
        first = F.cross_entropy(y, label.long())
        product, = gradient(gradient(first, words)[0] * direction, words)
        return with_losses(y, label=first, curvature=(direction * product).sum(), change=product.square().sum())
