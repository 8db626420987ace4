"""What is left of writing into a part of a tensor, once it is a new tensor instead."""
from __future__ import annotations

import torch

from .text import Const, Index, List, Op, call
from .ops_shapes import reshape
from .torch_ops import Known, axis, op


@op('copy')
def copy(t, x, source, non_blocking=False):
    part = source if t.shape(source) == t.out.shape else call('broadcast_to', source, t.out.shape)
    return part if t.dtype(source) == t.out.dtype else call('cast', part, t.out.dtype)     # y[:, 0] = x has the type of y


@op('slice_scatter')
def slice_scatter(t, x, source, dim=0, start=None, end=None, step=1):
    """x with x[start:end] replaced: what is before, the new part, what is behind."""
    shape = t.shape(x)
    dim = axis(dim, len(shape))
    n = shape[dim]
    start = min(max(start + n if start is not None and start < 0 else start or 0, 0), n)
    end = n if end is None else min(max(end + n if end < 0 else end, start), n)
    if step != 1:
        return strided_scatter(t, x, source, dim, start, step)
    front = [(None, None, None)] * dim
    parts = [Index(x, front + [(None, Const(start), None)])] if start else []
    parts.append(source)
    parts += [Index(x, front + [(Const(end), None, None)])] if end < n else []
    return source if len(parts) == 1 else call('concat', List(parts), axis=(dim - len(shape), -1))


def strided_scatter(t, x, source, dim, start, step):
    """Each element of x or of the source, by its number along the axis."""
    shape = t.shape(x)
    column = [-1] + [1] * (len(shape) - dim - 1)
    place = torch.arange(shape[dim])
    taken = (place >= start) & ((place - start) % step == 0)
    index = torch.div(place - start, step, rounding_mode='floor').clamp(0, t.shape(source)[dim] - 1)
    order = [dim, *[a for a in range(len(shape)) if a != dim]]
    back = [order.index(a) for a in range(len(shape))]
    rows = call('gather', call('transpose', source, order) if dim else source, Known(index))
    return call('where', Known(taken.reshape(column)), call('transpose', rows, back) if dim else rows, x)


@op('select_scatter')
def select_scatter(t, x, source, dim, index):
    shape = t.shape(x)
    dim = axis(dim, len(shape))
    one = [1 if a == dim else n for a, n in enumerate(shape)]
    start = index % shape[dim]
    number = isinstance(source, Known) and not t.shape(source)          # has no axes in the text
    return slice_scatter(t, x, Known(source.tensor.reshape(one)) if number else call('reshape', source, one), dim, start, start + 1, 1)


op('reshape_as', 'view_as')(reshape)


@op('unfold')
def windows(t, x, dim, size, step):
    """Tensor.unfold: windows along one axis, which may overlap, beside each other; their elements become the last axis."""
    shape = t.shape(x)
    dim = axis(dim, len(shape))
    count = t.out.shape[dim]
    front = [(None, None, None)] * dim
    parts = [Index(x, front + [(Const(i * step) if i else None, Const(i * step + size) if i * step + size < shape[dim] else None, None)]) for i in range(count)]
    part = shape[:dim] + [1, size] + shape[dim + 1:]
    parts = [call('reshape', p, part) for p in parts]
    joined = parts[0] if count == 1 else call('concat', List(parts), axis=(dim - len(part), -1))
    order = [a for a in range(len(part)) if a != dim + 1] + [dim + 1]
    return joined if order == sorted(order) else call('transpose', joined, order)


@op('feature_dropout')
def feature_dropout(t, x, p, train):
    """Whole channels: as many draws as there are channels of records."""
    shape = t.shape(x)
    return x if p == 0 or t.training and not train else Op('*', [x, call('dropout', call('full', shape[:2] + [1] * (len(shape) - 2), 1.0), p)])
