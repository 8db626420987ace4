"""Parts of tensors by computed indices, elements in order, and elements put into their places."""
from __future__ import annotations

import math

import torch

from .text import Const, Expr, Index, Op, call
from .ops_shapes import slice_, take
from .torch_ops import Known, need, op


@op('index', '_unsafe_index')
def index(t, x, indices):
    """Neighbouring axes by tensors of indices that are broadcast: rows of x with these axes joined."""
    need(all(i is None or t.dtype(i) not in ('i1', 'u8') for i in indices), 'x[mask], whose size depends on values: multiply by the mask, or where(mask, x, 0)')
    shape = t.shape(x)
    given = [a for a, i in enumerate(indices) if i is not None]
    first, last = given[0], given[-1] + 1
    if len(given) == 1 and isinstance(indices[first], Known) and indices[first].tensor.dim() < 2:
        places = (indices[first].tensor % shape[first]).reshape(-1).tolist()
        if indices[first].tensor.dim() == 0:
            return take(x, first, places[0], shape)
        if places == list(range(places[0], places[0] + len(places))):
            return slice_(t, x, first, places[0], places[0] + len(places))
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
    rank = len(t.out.shape) - len(rest)
    if first == 0 or rank == 0:
        return y
    return call('transpose', y, [*range(rank, rank + first), *range(rank), *range(rank + first, len(t.out.shape))])


def wrapped(t, i: Expr, n: int) -> Expr:
    """Negative indices count from the end; a constant is written as what it means."""
    return Known(i.tensor % n) if isinstance(i, Known) else Op('%', [i, Const(n)])


@op('gather')
def gather(t, x, dim, indices, sparse_grad=False):
    rank = len(t.shape(x))
    dim = dim % rank if rank else 0
    return call('take_along', first_of(t, x, t.shape(indices), dim), indices, axis=(dim - rank, -1))


def first_of(t, x, sizes: list, dim: int = -1) -> Expr:
    """The first elements of x along all axes but one, as many as sizes tells; PyTorch's indices may be fewer than x has there."""
    shape = t.shape(x)
    short = [a for a, (n, m) in enumerate(zip(shape, sizes)) if m < n and a != dim]
    return Index(x, [(None, Const(sizes[a]) if a in short else None, None) for a in range(short[-1] + 1)]) if short else x


@op('cumsum')
def cumsum(t, x, dim, dtype=None):
    rank = len(t.shape(x))
    return call('cumsum', x, axis=(dim % rank - rank, -1))


def from_end(t, x, dim: int) -> int:
    rank = len(t.shape(x))
    return dim % rank - rank if rank else 0


for _n in ('cumprod', 'logcumsumexp'):
    op(_n)(lambda t, x, dim, dtype=None, _n=_n: call(_n, x, axis=(from_end(t, x, dim), -1)))
for _n in ('cummax', 'cummin'):
    op(_n)(lambda t, x, dim, _n=_n: call(_n, x, axis=(from_end(t, x, dim), -1)))


# --- in order -------------------------------------------------------------------------------------------------------------

@op('topk')
def topk(t, x, k, dim=-1, largest=True, ordered=True):
    return call('topk', x, k, axis=(from_end(t, x, dim), -1), largest=(bool(largest), True))


@op('sort')
def sort(t, x, *rest):
    """Equal elements stay in their order, whether that is asked for (the first of three arguments) or not."""
    dim, descending = rest[-2:] if len(rest) > 1 else (*rest, False)
    return call('sort', x, axis=(from_end(t, x, dim), -1), descending=(bool(descending), False))


@op('argsort')
def argsort(t, x, *rest):
    dim, descending = rest[-2:] if len(rest) > 1 else (*rest, False)
    return call('argsort', x, axis=(from_end(t, x, dim), -1), descending=(bool(descending), False))


def kept_axis(name: str):
    def f(t, x, *rest):
        *k, dim, keepdim = rest
        need(not keepdim, f'{name} with keepdim: unsqueeze(dim)')
        return call(name, x, *k, axis=(from_end(t, x, dim), -1))
    return f


op('kthvalue')(kept_axis('kthvalue'))


@op('median')
def median(t, x, dim=None, keepdim=False):
    need(dim is not None, 'median of all: x.flatten().median(0)[0]')
    return kept_axis('median')(t, x, dim, keepdim)


@op('searchsorted')
def searchsorted(t, edges, x, out_int32=False, right=False, side=None, sorter=None):
    need(sorter is None, 'searchsorted with a sorter: sort the edges before')
    rows, values = t.shape(edges), t.shape(x)
    right = right or side == 'right'
    if len(rows) == 1 and len(values) != 1:
        return call('reshape', call('searchsorted', edges, call('reshape', x, [-1]), right=(right, False)), t.out.shape)
    return call('searchsorted', edges, x, right=(right, False))


@op('bucketize')
def bucketize(t, x, edges, out_int32=False, right=False):
    return searchsorted(t, edges, x, right=right)


# --- elements put into their places ------------------------------------------------------------------------------------------

def number_or_tensor(t, source, indices):
    """What scatter writes; a number at each of the indices."""
    if isinstance(source, Expr) and t.shape(source):
        return first_of(t, source, t.shape(indices))
    return call('broadcast_to', source, t.shape(indices)) if isinstance(source, Expr) else call('full', t.shape(indices), float(source))


