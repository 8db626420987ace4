"""What each function of the language computes, in PyTorch, from what docs/ says of it: RULES[op](oracle, node, tensors)."""
import math

import torch
import torch.nn.functional as F

RULES = {}
LEFT_OUT = {
    'axes_of': 'is of the sizes of tensors, known while compiling: functions of the library that are drawn call it',
    'dtype': 'another string with --dtype, of which nothing but the text of a program could depend',
    'none': 'the value of an argument that is left out',
    'parameters': 'stands in the train section, where no expressions are drawn: models/maml_sine.nn against PyTorch',
}   # functions that no program has, and why


DRAWN = {'bernoulli', 'randint', 'permutation', 'drop_path'}   # functions that no golden has: their numbers follow from what is drawn


def rule(*names):
    def keep(f):
        for name in names:
            RULES[name] = f
        return f
    return keep


def pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


def four(v):
    """(left, right, top, bottom), as torch pads, of a padding as the language has it."""
    v = pair(v)
    top, bottom, left, right = v if len(v) == 4 else (v[0], v[0], v[1], v[1])
    return left, right, top, bottom


def floats(o, x):
    return x if x.is_floating_point() else x.to(o.dtype)


UNARY = {'relu': torch.relu, 'relu6': F.relu6, 'silu': F.silu, 'sigmoid': torch.sigmoid, 'tanh': torch.tanh, 'exp': torch.exp, 'log': torch.log, 'sqrt': torch.sqrt,
         'rsqrt': torch.rsqrt, 'abs': torch.abs, 'sin': torch.sin, 'cos': torch.cos, 'erf': torch.erf, 'softplus': F.softplus,
         'mish': F.mish, 'elu': F.elu, 'selu': F.selu, 'hardswish': F.hardswish, 'hardsigmoid': lambda x: F.relu6(x + 3) / 6,   # PyTorch's has a sixth of f32 in its gradient, also in f64
          'softsign': F.softsign, 'log_sigmoid': F.logsigmoid,
         'tanhshrink': F.tanhshrink, 'expm1': torch.expm1, 'sinh': torch.sinh, 'cosh': torch.cosh, 'ceil': torch.ceil, 'trunc': torch.trunc, 'round': torch.round, 'sign': torch.sign,
         'square': torch.square, 'not': torch.logical_not, 'stop_gradient': torch.Tensor.detach}
KEEP_WHOLE = {'relu', 'abs', 'not'}
for _name, _f in UNARY.items():
    RULES[_name] = lambda o, n, t, f=_f: f(t[0] if n.op in KEEP_WHOLE else floats(o, t[0]))
BINARY = {'add': torch.add, 'sub': torch.sub, 'mul': torch.mul, 'div': torch.div, 'pow': torch.pow, 'mod': torch.remainder, 'floordiv': torch.floor_divide, 'gt': torch.gt,
          'lt': torch.lt, 'ge': torch.ge, 'le': torch.le, 'eq': torch.eq, 'ne': torch.ne, 'and': torch.logical_and, 'or': torch.logical_or, 'maximum': torch.maximum,
          'minimum': torch.minimum, 'matmul': torch.matmul, 'mse': F.mse_loss}
for _name, _f in BINARY.items():
    RULES[_name] = lambda o, n, t, f=_f: f(*o.alike(t))


@rule('div')
def _(o, n, t):
    return torch.div(*(x if x.is_floating_point() else x.to(o.dtype) for x in o.alike(t)))


class Saturating(torch.autograd.Function):
    """y with the derivative slope(y): of a y that is moved by a rounding error, where the slope is small, that says how uncertain the slope is."""
    @staticmethod
    def forward(c, x, y, slope):
        c.slope = slope
        y = y.clone()
        c.save_for_backward(y)
        return y

    @staticmethod
    def backward(c, g):
        return g * c.slope(c.saved_tensors[0]), None, None


@rule('tanh')
def _(o, n, t):
    x = floats(o, t[0])
    return Saturating.apply(x, o.moved(torch.tanh(x.detach()), n.op), lambda y: 1 - y * y)


@rule('sigmoid')
def _(o, n, t):
    x = floats(o, t[0])
    return Saturating.apply(x, o.moved(torch.sigmoid(x.detach()), n.op), lambda y: y * (1 - y))


@rule('floor', 'neg', 'square')
def _(o, n, t):
    x = t[0]
    if n.op == 'floor':
        return x.detach().floor() if x.is_floating_point() else x
    x, = o.alike([x])                                           # operators compute in i32 on bytes
    return -x if n.op == 'neg' else x * x


