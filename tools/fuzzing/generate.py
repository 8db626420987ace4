"""Draws programs: loops, blocks and states, then the models and the training around them."""
import random

import fuzzing.constructs, fuzzing.library, fuzzing.losses, fuzzing.signals, fuzzing.tensors   # their makers
from fuzzing import training
from fuzzing.maker import DEEP, LARGEST, MAKERS, NAMES, Maker, count, maker, num, unary
from fuzzing.golden import HALVES
from fuzzing.shrink import names_in, names_of, trim
from fuzzing.tensors import DRAWS
from fuzzing.tree import Block, Body, Model, Node, Phase, Program, Teacher, names_read, output_name, var, walk, walk_body



# --- control

def inner(g, pool, steps, states=True):
    other = Maker(g.program, g.rng, g.depth + 1, pool, states)
    if hasattr(g, 'root'):
        other.root = g.root
    other.grow(steps)
    return other


@maker('repeat', 'for')
def _(g, name):
    if g.depth >= g.program.deepest:
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
    condition, holds = g.rng.choice((('1 + 1 == 2', True), ('3 < 2', False), ('training()', True), ('not false', True), ('2 > 1 and 7 // 2 != 3', False), ('contains([1, 2], 2)', True), ('is_list(3)', False)))
    return Node('if', [x, g.want(x.shape)], type=x.type, mag=x.mag + 2, condition=condition, holds=holds)


@maker('block')
def _(g, name):
    """A block of one or two values, called once or twice; or one that was made before."""
    if g.depth >= g.program.deepest:
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
        precision = g.rng.choice(('f32', 'bf16', 'f16')) if g.program.mixed and g.chance(0.6) else None
        block = Block(g.fresh('f'), parameters, Body(m.statements, results), not g.program.mixed and g.chance(0.5), precision)
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
    if g.depth >= g.program.deepest:
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

def pieces(g, results):
    """One of the results instead as the parts of which it is made up, most of them slices that are contiguous but do not begin where it begins."""
    whole = next((r for r in results[1:] if r.shape and r.shape[0] > 1), None)
    if whole is None:
        return []
    results.remove(whole)
    x, parts = g.name_it(whole) if whole.op == 'name' or whole in g.pool else whole, g.rng.choice((2, 2, 3))
    if x.op != 'name':
        name = g.fresh('v')
        g.statements.append(['let', [name], x])
        x = var(name, x.type, x.mag)
    ends = sorted(g.rng.sample(range(1, x.shape[0]), min(parts, x.shape[0]) - 1))
    return [Node('index', [x], type=('f', (b - a,) + x.shape[1:]), mag=x.mag, parts=[(a, b, None)]) for a, b in zip([0] + ends, ends + [x.shape[0]])]


def make_model(program, rng, name, steps, most=4):
    """most: outputs that are floats."""
    model = Model(name, [])
    g = Maker(program, rng)
    g.root = model
    for _ in range(rng.choice((1, 2))):
        shape = tuple(g.size(9) for _ in range(rng.choice((2, 2, 3, 4))))
        shape = (program.rows or shape[0],) + shape[1:]
        if count(shape) <= LARGEST:
            model.inputs.append((g.fresh('x'), 'f', shape, -HALVES if program.at_kinks or g.chance(0.1) else 0))
    if not model.inputs:
        model.inputs.append((g.fresh('x'), 'f', (program.rows or 4, 6), 0))
    g.pool = [var(i[0], (i[1], i[2])) for i in model.inputs]
    g.grow(steps)
    made = [x for x in g.pool if not (x.op == 'name' and x.attrs['name'][0] in 'xh')] or g.pool
    chosen = [x for x in made if x.kind == 'f'][-most:] or [g.pool[0]]
    results = []
    for x in chosen:
        x = g.name_it(x) if g.chance(0.5) else x
        factor = num(1.5)
        if not results:                                         # something that is trained
            g.statements.append(['param', g.own('w'), (), '1.5'])
            factor = var(g.statements[-1][1], ('f', ()))
        elif g.chance(0.5):                                     # the value as it is: a view, an argument, or one that others read, too
            results.append(x)
            continue
        results.append(Node('mul', [x, factor], type=x.type, mag=x.mag))
    if g.chance(0.3):
        results += pieces(g, results)
    for x in made:
        if x.kind in 'ilu' and (g.chance(0.5) or most > 4):
            results.append(x)
    trained = results.pop(0)
    rng.shuffle(results)
    results.insert(rng.randrange(min(len(results), 2) + 1), trained)    # losses are of the first
    results += g.shown
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
    t = training.make_optimizer(rng)
    t['clip'] = rng.choice((None, None, 0.1, 1.0))
    t['accumulate'] = rng.choice((1, 2, 3)) if program.rows else 1
    t['ema'] = rng.choice((None, None, None, 0.9))
    t['loss_scale'] = rng.choice((None, None, None, 64, 'dynamic(init=256, every=2)'))
    if program.half:
        t['loss_scale'] = 1024                                  # the smallest number of f16 is 6e-8
    t['schedule'] = training.make_schedule(rng, t['settings']['lr'])
    t['first'] = 0 if counted(t) else rng.choice((0, 0, 4, 7))
    program.train = t


