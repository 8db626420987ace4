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
ONE_ZERO = [v for v in COMMON if math.copysign(1, v) > 0 or v != 0]   # on a GPU the sine of -0 is 0
# quotients from small ones to those that no number of either type holds exactly
QUOTIENTS = [(a, b) for a in (-7.5, 7.5, 1e6, -1e8, 16777217 * 3.7, 1e15, -1e30) for b in (3.1, -0.3, 1e-3, 7, 1e5)] + [(1e-20, 3e-21), (3e38, 7e36), (1e-3, 3e38), (5, 5), (1, 3e-20)]
ROWS = [[1, 3, 3, 2], [0, 0, 0, 0], [-0.0, 0.0, -1, -1], [INF, 1, INF, 2], [-INF, 0, 1, -INF], [-INF, -INF, -INF, -INF], [NAN, 1, 2, 3], [1, 2, NAN, NAN], [-1e30, 1, 0, 2],
        [200, -200, 100, 0], [5, 5, 5, 5]]
FINITE = [r for r in ROWS if all(math.isfinite(v) and abs(v) < 1e6 for v in r)]
IMAGE = [[[[0, 0, 1, NAN], [0, 0, 1, 2], [-INF, -INF, INF, INF], [-INF, -INF, INF, 3]]]]


def norm(x):
    return torch.sqrt(torch.sum(x * x, 1))


def attend(x):
    scores = (x[:, None] * x[None]).masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -INF)
    return torch.softmax(scores, -1) @ x[:, None]


def slope(function):
    """Its derivative, so that the gradient is the second one."""
    return lambda x: torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]


def segments(kind, x):
    index = torch.tensor([2, 0, 2, 0, 2, 4, 4])
    return torch.zeros(6, dtype=x.dtype).scatter_reduce(0, index, x, kind, include_self=False)


# name, in the language, in PyTorch, points of each argument
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
    ('remainder', 'x % y', torch.remainder, *pairs([-3.5, -2, 0.5, 1, 3])),
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
    ('norm', 'sqrt(sum(square(x), axes=1))', norm, ROWS),
    ('amax', 'amax(x, axes=1)', lambda x: torch.amax(x, 1), ROWS),
    ('amin', 'amin(x, axes=1)', lambda x: torch.amin(x, 1), ROWS),
    ('amax_of_all', 'amax(x)', torch.amax, [[1, 3, 3], [3, -1, 0]]),
    ('argmax', 'cast(argmax(x), "f32") + 0*sum(x, axes=1)', lambda x: torch.argmax(x, 1).to(x.dtype) + 0 * torch.sum(x, 1), ROWS),
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
]
INTEGERS = {'segments': [2, 0, 2, 0, 2, 4, 4]}


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
    pairs = zip(spelt(narrow.double()), spelt(wide.float().double()))
    return [x if x == y else f'{x}|{y}' for x, y in pairs]


def forget(gradient, inputs):
    """None where an argument is NaN, or, for functions of rows, one of its row: there PyTorch itself has now this, now that."""
    unknown = torch.zeros_like(inputs[0], dtype=torch.bool)
    for x in inputs:
        unknown |= x.isnan().any(-1, keepdim=True) if x.dim() > 1 else x.isnan()
    return [None if u else s for u, s in zip(unknown.flatten().tolist(), gradient)]


def evaluate(function, points, dtype):
    inputs = [torch.tensor(resolve(p, dtype), dtype=dtype) for p in points]
    own, wide = differentiate(function, inputs), differentiate(function, [x.double() for x in inputs])
    value, *gradients = [both(x, y) if dtype == torch.float32 else spelt(x) for x, y in zip(own, wide)]
    return {'inputs': [spelt(x) for x in inputs], 'value': value, 'gradients': [forget(g, inputs) for g in gradients]}


def program(cases):
    """Of all cases: each argument is an input plus a parameter of minus zeros, which changes no bit of it and whose gradient is the input's."""
    signature, body, names = [f'{n}: i32[{len(v)}]' for n, v in INTEGERS.items()], [], []
    for name, expression, shapes in cases:
        letters = 'xy'[:len(shapes)]
        for letter, shape in zip(letters, shapes):
            signature.append(f'{name}_{letter}: f32{shape}')
            body.append(f'param {name}_d{letter}: f32{shape} = constant(-0.0)')
            body.append(f'{letter} = {name}_{letter} + {name}_d{letter}')
        body.append(f'{name} = {expression}')
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
        golden['cases'][name] = {'shapes': shapes, **{n: evaluate(function, points, t) for n, t in TYPES.items()}}
    golden['program'] = program(cases)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'gradients', 'Inputs', 'kinks.json')
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(json.dumps(golden, separators=(',', ':')).replace('},"', '},\n"') + '\n')


main()
