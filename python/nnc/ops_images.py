"""Operations on images and other signals: convolutions, pools, borders, sizes."""
from __future__ import annotations

import math
from typing import Any, Callable

from .text import Const, Expr, Index, Param, Value, call
from .torch_ops import Context, need, op, pair, same_module


def op_of_images(rank: int, *names: str):
    """An operation on x[N, C, and `rank` axes]. Without N, or with several axes before the channels, x gets one for it."""
    def register(f: Callable):
        def with_batch(t, x, *rest):
            shape = t.shape(x)
            before = len(shape) - rank - 1
            if before == 1:
                return f(t, x, *rest)
            batch = [math.prod(shape[:before])]
            images = t.let(call('reshape', x, batch + shape[before:]), batch + shape[before:], t.dtype(x))
            inner = Context([Value(batch + t.out.shape[before:], t.out.dtype)], t.training, t.where, t.wide)
            y = f(inner, images, *rest)
            t.before += inner.before
            return call('reshape', y, t.out.shape)
        return op(*names)(with_batch)
    return register


def layer_or_weight(t, x, weight, bias, fn: str, channels: int, names: dict) -> Expr:
    """A layer with parameters of its own, or one that is given its weight."""
    path = same_module(weight, bias) if isinstance(weight, Param) else None
    if path is not None:
        kernel = t.shape(weight)[2:]
        return call(fn, x, channels, kernel=(pair(kernel), 1) if fn == 'conv2d' else pair(kernel), **names, bias=(bias is not None, True), label=path)
    return call(fn, x, weight=weight, **names, bias=bias if bias is not None else False)


def convolution(rank: int):
    def f(t, x, weight, bias, stride, padding, dilation, groups):
        border = padding if isinstance(padding, str) else pair(padding, rank)
        if border == 'valid':
            border = 0
        names = dict(stride=(pair(stride, rank), 1), padding=(border, 0), dilation=(pair(dilation, rank), 1), groups=(groups, 1))
        return layer_or_weight(t, x, weight, bias, f'conv{rank}d', t.shape(weight)[0], names)
    return f


op_of_images(1, 'conv1d')(convolution(1))
op_of_images(2, 'conv2d')(convolution(2))
op_of_images(3, 'conv3d')(convolution(3))


def transposed(rank: int):
    def f(t, x, weight, bias, stride, padding, output_padding, groups, dilation):
        names = dict(stride=(pair(stride, rank), 1), padding=(pair(padding, rank), 0), output_padding=(pair(output_padding, rank), 0), groups=(groups, 1),
                     dilation=(pair(dilation, rank), 1))
        return layer_or_weight(t, x, weight, bias, f'conv_transpose{rank}d', t.shape(weight)[1] * groups, names)
    return f


op_of_images(1, 'conv_transpose1d')(transposed(1))
op_of_images(2, 'conv_transpose2d')(transposed(2))
op_of_images(3, 'conv_transpose3d')(transposed(3))


@op('conv_tbc')
def conv_tbc(t, x, weight, bias, pad):
    """x[T, N, C] and weight[width, C, channels]."""
    y = call('conv1d', call('transpose', x, [1, 2, 0]), weight=call('transpose', weight, [2, 1, 0]), padding=(pad, 0), bias=bias)
    return call('transpose', y, [2, 0, 1])


# --- windows ------------------------------------------------------------------------------------------------------------

def max_pool(rank: int):
    def f(t, x, kernel, stride, padding, dilation, ceil_mode):
        kernel, stride = pair(kernel, rank), pair(stride, rank) if stride else pair(kernel, rank)
        return call('maxpool', x, kernel, **({} if stride == kernel else {'stride': stride}),
                    padding=(pair(padding, rank), 0), dilation=(pair(dilation, rank), 1), ceil_mode=(ceil_mode, False))
    return f


def avg_pool(rank: int):
    def f(t, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor=None):
        need(divisor is None, 'avg_pool2d with divisor_override: multiply the result')
        kernel, stride = pair(kernel, rank), pair(stride, rank) if stride else pair(kernel, rank)
        pads = pair(padding, rank) != 0
        return call('avgpool', x, kernel, **({} if stride == kernel else {'stride': stride}),
                    padding=(pair(padding, rank), 0), include_pad=(count_include_pad or not pads, True), ceil_mode=(ceil_mode, False))
    return f


def adaptive_avg_pool(rank: int):
    def f(t, x, size):
        size = t.out.shape[2:]
        if all(s == 1 for s in size):
            return call('mean', x, axes=list(range(2, rank + 2)) if rank > 1 else -1, keepdims=(True, False))
        return x if size == t.shape(x)[2:] else call('adaptive_avgpool', x, pair(size))
    return f


