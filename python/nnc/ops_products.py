"""Products of matrices and what solves them, einsum, attention."""
from __future__ import annotations

import math
import re

import torch

from .text import Const, Expr, Op, as_expr, call
from .ops_shapes import order
from .torch_ops import TABLE, Known, Unsupported, dropout, need, op, scaled


@op('linalg_cholesky', 'cholesky')
def cholesky(t, x, upper=False):
    return call('transpose', call('cholesky', x)) if upper else call('cholesky', x)


def solved(left: bool, x: Expr, b: Expr, *rest, function: str = 'solve', **names) -> Expr:
    """y with x y = b, or with y x = b."""
    if left:
        return call(function, x, b, *rest, **names)
    return call('transpose', call(function, call('transpose', x), call('transpose', b), *rest, **names))


@op('linalg_solve')
def solve(t, x, b, left=True):
    return solved(left, x, b)


@op('linalg_solve_triangular')
def solve_triangular(t, x, b, upper, left=True, unitriangular=False):
    return solved(left, x, b, function='solve_triangular', upper=(bool(upper) == bool(left), False), unit=(bool(unitriangular), False))


for _n, _m in (('inv', 'linalg_inv'), ('inv', 'inverse'), ('det', 'linalg_det'), ('det', 'det'), ('slogdet', 'linalg_slogdet'), ('slogdet', 'slogdet'), ('logdet', 'logdet')):
    TABLE['aten.' + _m] = lambda t, x, name=_n: call(name, x)


@op('matmul', 'mm', 'bmm', 'mv')
def matmul(t, x, y):
    if len(t.shape(y)) == 1:
        return call('reshape', call('matmul', x, call('reshape', y, [-1, 1])), t.out.shape)
    return call('matmul', x, y)


@op('addmm', 'baddbmm')
def addmm(t, bias, x, y, beta=1, alpha=1):
    return Op('+', [scaled(call('matmul', x, y), alpha), as_expr(scaled(bias, beta))])


@op('einsum')
def einsum(t, equation, tensors, path=None):
    letters = lambda part: ' '.join(re.findall(r'\.\.\.|\w', part))
    inputs, *result = equation.split('->')
    return call('einsum', Const(', '.join(letters(p) for p in inputs.split(',')) + ''.join(' -> ' + letters(r) for r in result)), *tensors)


@op('bilinear')
def bilinear(t, x, y, weight, bias):
    axes = ' '.join('abcdefgh'[:len(t.out.shape) - 1])
    z = call('einsum', Const(f'{axes} i, o i j, {axes} j -> {axes} o'), x, weight, y)
    return z if bias is None else Op('+', [z, bias])


@op('cdist', '_cdist_forward')
def cdist(t, x, y, p=2.0, mode=None):
    a, b = t.shape(x), t.shape(y)
    apart = Op('-', [call('reshape', x, a[:-1] + [1, a[-1]]), call('reshape', y, b[:-2] + [1] + b[-2:])])
    return call('norm', apart, p=(order(p), 2), axes=-1)


@op('scaled_dot_product_attention')
def attention(t, q, k, v, mask, dropout_p, causal, scale, gqa):
    if scale is not None and abs(scale * math.sqrt(t.shape(q)[-1]) - 1) < 1e-12:
        scale = None
    names = dict(causal=(causal, False), scale=(scale, None), dropout=(dropout_p, 0.0))
    queries, keys = t.shape(q)[-2], t.shape(k)[-2]
    if isinstance(mask, Known) and (bool(mask.tensor.all()) if mask.tensor.dtype == torch.bool else not mask.tensor.any()):
        mask = None
    fits = len(t.shape(q)) == 4 and t.shape(k)[-1] == t.shape(v)[-1] and (mask is None or list(t.shape(mask)[-1:]) == [keys])      # what the language's attention takes
    if isinstance(mask, Known):
        if (fits or queries == keys) and lower_triangle(mask.tensor, queries, keys):      # causal_mask counts from the first key
            names['causal'], mask = (True, False), None
        elif fits and window_of(mask.tensor, queries, keys):
            window, is_causal = window_of(mask.tensor, queries, keys)
            names.update(causal=(is_causal, False), window=window)
            mask = None
    if causal and queries != keys:
        raise Unsupported(f'scaled_dot_product_attention with is_causal and {queries} queries of {keys} keys: a mask')
    if fits:
        if mask is not None:
            shape = [1] * (4 - len(t.shape(mask))) + t.shape(mask)
            names['bias' if t.is_float(mask) else 'mask'] = mask if shape == t.shape(mask) else call('reshape', mask, shape)
        return call('attention', q, k, v, **names)
    need(t.shape(q)[:-2] == t.shape(k)[:-2], 'attention with a mask and grouped heads: repeat keys and values')
    scale = 1 / math.sqrt(t.shape(q)[-1]) if scale is None else scale
    scores = call('matmul', Op('*', [q, Const(scale)]), call('transpose', k))
    if names['causal'][0]:
        scores = call('causal_mask', scores)
    if mask is not None:
        scores = Op('+', [scores, mask]) if t.is_float(mask) else call('where', mask, scores, -1e30)
    weights = call('softmax', scores)
    return call('matmul', dropout(t, weights, dropout_p, True), v)


def seen_by(mask: torch.Tensor) -> torch.Tensor | None:
    """Of numbers that are added, those that are 0, where all others leave nothing of a softmax's terms: exp(-80), as Swin's -100; None of a bias."""
    if mask.dtype == torch.bool:
        return mask
    seen = mask == 0
    return seen if bool((seen | (mask <= -80)).all()) else None


def window_of(mask: torch.Tensor, queries: int, keys: int) -> tuple[int, bool] | None:
    """n, and whether it looks back only, where each query sees the keys that are less than n positions away, in every batch and head."""
    seen = seen_by(mask)
    if seen is None or queries != keys or seen.shape[-2:] != (queries, keys):
        return None
    places = torch.arange(queries)
    away = places[:, None] - places
    rows = seen.reshape(-1, queries, keys)[0]
    n, causal = int(rows[:, 0].sum()), not bool(rows.triu(1).any())
    want = (away.abs() < n) & (away >= 0 if causal else away == away)
    return (n, causal) if n < queries and bool((seen == want).all()) else None


def lower_triangle(mask: torch.Tensor, queries: int, keys: int) -> bool:
    """Whether query i sees the keys up to i + keys - queries, in every batch and head."""
    seen = seen_by(mask)
    want = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return seen is not None and seen.shape[-2:] == want.shape and bool((seen == want).all())
