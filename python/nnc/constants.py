"""Constant tensors as expressions: a number, a row of numbers that counts up, a state that is filled from the weights file."""
from __future__ import annotations

import torch

from .text import Call, Const, Expr, List, Op, Param, Statement, call, transform, walk
from .torch_ops import Known, dtype_name


class Constants:
    """Tensors that go into the weights file, by name."""

    def __init__(self, buffers: dict):
        self.names = {id(t): name for name, t in buffers.items()}
        self.stored: dict[str, torch.Tensor] = {}
        self.keep: list = []

    def expression(self, t: torch.Tensor, where: str) -> Expr:
        if t.numel() == 1 and t.dim() <= 1:
            return Const(t.reshape(-1)[0].item())
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
            s.expr = transform(s.expr, lambda e: self.expression(e.tensor, path) if isinstance(e, Known) else None)


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
