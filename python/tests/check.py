"""Compares a module with the program that nnc makes of it: outputs, loss, every gradient, parameters after three steps of SGD.

    check(module, args) -> Report      in f64 to 1e-9, in f32 to 1e-4 of each tensor's largest element

The loss is the mean of the outputs times fixed random numbers, so that every output counts. Outputs are compared in evaluation, loss and gradients in training, where dropout is 0.
NNC names the compiler (default: nnc in PATH).
"""
from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import tempfile
import time
import unittest.mock

import torch

from nnc.from_torch import Program, convert
from nnc.safetensors import load, save
from nnc.text import snake_case

BOUND = {'f64': 1e-9, 'f32': 1e-4}
ROUNDING = {'f64': 1e-5, 'f32': 1e-3}   # of the largest gradient: where terms cancel, as in a key's bias, rounding leaves BOUND times that
RATE = 0.0001   # small steps: with large ones rounding errors of deep networks grow a hundredfold in each


@dataclasses.dataclass
class Report:
    text: str
    errors: dict          # what: the largest relative difference
    seconds: dict         # of tracing, compiling, running
    mode: str             # that the module was traced in

    def worst(self) -> float:
        return max(self.errors.values())


class Mismatch(AssertionError):
    pass


def flat(x) -> list:
    """Tensors of a result, in the order in which export gives them."""
    leaves, _ = torch.utils._pytree.tree_flatten(x)
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def without_dropout(module: torch.nn.Module) -> None:
    for m in module.modules():
        for name, v in vars(m).items():
            if isinstance(v, float) and (name in ('p', 'dropout_p', 'dropout', 'drop_prob', 'attention_dropout', 'attn_drop', 'activation_dropout', 'layerdrop') or 'drop' in name):
                setattr(m, name, 0.0)


class Wide:
    """While the reference computes in f64, what a module casts to f32 stays f64, as in a program of --dtype=f64."""

    def __enter__(self):
        self.saved = torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax
        to = torch.Tensor.to

        def wide(t, *args, **kwargs):
            swap = lambda a: torch.float64 if a is torch.float32 and t.dtype is torch.float64 else a
            return to(t, *[swap(a) for a in args], **{k: swap(a) for k, a in kwargs.items()})
        softmax = torch.nn.functional.softmax
        torch.nn.functional.softmax = lambda x, dim=None, _stacklevel=3, dtype=None: softmax(x, dim, dtype=None if x.dtype is torch.float64 else dtype)
        torch.Tensor.to, torch.Tensor.float = wide, lambda t: t if t.dtype is torch.float64 else wide(t, torch.float32)

    def __exit__(self, *_):
        torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax = self.saved


def run(folder: str, *command: str) -> None:
    r = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if r.returncode:
        raise Mismatch(f'{" ".join(command[:2])}: {r.stdout[-1500:]}{r.stderr[-3000:]}')


def train_section(program: Program, frozen: list) -> str:
    inputs = [snake_case(v.hint or 'x') for v in program.inputs]
    floats = [(i, v) for i, v in enumerate(program.outputs) if v.dtype == 'f32']
    targets = [f'target{i}' for i, _ in floats]
    outs = [f'y{i}' for i in range(len(program.outputs))]
    types = ', '.join(f'{t}=f32[{", ".join(map(str, v.shape))}]' for t, (_, v) in zip(targets, floats))
    losses = ' + '.join(f'mean(y{i} * {t})' for t, (i, _) in zip(targets, floats))
    return (f'train {{\n    data {", ".join(inputs + targets)} = safetensors("data.safetensors", whole=true, {types})\n    {", ".join(outs)} = {program.name}({", ".join(inputs)})\n'
            f'    loss {losses}\n    optimizer sgd(lr={RATE})\n' + ''.join(f'    group "{n}", frozen=true\n' for n in frozen) + '    steps 3\n}\n')


def difference(a: torch.Tensor, b: torch.Tensor, floor: float = 0.0) -> float:
    if a.shape != b.shape and a.numel() == b.numel():
        a = a.reshape(b.shape)
    if a.shape != b.shape:
        raise Mismatch(f'shapes {list(a.shape)} and {list(b.shape)}')
    if a.numel() == 0:
        return 0.0
    d = (a.double() - b.double()).abs().max().item()
    if d != d:
        raise Mismatch('not a number')
    return d / max(b.abs().max().item(), floor, 1e-300) if d else 0.0


def check(module: torch.nn.Module, args: tuple, kwargs: dict | None = None, dtype: str = 'f64', name: str | None = None, steps: int = 3, modes=('train', 'eval'), raise_on_mismatch: bool = True) -> Report:
    kwargs = kwargs or {}
    wide = torch.float64 if dtype == 'f64' else torch.float32
    module = copy.deepcopy(module).to(wide)
    cast = lambda t: t.to(wide) if isinstance(t, torch.Tensor) and t.is_floating_point() else t
    args, kwargs = tuple(cast(a) for a in args), {k: cast(v) for k, v in kwargs.items()}
    without_dropout(module)
    if dtype == 'f64':
        with Wide():
            return compare(module, args, kwargs, dtype, name, steps, modes, raise_on_mismatch)
    return compare(module, args, kwargs, dtype, name, steps, modes, raise_on_mismatch)


