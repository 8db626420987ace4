#!/usr/bin/env python3
"""Makes test/e2e/Inputs/optimizers.json with PyTorch: the parameters of test/e2e/Inputs/optimizers.nn after 25 steps of each optimizer, in f64.

usage: make_optimizers.py
Those that PyTorch lacks are written out here from their papers; Muon as torch.optim.Muon, in f64 instead of bf16. Needs PyTorch; nothing in `make check` does.
"""
import json
import os

import torch
import torch.optim as optim

import golden_format as gf

torch.set_default_dtype(torch.float64)   # also the scalars that optimizers keep


def with_gradients(group):
    return [p for p in group['params'] if p.grad is not None]


class Lion(optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in with_gradients(g):
                m = self.state[p].setdefault('m', torch.zeros_like(p))
                b1, b2 = g['betas']
                p.mul_(1 - g['lr'] * g['weight_decay']).sub_(g['lr'] * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_((1 - b2) * p.grad)


class Lamb(optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in with_gradients(g):
                s = self.state[p]
                if not s:
                    s.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                b1, b2 = g['betas']
                s['t'] += 1
                s['m'].mul_(b1).add_((1 - b1) * p.grad)
                s['v'].mul_(b2).add_((1 - b2) * p.grad ** 2)
                r = s['m'] / (1 - b1 ** s['t']) / ((s['v'] / (1 - b2 ** s['t'])).sqrt() + g['eps']) + g['weight_decay'] * p
                trust = p.norm() / r.norm() if p.norm() > 0 and r.norm() > 0 else 1.0
                p.sub_(g['lr'] * trust * r)


class Muon(optim.Optimizer):
    def __init__(self, params, lr, weight_decay=0.1, momentum=0.95):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in with_gradients(g):
                buf = self.state[p].setdefault('buf', torch.zeros_like(p))
                buf.lerp_(p.grad, 1 - g['momentum'])
                x = p.grad.lerp(buf, g['momentum'])
                tall = x.size(0) > x.size(1)
                x = x.T if tall else x
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if tall else x
                ratio = max(1, p.size(0) / p.size(1)) ** 0.5
                p.mul_(1 - g['lr'] * g['weight_decay']).sub_(g['lr'] * ratio * x)


OPTIMIZERS = {
    'sgd': lambda p: [optim.SGD(p, lr=0.05)],
    'nesterov': lambda p: [optim.SGD(p, lr=0.02, momentum=0.8, nesterov=True, weight_decay=0.1)],
    'adam': lambda p: [optim.Adam(p, lr=0.03, betas=(0.8, 0.999), weight_decay=0.1)],
    'amsgrad': lambda p: [optim.AdamW(p, lr=0.03, betas=(0.9, 0.9), weight_decay=0.2, amsgrad=True)],
    'adamw': lambda p: [optim.AdamW(p, lr=0.03, betas=(0.9, 0.95))],
    'rmsprop': lambda p: [optim.RMSprop(p, lr=0.02, momentum=0.5, weight_decay=0.1)],
    'centered': lambda p: [optim.RMSprop(p, lr=0.02, alpha=0.9, centered=True)],
    'adagrad': lambda p: [optim.Adagrad(p, lr=0.1, lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.1)],
    'adadelta': lambda p: [optim.Adadelta(p, lr=0.5, weight_decay=0.1)],
    'adamax': lambda p: [optim.Adamax(p, lr=0.05, weight_decay=0.1)],
    'nadam': lambda p: [optim.NAdam(p, lr=0.03, weight_decay=0.1, decoupled_weight_decay=True)],
    'radam': lambda p: [optim.RAdam(p, lr=0.05, weight_decay=0.1)],
    'lion': lambda p: [Lion(p, lr=0.01, weight_decay=0.1)],
    'lamb': lambda p: [Lamb(p, lr=0.05, weight_decay=0.1)],
    'adafactor': lambda p: [optim.Adafactor(p, lr=0.1, weight_decay=0.1, eps=(1.1920928955078125e-7, 1e-3))],
    'muon': lambda p: [Muon([x for x in p if x.dim() == 2], lr=0.05), optim.AdamW([x for x in p if x.dim() == 1], lr=0.01)],
}


def hashed(name, shape):
    return torch.tensor(gf.tensor(name, gf.count(shape), 0.5)).reshape(shape)


def train(kind, x, y):
    shapes = {'linear.weight': (5, 4), 'linear.bias': (5,), 'linear_2.weight': (3, 5), 'linear_2.bias': (3,)}
    params = {n: hashed(f'{kind}.{n}', s).requires_grad_() for n, s in shapes.items()}
    optimizers = OPTIMIZERS[kind](list(params.values()))
    for _ in range(25):
        for p in params.values():
            p.grad = None
        w1, b1, w2, b2 = params.values()
        loss = 0.5 * (torch.tanh(x @ w1.T + b1) @ w2.T + b2 - y).square().sum()
        loss.backward()
        for o in optimizers:
            o.step()
    return {f'{kind}.{n}': gf.digest(p.detach().flatten().tolist()) for n, p in params.items()}


def main():
    x, y = hashed('x', (16, 4)), hashed('y', (16, 3))
    golden = {}
    for kind in OPTIMIZERS:
        golden.update(train(kind, x, y))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'e2e', 'Inputs', 'optimizers.json')
    with open(path, 'w') as f:
        json.dump(golden, f, indent=0)
        f.write('\n')


if __name__ == '__main__':
    main()
