"""Draws programs: loops, blocks and states, then the models and the training around them."""
import random

import fuzzing.constructs   # their makers
from fuzzing.maker import LARGEST, MAKERS, Maker, count, maker, num, unary
from fuzzing.tree import Block, Body, Model, Node, Program, var



# --- control

def inner(g, pool, steps, states=True):
    other = Maker(g.program, g.rng, g.depth + 1, pool, states)
    if hasattr(g, 'root'):
        other.root = g.root
    other.grow(steps)
    return other


@maker('repeat', 'for')
def _(g, name):
    if g.depth > 1:
        return None
    x = g.pick('f', lambda s: len(s) > 0)
    if x is None:
        return None
    carried = g.fresh('v')
    g.statements.append(['let', [carried], x])
    g.name_all()
    here = var(carried, x.type, 2)
    m = inner(g, [v for v in g.pool if v.op == 'name'][-4:] + [here], g.rng.randint(1, 4))
    next_value = m.want(x.shape)
    m.statements.append(['let', [carried], Node('add', [here, unary('tanh', next_value)], type=x.type)])
    rounds = g.rng.randint(1, 3)
    head = f'repeat {rounds}' if name == 'repeat' else g.rng.choice((f'for k in 0..{rounds}', f'for k, l in {", ".join(["(1, true)"] * rounds)}' if rounds > 1 else 'for k in [1]'))
    g.statements.append(['loop', head, g.label(), Body(m.statements), rounds])
    g.add(var(carried, x.type, x.mag + rounds))
    return True


@maker('if')
def _(g, name):
    x = g.pick()
    if x is None:
        return None
    condition, holds = g.rng.choice((('1 + 1 == 2', True), ('3 < 2', False), ('training()', True), ('not false', True), ('2 > 1 and 7 // 2 != 3', False)))
    return Node('if', [x, g.want(x.shape)], type=x.type, mag=x.mag + 2, condition=condition, holds=holds)


@maker('block')
def _(g, name):
    """A block of one or two values, called once or twice; or one that was made before."""
    if g.depth > 1:
        return None
    known = [b for b in g.program.blocks if b.depth > g.depth]
    if known and g.chance(0.3):
        block = g.rng.choice(known)
    else:
        operands = [x for x in (g.pick() for _ in range(g.rng.choice((1, 1, 2)))) if x is not None]
        if not operands:
            return None
        parameters = [(g.fresh('a'), x.type) for x in operands]
        m = Maker(g.program, g.rng, g.depth + 1, [var(n, t, 2) for n, t in parameters])
        m.grow(g.rng.randint(1, 4))
        floats = [x for x in m.pool if x.kind == 'f' and x.op != 'name'] or [x for x in m.pool if x.kind == 'f']
        results = [m.tame(m.use(x)) for x in g.rng.sample(floats, min(len(floats), g.rng.choice((1, 1, 2))))]
        block = Block(g.fresh('f'), parameters, Body(m.statements, results), g.chance(0.5))
        block.depth = g.depth + 1
        g.program.blocks.append(block)
    args = [g.want(t[1]) for _, t in block.parameters]
    types = [r.type for r in block.body.results]
    node = Node('call', args, type=types[0] if len(types) == 1 else None, types=types, label=g.label(), mag=4, block=block.name)
    if len(types) == 1:
        return node
    names = [g.fresh('v') for _ in types]
    g.statements.append(['let', names, node])
    for n, t in zip(names, types):
        g.add(var(n, t, 4))
    return True


@maker('scan')
def _(g, name):
    if g.depth > 1:
        return None
    first = g.of_rank(2, 3, 4)
    if first is None:
        return None
    axis = g.rng.randrange(min(len(first.shape), 3))
    length, inputs = first.shape[axis], [first]
    if g.chance(0.3):
        shape = [g.size(5) for _ in range(g.rng.randint(1, 3))]
        if axis <= len(shape):
            inputs.append(g.want(shape[:axis] + [length] + shape[axis:]))
    steps = [(g.fresh('s'), ('f', x.shape[:axis] + x.shape[axis + 1:])) for x in inputs]
    inits = [g.want(steps[0][1][1] if g.chance(0.7) else [g.size(18) for _ in range(g.rng.randint(0, 2))]) for _ in range(g.rng.choice((1, 1, 2)))]
    carried = [(g.fresh('c'), x.type) for x in inits]
    g.name_all()
    outer = [v for v in g.pool if v.op == 'name' and v.kind != 'b'][-3:]
    m = Maker(g.program, g.rng, g.depth + 1, outer + [var(n, t, 2) for n, t in steps + carried], states=False)
    m.grow(g.rng.randint(2, 5))
    results = []
    for n, t in carried:
        value = m.want(t[1])
        results.append(unary('tanh', Node('add', [value, var(n, t)], type=t)) if g.chance(0.8) else m.tame(value))
    kept = [m.tame(m.use(x)) for x in g.rng.sample(m.pool, min(len(m.pool), g.rng.choice((0, 1, 1, 2)))) if x.kind == 'f' and len(x.shape) >= axis and count(x.shape) * length <= LARGEST]
    types = [t for _, t in carried] + [('f', x.shape[:axis] + (length,) + x.shape[axis:]) for x in kept]
    sure = all(x.shape.count(length) == 1 for x in inputs)
    node = Node('scan', inputs + inits, type=types[0] if len(types) == 1 else None, types=types, label=g.label(), mag=2, body=Body(m.statements, results + kept), inputs=len(inputs),
                length=length, axis=axis, say_axis=not sure or g.chance(0.3), reverse=g.chance(0.4), steps=[n for n, _ in steps], carried=[n for n, _ in carried])
    names = [g.fresh('v') for _ in types]
    g.statements.append(['let', names, node])
    for n, t in zip(names, types):
        g.add(var(n, t, 2))
    return True


