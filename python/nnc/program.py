"""A program as text: which values get a name, what is written as a pipe, where lines are broken."""
from __future__ import annotations

import functools
import re
from typing import Callable

from .blocks import Block
from .dims import name_dims
from .loops import find_loops
from .text import KEYWORDS, WIDTH, Call, Const, Expr, If, Loop, Op, RESERVED, Param, Printer, Scan, Statement, Value, Var, initialiser, number, snake_case, walk

INDENT = '    '
FALLBACK = ['x', 'y', 'z', 'u', 'v', 'w']


class BodyPrinter:
    """The statements of one block or model, or of a loop in it."""

    def __init__(self, reserved: set, base: str, in_loop: str | None = None):
        self.reserved, self.base, self.in_loop = set(reserved), base, in_loop
        self.name: dict[Value, str] = {}
        self.holds: dict[str, Value] = {}
        self.remaining: dict[Value, int] = {}
        self.pending: dict[Value, Statement] = {}
        self.parameters: dict[str, str] = {}
        self.lines: list[str] = []
        self.indent = INDENT

    # --- names

    def bind(self, v: Value, name: str):
        self.name[v], self.holds[name] = name, v

    def free(self, name: str, keep: Value | None = None) -> bool:
        held = self.holds.get(name)
        return name not in KEYWORDS and name not in self.reserved and (held is None or held is keep or self.remaining.get(held, 0) <= 0)

    def choose(self, v: Value, hint: str | None = None) -> str:
        hint = hint or v.hint
        if hint and not re.fullmatch(r'[A-Za-z]\w*|_[A-Za-z]\w*', hint):
            hint = None
        options = ([snake_case(hint)] if hint else []) + FALLBACK
        for o in options:
            if self.free(o):
                return o
        base, k = options[0], 2
        while not self.free(f'{base}_{k}'):
            k += 1
        return f'{base}_{k}'

    def printer(self) -> Printer:
        p = Printer(lambda v: self.name[v], {v: s.expr for v, s in self.pending.items()}, self.base, self.in_loop)
        p.parameters = self.parameters
        return p

    # --- statements

    def count(self, statements: list, outputs: list):
        for s in statements:
            for v in reads(s):
                self.remaining[v] = self.remaining.get(v, 0) + 1
        for v in outputs:
            self.remaining[v] = self.remaining.get(v, 0) + 1

    def declare(self, statements: list):
        guards = conditions(statements, self.printer().expr)
        for p in parameters(statements):
            if p.path in self.parameters:
                continue
            rel = p.path[len(self.base) + 1:] if self.base else p.path
            last = snake_case(rel.split('.')[-1])
            name, k = last, 2
            while not self.free(name):
                name, k = f'{last}_{k}', k + 1
            self.reserved.add(name)
            self.parameters[p.path] = name
            label = '' if name == rel and self.in_loop is None else f' as {number(rel)}'
            shape = ', '.join(number(n) if isinstance(n, int) else self.printer().expr(n) for n in p.shape)
            declaration = f'{"state" if p.is_state else "param"} {name}{label}: {p.dtype}[{shape}]' + ('' if p.is_state else initial_text(p))
            guard = guards[p.path]
            if guard is not None:
                declaration = f'if {self.printer().expr(guard)} {{ {declaration} }}'
            self.emit(declaration)

    def assert_positions(self, statements: list):
        """Indices beyond a table are clamped: a length that becomes a dim (sizes.py) may not be more than the rows that are counted through."""
        for s in statements:
            for e in walk(s.expr) if isinstance(s, Statement) else ():
                count = counted(e.args[0]) if isinstance(e, Call) and e.fn == 'embedding' else None
                if count is not None and isinstance(e.args[1], Const):
                    self.emit(f'assert {self.printer().expr(count)} <= {e.args[1].value}, "the sequence is longer than the table of positions"')

    def emit(self, line: str):
        inside = re.fullmatch(r'(if [^{}]*\{) ([^{}]*) \}', line)
        if len(self.indent + line) > WIDTH and inside:
            self.lines.append(self.indent + inside[1])
            self.indent += INDENT
            self.emit(inside[2])
            self.indent = self.indent[:-len(INDENT)]
            line = '}'
        elif len(self.indent + line) > WIDTH:
            line = break_pipes(line, self.indent, WIDTH)
        self.lines.append(self.indent + line)

    def spend(self, e: Expr):
        """The values that e reads, also through what is inlined, are read now."""
        for x in walk(e):
            if isinstance(x, Var):
                self.remaining[x.value] -= 1
                inner = self.pending.pop(x.value, None)
                if inner is not None:
                    self.spend(inner.expr)

    def flush(self, v: Value):
        s = self.pending.pop(v)
        self.assign(s)

    def assign(self, s: Statement):
        text = self.printer().expr(s.expr, -1)
        carried = self.handed_on(s)
        self.spend(s.expr)
        names = []
        for v, called in zip(s.targets, s.called or [None] * len(s.targets)):
            n = self.choose(v, called or carried)
            self.bind(v, n)
            names.append(n)
        text = if_statement(s.expr, names, text) or f'{", ".join(names)} = {text}'
        if isinstance(s.expr, Scan):
            head, *body = text.split('\n')
            self.lines += [self.indent + head, *(self.indent + INDENT + line for line in body)]
            text = '}'
        self.emit(text)

    def handed_on(self, s: Statement) -> str | None:
        """The name of what goes into a row of modules, for what comes out of it."""
        while s is not None and s.called and len(s.targets) == 1 and isinstance(s.expr, Call):
            first = s.expr.args[0] if s.expr.args else None
            if not isinstance(first, Var) or first.value in self.name:
                return self.name.get(first.value) if isinstance(first, Var) else None
            s = self.pending.get(first.value)
        return None

    def fit(self, e: Expr, extra: int):
        """Gives names to what is inlined into e until its text fits into a line."""
        for _ in range(30):
            waiting = [x.value for x in inlined_values(e, self.pending)]
            if not waiting or len(self.printer().expr(e)) + extra <= WIDTH - 4:
                return
            first = e.args[0] if isinstance(e, Call) and e.args else None
            source = first.value if isinstance(first, Var) and first.value in self.pending else waiting[0]
            self.flush(source)

    def body(self, statements: list, outputs: list):
        self.count(statements, outputs)
        uses = dict(self.remaining)
        for loop in [s for s in statements if isinstance(s, Loop)]:
            for initial, _, after, _ in loop.carried:
                called = [dict(zip(s.targets, s.called)).get(after) for s in loop.body if isinstance(s, Statement)]
                if uses.get(initial) == 1:
                    initial.hint = next((n for n in called if n), initial.hint)
        for s in statements:
            if isinstance(s, Loop):
                self.loop(s)
                continue
            self.fit(s.expr, 12)
            self.choose_inlined(s.expr)
            if len(s.targets) == 1 and uses.get(s.targets[0], 0) == 1 and worth_inlining(s, statements):
                self.pending[s.targets[0]] = s
            else:
                self.assign(s)

    def choose_inlined(self, e: Expr):
        """Of what e reads, that which is long and not the source of its pipe gets a name."""
        direct = [c.value for x in walk(e) for c in x.children() if isinstance(c, Var) and c.value in self.pending]
        first = e.args[0] if isinstance(e, Call) and e.args else None
        for v in direct:
            if isinstance(first, Var) and first.value is v:
                continue
            if v in self.pending and (len(self.printer().expr(self.pending[v].expr)) > 48 or self.pending[v].targets[0].hint and len(self.printer().expr(self.pending[v].expr)) > 24):
                self.flush(v)

    def finish(self, outputs: list):
        for v in outputs:
            if v in self.pending:
                self.fit(self.pending[v].expr, 2)
        text = ', '.join(self.printer().expr(Var(v), 1 if len(outputs) > 1 else 0) for v in outputs)
        for v in list(self.pending):
            self.pending.pop(v, None)
        self.emit(text)

    def loop(self, loop: Loop):
        for v in list(self.pending):
            self.flush(v)
        names = ', '.join(([loop.name] if loop.name else []) + loop.names)
        inside = set(loop.names) | {loop.name}
        for initial, before, after, final in loop.carried:
            name = self.name[initial]
            others = self.remaining[initial]
            if others > 1 or not self.free(name, initial) :
                fresh = self.choose(final)
                self.emit(f'{fresh} = {name}')
                name = fresh
            self.remaining[initial] -= 1
            self.bind(before, name)
            final_name = name
            loop_names = getattr(loop, 'final_names', {})
            loop_names[final] = final_name
            loop.final_names = loop_names
        if loop.names:
            rounds = ', '.join('(' + ', '.join(map(number, row)) + ')' if len(row) > 1 else number(row[0]) for row in loop.items)
            rounds = f'[{rounds}]' if len(loop.items[0]) == 1 else rounds
            head = f'for {names} in {rounds}'
        elif not loop.name:
            head = f'repeat {loop.count or len(loop.items)}'
        else:
            head = f'for {loop.name} in {loop.first}..{loop.count or loop.first + len(loop.items)}'
        kept = {self.name[v] for v in self.name if self.remaining.get(v, 0) > 0} - {self.name[before] for _, before, _, _ in loop.carried}
        inner = BodyPrinter(self.reserved | inside | kept, self.base, loop.name)
        inner.name, inner.indent = dict(self.name), self.indent + INDENT
        inner.parameters = dict(self.parameters)
        for _, before, after, _ in loop.carried:
            inner.holds[self.name[before]] = before
            after.hint = self.name[before]
        outs = [after for _, _, after, _ in loop.carried]
        inner.declare(loop.body)
        inner.body(loop.body, outs)
        for _, before, after, _ in loop.carried:
            if after in inner.pending:
                inner.fit(inner.pending[after].expr, 12)
                inner.remaining[before] = 0
                inner.flush(after)
            if inner.name[after] != self.name[before]:
                inner.emit(f'{self.name[before]} = {inner.name[after]}')
        if len(inner.lines) == 1 and len(head) + len(inner.lines[0].strip()) < WIDTH - 12:
            self.emit(f'{head} {{ {inner.lines[0].strip()} }}')
        else:
            self.emit(head + ' {')
            self.lines += inner.lines
            self.emit('}')
        for v in reads(loop):
            if v in self.remaining and v not in [i for i, *_ in loop.carried]:
                self.remaining[v] -= 1
        for _, before, _, final in loop.carried:
            self.bind(final, loop.final_names[final])


