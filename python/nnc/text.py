"""Expressions of the .nn language as trees, and how they are printed.

A tree holds no names of variables: it refers to values (Var). Names are given when a body is printed (names.py)."""
from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from typing import Any, Callable, Iterator

import torch

KEYWORDS = set('dim let block model train import param for in repeat if else checkpoint assert and or not true false as state update'.split())
WIDTH = 120


class Value:
    """A tensor of the traced program. `hint` is its name in the Python source, if it has one there; `callers` those that it has in the forward of each
    module around it, the outermost first, or None."""
    __slots__ = ('shape', 'dtype', 'hint', 'callers', 'where', 'serial')
    count = 0

    def __init__(self, shape, dtype: str, hint: str | None = None, where: str = ''):
        Value.count += 1
        self.shape, self.dtype, self.hint, self.callers, self.where, self.serial = list(shape), dtype, hint, [], where, Value.count


class Expr:
    def children(self) -> list['Expr']:
        return []

    def rebuild(self, children: list['Expr']) -> 'Expr':
        return self


@dataclasses.dataclass(eq=False)
class Const(Expr):
    """A number, boolean or string; where instances of a block differ in it, it becomes an argument."""
    value: Any


@dataclasses.dataclass(eq=False)
class Name(Expr):
    """A name that is printed as it is: an argument of the block, a dimension."""
    text: str


@dataclasses.dataclass(eq=False)
class Var(Expr):
    value: Value


@dataclasses.dataclass(eq=False)
class Param(Expr):
    """A parameter or state that is declared by itself, by its name in the state_dict."""
    path: str
    shape: list
    dtype: str
    is_state: bool = False
    tensors: list = dataclasses.field(default_factory=list)    # its values in the module, of each call that shares the declaration


@dataclasses.dataclass(eq=False)
class Initial(Expr):
    """An initialiser that has the distribution of these tensors; not printed where it is normal(1), the layer's own."""
    tensors: list


@dataclasses.dataclass(eq=False)
class List(Expr):
    items: list

    def children(self):
        return self.items

    def rebuild(self, children):
        return List(children)


@dataclasses.dataclass(eq=False)
class Call(Expr):
    """fn(args, names=values) as label. `names` that equal their default are not printed."""
    fn: str
    args: list
    names: dict = dataclasses.field(default_factory=dict)      # name: Expr
    defaults: dict = dataclasses.field(default_factory=dict)   # name: the value that is left out
    label: str | None = None                                   # the whole path of its parameters

    def children(self):
        return self.args + list(self.names.values())

    def rebuild(self, children):
        n = len(self.args)
        return Call(self.fn, children[:n], dict(zip(self.names, children[n:])), self.defaults, self.label)


@dataclasses.dataclass(eq=False)
class Op(Expr):
    """An operator of one or two operands."""
    op: str
    args: list

    def children(self):
        return self.args

    def rebuild(self, children):
        return Op(self.op, children)


class Missing:
    """The number of a part that a call does not have."""

    def __init__(self, is_bool: bool):
        self.is_bool = is_bool


@dataclasses.dataclass(eq=False)
class If(Expr):
    """if condition { then } else { otherwise }; flag is the name that the condition has as an argument."""
    condition: Expr
    flag: str
    then: Expr
    otherwise: Expr

    def children(self):
        return [self.condition, self.then, self.otherwise]

    def rebuild(self, children):
        return If(children[0], self.flag, children[1], children[2])


@dataclasses.dataclass(eq=False)
class Index(Expr):
    """x[slices]; each slice is an Expr, or a tuple of three (None where left out)."""
    x: Expr
    slices: list

    def children(self):
        flat = [self.x]
        for s in self.slices:
            flat += [p for p in s if p is not None] if isinstance(s, tuple) else [s]
        return flat

    def rebuild(self, children):
        it = iter(children[1:])
        slices = [tuple(None if p is None else next(it) for p in s) if isinstance(s, tuple) else next(it) for s in self.slices]
        return Index(children[0], slices)


