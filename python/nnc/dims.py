"""Sizes that the model has as a `dim` at the head of its text, because of the place where they stand: what a head's classes are, a table's words, the rounds of the one loop.

`sizes.py` finds those of the inputs, by another trace. These need none: each stands for one number at one place, or at both ends of a model of language."""
from __future__ import annotations

import re

from .text import Call, Const, Expr, Loop, Name, Statement, Value, Var, walk

NAMES = {'vocabulary', 'classes', 'layers'}
HEAD = re.compile(r'(^|[._])(fc|heads?|classifier|score|cls|lm_head|output|logits)(\.|_|$)')


def name_dims(statements: list, inputs: list, outputs: list) -> list[tuple[str, int]]:
    """Puts names in place of numbers in the model's statements; (name, number) of those that are there."""
    found = words(statements, inputs) + rounds(statements)
    last = made_by(statements, outputs[0]) if outputs else None
    if isinstance(last, Call) and last.fn == 'linear' and last.label and isinstance(last.args[1], Const):
        known = [n for n, size in found if n == 'vocabulary' and size == last.args[1].value]
        if known:
            last.args[1] = Name('vocabulary')
        elif last.args[1].value > 1 and HEAD.search(last.label):
            found.append(('classes', last.args[1].value))
            last.args[1] = Name('classes')
    return found


def made_by(statements: list, v: Value) -> Expr | None:
    return next((s.expr for s in statements if isinstance(s, Statement) and s.targets == [v]), None)


def words(statements: list, inputs: list) -> list[tuple[str, int]]:
    """The rows of the one table that an input of integers is looked up in."""
    tables = [e for s in statements if isinstance(s, Statement) for e in walk(s.expr)
              if isinstance(e, Call) and e.fn == 'embedding' and isinstance(e.args[0], Var) and e.args[0].value in inputs and isinstance(e.args[1], Const)]
    if len(tables) != 1:
        return []
    size = tables[0].args[1].value
    tables[0].args[1] = Name('vocabulary')
    return [('vocabulary', size)]


def rounds(statements: list) -> list[tuple[str, int]]:
    """Of the one loop, if its rounds are all the same and what it calls is called nowhere else."""
    loops = [s for s in statements if isinstance(s, Loop)]
    calls = lambda s: [e.fn for e in walk(s.expr) if isinstance(e, Call)] if isinstance(s, Statement) else []
    if len(loops) != 1 or loops[0].names or loops[0].first:
        return []
    inside = [calls(s) for s in loops[0].body]
    if [f for s in statements for f in calls(s) if any(fs[:1] == [f] for fs in inside)]:
        return []
    loops[0].count = 'layers'
    return [('layers', len(loops[0].items))]