def counted(e: Expr) -> Expr | None:
    """The number behind the last of iota(n), or iota(n) + k, in another shape or not."""
    if isinstance(e, Call) and e.fn in ('reshape', 'broadcast_to'):
        return counted(e.args[0])
    if isinstance(e, Op) and e.op == '+' and isinstance(e.args[1], Const):
        inner = counted(e.args[0])
        return Op('+', [inner, e.args[1]]) if inner is not None else None
    return e.args[0] if isinstance(e, Call) and e.fn == 'iota' else None


def initial_text(p: Param) -> str:
    initial = initialiser(p.tensors)
    return '' if initial == 'zeros' else f' = {initial}'


def reads(s) -> list[Value]:
    """Values read by a statement, or from outside by a loop (carried ones not among them)."""
    if isinstance(s, Statement):
        return [e.value for e in walk(s.expr) if isinstance(e, Var)]
    made = {v for b in s.body for v in (b.targets if isinstance(b, Statement) else [f for *_, f in b.carried])} | {before for _, before, _, _ in s.carried}
    inner = {v for b in s.body for v in reads(b) if v not in made}
    return [i for i, *_ in s.carried] + list(inner)


def parameters(statements: list):
    for s in statements:
        if isinstance(s, Statement):
            yield from (e for e in walk(s.expr) if isinstance(e, Param))


