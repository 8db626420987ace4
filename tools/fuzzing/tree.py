"""Programs of the language as trees, and how they are printed as .nn files.

A Node is an expression: what it is (`op`), its operands, attributes that are printed as arguments by name, and its type. Bodies hold statements and results.
Every Node says its type, (kind, shape), so that a part can be put in another's place. Kinds: f, a float; i, l and u, i32, i64 and u8; b, i1.
"""
import copy

from fuzzing.golden import STEPS

INFIX = {'add': '+', 'sub': '-', 'mul': '*', 'div': '/', 'pow': '**', 'mod': '%', 'floordiv': '//', 'gt': '>', 'lt': '<', 'ge': '>=', 'le': '<=', 'eq': '==', 'ne': '!=',
         'and': 'and', 'or': 'or'}
EPS = 1e-4   # of Adam: large, so that where a gradient is zero but for rounding the step is not one of full size
WRITTEN = {'conv1d_layer': 'conv1d', 'normal_drawn': 'normal', 'uniform_drawn': 'uniform'}   # ops that are calls of another function
ELEMENT = {'f': 'f32', 'i': 'i32', 'l': 'i64', 'u': 'u8', 'b': 'i1'}


class Node:
    def __init__(self, op, args=(), type=None, types=None, label=None, mag=1.0, **attrs):
        self.op, self.args, self.type, self.types, self.label, self.mag, self.attrs = op, list(args), type, types, label, mag, attrs

    @property
    def kind(self):
        return self.type[0]

    @property
    def shape(self):
        return self.type[1]

    def bodies(self):
        return [self.attrs['body']] if 'body' in self.attrs else []


def var(name, type, mag=1.0):
    return Node('name', type=type, name=name, mag=mag)


class Body:
    """statements: lists whose first element says what they are, see print_statement; results: Nodes."""

    def __init__(self, statements=(), results=()):
        self.statements, self.results = list(statements), list(results)


class Block:
    def __init__(self, name, parameters, body, typed, precision=None):
        self.name, self.parameters, self.body, self.typed, self.precision = name, parameters, body, typed, precision


class Model:
    """inputs: [(name, kind, shape, below)], see golden.given; outputs: what the train section calls the results of the body; args: what it is called with, {input: Node}, where that is
    not the input of the same name; again: what it is called with a second time, or None, and then outputs_again."""

    def __init__(self, name, inputs):
        self.name, self.inputs, self.body, self.outputs, self.args, self.again, self.outputs_again = name, inputs, None, [], {}, None, []

    def calls(self):
        """[(arguments, names of the outputs)]"""
        return [(args, outputs) for args, outputs in ((self.args, self.outputs), (self.again, self.outputs_again)) if args is not None]

    def args_of(self, args):
        return [args.get(name) or var(name, (kind, shape)) for name, kind, shape, _ in self.inputs]


class Phase:
    """models: the names of those that it trains; every: of how many steps it is one; train: its optimizer, groups, schedule and clip, see optimizer_lines."""

    def __init__(self, name, models, every, train):
        self.name, self.models, self.every, self.train, self.losses, self.metrics = name, models, every, train, [], []

    def trains(self, path):
        return path.split('.')[0] in self.models


class Teacher:
    """A model called with an average of its parameters, name, which has the outputs."""

    def __init__(self, name, model, decay, every, outputs):
        self.name, self.model, self.decay, self.every, self.outputs = name, model, decay, every, outputs