def same_rows(t, x, dim, indices):
    """x.scatter() may leave out the end of the other axes; the language's has them all."""
    a, b, dim = t.shape(x), t.shape(indices), dim % len(t.shape(x))
    need(a[:dim] + a[dim + 1:] == b[:dim] + b[dim + 1:], 'scatter whose indices are fewer than x along the other axes: take that part of x before, and put it back with cat')


@op('scatter')
def scatter(t, x, dim, indices, source, reduce=None):
    need(reduce is None, 'scatter with reduce: scatter_add')
    same_rows(t, x, dim, indices)
    return call('scatter', x, indices, number_or_tensor(t, source, indices), axis=(from_end(t, x, dim), -1))


@op('scatter_add')
def scatter_add(t, x, dim, indices, source):
    same_rows(t, x, dim, indices)
    return call('scatter_add', x, indices, first_of(t, source, t.shape(indices)), axis=(from_end(t, x, dim), -1))


@op('scatter_reduce')
def scatter_reduce(t, x, dim, indices, source, reduce, include_self=True):
    need(reduce == 'sum' and include_self, 'scatter_reduce other than the sum: scatter_add; the language has segment_max for rows')
    return scatter_add(t, x, dim, indices, source)


def at_each_row(t, indices, shape: list, dim: int) -> Expr:
    """indices along one axis, as many times as there are elements beside it."""
    return call('broadcast_to', call('reshape', indices, [-1] + [1] * (len(shape) - dim - 1)), shape)


@op('index_add')
def index_add(t, x, dim, indices, source, alpha=1):
    dim = dim % len(t.shape(x))
    source = source if alpha == 1 else Op('*', [source, Const(alpha)])
    shape = list(t.shape(x))
    shape[dim] = t.shape(indices)[0]
    return call('scatter_add', x, at_each_row(t, indices, shape, dim), source, axis=(dim - len(shape), -1))


@op('index_copy')
def index_copy(t, x, dim, indices, source):
    dim = dim % len(t.shape(x))
    return call('scatter', x, at_each_row(t, indices, t.shape(source), dim), source, axis=(dim - len(t.shape(x)), -1))


@op('index_fill')
def index_fill(t, x, dim, indices, value):
    dim = dim % len(t.shape(x))
    shape = list(t.shape(x))
    rows, shape[dim] = shape[dim], math.prod(t.shape(indices))
    places = at_each_row(t, wrapped(t, indices, rows), shape, dim)
    source = call('broadcast_to', value, shape) if isinstance(value, Expr) else call('full', shape, float(value))
    return call('scatter', x, places, source, axis=(dim - len(shape), -1))


@op('diagonal_scatter')
def diagonal_scatter(t, x, source, offset=0, first=0, second=1):
    """Rows and columns joined, a diagonal is every so many of them."""
    shape, rank = t.shape(x), len(t.shape(x))
    first, second = first % rank, second % rank
    others = [a for a in range(rank) if a not in (first, second)]
    order, columns, count = [*others, first, second], shape[second], t.shape(source)[-1]
    beside = [shape[a] for a in others]
    places = (offset if offset >= 0 else -offset * columns) + torch.arange(count) * (columns + 1)
    flat = call('reshape', x if order == sorted(order) else call('transpose', x, order), [*beside, -1])
    y = call('scatter', flat, call('broadcast_to', Known(places), [*beside, count]) if beside else Known(places), source)
    y = call('reshape', y, [*beside, shape[first], columns])
    return y if order == sorted(order) else call('transpose', y, [order.index(a) for a in range(rank)])


@op('fill_diagonal')
def fill_diagonal(t, x, value, wrap=False):
    return call('where', Known(torch.zeros(t.shape(x), dtype=torch.bool).fill_diagonal_(True, wrap)), {'f32': float, 'i1': bool}.get(t.dtype(x), int)(value), x)


@op('index_put', '_unsafe_index_put')
def index_put(t, x, indices, values, accumulate=False):
    """x[mask] = number, or rows of x along one axis."""
    given = [a for a, i in enumerate(indices) if i is not None]
    need(len(given) == 1, 'x[i, j] = y: indices along one axis, or where(mask, y, x)')
    at, shape = indices[given[0]], t.shape(x)
    if t.dtype(at) == 'i1':
        need(not accumulate and given == [0] and math.prod(t.shape(values)) == 1, 'x[mask] = y with a y for each place: where(mask, y, x)')
        mask = at if t.shape(at) == shape else call('reshape', at, t.shape(at) + [1] * (len(shape) - len(t.shape(at))))
        return call('where', mask, values if not t.shape(values) else call('reshape', values, []), x)
    need(len(t.shape(at)) == 1, 'x[i] = y with indices of several axes: i.flatten()')
    dim, n = given[0], t.shape(at)[0]
    part = shape[:dim] + [n] + shape[dim + 1:]
    source = values if t.shape(values) == part else call('broadcast_to', values, part)
    return call('scatter_add' if accumulate else 'scatter', x, at_each_row(t, wrapped(t, at, shape[dim]), part, dim), source, axis=(dim - len(shape), -1))
