"""Statements as a person would write them: products over the last axis without the reshapes around them, heads of attention by their names."""
from __future__ import annotations

from .text import Call, Const, Expr, Op, Param, Statement, Value, Var, call, constant_of, walk


class Body:
    """Statements with who defines and who uses each value."""

    def __init__(self, statements: list, outputs: list):
        self.statements, self.outputs = statements, outputs
        self.index()

    def index(self):
        self.definition, self.uses = {}, {}
        for s in self.statements:
            for e in walk(s.expr):
                if isinstance(e, Var):
                    self.uses.setdefault(e.value, []).append(s)
            for v in s.targets:
                self.definition[v] = s
        for v in self.outputs:
            self.uses.setdefault(v, []).append(None)

    def made_by(self, e: Expr, *fns: str) -> Statement | None:
        """The statement that makes e, if it calls one of these functions and nothing else reads e."""
        s = self.definition.get(e.value) if isinstance(e, Var) else None
        only = s is not None and len(s.targets) == 1 and len(self.uses.get(e.value, [])) == 1
        return s if only and isinstance(s.expr, Call) and s.expr.fn in fns else None

    def only_user(self, v: Value) -> Statement | None:
        users = self.uses.get(v, [])
        return users[0] if len(users) == 1 else None

    def remove(self, s: Statement):
        self.statements.remove(s)


def simplify(statements: list, outputs: list):
    body = Body(statements, outputs)
    for rule in (drop_leading_one, drop_kept_axes, join_reshapes, product_over_last_axis, split_heads, merge_heads, grouped_heads, attention_of_heads):
        for s in list(body.statements):
            if s in body.statements and isinstance(s.expr, (Call, Op)) and rule(body, s):
                body.index()


def drop_leading_one(body: Body, s: Statement) -> bool:
    """embedding(reshape(iota(n), [1, n])) that is added to something with a batch: embedding(iota(n)) does."""
    if not isinstance(s.expr, Call) or s.expr.fn != 'embedding' or not isinstance(s.expr.args[0], Call) or s.expr.args[0].fn != 'reshape':
        return False
    user, inner = body.only_user(s.targets[0]), s.expr.args[0]
    shape = s.targets[0].shape
    if constant_of(inner.args[1]) != shape[:2] or shape[0] != 1 or user is None or not isinstance(user.expr, Op) or user.expr.op != '+':
        return False
    if not any(isinstance(a, Var) and a.value is not s.targets[0] and len(a.value.shape) == len(shape) for a in user.expr.args):
        return False
    s.expr.args[0] = inner.args[0]
    s.targets[0].shape = shape[1:]
    return True


def drop_kept_axes(body: Body, s: Statement) -> bool:
    """mean(x, axes, keepdims=true) whose axes of one are dropped again."""
    before = body.made_by(s.expr.args[0], 'mean', 'sum', 'amax', 'amin', 'var') if is_reshape(s) else None
    if before is None or constant_of(before.expr.names['keepdims']) is not True:
        return False
    shape, axes = shape_of(before.expr.args[0]), constant_of(before.expr.names['axes'])
    axes = [a % len(shape) for a in ([axes] if isinstance(axes, int) else axes or [])] if shape else []
    if not axes or [n for i, n in enumerate(shape) if i not in axes] != s.targets[0].shape:
        return False
    before.expr.names['keepdims'] = Const(False)
    before.targets = s.targets
    body.remove(s)
    return True


def shape_of(e: Expr) -> list | None:
    return e.value.shape if isinstance(e, Var) else e.shape if isinstance(e, Param) else None


def is_reshape(s: Statement | None) -> bool:
    return s is not None and isinstance(s.expr, Call) and s.expr.fn in ('reshape', 'flatten')


def join_reshapes(body: Body, s: Statement) -> bool:
    """A reshape of a reshape is one."""
    if not is_reshape(s):
        return False
    before = body.made_by(s.expr.args[0], 'reshape', 'flatten')
    if before is None:
        return False
    source = before.expr.args[0]
    if shape_of(source) == s.targets[0].shape and isinstance(source, Var):
        return False
    s.expr = call('reshape', source, s.targets[0].shape)
    body.remove(before)
    return True