def outputs_in_evaluation(module, args, kwargs) -> int:
    """Fewer than in training where there are auxiliary heads."""
    with torch.no_grad():
        return len(flat(copy.deepcopy(module).eval()(*args, **kwargs)))


def exact_hardsigmoid(x, inplace=False):
    """PyTorch's has a sixth of f32 in its gradient, also in f64."""
    return torch.nn.functional.relu6(x + 3) / 6


def traced(module, args, kwargs, name, modes):
    for mode in modes:
        try:
            module.train(mode == 'train')
            program = convert(copy.deepcopy(module), args, kwargs, name)
            if mode == modes[-1] or len(program.outputs) == outputs_in_evaluation(module, args, kwargs):
                return program, mode
        except Exception:
            if mode == modes[-1]:
                raise
    raise ValueError('no mode')


def compare(module, args, kwargs, dtype, name, steps, modes, raise_on_mismatch) -> Report:
    torch.manual_seed(0)
    seconds, errors = {}, {}
    start = time.time()
    program, mode = traced(module, args, kwargs, name, modes)
    seconds['trace'] = time.time() - start
    text = program.text + '\n' + train_section(program, [n for n, p in module.named_parameters() if not p.requires_grad])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'm.nn'), 'w') as f:
            f.write(text)
        try:
            run_program(program, folder, module, args, kwargs, dtype, steps, mode, seconds, errors)
        except Mismatch as e:
            e.text = text
            raise
    report = Report(text, errors, seconds, mode)
    bad = {k: v for k, v in errors.items() if not v <= BOUND[dtype]}
    if bad and raise_on_mismatch:
        e = Mismatch(', '.join(f'{k}: {v:.1e}' for k, v in sorted(bad.items(), key=lambda i: -i[1])[:5]) + (f' and {len(bad) - 5} more' if len(bad) > 5 else ''))
        e.text = text
        raise e
    return report


def run_program(program, folder, module, args, kwargs, dtype, steps, mode, seconds, errors):
    start = time.time()
    run(folder, os.environ.get('NNC', 'nnc'), 'm.nn', '-o', 'm', f'--dtype={dtype}', '-O1')
    seconds['compile'] = time.time() - start
    start = time.time()
    used = {n: v for n, v in zip([snake_case(v.hint or 'x') for v in program.inputs], flat((args, kwargs)))}
    targets = {f'target{i}': torch.randn(v.shape, dtype=torch.float64 if dtype == 'f64' else torch.float32) for i, v in enumerate(program.outputs) if v.dtype == 'f32'}
    save(os.path.join(folder, 'data.safetensors'), {**used, **targets})
    save(os.path.join(folder, 'inputs.safetensors'), used)
    program.save_weights(os.path.join(folder, 'w0.safetensors'))
    run(folder, './m', 'predict', '--inputs', 'inputs.safetensors', '--weights', 'w0.safetensors', '--outputs', 'out.safetensors')
    module.eval()
    with torch.no_grad():
        want = flat(module(*args, **kwargs))
    got = load(os.path.join(folder, 'out.safetensors'))
    names = [n for n in got]
    for i, v in enumerate(program.outputs):
        have = got.get(f'{program.name}.{i}', got.get(f'output.{i}', got[names[i]]))
        errors[f'output {i}'] = difference(have, want[i])
    module.train()
    first = {n: p for n, p in module.named_parameters()}
    for k in range(steps):
        run(folder, './m', 'step', '--inputs', 'data.safetensors', '--weights', f'w{k}.safetensors', '--outputs', f'w{k + 1}.safetensors', f'--step={k}', f'--steps={steps}')
        got = load(os.path.join(folder, f'w{k + 1}.safetensors'))
        with unittest.mock.patch('torch.nn.functional.hardsigmoid', exact_hardsigmoid):
            outs = flat(module(*args, **kwargs))
        loss = sum((o * targets[f'target{i}']).mean() for i, o in enumerate(outs[:len(program.outputs)]) if f'target{i}' in targets)
        for p in first.values():
            p.grad = None
        loss.backward()
        if k == 0:
            errors['loss'] = difference(got['loss'], loss.detach(), max((o.detach().abs().max().item() for o in outs if o.is_floating_point()), default=0) * 1e-3)
            floor = max((p.grad.abs().max().item() for p in first.values() if p.grad is not None), default=0) * ROUNDING[dtype]
            for n, p in first.items():
                if p.grad is not None and p.requires_grad:
                    if f'grad.{n}' not in got and not p.grad.any():
                        continue
                    errors[f'grad.{n}'] = difference(got[f'grad.{n}'], p.grad, floor)
        with torch.no_grad():
            for p in first.values():
                if p.grad is not None:
                    p -= RATE * p.grad
    scale = max((p.abs().max().item() for p in first.values()), default=0) * 1e-3
    for n, p in first.items():
        if n in got:
            errors[f'after {steps} steps: {n}'] = difference(got[n], p.detach(), scale)
    for n, b in module.named_buffers():
        if n in got and b.is_floating_point():
            errors[f'after {steps} steps: {n}'] = difference(got[n], b, scale)
    seconds['run'] = time.time() - start
