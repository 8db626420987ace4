"""What is drawn anew in each step; what modules of their own draw in training only is told apart in regions.in_training_only."""
from __future__ import annotations

import torch

from .text import call
from .torch_ops import INTEGERS, Known, need, op


@op('empty', 'new_empty', 'empty_like')
def empty(t, *rest):
    return Known(torch.zeros(t.out.shape, dtype=INTEGERS.get(t.out.dtype)))


@op('bernoulli')
def bernoulli(t, x, p=None, generator=None):
    need(isinstance(p, float) and isinstance(x, Known), 'bernoulli of a tensor of chances: dropout')
    return call('bernoulli', p, list(t.out.shape))


@op('rand', 'rand_like')
def rand(t, *rest):
    return call('uniform', list(t.out.shape))


@op('randn', 'randn_like')
def randn(t, *rest):
    return call('normal', list(t.out.shape))


@op('normal_')
def normal_(t, x, mean, std, generator=None):
    return call('normal', std, mean, list(t.out.shape))


@op('uniform_')
def uniform_(t, x, low, high, generator=None):
    return call('uniform', low, high, list(t.out.shape))


@op('randint')
def randint(t, *args):
    low, high = args[:2] if isinstance(args[1], int) else (0, args[0])
    return call('cast', call('randint', low, high, list(t.out.shape)), t.out.dtype)
