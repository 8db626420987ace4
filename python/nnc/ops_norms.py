"""Normalisations. A weight or bias is the layer's own, where it lies in the module whose label the layer gets, or given, or there is none."""
from __future__ import annotations

import torch

from .text import Const, Expr, Op, call
from .torch_ops import axes_of, module_of, need, op


def norm(t, fn: str, x: Expr, *args, weight: Expr | None, bias: Expr | None = None, label: str | None = None, **names) -> Expr:
    """A layer whose arguments weight and bias say what it scales and shifts by. label: of running statistics, which are there without a weight, too."""
    path = label or module_of(weight) or (module_of(bias, 'bias') if weight is None else None)
    mine = {'weight': module_of(weight) == path, 'bias': module_of(bias, 'bias') == path}
    if path is None or label is None and not all(mine[n] for n, p in (('weight', weight), ('bias', bias)) if p is not None):
        mine = {'weight': False, 'bias': False}
    given = {n: (p is not None if mine[n] or p is None else p, True) for n, p in (('weight', weight), ('bias', bias)) if fn != 'rmsnorm' or n == 'weight'}
    return call(fn, x, *args, **names, **given, label=path if label or any(mine.values()) else None)


@op('batch_norm')
def batch_norm(t, x, weight, bias, mean, var, training, momentum, eps, cudnn=False):
    if mean is None:
        return standardised(t, x, weight, bias, eps)
    path = module_of(mean, 'running_mean')
    need(path is not None and module_of(var, 'running_var') == path, 'batch_norm with running statistics of other names: BatchNorm2d, or buffers running_mean and running_var of one module')
    if t.training and not training:
        return fixed(t, x, weight, bias, mean, var, eps)
    return norm(t, 'batchnorm', x, momentum=(momentum, 0.1), eps=(eps, 1e-5), weight=weight, bias=bias, label=path)


@op('_native_batch_norm_legit_functional', '_native_batch_norm_legit', 'native_batch_norm')
def native_batch_norm(t, x, weight, bias, *rest):
    mean, var, training, momentum, eps = rest if len(rest) == 5 else (None, None, *rest)
    return batch_norm(t, x, weight, bias, mean, var, training, momentum, eps)


@op('_native_batch_norm_legit_no_training')
def batch_norm_in_evaluation(t, x, weight, bias, mean, var, momentum, eps):
    return batch_norm(t, x, weight, bias, mean, var, False, momentum, eps)


def scaled(t, x: Expr, y: Expr, weight: Expr | None, bias: Expr | None) -> Expr:
    """y by channels of x."""
    y = y if weight is None else Op('*', [y, column(t, x, weight)])
    return y if bias is None else Op('+', [y, column(t, x, bias)])


def column(t, x: Expr, p: Expr) -> Expr:
    rank = len(t.shape(x))
    return p if rank == 2 else call('reshape', p, [-1] + [1] * (rank - 2))


def standardised(t, x, weight, bias, eps):
    """Each channel by its own mean and variance, without running statistics."""
    axes = [0, *range(2, len(t.shape(x)))]
    y = Op('/', [Op('-', [x, call('mean', x, axes=axes, keepdims=True)]), call('sqrt', Op('+', [call('var', x, axes=axes, keepdims=True), Const(eps)]))])
    return scaled(t, x, y, weight, bias)


def fixed(t, x, weight, bias, mean, var, eps):
    """A layer in evaluation mode within a module in training: its statistics stay as they are."""
    y = Op('/', [Op('-', [x, column(t, x, mean)]), call('sqrt', Op('+', [column(t, x, var), Const(eps)]))])
    return scaled(t, x, y, weight, bias)


@op('instance_norm')
def instance_norm(t, x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn):
    need(use_input_stats and mean is None, 'instance_norm with running statistics: InstanceNorm2d(track_running_stats=False)')
    path = module_of(weight)
    if path is not None and module_of(bias, 'bias') == path:
        return call('instance_norm', x, eps=(eps, 1e-5), affine=True, label=path)
    return call('instance_norm', x, eps=(eps, 1e-5), **{n: p for n, p in (('weight', weight), ('bias', bias)) if p is not None})


@op('layer_norm')
def layer_norm(t, x, shape, weight, bias, eps, cudnn=False):
    axes = axes_of(list(range(-len(shape), 0)), len(t.shape(x)))
    return norm(t, 'layernorm', x, eps=(eps, 1e-5), axes=(axes, -1), weight=weight, bias=bias)


@op('native_layer_norm')
def native_layer_norm(t, x, shape, weight, bias, eps):
    return layer_norm(t, x, shape, weight, bias, eps)


@op('rms_norm')
def rms_norm(t, x, shape, weight, eps):
    eps = torch.finfo(torch.float64 if t.wide else torch.float32).eps if eps is None else eps
    if len(shape) == 1:
        return norm(t, 'rmsnorm', x, eps=(eps, 1e-6), weight=weight)
    y = Op('*', [x, call('rsqrt', Op('+', [call('mean', call('square', x), axes=list(range(-len(shape), 0)), keepdims=True), Const(eps)]))])
    return y if weight is None else Op('*', [y, weight])


@op('group_norm')
def group_norm(t, x, groups, weight, bias, eps, cudnn=False):
    return norm(t, 'groupnorm', x, groups, eps=(eps, 1e-5), weight=weight, bias=bias)
