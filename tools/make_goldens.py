#!/usr/bin/env python3
"""Makes test/models/goldens/*.json with PyTorch in f64: loss, outputs, gradients of one step and parameters after three.

usage: make_goldens.py [NAME...]
Needs PyTorch (Debian: python3-torch); nothing in `make demo` or `make check` does.
Parameters are matched to those of the compiled .nn file by their order, which is the order of first use on both sides.
"""
import json
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_format as gf
import golden_models as models

torch.set_default_dtype(torch.float64)
STEPS = 3


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(20, 33), nn.Linear(33, 17), nn.Linear(17, 5)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.relu(self.a(x)))))


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.c, self.d, self.e = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        x = F.max_pool2d(F.relu(self.b(x)), 2)
        return self.e(F.relu(self.d(F.relu(self.c(x.flatten(1))))))


class Recurrent(nn.Module):
    """A recurrent layer whose state goes on to the next batch, without a gradient."""

    def __init__(self, kind, states, vocabulary=31, n=3, d=6, h=8):
        super().__init__()
        self.embedding, self.rnn, self.out = nn.Embedding(vocabulary, d), kind(d, h, batch_first=True), nn.Linear(h, vocabulary)
        for state in states:
            self.register_buffer(state, torch.zeros(n, h))
        self.states = states

    def forward(self, tokens):
        before = tuple(getattr(self, s).clone()[None] for s in self.states)
        y, after = self.rnn(self.embedding(tokens), before if len(before) > 1 else before[0])
        with torch.no_grad():
            for s, value in zip(self.states, after if len(before) > 1 else (after,)):
                getattr(self, s).copy_(value[0])
        return self.out(y)


def is_scale(name, shape):
    return len(shape) == 1 and 'weight' in name     # of a normalisation: around one


def values_of(name, inputs):
    data = {}
    for key, (dtype, shape, below) in inputs.items():
        count = int(torch.tensor(shape).prod())
        values = gf.integers(f'{name}.{key}', count, below) if below else gf.tensor(f'{name}.{key}', count)
        values = torch.tensor(values).reshape(shape)
        data[key] = values.double() if dtype == 'f' else values
    return data


def set_parameters(name, parameters, smooth):
    """Smooth: normalised values are small and lie around it, so that they mostly pass the ReLU, without which rounding errors grow a thousandfold through a hundred layers."""
    said = []
    scales = {path[:-len('weight')] for path, p in parameters if is_scale(path, p.shape)}
    for i, (path, p) in enumerate(parameters):
        scale = 1.0 / max(1, p[0].numel()) ** 0.5 if p.dim() > 1 else 0.1
        shift = 1.0 if is_scale(path, p.shape) else 0.0
        if smooth and (path[:-len('weight')] in scales or path[:-len('bias')] in scales):
            scale, shift = 0.1, 0.3 if is_scale(path, p.shape) else smooth
        p.data = torch.tensor(gf.tensor(f'{name}.p{i}', p.numel(), scale, shift)).reshape(p.shape)
        said.append({'torch': path, 'shape': list(p.shape), 'scale': scale, 'shift': shift})
    return said


def flat(t):
    return t.detach().double().flatten().tolist()


def make(name, model, inputs, optimizer_of, clip=None, schedule=None, loss_of=None, smooth=0):
    """inputs: {name: (dtype, shape, integers below, or 0)}, those that the model takes first; loss_of: (outputs, data) to {name of loss: value};
    schedule: (optimizer, step) sets the rates."""
    if only and name not in only:
        return
    loss_of = loss_of or (lambda y, data: {'loss': F.cross_entropy(y[0].reshape(-1, y[0].shape[-1]), data['label' if 'label' in data else list(data)[1]].flatten())})
    golden = {'steps': STEPS, 'inputs': {k: {'dtype': v[0], 'shape': list(v[1]), 'below': v[2]} for k, v in inputs.items()}}
    data = values_of(name, inputs)
    parameters, buffers = list(model.named_parameters()), [(n, b) for n, b in model.named_buffers() if 'num_batches' not in n]
    golden['parameters'] = set_parameters(name, parameters, smooth)
    taken = model.forward.__code__.co_argcount - 1
    optimizer = optimizer_of(parameters)
    rates = [g['lr'] for g in optimizer.param_groups]
    for step in range(STEPS):
        for g, rate in zip(optimizer.param_groups, rates):
            g['lr'] = rate * (schedule(step) if schedule else 1)
        optimizer.zero_grad()
        outputs = model(*list(data.values())[:taken])
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        losses = loss_of(outputs, data)
        sum(losses.values()).backward()
        said = {k: v.item() for k, v in losses.items()}
        if step == 0:
            golden['losses'], golden['outputs'] = said, [gf.digest(flat(y)) for y in outputs]
            golden['gradients'] = [gf.digest(flat(p.grad)) for _, p in parameters]
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    golden['final_losses'] = said
    golden['final'] = [gf.digest(flat(p)) for _, p in parameters]
    golden['state'] = [gf.digest(flat(b)) for _, b in buffers]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'models', 'goldens', name + '.json')
    with open(path, 'w') as f:
        f.write(json.dumps(golden) + '\n')
    print(f'{name}: {golden["losses"]} -> {said}, {sum(p.numel() for _, p in parameters)} parameters')


