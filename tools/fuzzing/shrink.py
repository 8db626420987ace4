"""Makes a program that fails smaller: parts of its tree are left out or replaced by simpler ones of the same type, as long as it fails in the same way."""
import copy

from fuzzing import check, oracle
from fuzzing.tree import Node, bodies, names_read

PLAIN = {'groups': [], 'clip': None, 'accumulate': 1, 'ema': None, 'loss_scale': None, 'schedule': None, 'first': 0, 'settings': {'lr': 0.01}}
DECORATION = 'label', 'pipe', 'init', 'reverse', 'then'


def without(p, gone):
    """Leaves out what is computed of these outputs; models are called with inputs in their place."""
    for part in p.parts():
        part.losses = [x for x in part.losses if not names_read(x[1]) & gone]
        part.metrics = [x for x in part.metrics if not names_read(x[1]) & gone]
    for m in p.models:
        for args, _ in m.calls():
            for name, kind, shape, below in m.inputs:
                if name in args and names_read(args[name]) & gone:
                    del args[name]
                    p.data[name] = kind, shape, below
    trim(p)


def without_model(p, i):
    gone = {name for m, _, names, _ in p.calls() if m is p.models[i] for name in names}
    m = p.models.pop(i)
    p.teachers = [t for t in p.teachers if t.model != m.name]
    for phase in p.phases:
        phase.models = [name for name in phase.models if name != m.name]
    p.phases = [phase for phase in p.phases if phase.models]
    without(p, gone)


def without_output(p, model, i):
    m = p.models[model]
    m.body.results.pop(i)
    without(p, {names.pop(i) for other, _, names, _ in p.calls() if other is m})


def without_teacher(p):
    gone = set(p.teachers.pop().outputs)
    without(p, gone)


def at_once(p):
    """Without phases: each loss once."""
    p.losses, p.metrics = (list({name: (name, n) for phase in p.phases for name, n in getattr(phase, some)}.values()) for some in ('losses', 'metrics'))
    p.phases, p.inside = [], False


def called_once(p, model):
    m = p.models[model]
    gone, m.again, m.outputs_again = set(m.outputs_again), None, []
    without(p, gone)


def plainly(p, model):
    """A model that is called with what another has made is called with inputs."""
    m = p.models[model]
    p.data.update({i[0]: i[1:] for i in m.inputs})
    m.args = {}
    trim(p)


def names_in(b):
    found = set()
    for s in b.statements:
        found |= names_of(s[2]) if s[0] in ('let', 'update') else names_in(s[3]) if s[0] == 'loop' else {s[1]}
    return found.union(*[names_of(r) for r in b.results])


def names_of(n):
    found = {n.attrs['name']} if n.op == 'name' else set()
    return found.union(*[names_of(x) for x in n.args], *[names_in(b) for b in n.bodies()])


def calls(n):
    found = {n.attrs['block']} if n.op == 'call' else set()
    return found.union(*[calls(x) for x in n.args], *[calls_in(b) for b in n.bodies()])


def calls_in(b):
    found = set()
    for s in b.statements:
        found |= calls(s[2]) if s[0] in ('let', 'update') else calls_in(s[3]) if s[0] == 'loop' else set()
    return found.union(*[calls(r) for r in b.results])


def trim(p):
    """Leaves out inputs and blocks that nothing uses."""
    for m in p.models:
        kept = names_in(m.body)
        m.inputs = [i for i in m.inputs if i[0] in kept] or m.inputs[:1]
        for args, _ in m.calls():
            for name in set(args) - {i[0] for i in m.inputs}:
                del args[name]
    used = set().union(*[names_read(x) for m in p.models for args, _ in m.calls() for x in m.args_of(args)], *[names_read(n) for part in p.parts() for _, n in part.losses + part.metrics])
    p.data = {k: v for k, v in p.data.items() if k in used}
    called = set().union(*[calls_in(b) for b in bodies(p)])
    p.blocks = [b for b in p.blocks if b.name in called]


