"""Functions of the language's own library, as tables: what each takes, and the same in PyTorch."""
import torch
import torch.nn.functional as F

from fuzzing.functions import RULES
from fuzzing.maker import LARGEST, MAKERS, count, maker, num, unary
from fuzzing.oracle import Unfit
from fuzzing.tree import Node, var


def drawn_from(g, choices):
    """Each argument said in half of the calls."""
    return {k: g.rng.choice(v) for k, v in choices.items() if g.chance(0.5)}


def as_rule(f):
    return lambda o, n, t: f(*t, **{k: v for k, v in n.attrs.items() if k not in ('first', 'pipe', 'named')})


def table(functions, make):
    """Makers and rules of a table {name: (PyTorch, ...)}; make(g, name, ...) has what stands behind the first."""
    for name, (f, *rest) in functions.items():
        RULES[name] = as_rule(f)
        MAKERS[name] = lambda g, name=name, rest=rest: make(g, name, *rest)


def within(g, x, what):
    """x as the function takes it: 'small' in (-1, 1), 'share' in (0, 1), 'positive', 'above one', or any below a magnitude."""
    if what == 'small':
        return Node('mul', [Node('tanh', [x], type=x.type), num(0.9)], type=x.type, mag=0.9)
    if what == 'share':
        return Node('add', [Node('mul', [Node('sigmoid', [x], type=x.type), num(0.9)], type=x.type), num(0.05)], type=x.type, mag=1)
    if what in ('positive', 'above one'):
        return Node('add', [unary(g.rng.choice(('abs', 'square')), g.tame(x), 16), num(0.3 if what == 'positive' else 1.2)], type=x.type, mag=16)
    return g.tame(x, what) if what else x


class Zeta(torch.autograd.Function):
    """Hurwitz's zeta of s and x, with a derivative by x."""
    @staticmethod
    def forward(c, s, x):
        c.save_for_backward(x)
        c.s = s
        return torch.special.zeta(torch.tensor(float(s), dtype=x.dtype), x)

    @staticmethod
    def backward(c, g):
        return None, -c.s * g * Zeta.apply(c.s + 1, c.saved_tensors[0])


class Digamma(torch.autograd.Function):
    """PyTorch's own derivative has five terms of the series: it is 5e-10 off (2.15)."""
    @staticmethod
    def forward(c, x):
        c.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(c, g):
        return g * Zeta.apply(2, c.saved_tensors[0])


# --- element by element: (PyTorch, arguments, what it takes)
ELEMENTWISE = {
    'celu': (lambda x, alpha=1.0: F.celu(x, alpha), {'alpha': (0.5, 2.0)}, None),
    'hardtanh': (lambda x, low=-1.0, high=1.0: F.hardtanh(x, low, high), {'low': (-0.5, -2.0), 'high': (0.25, 1.5)}, None),
    'softshrink': (lambda x, **a: F.softshrink(x, a.get('lambda', 0.5)), {'lambda': (0.25, 1.0)}, None),
    'hardshrink': (lambda x, **a: F.hardshrink(x, a.get('lambda', 0.5)), {'lambda': (0.25, 1.0)}, None),
    'quick_gelu': (lambda x: x * torch.sigmoid(1.702 * x), {}, None),
    'tan': (torch.tan, {}, 1),
    'erfc': (torch.special.erfc, {}, 2),
    'erfinv': (torch.erfinv, {}, 'small'),
    'lgamma': (torch.lgamma, {}, 'positive'),
    'digamma': (lambda x: Digamma.apply(x), {}, 'positive'),
    'nan_to_num': (torch.nan_to_num, {}, None),
    'atan': (torch.atan, {}, None),
    'asinh': (torch.asinh, {}, None),
    'asin': (torch.asin, {}, 'small'),
    'acos': (torch.acos, {}, 'small'),
    'atanh': (torch.atanh, {}, 'small'),
    'acosh': (torch.acosh, {}, 'above one'),
    'sinc': (torch.sinc, {}, 2),
    'log1p': (torch.log1p, {}, 'small'),
    'exp2': (torch.exp2, {}, 4),
    'log2': (torch.log2, {}, 'positive'),
    'log10': (torch.log10, {}, 'positive'),
    'reciprocal': (torch.reciprocal, {}, 'positive'),
    'logit': (lambda x, eps=None: torch.logit(x, eps), {'eps': (0.2,)}, 'share'),
    'frac': (torch.frac, {}, None),
}