class Program:
    """train: what the settings of the train section are, see optimizer_lines and shared_lines; data: {name: (kind, shape, below)} of all inputs; rows: of all inputs, or None where each has its own number;
    precision: of the file, or None; at_kinks: parameters are halves, so that functions are evaluated where they have kinks; differentiates: it has a grad.
    phases: they have the losses, the metrics and all that is said of optimizers; inside: each calls the models that it needs, which stand outside of all else."""

    name, every = None, 1

    def __init__(self, seed):
        self.seed, self.blocks, self.models, self.data, self.losses, self.metrics, self.train, self.rows = seed, [], [], {}, [], [], {}, None
        self.precision, self.at_kinks, self.differentiates, self.phases, self.inside, self.teachers = None, False, False, [], False, []

    def parts(self):
        """What a step does one after the other: its phases, or all at once."""
        return self.phases or [self]

    def trains(self, path):
        return True

    def teacher_of(self, path):
        return next((t for t in self.teachers if len(self.models) == 1 or path.split('.')[0] == t.model), None)

    def calls(self, part=None):
        """[(model, arguments, names of the outputs, teacher or None)] of what a part computes, or of all."""
        calls = [(m, args, names, None) for m in self.models for args, names in m.calls()]
        calls += [(m, m.args, t.outputs, t) for t in self.teachers for m in self.models if m.name == t.model]
        if not self.inside or part in (None, self):
            return calls
        needed, kept = set().union(*[names_read(n) for _, n in part.losses + part.metrics]), []
        for m, args, names, teacher in reversed(calls):
            if needed & set(names):
                needed |= set().union(*[names_read(x) for x in m.args_of(args)])
                kept.insert(0, (m, args, names, teacher))
        return kept

    def copy(self):
        return copy.deepcopy(self)


def number(v):
    if isinstance(v, bool):
        return 'true' if v else 'false'
    if isinstance(v, (list, tuple)):
        return '[' + ', '.join(map(number, v)) + ']'
    if isinstance(v, str):
        return f'"{v}"'
    return repr(v)


def sizes(shape):
    return '[' + ', '.join(map(str, shape)) + ']'


def output_name(model, i, part=None):
    """Of a result in the file that a step, or a prediction, writes."""
    phase = f'{part.name}.' if part and part.name else ''
    return f'output.{phase}{model.name}' + (f'.{i}' if len(model.outputs) > 1 else '')


def text_type(kind, shape):
    return ELEMENT[kind] + sizes(shape)


def call(name, words, label):
    return f'{name}({", ".join(words)})' + (f' as {label}' if label else '')


def index_text(part):
    if isinstance(part, int):
        return str(part)
    start, stop, step = part
    text = ('' if start is None else str(start)) + ':' + ('' if stop is None else str(stop))
    return text + (f':{step}' if step is not None else '')


def scan_text(n, indent):
    a, k = n.attrs, n.attrs['inputs']
    inputs = [f'{show(x, indent)} over {a["length"]}' for x in n.args[:k]]
    inits = [show(x, indent) for x in n.args[k:]]
    words = inputs + ([f'axis={a["axis"]}'] if a['say_axis'] else []) + ['init=' + (inits[0] if len(inits) == 1 else '(' + ', '.join(inits) + ')')]
    words += ['reverse=true'] if a['reverse'] else []
    carried = a['carried'][0] if len(a['carried']) == 1 else '(' + ', '.join(a['carried']) + ')'
    inner = body_lines(a['body'], indent + 1)
    label = f' as {n.label}' if n.label else ''
    return f'scan({", ".join(words)}){label} {{ {", ".join(a["steps"])}, {carried} ->\n' + '\n'.join(inner) + '\n' + '    ' * indent + '}'