@rule('leaky_relu')
def _(o, n, t):
    return F.leaky_relu(t[0], n.attrs.get('slope', 0.01))


@rule('gelu')
def _(o, n, t):
    return F.gelu(t[0], approximate='tanh' if n.attrs.get('approximate') else 'none')


@rule('swiglu')
def _(o, n, t):
    a, b = t[0].chunk(2, -1)
    return F.silu(a) * b


@rule('clamp')
def _(o, n, t):
    x, low, high = o.alike([t[0], n.attrs['low'], n.attrs['high']], operator=False)
    # by numbers: at a limit that is a tensor the gradient is a half
    return x.clamp(low.item(), high.item()) if x.is_floating_point() else torch.minimum(torch.maximum(x, low), high)


@rule('where')
def _(o, n, t):
    return torch.where(t[0], *o.alike(t[1:], operator=False))


@rule('cast')
def _(o, n, t):
    return t[0].to(o.type_of(n.kind))


# --- of the language's own library

@rule('flip')
def _(o, n, t):
    return t[0].flip(n.attrs['axes'])


@rule('roll')
def _(o, n, t):
    return t[0].roll(n.attrs['shifts'], n.attrs['axes'])


@rule('logsumexp')
def _(o, n, t):
    axes = axes_of(n, t[0])
    return torch.logsumexp(t[0], axes, n.attrs.get('keepdims', False)) if axes else t[0]


# --- sources

@rule('zeros_of')
def _(o, n, t):
    return torch.zeros(n.shape, dtype=o.dtype)


@rule('ones_of')
def _(o, n, t):
    return torch.ones(n.shape, dtype=o.dtype)


@rule('full', 'full_like')
def _(o, n, t):
    return torch.full(n.shape, n.attrs['value'], dtype=o.dtype)


@rule('iota')
def _(o, n, t):
    return torch.arange(n.shape[0], dtype=torch.int32)


@rule('number')
def _(o, n, t):
    return n.attrs['value']


@rule('by_length')
def _(o, n, t):
    return t[0] * (1.0 / len(t[0]))


# --- reductions

def axes_of(n, t):
    axes = n.attrs.get('axes')
    return tuple(range(t.dim())) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)


@rule('sum', 'mean', 'amax', 'amin', 'var')
def _(o, n, t):
    axes, more = axes_of(n, t[0]), {'unbiased': False} if n.op == 'var' else {}
    if not axes:
        return torch.zeros_like(t[0]) if n.op == 'var' else t[0]
    x = floats(o, t[0]) if n.op in ('mean', 'var') else t[0]
    return getattr(torch, n.op)(x, dim=axes, keepdim=n.attrs.get('keepdims', False), **more)


@rule('argmax')
def _(o, n, t):
    return t[0].argmax(n.attrs.get('axis', -1)).to(torch.int32)


@rule('softmax', 'log_softmax')
def _(o, n, t):
    return getattr(torch, n.op)(floats(o, t[0]), n.attrs.get('axis', -1))


# --- shapes

@rule('reshape', 'reshape_like')
def _(o, n, t):
    return t[0].reshape(n.shape)


@rule('flatten')
def _(o, n, t):
    return t[0].flatten(n.attrs.get('start', 1))


@rule('transpose')
def _(o, n, t):
    return t[0].permute(n.attrs['perm']) if 'perm' in n.attrs else t[0].transpose(-1, -2)


@rule('rearrange')
def _(o, n, t):
    import einops
    return einops.rearrange(t[0], n.attrs['pattern'], **{k: v for k, v in n.attrs.items() if k not in ('pattern', 'pipe')})


@rule('einsum')
def _(o, n, t):
    import einops
    return einops.einsum(*t, n.attrs['pattern'])


@rule('split')
def _(o, n, t):
    parts = list(t[0].chunk(n.attrs['parts'], n.attrs.get('axis', -1)))
    return [UNARY[n.attrs['then']](x) for x in parts] if 'then' in n.attrs else parts


@rule('concat')
def _(o, n, t):
    return torch.cat(o.alike(t, operator=False), n.attrs.get('axis', -1))


@rule('pad')
def _(o, n, t):
    widths = [w for pair_of_axis in reversed(list(zip(n.attrs['low'], n.attrs['high']))) for w in pair_of_axis]
    return F.pad(t[0], widths, value=n.attrs.get('value', 0.0))


@rule('broadcast_to')
def _(o, n, t):
    return t[0].expand(n.attrs['shape'])


@rule('index')
def _(o, n, t):
    return t[0][tuple(p if isinstance(p, int) else slice(p[0], p[1], p[2] and min(p[2], 10 ** 6)) for p in n.attrs['parts'])]   # PyTorch's overflow


