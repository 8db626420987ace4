"""Modules of one class whose operations differ in parts: a layer that some of them do without, one activation instead of another. The parts become
`if argument { … } else { … }`, so that the class stays one block."""
from __future__ import annotations

import difflib

from .regions import Region
from .text import Call, Const, Expr, If, Missing, Param, Statement, Value, Var, snake_case, transform, walk

MOST_PARTS = 4


class Different(Exception):
    pass


def row_keys(region: Region) -> list:
    from .blocks import structure
    (_, rows, _, _), _ = structure(region)
    return [anonymous(row) for row, _ in rows]


def anonymous(row):
    """Without the numbers of variables, which differ behind a part that is missing."""
    if isinstance(row, tuple):
        if len(row) == 2 and row[0] == 'var':
            return 'var'
        return tuple(anonymous(r) for r in row)
    return row


def merge_groups(groups: list[list[Region]]) -> list[list[Region]]:
    """Groups of equal structure, brought together where few parts differ."""
    merged: list[list[Region]] = []
    for g in groups:
        for m in merged:
            if merge(m, g):
                m += g
                break
        else:
            merged.append(g)
    return merged


def merge(first: list[Region], second: list[Region]) -> bool:
    """Makes the structures of two groups equal, or leaves them as they are."""
    a, b = first[0], second[0]
    if len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs) or len(a.outputs) != 1:
        return False
    codes = difflib.SequenceMatcher(None, row_keys(a), row_keys(b), autojunk=False).get_opcodes()
    parts = [c for c in codes if c[0] != 'equal']
    equal = sum(c[2] - c[1] for c in codes if c[0] == 'equal')
    if not parts or len(parts) > MOST_PARTS or equal < max(len(a.statements), len(b.statements)) / 3:
        return False
    try:
        plan(a, b, codes)
    except Different:
        return False
    try:
        changed = [(x, *rewrite(x, b, codes, True)) for x in first] + [(y, *rewrite(y, a, codes, False)) for y in second]
    except (Different, KeyError):
        return False
    before = [(r, r.statements, r.outputs) for r in first + second]
    variables_before = [(var, var.value) for *_, renamed in changed for var, _ in renamed]
    for r, statements, outputs, renamed in changed:
        r.statements, r.outputs = statements, outputs
        for var, value in renamed:
            var.value = value
    from .blocks import structure
    want = structure(first[0])[0]
    if all(structure(r)[0] == want for r in first + second):
        return True
    for r, statements, outputs in before:
        r.statements, r.outputs = statements, outputs
    for var, value in variables_before:
        var.value = value
    return False


def single_expression(run: list, read_later: set) -> tuple[Value | None, Expr | None]:
    """A run of statements as one expression, and the value it makes; (None, None) of no statements."""
    if not run:
        return None, None
    made = {s.targets[0]: s for s in run if len(s.targets) == 1}
    if len(made) != len(run):
        raise Different
    out = [v for v in made if v in read_later]
    uses = [e.value for s in run for e in walk(s.expr) if isinstance(e, Var) and e.value in made]
    if len(out) != 1 or len(set(uses)) != len(uses) or len(uses) != len(made) - 1 or out[0] in uses:
        raise Different

    def inline(e: Expr) -> Expr | None:
        return transform(made[e.value].expr, inline) if isinstance(e, Var) and e.value in made else None
    return out[0], transform(made[out[0]].expr, inline)


def later_reads(region: Region, end: int) -> set:
    return {e.value for s in region.statements[end:] for e in walk(s.expr) if isinstance(e, Var)} | set(region.outputs)


def variables(s: Statement) -> list[Var]:
    return [e for e in walk(s.expr) if isinstance(e, Var)]


def plan(a: Region, b: Region, codes: list) -> list:
    """Of each part that differs: (place, expression of a, of b, its value in a, in b), with the values of one known in the other. Values of b by those of a are `match`."""
    match: dict[Value, Value] = dict(zip(a.inputs, b.inputs))
    parts = []
    open_parts: list = []      # parts whose value on one side is not known yet: that side has no statements
    for tag, i0, i1, j0, j1 in codes:
        if tag == 'equal':
            for s, t in zip(a.statements[i0:i1], b.statements[j0:j1]):
                pair_up(variables(s), variables(t), match, open_parts)
                match.update(zip(s.targets, t.targets))
            continue
        va, ea = single_expression(a.statements[i0:i1], later_reads(a, i1))
        vb, eb = single_expression(b.statements[j0:j1], later_reads(b, j1))
        part = {'at': (i0, i1, j0, j1), 'ea': ea, 'eb': eb, 'va': va, 'vb': vb}
        parts.append(part)
        if va is not None and vb is not None:
            match[va] = vb
        else:
            open_parts.append(part)
    pair_up([Var(v) for v in a.outputs], [Var(v) for v in b.outputs], match, open_parts)
    back = {y: x for x, y in match.items()}
    for p in parts:
        if p['va'] is None and p['vb'] is None or p.get('through') is None and (p['va'] is None or p['vb'] is None):
            raise Different
        for e, known in ((p['ea'], match), (p['eb'], back)):
            if e is not None and any(v.value not in known for v in walk(e) if isinstance(v, Var)):
                raise Different
    return parts