def elementwise(g, name, arguments, takes):
    x = g.pick()
    if x is None:
        return None
    x = within(g, x, takes)
    mag = {'small': 4, 'share': 4, 'above one': 4, 4: 16}.get(takes, max(x.mag, 2))
    return Node(name, [x], type=x.type, mag=mag, **drawn_from(g, arguments))


table(ELEMENTWISE, elementwise)


# --- along an axis, of the same shape: (PyTorch, arguments, what it takes)
def extreme(f):
    return lambda x, axis=-1: f(x, axis).values


ALONG = {
    'softmin': (lambda x, axis=-1: F.softmin(x, axis), {}, None),
    'cumsum': (lambda x, axis=-1: x.cumsum(axis), {}, 2),
    'cumprod': (lambda x, axis=-1: x.cumprod(axis), {}, 1),
    'cummax': (extreme(torch.cummax), {}, None),
    'cummin': (extreme(torch.cummin), {}, None),
    'logcumsumexp': (lambda x, axis=-1: x.logcumsumexp(axis), {}, 8),
    'normalize': (lambda x, axis=1, p=2.0: F.normalize(x, p, axis, eps=1e-12), {'p': (1.0, 2.0)}, 'positive'),
}


def along(g, name, arguments, takes):
    least = 2 if name == 'normalize' else 1
    x = g.pick('f', lambda s: len(s) >= least)
    if x is None:
        return None
    a = drawn_from(g, arguments)
    if g.chance(0.6):
        a['axis'] = g.rng.randrange(-len(x.shape), len(x.shape))
    x = within(g, x, takes)
    node = Node(name, [x], type=x.type, mag=x.mag * (8 if name == 'cumsum' else 1) + 1, **a)
    if name in ('cummax', 'cummin'):                            # and the places
        names = [g.fresh('v'), g.fresh('v')]
        RULES[name] = lambda o, n, t: list(getattr(torch, n.op)(t[0], n.attrs.get('axis', -1)))
        node.type = [x.type, ('l', x.shape)]
        g.statements.append(['let', names, node])
        g.add(var(names[0], x.type, x.mag))
        return True
    return node


table(ALONG, along)


# --- halves of the last axis
HALVES = {
    'glu': (lambda x: F.glu(x, -1),),
    'geglu': (lambda x: F.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],),
    'reglu': (lambda x: F.relu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],),
}