@dataclasses.dataclass(eq=False)
class Scan(Expr):
    """A loop over an axis of `x`, what linear has made of a sequence for all gates: lstm_cell, gru_cell, or tanh or relu of the sum with the product of the state. `weights` are
    weight_hh and, where there are biases, bias_hh. It gives the last states, and the first of them of all steps."""
    cell: str
    axis: int
    reverse: bool
    x: Expr
    length: Expr
    init: list
    weights: list

    def children(self):
        return [self.x, self.length, *self.init, *self.weights]

    def rebuild(self, children):
        n = 2 + len(self.init)
        return Scan(self.cell, self.axis, self.reverse, children[0], children[1], children[2:n], children[n:])

    @property
    def kind(self) -> tuple:
        return 'scan', self.cell, self.axis, self.reverse, len(self.init), len(self.weights)


@dataclasses.dataclass(eq=False)
class Statement:
    """targets = expr, or what a block call or loop is made of."""
    targets: list
    expr: Expr
    where: str = ''          # file:line of the Python source
    called: list = dataclasses.field(default_factory=list)     # of a call of a block the names that its results have where it is called


@dataclasses.dataclass(eq=False)
class Loop:
    """for names in items { body }; carried: (initial, inside before, inside after, final) values."""
    name: str
    first: int
    names: list              # of what differs from round to round
    items: list              # per round: the values of `names`
    body: list
    carried: list
    count: str = ''          # the dim that says how many rounds there are; '': the number


def walk(e: Expr) -> Iterator[Expr]:
    yield e
    for c in e.children():
        yield from walk(c)