def counted(t):
    """Whether an optimizer counts its steps."""
    return bool({t['kind'], *(own['optimizer'] for _, own in t['groups'] if 'optimizer' in own)} - set(training.WITHOUT_STEP))


def make_teacher(program, rng):
    """A model is called with an average of its parameters, and a loss compares what both make."""
    m = rng.choice(program.models)
    decay, every = rng.choice(((0.9, None), (0.5, None), (None, 1), (None, 2), (0.5, 2)))
    program.teachers.append(Teacher('average', m.name, decay, every, [f'taught_{name}' for name in m.outputs]))
    pairs = [(name, r.type) for name, r in zip(m.outputs, m.body.results) if r.kind == 'f']
    name, type = rng.choice(pairs)
    other = unary('sin', var(f'taught_{name}', type))
    program.losses.append((f'l_taught_{name}', Node('mean', [Node('mul', [var(name, type), other], type=type)], type=('f', ()))))


def make_penalty(program, rng):
    """A loss of how steeply an output rises with an input."""
    given = [(m, var(name, (kind, shape))) for m in program.models for name, kind, shape, _ in m.inputs if kind == 'f' and name not in m.args]
    if not given:
        return
    m, x = rng.choice(given)
    name, type = next((name, r.type) for name, r in zip(m.outputs, m.body.results) if r.kind == 'f')
    slope = Node('grad', [Node('sum', [unary('sin', var(name, type))], type=('f', ())), x], type=x.type)
    program.losses.append((f'l_slope_{name}', Node('mean', [unary('square', slope)], type=('f', ()))))
    program.differentiates = True


def make_phases(program, rng):
    """Each model is trained in one phase, by its losses and some of the others'."""
    models = [m.name for m in program.models]
    owners = [0, 1, rng.randrange(3)][:len(models)]
    rng.shuffle(owners)
    model_of = {name: m.name for m, _, names, teacher in program.calls() if not teacher for name in names}
    program.inside = not program.teachers and rng.random() < 0.4
    for k in range(max(owners) + 1):
        t = training.make_optimizer(rng)
        t['schedule'], t['clip'] = training.make_schedule(rng, t['settings']['lr']), rng.choice((None, None, 0.1, 1.0))
        phase = Phase(f'p{k}', [m for m, owner in zip(models, owners) if owner == k], 1 if k == 0 else rng.choice((1, 1, 2)), t)
        own = lambda n: any(model_of.get(name) in phase.models for name in names_read(n))
        phase.losses = [(name, n) for name, n in program.losses if own(n) or rng.random() < 0.3]
        phase.metrics = [(name, n) for name, n in program.metrics if rng.random() < 0.5]
        program.phases.append(phase)
    rng.shuffle(program.phases)
    program.losses, program.metrics = [], []
    if any(counted(phase.train) for phase in program.phases):
        program.train['first'] = 0


def call_again(program, rng, m):
    """A second call of a model, or its only one, with other inputs or with what another model has made."""
    made = [(name, r.type) for other in program.models if other is not m for name, r in zip(other.outputs, other.body.results) if r.kind == 'f']
    args = {}
    for name, kind, shape, below in m.inputs:
        found = [n for n, t in made if t == (kind, shape)]
        if found and rng.random() < 0.7:
            args[name] = var(rng.choice(found), (kind, shape))
        elif kind == 'f' and rng.random() < 0.3:
            args[name] = Node('mul', [var(name, (kind, shape)), num(0.5)], type=(kind, shape))
        elif rng.random() < 0.6:
            args[name] = var(f'again_{name}', (kind, shape))
            program.data[f'again_{name}'] = kind, shape, below
    return args


