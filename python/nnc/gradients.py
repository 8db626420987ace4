"""Gradients that are not those of what forward computes, which torch.export leaves out: they are refused, never dropped."""
from __future__ import annotations

import contextlib
import types
import unittest.mock

import torch

from .source import here


class Refused(Exception):
    """A gradient of its own; the text names the place."""


class Context(types.SimpleNamespace):
    """What a forward of torch.autograd.Function may ask of its first argument."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def __getattr__(self, name):
        if name.startswith(('mark_', 'set_', 'save_')):
            return lambda *args: None
        raise AttributeError(name)


@contextlib.contextmanager
def own_gradients_refused(module: torch.nn.Module):
    """While a module is traced. A torch.autograd.Function whose backward is the gradient of its forward, made to save memory, stays."""
    calls: dict = {}
    detach = torch.Tensor.detach_

    def recorded(cls):
        forward, has_context = cls.forward, cls.setup_context is torch.autograd.Function.setup_context

        def call(*args):
            like = tuple((tuple(a.shape), a.dtype, a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args[has_context:])
            calls.setdefault((cls, str(like)), (here(), like))
            return forward(*args)
        return staticmethod(call)

    def hook(tensor, *args, **kwargs):
        raise Refused(f'{here()}: register_hook: a gradient of its own is left out: write it with detach, such as {DETACHED}')

    def detached(tensor):
        if tensor.requires_grad:
            raise Refused(f'{here()}: detach_: y = x.detach(), a new tensor')
        return detach(tensor)
    for name, p in module.named_parameters():
        if p._backward_hooks:
            raise Refused(f'{name}: has a hook that changes its gradient: a mask of the parameter, or of the gradient in the text')
    patch = unittest.mock.patch.object
    with contextlib.ExitStack() as stack:       # the method apply may be bound already
        for one in [patch(cls, 'forward', recorded(cls)) for cls in own_functions()] + [patch(torch.Tensor, 'register_hook', hook), patch(torch.Tensor, 'detach_', detached)]:
            stack.enter_context(one)
        yield
    for (cls, _), (place, like) in calls.items():
        if not same_gradient(cls, like):
            raise Refused(f'{place}: {cls.__name__}: the backward of a torch.autograd.Function is left out, and is another one than the gradient of its forward: write it with detach, such as {DETACHED}')


def own_functions(of=torch.autograd.Function) -> list:
    return [c for sub in of.__subclasses__() for c in [sub, *own_functions(sub)] if not c.__module__.startswith('torch.')]


DETACHED = 'x + (f(x) - x).detach(), which gives f(x) and has the gradient of x'


def same_gradient(cls, like: tuple) -> bool:
    """Whether backward gives, for random tensors of these shapes, what PyTorch makes of forward."""
    draw = torch.Generator().manual_seed(0)
    args = [torch.randn(a[0], generator=draw, dtype=torch.float64).to(a[1]) if is_tensor(a) and a[1].is_floating_point else torch.zeros(a[0], dtype=a[1]) if is_tensor(a) else a for a in like]
    plain = cls.forward if cls.setup_context is not torch.autograd.Function.setup_context else lambda *a: cls.forward(Context(), *a)
    try:
        return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) for a, b in zip(gradients(cls.apply, args, like), gradients(plain, args, like)))
    except Exception:        # its forward cannot be run alone
        return False


def is_tensor(a) -> bool:
    return isinstance(a, tuple) and len(a) == 3 and isinstance(a[1], torch.dtype)


def gradients(f, args: list, like: tuple) -> list:
    leaves = [a.detach().clone().requires_grad_(is_tensor(l) and l[1].is_floating_point) if isinstance(a, torch.Tensor) else a for a, l in zip(args, like)]
    with torch.enable_grad():
        # in-place forwards need what is no leaf
        outs = f(*[a * 1 if isinstance(a, torch.Tensor) and a.requires_grad else a for a in leaves])
        draw = torch.Generator().manual_seed(1)
        loss = sum((o * torch.randn(o.shape, generator=draw).to(o.dtype)).sum() for o in torch.utils._pytree.tree_leaves(outs) if isinstance(o, torch.Tensor) and o.is_floating_point())
    wanted = [a for a in leaves if isinstance(a, torch.Tensor) and a.requires_grad]
    found = torch.autograd.grad(loss, wanted, allow_unused=True) if isinstance(loss, torch.Tensor) and loss.requires_grad else [None] * len(wanted)
    return [torch.zeros_like(a) if g is None else g for a, g in zip(wanted, found)]
