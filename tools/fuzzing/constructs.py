"""The functions and operators of the language, as makers: each draws operands and arguments that fit together."""
import math

from fuzzing.maker import LARGEST, count, maker, num, promoted, unary
from fuzzing.tree import Node, var


# --- element by element

@maker('relu', 'relu6', 'silu', 'sigmoid', 'tanh', 'sin', 'cos', 'erf', 'softplus', 'abs', 'floor', 'gelu', 'leaky_relu', 'square', 'neg', 'stop_gradient', 'clamp', 'exp',
       'mish', 'elu', 'selu', 'hardswish', 'hardsigmoid', 'softsign', 'log_sigmoid', 'tanhshrink', 'expm1', 'sinh', 'cosh', 'ceil', 'trunc', 'round', 'sign')
def _(g, name):
    x = g.pick()
    if x is None:
        return None
    if name in ('exp', 'expm1', 'sinh', 'cosh'):
        return unary(name, g.tame(x, 1.5), 4)
    if name == 'square':
        return unary('square', g.tame(x), 16)
    if name == 'clamp':
        low = g.rng.choice((-1.0, -0.25, 0.1))
        return unary(name, x, 2, low=low, high=low + g.rng.choice((0.5, 1.5)), first=['low', 'high'] if g.chance(0.5) else [])
    if name == 'leaky_relu' and g.chance(0.6):
        return unary(name, x, slope=g.rng.choice((0.1, 0.3)))
    if name == 'gelu' and g.chance(0.5):
        return unary(name, x, approximate=True)
    return unary(name, x, 1 if name in ('sigmoid', 'tanh', 'sin', 'cos', 'erf') else None)


@maker('log', 'sqrt', 'rsqrt', 'power', 'divide')
def _(g, name):
    x = g.pick()
    if x is None:
        return None
    positive = Node('add', [unary(g.rng.choice(('abs', 'square')), g.tame(x)), num(0.5)], type=x.type, mag=16)
    if name == 'power':
        if g.chance(0.3):
            return Node('pow', [num(2.0), g.tame(x)], type=x.type, mag=16)
        if g.chance(0.4):
            return Node('pow', [g.tame(x), num(g.rng.choice((0, 1, 2, 3, 4)))], type=x.type, mag=256)
        return Node('pow', [positive, num(g.rng.choice((0.5, 1.5, 2, 3, -1, -0.5)))], type=x.type, mag=60)
    if name == 'divide':
        other = g.want(x.shape)
        return Node('div', [other, positive], type=x.type, mag=other.mag * 2)
    return unary(name, positive, 4)


def broadcast(a, b):
    """The common shape, or None."""
    out = []
    for i in range(1, max(len(a), len(b)) + 1):
        p, q = (s[-i] if i <= len(s) else 1 for s in (a, b))
        if p != q and 1 not in (p, q):
            return None
        out.append(max(p, q))
    return tuple(reversed(out))


def two(g):
    """Two float operands and their common shape."""
    x = g.pick()
    if x is None:
        return None
    if g.chance(0.15):
        v = g.rng.choice((0.5, 2, -1.5, 3))
        return (x, num(v), x.shape) if g.chance(0.6) else (num(v), x, x.shape)
    if g.chance(0.5):
        y = g.pick('f', lambda s: broadcast(s, x.shape) is not None and count(broadcast(s, x.shape)) <= LARGEST)
    else:
        shape = [1 if g.chance(0.4) else d for d in x.shape]
        y = g.want(shape[g.rng.randrange(len(shape) + 1):])
    if y is None:
        return None
    return (x, y, broadcast(x.shape, y.shape)) if g.chance(0.5) else (y, x, broadcast(x.shape, y.shape))


@maker('add', 'sub', 'mul', 'maximum', 'minimum')
def _(g, name):
    drawn = two(g)
    if drawn is None:
        return None
    x, y, shape = drawn
    mags = [v.attrs['value'] if v.op == 'number' else v.mag for v in (x, y)]
    return Node(name, [x, y], type=('f', shape), mag=abs(mags[0] * mags[1]) if name == 'mul' else abs(mags[0]) + abs(mags[1]))


