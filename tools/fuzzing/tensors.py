"""Functions that make, order and place tensors, and tell of their elements: makers and the same in PyTorch."""
import torch
import torch.nn.functional as F

from fuzzing.functions import RULES
from fuzzing.library import as_rule, drawn_from, with_axes
from fuzzing.maker import LARGEST, count, maker, num
from fuzzing.tree import Node, var


def as_floats(g, node):
    """Integers or truths as a float tensor, in most cases: that is what more can be computed with."""
    return node if g.chance(0.2) else Node('mul', [Node('cast', [node], type=('f', node.shape), dtype='f32', first=['dtype']), num(0.25)], type=('f', node.shape), mag=8)


def several(g, node, types, mags):
    """Names for all results, the float ones to be used."""
    names = [g.fresh('v') for _ in types]
    node.type, node.types = None, types
    g.statements.append(['let', names, node])
    for n, t, mag in zip(names, types, mags):
        if t[0] == 'f':
            g.add(var(n, t, mag))
    return True


# --- from nothing
@maker('eye', 'arange', 'linspace', 'tensor')
def _(g, name):
    n = g.size(9)
    if name == 'eye':
        columns = n if g.chance(0.5) else g.size(9)
        x = Node(name, type=('f', (n, columns)), n=n, first=['n'], **({'columns': columns} if columns != n else {}))
    elif name == 'arange':
        step, start = g.rng.choice((1, 2, -1, -3, 0.5, 0.25, -0.125)), g.rng.choice((0, 1, -2, 0.5))
        stop = start + n * step - (g.rng.choice((0, step / 4)) if isinstance(step, float) else 0)
        whole = all(isinstance(v, int) for v in (start, step, stop))
        x = Node(name, type=('i' if whole else 'f', (n,)), mag=30, start=start, stop=stop, first=['start', 'stop'], step=step)
        return as_floats(g, x) if whole else x
    elif name == 'linspace':
        x = Node(name, type=('f', (n,)), mag=4, low=g.rng.choice((-1.5, 0, 2)), high=g.rng.choice((1, 4.0, -0.25)), n=n, first=['low', 'high', 'n'])
    else:
        rows, whole = g.rng.randint(1, 3), g.chance(0.3)
        number = lambda: g.rng.randint(-9, 9) if whole else g.rng.randint(-9, 9) * 0.25 + 0.125
        x = Node(name, type=('i' if whole else 'f', (rows, n)), mag=9, values=[[number() for _ in range(n)] for _ in range(rows)], first=['values'])
        return as_floats(g, x) if whole else x
    return x


RULES['eye'] = lambda o, n, t: torch.eye(*n.shape, dtype=o.dtype)
RULES['arange'] = lambda o, n, t: (n.attrs['start'] + torch.arange(n.shape[0], dtype=torch.float64) * n.attrs['step']).to(o.type_of(n.kind))
RULES['linspace'] = lambda o, n, t: torch.linspace(n.attrs['low'], n.attrs['high'], n.attrs['n'], dtype=o.dtype)
RULES['tensor'] = lambda o, n, t: torch.tensor(n.attrs['values'], dtype=o.type_of(n.kind))


# --- axes
@maker('squeeze', 'unstack', 'expand', 'meshgrid')
def _(g, name):
    if name == 'meshgrid':
        x, y = (g.of_rank(1, fits=lambda s: s[0] < 30) for _ in range(2))
        if x is None or y is None:
            return None
        t = ('f', x.shape + y.shape)
        return several(g, Node(name, [x, y]), [t, t], [x.mag, y.mag])
    if name == 'unstack':
        x = with_axes(g, 1, lambda s: any(1 < d < 5 for d in s))
        if x is None:
            return None
        axis = g.rng.choice([i for i, d in enumerate(x.shape) if 1 < d < 5])
        t, n = ('f', x.shape[:axis] + x.shape[axis + 1:]), x.shape[axis]
        return several(g, Node(name, [x], **({'axis': axis} if axis or g.chance(0.5) else {})), [t] * n, [x.mag] * n)
    x = with_axes(g, 1, lambda s: 1 in s)
    if x is None:
        return None
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if name == 'squeeze':
        axes = sorted(g.rng.sample(ones, g.rng.randint(1, len(ones)))) if g.chance(0.5) else None
        shape = tuple(d for i, d in enumerate(x.shape) if i not in (ones if axes is None else axes))
        return Node(name, [x], type=('f', shape), mag=x.mag, **({} if axes is None else {'axes': axes}))
    axis, n = g.rng.choice(ones), g.size(6)
    if n * count(x.shape) > LARGEST:
        return None
    said = [-1 if g.chance(0.5) else d for d in x.shape]
    said[axis] = n
    return Node(name, [x], type=('f', x.shape[:axis] + (n,) + x.shape[axis + 1:]), mag=x.mag, shape=said, first=['shape'])


