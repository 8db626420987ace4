"""Integers of few bits and booleans, whose arithmetic in torch is not the language's: the text computes torch's numbers, or is refused."""
import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nnc
from nnc.importer import ImportFailed, convert

COLUMNS = torch.arange(6)


class All(nn.Module):
    """Functions of inputs of several types, side by side."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, x, long, byte, small, short):
        return [f(x, long, byte, small, short) for f in self.functions]


def inputs():
    draw = torch.Generator().manual_seed(3)
    i = lambda low, high, t: torch.randint(low, high, (4, 6), generator=draw).to(t)
    small, short = i(-128, 128, torch.int8), i(-32768, 32768, torch.int16)
    small[0, 0], short[0, 0] = -128, -32768
    return 2 * torch.randn(4, 6, generator=draw), i(-300, 300, torch.int64), i(0, 256, torch.uint8), small, short


def put(y, source):
    y = y.clone()
    y[:, 0] = source
    return y


def changed(y, change):
    y = y.clone()
    change(y)
    return y


# Of floats x, and integers l of 64 bits, u of bytes, s of 8 and h of 16 bits with signs.
SAME = {
    'truths': [lambda x, l, u, s, h: ((x > 0) + (x > 1)).float(), lambda x, l, u, s, h: torch.where((x > 0) + (x > 1), x, -x), lambda x, l, u, s, h: ~((x > 0) * (x < 1)), lambda x, l, u, s, h: (x > 0) + True,
               lambda x, l, u, s, h: (x > 0) * False, lambda x, l, u, s, h: torch.add(x > 0, x > 1, alpha=False), lambda x, l, u, s, h: (x > 0) + (COLUMNS > 2), lambda x, l, u, s, h: changed(x > 0, lambda y: y.add_(x < -1)),
               lambda x, l, u, s, h: torch.where(torch.maximum(x > 0, x > 1), x, -x), lambda x, l, u, s, h: torch.where((x > 1).amax(1, keepdim=True), x, -x), lambda x, l, u, s, h: (x > 0) + 1, lambda x, l, u, s, h: (x > 0) * l,
               lambda x, l, u, s, h: (x > 0).sum(1) + (x > 0).cumsum(1)[:, 0]],
    'bytes': [lambda x, l, u, s, h: (u - 128).float(), lambda x, l, u, s, h: u + u, lambda x, l, u, s, h: u * 2 + 300, lambda x, l, u, s, h: -u, lambda x, l, u, s, h: 1 - u, lambda x, l, u, s, h: (u - 128) > 100, lambda x, l, u, s, h: u ** 3,
              lambda x, l, u, s, h: torch.where(u > 100, u, u - 200), lambda x, l, u, s, h: u % 7 + u // 3, lambda x, l, u, s, h: u + COLUMNS.to(torch.uint8) * 50, lambda x, l, u, s, h: changed(u, lambda y: y.add_(l)),
              lambda x, l, u, s, h: put(u, l[:, 0])],
    'signed': [lambda x, l, u, s, h: s + s, lambda x, l, u, s, h: -s, lambda x, l, u, s, h: s.abs(), lambda x, l, u, s, h: s ** 2, lambda x, l, u, s, h: h * h, lambda x, l, u, s, h: u * s, lambda x, l, u, s, h: s // -1,
               lambda x, l, u, s, h: s + torch.tensor([100, -100, 3, 4, 5, 6], dtype=torch.int8), lambda x, l, u, s, h: (l * 50).to(torch.int8).float(), lambda x, l, u, s, h: u.to(torch.int8), lambda x, l, u, s, h: h.to(torch.int8),
               lambda x, l, u, s, h: h.to(torch.uint8), lambda x, l, u, s, h: (l * 1000).to(torch.int16), lambda x, l, u, s, h: put(s, l[:, 0])],
    'values': [lambda x, l, u, s, h: u.float() / 255, lambda x, l, u, s, h: u / 3, lambda x, l, u, s, h: u + 0.5, lambda x, l, u, s, h: s * x, lambda x, l, u, s, h: u + l, lambda x, l, u, s, h: u > s, lambda x, l, u, s, h: u == l,
               lambda x, l, u, s, h: u.sum(1), lambda x, l, u, s, h: u.gather(1, l % 6), lambda x, l, u, s, h: torch.cat([u, s], 1), lambda x, l, u, s, h: F.pad(u, (1, 1), value=3), lambda x, l, u, s, h: u[:, [2, 0]],
               lambda x, l, u, s, h: torch.maximum(u, u.flip(0)), lambda x, l, u, s, h: u.clamp(3, 100), lambda x, l, u, s, h: s.topk(2)[0], lambda x, l, u, s, h: u.sort(1)[0], lambda x, l, u, s, h: u.masked_fill(u > 9, 7),
               lambda x, l, u, s, h: F.interpolate(u[None, None], scale_factor=2), lambda x, l, u, s, h: s.long() * 300, lambda x, l, u, s, h: put(l, x[:, 0])],
}


@pytest.mark.parametrize('name', SAME)
def test_equals_torch(name, tmp_path):
    module, given = All(SAME[name]).eval(), inputs()
    path = tmp_path / 'all.nn'
    nnc.from_torch(module, given, path)
    net = nnc.compile(path, compiler=os.environ.get('NNC', 'nnc'))
    net.load(tmp_path / 'all.safetensors', weights=True)
    made = net.predict({n: v for n, v in zip(['x', 'long', 'byte', 'small', 'short'], given) if n in net.tensors})
    for i, (got, want) in enumerate(zip(made.values(), module(*given), strict=True)):
        assert got.shape == want.shape and np.allclose(got, want, rtol=1e-6), i


WRAPS = 'which wraps around'
REFUSED = {
    'a number beyond bytes': (lambda x, l, u, s, h: u > 300, f'aten.gt: a number beyond uint8, {WRAPS}: x.int'), 'a negative limit': (lambda x, l, u, s, h: u.clamp(min=-1), f'beyond uint8, {WRAPS}'),
    'a scalar of more bits': (lambda x, l, u, s, h: u < l.sum(), f'beyond uint8, {WRAPS}'), 'a product': (lambda x, l, u, s, h: u @ u.T, f'arithmetic of uint8, {WRAPS}: of x.int'),
    'a power': (lambda x, l, u, s, h: h ** 3, f'arithmetic of int16, {WRAPS}'), 'a sum in its type': (lambda x, l, u, s, h: u.sum(1, dtype=torch.uint8), f'arithmetic of uint8, {WRAPS}'),
    'a sum of truths': (lambda x, l, u, s, h: (x > 0).sum(1, dtype=torch.bool), 'arithmetic of bool: | and &'), 'an image of bytes': (lambda x, l, u, s, h: F.interpolate(u[None, None], scale_factor=2, mode='bilinear'), WRAPS),
}


@pytest.mark.parametrize('name', REFUSED)
def test_is_refused(name):
    f, what = REFUSED[name]
    with pytest.raises(ImportFailed, match=rf'test_narrow\.py:\d+: .*{what}'):
        convert(All([f]), inputs(), sizes=False)
