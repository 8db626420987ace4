"""Operations of torch that move elements: axes and shapes, pieces of tensors, norms along axes."""
from __future__ import annotations

import math

from .text import Const, Expr, Index, List, call
from .torch_ops import axes_of, axis, axis_from_end, index_select, need, op


@op('view', 'reshape', '_unsafe_view', 'unflatten', 'flatten', 'squeeze', 'unsqueeze')
def reshape(t, x, *rest):
    a, b = t.shape(x), t.out.shape
    if a == b:
        return x
    if len(b) < len(a) and len(b) >= 2:           # x[N, ...] with all the axes from one on joined
        start = len(b) - 1
        if a[:start] == b[:start]:
            return call('flatten', x, **({} if start == 1 else {'start': start}))
    return call('reshape', x, b)


@op('permute')
def permute(t, x, dims):
    rank = len(t.shape(x))
    dims = [axis(d, rank) for d in dims]
    return x if dims == list(range(rank)) else call('transpose', x, dims)


@op('transpose', 'swapaxes')
def transpose(t, x, a, b):
    rank = len(t.shape(x))
    a, b = sorted((axis(a, rank), axis(b, rank)))
    if (a, b) == (rank - 2, rank - 1):
        return call('transpose', x)
    dims = list(range(rank))
    dims[a], dims[b] = b, a
    return x if a == b else call('transpose', x, dims)


@op('movedim')
def movedim(t, x, source, target):
    rank, many = len(t.shape(x)), lambda v: v if isinstance(v, (list, tuple)) else [v]
    moved = {axis(b, rank): axis(a, rank) for a, b in zip(many(source), many(target))}
    rest = iter(a for a in range(rank) if a not in moved.values())
    return permute(t, x, [moved[a] if a in moved else next(rest) for a in range(rank)])


@op('diagonal')
def diagonal(t, x, offset=0, first=0, second=1):
    shape, rank = t.shape(x), len(t.shape(x))
    first, second = axis(first, rank), axis(second, rank)
    others = [a for a in range(rank) if a not in (first, second)]
    columns, count = shape[second], t.out.shape[-1]
    start = offset if offset >= 0 else -offset * columns
    flat = call('reshape', permute(t, x, [*others, first, second]), [shape[a] for a in others] + [shape[first] * columns])
    return Index(flat, [(None, None, None)] * len(others) + [(Const(start), Const(start + (count - 1) * (columns + 1) + 1), Const(columns + 1))])


@op('trace')
def trace(t, x):
    n = min(t.shape(x))
    return call('sum', Index(call('reshape', x, [-1]), [(None, Const((n - 1) * (t.shape(x)[1] + 1) + 1), Const(t.shape(x)[1] + 1))]))


@op('t', 'numpy_T', 'mT')
def matrix_transpose(t, x):
    return call('transpose', x)


@op('expand', 'broadcast_to', 'expand_as')
def expand(t, x, *rest):
    a, b = t.shape(x), t.out.shape
    return x if a == b else call('broadcast_to', x, b)


@op('repeat')
def repeat(t, x, repeats):
    a = [1] * (len(repeats) - len(t.shape(x))) + list(t.shape(x))
    if all(r == 1 for r in repeats):
        return reshape(t, x)
    if all(r == 1 or n == 1 for r, n in zip(repeats, a)):
        return call('broadcast_to', x if a == t.shape(x) else call('reshape', x, a), t.out.shape)
    x = x if a == t.shape(x) else call('reshape', x, a)
    for i, r in enumerate(repeats):
        if r != 1:
            x = call('concat', [x] * r, axis=(axis_from_end(i, len(a)), -1))
    return x


@op('cat', 'concat', 'concatenate')
def cat(t, tensors, dim):
    items = [x for x in tensors if 0 not in t.shape(x)]
    if len(items) == 1:
        return items[0]
    return call('concat', items, axis=(axis_from_end(dim, len(t.out.shape)), -1))


@op('stack')
def stack(t, tensors, dim):
    return call('stack', tensors, axis=(axis(dim, len(t.out.shape)), 0))


@op('split', 'split_with_sizes', 'chunk', 'unsafe_split', 'tensor_split')
def split(t, x, size, dim=0, *rest):
    rank, sizes = len(t.shape(x)), [v.shape[axis(dim, len(t.shape(x)))] for v in t.outputs]
    dim = axis(dim, rank)
    if len(set(sizes)) == 1:
        return call('split', x, len(sizes), axis=(axis_from_end(dim, rank), -1))
    parts, at = [], 0
    for n in sizes:
        parts.append(Index(x, [(None, None, None)] * dim + [(Const(at) if at else None, Const(at + n) if at + n < t.shape(x)[dim] else None, None)]))
        at += n
    return List(parts)


@op('unbind')
def unbind(t, x, dim=0):
    rank = len(t.shape(x))
    return List([take(x, axis(dim, rank), i, t.shape(x)) for i in range(t.shape(x)[axis(dim, rank)])])


def take(x: Expr, dim: int, i: int, shape: list) -> Expr:
    if dim == 0:
        return Index(x, [Const(i)])
    rest = shape[:dim] + shape[dim + 1:]
    i = i % shape[dim]
    return call('reshape', Index(x, [(None, None, None)] * dim + [(Const(i) if i else None, Const(i + 1) if i + 1 < shape[dim] else None, None)]), rest)


@op('select')
def select(t, x, dim, index):
    if isinstance(index, Expr):
        return index_select(t, x, dim, index)
    return take(x, axis(dim, len(t.shape(x))), index, t.shape(x))


@op('slice')
def slice_(t, x, dim=0, start=None, end=None, step=1):
    shape = t.shape(x)
    dim = axis(dim, len(shape))
    n = shape[dim]
    start, end, step = slice(start, end, step).indices(n)
    if (start, step) == (0, 1) and end >= n:
        return x
    parts = (Const(start) if start else None, Const(end) if end < n else None, Const(step) if step != 1 else None)
    return Index(x, [(None, None, None)] * dim + [parts])


@op('narrow')
def narrow(t, x, dim, start, length):
    need(not isinstance(start, Expr), 'narrow at a place that is computed: gather')
    start %= t.shape(x)[axis(dim, len(t.shape(x)))] or 1
    return slice_(t, x, dim, start, start + length)


@op('flip')
def flip(t, x, dims):
    return call('flip', x, axes_of(dims, len(t.shape(x))))


@op('roll')
def roll(t, x, shifts, dims):
    return call('roll', x, list(shifts), list(dims)) if dims else call('roll', x, list(shifts))


@op('logsumexp')
def logsumexp(t, x, dims, keepdim=False):
    return call('logsumexp', x, axes=axes_of(dims, len(t.shape(x))), keepdims=(bool(keepdim), False))


def order(p: float) -> float | str:
    """The order of a norm: the language writes that of the largest absolute value "inf"."""
    need(p > 0, f'a norm of order {p:g}: sum(x != 0) is that of order 0, amin(abs(x)) that of order -inf')
    return 'inf' if p == math.inf else p


@op('linalg_vector_norm')
def vector_norm(t, x, p=2, dims=None, keepdim=False, dtype=None):
    return call('norm', x, p=(order(p), 2), axes=(axes_of(dims, len(t.shape(x))), None), keepdims=(bool(keepdim), False))