def adaptive_max_pool(rank: int):
    def f(t, x, size):
        size = t.out.shape[2:]
        return call('adaptive_maxpool', x, pair(size) if size != t.shape(x)[2:] else size)
    return f


for _rank in (1, 2, 3):
    op_of_images(_rank, f'max_pool{_rank}d', f'max_pool{_rank}d_with_indices')(max_pool(_rank))
    op_of_images(_rank, f'avg_pool{_rank}d')(avg_pool(_rank))
    op_of_images(_rank, f'adaptive_avg_pool{_rank}d', f'_adaptive_avg_pool{_rank}d')(adaptive_avg_pool(_rank))
    op_of_images(_rank, f'adaptive_max_pool{_rank}d')(adaptive_max_pool(_rank))


# --- sizes and borders ----------------------------------------------------------------------------------------------------

def interpolation(mode: str):
    def f(t, x, size, *rest):
        corners = rest[0] if rest and isinstance(rest[0], bool) else False
        factors = next((r for r in rest if isinstance(r, (list, tuple))), None)
        given = {'scale_factor': pair(factors, len(factors))} if factors else {'size': pair(t.out.shape[2:], len(t.out.shape) - 2)}
        return call('interpolate', x, **given, mode=(mode.split('-aa')[0], 'nearest'), align_corners=(corners, False), antialias=(mode.endswith('-aa'), False))
    return f


for _name, _mode in (('nearest1d', 'nearest'), ('nearest2d', 'nearest'), ('nearest3d', 'nearest'), ('linear1d', 'linear'), ('bilinear2d', 'bilinear'), ('trilinear3d', 'trilinear'),
                     ('bicubic2d', 'bicubic')):
    op('upsample_' + _name)(interpolation(_mode))
for _name in ('bilinear2d', 'bicubic2d'):
    op(f'_upsample_{_name}_aa')(interpolation(_name[:-2] + '-aa'))
for _name in ('nearest_exact1d', 'nearest_exact2d'):
    op('_upsample_' + _name)(interpolation('nearest-exact'))


def border(t, x, amounts, mode: str, value) -> Any:
    rank = len(t.shape(x))
    low, high = [0] * rank, [0] * rank
    for i in range(len(amounts) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = amounts[2 * i], amounts[2 * i + 1]
    if not any(low + high):
        return x
    if mode == 'constant' and max(low + high) <= 0:
        return Index(x, [(Const(-a) if a else None, Const(n + b) if b else None, None) for a, b, n in zip(low, high, t.shape(x))])
    return call('pad', x, low, high, value=(value or 0, 0), mode=(mode, 'constant'))


@op('pad')
def pad(t, x, amounts, mode='constant', value=None):
    return border(t, x, amounts, mode, value)


@op('constant_pad_nd')
def constant_pad(t, x, amounts, value=0):
    return border(t, x, amounts, 'constant', value)


for _name, _mode in (('reflection', 'reflect'), ('replication', 'replicate')):
    for _rank in (1, 2, 3):
        op(f'{_name}_pad{_rank}d')(lambda t, x, amounts, _mode=_mode: border(t, x, amounts, _mode, 0))


@op('channel_shuffle', 'native_channel_shuffle')
def channel_shuffle(t, x, groups):
    return call('channel_shuffle', x, groups)


@op_of_images(2, 'pixel_shuffle')
def pixel_shuffle(t, x, factor):
    return call('pixel_shuffle', x, factor)


@op_of_images(2, 'pixel_unshuffle')
def pixel_unshuffle(t, x, factor):
    return call('pixel_unshuffle', x, factor)


@op('grid_sampler', 'grid_sampler_2d')
def grid_sample(t, x, grid, mode, padding_mode, align_corners):
    need(len(t.shape(x)) == 4, 'grid_sample of volumes: of images, x[N, C, H, W]')
    return call('grid_sample', x, grid, mode=(('bilinear', 'nearest', 'bicubic')[mode], 'bilinear'), padding_mode=(('zeros', 'border', 'reflection')[padding_mode], 'zeros'),
                align_corners=(bool(align_corners), False))


@op('affine_grid_generator')
def affine_grid(t, theta, size, align_corners):
    need(len(size) == 4, 'affine_grid of volumes: of images, size=[N, C, H, W]')
    return call('affine_grid', theta, list(size), align_corners=(bool(align_corners), False))


@op_of_images(2, 'im2col')
def unfold(t, x, kernel, dilation, padding, stride):
    return call('unfold', x, pair(kernel), dilation=(pair(dilation), 1), padding=(pair(padding), 0), stride=(pair(stride), 1))


@op_of_images(1, 'col2im')
def fold(t, x, size, kernel, dilation, padding, stride):
    return call('fold', x, list(size), pair(kernel), dilation=(pair(dilation), 1), padding=(pair(padding), 0), stride=(pair(stride), 1))