def has_state(m):
    return any(s[0] == 'state' for s in m.body.statements) or any(n.op == 'spectral_norm' for n in walk_body(m.body))


def call_models(program, rng):
    """A later model may be given what an earlier one has made; the last may be called twice."""
    for m in program.models[1:]:
        earlier = [(name, r.type) for other in program.models[:program.models.index(m)] for name, r in zip(other.outputs, other.body.results) if r.kind == 'f']
        for name, kind, shape, _ in m.inputs:
            found = [n for n, t in earlier if t == (kind, shape)]
            if found and rng.random() < 0.7:
                m.args[name] = var(rng.choice(found), (kind, shape))
    m = program.models[-1]
    if rng.random() < 0.25 and not has_state(m):
        again = call_again(program, rng, m)
        if again:
            m.again, m.outputs_again = again, [f'again_{name}' for name in m.outputs]


def kinds_of(program):
    """What the program has of what is worth counting."""
    def inside(body, outer):
        for s in body.statements:
            if s[0] == 'loop':
                yield from inside(s[3], outer + ('loop',))
            for n in walk(s[2]) if s[0] in ('let', 'update') else ():
                yield from of(n, outer)
        for r in body.results:
            for n in walk(r):
                yield from of(n, outer)

    def of(n, outer):
        yield {'u': 'u8', 'l': 'i64', 'i': 'i32'}.get(n.type[0] if n.type else 'f', 'f32')
        if n.op == 'dropout' and n.attrs['p'] and not n.attrs.get('idle'):
            yield 'dropout whose mask is an output' if shown(program, n) else 'dropout'
        if n.attrs.get('dropout'):
            yield 'dropout'
        if n.op == 'scan':
            yield from (f'scan in a {x}' for x in outer)
            yield from inside(n.attrs['body'], outer + ('scan',))
        if n.op == 'index' and any(not isinstance(p, int) and (p[2] or 1) > 10 ** 5 for p in n.attrs['parts']):
            yield 'huge step of a slice'
        if n.label:
            labels[n.label, n.op] = labels.get((n.label, n.op), 0) + 1

    labels, said = {}, set()
    for m in program.models:
        said.update(inside(m.body, ()))
        said.update({'u': 'input u8', 'l': 'input i64', 'i': 'input i32', 'f': 'input at kinks' if below < 0 else 'input f32'}[kind] for _, kind, _, below in m.inputs)
        said.update({'a model called twice'} if m.again is not None else (), {'a model of a model'} if m.args else (), {'several outputs'} if len(m.outputs) > 1 else ())
        said.update({'outputs that are views'} if any(r.op in ('index', 'reshape', 'name') for r in m.body.results) else ())
    for b in program.blocks:
        said.update(inside(b.body, ('block',)), {f'block of {b.precision}'} if b.precision else ())
    said.update({'tied'} if any(v > 1 for v in labels.values()) else (), {'at kinks'} if program.at_kinks else (), {'names of other things'} if program.spare_names else ())
    said.update({f'precision {program.precision}'} if program.precision else ())
    for part in program.parts():
        t = part.train
        said.update({f'optimizer {t["kind"]}'}, {f'{len(t["groups"])} groups'}, {f'group of {own["optimizer"]}' for _, own in t['groups'] if 'optimizer' in own})
        said.update({f'schedule {t["schedule"][0]}'} if t['schedule'] else (), {f'clip {t["clip"]}'} if t['clip'] else (), {f'phase every {part.every}'} if part is not program else ())
    said.update(f'{name} {str(program.train[name]).split("(")[0]}' for name in ('accumulate', 'ema', 'loss_scale') if program.train[name] and program.train[name] != 1)
    said.update({'phases that call models'} if program.inside else (), {f'average decay={t.decay} every={t.every}' for t in program.teachers}, {'grad in train' for part in program.parts() for name, _ in part.losses if 'l_slope' in name})
    return said


def dropouts(program, seen):
    """[(dropout, name of the output)] of those whose masks can be read from what a step writes, or that there are others."""
    found = [(n, m) for m in program.models for n in walk_body(m.body) if n.op == 'dropout' and shown(program, n)]
    if seen:
        return [(n, output_name(m, i)) for n, m in found for i, r in enumerate(m.body.results) if r.op == 'name' and r.attrs['name'] == n.attrs['seen']]
    own = {id(n) for n, _ in found}
    return any(id(n) not in own and (n.op in DRAWS or n.op == 'dropout' and n.attrs['p'] and not n.attrs.get('idle') or n.attrs.get('dropout'))
               for holder in program.models + program.blocks for n in walk_body(holder.body))


