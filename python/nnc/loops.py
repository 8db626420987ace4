"""Statements that repeat become a loop: rounds of equal structure, whose labels count up, and each of which reads what the one before has made."""
from __future__ import annotations

import re

from .text import KEYWORDS, RESERVED, Call, Const, Expr, Index, Loop, Name, Op, Param, Scan, Statement, Value, Var, walk

LONGEST = 40          # statements of a round
FEWEST_NAMED = 5      # rounds of a loop over names such as layer1, which are written by themselves where they are fewer


def find_loops(statements: list, outputs: list, base: str) -> list:
    """The statements with loops for what repeats, the one that takes in most first."""
    keys = [statement_key(s, base) for s in statements]
    paths = [[split(path_of(e) or '') for e in walk(s.expr)] if isinstance(s, Statement) else [] for s in statements]
    best = None
    for start in range(len(statements)):
        for length in range(1, min(LONGEST, (len(statements) - start) // 2) + 1):
            if keys[start] != keys[start + length]:
                continue
            rounds = 1
            while start + (rounds + 1) * length <= len(keys) and keys[start + (rounds - 1) * length:start + rounds * length] == keys[start + rounds * length:start + (rounds + 1) * length]:
                if any(not counts_up(paths[start + (rounds - 1) * length + k], paths[start + rounds * length + k]) for k in range(length)):
                    break
                rounds += 1
            gain = (rounds - 1) * length
            fewest = 2 if length >= 3 or is_row(statements[start]) else 3
            if rounds < fewest or best and gain <= best[0]:
                continue
            loop = None
            while rounds >= fewest and loop is None and not (best and (rounds - 1) * length <= best[0]):
                loop = make_loop(statements, outputs, base, start, length, rounds)
                rounds -= 0 if loop else 1
            if loop:
                best = ((rounds - 1) * length, start, start + rounds * length, loop)
    if not best:
        return statements
    _, start, end, loop = best
    before, after = statements[:start], statements[end:]
    later = [v for s in [loop] + after for v in read_by(s)] + list(outputs)
    return find_loops(before, later, base) + [loop] + find_loops(after, outputs, base)


def counts_up(before: list, after: list) -> bool:
    """Whether the labels of one round are those of the round before, or have the next number."""
    return all(p == q or p.isdigit() and q.isdigit() and int(q) == int(p) + 1 for a, b in zip(before, after) for p, q in zip(a, b))


def is_row(s) -> bool:
    """A call of a block that is labelled layer1.0 or so."""
    return isinstance(s, Statement) and isinstance(s.expr, Call) and s.expr.fn not in RESERVED and re.search(r'\.\d+$', s.expr.label or '') is not None


def read_by(s) -> list[Value]:
    if isinstance(s, Statement):
        return [e.value for e in walk(s.expr) if isinstance(e, Var)]
    return [i for i, *_ in s.carried] + [v for b in s.body for v in read_by(b)]


def split(path: str) -> list[str]:
    """Numbers, and what is between them: layers.0.norm1 has two."""
    return re.findall(r'\d+|\D+', path)


def numbers_out(path: str) -> str:
    return ''.join('#' if p.isdigit() else p for p in split(path))


def statement_key(s, base: str):
    if isinstance(s, Loop):
        return ('loop', id(s))

    def of(e: Expr):
        if isinstance(e, Const):
            return ('const', e.value) if e.value is None or isinstance(e.value, str) else ('slot', type(e.value) is bool)
        if isinstance(e, Var):
            return 'var'
        if isinstance(e, Param):
            return ('param', numbers_out(e.path), str(e.shape))
        head = type(e).__name__
        if isinstance(e, Call):
            head = (e.fn, tuple(e.names), len(e.args), None if e.label is None else numbers_out(e.label))
        elif isinstance(e, Scan):
            head = e.kind
        elif isinstance(e, Op):
            head = e.op
        elif isinstance(e, Name):
            head = e.text
        elif isinstance(e, Index):
            head = str([tuple(p is None for p in x) if isinstance(x, tuple) else 0 for x in e.slices])
        return (head,) + tuple(of(c) for c in e.children())
    return (of(s.expr), len(s.targets))


class Mismatch(Exception):
    pass


def flat_nodes(statements: list) -> list[Expr]:
    return [e for s in statements for e in walk(s.expr)]


def make_loop(statements: list, outputs: list, base: str, start: int, length: int, rounds: int) -> Loop | None:
    windows = [statements[start + w * length:start + (w + 1) * length] for w in range(rounds)]
    try:
        return build(windows, statements[start + rounds * length:], outputs, base)
    except Mismatch:
        return None


def place_of_values(window: list) -> dict[Value, int]:
    return {v: i for i, v in enumerate(v for s in window for v in s.targets)}


def build(windows: list, after: list, outputs: list, base: str) -> Loop:
    places = [place_of_values(w) for w in windows]
    nodes = [flat_nodes(w) for w in windows]
    initial: dict[int, Value] = {}
    carried_nodes: set[int] = set()
    for k, column in enumerate(zip(*nodes)):
        if isinstance(column[0], Var):
            if reads_previous([n.value for n in column], places, initial):
                carried_nodes.add(k)
    values = [list(p) for p in places]
    finals = {values[-1][p] for p in initial}
    made_before_end = {v for w in values for v in w} - finals
    if not initial and len(windows) < 3:
        raise Mismatch
    if made_before_end & ({v for s in after for v in read_by(s)} | set(outputs)):
        raise Mismatch
    if any(v in places[w] for w in range(len(windows)) for v in initial.values()):
        raise Mismatch
    counter, columns = labels(nodes, base)
    slots = constants(nodes)
    names = loop_names(nodes[0], slots, counter)
    before = {p: Value(v.shape, v.dtype, v.hint) for p, v in initial.items()}
    body = template(windows[0], initial, before, carried_nodes, names, [counted_path(a, b, counter) for a, b in zip(nodes[0], nodes[1])])
    rows = [tuple(slots[k][w] for k in names) for w in range(len(windows))]
    if names and len(windows) == 2 and len(windows[0]) == 1:
        raise Mismatch
    if names and len(set(rows)) <= (len(rows) + 1) // 2:
        raise Mismatch                     # most rounds are equal: the others are better written by themselves
    unique: list[str] = list(dict.fromkeys(names.values()))
    rows = [tuple(dict(zip(names.values(), row))[n] for n in unique) for row in rows]
    first = columns[0] if columns else 0
    if unique:
        items = [((first + w,) if columns else ()) + row for w, row in enumerate(rows)]
    else:
        items = [() for _ in windows]
    loop = Loop(counter if columns else '', first, unique, items, body, [(initial[p], before[p], values[0][p], values[-1][p]) for p in initial])
    return loop


def reads_previous(column: list, places: list, initial: dict) -> bool:
    """Whether a place of the round reads what the round before made; Mismatch if the rounds differ in another way."""
    local = [places[w].get(v) for w, v in enumerate(column)]
    if all(p is not None for p in local):
        if len(set(local)) != 1:
            raise Mismatch
        return False
    if any(p is not None for p in local):
        raise Mismatch
    if all(v is column[0] for v in column):
        return False
    previous = {places[w - 1].get(column[w]) for w in range(1, len(column))}
    if len(previous) != 1 or None in previous:
        raise Mismatch
    p = previous.pop()
    if initial.setdefault(p, column[0]) is not column[0]:
        raise Mismatch
    return True


def path_of(e: Expr) -> str | None:
    return e.path if isinstance(e, Param) else e.label if isinstance(e, Call) else None


def labels(nodes: list, base: str) -> tuple[str, list]:
    """The counter's name, and its numbers where labels have them. All labels that differ must differ in the same number, which counts up by one."""
    counted: list[int] | None = None
    for column in zip(*nodes):
        paths = [path_of(e) for e in column]
        if paths[0] is None or all(p == paths[0] for p in paths):
            continue
        for at, parts in enumerate(zip(*map(split, paths))):
            if all(p == parts[0] for p in parts):
                continue
            if len(parts) < FEWEST_NAMED and at and not split(paths[0])[at - 1].endswith('.'):
                raise Mismatch
            numbers = [int(p) for p in parts]
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or counted not in (None, numbers):
                raise Mismatch
            counted = numbers
    used = {e.text for e in nodes[0] if isinstance(e, Name)}
    return next(n for n in ('i', 'k', 'n', 'm') if n not in used), counted or []


def constants(nodes: list) -> dict[int, tuple]:
    """Of each constant that differs its numbers, by its place among the nodes."""
    found = {}
    for k, column in enumerate(zip(*nodes)):
        if isinstance(column[0], Const):
            vector = tuple(e.value for e in column)
            if any(v != vector[0] or type(v) is not type(vector[0]) for v in vector):
                found[k] = vector
        elif isinstance(column[0], Param) and any(e.shape != column[0].shape for e in column):
            raise Mismatch
    if len(set(found.values())) > 4:
        raise Mismatch
    return found


def loop_names(nodes: list, slots: dict, counter: str) -> dict[int, str]:
    """A name for each different vector of constants: that of the argument it is given as."""
    wanted: dict[int, str] = {}
    position = {id(e): k for k, e in enumerate(nodes)}
    for e in nodes:
        if isinstance(e, Call):
            for n, a in e.names.items():
                wanted[position[id(a)]] = n
            for i, a in enumerate(e.args):
                wanted.setdefault(position[id(a)], ARGUMENT_NAMES.get(e.fn, {}).get(i, 'n'))
    names: dict[tuple, str] = {}
    taken = {e.text for e in nodes if isinstance(e, Name)} | {counter}
    for k, vector in slots.items():
        if vector not in names:
            base, j = wanted.get(k, 'n'), 2
            name = base
            while name in taken or name in KEYWORDS:
                name, j = f'{base}_{j}', j + 1
            taken.add(name)
            names[vector] = name
    return {k: names[v] for k, v in slots.items()}


ARGUMENT_NAMES: dict[str, dict[int, str]] = {'linear': {1: 'features'}, 'conv2d': {1: 'channels'}, 'dropout': {1: 'p'}, 'maxpool': {1: 'kernel'}}


def counted_path(first: Expr, second: Expr, counter: str) -> str | None:
    """The path of a node with {i} where the next round has another number."""
    a, b = path_of(first), path_of(second)
    return None if a is None else ''.join(p if p == q else f'{{{counter}}}' for p, q in zip(split(a), split(b)))


def template(window: list, initial: dict, before: dict, carried_nodes: set, names: dict, paths: list) -> list:
    """The first round with names for what differs, in the order in which `walk` goes."""
    at = iter(range(len(paths)))
    carried = {v: before[p] for p, v in initial.items()}

    def fill(e: Expr) -> Expr:
        k = next(at)
        if isinstance(e, Const):
            return Name(names[k]) if k in names else e
        if isinstance(e, Var):
            return Var(carried[e.value]) if k in carried_nodes else e
        if isinstance(e, Param):
            return Param(paths[k], e.shape, e.dtype, e.is_state, e.tensors)
        new = e.rebuild([fill(c) for c in e.children()])
        if isinstance(new, Call) and new is not e:
            new.label = paths[k]
        return new

    return [Statement(s.targets, fill(s.expr), s.where, s.called) for s in window]