RULES['squeeze'] = as_rule(lambda x, axes=None: x.squeeze() if axes is None else x.squeeze(tuple(axes)))
RULES['unstack'] = as_rule(lambda x, axis=0: list(x.unbind(axis)))
RULES['expand'] = as_rule(lambda x, shape: x.expand(*shape))
RULES['meshgrid'] = lambda o, n, t: list(torch.meshgrid(*t, indexing='ij'))


# --- what holds of elements
@maker('isnan', 'isinf', 'isfinite', 'all', 'any')
def _(g, name):
    x = g.pick()
    if x is None:
        return None
    if name.startswith('is'):
        if g.chance(0.5):                                       # some that are infinite: no gradient goes through them
            zero = Node('stop_gradient', [Node('relu', [g.tame(x)], type=x.type)], type=x.type)
            said = Node(name, [Node('gt', [zero, num(0.1)], type=('b', x.shape))], type=('b', x.shape)) if g.chance(0.2) else Node(name, [Node('infinite', [zero], type=x.type)], type=('b', x.shape))
        else:
            said = Node(name, [x], type=('b', x.shape))
        return Node('where', [said, g.want(x.shape), num(0.5)], type=x.type, mag=4)
    holds = Node(g.rng.choice(('gt', 'lt')), [x, num(0.1)], type=('b', x.shape))
    a, axes = {}, range(len(x.shape))
    if x.shape and g.chance(0.7):
        axes = [g.rng.randrange(len(x.shape))]
        a['axes'] = axes[0]
    a.update({'keepdims': True} if g.chance(0.3) else {})
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if i not in axes or a.get('keepdims'))
    return as_floats(g, Node(name, [holds], type=('b', shape), **a))


def held(f):
    def rule(o, n, t):
        x, axes = t[0] != 0, n.attrs.get('axes')
        for axis in reversed(range(x.dim()) if axes is None else [axes]):
            x = f(x, axis, n.attrs.get('keepdims', False))
        return x
    return rule


for _name in 'isnan', 'isinf', 'isfinite':
    RULES[_name] = as_rule(getattr(torch, _name))
RULES['all'], RULES['any'] = held(torch.all), held(torch.any)
RULES['infinite'] = as_rule(lambda x: -torch.log(torch.relu(0.1 - x)))   # printed so: its operand once, which may be a batch norm


# --- order and places
@maker('argmin', 'argsort', 'kthvalue', 'median', 'searchsorted')
def _(g, name):
    x = with_axes(g)
    if x is None:
        return None
    axis = g.rng.randrange(-len(x.shape), len(x.shape))
    a = {} if g.chance(0.4) else {'axis': axis}
    axis = a.get('axis', -1) % len(x.shape)
    less = x.shape[:axis] + x.shape[axis + 1:]
    if name == 'searchsorted':
        ordered = Node('cumsum', [Node('add', [Node('abs', [g.tame(x)], type=x.type), num(0.125)], type=x.type)], type=x.type, mag=8)
        m = g.size(6)
        y = Node('mul', [g.want(x.shape[:-1] + (m,)), num(2.0)], type=('f', x.shape[:-1] + (m,)))
        return as_floats(g, Node(name, [ordered, y], type=('i', y.shape), **drawn_from(g, {'right': (True,)})))
    if name == 'argmin':
        return as_floats(g, Node(name, [x], type=('i', less), **a))
    if name == 'argsort':
        return as_floats(g, Node(name, [x], type=('i', x.shape), **a, **drawn_from(g, {'descending': (True,)})))
    if name == 'kthvalue':
        a = {'k': g.rng.randint(1, x.shape[axis]), **a, 'first': ['k']}
    return several(g, Node(name, [x], **a), [('f', less), ('i', less)], [x.mag, 1])