def product_over_last_axis(body: Body, s: Statement) -> bool:
    """x[a b, n] of x[a, b, n], its product with a matrix (and a bias), and [a, b, m] of that: the product of x itself."""
    product = s.expr if isinstance(s.expr, Call) and s.expr.fn == 'matmul' else None
    if product is None and isinstance(s.expr, Op) and s.expr.op == '+' and isinstance(s.expr.args[0], Call) and s.expr.args[0].fn == 'matmul':
        product = s.expr.args[0]
    if product is None or len(s.targets) != 1 or len(s.targets[0].shape) != 2:
        return False
    flat, after = body.made_by(product.args[0], 'reshape', 'flatten'), body.only_user(s.targets[0])
    if flat is None or not is_reshape(after):
        return False
    x, y = shape_of(flat.expr.args[0]), after.targets[0].shape
    if x is None or x[-1] != flat.targets[0].shape[-1] or x[:-1] != y[:-1] or y[-1] != s.targets[0].shape[-1]:
        return False
    product.args[0] = flat.expr.args[0]
    s.targets = after.targets
    body.remove(flat)
    body.remove(after)
    return True


def split_heads(body: Body, s: Statement) -> bool:
    """[b, t, h d] -> [b, h, t, d]"""
    if not isinstance(s.expr, Call) or s.expr.fn != 'transpose' or len(s.expr.args) != 2 or constant_of(s.expr.args[1]) != [0, 2, 1, 3]:
        return False
    before = body.made_by(s.expr.args[0], 'reshape')
    if before is None:
        return False
    x, parts = shape_of(before.expr.args[0]), before.targets[0].shape
    if x is None or len(x) != 3 or x[:2] != parts[:2]:
        return False
    s.expr = call('rearrange', before.expr.args[0], 'b t (h d) -> b h t d', h=parts[2])
    body.remove(before)
    return True


def merge_heads(body: Body, s: Statement) -> bool:
    """[b, h, t, d] -> [b, t, h d]"""
    if not is_reshape(s):
        return False
    before = body.made_by(s.expr.args[0], 'transpose')
    if before is None or len(before.expr.args) != 2 or constant_of(before.expr.args[1]) != [0, 2, 1, 3]:
        return False
    parts, y = before.targets[0].shape, s.targets[0].shape
    if len(y) != 3 or y[:2] != parts[:2]:
        return False
    s.expr = call('rearrange', before.expr.args[0], 'b h t d -> b t (h d)')
    body.remove(before)
    return True


def grouped_heads(body: Body, s: Statement) -> bool:
    """Keys and values [b, h, t, d] that are repeated for groups of the queries' heads: attention does that itself."""
    if not isinstance(s.expr, Call) or s.expr.fn != 'attention' or 'heads' in s.expr.names:
        return False
    sources, drop = [], []
    for a in s.expr.args[1:3]:
        joined = body.made_by(a, 'reshape')
        repeated = body.made_by(joined.expr.args[0], 'broadcast_to') if joined else None
        apart = body.made_by(repeated.expr.args[0], 'reshape', 'unsqueeze') if repeated else None
        x = shape_of(apart.expr.args[0]) if apart else None
        if x is None or len(x) != 4 or apart.targets[0].shape != [*x[:2], 1, *x[2:]]:
            return False
        group = repeated.targets[0].shape[2]
        if repeated.targets[0].shape != [*x[:2], group, *x[2:]] or joined.targets[0].shape != [x[0], x[1] * group, *x[2:]]:
            return False
        sources.append(apart.expr.args[0])
        drop += [joined, repeated, apart]
    s.expr.args[1:3] = sources
    for d in drop:
        body.remove(d)
    return True


def attention_of_heads(body: Body, s: Statement) -> bool:
    """attention(heads=h) of what linear layers make, where heads are split before and merged behind."""
    if not isinstance(s.expr, Call) or s.expr.fn != 'attention' or 'heads' in s.expr.names:
        return False
    after = body.only_user(s.targets[0])
    if after is None or not isinstance(after.expr, Call) or after.expr.fn != 'rearrange' or constant_of(after.expr.args[1]) != 'b h t d -> b t (h d)':
        return False
    before = [body.made_by(a, 'rearrange') for a in s.expr.args[:3]]
    if any(b is None or constant_of(b.expr.args[1]) != 'b t (h d) -> b h t d' for b in before) or len({constant_of(b.expr.names['h']) for b in before}) != 1:
        return False
    old = s.expr
    s.expr = Call('attention', [b.expr.args[0] for b in before] + old.args[3:], {'heads': before[0].expr.names['h'], **old.names}, old.defaults, None)
    s.targets = after.targets
    for b in before:
        body.remove(b)
    body.remove(after)
    return True
