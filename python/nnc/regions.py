"""The calls of modules in a traced program, as a tree, and each with what it computes as statements of the language.

The tree follows torch.export's record of which module each operation belongs to. Values are shared by the whole program, so that a call is taken into the one around it by
moving its statements there."""
from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch

from . import narrow, torch_ops
from .activations import recognise
from .text import Call, Expr, If, List, Param, Statement, Value, Var, call, transform, walk
from .torch_ops import Context, Known, Unsupported, dtype_name
from .trace import NotTraced, Step, Traced, op_name, short


@dataclasses.dataclass
class Region:
    """One call of a module."""
    key: str
    path: str
    cls: str
    items: list                      # Step and Region
    statements: list = dataclasses.field(default_factory=list)   # Statement; of a Region inside: one whose expr is a RegionCall
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    depth: int = 0                   # modules around it

    def regions(self):
        for i in self.items:
            if isinstance(i, Region):
                yield from i.regions()
                yield i

    @property
    def height(self) -> int:
        return 1 + max((i.height for i in self.items if isinstance(i, Region)), default=0)


class RegionCall(Expr):
    """A module's call before it is known whether it becomes a block."""

    def __init__(self, region: Region, args: list):
        self.region, self.args = region, args

    def children(self):
        return self.args

    def rebuild(self, children):
        return RegionCall(self.region, children)


def tree(steps: list, root_class: str) -> Region:
    root = Region('', '', root_class, [])
    open_regions: list[Region] = [root]
    last: tuple = ()
    for s in steps:
        stack = s.modules[1:] if s.modules else last
        last = stack
        depth = 1
        while depth < len(open_regions) and depth <= len(stack) and open_regions[depth].key == stack[depth - 1][0]:
            depth += 1
        del open_regions[depth:]
        for key, path, cls in stack[depth - 1:]:
            r = Region(key, path, cls, [], depth=len(open_regions))
            open_regions[-1].items.append(r)
            open_regions.append(r)
        open_regions[-1].items.append(s)
    return root


@dataclasses.dataclass
class Problem:
    """An operation that cannot be written."""
    op: str
    where: str
    what: str


