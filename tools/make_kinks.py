#!/usr/bin/env python3
"""Makes test/gradients/kinks.json with PyTorch: value and gradient of the language's functions where they bend, branch or overflow, in f32 and f64.

usage: make_kinks.py
Each case is an expression of the language and the same in PyTorch, at points around its kinks, at both zeros, infinities and NaN.
Needs PyTorch; nothing in `make check` does.
"""
import json
import math
import os

import torch
import torch.nn.functional as F

INF, NAN = math.inf, math.nan
COMMON = [-INF, -1e30, -200, -30, -10, -3, -1, -1e-3, -1e-30, -0.0, 0.0, 1e-30, 1e-3, 1, 3, 10, 30, 200, 1e30, INF, NAN]
NUMBERS = [v for v in COMMON if not math.isnan(v)]
TYPES = {'f32': torch.float32, 'f64': torch.float64}


def around(*kinks):
    """What becomes, in either type, each kink with its two neighbours."""
    return [(k, side) for k in kinks for side in (-1, 0, 1)]


def pairs(values):
    return [a for a in values for b in values], [b for a in values for b in values]


FEW = [-INF, -2, -1, -0.0, 0.0, 0.5, 1, 3, INF, NAN]
X, Y = pairs(FEW)
DIVIDENDS, DIVISORS = [-3.5, -2, 0.5, 1, 3, NAN], [-3.5, -2, 0.5, 1, 3, INF, -INF, NAN]
ONE_ZERO = [v for v in COMMON if math.copysign(1, v) > 0 or v != 0]   # on a GPU the sine of -0 is 0
# quotients from small ones to those that no number of either type holds exactly
QUOTIENTS = [(a, b) for a in (-7.5, 7.5, 1e6, -1e8, 16777217 * 3.7, 1e15, -1e30) for b in (3.1, -0.3, 1e-3, 7, 1e5)] + [(1e-20, 3e-21), (3e38, 7e36), (1e-3, 3e38), (5, 5), (1, 3e-20)]
ROWS = [[1, 3, 3, 2], [0, 0, 0, 0], [-0.0, 0.0, -1, -1], [INF, 1, INF, 2], [-INF, 0, 1, -INF], [-INF, -INF, -INF, -INF], [NAN, 1, 2, 3], [1, 2, NAN, NAN], [-1e30, 1, 0, 2],
        [200, -200, 100, 0], [5, 5, 5, 5]]
FINITE = [r for r in ROWS if all(math.isfinite(v) and abs(v) < 1e6 for v in r)]
SMALL = [v for v in COMMON if not 1e3 < abs(v) < INF]
FINITES = [v for v in COMMON if math.isfinite(v)]
SIDED = (NUMBERS + around(1) + [0.5]) * 2
ZEROS = [[1, 2, 0, 3], [0, 2, 0, 3], [0, 0, 0, 0], [1, 2, 3, 4], [-0.0, 1, 2, 3], [INF, 0, 1, 2], [NAN, 0, 1, 2], [-1, INF, 2, 3]]
# pairs of rows: at right angles, without length, equal, opposite, of a cosine of a half, of next to no length
PAIRED = [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 2, 3, 4], [1, 2, 3, 4], [1, 1, 1, 1], [1e-9, 0, 0, 0], [0, 3, 4, 0]]
OTHER = [[0, 1, 0, 0], [1, 2, 3, 4], [0, 0, 0, 0], [1, 2, 3, 4], [-1, -2, -3, -4], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
THIRD = [[0, 0, 1, 0], [1, 2, 3, 4], [0, 0, 0, 0], [1, 2, 3, 5], [1, 2, 3, 4], [0, 1, 0, 0], [1, 0, 0, 0], [0, 5, 4, 0]]
SPOKEN = [0, 1, 2, 0, -1, 0.5, 3, 3, 3, 1, 0, -30, 0, 1, 1] * 2 + [0, 1, 2, 0, -INF, 0.5, 200, 0, -200, -INF, 0, -INF, 1, 1, 1]
EDGES = torch.tensor([0, 1, 1, 3])
# centres of pixels, what is halfway between them, the border and beyond it
GRID_POINTS = pairs([-2.5, -1.25, -1, -0.75, -0.25, 0, 0.3, 0.75, 1, 1.75])
GRID = 'grid_sample(reshape(square(cast(iota(16), "f32")), [1, 1, 4, 4]), reshape(stack([x, y], axis=1), [1, 100, 1, 2]), MODE)'
IMAGE = [[[[0, 0, 1, NAN], [0, 0, 1, 2], [-INF, -INF, INF, INF], [-INF, -INF, INF, 3]]]]


def norm(x):
    return torch.sqrt(torch.sum(x * x, 1))


def attend(x):
    scores = (x[:, None] * x[None]).masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -INF)
    return torch.softmax(scores, -1) @ x[:, None]


def slope(function):
    """Its derivative, so that the gradient is the second one."""
    return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]


def both_numbers(x, y):
    """Pairs without one of NaN and infinity, and those of x and y."""
    chosen = [(a, b) for a, b in zip(X, Y) if not (math.isnan(a + b) and INF in (abs(a), abs(b)))] + [(INF, -INF)]
    return [a for a, b in chosen] + x, [b for a, b in chosen] + y