def halves(g, name):
    x = g.pick('f', lambda s: len(s) > 0 and s[-1] % 2 == 0)
    return x and Node(name, [g.tame(x)], type=('f', x.shape[:-1] + (x.shape[-1] // 2,)), mag=16)


table(HALVES, halves)


# --- reductions
def reduced(f):
    return lambda x, axes=None, keepdims=False, **a: f(x, tuple(range(x.dim())) if axes is None else axes if isinstance(axes, list) else [axes], keepdims, **a)


def product(x, axes, keepdims):
    for axis in sorted((i % x.dim() for i in axes), reverse=True):
        x = x.prod(axis, keepdim=keepdims)
    return x


REDUCTIONS = {
    'norm': (reduced(lambda x, axes, keepdims, p=2: torch.linalg.vector_norm(x, p, axes, keepdims)), {'p': (1, 2, 3)}, 'positive'),
    'std': (reduced(lambda x, axes, keepdims, correction=0: torch.std(x, axes, correction=correction, keepdim=keepdims) if axes else x * 0), {'correction': (0,)}, None),
    'prod': (reduced(product), {}, 1),
}


def reductions(g, name, arguments, takes):
    x = g.pick('f', lambda s: len(s) > 0 and (name != 'std' or s[-1] > 1))
    if x is None:
        return None
    rank, a = len(x.shape), drawn_from(g, arguments)
    axes = [rank - 1] if name == 'std' else sorted(g.rng.sample(range(rank), g.rng.randint(1, rank)))
    if name == 'std' or g.chance(0.8):
        a['axes'] = axes[0] if len(axes) == 1 and g.chance(0.6) else axes
    else:
        axes = range(rank)
    if g.chance(0.3):
        a['keepdims'] = True
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if i not in axes or a.get('keepdims'))
    return Node(name, [within(g, x, takes)], type=('f', shape), mag=count(x.shape) if name == 'norm' else x.mag + 1, **a)


table(REDUCTIONS, reductions)

# --- of two tensors: (PyTorch, what each takes)
PAIRS = {
    'atan2': (torch.atan2, None, 'positive'),
    'hypot': (torch.hypot, 'positive', None),
    'fmod': (torch.fmod, 8, 'positive'),
    'logaddexp': (torch.logaddexp, 8, 8),
    'xlogy': (torch.xlogy, 8, 'positive'),
}


def pairs(g, name, first, second):
    x = g.pick()
    y = x and g.want(x.shape)
    return x and Node(name, [within(g, x, first), within(g, y, second)], type=x.type, mag=max(x.mag, y.mag) * 4 + 4)


table(PAIRS, pairs)

# --- losses: (PyTorch, arguments, what the prediction and the target take); a mean without `reduction`
REDUCE = {'reduction': ('sum', 'mean')}


def soft_cross_entropy(x, y, smoothing=0.0):
    return F.cross_entropy(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]), label_smoothing=smoothing)


LOSSES = {
    'l1': (lambda x, y, reduction='mean': F.l1_loss(x, y, reduction=reduction), REDUCE, None, None),
    'huber': (lambda x, y, delta=1.0, reduction='mean': F.huber_loss(x, y, delta=delta, reduction=reduction), {'delta': (0.5, 2.0), **REDUCE}, None, None),
    'smooth_l1': (lambda x, y, beta=1.0, reduction='mean': F.smooth_l1_loss(x, y, beta=beta, reduction=reduction), {'beta': (0.5, 2.0), **REDUCE}, None, None),
    'kl_div': (lambda x, y, reduction='mean': F.kl_div(x, y, reduction=reduction), REDUCE, 8, 'share'),
    'poisson_nll': (lambda x, y, full=False, reduction='mean': F.poisson_nll_loss(x, y, full=full, reduction=reduction), {'full': (True,), **REDUCE}, 2, 'above one'),
    'soft_cross_entropy': (soft_cross_entropy, {'smoothing': (0.1,)}, None, 'share'),
    'cosine_similarity': (lambda x, y, axis=1: F.cosine_similarity(x, y, axis), {}, 'positive', None),
    'hinge': (lambda x, y, margin=1.0, reduction='mean': getattr((margin - x * y).clamp(min=0), reduction)(), {'margin': (0.5,), **REDUCE}, None, 'small'),
}


def losses(g, name, arguments, first, second):
    x = g.pick('f', lambda s: len(s) > 1 if name in ('cosine_similarity', 'soft_cross_entropy') else True)
    if x is None:
        return None
    y, a = g.want(x.shape), drawn_from(g, arguments)
    shape = x.shape[:1] + x.shape[2:] if name == 'cosine_similarity' else ()
    return Node(name, [within(g, x, first), within(g, y, second)], type=('f', shape), mag=(x.mag + y.mag + 4) ** 2 * (count(x.shape) if a.get('reduction') == 'sum' else 1), **a)


table(LOSSES, losses)