@maker('many_views')
def _(g, name):
    """Operands of one view, more than a kernel has places of some kind for."""
    like = g.of_rank(2, 3, fits=lambda s: count(s) <= 300 and min(s[-2:]) > 2)
    if like is None:
        return None
    s, view, total = like.shape, g.rng.choice(('transpose', 'transpose', 'index', None)), None
    for i in range(g.rng.randint(6, 12)):
        x = like if i == 0 else g.leaf(s)
        while i and x.op != 'name':   # one that is in memory
            x = g.leaf(s)
        if view == 'transpose':
            x = Node(view, [x], type=('f', s[:-2] + (s[-1], s[-2])), mag=x.mag)
        elif view == 'index':
            x = Node(view, [x], type=('f', s[:-1] + ((s[-1] + 1) // 2,)), mag=x.mag, parts=[(None, None, None)] * (len(s) - 1) + [(None, None, 2)])
        op = g.rng.choice(('add', 'add', 'sub', 'maximum'))
        total = x if i == 0 else Node(op, [total, x], type=x.type, mag=total.mag + x.mag)
    return total


@maker('where', 'compare', 'logic')
def _(g, name):
    drawn = two(g)
    if drawn is None or drawn[0].op == 'number':
        return None
    x, y, shape = drawn
    condition = Node(g.rng.choice(('gt', 'lt', 'ge', 'le')), [x, y], type=('b', shape))
    if name == 'compare':
        return condition if g.chance(0.3) else Node('cast', [condition], type=('f', shape), dtype='f32', first=['dtype'])
    if name == 'logic':
        other = Node('gt', [g.want(shape), num(0.1)], type=('b', shape))
        condition = Node(g.rng.choice(('and', 'or')), [condition, other], type=('b', shape)) if g.chance(0.7) else Node('not', [condition], type=('b', shape))
    elif g.chance(0.4):
        condition = g.pick('b', lambda s: count(s) <= LARGEST) or condition
        shape = condition.shape
    a = g.want(shape) if g.chance(0.7) else num(g.rng.choice((0.0, 1.0, -2.0)))
    b = g.want(shape[g.rng.randrange(len(shape) + 1):])
    return Node('where', [condition, a, b], type=('f', shape), mag=max(b.mag, a.mag))


@maker('integer', 'by_length', 'full_like', 'constant_function', 'cast')
def _(g, name):
    if name == 'integer':
        n = g.size(17)
        whole = Node('iota', type=('i', (n,)))
        whole = Node(g.rng.choice(('mod', 'floordiv')), [whole, num(g.rng.choice((2, 3, 5)))], type=whole.type) if g.chance(0.6) else whole
        if g.chance(0.4):
            whole = Node(g.rng.choice(('add', 'mul', 'sub')), [whole, num(g.rng.choice((1, 2, 3)))], type=whole.type)
        if g.chance(0.3):
            return Node('where', [Node(g.rng.choice(('eq', 'ne', 'gt')), [whole, num(2)], type=('b', (n,))), g.want((n,)), num(0.5)], type=('f', (n,)))
        return Node('mul', [Node('cast', [whole], type=('f', (n,)), dtype='f32', first=['dtype']), num(0.125)], type=('f', (n,)), mag=n / 4)
    x = g.pick('f', lambda s: len(s) > 0)
    if x is None:
        return None
    if name == 'by_length':
        x = g.name_it(x) if x in g.pool else x
        return Node('by_length', [x], type=x.type, mag=x.mag)
    if name == 'full_like':
        other = Node('full_like', [x], type=x.type, value=g.rng.choice((0.5, -1.5)))
        return Node('add', [g.want(x.shape), other], type=x.type, mag=x.mag + 2)
    if name == 'constant_function':
        f, v = g.rng.choice((('sqrt', 2.0), ('exp', 0.5), ('tanh', 0.5), ('log', 3.0), ('rsqrt', 4.0), ('sin', 1.0), ('cos', 1.0), ('erf', 0.5), ('abs', -1.5), ('floor', 1.5), ('square', 1.5)))
        value = {'rsqrt': lambda v: v ** -0.5, 'square': lambda v: v * v}.get(f) or getattr(math, f, abs)
        return Node('mul', [x, Node('number', text=f'{f}({v})', value=float(value(v)))], type=x.type, mag=x.mag * 2)
    whole = Node('cast', [Node('mul', [g.tame(x), num(3)], type=x.type)], type=('i', x.shape), dtype='i32', first=['dtype'])
    return Node('mul', [Node('cast', [whole], type=x.type, dtype='f32', first=['dtype']), num(0.25)], type=x.type, mag=4)


# --- integers, and what they are beside other types

@maker('whole_operator', 'whole_function', 'whole_chosen', 'whole_beside_floats', 'whole_into_floats', 'through_another_precision')
def _(g, name):
    if name == 'through_another_precision':
        x = g.pick()
        other = x and g.want(x.shape)
        wide = x and Node(g.rng.choice(('add', 'mul', 'maximum')), [Node('cast', [x], type=x.type, dtype='f32', first=['dtype']), other], type=x.type, mag=x.mag * 2 + other.mag * 2)
        return wide and Node('cast', [wide], type=x.type, mag=wide.mag, dtype=g.program.precision or 'f32', first=['dtype'])
    x = g.whole()
    if name == 'whole_operator':
        if g.chance(0.4):
            op, y = g.rng.choice((('add', num(100)), ('sub', num(3)), ('mul', num(-5)), ('mod', num(7)), ('floordiv', num(3)), ('maximum', num(2)), ('minimum', num(0)), ('pow', num(2))))
            mag = {'pow': x.mag ** 2, 'mul': 5 * x.mag, 'mod': 7}.get(op, x.mag + 100)
            return Node(op, [x, y], type=(promoted(x.kind), x.shape), mag=mag)
        y = g.whole_of(x.shape)
        op = g.rng.choice(('add', 'sub', 'mul', 'maximum', 'minimum', 'eq', 'ne', 'lt', 'ge'))
        if op in ('eq', 'ne', 'lt', 'ge'):
            return Node(op, [x, y], type=('b', x.shape))
        return Node(op, [x, y], type=(promoted(x.kind, y.kind), x.shape), mag=x.mag * y.mag if op == 'mul' else x.mag + y.mag)
    if name == 'whole_function':
        op = g.rng.choice(('abs', 'relu', 'neg', 'clamp', 'amax', 'amin', 'sum', 'floor', 'square'))
        if op == 'clamp':
            return Node(op, [x], type=x.type, mag=x.mag, low=1, high=g.rng.choice((5, 100)))
        if op in ('amax', 'amin', 'sum'):
            axis = g.rng.randrange(len(x.shape)) if x.shape and g.chance(0.7) else None
            shape = () if axis is None else x.shape[:axis] + x.shape[axis + 1:]
            return Node(op, [x], type=('l' if op == 'sum' else x.kind, shape), mag=x.mag * (count(x.shape) if op == 'sum' else 1), **({} if axis is None else {'axes': axis}))
        return Node(op, [x], type=(promoted(x.kind) if op in ('neg', 'square') else x.kind, x.shape), mag=x.mag ** 2 if op == 'square' else x.mag)
    if name == 'whole_chosen':
        condition = g.pick('b', lambda s: s == x.shape) or Node('gt', [x, num(3)], type=('b', x.shape))
        y = num(g.rng.choice((0, 1, 77))) if g.chance(0.4) else g.whole_of(x.shape)
        kind = promoted(x.kind, operator=False) if y.op == 'number' else promoted(x.kind, y.kind, operator=False)
        return Node('where', [condition, x, y], type=(kind, x.shape), mag=max(x.mag, y.mag, 77))
    x = g.counted(x)
    small = ('f', x.shape)
    if name == 'whole_into_floats':
        op = g.rng.choice(('tanh', 'mean', 'sigmoid', 'mul', 'div', 'where', 'softmax', 'sin'))
        if op == 'softmax' and not x.shape:
            return None
        if op == 'mean':
            return Node('mul', [Node(op, [x], type=('f', ())), num(0.01)], type=('f', ()), mag=x.mag / 50)
        if op in ('mul', 'div'):
            return Node(op, [x, num(0.02 if op == 'mul' else 7)], type=small, mag=x.mag / 5)
        if op == 'where':
            return Node(op, [Node('gt', [x, num(2)], type=('b', x.shape)), g.want(x.shape), num(g.rng.choice((0, 1)))], type=small)
        return Node(op, [x if op != 'sin' else Node('mod', [x, num(7)], type=(promoted(x.kind), x.shape))], type=small)
    y, op = g.want(x.shape), g.rng.choice(('add', 'sub', 'mul', 'maximum', 'minimum', 'where', 'gt'))
    if op == 'gt':
        return Node('where', [Node(op, [x, y], type=('b', x.shape)), y, num(0.25)], type=small, mag=y.mag + 1)
    if op == 'where':
        made = Node(op, [Node('gt', [y, num(0.1)], type=('b', x.shape)), x, y], type=small)
    else:
        made = Node(op, [x, y] if g.chance(0.5) else [y, x], type=small)
    made.mag = x.mag * y.mag + x.mag + y.mag
    return Node('mul', [made, num(1.0 / max(1, round(made.mag)))], type=small)


@maker('tied', 'table_as_weight')
def _(g, name):
    """A layer again under the same name, which shares its parameters; or a table that is also a weight."""
    if name == 'tied':
        found = [n for n in g.layers if 'named' not in n.attrs]
        if not found:
            return None
        n = g.rng.choice(found)
        x = g.integers(n.attrs['rows'], n.args[0].shape) if n.op == 'embedding' else g.want(n.args[0].shape)
        return x and Node(n.op, [x] + [g.want(a.shape) for a in n.args[1:]], type=n.type, mag=n.mag, label=n.label, **{k: v for k, v in n.attrs.items() if k != 'pipe'})
    rows, width = g.size(9), g.size(9)
    i = g.integers(rows)
    if i is None:
        return None
    w = g.own('w')
    g.statements.append(['param', w, (rows, width), 'normal(0.5)'])
    w = var(w, ('f', (rows, width)))
    h = unary('tanh', Node('gather', [w, i], type=('f', i.shape + (width,))))
    if g.chance(0.5):
        h = Node('add', [h, g.want(h.shape)], type=h.type, mag=3)
    return Node('linear', [h, w], type=('f', i.shape + (rows,)), mag=5, label=g.label(), features=rows, first=['features'], named=['weight'], bias=False)


@maker('flip', 'roll')
def _(g, name):
    x = g.pick('f', lambda s: len(s) > 0)
    if x is None:
        return None
    axes = sorted(g.rng.sample(range(len(x.shape)), g.rng.randint(1, len(x.shape))))
    if name == 'flip':
        return Node(name, [x], type=x.type, mag=x.mag, axes=axes)
    return Node(name, [x], type=x.type, mag=x.mag, shifts=[g.rng.randint(-4, 4) for _ in axes], axes=axes)


# --- reductions

@maker('sum', 'mean', 'amax', 'amin', 'var', 'logsumexp')
def _(g, name):
    x = g.pick()
    if x is None:
        return None
    rank, attrs, axes = len(x.shape), {}, None
    if rank and g.chance(0.85):
        axes = sorted(g.rng.sample(range(rank), g.rng.randint(1, rank)))
        said = [a - rank if g.chance(0.3) else a for a in axes]
        attrs['axes'] = said[0] if len(said) == 1 and g.chance(0.6) else said
    if g.chance(0.3):
        attrs['keepdims'] = True
    gone = range(rank) if axes is None else axes
    shape = tuple(1 if i in gone else d for i, d in enumerate(x.shape) if i not in gone or attrs.get('keepdims'))
    n = count([x.shape[i] for i in gone])
    return Node(name, [x], type=('f', shape), mag={'sum': x.mag * n ** 0.5, 'var': x.mag ** 2}.get(name, x.mag), **attrs)


@maker('argmax', 'softmax', 'log_softmax')
def _(g, name):
    x = g.pick('f', lambda s: len(s) > 0)
    if x is None:
        return None
    axis = g.rng.randrange(-len(x.shape), len(x.shape))
    attrs = {} if g.chance(0.4) else {'axis': axis}
    axis = attrs.get('axis', -1) % len(x.shape)
    if name == 'argmax':
        shape = tuple(d for i, d in enumerate(x.shape) if i != axis)
        node = Node('argmax', [x], type=('i', shape), **attrs)
        return node if g.chance(0.3) else Node('mul', [Node('cast', [node], type=('f', shape), dtype='f32', first=['dtype']), num(0.1)], type=('f', shape))
    return Node(name, [x], type=x.type, mag=1 if name == 'softmax' else 2 * x.mag + 3, **attrs)


# --- shapes

def factors(g, n):
    """A random shape of n elements."""
    shape = []
    while n > 1 and len(shape) < 4:
        d = g.rng.choice([d for d in range(1, n + 1) if n % d == 0])
        shape.append(d)
        n //= d
    shape += [n] if n > 1 else []
    g.rng.shuffle(shape)
    return tuple(shape)


@maker('reshape', 'reshape_like', 'flatten', 'transpose', 'broadcast_to', 'pad', 'concat')
def _(g, name):
    x = g.any_kind(lambda s: len(s) > 0)
    if x is None:
        return None
    s, rank = x.shape, len(x.shape)
    if name == 'reshape':
        shape = factors(g, count(s)) or (1,)
        said = list(shape)
        if g.chance(0.4):
            said[g.rng.randrange(len(said))] = -1
        return Node('reshape', [x], type=(x.kind, shape), mag=x.mag, shape=said, first=['shape'])
    if name == 'reshape_like':
        y = g.any_kind(lambda t: count(t) == count(s) and t != s and len(t) > 0)
        return y and Node('reshape_like', [x, y], type=(x.kind, y.shape), mag=x.mag)
    if name == 'flatten':
        if rank < 2:
            return None
        start = g.rng.randrange(rank)
        attrs = {} if start == 1 else {'start': start}
        return Node('flatten', [x], type=(x.kind, s[:start] + (count(s[start:]),)), mag=x.mag, **attrs)
    if name == 'transpose':
        if rank < 2:
            return None
        if g.chance(0.4):
            return Node('transpose', [x], type=(x.kind, s[:-2] + (s[-1], s[-2])), mag=x.mag)
        perm = g.rng.sample(range(rank), rank)
        return Node('transpose', [x], type=(x.kind, tuple(s[i] for i in perm)), mag=x.mag, perm=perm, first=['perm'] if g.chance(0.5) else [])
    if name == 'broadcast_to':
        shape = [g.size(6) if d == 1 else d for d in s]
        shape = ([g.size(4)] if g.chance(0.5) and rank < 6 else []) + shape
        return Node(name, [x], type=(x.kind, tuple(shape)), mag=x.mag, shape=shape, first=['shape']) if count(shape) <= LARGEST else None
    if name == 'pad':
        low, high = ([g.rng.choice((0, 0, 1, 2)) for _ in s] for _ in 'lh')
        shape = tuple(d + a + b for d, a, b in zip(s, low, high))
        attrs = {'value': g.rng.choice((0.5, -1.0))} if g.chance(0.4) and x.kind == 'f' else {}
        return Node('pad', [x], type=(x.kind, shape), mag=x.mag + 1, low=low, high=high, first=['low', 'high'], **attrs) if count(shape) <= LARGEST else None
    if x.kind != 'f' and count(s) > LARGEST // 4:
        return None
    axis, parts = g.rng.randrange(rank), [x]
    for _ in range(g.rng.choice((1, 1, 2, 3))):
        shape = list(s)
        shape[axis] = g.rng.choice((s[axis], g.size(5)))
        parts.append(g.want(shape) if x.kind == 'f' else g.whole_of(shape))
    if x.kind != 'f' and g.chance(0.4):
        parts = [g.counted(p) for p in parts] + [g.want(s)]
    total = s[:axis] + (sum(p.shape[axis] for p in parts),) + s[axis + 1:]
    attrs = {} if axis == rank - 1 and g.chance(0.6) else {'axis': g.rng.choice((axis, axis - rank))}
    return Node('concat', parts, type=(promoted(*[p.kind for p in parts], operator=False), total), mag=max(p.mag for p in parts), **attrs) if count(total) <= LARGEST else None


@maker('index', 'split')
def _(g, name):
    x = g.any_kind(lambda s: len(s) > 0)
    if x is None:
        return None
    s = x.shape
    if name == 'split':
        axis = g.rng.randrange(len(s))
        parts = g.rng.choice([p for p in range(1, min(s[axis], 4) + 1) if s[axis] % p == 0])
        if parts == 1:
            return None
        shape = s[:axis] + (s[axis] // parts,) + s[axis + 1:]
        attrs = {} if axis == len(s) - 1 and g.chance(0.6) else {'axis': axis}
        names = [g.fresh('v') for _ in range(parts)]
        node = Node('split', [x], type=None, types=[(x.kind, shape)] * parts, parts=parts, first=['parts'], **attrs)
        if g.chance(0.25) and x.kind == 'f':
            function = g.rng.choice(('relu', 'tanh', 'sin', 'square'))
            node.attrs['then'] = function
        g.statements.append(['let', names, node])
        for n in names:
            g.add(var(n, (x.kind, shape), x.mag ** 2 if node.attrs.get('then') == 'square' else x.mag))
        return True
    parts, shape = [], []
    for d in s[:g.rng.randint(1, len(s))]:
        if g.chance(0.25):
            parts.append(g.rng.randrange(-d, d))
            continue
        start, stop = sorted(g.rng.sample(range(d + 1), 2))
        step = g.rng.choice((None, None, 1, 2, 3, d)) if g.chance(0.9) else g.rng.choice((10 ** 6, 2 ** 40, 2 ** 62, 2 ** 63 - 1))
        piece = [start if g.chance(0.8) else None, stop if g.chance(0.8) else None, step]
        shape.append(len(range(d)[slice(*piece)]))
        if piece[0] and g.chance(0.3):
            piece[0] -= d
        if piece[1] and piece[1] < d and g.chance(0.3):
            piece[1] -= d
        parts.append(tuple(piece))
    return Node('index', [x], type=(x.kind, tuple(shape) + s[len(parts):]), mag=x.mag, parts=parts)


@maker('rearrange', 'einsum')
def _(g, name):
    letters = g.rng.sample(('a', 'b', 'c', 'd', 'batch', 'head', 'time', 'w2', 'x_1'), 6)
    if name == 'rearrange':
        x = g.any_kind(lambda s: 0 < len(s) < 5)
        if x is None:
            return None
        left, known, flat, sizes_given = [], {}, [], {}
        for d in x.shape:
            divisors = [k for k in range(1, d + 1) if d % k == 0]
            if g.chance(0.4) and len(flat) < 4:
                k = g.rng.choice(divisors)
                p, q = letters.pop(), letters.pop()
                left.append(f'({p} {q})')
                known.update({p: k, q: d // k})
                sizes_given.update({p: k} if g.chance(0.5) else {q: d // k})
                flat += [p, q]
            elif letters:
                p = letters.pop()
                left.append(p)
                known[p] = d
                flat.append(p)
            else:
                return None
        g.rng.shuffle(flat)
        right, shape = [], []
        while flat:
            take = g.rng.choice((1, 1, 2))
            names, flat = flat[:take], flat[take:]
            right.append(names[0] if len(names) == 1 else f'({" ".join(names)})')
            shape.append(count(known[n] for n in names))
        if g.chance(0.2) and len(shape) < 5:
            right.append('1')
            shape.append(1)
        return Node(name, [x], type=(x.kind, tuple(shape)), mag=x.mag, pattern=' '.join(left) + ' -> ' + ' '.join(right), **sizes_given)
    x = g.of_rank(1, 2, 3)
    if x is None:
        return None
    names = letters[:len(x.shape)]
    known, words, operands = dict(zip(names, x.shape)), [' '.join(names)], [x]
    spare = letters[len(names):]
    for _ in range(g.rng.choice((0, 1, 1, 1, 2))):
        own = g.rng.sample(list(known), g.rng.randint(1, len(known)))
        if spare and g.chance(0.5):
            extra = spare.pop()
            known[extra] = g.size(6)
            own.append(extra)
            g.rng.shuffle(own)
        words.append(' '.join(own))
        operands.append(g.want([known[n] for n in own]))
    result = g.rng.sample(list(known), g.rng.randint(0, min(len(known), 4)))
    shape = tuple(known[n] for n in result)
    if count(known.values()) > 20 * LARGEST or count(shape) > LARGEST:
        return None
    mag = math.prod(o.mag for o in operands) * (count(known.values()) / count(shape)) ** 0.5
    return Node(name, operands, type=('f', shape), mag=mag, pattern=', '.join(words) + ' -> ' + ' '.join(result))


@maker('gather', 'segment_sum', 'segment_mean', 'segment_max', 'embedding')
def _(g, name):
    if name == 'embedding':
        rows, features = g.size(9), g.size(9)
        i = g.integers(rows)
        return i and Node(name, [i], type=('f', i.shape + (features,)), label=g.label(), rows=rows, features=features, first=['rows', 'features'] if g.chance(0.7) else [])
    x = g.any_kind(lambda s: len(s) > 0) if name == 'gather' else g.pick('f', lambda s: len(s) > 0)
    if x is None:
        return None
    if name == 'gather':
        i = g.integers(x.shape[0])
        return i and Node(name, [x, i], type=(x.kind, i.shape + x.shape[1:]), mag=x.mag) if i and count(i.shape + x.shape[1:]) <= LARGEST else None
    rows = g.size(7)
    i = g.integers(rows, x.shape[:1])
    return i and Node(name, [x, i], type=('f', (rows,) + x.shape[1:]), mag=x.mag * 3, count=rows, first=['count'] if g.chance(0.7) else [])


# --- layers

@maker('linear', 'matmul', 'layernorm', 'rmsnorm', 'groupnorm', 'batchnorm', 'dropout', 'swiglu', 'rope', 'causal_mask')
def _(g, name):
    if name == 'matmul':
        x = g.of_rank(2, 3)
        if x is None:
            return None
        n = g.size(9)
        y = g.want((x.shape[:-2] if g.chance(0.5) else ()) + (x.shape[-1], n))
        return Node(name, [x, y], type=('f', x.shape[:-1] + (n,)), mag=x.mag * y.mag * x.shape[-1] ** 0.5)
    if name in ('linear', 'layernorm', 'rmsnorm'):
        x = g.of_rank(2, 3, 4)
    elif name == 'groupnorm':
        x = g.of_rank(2, 3, 4, fits=lambda s: count(s[2:]) > 1)
    elif name == 'batchnorm':
        x = g.of_rank(2, 3, 4, fits=lambda s: all(count(s) // d > 1 for d in s))
    elif name == 'causal_mask':
        x = g.of_rank(2, 3)
        return x and Node('softmax', [Node(name, [x], type=x.type)], type=x.type, mag=1)
    else:
        x = g.of_rank(2, 3, 4, fits=lambda s: s[-1] % 2 == 0)
    if x is None:
        return None
    s, label = x.shape, g.label()
    if name == 'linear':
        features = g.size(12)
        attrs = {'bias': False} if g.chance(0.3) else {}
        if g.chance(0.15):
            weight = g.want((features, s[-1]))
            return Node(name, [x, weight], type=('f', s[:-1] + (features,)), mag=x.mag * weight.mag * s[-1] ** 0.5, label=label, features=features, first=['features'], named=['weight'], **attrs)
        if g.chance(0.2):
            attrs['init'] = g.rng.choice(('normal(0.1)', 'uniform(-0.1, 0.1)', 'zeros', 'constant(0.1)'))
        return Node(name, [x], type=('f', s[:-1] + (features,)), mag=x.mag, label=label, features=features, first=['features'] if g.chance(0.8) else [], **attrs)
    if name == 'groupnorm':
        return Node(name, [x], type=x.type, label=label, groups=g.rng.choice([k for k in range(1, s[1] + 1) if s[1] % k == 0 and (count(s[1:]) // k > 1)]), first=['groups'])
    if name == 'batchnorm':
        attrs = {'axis': g.rng.randrange(len(s))} if g.chance(0.4) else {}
        attrs.update({'momentum': 0.3} if g.chance(0.3) else {})
        return Node(name, [x], type=x.type, label=label, **attrs)
    if name == 'dropout':
        return dropout(g, x)
    if name == 'swiglu':
        return Node(name, [x], type=('f', s[:-1] + (s[-1] // 2,)), mag=x.mag ** 2)
    if name == 'rope':
        attrs = {'base': 100.0} if g.chance(0.3) else {}
        return Node(name, [x], type=x.type, mag=x.mag * 2, **attrs, **({'interleaved': True} if g.chance(0.4) else {}))
    return Node(name, [x], type=x.type, mag=2, label=label, **({'eps': 1e-3} if g.chance(0.3) else {}))


def dropout(g, x):
    """One whose mask can be read from an output, one whose mask is not seen, or one that does nothing."""
    x, what = g.name_it(x) if x in g.pool else x, g.rng.random()
    if what < 0.3:
        return Node('if', [x, Node('dropout', [x], type=x.type, p=0.3, idle=True)], type=x.type, mag=x.mag, condition='training()', holds=True)
    if what < 0.4:
        return Node('dropout', [x], type=x.type, mag=x.mag, p=0.0, first=['p'])
    p = g.rng.choice((0.1, 0.3, 0.5))
    if what < 0.5 or g.depth or not hasattr(g, 'root'):
        return Node('dropout', [x], type=x.type, mag=x.mag / (1 - p), p=p, first=['p'] if g.chance(0.5) else [])
    name, of = g.fresh('v'), x
    if g.program.at_kinks or g.chance(0.4):                     # of a value that is 0 the mask cannot be read
        of = Node('full', type=x.type, value=1.0)
    g.statements.append(['let', [name], Node('dropout', [of], type=x.type, p=p, seen=name)])
    made = var(name, x.type, of.mag / (1 - p))
    g.shown.append(made)
    g.add(made)
    return Node('mul', [x, made], type=x.type, mag=x.mag * 2) if of is not x else True


def one_or_two(g, low, high):
    a, b = g.rng.randint(low, high), g.rng.randint(low, high)
    return a if g.chance(0.6) else [a, b]


def pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


def around(v):
    """Padding of both axes together, of a padding as it is written."""
    return (2 * v, 2 * v) if isinstance(v, int) else (2 * v[0], 2 * v[1]) if len(v) == 2 else (v[0] + v[1], v[2] + v[3])


@maker('conv2d', 'conv_transpose2d', 'maxpool', 'avgpool', 'resize')
def _(g, name):
    x = g.of_rank(4, fits=lambda s: 1 < s[2] < 12 and 1 < s[3] < 12)
    if x is None:
        return None
    n, c, *image = x.shape
    a = {}
    if name == 'resize':
        a['factor'] = one_or_two(g, 1, 3)
        a['first'] = ['factor']
        if g.chance(0.5):
            a['mode'] = 'bilinear'
        out, channels = [d * f for d, f in zip(image, pair(a['factor']))], c
    else:
        a['kernel'] = one_or_two(g, 1, 3)
        if g.chance(0.5):
            a['stride'] = one_or_two(g, 1, 3)
        kernel, channels = pair(a['kernel']), c
        stride = pair(a.get('stride', 1 if 'conv' in name else a['kernel']))
        dilation = (1, 1)
        if name == 'conv2d':
            if g.chance(0.6):
                a['padding'] = g.rng.choice((1, 2, [1, 0], [0, 2], [1, 0, 2, 1]))
            if g.chance(0.2):
                a['dilation'] = one_or_two(g, 1, 2)
                dilation = pair(a['dilation'])
        elif name == 'conv_transpose2d':
            a.update({'padding': g.rng.choice((0, 1))} if g.chance(0.4) else {})
            a.update({'output_padding': min(stride) - 1} if g.chance(0.4) else {})
        elif g.chance(0.4):
            a['padding'] = [k // 2 if g.chance(0.7) else 0 for k in kernel]
        if 'conv' in name:
            groups = g.rng.choice([k for k in range(1, c + 1) if c % k == 0]) if g.chance(0.4) else 1
            channels = groups * g.rng.choice((1, 2, 3))
            a.update({'groups': groups} if groups > 1 else {})
            a.update({'bias': False} if g.chance(0.3) else {})
            a['channels'] = channels
            a['first'] = ['channels']
        if name == 'avgpool' and g.chance(0.4):
            a['include_pad'] = False
        padded = around(a.get('padding', 0))
        if name == 'conv_transpose2d':
            extra = pair(a.get('output_padding', 0))
            out = [(d - 1) * s - p + k + e for d, s, p, k, e in zip(image, stride, padded, kernel, extra)]
        else:
            out = [(d + p - e * (k - 1) - 1) // s + 1 for d, p, e, k, s in zip(image, padded, dilation, kernel, stride)]
            if any(d + p < e * (k - 1) + 1 for d, p, e, k in zip(image, padded, dilation, kernel)):
                return None
    shape = (n, channels, *out)
    if min(out) < 1 or count(shape) > LARGEST:
        return None
    return Node(name, [x], type=('f', shape), mag=x.mag, label=g.label() if 'conv' in name else None, **a)


@maker('attention')
def _(g, name):
    d, heads, keys = g.rng.choice((1, 2, 3, 4, 8)), g.rng.choice((1, 2, 4)), g.size(9)
    x = g.of_rank(3) if g.chance(0.6) else None
    b, t = x.shape[:2] if x else (g.size(3), g.size(9))
    own = g.chance(0.5)
    keys, shared = (t if own else keys), heads // g.rng.choice([k for k in (1, 2) if heads % k == 0])
    a = {'heads': heads} if g.chance(0.5) else {}
    part = lambda n, h: g.want((b, n, h * d) if 'heads' in a else (b, h, n, d))
    if own and x and 'heads' in a and g.chance(0.5):
        q, k, v = (Node('linear', [g.name_it(x) if x in g.pool else x], type=('f', (b, t, h * d)), mag=x.mag, label=g.label(), features=h * d, first=['features']) for h in (heads, shared, shared))
    else:
        q, k, v = part(t, heads), part(keys, shared), part(keys, shared)
    args = [q, k, v]
    if keys >= t and g.chance(0.4):
        a['causal'] = True
    if g.chance(0.2):
        a['scale'] = 0.3
    if g.chance(0.1):
        a['dropout'] = 0.25
    if g.chance(0.3):
        args.append(Node('cast', [Node('gt', [g.want((b, keys)), num(-0.2)], type=('b', (b, keys)))], type=('f', (b, keys)), dtype='f32', first=['dtype']))
        a['named'] = ['mask']
    return Node(name, args, type=('f', q.shape), mag=v.mag, **a)


@maker('lstm_cell', 'gru_cell')
def _(g, name):
    x = g.of_rank(2)
    if x is None:
        return None
    rows, width = x.shape[0], g.size(7)
    many = 4 if name == 'lstm_cell' else 3
    a = {'bias': False} if g.chance(0.3) else {}
    if g.chance(0.3):
        x, a['projected'] = g.want((rows, many * width)), True
    h = g.want((rows, width))
    if name == 'gru_cell':
        return Node(name, [x, h], type=('f', (rows, width)), mag=max(1, h.mag), label=g.label(), **a)
    c = g.want((rows, width))
    names = [g.fresh('v'), g.fresh('v')]
    g.statements.append(['let', names, Node(name, [x, h, c], types=[('f', (rows, width))] * 2, label=g.label(), **a)])
    for n in names:
        g.add(var(n, ('f', (rows, width)), c.mag + 1))
    return True


# --- losses inside of a model

@maker('cross_entropy', 'accuracy', 'mse', 'binary_cross_entropy')
def _(g, name):
    if name in ('cross_entropy', 'accuracy'):
        x = g.of_rank(2, 3, fits=lambda s: s[-1] > 1)
        labels = x and g.integers(x.shape[-1], x.shape[:-1])
        if not labels:
            return None
        a = {'smoothing': 0.1} if name == 'cross_entropy' and g.chance(0.3) else {}
        args = [x, labels]
        if g.chance(0.3):
            args.append(unary('abs', g.want(x.shape[:-1])) if g.chance(0.5) else Node('full', type=('f', x.shape[:-1]), value=0.5))
            args[2] = Node('stop_gradient', [Node('add', [args[2], num(0.2)], type=args[2].type)], type=args[2].type)
            a['named'] = ['weights']
        return Node(name, args, type=('f', ()), mag=x.mag + 3, **a)
    x = g.pick()
    if x is None:
        return None
    y = g.want(x.shape)
    if name == 'binary_cross_entropy':
        y = unary('sigmoid', y) if g.chance(0.8) else num(g.rng.choice((0.0, 1.0)))
    return Node(name, [x, y], type=('f', ()), mag=x.mag ** 2 + (y.mag ** 2))