class Translator:
    """Steps to statements."""

    def __init__(self, traced: Traced, state: dict):
        self.traced, self.values, self.problems = traced, {}, []
        self.training = traced.training
        for node in traced.inputs:
            val = node.meta['val']
            self.values[node] = Var(Value(val.shape, dtype_name(val.dtype), node.name))
        for node, name in traced.parameters.items():
            self.values[node] = Param(name, list(node.meta['val'].shape), 'f32', tensors=[state[name].detach()])
        for node, (name, tensor) in traced.buffers.items():
            if node not in traced.constants:
                self.values[node] = Param(name, list(tensor.shape), dtype_name(tensor.dtype), True)

    def value(self, node: torch.fx.Node) -> Any:
        if node in self.values:
            v = self.values[node]
            return Var(v.value) if isinstance(v, Var) else v     # its own: a variable may come to stand for another value (merge.py)
        constant = self.traced.constants.get(node)
        if isinstance(constant, torch.Tensor):
            return Known(constant)
        return constant

    def argument(self, a: Any, reads: dict) -> Any:
        if isinstance(a, torch.fx.Node):
            return self.value(reads[a])
        if isinstance(a, (list, tuple)):
            return [self.argument(i, reads) for i in a]
        return a

    def arguments(self, step: Step) -> list:
        """All arguments in the order of the schema."""
        node, reads = step.node, step.node.meta['reads']
        out = []
        for i, a in enumerate(node.target._schema.arguments):
            given = node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value if a.has_default_value() else None)
            out.append(self.argument(given, reads))
        while out and node.target._schema.arguments[len(out) - 1].kwarg_only and node.target._schema.arguments[len(out) - 1].name in ('pin_memory', 'device', 'layout', 'memory_format', 'dtype'):
            out.pop()
        return out

    def translate(self, step: Step) -> list[Statement]:
        node = step.node
        if node.target is operator.getitem:
            made = node.meta['reads'][node.args[0]]
            if op_name(made) == 'aten._native_batch_norm_legit_functional' and node.args[1] in (3, 4):     # the running statistics that a second call goes on with
                self.values[node] = self.value(made.meta['reads'][made.args[node.args[1]]])
                return []
            self.values[node] = self.values[made][node.args[1]]
            if node.args[1] and op_name(made) in torch_ops.FIRST_ONLY:
                self.problems.append(Problem(op_name(made), problem_place(step), 'its further results, such as the places of maxima: the language has the first one only'))
            name_value(self.values[node], step)
            return []
        if is_place(node):
            self.values[node] = self.value(node.meta['reads'][node.args[0]])
            return []
        vals = node.meta['val']
        if isinstance(vals, torch.Tensor) and any(isinstance(n, int) and n == 0 for n in vals.shape):       # such as the part of a head that is not rotated
            self.values[node] = Known(torch.zeros(vals.shape, dtype=vals.dtype))
            return []
        f = torch_ops.find(step.op)
        where = torch_ops_place(step)
        if f is None:
            self.problems.append(Problem(step.op, problem_place(step), torch_ops.instead(step.op, step.modules)))
            self.stand_in(node)
            return []
        several = isinstance(vals, (list, tuple))
        outputs = [Value(v.shape, dtype_name(v.dtype)) for v in (vals if several else [vals]) if isinstance(v, torch.Tensor)]
        try:
            context = Context(outputs, self.training, where, any(v.dtype == torch.float64 for v in (vals if several else [vals]) if isinstance(v, torch.Tensor)))
            narrow.refuse_beyond(step.op, node)
            expr = f(context, *self.arguments(step))
            expr = expr if several else narrow.of_result(step.op, node, expr)
        except Unsupported as e:
            self.problems.append(Problem(step.op, problem_place(step), str(e)))
            self.stand_in(node)
            return []
        except Exception as e:
            raise NotTraced(f'{problem_place(step)}: {step.op}: the importer failed: {short(e)}') from e
        if not several:
            return context.before + self.finish(node, step, outputs[0], expr, where)
        self.values[node] = [Var(v) for v in outputs]
        if step.op in torch_ops.FIRST_ONLY:
            return context.before + [Statement(outputs[:1], expr, where)]
        if not isinstance(expr, List):
            return context.before + [Statement(outputs, expr, where)]
        read = {u.args[1] for u in node.users if 'reads' in u.meta}       # of what nobody reads there is no statement
        self.values[node] = [e if isinstance(e, Var) else Var(v) for v, e in zip(outputs, expr.items)]
        return context.before + [Statement([v], e, where) for i, (v, e) in enumerate(zip(outputs, expr.items)) if i in read and not isinstance(e, Var)]

    def finish(self, node, step, out: Value, expr: Expr, where: str) -> list[Statement]:
        if isinstance(expr, (Var, Param, Known)):
            self.values[node] = expr
            return []
        self.values[node] = Var(out)
        name_value(self.values[node], step)
        return [Statement([out], expr, where)]

    def stand_in(self, node):
        vals = node.meta['val']
        make = lambda v: Var(Value(v.shape, dtype_name(v.dtype))) if isinstance(v, torch.Tensor) else v
        self.values[node] = [make(v) for v in vals] if isinstance(vals, (list, tuple)) else make(vals)

    def fill(self, region: Region):
        for item in region.items:
            known = recognise(item.items, self.traced.constants) if isinstance(item, Region) else None
            if known is not None:
                name, options, source, last = known
                out = Value(last.node.meta['val'].shape, 'f32')
                item.statements = self.finish(last.node, last, out, call(name, self.value(source), **options), torch_ops_place(last))
                region.statements.append(Statement([], RegionCall(item, [])))
            elif isinstance(item, Region):
                self.fill(item)
                region.statements.append(Statement([], RegionCall(item, [])))
            else:
                region.statements += self.translate(item)


DRAWS = {'bernoulli', 'uniform', 'normal', 'randint'}


def draws(region: Region | None) -> list[Statement]:
    return [s for s in region.statements if any(isinstance(e, Call) and e.fn in DRAWS for e in walk(s.expr))] if region is not None else []


def any_draws(root: Region) -> bool:
    return any(draws(r) for r in (root, *root.regions()))


def in_training_only(root: Region, evaluation: Region) -> list[Problem]:
    """A module that draws in training and not in evaluation, such as stochastic depth, becomes `if training() { … } else { … }`. `evaluation` is the same module traced there;
    what computes nothing there gives what it is given. Problems are draws that stand among other operations."""
    calls: dict[str, list[Region]] = {}
    for r in (evaluation, *evaluation.regions()):
        calls.setdefault(r.path, []).append(r)
    problems, seen = [], {}
    for r in (root, *root.regions()):
        seen[r.path] = k = seen.get(r.path, -1) + 1
        other = calls[r.path][k] if k < len(calls.get(r.path, [])) else None
        drawn = draws(r)
        if len(drawn) != len(draws(other)) and not by_phase(r, other):
            place = f'{drawn[0].where}: in {r.path} ({r.cls.split(".")[-1]})' if r.path else drawn[0].where
            problems.append(Problem('a draw', place, 'made in training and not in evaluation, among other operations: a module of its own, of one input and one output of the same shape, or dropout'))
    return problems