def show(n, indent=1):
    """Text of an expression; composite ones stand in parentheses where they are operands."""
    a, op = n.attrs, n.op
    inner = lambda x: show(x, indent) if x.op not in INFIX and x.op not in ('neg', 'not', 'if') and not x.attrs.get('pipe') and not (x.op == 'number' and x.attrs['text'][0] == '-') else f'({show(x, indent)})'
    if op == 'name':
        return a['name']
    if op == 'number':
        return a['text']
    if op in INFIX:
        return f'{inner(n.args[0])} {INFIX[op]} {inner(n.args[1])}'
    if op in ('neg', 'not'):
        return ('-' if op == 'neg' else 'not ') + inner(n.args[0])
    if op == 'if':
        return f'if {a["condition"]} {{ {show(n.args[0], indent)} }} else {{ {show(n.args[1], indent)} }}'
    if op == 'index':
        return f'{inner(n.args[0])}[{", ".join(map(index_text, a["parts"]))}]'
    if op == 'scan':
        return scan_text(n, indent)
    if op in ('zeros_of', 'ones_of'):
        return op[:-3] + sizes(n.shape)
    if op == 'full_like':
        return f'full(dims({show(n.args[0], indent)}), {a["value"]})'
    if op == 'reshape_like':
        return f'reshape({show(n.args[0], indent)}, dims({show(n.args[1], indent)}))'
    if op == 'by_length':
        return f'{inner(n.args[0])} * (1.0 / len({show(n.args[0], indent)}))'
    if op == 'iota':
        return f'iota({n.shape[0]})'
    if op == 'infinite':
        return f'-log(relu(0.1 - {inner(n.args[0])}))'
    words = [show(x, indent) for x in n.args]
    if op in ('concat', 'stack', 'meshgrid'):
        words = ['[' + ', '.join(words) + ']']
    given = {k: v for k, v in a.items() if k not in ('pipe', 'pattern', 'block', 'named', 'first', 'init', 'then', 'seen', 'idle')}
    if op == 'einsum':
        return call(op, [number(a['pattern'])] + words, None)
    if op == 'full':
        return call(op, [sizes(n.shape), number(a['value'])], None)
    positional = [number(given.pop(k)) for k in a.get('first', ())]
    if op == 'rearrange':
        positional = [number(a['pattern'])]
    tensors = dict(zip(a['named'], words[len(words) - len(a['named']):])) if 'named' in a else {}
    words = words[:len(words) - len(tensors)]
    rest = positional + [f'{k}={v}' for k, v in tensors.items()] + [f'{k}={number(v)}' for k, v in given.items()] + ([f'init={a["init"]}'] if 'init' in a else [])
    name = a['block'] if op == 'call' else WRITTEN.get(op, op)
    if a.get('pipe') and words:
        bare = words[0].startswith('[') or n.args[0].op in INFIX or n.args[0].attrs.get('pipe')
        first = words[0] if bare else inner(n.args[0])
        return f'{first} |> ' + (call(name, words[1:] + rest, n.label) if words[1:] + rest else name + (f' as {n.label}' if n.label else ''))
    return call(name, words + rest, n.label) + (f' |> {a["then"]}' if 'then' in a else '')


def print_statement(s, indent):
    pad = '    ' * indent
    if s[0] == 'let':
        return [pad + ', '.join(s[1]) + ' = ' + show(s[2], indent)]
    if s[0] == 'param':
        return [f'{pad}param {s[1]}: {text_type("f", s[2])}' + (f' = {s[3]}' if s[3] else '')]
    if s[0] == 'state':
        return [f'{pad}state {s[1]}: {text_type("f", s[2])}']
    if s[0] == 'update':
        return [f'{pad}update {s[1]} = {show(s[2], indent)}']
    if s[0] == 'checkpoint':
        return [f'{pad}checkpoint {s[1]}']
    if s[0] == 'assert':
        return [f'{pad}assert {s[1]}']
    _, head, label, body, _ = s                              # a loop
    return [pad + head + (f' as {label}' if label else '') + ' {'] + body_lines(body, indent + 1) + [pad + '}']


def body_lines(body, indent):
    lines = [line for s in body.statements for line in print_statement(s, indent)]
    if body.results:
        first, *others = (show(r, indent) for r in body.results)
        if body.results[0].op == 'if' and others:                # at the start of a line an if is a statement
            first = f'({first})'
        lines.append('    ' * indent + ', '.join([first, *others]))
    return lines


def optimizer_lines(t):
    words = lambda settings: ', '.join(f'{k}={number(v)}' for k, v in settings.items())
    yield f'optimizer {t["kind"]}({words(t["settings"])})'
    for pattern, settings in t['groups']:
        kind, own = settings.get('optimizer'), {k: v for k, v in settings.items() if k != 'optimizer'}
        yield f'group "{pattern}", ' + (f'{kind}({words(own)})' if kind else words(own))
    if t['schedule']:
        yield f'schedule {t["schedule"][0]}({words(t["schedule"][1])})'
    if t['clip'] is not None:
        yield f'clip {t["clip"]}'