def segments(kind, x):
    index = torch.tensor([2, 0, 2, 0, 2, 4, 4])
    return torch.zeros(6, dtype=x.dtype).scatter_reduce(0, index, x, kind, include_self=False)


def segment_softmax(x):
    index = torch.tensor(INTEGERS['segments'])
    return torch.stack([torch.softmax(x[index == s], 0)[(index[:i] == s).sum()] for i, s in enumerate(index)]) * torch.arange(1, 8)


def hardsigmoid(x):
    """With a sixth of its type in the gradient: that of PyTorch's own is one of f32, also in f64."""
    return torch.where((x > -3) & (x < 3), (x + 3) / 6, F.hardsigmoid(x).detach())


def cosine_embedding(x, y, z):
    """With 1e-12 of its type added to squares of lengths: PyTorch adds one of f32."""
    cosine = (x * y).sum(1) / ((x.square().sum(1) + 1e-12) * (y.square().sum(1) + 1e-12)).sqrt()
    return torch.where(z == 1, 1 - cosine, F.relu(cosine - 0.5))


def focal(x, y):
    p, entropy = torch.sigmoid(x), F.binary_cross_entropy_with_logits(x, y, reduction='none')
    return entropy * (1 - (p * y + (1 - p) * (1 - y))) ** 2 * (0.25 * y + 0.75 * (1 - y))


def dice(x, y):
    p = torch.sigmoid(x)
    return 1 - 2 * (p * y).sum(1) / (p.sum(1) + y.sum(1))


def spell(x, zero_infinity=False):
    given = (torch.tensor(INTEGERS[n]) for n in ('spelt', 'heard', 'lengths'))
    return F.ctc_loss(torch.log_softmax(x.reshape(3, 5, 3), -1), *given, reduction='none', zero_infinity=zero_infinity)


def recurrence(a, x):
    y = [x[:, 0]]
    for t in range(1, x.shape[1]):
        y.append(a[:, t] * y[-1] + x[:, t])
    return torch.stack(y, 1)


def sampled(x, y, *modes):
    image = torch.arange(16, dtype=x.dtype).square().reshape(1, 1, 4, 4)
    return F.grid_sample(image, torch.stack([x, y], 1).reshape(1, 100, 1, 2), *modes, align_corners=False)


