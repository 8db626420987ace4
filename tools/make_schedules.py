#!/usr/bin/env python3
"""Makes test/compiler/Inputs/schedules.json with PyTorch: the learning rates of schedule lines in 40 steps with lr=0.5, and those of `lr=EXPRESSION`.

usage: make_schedules.py
PyTorch's schedulers where it has one, else the formula again. A warm-up of w steps is (step + 1) / (w + 1). Needs PyTorch; nothing in `make check` does.
"""
import json
import math
import os
import warnings

import torch
import torch.optim.lr_scheduler as sched

warnings.simplefilter('ignore')
STEPS, LR = 40, 0.5


def rates(make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler, found = make(optimizer), []
    for _ in range(STEPS):
        found.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    return found


def warm(w, make):
    """The scheduler behind w steps of warm-up."""
    return [LR * (i + 1) / (w + 1) for i in range(w)] + rates(make)[:STEPS - w]


golden = {
    'constant': [LR] * STEPS,
    'constant(warmup=3)': [LR * min(1, (i + 1) / 4) for i in range(STEPS)],
    'cosine(min=0.1)': rates(lambda o: sched.CosineAnnealingLR(o, STEPS, 0.1)),
    'cosine(warmup=5)': warm(5, lambda o: sched.CosineAnnealingLR(o, STEPS - 5)),
    'linear(warmup=4, min=0.1)': warm(4, lambda o: sched.LinearLR(o, 1.0, 0.2, STEPS - 4)),
    'step(every=7, gamma=0.3)': rates(lambda o: sched.StepLR(o, 7, 0.3)),
    'step(10, warmup=2, min=0.02)': [max(x, 0.02) for x in warm(2, lambda o: sched.StepLR(o, 10, 0.1))],
    'exponential(gamma=0.9)': rates(lambda o: sched.ExponentialLR(o, 0.9)),
    'polynomial(power=2)': rates(lambda o: sched.PolynomialLR(o, STEPS, 2)),
    'polynomial(warmup=6)': warm(6, lambda o: sched.PolynomialLR(o, STEPS - 6, 1)),
    'inverse_square_root(warmup=8)': [LR * min(s / 8, math.sqrt(8 / s)) for s in range(1, STEPS + 1)],
    'warmup_stable_decay(decay=10, warmup=4, min=0.05)': [LR * (s / 5 if s <= 4 else 0.1 + 0.9 * min(1, (STEPS - s + 1) / 10)) for s in range(1, STEPS + 1)],
    'cosine_restarts(T_0=9, min=0.1)': rates(lambda o: sched.CosineAnnealingWarmRestarts(o, 9, 1, 0.1)),
    'cosine_restarts(T_0=5, T_mult=2)': rates(lambda o: sched.CosineAnnealingWarmRestarts(o, 5, 2)),
    'one_cycle': None,
    'one_cycle(pct_start=0.25, div_factor=10)': None,
    'one_cycle(pct_start=0.025)': [LR / 25] + [  # in which PyTorch divides by zero
        LR * (4e-6 + (1 - 4e-6) * 0.5 * (1 + math.cos(math.pi * i / (STEPS - 1)))) for i in range(1, STEPS)
    ],
    'mine(share=0.25)': [LR if s < 10 else 0.125 for s in range(1, STEPS + 1)],
    'lr=0.3 * minimum(step / 10, (10 / step) ** half)': [0.3 * min(s / 10, (10 / s) ** 0.5) for s in range(1, STEPS + 1)],
    'lr=where(step > steps / 2, 0.1, 0.2)': [0.1 if s > 20 else 0.2 for s in range(1, STEPS + 1)],
    'lr=0.1 * cast(cast(step / 3, "i32"), "f64")': [0.1 * (s // 3) for s in range(1, STEPS + 1)],
    'lr=0.5 ** (cast(step, "i32") // 7)': [0.5 ** (s // 7) for s in range(1, STEPS + 1)],
    'lr=0.5 ** ((5 - cast(step, "i32")) // -3 + 4)': [0.5 ** ((5 - s) // -3 + 4) for s in range(1, STEPS + 1)],
    'lr=0.1 * (1 + cast(step, "i32") % 3)': [0.1 * (1 + s % 3) for s in range(1, STEPS + 1)],
}


def one_cycle(**options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler = sched.OneCycleLR(optimizer, LR, total_steps=STEPS, cycle_momentum=False, **options)
    found = []
    for i in range(STEPS):
        found.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        if i + 1 < STEPS:
            scheduler.step()
    return found


golden['one_cycle'] = one_cycle()
golden['one_cycle(pct_start=0.25, div_factor=10)'] = one_cycle(pct_start=0.25, div_factor=10)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'compiler', 'Inputs', 'schedules.json')
with open(path, 'w') as f:
    json.dump(golden, f, indent=0)
    f.write('\n')
