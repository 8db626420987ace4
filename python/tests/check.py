"""Compares a module with the program that nnc makes of it: outputs, loss, every gradient, parameters after three steps of SGD.

    check(module, args) -> Report      in f64 to 1e-9, in f32 to 1e-4 of each tensor's largest element

The loss is the mean of the outputs times fixed random numbers, so that every output counts. Outputs are compared in evaluation, loss and gradients in training, where dropout is 0.
NNC names the compiler (default: nnc in PATH).
"""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import math
import os
import subprocess
import tempfile
import time
import unittest.mock

import torch

from nnc.importer import Program, convert
from nnc.safetensors import load, save
from nnc.text import snake_case
from patches import Wide, exact_hardsigmoid, smooth

TYPES = {'f64': torch.float64, 'f32': torch.float32}
BOUND = {'f64': 1e-9, 'f32': 1e-4}
ROUNDING = {'f64': 1e-5, 'f32': 1e-3}   # of the largest gradient: where terms cancel, as in a key's bias, rounding leaves BOUND times that
FACTOR = 4              # errors larger than BOUND may be so many times those that PyTorch's own rounding makes
RANDOM = 4              # times a tensor's largest element: what PyTorch's own rounding cannot make
RATE = 0.0001


@dataclasses.dataclass
class Report:
    text: str
    errors: dict          # what: the largest relative difference
    seconds: dict         # of tracing, compiling, running
    mode: str             # that the module was traced in
    own: dict = dataclasses.field(default_factory=dict)    # what rounding makes of PyTorch's results, where errors are larger than BOUND
    times: float = 0      # that the errors are larger than these
    kinks: float = 0      # f32: the largest difference with the module's own activations, where the others are with smooth ones

    def worst(self) -> float:
        return max(self.errors.values())


class Mismatch(AssertionError):
    def __init__(self, message: str, errors: dict | None = None):
        super().__init__(message)
        self.errors = errors or {}


def flat(x) -> list:
    """Tensors of a result, in the order in which export gives them."""
    leaves, _ = torch.utils._pytree.tree_flatten(x)
    return [t for t in leaves if isinstance(t, torch.Tensor)]


def without_dropout(module: torch.nn.Module) -> None:
    for m in module.modules():
        for name, v in vars(m).items():
            if isinstance(v, float) and (name == 'p' and ('Drop' in type(m).__name__ or type(m).__name__ == 'StochasticDepth') or name in ('dropout_p', 'dropout', 'drop_prob', 'attention_dropout', 'attn_drop', 'activation_dropout', 'layerdrop') or 'drop' in name):
                setattr(m, name, 0.0)