def conditions(statements: list, text: Callable[[Expr], str]) -> dict[str, Expr | None]:
    """Of each parameter the condition under which it is read; None where it always is.

    Conditions of one text are the same."""
    found: dict[str, list[dict]] = {}      # of each place that reads it the conditions around it, and whether they hold
    known: dict[str, Expr] = {}

    def visit(e: Expr, under: dict):
        if isinstance(e, Param):
            found.setdefault(e.path, []).append(under)
        elif isinstance(e, If):
            visit(e.condition, under)
            key = text(e.condition)
            known[key] = e.condition
            visit(e.then, {**under, key: True})
            visit(e.otherwise, {**under, key: False})
        else:
            for c in e.children():
                visit(c, under)
    for s in statements:
        if isinstance(s, Statement):
            visit(s.expr, {})

    def joined(op: str, parts: list) -> Expr:
        return functools.reduce(lambda a, b: Op(op, [a, b]), parts)

    def condition(places: list[dict]) -> Expr | None:
        places = united(places)
        if {} in places:
            return None
        one = lambda k, holds: known[k] if holds else Op('not', [known[k]])
        return joined('or', [joined('and', [one(k, holds) for k, holds in p.items()]) for p in places])
    return {path: condition(places) for path, places in found.items()}


def united(places: list[dict]) -> list[dict]:
    """Without those that are there twice, and with one for two that differ only in whether one condition holds."""
    out: list[dict] = []
    for p in places:
        partner = next((q for q in out if p.keys() == q.keys() and sum(p[k] != q[k] for k in p) <= 1), None)
        if partner is None:
            out.append(p)
        elif partner != p:
            out.remove(partner)
            out = united([*out, {k: holds for k, holds in p.items() if holds == partner[k]}])
    return out