def pair_up(xs: list, ys: list, match: dict, open_parts: list):
    for x, y in zip(xs, ys):
        if match.get(x.value) is y.value:
            continue
        for p in open_parts:
            if p['va'] is x.value and p['vb'] is None and p.get('through', y.value) is y.value:
                p['through'] = y.value
                break
            if p['vb'] is y.value and p['va'] is None and p.get('through', x.value) is x.value:
                p['through'] = x.value
                break
        else:
            raise Different


def rebase(e: Expr, match: dict, source: Region, target: Region) -> Expr:
    """An expression of one region in another, where its numbers are not known."""
    def move(path: str | None) -> str | None:
        return None if path is None else target.path + path[len(source.path):]

    def change(x: Expr) -> Expr | None:
        if isinstance(x, Var):
            return Var(match[x.value])
        if isinstance(x, Const) and x.value is not None and not isinstance(x.value, str):
            return Const(Missing(isinstance(x.value, bool)))
        if isinstance(x, Param):
            return Param(move(x.path), x.shape, x.dtype, x.is_state, x.tensors)
        if isinstance(x, Call):
            return Call(x.fn, [transform(c, change) for c in x.args], {n: transform(c, change) for n, c in x.names.items()}, x.defaults, move(x.label))
        return None
    return transform(e, change)


def flag_name(part: dict, a: Region, b: Region) -> str:
    region, e = (a, part['ea']) if part['ea'] is not None else (b, part['eb'])
    for x in walk(e):
        path = x.path if isinstance(x, Param) else x.label if isinstance(x, Call) else None
        if path:
            names = [n for n in path[len(region.path) + 1:].split('.') if not n.isdigit()]
            if names:
                return snake_case(names[0])
    return next((snake_case(x.fn) for x in walk(e) if isinstance(x, Call)), 'variant')


def rewrite(own: Region, other: Region, codes: list, is_first: bool) -> tuple[list, list, list]:
    """The statements of a region with an `if` for each part, its outputs, and which variables stand for which values then."""
    a, b = (own, other) if is_first else (other, own)
    parts = plan(a, b, codes)
    match = dict(zip(a.inputs, b.inputs))
    for tag, i0, i1, j0, j1 in codes:
        if tag == 'equal':
            for s, t in zip(a.statements[i0:i1], b.statements[j0:j1]):
                match.update(zip(s.targets, t.targets))
    for p in parts:
        if p['va'] is not None and p['vb'] is not None:
            match[p['va']] = p['vb']
    to_own = {y: x for x, y in match.items()} if is_first else match
    statements, replaced = [], []
    iterator = iter(parts)
    for tag, i0, i1, j0, j1 in codes:
        lo, hi = (i0, i1) if is_first else (j0, j1)
        if tag == 'equal':
            for s in own.statements[lo:hi]:
                statements.append(s)
            continue
        p = next(iterator)
        mine, theirs = (p['ea'], p['eb']) if is_first else (p['eb'], p['ea'])
        value = p['va'] if is_first else p['vb']
        through = p.get('through')
        foreign = None if theirs is None else rebase(theirs, to_own, other, own)
        if value is None:      # nothing here: a value of its own for what passes through
            value = Value(through.shape, through.dtype, through.hint)
            replaced.append((value, p))
            mine = Var(through)
        if foreign is None:
            foreign = Var(to_own[through])
        first_branch, second_branch = (mine, foreign) if is_first else (foreign, mine)
        flag, holds = flag_name(p, a, b), True
        if p['ea'] is None:
            first_branch, second_branch, holds = second_branch, first_branch, False
        where = own.statements[lo].where if lo < hi else ''
        statements.append(Statement([value], If(Const(holds if is_first else not holds), flag, first_branch, second_branch), where))
    outputs, renamed = list(own.outputs), []
    for value, p in replaced:
        renamed += passed_on(value, p, a, b, codes, is_first, outputs)
    return statements, outputs, renamed


def passed_on(value, part, a, b, codes, is_first, outputs) -> list:
    """Behind the part, what the other region reads from it is read from the new value."""
    other_value = part['vb'] if is_first else part['va']
    own, other = (a, b) if is_first else (b, a)
    renamed = []
    for tag, i0, i1, j0, j1 in codes:
        if tag != 'equal':
            continue
        lo, olo, n = (i0, j0, i1 - i0) if is_first else (j0, i0, i1 - i0)
        for k in range(n):
            for mine, theirs in zip(variables(own.statements[lo + k]), variables(other.statements[olo + k])):
                if theirs.value is other_value:
                    renamed.append((mine, value))
    for k, v in enumerate(other.outputs):
        if v is other_value:
            outputs[k] = value
    return renamed