@rule('gather')
def _(o, n, t):
    return t[0][t[1].long()]


def rows_of(segments, x):
    return segments.long().view(-1, *[1] * (x.dim() - 1)).expand_as(x)


@rule('segment_sum', 'segment_mean', 'segment_max')
def _(o, n, t):
    x, segments = t
    shape = (n.attrs['count'],) + x.shape[1:]
    how = {'segment_sum': 'sum', 'segment_mean': 'mean', 'segment_max': 'amax'}[n.op]
    if how != 'amax':
        return torch.zeros(shape, dtype=x.dtype).scatter_reduce(0, rows_of(segments, x), x, how, include_self=False)
    # over -inf, not 0: the gradient of amax counts an equal value that was there before as one more extreme, include_self or not
    y = torch.full(shape, -math.inf, dtype=x.dtype).scatter_reduce(0, rows_of(segments, x), x, how, include_self=False)
    return torch.where(y == -math.inf, torch.zeros_like(y), y)


# --- layers with parameters

@rule('linear')
def _(o, n, t):
    a, x = n.attrs, t[0]
    weight = t[-1] if 'named' in a else o.parameter('weight', (a['features'], x.shape[-1]), 'weight')
    return F.linear(x, weight, o.parameter('bias', (a['features'],), 'bias') if a.get('bias', True) else None)