def step(module, optimizer, x, label):
    """A step of training in PyTorch, by the cross-entropy; returns the loss before it."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(module(x), label)
    loss.backward()
    optimizer.step()
    return loss.item()


def run(folder: str, *command: str) -> None:
    r = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if r.returncode:
        raise Mismatch(f'{" ".join(command[:2])}: {r.stdout[-1500:]}{r.stderr[-3000:]}')


def train_section(program: Program, frozen: tuple | list = ()) -> str:
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
    compare = lambda: Comparison(module, args, kwargs or {}, dtype, name, steps, modes).report(raise_on_mismatch)
    if dtype == 'f64':
        with Wide():
            return compare()
    try:
        return compare()
    except Mismatch as e:
        if not e.errors:
            raise
        with smooth():
            r = compare()
        r.kinks = max(e.errors.values())
        return r


def outputs_in_evaluation(module, args, kwargs) -> int:
    """Fewer than in training where there are auxiliary heads."""
    with torch.no_grad():
        return len(flat(module.eval()(*args, **kwargs)))


def traced(make, args, kwargs, name, modes):
    for mode in modes:
        try:
            program = convert(make().train(mode == 'train'), args, kwargs, name)
            if mode == modes[-1] or len(program.outputs) == outputs_in_evaluation(make(), args, kwargs):
                return program, mode
        except Exception:
            if mode == modes[-1]:
                raise
        finally:
            gc.collect()         # torch.export's graphs are in circles, and hold the module
    raise ValueError('no mode')


class Comparison:
    """One module, as it is, in one type."""

    def __init__(self, module, args, kwargs, dtype, name, steps, modes):
        self.given, self.args, self.kwargs, self.dtype, self.steps = module, args, kwargs, dtype, steps
        self.seconds, self.type = {}, TYPES[dtype]
        torch.manual_seed(0)
        start = time.time()
        self.program, self.mode = traced(lambda: self.module(self.type), *self.inputs(self.type), name, modes)
        self.seconds['trace'] = time.time() - start
        self.text = self.program.text + '\n' + train_section(self.program, [n for n, p in module.named_parameters() if not p.requires_grad])

    def module(self, type_: torch.dtype) -> torch.nn.Module:
        copied = copy.deepcopy(self.given).to(type_)
        without_dropout(copied)
        return copied

    def inputs(self, type_: torch.dtype) -> tuple:
        cast = lambda t: t.to(type_) if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        return torch.utils._pytree.tree_map(cast, (tuple(self.args), self.kwargs))

    def report(self, raise_on_mismatch: bool) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'm.nn'), 'w') as f:
                f.write(self.text)
            try:
                report = self.run(folder)
                if max(report.own.values(), default=0) > RANDOM:
                    raise Mismatch(f'PyTorch differs from itself by {max(report.own.values()):.1e}: it draws random numbers, or rounding decides everything')
                if raise_on_mismatch and not report.worst() <= BOUND[self.dtype] and not report.times <= FACTOR:
                    bad = sorted(((v, k) for k, v in report.errors.items() if not v <= BOUND[self.dtype]), reverse=True)
                    raise Mismatch(', '.join(f'{k}: {v:.1e}' for v, k in bad[:5]) + (f' and {len(bad) - 5} more' if len(bad) > 5 else '') +
                                   f'; rounding in PyTorch: {max(report.own.values()):.1e}', report.errors)
                return report
            except Mismatch as e:
                e.text = self.text
                raise

    def run(self, folder: str) -> Report:
        start = time.time()
        run(folder, os.environ.get('NNC', 'nnc'), 'm.nn', '-o', 'm', f'--dtype={self.dtype}', '-O1')
        self.seconds['compile'] = time.time() - start
        start = time.time()
        args, kwargs = self.inputs(self.type)
        inputs = {n: v for n, v in zip([snake_case(v.hint or 'x') for v in self.program.inputs], flat((args, kwargs)))}
        targets = {i: torch.randn(v.shape).to(self.type) for i, v in enumerate(self.program.outputs) if v.dtype == 'f32'}
        self.program.save_weights(os.path.join(folder, 'w0.safetensors'))
        self.program.weights.clear()         # of the largest models memory holds the parameters as they were given, and those of one side
        gc.collect()
        want, floors = reference(self.module(self.type), args, kwargs, self.program.outputs, self.steps, targets, folder)
        self.seconds['torch'] = time.time() - start
        start = time.time()
        have = results(self.program, folder, inputs, targets, self.steps)
        errors, own = differences(have, want, floors, self.dtype), {}
        self.seconds['run'] = time.time() - start
        if not max(errors.values()) <= BOUND[self.dtype]:
            near = self.nearby(targets, folder)
            errors, own = differences(have, near if self.dtype == 'f32' else want, floors, self.dtype), differences(want, near, floors, self.dtype)
        return Report(self.text, errors, self.seconds, self.mode, own, times=times(errors, own, BOUND[self.dtype]))

    def nearby(self, targets: dict, folder: str) -> dict:
        """What PyTorch computes in f64, the truth for f32; for f64, with parameters whose last bit is another one."""
        module = self.module(torch.float64)
        if self.dtype == 'f64':
            with torch.no_grad():
                for p in module.parameters():
                    p *= 1 + 2.0 ** -52 * torch.randint(-1, 2, p.shape).double()
        with Wide() if self.dtype == 'f32' else contextlib.nullcontext():
            near, _ = reference(module, *self.inputs(torch.float64), self.program.outputs, self.steps, {i: t.double() for i, t in targets.items()}, folder)
        return near


def times(errors: dict, own: dict, bound: float) -> float:
    """How many times the errors, the middle one, the ninth of ten, and the largest, are those that rounding makes in PyTorch, where they are larger than the bound: of outputs and loss, gradients, and
    what three steps leave, each; of fewer than ten the largest."""
    most = 0.0
    for group in ('ol', 'g', 'a'):
        both = [sorted(v for k, v in e.items() if k[0] in group and k in own and k in errors) for e in (errors, own)]
        for part in (0.5, 0.9, 1) if len(both[0]) >= 10 else (1,) if both[0] else ():
            error, rounding = (e[int(part * (len(e) - 1))] for e in both)
            most = max(most, error / max(rounding, bound / FACTOR) if error > bound else 0.0)
    return most


def on_disk(tensors: dict, folder: str) -> dict:
    """The same in the pages of a file, which memory need not hold."""
    handle, path = tempfile.mkstemp(dir=folder)
    os.close(handle)
    save(path, tensors)
    return load(path)


def reference(module, args, kwargs, outputs: list, steps: int, targets: dict, folder: str) -> tuple:
    """What PyTorch computes, its largest part in `folder`, and the size below which differences do not count: of a loss the mean size of its terms, which cancel. The targets are made smaller, by a
    power of two, until no gradient is larger than 1: with larger steps rounding errors grow a hundredfold in each."""
    want, floors, firsts = {}, {}, dict(module.named_parameters())
    module.eval()
    with torch.no_grad():
        want.update({f'output {i}': o.clone() for i, o in enumerate(flat(module(*args, **kwargs))[:len(outputs)])})
    module.train()
    for k in range(steps):
        with unittest.mock.patch('torch.nn.functional.hardsigmoid', exact_hardsigmoid):
            outs = flat(module(*args, **kwargs))
        for p in firsts.values():
            p.grad = None
        terms = [o * targets[i] for i, o in enumerate(outs[:len(outputs)]) if i in targets]
        loss = sum(t.mean() for t in terms)
        loss.backward()
        if k == 0:
            grads = {n: p.grad for n, p in firsts.items() if p.grad is not None}
            largest = max((g.abs().max().item() for g in grads.values() if g.numel()), default=0)
            scale = 0.5 ** max(0, math.ceil(math.log2(largest or 1) - 0.001))
            for t in [*targets.values(), *grads.values()]:
                t *= scale
            want['loss'], floors['loss'] = loss.detach() * scale, sum(t.detach().abs().mean().item() for t in terms) * scale
            want.update(on_disk({f'grad.{n}': g for n, g in grads.items() if firsts[n].requires_grad}, folder))
            del grads
        with torch.no_grad():
            for p in firsts.values():
                if p.grad is not None:
                    p -= RATE * p.grad
    tensors = {**firsts, **{n: b for n, b in module.named_buffers() if b.is_floating_point()}}
    want.update(on_disk({f'after {steps} steps: {n}': p for n, p in tensors.items()}, folder))
    floors.update(grad=largest * scale, after=max((p.abs().max().item() for p in firsts.values() if p.numel()), default=0) * 1e-3)
    return want, floors


def results(program, folder: str, inputs: dict, targets: dict, steps: int) -> dict:
    """What the program computes, under the names of reference()."""
    save(os.path.join(folder, 'data.safetensors'), {**inputs, **{f'target{i}': t for i, t in targets.items()}})
    save(os.path.join(folder, 'inputs.safetensors'), inputs)
    run(folder, './m', 'predict', '--inputs', 'inputs.safetensors', '--weights', 'w0.safetensors', '--outputs', 'out.safetensors')
    got = load(os.path.join(folder, 'out.safetensors'))
    names = list(got)
    have = {f'output {i}': got.get(f'{program.name}.{i}', got.get(f'output.{i}', got[names[i]])) for i in range(len(program.outputs))}
    for k in range(steps):
        run(folder, './m', 'step', '--inputs', 'data.safetensors', '--weights', f'w{k}.safetensors', '--outputs', f'w{k + 1}.safetensors', f'--step={k}', f'--steps={steps}')
        os.remove(os.path.join(folder, f'w{k}.safetensors'))
        got = load(os.path.join(folder, f'w{k + 1}.safetensors'))
        if k == 0:
            have.update({n: t for n, t in got.items() if n == 'loss' or n.startswith('grad.')})
    have.update({f'after {steps} steps: {n}': t for n, t in got.items()})
    return have


def differences(have: dict, want: dict, floors: dict, dtype: str) -> dict:
    floor = {'l': floors['loss'], 'g': floors['grad'] * ROUNDING[dtype], 'a': floors['after'], 'o': 0.0 if dtype == 'f64' else 1e-30}
    for n, t in want.items():
        if n not in have and not n.startswith('after') and t.any():
            raise Mismatch(f'{n} is not computed')
    return {n: difference(have[n], t, floor[n[0]]) for n, t in want.items() if n in have}
