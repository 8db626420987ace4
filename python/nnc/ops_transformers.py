"""Operations that language models use: parts of tensors by computed indices."""
from __future__ import annotations

import math

from .text import Const, Expr, Op, call
from .torch_ops import Known, need, op


@op('index', '_unsafe_index')
def index(t, x, indices):
    """Neighbouring axes by tensors of indices that are broadcast: rows of x with these axes joined."""
    need(all(i is None or t.dtype(i) not in ('i1', 'u8') for i in indices), 'x[mask], whose size depends on values: multiply by the mask, or where(mask, x, 0)')
    shape = t.shape(x)
    given = [a for a, i in enumerate(indices) if i is not None]
    first, last = given[0], given[-1] + 1
    need(given == list(range(first, last)), 'x[i, :, j], indices with an axis between them: transpose x before')
    flat, sizes = None, shape[first:last]
    for a, n in zip(given, sizes):
        i = wrapped(t, indices[a], n)
        flat = i if flat is None else Op('+', [Op('*', [flat, Const(n)]), i])
    order = [*range(first, last), *range(first), *range(last, len(shape))]
    rows = x if first == 0 else call('transpose', x, order)
    rest = shape[:first] + shape[last:]
    rows = rows if len(given) == 1 else call('reshape', rows, [math.prod(sizes), *rest])
    y = call('gather', rows, flat)
    if first == 0:
        return y
    rank = len(t.out.shape) - len(rest)
    return call('transpose', y, [*range(rank, rank + first), *range(rank), *range(rank + first, len(t.out.shape))])


def wrapped(t, i: Expr, n: int) -> Expr:
    """Negative indices count from the end; a constant is written as what it means."""
    return Known(i.tensor % n) if isinstance(i, Known) else Op('%', [i, Const(n)])


@op('gather')
def gather(t, x, dim, indices, sparse_grad=False):
    rank = len(t.shape(x))
    return call('take_along', x, indices, axis=(dim % rank - rank, -1))


@op('cumsum')
def cumsum(t, x, dim, dtype=None):
    rank = len(t.shape(x))
    return call('cumsum', x, axis=(dim % rank - rank, -1))
