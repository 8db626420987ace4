"""PyTorch's side of the goldens of networks that make their own losses: forward gives outputs of which the first carries them, {name: value}. What follows its
parameters is told after each step."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from golden_gradients import with_losses


class Average:
    """A network as it was: of each parameter `decay` of what it was and the rest of the parameter, every so many steps."""

    def __init__(self, network, decay=0.0, every=1):
        self.network, self.decay, self.every = copy.deepcopy(network), decay, every
        self.step = 0

    def __call__(self, x):
        with torch.no_grad():
            return self.network(x)

    def follow(self, network):
        self.step += 1
        for mine, new in zip(self.network.parameters(), network.parameters()):
            if self.step % self.every == 0:
                mine.data = self.decay * mine.data + (1 - self.decay) * new.data


class Teaching(nn.Module):
    """A network with averages as teachers, made where it is used first."""

    def __init__(self, **averages):
        super().__init__()
        self.how, self.averages = averages, None

    def teachers(self):
        if self.averages is None:
            self.averages = {name: Average(self.network, **how) for name, how in self.how.items()}
        return self.averages.values()

    def after_step(self):
        for average in self.teachers():
            average.follow(self.network)

    def averages_of(self):
        return [(f'{n}.{name}', p) for name, a in self.averages.items() for n, p in a.network.named_parameters()]


class Teacher(Teaching):
    """test/models/teacher.nn"""

    def __init__(self):
        super().__init__(target=dict(decay=0.75), copied=dict(every=2))
        self.network = nn.Sequential(nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
        self.predictor = nn.Linear(4, 4)

    def forward(self, x, y):
        target, copied = self.teachers()
        online = self.network(x)
        z = self.predictor(online)
        return with_losses(online, slow=F.mse_loss(z, target(y)), stepped=0.5 * F.mse_loss(z, copied(y))), z
