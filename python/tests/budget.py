"""Compares a module's program within a budget with the one without: what a step leaves is the same to the last byte.

    check(module, args, kwargs) -> Report      at 110 % of the smallest budget that the compiler finds"""
from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import tempfile
import time

import torch

import check as checking
from nnc.safetensors import load, save
from nnc.text import snake_case


@dataclasses.dataclass
class Report:
    lines: int
    arena: str          # without a budget
    smallest: int       # budget, in bytes
    within: str         # arena at 110 % of it
    seconds: float


def compiled(folder: str, program: str, *options: str) -> str:
    """The size of its arena, as the compiler says it."""
    r = subprocess.run([os.environ.get('NNC', 'nnc'), 'm.nn', '-o', program, '-O1', *options], cwd=folder, capture_output=True, text=True)
    if r.returncode:
        raise checking.Mismatch(r.stderr[-1000:])
    return re.search(r': ([^,]*) arena', r.stdout + r.stderr).group(1)


def smallest_budget(folder: str) -> int:
    r = subprocess.run([os.environ.get('NNC', 'nnc'), 'm.nn', '-o', 'none', '-O1', '--memory-budget=1', '--remat-time=3'], cwd=folder, capture_output=True, text=True)
    found = re.search(r'smallest budget found is (?:[^()]*\()?(\d+) bytes', r.stderr)
    if not found:
        raise checking.Mismatch(f'no smallest budget: {r.stderr[-1000:]}')
    return int(found.group(1))


def differ(one: dict, other: dict) -> list:
    """The tensors that are not the same bytes; their order in the file is the order in which the plan makes them."""
    bytes_of = lambda t: t.reshape(-1).view(torch.uint8)
    return [n for n in {*one, *other} if n not in one or n not in other or not torch.equal(bytes_of(one[n]), bytes_of(other[n]))]


def check(module: torch.nn.Module, args: tuple, kwargs: dict | None = None, steps: int = 2) -> Report:
    start = time.time()
    module.train()
    c = checking.Comparison(module, args, kwargs or {}, 'f32', None, steps, ('train', 'eval'))
    inputs = {snake_case(v.hint or 'x'): t for v, t in zip(c.program.inputs, checking.flat((args, kwargs or {})))}
    targets = {f'target{i}': torch.randn(v.shape) for i, v in enumerate(c.program.outputs) if v.dtype == 'f32'}
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        with open(at('m.nn'), 'w') as f:
            f.write(c.text)
        c.program.save_weights(at('free0'))
        os.link(at('free0'), at('budget0'))
        save(at('data'), {**inputs, **targets})
        arena, smallest = compiled(folder, 'free'), smallest_budget(folder)
        within = compiled(folder, 'budget', f'--memory-budget={smallest * 11 // 10}', '--remat-time=3')
        for k in range(steps):
            for program in ('free', 'budget'):
                checking.run(folder, f'./{program}', 'step', '--inputs', 'data', '--weights', f'{program}{k}', '--outputs', f'{program}{k + 1}', f'--step={k}', f'--steps={steps}')
            different = differ(load(at(f'free{k + 1}')), load(at(f'budget{k + 1}')))
            if different:
                raise checking.Mismatch(f'step {k} leaves other bytes in {within} than in {arena}: {", ".join(different[:5])}')
            os.remove(at(f'free{k}')), os.remove(at(f'budget{k}'))
    return Report(len(c.program.text.splitlines()), arena, smallest, within, time.time() - start)