@rule('conv2d')
def _(o, n, t):
    a, x = n.attrs, t[0]
    kernel, groups = pair(a.get('kernel', 1)), a.get('groups', 1)
    weight = o.parameter('weight', (a['channels'], x.shape[1] // groups) + kernel, 'weight')
    bias = o.parameter('bias', (a['channels'],), 'bias') if a.get('bias', True) else None
    return F.conv2d(F.pad(x, four(a.get('padding', 0))), weight, bias, pair(a.get('stride', 1)), 0, pair(a.get('dilation', 1)), groups)


@rule('conv_transpose2d')
def _(o, n, t):
    a, x = n.attrs, t[0]
    kernel, groups = pair(a.get('kernel', 1)), a.get('groups', 1)
    weight = o.parameter('weight', (x.shape[1], a['channels'] // groups) + kernel, 'weight')
    bias = o.parameter('bias', (a['channels'],), 'bias') if a.get('bias', True) else None
    return F.conv_transpose2d(x, weight, bias, pair(a.get('stride', 1)), pair(a.get('padding', 0)), pair(a.get('output_padding', 0)), groups, pair(a.get('dilation', 1)))


@rule('batchnorm')
def _(o, n, t):
    a, axis = n.attrs, n.attrs.get('axis', 1)
    x = t[0].movedim(axis, 1) if t[0].dim() > 1 else t[0]
    channels = (x.shape[1],)
    weight, bias = o.parameter('weight', channels, 'scale'), o.parameter('bias', channels, 'bias')
    mean, var = o.state('running_mean', channels, 'bias'), o.state('running_var', channels, 'positive')
    y = F.batch_norm(x, mean, var, weight, bias, o.training, a.get('momentum', 0.1), a.get('eps', 1e-5))
    return y.movedim(1, axis)


@rule('layernorm')
def _(o, n, t):
    x, d = t[0] - t[0].mean(-1, keepdim=True), tuple(t[0].shape[-1:])   # PyTorch's own is not 0 where a row has one element
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + n.attrs.get('eps', 1e-5))
    return y * o.parameter('weight', d, 'scale') + o.parameter('bias', d, 'bias')


@rule('rmsnorm')
def _(o, n, t):
    return t[0] * torch.rsqrt(t[0].square().mean(-1, keepdim=True) + n.attrs.get('eps', 1e-6)) * o.parameter('weight', (t[0].shape[-1],), 'scale')


@rule('groupnorm')
def _(o, n, t):
    c = (t[0].shape[1],)
    return F.group_norm(t[0], n.attrs['groups'], o.parameter('weight', c, 'scale'), o.parameter('bias', c, 'bias'), n.attrs.get('eps', 1e-5))


@rule('embedding')
def _(o, n, t):
    return o.parameter('weight', (n.attrs['rows'], n.attrs['features']), 'table')[t[0].long()]


def gates(o, n, t, count):
    h = t[1].shape[1]
    bias, projected = n.attrs.get('bias', True), n.attrs.get('projected', False)
    w_x = None if projected else o.parameter('weight_ih', (count * h, t[0].shape[1]), 'weight')
    w_h = o.parameter('weight_hh', (count * h, h), 'weight')
    b_x = o.parameter('bias_ih', (count * h,), 'bias') if bias and not projected else None
    b_h = o.parameter('bias_hh', (count * h,), 'bias') if bias else None
    return (t[0] if projected else F.linear(t[0], w_x, b_x)), F.linear(t[1], w_h, b_h)


@rule('lstm_cell')
def _(o, n, t):
    x, h = gates(o, n, t, 4)
    i, f, g, out = (x + h).chunk(4, 1)
    c = torch.sigmoid(f) * t[2] + torch.sigmoid(i) * torch.tanh(g)
    return [torch.sigmoid(out) * torch.tanh(c), c]


@rule('gru_cell')
def _(o, n, t):
    x, h = (v.chunk(3, 1) for v in gates(o, n, t, 3))
    r, z = torch.sigmoid(x[0] + h[0]), torch.sigmoid(x[1] + h[1])
    return (1 - z) * torch.tanh(x[2] + r * h[2]) + z * t[1]


@rule('dropout')
def _(o, n, t):
    p, written = n.attrs['p'], o.masks.get(o.seen.get(n.attrs.get('seen')))
    if not o.training or written is None:                       # of one that no output shows there is no mask to be had
        return t[0]
    return t[0] * (written.reshape(t[0].shape) != 0) / (1 - p)


# --- images

@rule('maxpool')
def _(o, n, t):
    a = n.attrs
    return F.max_pool2d(F.pad(t[0], four(a.get('padding', 0)), value=-math.inf), pair(a['kernel']), pair(a.get('stride', a['kernel'])))


@rule('avgpool')
def _(o, n, t):
    a = n.attrs
    padding, kernel, stride = four(a.get('padding', 0)), pair(a['kernel']), pair(a.get('stride', a['kernel']))
    mean = F.avg_pool2d(F.pad(t[0], padding), kernel, stride)
    return mean if a.get('include_pad', True) else mean / F.avg_pool2d(F.pad(torch.ones_like(t[0]), padding), kernel, stride)


@rule('resize')
def _(o, n, t):
    factor, mode = tuple(map(float, pair(n.attrs['factor']))), n.attrs.get('mode', 'nearest')
    return F.interpolate(t[0], scale_factor=factor, mode=mode, **({'align_corners': False} if mode == 'bilinear' else {}))


# --- attention

@rule('causal_mask')
def _(o, n, t):
    return torch.where(torch.ones(t[0].shape[-2:], dtype=torch.bool).tril(), t[0], torch.tensor(-1e30, dtype=t[0].dtype))


@rule('attention')
def _(o, n, t):
    a, heads = n.attrs, n.attrs.get('heads')
    q, k, v = t[:3]
    if heads:
        d = q.shape[-1] // heads
        q, k, v = (x.unflatten(-1, (-1, d)).transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scale = a.get('scale')
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if a.get('causal'):
        seen = seen.tril(k.shape[2] - q.shape[2])
    seen = seen.expand(scores.shape)
    if 'mask' in a.get('named', ()):
        seen = seen & (t[3] != 0)[:, None, None, :]
    weights = scores.masked_fill(~seen, -1e30).softmax(-1).masked_fill(~seen, 0)
    y = weights @ v
    return y.transpose(1, 2).flatten(2) if heads else y


@rule('rope')
def _(o, n, t):
    x, base = t[0], n.attrs.get('base', 10000.0)
    rows, d = x.shape[-2:]
    angle = torch.arange(rows, dtype=torch.float64)[:, None] * base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    between = n.attrs.get('interleaved', False)
    a, b = (x[..., ::2], x[..., 1::2]) if between else x.chunk(2, -1)
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.stack(turned, -1).flatten(-2) if between else torch.cat(turned, -1)


# --- losses

def weighted(values, weights):
    if weights is None:
        return values.mean()
    total = weights.sum()
    return (values * weights).sum() / (total if total != 0 else 1)


@rule('cross_entropy')
def _(o, n, t):
    named = n.attrs.get('named', ())
    logits, labels = t[0].reshape(-1, t[0].shape[-1]), t[1].reshape(-1).long()
    each = F.cross_entropy(logits, labels, reduction='none', label_smoothing=n.attrs.get('smoothing', 0.0))
    return weighted(each, t[2].reshape(-1) if 'weights' in named else None)


@rule('accuracy')
def _(o, n, t):
    hits = (t[0].argmax(-1) == t[1]).to(o.dtype)
    return weighted(hits, t[2] if 'weights' in n.attrs.get('named', ()) else None)


@rule('binary_cross_entropy')
def _(o, n, t):
    x, y = o.alike(t)
    return F.binary_cross_entropy_with_logits(x, y.expand_as(x) if isinstance(y, torch.Tensor) else torch.full_like(x, y))