def by_phase(region: Region, other: Region | None) -> bool:
    """Makes one statement of a region, for training and for evaluation; False where that cannot be told."""
    from .merge import Different
    try:
        last, source, drawn = as_expression(region)
        if other is None:
            evaluated, shape = Var(source), source.shape
        else:
            there, theirs, evaluated = as_expression(other)
            evaluated = transform(evaluated, lambda e: Var(source) if isinstance(e, Var) and e.value is theirs else None)
            shape = there.shape
    except Different:
        return False
    if shape != last.shape:
        return False
    region.statements = [Statement([last], If(call('training'), 'training', drawn, evaluated), region.statements[-1].where)]
    return True


def as_expression(region: Region) -> tuple[Value, Value, Expr]:
    """Of a region that calls no others and has one input: what it gives, what it is given, how."""
    from .merge import Different, single_expression
    if not region.statements or any(isinstance(s.expr, RegionCall) for s in region.statements):
        raise Different
    made = {v for s in region.statements for v in s.targets}
    sources = {e.value for s in region.statements for e in walk(s.expr) if isinstance(e, Var) and e.value not in made}
    last = region.statements[-1].targets[0]
    _, e = single_expression(region.statements, {last})
    if len(sources) != 1:
        raise Different
    return last, sources.pop(), e


def is_place(node) -> bool:
    """The number that t[0] is in x[:, t[0]], and nothing else."""
    if op_name(node) not in ('aten.item', 'aten._local_scalar_dense') or not isinstance(node.meta['val'], torch.SymInt):
        return False
    return all(op_name(u) == 'aten.select' for u in node.users if 'reads' in u.meta)


def torch_ops_place(step: Step) -> str:
    from .source import place
    return place(step.trace)


def problem_place(step: Step) -> str:
    """The line of the module's own source, and the module whose operation it is: torch's layers have no line there."""
    path, name = (step.modules[-1][1], step.modules[-1][2].split('.')[-1]) if step.modules else ('', '')
    return f'{torch_ops_place(step)}: in {path} ({name})' if path else torch_ops_place(step)


def name_value(v: Expr, step: Step):
    if isinstance(v, Var) and v.value.hint is None:
        v.value.callers = step.callers
        for names in step.hints:
            if len(names) == 1 and names[0]:
                v.value.hint = names[0]
                return
            if len(names) > 1 and step.node.target is operator.getitem and step.node.args[1] < len(names) and names[step.node.args[1]]:
                v.value.hint = names[step.node.args[1]]
                return


# --- what goes in and out -------------------------------------------------------------------------------------------------

def used(statements: list) -> list[Value]:
    """Values that are read, in order."""
    found: dict[Value, None] = {}
    for s in statements:
        for e in walk(s.expr):
            if isinstance(e, Var):
                found.setdefault(e.value)
    return list(found)


def connect(root: Region, outputs: list):
    """Inputs and outputs of every region, bottom up."""
    def inside(region: Region) -> tuple[set, dict]:
        made, read = set(), {}
        for s in region.statements:
            if isinstance(s.expr, RegionCall):
                m, r = inside(s.expr.region)
                made |= m
                for v in r:
                    read.setdefault(v)
                s.targets = []
            else:
                made.update(s.targets)
                for v in used([s]):
                    read.setdefault(v)
        region._made, region._read = made, read
        return made, read

    inside(root)

    def bind(region: Region, wanted: set):
        """wanted: values read outside of the region."""
        region.inputs = [v for v in region._read if v not in region._made]
        region.outputs = [v for v in ordered(region) if v in wanted]
        reads = [(s, set(s.expr.region._read) if isinstance(s.expr, RegionCall) else set(used([s]))) for s in region.statements]
        count: dict[Value, int] = {}
        for _, r in reads:
            for v in r:
                count[v] = count.get(v, 0) + 1
        for s, r in reads:
            if not isinstance(s.expr, RegionCall):
                continue
            child = s.expr.region
            out = {v for v in child._made if v in wanted or count.get(v, 0) > (1 if v in r else 0)}
            bind(child, out)
            s.targets, s.expr.args = list(child.outputs), [Var(v) for v in child.inputs]

    def ordered(region: Region):
        for s in region.statements:
            if isinstance(s.expr, RegionCall):
                yield from ordered(s.expr.region)
            else:
                yield from s.targets

    bind(root, set(outputs))


def splice(region: Region, which):
    """Takes the calls inside for which which(region) holds into the region itself."""
    out = []
    for s in region.statements:
        if isinstance(s.expr, RegionCall) and which(s.expr.region):
            splice(s.expr.region, which)
            out += s.expr.region.statements
        else:
            out.append(s)
    region.statements = out


def parameters_of(statements: list) -> list[str]:
    """Paths of parameters and of layers with parameters."""
    found = []
    for s in statements:
        for e in walk(s.expr):
            if isinstance(e, Param):
                found.append(e.path)
            elif isinstance(e, Call) and e.label is not None:
                found.append(e.label + '.')
    return found