def inlined_values(e: Expr, pending: dict):
    return [x for x in walk(e) if isinstance(x, Var) and x.value in pending]


def worth_inlining(s: Statement, statements: list) -> bool:
    """What a following loop reads gets a name, and what the first module of a row of them reads: a stage begins on a line of its own."""
    v = s.targets[0]
    for t in statements:
        if isinstance(t, Loop) and v in reads(t):
            return False
        if isinstance(t, Statement) and isinstance(t.expr, Call) and row_of(t.expr) and t.expr.args and isinstance(t.expr.args[0], Var) and t.expr.args[0].value is v:
            return isinstance(s.expr, Call) and row_of(s.expr) == row_of(t.expr)
    return True


def row_of(e: Call) -> str | None:
    """layer1 of a call that is labelled layer1.0, of a block."""
    row, _, number_ = (e.label or '').rpartition('.')
    return row if number_.isdigit() and e.fn not in RESERVED else None


def if_statement(e: Expr, names: list, text: str) -> str | None:
    """if condition { x = f(x) } in place of x = if condition { f(x) } else { x }."""
    end = f' else {{ {names[0]} }}'
    if not isinstance(e, If) or not text.endswith(end) or len(names) > 1:
        return None
    head, _, body = text[:-len(end)].partition(' { ')
    return f'{head} {{ {names[0]} = {body}'


def break_pipes(line: str, indent: str, width: int) -> str:
    """A long line goes on at a |> that stands in no brackets."""
    parts, depth, first = [], 0, 0
    for i, c in enumerate(line):
        depth += (c in '([{') - (c in ')]}')
        if not depth and line.startswith(' |> ', i):
            parts.append(line[first:i])
            first = i + 4
    parts.append(line[first:])
    if len(parts) == 1:
        return line
    out, current = [], parts[0]
    for p in parts[1:]:
        if len(indent) + len(current) + len(p) + 4 > width:
            out.append(current)
            current = INDENT + '|> ' + p
        else:
            current += ' |> ' + p
    out.append(current)
    return ('\n' + indent).join(out)


def block_text(block: Block, input_names: list, globals_: set) -> list[str]:
    arguments = [n for n, _ in block.arguments]
    dims = {d for t in block.types if t for d in t}
    reserved = set(arguments) | dims | globals_
    p = BodyPrinter(reserved, block.path)
    parameters_ = []
    for v, t, wanted in zip(block.inputs, block.types, input_names):
        name, k = wanted, 2
        while not p.free(name) or name in p.holds:
            name, k = f'{wanted}_{k}', k + 1
        p.bind(v, name)
        parameters_.append(name + (f': [{", ".join(t)}]' if t else ''))
    for n, d in block.arguments:
        parameters_.append(n if d is ... else f'{n}={number(d)}')
    statements = find_loops(block.statements, block.outputs, block.path)
    p.assert_positions(statements)
    p.declare(statements)
    p.body(statements, block.outputs)
    p.finish(block.outputs)
    head = f'block {block.name}({", ".join(parameters_)})'
    if len(p.lines) == 1 and len(head) + len(p.lines[0].strip()) < WIDTH - 4:
        return [f'{head} {{ {p.lines[0].strip()} }}']
    return [head + ' {'] + p.lines + ['}']


def model_text(name: str, inputs: list, statements: list, outputs: list, globals_: set) -> tuple[list[str], list]:
    """The model's lines, and (name, size) of its dims that are none of its inputs."""
    p = BodyPrinter(globals_, '')
    parameters_ = []
    for v in inputs:
        wanted = snake_case(v.hint or 'x')
        p.bind(v, wanted)
        shape = ', '.join(map(str, v.shape))
        parameters_.append(f'{wanted}: {v.dtype}[{shape}]')
    statements = find_loops(statements, outputs, '')
    dims = name_dims(statements, inputs, outputs)
    p.assert_positions(statements)
    p.declare(statements)
    p.body(statements, outputs)
    p.finish(outputs)
    return [f'model {name}({", ".join(parameters_)}) {{'] + p.lines + ['}'], dims