@maker('state')
def _(g, name):
    if g.depth or not g.states:
        return None
    x = g.pick('f', lambda s: len(s) > 0)
    if x is None:
        return None
    x = g.name_it(x)
    state = g.fresh('h')
    g.statements.append(['state', state, x.shape])
    here = var(state, x.type, 2)
    g.statements.append(['update', state, unary('tanh', Node('add', [here, x], type=x.type))])
    return g.add(here) and True


@maker('checkpoint', 'assert')
def _(g, name):
    x = g.pick()
    if x is None:
        return None
    g.statements.append(['assert', '2 * 3 == 6, "arithmetic"'] if name == 'assert' else ['checkpoint', g.name_it(x).attrs['name']])
    return True


# --- the whole

def make_model(program, rng, name, steps):
    model = Model(name, [])
    g = Maker(program, rng)
    g.root = model
    for _ in range(rng.choice((1, 2))):
        shape = tuple(g.size(9) for _ in range(rng.choice((2, 2, 3, 4))))
        shape = (program.rows or shape[0],) + shape[1:]
        if count(shape) <= LARGEST:
            model.inputs.append((g.fresh('x'), 'f', shape, 0))
    if not model.inputs:
        model.inputs.append((g.fresh('x'), 'f', (program.rows or 4, 6), 0))
    g.pool = [var(i[0], (i[1], i[2])) for i in model.inputs]
    g.grow(steps)
    made = [x for x in g.pool if not (x.op == 'name' and x.attrs['name'][0] in 'xh')] or g.pool
    chosen = [x for x in made if x.kind == 'f'][-4:] or [g.pool[0]]
    results = []
    for x in chosen:
        x = g.name_it(x) if g.chance(0.5) else x
        factor = num(1.5)                                       # outputs that are views have tests of their own
        if not results:                                         # something that is trained
            g.statements.append(['param', g.fresh('w'), (), '1.5'])
            factor = var(g.statements[-1][1], ('f', ()))
        results.append(Node('mul', [x, factor], type=x.type, mag=x.mag))
    for x in made:
        if x.kind == 'i' and g.chance(0.5):
            results.append(x)
    rng.shuffle(results)
    model.body, model.outputs = Body(g.statements, results), [f'{name}_{i}' for i in range(len(results))]
    return model


def make_loss(program, rng, name, type):
    """A scalar of one output, whose gradient differs from element to element."""
    x = var(name, type)
    scalar = ('f', ())
    what = rng.choice(('square', 'mse', 'cross_entropy', 'sin', 'weighted'))
    fits = type[1] and program.rows in (None, type[1][0])
    if what == 'mse' and fits:
        target = f't_{name}'
        program.data[target] = ('f', type[1], 0)
        return Node('mse', [x, var(target, type)], type=scalar)
    if what == 'cross_entropy' and fits and len(type[1]) > 1 and type[1][-1] > 1:
        target = f't_{name}'
        program.data[target] = ('i', type[1][:-1], type[1][-1])
        return Node(what, [x, var(target, ('i', type[1][:-1]))], type=scalar)
    if what == 'sin':
        return Node('mean', [unary('sin', x)], type=scalar)
    inside = Node('mul', [x, x], type=type) if what == 'weighted' else unary('square', Node('add', [x, num(0.3)], type=type))
    return Node('mean', [inside], type=scalar)


def make_training(program, rng):
    kind = rng.choice(('sgd', 'sgd', 'adam', 'adamw'))
    t = {'kind': kind, 'rate': rng.choice((0.01, 0.1)) if kind == 'sgd' else 0.01, 'weight_decay': rng.choice((0, 0.1)), 'momentum': 0, 'nesterov': False, 'betas': (0.9, 0.999)}
    if kind == 'sgd' and rng.random() < 0.6:
        t.update(momentum=0.9, nesterov=rng.random() < 0.5)
    if kind != 'sgd' and rng.random() < 0.3:
        t['betas'] = (0.8, 0.95)
    t['group'] = rng.choice((None, None, '.bias', '.weight')) 
    t['frozen'] = t['group'] is not None and rng.random() < 0.3
    t['clip'] = rng.choice((None, None, 0.1, 1.0))
    t['accumulate'] = rng.choice((1, 2, 3)) if program.rows else 1
    t['ema'] = rng.choice((None, None, None, 0.9))
    t['loss_scale'] = rng.choice((None, None, None, 64))
    t['schedule'] = rng.choice((None, None, 'constant(warmup=4)', 'cosine(warmup=1)', 'linear', 'step(every=1, gamma=0.5)'))
    program.train = t


def make(seed, size=10):
    rng = random.Random(seed)
    program = Program(seed)
    program.rows = rng.choice((None, None, None, 2, 4, 5))
    program.weights = [rng.expovariate(1) ** 2 for _ in MAKERS]      # each program has its favourites
    for i in range(rng.choice((1, 1, 1, 2, 3))):
        program.models.append(make_model(program, rng, f'm{i}', rng.randint(2, size)))
    for m in program.models:
        program.data.update({i[0]: i[1:] for i in m.inputs})
    for m in program.models:
        floats = [(f'{m.name}_{i}', r.type) for i, r in enumerate(m.body.results) if r.kind == 'f']
        for name, type in floats[:3]:
            program.losses.append((f'l_{name}', make_loss(program, rng, name, type)))
    if rng.random() < 0.3:
        first = next((i, r) for i, r in enumerate(program.models[0].body.results) if r.kind == 'f')
        program.metrics.append(('q', Node('mean', [unary('abs', var(f'{program.models[0].name}_{first[0]}', first[1].type))], type=('f', ()))))
    make_training(program, rng)
    return program