def transform(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """e with each node replaced by f(node) where that is not None, from the top."""
    new = f(e)
    if new is not None:
        return new
    children = e.children()
    return e.rebuild([transform(c, f) for c in children]) if children else e


def call(fn: str, *args, label: str | None = None, **names) -> Call:
    """names: value, or (value, default) of which the default is not printed."""
    given = {k: v if isinstance(v, tuple) else (v, ...) for k, v in names.items()}
    return Call(fn, [as_expr(a) for a in args], {k: as_expr(v) for k, (v, _) in given.items()},
                {k: d for k, (_, d) in given.items() if d is not ...}, label)


def as_expr(x: Any) -> Expr:
    if isinstance(x, Expr):
        return x
    if isinstance(x, Value):
        return Var(x)
    if isinstance(x, (list, tuple)):
        return List([as_expr(i) for i in x])
    return Const(x)


def constant_of(e: Expr) -> Any:
    """The Python value of a Const or a List of them; ... where it is no constant."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, List):
        items = [constant_of(i) for i in e.items]
        return ... if any(i is ... for i in items) else items
    return ...


def number(v: Any) -> str:
    if isinstance(v, bool):
        return 'true' if v else 'false'
    if isinstance(v, str):
        return '"' + v.replace('\\', '\\\\').replace('"', '\\"') + '"'
    if isinstance(v, int):
        return str(v)
    if math.isinf(v):
        return '1e30' if v > 0 else '-1e30'     # the language has no infinity; a softmax makes the same zeros of it (constants.refused_number)
    s = repr(float(v))
    if re.fullmatch(r'-?\d+e-?\d+', s):
        return re.sub(r'e-0*', 'e-', s)
    return re.sub(r'e-0*', 'e-', s)


measured: dict[int, tuple] = {}      # id: the tensor, mean, variance, least and largest element; of large tables each takes a while


def measure(t: torch.Tensor) -> tuple:
    if id(t) not in measured:
        variance, mean = torch.var_mean(t if t.dtype == torch.float64 else t.float(), correction=0)
        least, largest = torch.aminmax(t)
        measured[id(t)] = (t, float(mean), float(variance), float(least), float(largest))
    return measured[id(t)][1:]


def moments(tensors: list) -> tuple[float, float]:
    """Mean, and deviation: the root of the mean of the tensors' variances."""
    count = sum(t.numel() for t in tensors)
    weigh = lambda k: sum(measure(t)[k] * t.numel() for t in tensors) / count
    return weigh(0), weigh(1) ** 0.5


def initialiser(tensors: list) -> str:
    """zeros, ones, a number, or a normal distribution with the deviation of these values, in two digits."""
    first = float(tensors[0].reshape(-1)[0])
    if all(measure(t)[2:] == (first, first) for t in tensors):
        return {0.0: 'zeros', 1.0: 'ones'}.get(first, number(float(f'{first:.6g}')))
    mean, deviation = moments(tensors)
    shift = f', mean={number(float(f"{mean:.2g}"))}' if abs(mean) > deviation else ''
    return f'normal({number(float(f"{deviation:.2g}"))}{shift})'


def is_unit_normal(tensors: list) -> bool:
    mean, deviation = moments(tensors)
    return abs(mean) < 0.1 and 0.9 < deviation < 1.1


PRECEDENCE = {'|>': 0, 'or': 1, 'and': 2, 'not': 3, '==': 4, '!=': 4, '<': 4, '<=': 4, '>': 4, '>=': 4, '+': 5, '-': 5, '*': 6, '/': 6, '//': 6,
              '%': 6, 'neg': 7, '**': 8}
ATOM = 9


class Printer:
    """Expressions as text, in one body: `name_of(value)` and what is inlined are the body's."""

    def __init__(self, name_of: Callable[[Value], str], inlined: dict, base: str, in_loop: str | None):
        self.name_of, self.inlined, self.base, self.in_loop = name_of, inlined, base, in_loop
        self.parameters: dict[str, str] = {}

    def label(self, path: str, fn: str) -> str:
        rel = relative(path, self.base)
        if self.in_loop is None and re.fullmatch(r'[A-Za-z_]\w*', rel, re.ASCII) and rel not in KEYWORDS:
            return f' as {rel}'
        return f' as {number(rel)}'

    def expr(self, e: Expr, outer: int = 0) -> str:
        text, own = self.parts(e)
        return f'({text})' if own < outer else text

    def parts(self, e: Expr) -> tuple[str, int]:
        if isinstance(e, Const):
            negative = isinstance(e.value, (int, float)) and not isinstance(e.value, bool) and e.value < 0
            return number(e.value), PRECEDENCE['neg'] if negative else ATOM
        if isinstance(e, Name):
            return e.text, ATOM if re.fullmatch(r'\w+', e.text) else PRECEDENCE['*']
        if isinstance(e, Var):
            if e.value in self.inlined:
                return self.parts(self.inlined[e.value])
            return self.name_of(e.value), ATOM
        if isinstance(e, Param):
            return self.parameters[e.path], ATOM
        if isinstance(e, Initial):
            return initialiser(e.tensors), ATOM
        if isinstance(e, List):
            return '[' + ', '.join(self.expr(i, 1) for i in e.items) + ']', ATOM
        if isinstance(e, Op):
            return self.operator(e)
        if isinstance(e, If):
            return f'if {self.expr(e.condition)} {{ {self.expr(e.then)} }} else {{ {self.expr(e.otherwise)} }}', -1
        if isinstance(e, Index):
            return self.expr(e.x, ATOM) + '[' + ', '.join(self.slice(s) for s in e.slices) + ']', ATOM
        if isinstance(e, Call):
            return self.call(e)
        if isinstance(e, Scan):
            return self.scan(e), ATOM
        raise TypeError(e)

    def scan(self, e: Scan) -> str:
        """Three lines."""
        states, weights = ['h', 'c'][:len(e.init)], [self.expr(w, 1) for w in e.weights]
        carried = ', '.join(states)
        if e.cell in ('tanh', 'relu'):
            body = f'{e.cell}(step + matmul(h, transpose({weights[0]}))' + (f' + {weights[1]})' if weights[1:] else ')')
        else:
            body = f'{e.cell}(step, {carried}, projected=true, weight_hh={weights[0]}, ' + (f'bias_hh={weights[1]})' if weights[1:] else 'bias=false)')
        inside = carried if len(states) == 1 else f'({carried})'
        first = ', '.join(self.expr(i, 1) for i in e.init)
        first = first if len(states) == 1 else f'({first})'
        head = f'scan({self.expr(e.x, 1)} over {self.expr(e.length, 1)}, axis={e.axis}, init={first}' + (', reverse=true)' if e.reverse else ')')
        return f'{head} {{ step, {inside} ->\n{carried} = {body}\n{carried}, h'

    def operator(self, e: Op) -> tuple[str, int]:
        if len(e.args) == 1:
            p = PRECEDENCE['neg' if e.op == '-' else e.op]
            return ('-' if e.op == '-' else e.op + ' ') + self.expr(e.args[0], p), p
        p = PRECEDENCE[e.op]
        left, right = (p + 1, p) if e.op == '**' else (p, p + 1)
        if p == 4:
            left = right = 5
        space = '' if p in (6, 8) else ' '
        return f'{self.expr(e.args[0], left)}{space}{e.op}{space}{self.expr(e.args[1], right)}', p

    def slice(self, s) -> str:
        if not isinstance(s, tuple):
            return self.expr(s, 1)
        start, stop, step = ('' if p is None else self.expr(p, 1) for p in s)
        return f'{start}:{stop}' + (f':{step}' if step else '')

    def arguments(self, e: Call, skip: int) -> list[str]:
        out = [self.expr(a, 1) for a in e.args[skip:]]
        for name, v in e.names.items():
            if name in e.defaults and constant_of(v) == e.defaults[name] and type(constant_of(v)) in (type(e.defaults[name]), int, float, list):
                continue
            if isinstance(v, Initial) and is_unit_normal(v.tensors):
                continue
            out.append(f'{name}={self.expr(v, 1)}')
        return out

    def call(self, e: Call) -> tuple[str, int]:
        label = self.label(e.label, e.fn) if e.label is not None else ''
        first = e.args[0] if e.args else None
        source = self.inlined.get(first.value) if isinstance(first, Var) else None
        if source is None and isinstance(first, (Call,)):
            source = first
        args = self.arguments(e, 1) if e.args else []
        behind = f'{e.fn}' + (f'({", ".join(args)})' if args else '') + label
        if isinstance(source, Call) and source.args and self.is_tensor(source.args[0]):
            return f'{self.pipe(source)} |> {behind}', 0
        return f'{e.fn}({", ".join(self.arguments(e, 0))}){label}', ATOM if not label else 0

    def pipe(self, e: Call) -> str:
        """The source of a pipe, which begins with the name of what goes in."""
        text, first = self.parts(e)[0], e.args[0]
        if isinstance(first, Var) and first.value not in self.inlined and not text.startswith(self.name_of(first.value) + ' |>'):
            args = self.arguments(e, 1)
            label = self.label(e.label, e.fn) if e.label is not None else ''
            return f'{self.name_of(first.value)} |> {e.fn}' + (f'({", ".join(args)})' if args else '') + label
        return text

    @staticmethod
    def is_tensor(e: Expr) -> bool:
        return isinstance(e, (Var, Call, Op, Index))


def relative(path: str, base: str) -> str:
    """path below the module at `base`."""
    if not base:
        return path
    assert path.startswith(base + '.'), (path, base)
    return path[len(base) + 1:]


def ascii_name(name: str) -> str:
    """The language's names have ASCII letters: o of ö, sigma of σ."""
    letters = (c for c in unicodedata.normalize('NFKD', name) if not unicodedata.combining(c))
    return ''.join(c if c.isascii() else unicodedata.name(c, 'x').split()[-1].lower() for c in letters)


def snake_case(name: str) -> str:
    s = name if name.isascii() else ascii_name(name)
    s = re.sub(r'(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[A-Z][A-Za-z])', '_', s).lower().strip('_')
    s = re.sub(r'\W|__+', '_', s)
    s = re.sub(r'(?<=[a-z])_net(?=_|$)', 'net', s)
    if not s or s[0].isdigit():
        s = 'n' + s
    return s + '_' if s in KEYWORDS else s


# Functions of the language whose names classes of modules often have: a block gets another one.
RESERVED = set('linear conv1d conv2d batchnorm layernorm rmsnorm groupnorm embedding dropout relu gelu silu attention mean sum pad split concat resize softmax sigmoid tanh mish '
               'elu selu glu swiglu geglu hardswish hardsigmoid prelu flatten stack squeeze unsqueeze flip roll scan norm normalize interpolate fold unfold maxpool avgpool'.split())