# --- shapes
@maker('tile', 'repeat_interleave', 'unsqueeze', 'tril', 'triu', 'narrow', 'stack', 'outer', 'sort', 'topk', 'lerp', 'adaptive_avgpool', 'adaptive_maxpool', 'conv1d', 'linear_recurrence', 'take_along', 'index_select',
       'instance_norm', 'interpolate', 'one_hot', 'pixel_shuffle')
def _(g, name):
    return globals()['make_' + name](g, name)


def with_axes(g, least=1, fits=lambda s: True):
    return g.pick('f', lambda s: len(s) >= least and fits(s))


def make_tile(g, name):
    x = with_axes(g, 1, lambda s: count(s) * 4 <= LARGEST)
    if x is None:
        return None
    if name == 'repeat_interleave':
        axis, n = g.rng.randrange(len(x.shape)), g.rng.choice((1, 2, 3))
        return Node(name, [x], type=('f', x.shape[:axis] + (x.shape[axis] * n,) + x.shape[axis + 1:]), mag=x.mag, repeats=n, axis=axis, first=['repeats'])
    n = [1] * len(x.shape)
    n[g.rng.randrange(len(n))] = g.rng.choice((2, 3))
    return Node(name, [x], type=('f', tuple(d * k for d, k in zip(x.shape, n))), mag=x.mag, repeats=n, first=['repeats'])


make_repeat_interleave = make_tile
RULES['tile'] = as_rule(lambda x, repeats: x.repeat(*repeats))
RULES['repeat_interleave'] = as_rule(lambda x, repeats, axis: x.repeat_interleave(repeats, axis))


def make_unsqueeze(g, name):
    x = g.pick()
    axis = x and g.rng.randint(0, len(x.shape))
    return x and Node(name, [x], type=('f', x.shape[:axis] + (1,) + x.shape[axis:]), mag=x.mag, axis=axis)


RULES['unsqueeze'] = as_rule(lambda x, axis: x.unsqueeze(axis))


def make_tril(g, name):
    x = with_axes(g, 2)
    return x and Node(name, [x], type=x.type, mag=x.mag, **drawn_from(g, {'diagonal': (-2, -1, 1, 2)}))


make_triu = make_tril
RULES['tril'] = as_rule(lambda x, diagonal=0: x.tril(diagonal))
RULES['triu'] = as_rule(lambda x, diagonal=0: x.triu(diagonal))


def make_narrow(g, name):
    x = with_axes(g)
    if x is None:
        return None
    axis = g.rng.randrange(len(x.shape))
    length = g.rng.randint(1, x.shape[axis])
    start = g.rng.randint(0, x.shape[axis] - length)
    return Node(name, [x], type=('f', x.shape[:axis] + (length,) + x.shape[axis + 1:]), mag=x.mag, axis=axis, start=start, length=length)


RULES['narrow'] = as_rule(lambda x, axis, start, length: x.narrow(axis, start, length))


def make_stack(g, name):
    x = g.pick('f', lambda s: 2 * count(s) <= LARGEST)
    if x is None:
        return None
    y, axis = g.want(x.shape), g.rng.randint(0, len(x.shape))
    return Node(name, [x, y], type=('f', x.shape[:axis] + (2,) + x.shape[axis:]), mag=max(x.mag, y.mag), axis=axis)


RULES['stack'] = lambda o, n, t: torch.stack(list(t), n.attrs['axis'])


def make_outer(g, name):
    x = g.pick('f', lambda s: len(s) == 1)
    y = x and g.want((g.size(9),))
    return x and Node(name, [x, y], type=('f', x.shape + y.shape), mag=x.mag * y.mag)


RULES['outer'] = as_rule(torch.outer)


def make_lerp(g, name):
    x = g.pick()
    y = x and g.want(x.shape)
    return x and Node(name, [x, y, num(g.rng.choice((0.25, 1.5)))], type=x.type, mag=x.mag + y.mag)


RULES['lerp'] = lambda o, n, t: torch.lerp(t[0], t[1], float(t[2]))