def no_decay(matches, optimizer, decay, **options):
    """Two groups: parameters whose path or shape matches are not decayed."""
    def of(parameters):
        free = [p for n, p in parameters if matches(n, p)]
        rest = [p for n, p in parameters if not matches(n, p)]
        return optimizer([{'params': rest, 'weight_decay': decay}, {'params': free, 'weight_decay': 0}], **options)
    return of


def all_of(optimizer, **options):
    return lambda parameters: optimizer([p for _, p in parameters], **options)


def bert_losses(y, data):
    each = F.cross_entropy(y[0].flatten(0, 1), data['label'].flatten(), reduction='none').view(data['label'].shape)
    return {'masked_words': (each * data['weight']).sum() / data['weight'].sum(), 'next_sentence': F.cross_entropy(y[1], data['next'])}


def images(n, size, classes):
    return {'image': ('f', (n, 3, size, size), 256), 'label': ('I32', (n,), classes)}


def warmup(steps):
    return lambda step: (step + 1) / (steps + 1)


def cosine(step):
    return 0.5 * (1 + math.cos(math.pi * step / STEPS))


def main():
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    # programs of test/models: optimizers and their options
    make('mlp', Mlp(), {'x': ('f', (9, 20), 0), 'label': ('I32', (9,), 5)}, all_of(sgd, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True))
    make('lenet', Lenet(), {'image': ('f', (7, 1, 28, 28), 0), 'label': ('I32', (7,), 10)}, all_of(adamw, lr=1e-3, weight_decay=0.01))
    make('resnet18', models.ResnetSmall(8, (2, 2, 2, 2), 10), {'image': ('f', (5, 3, 32, 32), 0), 'label': ('I32', (5,), 10)},
         all_of(sgd, lr=0.05, momentum=0.9, weight_decay=1e-4))
    make('gpt', models.Gpt(65, 12, 32, 2, 4), {'tokens': ('I32', (3, 12), 65), 'label': ('I32', (3, 12), 65)}, all_of(adam, lr=3e-4, weight_decay=0.1), clip=1.0)
    for name, kind, states in ('lstm', nn.LSTM, ['h0', 'c0']), ('gru', nn.GRU, ['h0']):
        make(name, Recurrent(kind, states), {'tokens': ('I32', (3, 7), 31), 'label': ('I32', (3, 7), 31)}, all_of(adam, lr=1e-2), clip=0.5)
    # models/, at the sizes that goldens.test gives with -D
    biases = lambda n, p: n.endswith('bias')
    vectors = lambda n, p: p.dim() == 1
    make('vgg16', models.Vgg16(4, 16, 10, 32), images(4, 32, 10), all_of(sgd, lr=0.01, momentum=0.9, weight_decay=5e-4))
    for name, depths, smooth in ('resnet50', (3, 4, 6, 3), 1.2), ('resnet152', (3, 8, 36, 3), 0.6):
        make(name, models.Resnet(4, depths, 10), images(6, 64, 10), no_decay(biases, sgd, 1e-4, lr=0.1, momentum=0.9), schedule=warmup(500), smooth=smooth)
    make('resnet_deep', models.Resnet(4, (3, 4, 5, 3), 10, pre=True), images(6, 64, 10), all_of(sgd, lr=0.1, momentum=0.9, weight_decay=1e-4), schedule=warmup(500), smooth=1.2)
    make('resnet_cifar', models.ResnetSmall(4, (3, 3, 3), 10, divisor=255), images(5, 16, 10),
         all_of(sgd, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4), schedule=warmup(400))
    make('mobilenetv2', models.Mobilenetv2(4, 10), images(6, 64, 10), all_of(sgd, lr=0.045, momentum=0.9, weight_decay=4e-5), schedule=cosine, smooth=1.2)
    make('densenet121', models.Densenet121(4, 10), images(6, 64, 10), all_of(sgd, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4), schedule=cosine, smooth=1.2)
    make('unet', models.Unet(2, 3), {'image': ('f', (2, 3, 32, 32), 256), 'mask': ('I32', (2, 32, 32), 3)}, all_of(adam, lr=1e-4))
    make('gpt2', models.Gpt(50, 16, 16, 2, 4), {'tokens': ('I32', (2, 12), 50), 'target': ('I32', (2, 12), 50)},
         no_decay(vectors, adamw, 0.1, lr=6e-4, betas=(0.9, 0.95)), clip=1.0, schedule=warmup(700))
    make('bert_base', models.Bert(40, 12, 16, 2, 4),
         {'tokens': ('I32', (4, 12), 40), 'segments': ('I32', (4, 12), 2), 'valid': ('f', (4, 12), 2), 'positions': ('I32', (4, 3), 12),
          'label': ('I32', (4, 3), 40), 'weight': ('f', (4, 3), 2), 'next': ('I32', (4,), 2)},
         no_decay(vectors, adamw, 0.01, lr=1e-4), clip=1.0, schedule=warmup(10000), loss_of=bert_losses)


if __name__ == '__main__':
    only = sys.argv[1:]
    main()
