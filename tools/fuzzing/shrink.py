"""Makes a program that fails smaller: parts of its tree are left out or replaced by simpler ones of the same type, as long as it fails in the same way."""
import copy

from fuzzing import check, oracle
from fuzzing.tree import Node, bodies

PLAIN = {'group': None, 'frozen': False, 'clip': None, 'accumulate': 1, 'ema': None, 'loss_scale': None, 'schedule': None, 'momentum': 0, 'nesterov': False, 'weight_decay': 0, 'kind': 'sgd'}
DECORATION = 'label', 'pipe', 'init', 'reverse', 'then'


def without_model(p, i):
    m = p.models.pop(i)
    gone = set(m.outputs)
    p.losses = [x for x in p.losses if not names(x[1]) & gone]
    p.metrics = [x for x in p.metrics if not names(x[1]) & gone]
    trim(p)


def without_output(p, model, i):
    m = p.models[model]
    gone = m.outputs.pop(i)
    m.body.results.pop(i)
    p.losses = [x for x in p.losses if gone not in names(x[1])]
    p.metrics = [x for x in p.metrics if gone not in names(x[1])]
    trim(p)


def names(n):
    return {n.attrs['name']} if n.op == 'name' else set().union(*[names(x) for x in n.args])


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
    used = {i[0] for m in p.models for i in m.inputs}.union(*[names(n) for _, n in p.losses + p.metrics])
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
    for loss in p.losses:
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
        for i in range(len(model.outputs) if len(model.outputs) > 1 else 0):
            yield changed(without_output, m, i)
    for part in 'losses', 'metrics':
        for i in range(len(getattr(p, part))):
            yield changed(lambda q: (getattr(q, part).pop(i), trim(q)))
    for name, value in PLAIN.items():
        if p.train[name] != value:
            yield changed(lambda q: q.train.update({name: value}))
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