# --- rows in order
def make_sort(g, name):
    x = with_axes(g)
    if x is None:
        return None
    a, axis = {}, -1
    if g.chance(0.6):
        a['axis'] = axis = g.rng.randrange(-len(x.shape), len(x.shape))
    n = x.shape[axis]
    k = g.rng.randint(1, n) if name == 'topk' else n
    key = {'topk': 'largest', 'sort': 'descending'}[name]
    if g.chance(0.5):
        a[key] = name == 'sort'
    shape = list(x.shape)
    shape[axis] = k
    if name == 'topk':
        a = {'k': k, **a, 'first': ['k']}
    names = [g.fresh('v'), g.fresh('v')]
    g.statements.append(['let', names, Node(name, [x], type=[('f', tuple(shape)), ('i', tuple(shape))], **a)])
    g.add(var(names[0], ('f', tuple(shape)), x.mag))
    return True


make_topk = make_sort
RULES['sort'] = as_rule(lambda x, axis=-1, descending=False: list(torch.sort(x, dim=axis, descending=descending, stable=True)))
RULES['topk'] = as_rule(lambda x, k, axis=-1, largest=True: [t.narrow(axis, 0, k) for t in torch.sort(x, dim=axis, descending=largest, stable=True)])


def make_take_along(g, name):
    x = with_axes(g)
    if x is None:
        return None
    axis = g.rng.randrange(len(x.shape))
    if name == 'index_select':
        i = g.integers(x.shape[axis], (g.program.rows or g.size(7),))
        return i and Node(name, [x, i], type=('f', x.shape[:axis] + i.shape + x.shape[axis + 1:]), mag=x.mag, axis=axis)
    shape = list(x.shape)
    i = g.integers(x.shape[axis], tuple(shape))
    return i and Node(name, [x, i], type=x.type, mag=x.mag, axis=axis)


make_index_select = make_take_along
RULES['take_along'] = as_rule(lambda x, i, axis: torch.take_along_dim(x, i.long(), axis))
RULES['index_select'] = as_rule(lambda x, i, axis: torch.index_select(x, axis, i.long()))


def make_one_hot(g, name):
    n = g.rng.choice((2, 3, 5))
    i = g.integers(n)
    return i and Node('mul', [Node(name, [i], type=('f', i.shape + (n,)), classes=n, first=['classes']), num(0.5)], type=('f', i.shape + (n,)))


RULES['one_hot'] = lambda o, n, t: F.one_hot(t[0].long(), n.attrs['classes']).to(o.dtype)


def make_linear_recurrence(g, name):
    x = with_axes(g)
    if x is None:
        return None
    a = drawn_from(g, {'reverse': (True,)})
    if g.chance(0.6):
        a['axis'] = g.rng.randrange(-len(x.shape), len(x.shape))
    return Node(name, [within(g, g.want(x.shape), 'small'), x], type=x.type, mag=8 * x.mag, **a)


def recurrence(a, x, axis=-1, reverse=False):
    y, out = torch.zeros_like(x.select(axis, 0)), []
    n = x.shape[axis]
    for i in reversed(range(n)) if reverse else range(n):
        y = a.select(axis, i) * y + x.select(axis, i)
        out.append(y)
    return torch.stack(out[::-1] if reverse else out, axis % x.dim())


RULES['linear_recurrence'] = as_rule(recurrence)


# --- images and rows
def make_adaptive_avgpool(g, name):
    x = g.of_rank(4)
    if x is None:
        return None
    size = [g.rng.randint(1, d) for d in x.shape[2:]]
    return Node(name, [x], type=('f', x.shape[:2] + tuple(size)), mag=x.mag, size=size, first=['size'])


make_adaptive_maxpool = make_adaptive_avgpool
RULES['adaptive_avgpool'] = as_rule(lambda x, size: F.adaptive_avg_pool2d(x, size))
RULES['adaptive_maxpool'] = as_rule(lambda x, size: F.adaptive_max_pool2d(x, size))


