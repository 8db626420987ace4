"""PyTorch's side of the goldens of trainings in phases: networks, and steps in which one phase follows another."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from golden_gradients import gradient


class Dcgan(nn.Module):
    """models/dcgan.nn"""

    def __init__(self, z, width):
        super().__init__()
        norm = nn.BatchNorm2d
        self.generator = nn.Sequential(nn.Unflatten(1, (z, 1, 1)), nn.ConvTranspose2d(z, 2 * width, 7, 1, 0, bias=False), norm(2 * width), nn.ReLU(),
                                       nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), norm(width), nn.ReLU(),
                                       nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False), nn.Tanh())
        self.discriminator = nn.Sequential(nn.Conv2d(1, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), norm(2 * width),
                                           nn.LeakyReLU(0.2), nn.Conv2d(2 * width, 1, 7, 1, 0, bias=False), nn.Flatten())

    def phases(self, data):
        judged = lambda score, target: F.binary_cross_entropy_with_logits(score, torch.full_like(score, target))

        # each phase gives its loss and its outputs, in the order of their names
        def discriminator():
            fake, real = self.generator(data['z']), self.discriminator(data['image'] / 127.5 - 1)
            return judged(real, 1.) + judged(self.discriminator(fake), 0.), [real, fake]

        def generator():
            fake = self.generator(data['z'])
            score = self.discriminator(fake)
            return judged(score, 1.), [score, fake]
        return ('discriminator', discriminator), ('generator', generator)


class WganGp(nn.Module):
    """models/wgan_gp.nn"""

    def __init__(self, z, width):
        super().__init__()
        up = lambda i, o: nn.ConvTranspose2d(i, o, 5, 2, 2, 1)
        down = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 5, 2, 2), nn.LeakyReLU(0.2))
        self.generator = nn.ModuleList([nn.Linear(z, 64 * width), up(4 * width, 2 * width), up(2 * width, width), up(width, 1)])
        self.critic = nn.Sequential(down(1, width), down(width, 2 * width), down(2 * width, 4 * width), nn.Flatten(), nn.Linear(64 * width, 1))

    def made(self, z):
        first, second, third, last = self.generator
        x = F.relu(second(F.relu(first(z)).unflatten(1, (-1, 4, 4))))[:, :, :7, :7]
        return torch.sigmoid(last(F.relu(third(x))))

    def phases(self, data):
        def critic():
            fake, real = self.made(data['z']).detach(), data['image'] / 255
            score = self.critic(fake)
            between = (data['mix'] * real + (1 - data['mix']) * fake).requires_grad_()
            slope, = gradient(self.critic(between), between)
            return score.mean() - self.critic(real).mean() + 10 * (slope.square().sum([1, 2, 3]).sqrt() - 1).square().mean(), [score, fake]

        def generator():
            fake = self.made(data['z'])
            score = self.critic(fake)
            return -score.mean(), [score, fake]
        return ('critic', critic), ('generator', generator)


def flat(t):
    return t.detach().double().flatten().tolist()


def train(model, data, optimizer_of, steps, perturb):
    """As make_goldens.train: {kind: [(name, values)]}. Each phase trains the part of the model of its name."""
    parameters, buffers = list(model.named_parameters()), [(n, b) for n, b in model.named_buffers() if 'num_batches' not in n]
    optimizers = {name: optimizer_of(list(getattr(model, name).named_parameters())) for name, _ in model.phases(data)}
    results = {}
    for step in range(steps):
        perturb(parameters)
        losses, outputs, gradients = [], [], {}
        for name, loss_of in model.phases(data):
            model.zero_grad()
            loss, said = loss_of()
            loss.backward()
            losses.append((f'{name}.loss', [loss.item()]))
            outputs += [(f'{name} {i}', flat(y)) for i, y in enumerate(said)]
            gradients.update({f'{name}.{n}': flat(p.grad) for n, p in getattr(model, name).named_parameters()})
            optimizers[name].step()
        if step == 0:
            results = {'losses': losses, 'outputs': outputs, 'gradients': [(n, gradients[n]) for n, _ in parameters]}
    return results | {'final_losses': losses, 'final': [(n, flat(p)) for n, p in parameters], 'averages': [], 'state': [(n, flat(b)) for n, b in buffers]}
