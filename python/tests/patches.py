"""What check.py changes in PyTorch while it compares."""
from __future__ import annotations

import contextlib
import unittest.mock

import torch
import torch.nn.functional as F


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


def exact_hardsigmoid(x, inplace=False):
    """PyTorch's has a sixth of f32 in its gradient, also in f64."""
    return (x + 3).clamp(0, 6) / 6


@contextlib.contextmanager
def smooth():
    """Activations without kinks: rounding decides on which side of a kink a number lies, and with one that lies on the other side a gradient differs by per cents."""
    silu = lambda x, *_, **__: F.silu(x)
    with contextlib.ExitStack() as stack:
        for name in ('relu', 'relu_', 'relu6', 'hardswish', 'leaky_relu'):
            stack.enter_context(unittest.mock.patch.object(F, name, silu))
        for where, name in ((torch, 'relu'), (torch, 'relu_'), (torch.Tensor, 'relu'), (torch.Tensor, 'relu_')):
            stack.enter_context(unittest.mock.patch.object(where, name, silu))
        stack.enter_context(unittest.mock.patch.object(torch.nn.ReLU6, 'forward', lambda _, x: F.silu(x)))
        yield