def make_conv1d(g, name):
    x = g.of_rank(3)
    if x is None:
        return None
    groups = g.rng.choice([k for k in (1, 1, 2, x.shape[1]) if x.shape[1] % k == 0])
    channels, kernel = groups * g.rng.choice((1, 2, 3)), g.rng.randint(1, 3)
    a = drawn_from(g, {'stride': (1, 2), 'dilation': (1, 2), 'padding': (0, 1, 2)})
    length = (x.shape[2] + 2 * a.get('padding', 0) - a.get('dilation', 1) * (kernel - 1) - 1) // a.get('stride', 1) + 1
    if x.shape[2] + 2 * a.get('padding', 0) < a.get('dilation', 1) * (kernel - 1) + 1:
        return None
    if groups > 1:
        a['groups'] = groups
    w = g.want((channels, x.shape[1] // groups, kernel))
    return Node(name, [x, w], type=('f', (x.shape[0], channels, length)), mag=x.mag * w.mag * x.shape[1], named=['weight'], bias=False, **a)


RULES['conv1d'] = lambda o, n, t: F.conv1d(t[0], t[1], **{k: v for k, v in n.attrs.items() if k in ('stride', 'dilation', 'padding', 'groups')})


def make_instance_norm(g, name):
    x = g.of_rank(4, fits=lambda s: s[2] * s[3] > 2)
    return x and Node(name, [x], type=x.type, mag=4)


RULES['instance_norm'] = as_rule(lambda x: F.instance_norm(x))


def make_interpolate(g, name):
    x = g.of_rank(4, fits=lambda s: 4 * count(s) <= LARGEST)
    if x is None:
        return None
    size = [g.rng.randint(1, 2 * d) for d in x.shape[2:]]
    a = {'mode': g.rng.choice(('nearest', 'bilinear', 'bicubic'))}
    if a['mode'] != 'nearest' and g.chance(0.5):
        a['align_corners'] = True
    return Node(name, [x], type=('f', x.shape[:2] + tuple(size)), mag=2 * x.mag, size=size, **a)


RULES['interpolate'] = as_rule(lambda x, size, mode, align_corners=None: F.interpolate(x, size, mode=mode, align_corners=align_corners))


def make_pixel_shuffle(g, name):
    x = g.of_rank(4, fits=lambda s: s[1] % 4 == 0)
    return x and Node(name, [x], type=('f', (x.shape[0], x.shape[1] // 4, 2 * x.shape[2], 2 * x.shape[3])), mag=x.mag, factor=2, first=['factor'])


RULES['pixel_shuffle'] = as_rule(lambda x, factor: F.pixel_shuffle(x, factor))


# --- gradients inside of a model
@maker('grad')
def _(g, name):
    """grad of a sum of smooth functions of a value that has a name."""
    if g.depth:
        return None                                             # what a block is given need not have a gradient
    x = g.pick('f', lambda s: count(s) > 0)
    if x is None:
        return None
    x = g.name_it(x) if x in g.pool else x
    if x.op != 'name':
        return None
    y = g.tame(x, 2)
    for _ in range(g.rng.randint(1, 3)):
        op = g.rng.choice(('tanh', 'sin', 'square', 'sigmoid', 'mul', 'softplus', 'softmax'))
        if op == 'softmax' and not x.shape:
            continue
        y = Node('mul', [y, g.want(x.shape)], type=x.type, mag=4) if op == 'mul' else unary(op, y, 4)
    g.program.differentiates = True
    return Node(name, [Node('sum', [y], type=('f', ())), x], type=x.type, mag=8)


def gradient(o, n, t):
    if not t[1].requires_grad or not t[0].requires_grad:
        raise Unfit('a gradient by a constant')
    dx, = torch.autograd.grad(t[0], t[1], create_graph=True, allow_unused=True)
    return torch.zeros_like(t[1]) if dx is None else dx


RULES['grad'] = gradient
