#!/usr/bin/env python3
"""Makes test/models/goldens/*.json with PyTorch in f64: loss, outputs, gradients of one step and parameters after three.

Needs PyTorch and numpy (Debian: python3-torch); nothing in `make demo` or `make check` does.
Parameters are matched to those of the compiled .nn file by their order, which is the order of first use on both sides.
"""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_format as gf

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


class BasicBlock(nn.Module):
    """The shortcut is declared last because the .nn file uses it last."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.a, self.an = nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.b, self.bn = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.project = stride != 1 or inputs != width
        if self.project:
            self.s, self.sn = nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        y = self.bn(self.b(F.relu(self.an(self.a(x)))))
        return F.relu(y + (self.sn(self.s(x)) if self.project else x))


class Resnet18(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        blocks, inputs = [], width
        for i, stride in enumerate([1, 2, 2, 2]):
            for k in range(2):
                blocks.append(BasicBlock(inputs, width << i, stride if k == 0 else 1))
                inputs = width << i
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class GptBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.qkv, self.proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n2, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.n1(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float('-inf'))
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate='tanh'))


class Gpt(nn.Module):
    def __init__(self, vocabulary=65, t=12, d=32, layers=2, heads=4):
        super().__init__()
        self.wte, self.wpe = nn.Parameter(torch.empty(vocabulary, d)), nn.Parameter(torch.empty(t, d))
        self.blocks, self.norm = nn.Sequential(*[GptBlock(d, heads) for _ in range(layers)]), nn.LayerNorm(d)

    def forward(self, tokens):
        x = self.wte[tokens] + self.wpe
        return self.norm(self.blocks(x)) @ self.wte.T


def is_scale(name, shape):
    return len(shape) == 1 and 'weight' in name     # of a normalisation: around one


def make(name, model, inputs, loss_of, optimizer_of, clip=None):
    golden = {'steps': STEPS, 'inputs': {k: {'dtype': v[0], 'shape': list(v[1]), 'below': v[2]} for k, v in inputs.items()}}
    data = {}
    for key, (dtype, shape, below) in inputs.items():
        count = int(torch.tensor(shape).prod())
        values = gf.integers(f'{name}.{key}', count, below) if below else gf.tensor(f'{name}.{key}', count)
        data[key] = torch.tensor(values).reshape(shape)
    parameters, buffers = list(model.named_parameters()), [(n, b) for n, b in model.named_buffers() if 'num_batches' not in n]
    golden['parameters'] = []
    for i, (path, p) in enumerate(parameters):
        scale = 1.0 / max(1, p[0].numel()) ** 0.5 if p.dim() > 1 else 0.1
        shift = 1.0 if is_scale(path, p.shape) else 0.0
        p.data = torch.tensor(gf.tensor(f'{name}.p{i}', p.numel(), scale, shift)).reshape(p.shape)
        golden['parameters'].append({'torch': path, 'shape': list(p.shape), 'scale': scale, 'shift': shift})
    flat = lambda t: t.detach().double().flatten().tolist()
    optimizer = optimizer_of(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        output = model(data[next(iter(inputs))])
        loss = loss_of(output, data['label'])
        loss.backward()
        if step == 0:
            golden['loss'], golden['output'] = loss.item(), gf.digest(flat(output))
            golden['gradients'] = [gf.digest(flat(p.grad)) for _, p in parameters]
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    golden['final_loss'] = loss.item()
    golden['final'] = [gf.digest(flat(p)) for _, p in parameters]
    golden['state'] = [gf.digest(flat(b)) for _, b in buffers]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'models', 'goldens', name + '.json')
    with open(path, 'w') as f:
        json.dump(golden, f, indent=1)
    print(f'{name}: loss {golden["loss"]:.6f} -> {golden["final_loss"]:.6f}, {sum(p.numel() for _, p in parameters)} parameters')


def main():
    classify = F.cross_entropy
    make('mlp', Mlp(), {'x': ('f', (9, 20), 0), 'label': ('I32', (9,), 5)}, classify,
         lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True))
    make('lenet', Lenet(), {'image': ('f', (7, 1, 28, 28), 0), 'label': ('I32', (7,), 10)}, classify,
         lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01))
    make('resnet18', Resnet18(), {'image': ('f', (5, 3, 32, 32), 0), 'label': ('I32', (5,), 10)}, classify,
         lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4))
    make('gpt', Gpt(), {'tokens': ('I32', (3, 12), 65), 'label': ('I32', (3, 12), 65)},
         lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()), lambda p: torch.optim.Adam(p, lr=3e-4, weight_decay=0.1), clip=1.0)


if __name__ == '__main__':
    main()