# name, in the language (after lines that it needs), in PyTorch, points of each argument
CASES = [
    ('relu', 'relu(x)', F.relu, COMMON + around(0)),
    ('relu6', 'relu6(x)', F.relu6, COMMON + around(0, 6)),
    ('leaky_relu', 'leaky_relu(x, slope=0.2)', lambda x: F.leaky_relu(x, 0.2), COMMON + around(0)),
    ('elu_slope', 'grad(elu(x, 0.7), x)', slope(lambda x: F.elu(x, 0.7)), NUMBERS + around(0)),
    ('selu_slope', 'grad(selu(x), x)', slope(F.selu), NUMBERS + around(0)),
    ('celu_slope', 'grad(celu(x, 0.5), x)', slope(lambda x: F.celu(x, 0.5)), NUMBERS + around(0)),
    ('gelu', 'gelu(x)', F.gelu, COMMON),
    ('gelu_tanh', 'gelu(x, approximate=true)', lambda x: F.gelu(x, approximate='tanh'), COMMON),
    ('silu', 'silu(x)', F.silu, COMMON),
    ('sigmoid', 'sigmoid(x)', torch.sigmoid, COMMON),
    ('tanh', 'tanh(x)', torch.tanh, COMMON),
    ('exp', 'exp(x)', torch.exp, COMMON + [88, 89, -87, 709, 710]),
    ('log', 'log(x)', torch.log, COMMON + around(1)),
    ('sqrt', 'sqrt(x)', torch.sqrt, COMMON),
    ('rsqrt', 'rsqrt(x)', torch.rsqrt, COMMON),
    ('abs', 'abs(x)', torch.abs, COMMON + around(0)),
    ('sin', 'sin(x)', torch.sin, [v for v in COMMON if not 1e3 < abs(v) < INF]),
    ('cos', 'cos(x)', torch.cos, [v for v in COMMON if not 1e3 < abs(v) < INF]),
    ('erf', 'erf(x)', torch.erf, COMMON),
    ('erfc', 'erfc(x)', torch.erfc, COMMON + [0.5, 2, 5, 9, -6]),
    ('erfinv', 'erfinv(x)', torch.erfinv, COMMON + around(1, -1) + [0.5, -0.9, 0.999]),
    ('lgamma', 'lgamma(x)', torch.lgamma, ONE_ZERO + [0.5, 4, 7.9, -0.4, -7.3, 1e-6]),
    ('digamma', 'stop_gradient(digamma(x))', lambda x: torch.digamma(x.detach()), ONE_ZERO + [0.5, 2.5, 4, 7.9, -0.25, -2.75, -7.3, 1e-6]),
    ('nan_to_num', 'nan_to_num(x)', torch.nan_to_num, COMMON + [3e38, -3e38]),
    ('nan_to_num_given', 'nan_to_num(x, nan=2, posinf=3, neginf=-4)', lambda x: torch.nan_to_num(x, 2, 3, -4), COMMON),
    ('fmod', 'fmod(x, y)', torch.fmod, X, Y),
    ('fmod_of_many', 'fmod(x, y)', torch.fmod, *map(list, zip(*QUOTIENTS))),
    ('floor', 'floor(x)', torch.floor, COMMON + around(1, -1)),
    ('square', 'square(x)', torch.square, COMMON),
    ('softplus', 'softplus(x)', lambda x: F.softplus(x, threshold=1e6), COMMON + around(0, 20)),
    ('clamp', 'clamp(x, -1, 3)', lambda x: torch.clamp(x, -1, 3), COMMON + around(-1, 3)),
    ('clamp_to_one', 'clamp(x, 1, 1)', lambda x: torch.clamp(x, 1, 1), COMMON + around(1)),
    ('clamp_infinite', 'clamp(x, 0, 1e300)', lambda x: torch.clamp(x, 0, 1e300 if x.dtype == torch.float64 else INF), COMMON + around(0)),
    ('maximum', 'maximum(x, y)', torch.maximum, X, Y),
    ('minimum', 'minimum(x, y)', torch.minimum, X, Y),
    ('maximum_number', 'maximum(x, 1)', lambda x: torch.maximum(x, torch.tensor(1.0, dtype=x.dtype)), COMMON + around(1)),
    ('minimum_number', 'minimum(x, 1)', lambda x: torch.minimum(x, torch.tensor(1.0, dtype=x.dtype)), COMMON + around(1)),
    ('where', 'where(x > 0, x, y)', lambda x, y: torch.where(x > 0, x, y), X, Y),
    ('where_log', 'where(x > 0, log(x), 0)', lambda x: torch.where(x > 0, torch.log(x), torch.zeros_like(x)), COMMON),
    ('safe_log', 'log(where(x > 0, x, 1))', lambda x: torch.log(torch.where(x > 0, x, torch.ones_like(x))), COMMON),
    ('add', 'x + y', torch.add, X, Y),
    ('multiply', 'x * y', torch.mul, X, Y),
    ('divide', 'x / y', torch.div, X, Y),
    ('remainder', 'x % y', torch.remainder, [v for v in DIVIDENDS for _ in DIVISORS], DIVISORS * len(DIVIDENDS)),
    ('floor_divide', 'x // y', lambda x, y: torch.div(x, y, rounding_mode='floor'), [v for v in DIVIDENDS for _ in DIVISORS], DIVISORS * len(DIVIDENDS)),
    ('power', 'x ** y', torch.pow, X, Y),
    ('power_0', 'x ** 0', lambda x: x ** 0, COMMON),
    ('power_1', 'x ** 1', lambda x: x ** 1, COMMON),
    ('power_2', 'x ** 2', lambda x: x ** 2, COMMON),
    ('power_3', 'x ** 3', lambda x: x ** 3, COMMON),
    ('power_half', 'x ** 0.5', lambda x: x ** torch.full_like(x, 0.5), COMMON),
    ('power_minus_1', 'x ** -1', lambda x: x ** -1, COMMON),
    ('number_power', '2 ** x', lambda x: 2 ** x, COMMON),
    ('zero_power', '0 ** x', lambda x: torch.zeros((), dtype=x.dtype) ** x, COMMON),
    ('sum', 'sum(x, axes=1)', lambda x: torch.sum(x, 1), ROWS),
    ('mean', 'mean(x, axes=1)', lambda x: torch.mean(x, 1), ROWS),
    ('var', 'var(x, axes=1)', lambda x: torch.var(x, 1, correction=0), [r for r in ROWS if not INF in r and not -INF in r]),
    ('deviation', 'sqrt(var(x, axes=1))', lambda x: torch.sqrt(torch.var(x, 1, correction=0)), FINITE[:2]),
    ('root_of_squares', 'sqrt(sum(square(x), axes=1))', norm, ROWS),
    ('amax', 'amax(x, axes=1)', lambda x: torch.amax(x, 1), ROWS),
    ('amin', 'amin(x, axes=1)', lambda x: torch.amin(x, 1), ROWS),
    ('amax_of_all', 'amax(x)', torch.amax, [[1, 3, 3], [3, -1, 0]]),
    ('argmax', 'cast(argmax(x), "f32")', lambda x: torch.argmax(x, 1).to(x.dtype), ROWS),
    ('argmax_of_columns', 'cast(argmax(x, 0), "f32")', lambda x: torch.argmax(x, 0).to(x.dtype), [list(c) for c in zip(*ROWS)]),
    ('softmax', 'softmax(x) * (1 + cast(iota(4), "f32"))', lambda x: torch.softmax(x, 1) * torch.arange(1, 5), ROWS),
    ('log_softmax', 'log_softmax(x) * (1 + cast(iota(4), "f32"))', lambda x: torch.log_softmax(x, 1) * torch.arange(1, 5), ROWS),
    ('cross_entropy', 'cross_entropy(x, cast(0*iota(11) + 1, "i32"))', lambda x: F.cross_entropy(x, torch.ones(11, dtype=torch.long)), [r if r in FINITE else FINITE[0] for r in ROWS]),
    ('cross_entropy_smooth', 'cross_entropy(x, iota(4), smoothing=0.1)', lambda x: F.cross_entropy(x, torch.arange(4), label_smoothing=0.1), FINITE[:4]),
    ('cross_entropy_masked', 'cross_entropy(x, iota(2))', lambda x: F.cross_entropy(x, torch.arange(2)), [[1, -INF, 2, -INF], [-INF, 3, 0, -INF]]),
    ('binary_cross_entropy', 'binary_cross_entropy(x, y)', F.binary_cross_entropy_with_logits,
     [v for v in COMMON if math.isfinite(v)] * 2, [0] * 18 + [1] * 18),
    ('binary_cross_entropy_half', 'binary_cross_entropy(x, 0.5)', lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.5)), [0.0, -0.0, 1, -1]),
    ('mse', 'mse(x, y)', F.mse_loss, [0, 1, 2, 1e15], [0, 0, -2, 1e15]),
    ('layernorm', 'layernorm(x)', lambda x: F.layer_norm(x, [4]), [r for r in ROWS if abs(r[0]) < 1e20]),
    ('rmsnorm', 'rmsnorm(x)', lambda x: F.rms_norm(x, [4], eps=1e-6), [r for r in ROWS if abs(r[0]) < 1e20]),
    ('groupnorm', 'groupnorm(x, 2)', lambda x: F.group_norm(x, 2), [[1, 1, 2, 3], [0, 0, 0, 0], [NAN, 0, 1, 2], [INF, 0, 1, 2]]),
    ('batchnorm', 'batchnorm(x)', lambda x: F.batch_norm(x, None, None, training=True), [[1, 0, NAN, INF], [1, 0, 1, 2], [1, 0, 2, 5]]),
    ('swiglu', 'swiglu(x)', lambda x: F.silu(x[:, :2]) * x[:, 2:], FINITE),
    ('maxpool', 'maxpool(x, 2)', lambda x: F.max_pool2d(x, 2), IMAGE),
    ('maxpool_padded', 'maxpool(x, 3, stride=1, padding=1)', lambda x: F.max_pool2d(x, 3, 1, 1), [[[[-1, -1], [-1, -1]]]]),
    ('avgpool', 'avgpool(x, 2)', lambda x: F.avg_pool2d(x, 2), IMAGE),
    ('segment_sum', 'segment_sum(x, segments, 6)', lambda x: segments('sum', x), [1, 2, 1, -0.0, 0.5, INF, NAN]),
    ('segment_mean', 'segment_mean(x, segments, 6)', lambda x: segments('mean', x), [1, 2, 1, -0.0, 0.5, INF, NAN]),
    ('segment_max', 'segment_max(x, segments, 6)', lambda x: segments('amax', x), [1, -2, 1, -5, 0.5, -INF, 3]),
    ('segment_max_nan', 'segment_max(x, segments, 6)', lambda x: segments('amax', x), [INF, 2, 1, -0.0, -INF, NAN, NAN]),
    ('attention', 'attention(reshape(x, [1, 1, 4, 1]), reshape(x, [1, 1, 4, 1]), reshape(x, [1, 1, 4, 1]), causal=true, scale=1)', attend, [0, 0, 1, -30]),
    # activations
    ('elu', 'elu(x, 0.7)', lambda x: F.elu(x, 0.7), COMMON + around(0)),
    ('selu', 'selu(x)', F.selu, COMMON + around(0)),
    ('celu', 'celu(x, 0.5)', lambda x: F.celu(x, 0.5), COMMON + around(0)),
    ('mish', 'mish(x)', F.mish, COMMON),
    ('hardswish', 'hardswish(x)', F.hardswish, COMMON + around(-3, 3)),
    ('hardsigmoid', 'hardsigmoid(x)', hardsigmoid, COMMON + around(-3, 3)),
    ('hardtanh', 'hardtanh(x, -2, 1.5)', lambda x: F.hardtanh(x, -2, 1.5), COMMON + around(-2, 1.5)),
    ('softsign', 'softsign(x)', F.softsign, COMMON + around(0)),
    ('log_sigmoid', 'log_sigmoid(x)', F.logsigmoid, COMMON + around(0)),
    ('tanhshrink', 'tanhshrink(x)', F.tanhshrink, COMMON),
    ('softshrink', 'softshrink(x)', F.softshrink, COMMON + around(-0.5, 0.5)),
    ('softshrink_0', 'softshrink(x, 0)', lambda x: F.softshrink(x, 0), COMMON + around(0)),
    ('hardshrink', 'hardshrink(x)', F.hardshrink, COMMON + around(-0.5, 0.5)),
    ('hardshrink_0', 'hardshrink(x, 0)', lambda x: F.hardshrink(x, 0), COMMON + around(0)),
    ('threshold', 'threshold(x, 0.5, -1)', lambda x: F.threshold(x, 0.5, -1), COMMON + around(0.5)),
    ('prelu', 'prelu(reshape(x, [1, 100]), weight=y)', lambda x, y: F.prelu(x[None], y), X, Y),
    ('glu', 'glu(stack([x, y]), axis=0)', lambda x, y: F.glu(torch.stack([x, y]), 0), X, Y),
    ('geglu', 'geglu(stack([x, y]), axis=0)', lambda x, y: F.gelu(x) * y, *pairs([v for v in FEW if abs(v) != INF])),
    ('reglu', 'reglu(stack([x, y]), axis=0)', lambda x, y: F.relu(x) * y, X, Y),
    ('quick_gelu', 'quick_gelu(x)', lambda x: x * torch.sigmoid(1.702 * x), COMMON),
    ('softmin', 'softmin(x) * (1 + cast(iota(4), "f32"))', lambda x: F.softmin(x, 1) * torch.arange(1, 5), ROWS),
    # functions of numbers
    ('reciprocal', 'reciprocal(x)', torch.reciprocal, COMMON),
    ('tan', 'tan(x)', torch.tan, SMALL),
    ('sinh', 'sinh(x)', torch.sinh, COMMON + around(88) + [-88, 89, -89, 709, 710]),
    ('cosh', 'cosh(x)', torch.cosh, COMMON + [2, -2] + around(88) + [-88, 89, -89, 709, 710]),
    ('atan', 'atan(x)', torch.atan, COMMON),
    ('atan2', 'atan2(x, y)', torch.atan2, X, Y),
    ('asin', 'asin(x)', torch.asin, COMMON + around(-1, 1)),
    ('acos', 'acos(x)', torch.acos, COMMON + around(-1, 1)),
    ('asinh', 'asinh(x)', torch.asinh, COMMON),
    ('acosh', 'acosh(x)', torch.acosh, COMMON + around(1)),
    ('atanh', 'atanh(x)', torch.atanh, COMMON + around(-1, 1)),
    ('hypot', 'hypot(x, y)', torch.hypot, *both_numbers([1e30, 1e-30, 3e38], [1e30, 1e-30, 0])),
    ('logaddexp', 'logaddexp(x, y)', torch.logaddexp, X + [1e30, 300, -1000, 1e-3], Y + [1e30, -300, 1e-3, -1000]),
    ('xlogy', 'xlogy(x, y)', torch.xlogy, *map(list, zip(*((a, b) for a, b in zip(X, Y) if (a, b) != (0, INF))))),
    ('sinc', 'sinc(x)', torch.sinc, [v for v in SMALL if not 0 < abs(v) < 0.1] + [0.5, 2.25]),
    ('hypot_zeros', 'hypot(x, y)', lambda x, y: 0 * x + 0 * y, [0.0, -0.0, 0.0], [0.0, 0.0, -0.0]),   # PyTorch has NaN as its gradients
    ('lerp', 'lerp(x, y, z)', torch.lerp, X, Y, [(i * 7 % 10) / 4 - 0.5 for i in range(100)]),
    ('expm1', 'expm1(x)', torch.expm1, COMMON + [88, 89, 709, 710]),
    ('log1p', 'log1p(x)', torch.log1p, COMMON + around(-1)),
    ('exp2', 'exp2(x)', torch.exp2, COMMON + [127, 128, 1023, 1024]),
    ('log2', 'log2(x)', torch.log2, COMMON),
    ('log10', 'log10(x)', torch.log10, COMMON),
    ('logit', 'logit(x)', torch.logit, COMMON + around(1) + [0.25, 0.75]),
    ('logit_limited', 'logit(x, 0.25)', lambda x: torch.logit(x, 0.25), COMMON + around(0.25, 0.75)),
    ('ceil', 'ceil(x)', torch.ceil, COMMON + around(1, -1)),
    ('trunc', 'trunc(x)', torch.trunc, COMMON + around(1, -1)),
    ('frac', 'frac(x)', torch.frac, COMMON + around(1, -1)),
    ('round', 'round(x)', torch.round, COMMON + around(0.5, 1.5, 2.5, -0.5, -1.5) + [8388609.0, 4194304.5]),
    ('sign', 'sign(x)', torch.sign, NUMBERS + around(0)),
    ('isnan', 'cast(isnan(x), "f32")', lambda x: torch.isnan(x).to(x.dtype), COMMON + [3e38]),
    ('isinf', 'cast(isinf(x), "f32")', lambda x: torch.isinf(x).to(x.dtype), COMMON + [3e38]),
    ('isfinite', 'cast(isfinite(x), "f32")', lambda x: torch.isfinite(x).to(x.dtype), COMMON + [3e38]),
    # losses
    ('l1', 'l1(x, y, "none")', lambda x, y: F.l1_loss(x, y, reduction='none'), X, Y),
    ('huber', 'huber(x, y, 0.5, "none")', lambda x, y: F.huber_loss(x, y, delta=0.5, reduction='none'), X, Y),
    ('huber_limit', 'huber(x, 0*x, 0.5, "none")', lambda x: F.huber_loss(x, torch.zeros_like(x), delta=0.5, reduction='none'), NUMBERS[1:-1] + around(-0.5, 0, 0.5)),
    ('smooth_l1', 'smooth_l1(x, y, 0.5, "none")', lambda x, y: F.smooth_l1_loss(x, y, beta=0.5, reduction='none'), X, Y),
    ('smooth_l1_limit', 'smooth_l1(x, 0*x, 0.5, "none")', lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), beta=0.5, reduction='none'), NUMBERS[1:-1] + around(-0.5, 0, 0.5)),
    ('smooth_l1_of_0', 'smooth_l1(x, y, 0, "none")', lambda x, y: F.smooth_l1_loss(x, y, beta=0, reduction='none'), X, Y),
    ('mse_each', 'mse(x, y, "none")', lambda x, y: F.mse_loss(x, y, reduction='none'), X, Y),
    ('kl_div', 'kl_div(x, y, reduction="none")', lambda x, y: F.kl_div(x, y, reduction='none'), *map(list, zip(*((a, b) for a, b in zip(X, Y) if b != INF and (abs(a) != INF or b > 0))))),
    ('kl_div_log', 'kl_div(x, y, true, "none")', lambda x, y: F.kl_div(x, y, log_target=True, reduction='none'), X, Y),
    ('nll_loss', 'nll_loss(x, 0*iota(11) + 1, reduction="none")', lambda x: F.nll_loss(x, torch.ones(11, dtype=torch.long), reduction='none'), ROWS),
    ('soft_cross_entropy', 'soft_cross_entropy(x, y, reduction="none")', lambda x, y: F.cross_entropy(x, y, reduction='none'), ROWS, [[0.5, 0, 0.25, 0.25]] * len(ROWS)),
    ('binary_cross_entropy_weighted', 'binary_cross_entropy(x, y, 3, reduction="none")', lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(3.0, dtype=x.dtype), reduction='none'),
     FINITES * 2, [0] * 18 + [1] * 18),
    ('focal', 'focal(x, y, reduction="none")', focal, FINITES * 2, [0] * 18 + [1] * 18),
    ('hinge', 'hinge(x, y, 1, "none")', lambda x, y: F.relu(1 - x * y), X, Y),
    ('hinge_embedding', 'hinge_embedding(x, y, 1, "none")', lambda x, y: F.hinge_embedding_loss(x, y, 1, reduction='none'), SIDED, [1] * 24 + [-1] * 24),
    ('margin_ranking', 'margin_ranking(x, y, z, 0.5, "none")', lambda x, y, z: F.margin_ranking_loss(x, y, z, 0.5, reduction='none'), SIDED, [0] * 48, [1] * 24 + [-1] * 24),
    ('cosine_similarity', 'cosine_similarity(x, y)', F.cosine_similarity, PAIRED, OTHER),
    ('cosine_embedding', 'cosine_embedding(x, y, z, 0.5, "none")', cosine_embedding, PAIRED, OTHER, [-1, 1, -1, 1, -1, 1, -1, 1]),
    ('triplet_margin', 'triplet_margin(x, y, z, reduction="none")', lambda x, y, z: F.triplet_margin_loss(x, y, z, reduction='none'), PAIRED, OTHER, THIRD),
    ('triplet_margin_swapped', 'triplet_margin(x, y, z, p=1, swap=true, eps=0, reduction="none")',
     lambda x, y, z: F.triplet_margin_loss(x, y, z, p=1, swap=True, eps=0, reduction='none'), PAIRED, OTHER, THIRD),
    ('info_nce', 'info_nce(x, y, 0.5)', lambda x, y: F.cross_entropy(F.normalize(x) @ F.normalize(y).T / 0.5, torch.arange(8)), PAIRED, OTHER),
    ('dice', 'dice(x, y, 0, "none")', dice, [[0, 1, -1, 2], [-200, -200, -200, -200], [INF, -INF, 0, 0]], [[0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]]),
    ('gaussian_nll', 'gaussian_nll(x, y, z, false, 0.25, "none")', lambda x, y, z: F.gaussian_nll_loss(x, y, z, eps=0.25, reduction='none'), [1, 1, 1, 1, INF, 1, 0], [0, 0, 0, 1, 0, 1, 0],
     [(0.25, -1), 0.25, (0.25, 1), 0, 1, INF, 1]),
    ('poisson_nll', 'poisson_nll(x, y, reduction="none")', lambda x, y: F.poisson_nll_loss(x, y, reduction='none'), X, Y),
    ('poisson_nll_full', 'poisson_nll(x, y, false, true, 0.5, "none")', lambda x, y: F.poisson_nll_loss(x, y, False, True, None, 0.5, None, 'none'), [2, 2, 2, 0, 0, -0.5, 1], [(1, -1), 1, (1, 1), 0, 2, 1, INF]),
    ('ctc_loss', 'ctc_loss(log_softmax(reshape(x, [3, 5, 3])), spelt, heard, lengths, reduction="none")', spell, SPOKEN),
    ('ctc_loss_finite', 'ctc_loss(log_softmax(reshape(x, [3, 5, 3])), spelt, heard, lengths, reduction="none", zero_infinity=true)', lambda x: spell(x, True), SPOKEN),
    # norms and what goes over rows
    ('norm', 'norm(x, 2, 1)', lambda x: torch.linalg.vector_norm(x, 2, 1), ROWS),
    ('norm_1', 'norm(x, 1, 1)', lambda x: torch.linalg.vector_norm(x, 1, 1), ROWS),
    ('norm_3', 'norm(x, 3, 1)', lambda x: torch.linalg.vector_norm(x, 3, 1), FINITE),
    ('norm_half', 'norm(x, 0.5, 1)', lambda x: torch.linalg.vector_norm(x, 0.5, 1), FINITE),
    ('norm_largest', 'norm(x, "inf", 1)', lambda x: torch.linalg.vector_norm(x, INF, 1), ROWS),
    ('normalize', 'normalize(x)', F.normalize, ROWS),
    ('normalize_1', 'normalize(x, 1, eps=8)', lambda x: F.normalize(x, 1, eps=8), ROWS + [[4, 4, 0, 0]]),
    ('std', 'std(x, 1)', lambda x: torch.std(x, 1, correction=0), FINITE),
    ('prod', 'prod(x, 1)', lambda x: torch.prod(x, 1), ZEROS),
    ('logsumexp', 'logsumexp(x, 1)', lambda x: torch.logsumexp(x, 1), ROWS),
    ('all', 'cast(all(x, 1), "f32")', lambda x: torch.all(x, 1).to(x.dtype), ROWS),
    ('any', 'cast(any(x, 1), "f32")', lambda x: torch.any(x, 1).to(x.dtype), ROWS),
    ('argmin', 'cast(argmin(x), "f32")', lambda x: torch.argmin(x, 1).to(x.dtype), ROWS),
    ('instance_norm', 'instance_norm(unsqueeze(x, 0))', lambda x: F.instance_norm(x[None]), FINITE),
    ('local_response_norm', 'local_response_norm(x, 3)', lambda x: F.local_response_norm(x[..., None], 3), FINITE),
    ('weight_norm', 'weight_norm(x)', lambda x: torch._weight_norm(x, torch.ones(len(x), 1, dtype=x.dtype), 0), FINITE),
    ('cumsum', 'cumsum(x)', lambda x: torch.cumsum(x, 1), ROWS),
    ('cumprod', 'cumprod(x)', lambda x: torch.cumprod(x, 1), ZEROS),
    ('cummax', 'largest, place = cummax(x); largest', lambda x: torch.cummax(x, 1)[0], ROWS),
    ('cummin', 'least, place = cummin(x); least', lambda x: torch.cummin(x, 1)[0], ROWS),
    ('cummax_index', 'largest, place = cummax(x); cast(place, "f32")', lambda x: torch.cummax(x, 1)[1].to(x.dtype), ROWS),
    ('cummin_index', 'least, place = cummin(x); cast(place, "f32")', lambda x: torch.cummin(x, 1)[1].to(x.dtype), ROWS),
    ('logcumsumexp', 'logcumsumexp(x)', lambda x: torch.logcumsumexp(x, 1), ROWS),
    ('linear_recurrence', 'linear_recurrence(x, y)', recurrence, *2 * [[r for r in ZEROS if INF not in r]]),
    ('sort', 'sorted, place = sort(x); sorted * (1 + cast(iota(4), "f32"))', lambda x: torch.sort(x, dim=1, stable=True)[0] * torch.arange(1, 5), ROWS),
    ('sort_descending', 'sorted, place = sort(x, descending=true); sorted * (1 + cast(iota(4), "f32"))', lambda x: torch.sort(x, dim=1, descending=True, stable=True)[0] * torch.arange(1, 5), ROWS),
    ('argsort', 'cast(argsort(x), "f32")', lambda x: torch.argsort(x, dim=1, stable=True).to(x.dtype), ROWS),
    ('argsort_descending', 'cast(argsort(x, descending=true), "f32")', lambda x: torch.argsort(x, dim=1, descending=True, stable=True).to(x.dtype), ROWS),
    ('topk', 'chosen, place = topk(x, 2); chosen * (1 + cast(iota(2), "f32"))', lambda x: torch.sort(x, dim=1, descending=True, stable=True)[0][:, :2] * torch.arange(1, 3), ROWS),
    ('topk_smallest', 'chosen, place = topk(x, 2, largest=false); chosen * (1 + cast(iota(2), "f32"))', lambda x: torch.sort(x, dim=1, stable=True)[0][:, :2] * torch.arange(1, 3), ROWS),
    ('kthvalue', 'chosen, place = kthvalue(x, 2); chosen', lambda x: torch.sort(x, dim=1, stable=True)[0][:, 1], ROWS),
    ('median', 'middle, place = median(x); middle', lambda x: torch.median(x, 1)[0], ROWS),
    ('searchsorted', 'cast(searchsorted(tensor([0, 1, 1, 3], dtype="f32"), x), "f32")', lambda x: torch.searchsorted(EDGES.to(x.dtype), x.detach()).to(x.dtype), COMMON + around(1, 3)),
    ('searchsorted_right', 'cast(searchsorted(tensor([0, 1, 1, 3], dtype="f32"), x, true), "f32")', lambda x: torch.searchsorted(EDGES.to(x.dtype), x.detach(), right=True).to(x.dtype), COMMON + around(1, 3)),
    ('segment_softmax', 'segment_softmax(x, segments, 6) * (1 + cast(iota(7), "f32"))', segment_softmax, [1, -INF, 1, -0.0, 0.5, 200, -200]),
    ('accuracy', 'accuracy(x, 0*iota(11) + 1)', lambda x: (torch.argmax(x, 1) == 1).to(x.dtype).mean(), ROWS),
    # images
    ('adaptive_maxpool', 'adaptive_maxpool(x, 2)', lambda x: F.adaptive_max_pool2d(x, 2), IMAGE),
    ('grid_sample', GRID.replace('MODE', '"bilinear"'), lambda x, y: sampled(x, y, 'bilinear'), *GRID_POINTS),
    ('grid_sample_border', GRID.replace('MODE', '"bilinear", "border"'), lambda x, y: sampled(x, y, 'bilinear', 'border'), *GRID_POINTS),
    ('grid_sample_reflected', GRID.replace('MODE', '"bilinear", "reflection"'), lambda x, y: sampled(x, y, 'bilinear', 'reflection'), *GRID_POINTS),
    ('grid_sample_nearest', GRID.replace('MODE', '"nearest"'), lambda x, y: sampled(x, y, 'nearest'), *GRID_POINTS),
]
# whose gradients at infinities and zeros are NaN in PyTorch for what its formulas are, as infinity divided by itself, where the value is a number
LIMITS = 'atan2', 'cumprod', 'ctc_loss', 'ctc_loss_finite', 'hypot', 'kl_div', 'logaddexp', 'poisson_nll_full', 'xlogy'
INTEGERS = {'segments': [2, 0, 2, 0, 2, 4, 4], 'spelt': [[1, 1], [1, 2], [2, 1], [2, 0], [1, 1]], 'lengths': [2, 2, 2, 1, 2], 'heard': [3, 3, 1, 3, 2]}