def slots(p):
    """(list, index) of every expression of the program, outer ones first."""
    def inside(n):
        for i, x in enumerate(n.args):
            yield n.args, i
            yield from inside(x)
    for b in bodies(p):
        for s in b.statements:
            if s[0] in ('let', 'update'):
                yield s, 2
                yield from inside(s[2])
        for i, r in enumerate(b.results):
            yield b.results, i
            yield from inside(r)
    for part in p.parts():
        for loss in part.losses:
            yield from inside(loss[1])


def leaf(type, value=0.5):
    return Node('full', type=type, value=value)


def replacements(n):
    """Smaller expressions of the same type."""
    if n.op in ('name', 'number', 'full', 'iota') or n.type is None:
        return []
    found = [x for x in n.args if x.type == n.type]
    if n.op == 'if':
        return n.args
    return found + ([leaf(n.type)] if n.kind == 'f' else [])


def candidates(p):
    """Changed copies of the program, the largest cuts first."""
    def changed(f, *args):
        q = copy.deepcopy(p)
        f(q, *args)
        return q
    for i in range(len(p.models) if len(p.models) > 1 else 0):
        yield changed(without_model, i)
    for m, model in enumerate(p.models):
        if model.again is not None:
            yield changed(called_once, m)
        if model.args:
            yield changed(plainly, m)
        for i in range(len(model.outputs) if len(model.outputs) > 1 else 0):
            yield changed(without_output, m, i)
    for b, block in enumerate(p.blocks):
        if block.precision:
            yield changed(lambda q: setattr(q.blocks[b], 'precision', None))
    if p.phases:
        yield changed(at_once)
    if p.inside:
        yield changed(lambda q: setattr(q, 'inside', False))
    if p.teachers:
        yield changed(without_teacher)
    for k, part in enumerate(p.parts()):
        if part.train['kind'] != 'sgd':
            yield changed(lambda q: q.parts()[k].train.update(PLAIN, kind='sgd'))
        for some in 'losses', 'metrics':
            for i in range(len(getattr(part, some))):
                yield changed(lambda q: (getattr(q.parts()[k], some).pop(i), trim(q)))
        if part.every > 1:
            yield changed(lambda q: setattr(q.parts()[k], 'every', 1))
    for train in [lambda q: q.train] + [lambda q, k=k: q.phases[k].train for k in range(len(p.phases))]:
        for name, value in PLAIN.items():
            if train(p).get(name, value) != value:
                yield changed(lambda q: train(q).update({name: value}))
    for b, body in enumerate(bodies(p)):
        for i in range(len(body.statements)):
            yield changed(lambda q: (list(bodies(q))[b].statements.pop(i), trim(q)))
            if body.statements[i][0] == 'loop' and body.statements[i][4] > 1:
                yield changed(lambda q: one_round(list(bodies(q))[b].statements[i]))
    for k, (holder, i) in enumerate(slots(p)):
        for r in range(len(replacements(holder[i]))):
            yield changed(replace, k, r)
    for k, (holder, i) in enumerate(slots(p)):
        for name in DECORATION:
            if holder[i].attrs.get(name) or name == 'label' and holder[i].label:
                yield changed(undecorate, k, name)


def one_round(s):
    s[1], s[4] = 'repeat 1', 1


def replace(q, k, r):
    holder, i = list(slots(q))[k]
    holder[i] = replacements(holder[i])[r]
    trim(q)


def undecorate(q, k, name):
    holder, i = list(slots(q))[k]
    if name == 'label':
        holder[i].label = None
    elif name == 'reverse':
        holder[i].attrs['reverse'] = False
    else:
        del holder[i].attrs[name]


def shrink(judge, program, failure, ways, tries=250):
    """(program, failure): one that fails in the same way and of which nothing more can be left out, or that was reached with so many tries."""
    smaller = True
    while smaller and tries > 0:
        smaller = False
        for q in candidates(program):
            try:
                check.fit(q)
            except Exception:                                   # names that are gone, nothing that is trained: no program
                continue
            tries -= 1
            try:
                judge.judge(q, ways)
            except check.Failure as e:
                if e.kind == failure.kind:
                    program, failure, smaller = q, e, True
                    break
            except oracle.Unfit:
                pass
            if tries <= 0:
                break
    return program, failure