def shown(program, n):
    """Whether the mask of a dropout can be read from an output of its model."""
    return program.train['accumulate'] == 1 and any(m.again is None and any(r.op == 'name' and r.attrs['name'] == n.attrs.get('seen') for r in m.body.results) for m in program.models)


def make(seed, size=10):
    rng = random.Random(seed)
    program = Program(seed)
    program.rows = rng.choice((None, None, None, 2, 4, 5))
    program.weights = [rng.expovariate(1) ** 2 for _ in MAKERS]      # each program has its favourites
    program.deepest = DEEP if rng.random() < 0.3 else 2
    program.precision = rng.choice(('bf16', 'f16')) if rng.random() < 0.2 else None
    program.mixed = rng.random() < 0.15
    program.half = program.precision or program.mixed
    program.at_kinks = not program.half and rng.random() < 0.15
    program.spare_names = rng.sample(NAMES, len(NAMES)) if rng.random() < 0.15 else []
    for i in range(rng.choice((1, 1, 1, 2, 3))):
        program.models.append(make_model(program, rng, f'm{i}', rng.randint(2, size)))
    call_models(program, rng)
    for m in program.models:
        program.data.update({i[0]: i[1:] for i in m.inputs if any(i[0] not in args for args, _ in m.calls())})
        for args, _ in m.calls():
            for x in args.values():
                if x.op == 'mul':
                    inner_name = x.args[0].attrs['name']
                    program.data[inner_name] = next(i[1:] for i in m.inputs if i[0] == inner_name)
    for m in program.models:
        for args, outputs in m.calls():
            floats = [(name, r.type) for name, r in zip(outputs, m.body.results) if r.kind == 'f']
            for name, type in floats[:3]:
                program.losses.append((f'l_{name}', make_loss(program, rng, name, type)))
    if rng.random() < 0.3:
        first = next((i, r) for i, r in enumerate(program.models[0].body.results) if r.kind == 'f')
        program.metrics.append(('q', Node('mean', [unary('abs', var(f'{program.models[0].name}_{first[0]}', first[1].type))], type=('f', ()))))
    make_training(program, rng)
    if not dropouts(program, True):                             # their masks are read from outputs that are written once
        if rng.random() < 0.1:
            make_penalty(program, rng)
        if rng.random() < 0.15:
            make_teacher(program, rng)
        if len(program.models) > 1 and rng.random() < 0.5:
            make_phases(program, rng)
    return program


def without_unused(body):
    """Leaves out statements whose names nothing reads."""
    needed, kept = set().union(*[names_of(r) for r in body.results]), []
    for s in reversed(body.statements):
        if s[0] == 'let' and not needed & set(s[1]) or s[0] == 'param' and s[1] not in needed:
            continue
        kept.append(s)
        needed |= names_of(s[2]) if s[0] in ('let', 'update') else names_in(s[3]) if s[0] == 'loop' else set() if s[0] == 'param' else {s[1]}
    body.statements = kept[::-1]


def with_gradients(m):
    """A parameter is added to each float input, so that what is computed of it is differentiated, too."""
    given = [i for i in m.inputs if i[1] == 'f']
    for name, kind, shape, below in given:
        m.inputs[m.inputs.index((name, kind, shape, below))] = (f'in_{name}', kind, shape, below)
        both = Node('add', [var(f'in_{name}', (kind, shape)), var(f'd_{name}', (kind, shape))], type=(kind, shape))
        m.body.statements[:0] = [['param', f'd_{name}', shape, 'normal(0.5)'], ['let', [name], both]]


def make_of(seed, size, wanted):
    """A program of one model whose constructs are mostly those that are wanted; all that it computes is in what it writes."""
    rng = random.Random(f'{seed}.wanted')
    program = Program(seed)
    program.weights = [1 if name in wanted else 0.02 for name in MAKERS]
    program.deepest, program.mixed, program.half, program.spare_names = 1, False, None, []
    m = make_model(program, rng, 'm0', size, most=size)
    program.models.append(m)
    without_unused(m.body)
    with_gradients(m)
    program.data.update({i[0]: i[1:] for i in m.inputs})
    trim(program)
    for name, r in zip(m.outputs, m.body.results):
        if r.kind == 'f':
            program.losses.append((f'l_{name}', make_loss(program, rng, name, r.type)))
    make_training(program, rng)
    return program