def kth(x, k, axis=-1):
    return [t.select(axis, k - 1) for t in torch.sort(x, dim=axis, stable=True)]


RULES['argmin'] = as_rule(lambda x, axis=-1: x.argmin(axis).to(torch.int32))
RULES['argsort'] = as_rule(lambda x, axis=-1, descending=False: x.argsort(dim=axis, descending=descending, stable=True).to(torch.int32))
RULES['kthvalue'] = as_rule(kth)
RULES['median'] = as_rule(lambda x, axis=-1: kth(x, (x.shape[axis] + 1) // 2, axis))
RULES['searchsorted'] = as_rule(lambda s, y, right=False: torch.searchsorted(s.detach().contiguous(), y.detach().contiguous(), right=right).to(torch.int32))


@maker('scatter', 'scatter_add', 'segment_softmax')
def _(g, name):
    x = with_axes(g)
    if x is None:
        return None
    if name == 'segment_softmax':
        rows = g.size(7)
        i = g.integers(rows, x.shape[:1])
        return i and Node(name, [x, i], type=x.type, count=rows, first=['count'])
    axis = g.rng.randrange(len(x.shape))
    a = {'axis': axis} if axis != len(x.shape) - 1 or g.chance(0.5) else {}
    if name == 'scatter':                                       # each place once: PyTorch says nothing of the order
        i = Node('argsort', [g.want(x.shape)], type=('i', x.shape), axis=axis)
    else:
        i = g.integers(x.shape[axis], x.shape)
    return i and Node(name, [x, i, g.want(x.shape)], type=x.type, mag=4 * x.mag, **a)


RULES['scatter'] = as_rule(lambda x, i, y, axis=-1: x.scatter(axis, i.long(), y))
RULES['scatter_add'] = as_rule(lambda x, i, y, axis=-1: x.scatter_add(axis, i.long(), y))
RULES['segment_softmax'] = lambda o, n, t: torch.stack([torch.softmax(t[0][t[1] == s], 0)[(t[1][:r] == s).sum()] for r, s in enumerate(t[1])])
RULES['threshold'] = as_rule(lambda x, limit, value: F.threshold(x, limit, value))


@maker('threshold')
def _(g, name):
    x = g.pick()
    return x and Node(name, [x], type=x.type, mag=x.mag + 1, limit=g.rng.choice((0.25, -0.5)), value=g.rng.choice((0.0, -1.5)), first=['limit', 'value'])


# --- draws: what they are PyTorch does not know; see generate.dropouts
@maker('bernoulli', 'randint', 'permutation', 'drop_path', 'normal_drawn', 'uniform_drawn')
def _(g, name):
    if g.chance(0.8):                                           # of such a program little can be compared
        return None
    shape = tuple(g.size(6) for _ in range(g.rng.randint(1, 2)))
    if name == 'drop_path':
        x = with_axes(g)
        return x and Node(name, [x], type=x.type, mag=2 * x.mag, p=g.rng.choice((0.2, 0.5)), first=['p'])
    if name == 'bernoulli':
        return Node(name, type=('f', shape), p=g.rng.choice((0.2, 0.5)), shape=list(shape), first=['p', 'shape'])
    if name == 'randint':
        return as_floats(g, Node(name, type=('i', shape), mag=7, low=-2, high=7, shape=list(shape), first=['low', 'high', 'shape']))
    if name == 'permutation':
        return as_floats(g, Node(name, type=('i', shape[:1]), mag=shape[0], n=shape[0], first=['n']))
    return Node(name, type=('f', shape), mag=3, shape=list(shape), first=['shape'])


DRAWS = {'bernoulli', 'randint', 'permutation', 'drop_path', 'normal_drawn', 'uniform_drawn'}
for _name in DRAWS:
    RULES[_name] = lambda o, n, t: t[0] if t else torch.zeros(n.shape, dtype=o.type_of(n.kind))