def resolve(values, dtype):
    """Nested lists of points in a type: what `around` makes becomes a kink or its neighbour."""
    if isinstance(values, list):
        return [resolve(v, dtype) for v in values]
    at, side = values if isinstance(values, tuple) else (values, 0)
    at = torch.tensor(float(at), dtype=dtype)
    return torch.nextafter(at, torch.tensor(side * INF, dtype=dtype)).item() if side else at.item()


def spelt(values):
    return [repr(v) for v in values.flatten().tolist()]


def differentiate(function, inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    value = function(*inputs)
    if value.requires_grad:
        value.sum().backward()
    return [value.detach()] + [torch.zeros_like(x) if x.grad is None else x.grad for x in inputs]


def both(narrow, wide):
    """PyTorch's own f32, and what it has in f64 rounded to f32 where that is something else: "x|y" is either."""
    spellings = zip(spelt(narrow.double()), spelt(wide.float().double()))
    return [x if x == y else f'{x}|{y}' for x, y in spellings]


def forget(gradient, inputs, value):
    """None where an argument or the result is NaN, or, for functions of rows, one of its row: there PyTorch itself has now this, now that."""
    unknown = torch.zeros_like(inputs[0], dtype=torch.bool)
    for x in [x for x in inputs if x.shape == inputs[0].shape] + [value]:
        if x.shape[:1] == unknown.shape[:1]:
            unknown |= x.isnan().reshape(len(x), -1).any(-1).reshape([-1] + [1] * (unknown.dim() - 1))
    return [None if u else s for u, s in zip(unknown.flatten().tolist(), gradient)]


def evaluate(name, function, points, dtype):
    inputs = [torch.tensor(resolve(p, dtype), dtype=dtype) for p in points]
    own, wide = differentiate(function, inputs), differentiate(function, [x.double() for x in inputs])
    value, *gradients = [both(x, y) if dtype == torch.float32 else spelt(x) for x, y in zip(own, wide)]
    gradients = [forget(g, inputs, own[0]) for g in gradients]
    if name in LIMITS:
        gradients = [[None if s == 'nan' else s for s in g] for g in gradients]
    return {'inputs': [spelt(x) for x in inputs], 'value': value, 'gradients': gradients}


def program(cases):
    """Of all cases: each argument is an input plus a parameter of minus zeros, which changes no bit of it and whose gradient is the input's."""
    signature, body, names = [f'{n}: i32{list(torch.tensor(v).shape)}' for n, v in INTEGERS.items()], [], []
    for name, expression, shapes in cases:
        letters = 'xyz'[:len(shapes)]
        for letter, shape in zip(letters, shapes):
            signature.append(f'{name}_{letter}: f32{shape}')
            body.append(f'param {name}_d{letter}: f32{shape} = constant(-0.0)')
            body.append(f'{letter} = {name}_{letter} + {name}_d{letter}')
        *before, expression = expression.split('; ')
        body += before + [f'{name} = {expression}']
        names.append(name)
    inputs = ', '.join(s.split(':')[0] for s in signature)
    lines = ['model kinks(' + ',\n            '.join(signature) + ') {'] + body + [', '.join(names), '}', 'train {', f'data {inputs} = safetensors("none", whole=true)']
    lines += [', '.join(names) + f' = kinks({inputs})', 'loss ' + ' + '.join(f'sum({n})' for n in names), 'optimizer sgd(lr=1)', 'steps 1', '}']
    return '\n'.join(lines) + '\n'


def main():
    cases, golden = [], {'torch': torch.__version__.split('+')[0], 'integers': INTEGERS, 'cases': {}}
    for name, expression, function, *points in CASES:
        shapes = [list(torch.tensor(resolve(p, torch.float64)).shape) for p in points]
        cases.append((name, expression, shapes))
        golden['cases'][name] = {'shapes': shapes, **{n: evaluate(name, function, points, t) for n, t in TYPES.items()}}
    golden['program'] = program(cases)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'gradients', 'Inputs', 'kinks.json')
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(json.dumps(golden, separators=(',', ':')).replace('},"', '},\n"') + '\n')


main()
