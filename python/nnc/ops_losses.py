"""Losses that a module computes itself."""
from __future__ import annotations

from .text import Expr, call
from .torch_ops import op

REDUCTIONS = ('none', 'mean', 'sum')


def reduced(name: str, *tensors: Expr, reduction: int, **names) -> Expr:
    return call(name, *tensors, **names, reduction=(REDUCTIONS[reduction], 'mean'))


@op('mse_loss')
def mse_loss(t, x, y, reduction=1):
    return reduced('mse', x, y, reduction=reduction)


@op('l1_loss')
def l1_loss(t, x, y, reduction=1):
    return reduced('l1', x, y, reduction=reduction)


@op('huber_loss')
def huber_loss(t, x, y, reduction=1, delta=1.0):
    return reduced('huber', x, y, reduction=reduction, delta=(delta, 1.0))


@op('smooth_l1_loss')
def smooth_l1_loss(t, x, y, reduction=1, beta=1.0):
    return reduced('smooth_l1', x, y, reduction=reduction, beta=(beta, 1.0))


@op('binary_cross_entropy_with_logits')
def binary_cross_entropy_with_logits(t, x, y, weight=None, pos_weight=None, reduction=1):
    return reduced('binary_cross_entropy', x, y, reduction=reduction, pos_weight=(pos_weight, None), weights=(weight, None))


@op('cross_entropy_loss')
def cross_entropy_loss(t, x, target, weight=None, reduction=1, ignore_index=-100, smoothing=0.0):
    """The language has the classes in the last axis."""
    rank = len(t.shape(x))
    last = lambda e: call('reshape', e, [1, -1]) if rank == 1 else e if rank == 2 else call('transpose', e, [0, *range(2, rank), 1])
    names = dict(smoothing=(smoothing, 0.0), class_weights=(weight, None))
    if t.is_float(target):
        y = reduced('soft_cross_entropy', last(x), last(target), reduction=reduction, **names)
    else:
        labels = call('reshape', target, [1]) if rank == 1 else target
        y = reduced('cross_entropy', last(x), labels, reduction=reduction, **names, ignore_index=ignore_index)
    return call('reshape', y, []) if rank == 1 and reduction == 0 else y
