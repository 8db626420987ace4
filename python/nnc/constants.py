"""Constant tensors as expressions: a number, a row of numbers that counts up, a state that is filled from the weights file."""
from __future__ import annotations

import math

import torch

from .text import Call, Const, Expr, Op, Param, Var, call, transform, walk
from .torch_ops import Known, dtype_name

OF_FINITE = ('*', '/', '//', '%', '**', '==', '!=')     # what 1e30 in place of an infinity is seen in


class Constants:
    """Tensors that go into the weights file, by name."""

    def __init__(self, buffers: dict):
        self.names = {id(t): name for name, t in buffers.items()}
        self.stored: dict[str, torch.Tensor] = {}
        self.keep: list = []

    def expression(self, t: torch.Tensor, where: str) -> Expr:
        if t.dim() == 0:
            return Const(t.reshape(-1)[0].item())
        if t.numel() and bool((t == t.reshape(-1)[0]).all()):
            value = t.reshape(-1)[0].item()
            filled = call('full', list(t.shape), float(value))
            return filled if t.dtype.is_floating_point else call('cast', filled, dtype_name(t.dtype))
        if t.dim() > 1 and t.shape[0] > 1 and id(t) not in self.names and bool((t == t[:1]).all()):     # the same for each record: the batch may have another size than the example
            return call('broadcast_to', self.expression(t[:1].contiguous(), where), list(t.shape))
        counted = counting(t)
        return counted if counted is not None else self.store(t, where)

    def store(self, t: torch.Tensor, where: str) -> Param:
        name = self.names.get(id(t))
        if name is None:
            k = 0
            while True:
                name = '.'.join(([where] if where else []) + [f'constant_{k}' if k else 'constant'])
                if name not in self.stored or self.stored[name].shape == t.shape and self.stored[name].dtype == t.dtype and torch.equal(self.stored[name], t):
                    break
                k += 1
        self.keep.append(t)
        self.stored[name] = t
        return Param(name, list(t.shape), dtype_name(t.dtype), True)

    def replace(self, statements: list, path: str):
        for s in statements:
            s.expr = transform(s.expr, lambda e: self.as_number(e))
            s.expr = transform(s.expr, lambda e: self.expression(e.tensor, path) if isinstance(e, Known) else None)

    def as_number(self, e: Expr) -> Expr | None:
        """Beside a tensor that has its shape, one of equal elements is a number."""
        if not (isinstance(e, Op) or isinstance(e, Call) and e.fn in ('where', 'maximum', 'minimum')) or not any(isinstance(c, Known) for c in e.children()):
            return None
        shapes = [c.value.shape if isinstance(c, Var) else c.shape for c in e.children() if isinstance(c, (Var, Param))]

        def number(c: Expr) -> Expr:
            if isinstance(c, Known) and c.tensor.numel() and bool((c.tensor == c.tensor.reshape(-1)[0]).all()) and any(covers(s, list(c.tensor.shape)) for s in shapes):
                return Const(c.tensor.reshape(-1)[0].item())
            return transform(c, self.as_number)
        return e.rebuild([number(c) for c in e.children()])


def covers(shape: list, other: list) -> bool:
    return len(shape) >= len(other) and all(b in (1, a) for a, b in zip(reversed(shape), reversed(other)))


def counting(t: torch.Tensor) -> Expr | None:
    """start, start + step, ... along the last axis of [1, .., n]."""
    if t.dtype not in (torch.int64, torch.int32) or t.numel() < 2 or t.numel() != t.shape[-1]:
        return None
    flat = t.reshape(-1)
    start, step = int(flat[0]), int(flat[1] - flat[0])
    if step == 0 or not torch.equal(flat, torch.arange(len(flat), dtype=t.dtype) * step + start):
        return None
    e: Expr = call('iota', len(flat))
    if step != 1:
        e = Op('*', [e, Const(step)])
    if start:
        e = Op('+', [e, Const(start)])
    return e if t.dim() == 1 else call('reshape', e, list(t.shape))


def refused_number(e: Expr) -> tuple[str, str] | None:
    """A number in e that the language does not have, or a tensor without any, and what to write instead.

    1e30 does in place of an infinity that masks, bounds or is compared by size."""
    numbers = lambda x: [c.value for c in walk(x) if isinstance(c, Const) and isinstance(c.value, float)]
    if any(map(math.isnan, numbers(e))):
        return 'NaN', 'the language has none: another number'
    for x in walk(e):
        if isinstance(x, Param) and 0 in x.shape:
            return 'a tensor without elements', 'the language has none: leave it out'
        if isinstance(x, Op) and x.op in OF_FINITE and any(map(math.isinf, numbers(x))):
            return f'an infinity beside {x.op}', 'the language has none: a finite number'
    return None