def shared_lines(t):
    for name in 'accumulate', 'ema', 'loss_scale':
        if t[name] is not None and (name, t[name]) != ('accumulate', 1):
            yield f'{name} {t[name]}'
    yield f'steps {STEPS}'


def call_lines(p, part):
    for m, args, outputs, teacher in p.calls(part):
        if teacher:
            how = [f'decay={teacher.decay}'] * (teacher.decay is not None) + [f'every={teacher.every}'] * (teacher.every is not None)
            yield f'average {teacher.name} = {m.name}, {", ".join(how)}'
        words = [*map(show, m.args_of(args)), *([f'parameters={teacher.name}'] if teacher else [])]
        yield f'{", ".join(outputs)} = {m.name}({", ".join(words)})'


def part_lines(p, part):
    """What a phase, or a training without phases, computes and learns from."""
    if part is p or p.inside:
        yield from call_lines(p, part)
    yield from (f'loss {name} = {show(n)}' for name, n in part.losses)
    yield from (f'metric {name} = {show(n)}' for name, n in part.metrics)
    yield from optimizer_lines(part.train)
    if part is not p:
        yield f'parameters {", ".join(part.models)}'


def print_program(p):
    lines = [f'precision {p.precision}', ''] if p.precision else []
    for b in p.blocks:
        words = [name + (f': {text_type(kind, shape)}' if b.typed and kind != 'b' else '') for name, (kind, shape) in b.parameters]
        lines += [f'block {b.name}({", ".join(words)}) {f"precision {b.precision} " if b.precision else ""}{{'] + body_lines(b.body, 1) + ['}', '']
    for m in p.models:
        words = [f'{name}: {text_type(kind, shape)}' for name, kind, shape, _ in m.inputs]
        lines += [f'model {m.name}({", ".join(words)}) {{'] + body_lines(m.body, 1) + ['}', '']
    lines.append('train {')
    known = {i[0] for m in p.models for i in m.inputs}
    names = list(p.data)
    typed = ''.join(f', {n}={text_type(*p.data[n][:2])}' for n in names if n not in known)
    whole = '' if p.rows else ', whole=true'                     # inputs need not have as many records each
    fields = ', '.join(number(n) for n in names)
    lines.append(f'    data {", ".join(names)} = safetensors("data.safetensors", fields=[{fields}]{whole}{typed})')
    lines += ['    ' + line for line in call_lines(p, None)] if p.phases and not p.inside else []
    for part in p.parts():
        inner = ['    ' + line for line in part_lines(p, part)]
        lines += inner if part is p else [f'    phase {part.name} {{', *('    ' + line for line in inner), '    }' + (f' every {part.every}' if part.every > 1 else '')]
    return '\n'.join(lines + ['    ' + line for line in shared_lines(p.train)] + ['}', ''])


def names_read(n):
    """What an expression of the train section reads."""
    return {n.attrs['name']} if n.op == 'name' else set().union(*map(names_read, n.args))


def walk(n):
    """All Nodes of an expression, those of bodies inside of it too."""
    yield n
    for x in n.args:
        yield from walk(x)
    for b in n.bodies():
        yield from walk_body(b)


def walk_body(b):
    for s in b.statements:
        if s[0] in ('let', 'update'):
            yield from walk(s[2])
        elif s[0] == 'loop':
            yield from walk_body(s[3])
    for r in b.results:
        yield from walk(r)


def bodies(p):
    """All bodies of a program, outer ones first."""
    def inside(b):
        yield b
        for s in b.statements:
            if s[0] == 'loop':
                yield from inside(s[3])
            elif s[0] in ('let', 'update'):
                for n in walk(s[2]):
                    for x in n.bodies():
                        yield from inside(x)
        for r in b.results:
            for n in walk(r):
                for x in n.bodies():
                    yield from inside(x)
    for holder in p.models + p.blocks:
        yield from inside(holder.body)
