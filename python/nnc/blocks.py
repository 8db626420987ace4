"""Equal modules become one block: the statements of all calls of a class are laid beside each other, and where their numbers differ the block gets an argument
(anti-unification). What is said by the shapes of the inputs, or is a multiple of another argument, needs none of its own."""
from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from .regions import Region, RegionCall, parameters_of, splice
from .simplify import simplify
from .merge import merge_groups
from .text import KEYWORDS, RESERVED, Call, Const, Expr, If, Index, Initial, Missing, Name, Op, Param, Scan, Statement, Value, Var, snake_case, transform, walk
from .torch_ops import Known

CONTAINERS = {'torch.nn.modules.container.Sequential', 'torch.nn.modules.container.ModuleList', 'torch.nn.modules.container.ModuleDict'}


@dataclasses.dataclass
class Block:
    name: str
    inputs: list                       # Values of the body
    types: list                        # per input: None, or its axes as expressions
    arguments: list                    # (name, default or ...)
    statements: list
    outputs: list
    path: str                          # of the module that the body was taken from: labels are relative to it


# --- comparing ------------------------------------------------------------------------------------------------------------

def structure(region: Region) -> tuple[tuple, list]:
    """What must be equal in two calls that share a block, and the constants, in a fixed order."""
    number: dict[Value, int] = {v: i for i, v in enumerate(region.inputs)}
    constants: list = []

    def of(e: Expr):
        if isinstance(e, Const):
            if e.value is None or isinstance(e.value, str):
                return ('const', e.value)
            constants.append(e.value)
            return ('slot', e.value.is_bool if isinstance(e.value, Missing) else isinstance(e.value, bool))
        if isinstance(e, Var):
            return ('var', number.setdefault(e.value, len(number)))
        if isinstance(e, Param):
            constants.extend(e.shape)
            return ('param', below(e.path, region.path), len(e.shape), e.is_state)
        if isinstance(e, Name):
            return ('name', e.text)
        if isinstance(e, Known):
            return ('known', id(e.tensor))
        head: Any = type(e).__name__
        if isinstance(e, Call):
            head = (e.fn, tuple(e.names), None if e.label is None else below(e.label, region.path), len(e.args), tuple((k, str(v)) for k, v in e.defaults.items() if k not in e.names))
        elif isinstance(e, Scan):
            head = e.kind
        elif isinstance(e, Op):
            head = e.op
        elif isinstance(e, If):
            head = ('if', e.flag)
        elif isinstance(e, Index):
            head = ('index', tuple((tuple(p is None for p in s) if isinstance(s, tuple) else 'one') for s in e.slices))
        return (head,) + tuple(of(c) for c in e.children())

    rows = []
    for s in region.statements:
        row = of(s.expr)
        rows.append((row, tuple(number.setdefault(v, len(number)) for v in s.targets)))
    key = (len(region.inputs), tuple(rows), tuple(number[v] for v in region.outputs), tuple(len(v.shape) for v in region.inputs))
    return key, constants


def below(path: str, base: str) -> str | None:
    return path[len(base) + 1:] if base and path.startswith(base + '.') else path if not base else None


def self_contained(region: Region) -> bool:
    """Whether all its parameters lie below it, so that a block can make them."""
    return all(below(p, region.path) not in (None, '') for p in parameters_of(region.statements))


# --- arguments ------------------------------------------------------------------------------------------------------------

DIM_NAMES = {4: ['B', 'C', 'H', 'W'], 3: ['B', 'L', 'D'], 2: ['B', 'D'], 1: ['D'], 5: ['B', 'C', 'L', 'H', 'W']}


def dimension_names(inputs: list) -> list[list[str]]:
    """Of each input the names its axes have where they are needed; those of the second one have a 2 behind them."""
    taken: set[str] = set()
    out = []
    for v in inputs:
        names = DIM_NAMES.get(len(v.shape), [f'D{i}' for i in range(len(v.shape))])
        mine = []
        for n in names:
            k = 2
            free = n
            while free in taken:
                free, k = f'{n}{k}', k + 1
            taken.add(free)
            mine.append(free)
        out.append(mine)
    return out


class Explainer:
    """Vectors of constants, one number per call, as expressions of what the block knows."""

    def __init__(self, regions: list, modules: list):
        self.regions, self.modules = regions, modules
        self.dims: list[tuple[tuple, str, int, int]] = []
        self.arguments: list[tuple[tuple, str]] = []
        self.used_dims: set[tuple[int, int]] = set()
        names = dimension_names(regions[0].inputs)
        for i, v in enumerate(regions[0].inputs):
            for k in range(len(v.shape)):
                self.dims.append((tuple(r.inputs[i].shape[k] for r in regions), names[i][k], i, k))

    def explain(self, vector: tuple, wanted: str) -> Expr:
        exact = self.known(vector)
        if exact is not None:
            return exact
        present = [v for v in vector if not isinstance(v, Missing)]
        common = max(set(present), key=present.count)
        vector = tuple(common if isinstance(v, Missing) else v for v in vector)
        name = self.new_name(vector, wanted)
        self.arguments.append((vector, name))
        return Name(name)

    def named(self, vector: tuple, wanted: str) -> Expr | None:
        """In a part that some calls do not have: the argument of the same name, where it agrees in all that have the part."""
        if any(isinstance(v, Missing) for v in vector) and any(n == wanted for _, n in self.arguments):
            known = self.known(vector)
            return known if isinstance(known, Name) and known.text == wanted else None
        return None

    def known(self, vector: tuple) -> Expr | None:
        for other, name in self.arguments:
            if all(isinstance(b, Missing) or a == b and type(a) is type(b) for a, b in zip(other, vector)):
                return Name(name)
        present = [i for i, v in enumerate(vector) if not isinstance(v, Missing)]
        vector = tuple(vector[i] for i in present)
        if not all(isinstance(v, int) and not isinstance(v, bool) for v in vector):
            return None
        candidates = [(d, n, (i, k)) for d, n, i, k in self.dims if k > 0] + [(a, n, None) for a, n in self.arguments if all(isinstance(v, int) and not isinstance(v, bool) for v in a)]
        candidates = [(tuple(known[i] for i in present), name, dim) for known, name, dim in candidates]
        for known, name, dim in candidates:
            if known == vector:
                return self.use(Name(name), dim)
        for known, name, dim in candidates:
            if len(set(known)) > 1 and all(known):
                f = {v / k for v, k in zip(vector, known)}
                if len(f) == 1 and min(f) > 0:
                    ratio = f.pop()
                    if ratio == int(ratio):
                        return self.use(Op('*', [Const(int(ratio)), Name(name)]), dim)
                    if 1 / ratio == int(1 / ratio):
                        return self.use(Op('//', [Name(name), Const(int(1 / ratio))]), dim)
                if all(v == k // 2 for v, k in zip(vector, known)):
                    return self.use(Op('//', [Name(name), Const(2)]), dim)
        return None

    def use(self, e: Expr, dim) -> Expr:
        if dim is not None:
            self.used_dims.add(dim)
        return e

    def new_name(self, vector: tuple, wanted: str) -> str:
        taken = {n for _, n in self.arguments} | {n for names in dimension_names(self.regions[0].inputs) for n in names}
        options = [n for n in self.attributes(vector) if n not in taken] + [wanted]
        name, k = snake_case(options[0].split('.')[-1]), 2
        base = name
        while name in taken or name in KEYWORDS:
            name, k = f'{base}_{k}', k + 1
        return name

    def attributes(self, vector: tuple) -> list[str]:
        """Attributes of the modules that have these values, those of the constructor's signature first."""
        if any(m is None for m in self.modules):
            return []
        first, found = self.modules[0], []
        parameters = list(inspect.signature(type(first).__init__).parameters)[1:]
        names = [n for n, v in vars(first).items() if not n.startswith('_') and isinstance(v, (int, float, bool, tuple)) and n != 'training']
        for n in sorted(names, key=lambda n: n not in parameters):
            values = tuple(getattr(m, n, None) for m in self.modules)
            equal = lambda v: isinstance(v, tuple) and all(isinstance(i, (int, float)) for i in v) and len(set(v)) == 1
            values = tuple(v[0] if equal(v) else v for v in values)
            # types first: some modules may have a tensor there
            if all(type(a) is type(b) and a == b for a, b in zip(values, vector)):
                found.append(n)
        return found


def slot_names(region: Region) -> list[str]:
    """For each constant, in the order of `structure`, the name that it would have as an argument."""
    out: list[str] = []

    def of(e: Expr, name: str):
        if isinstance(e, Const):
            if e.value is not None and not isinstance(e.value, str):
                out.append(name)
        elif isinstance(e, Param):
            out.extend(['size'] * len(e.shape))
        elif isinstance(e, If):
            of(e.condition, e.flag)
            of(e.then, name)
            of(e.otherwise, name)
        elif isinstance(e, Call):
            positions = POSITIONAL.get(e.fn, [])
            for i, a in enumerate(e.args):
                of(a, positions[i] if i < len(positions) else 'n')
            for n, a in e.names.items():
                of(a, n)
        else:
            for c in e.children():
                of(c, name)

    for s in region.statements:
        of(s.expr, 'n')
    return out


POSITIONAL = {'linear': ['x', 'features'], 'conv2d': ['x', 'channels'], 'conv_transpose2d': ['x', 'channels'], 'groupnorm': ['x', 'groups'], 'embedding': ['x', 'rows', 'features'],
              'maxpool': ['x', 'kernel'], 'avgpool': ['x', 'kernel'], 'reshape': ['x', 'size'], 'dropout': ['x', 'p'], 'split': ['x', 'parts'], 'clamp': ['x', 'low', 'high']}


def make_block(name: str, regions: list, modules: list) -> Block:
    """One block for calls of equal structure; their statements in the regions around them become calls of it."""
    columns = [structure(r)[1] for r in regions]
    names = slot_names(regions[0])
    explainer = Explainer(regions, modules)
    replacement: list[Expr | None] = []
    for i, wanted in enumerate(names):
        vector = tuple(c[i] for c in columns)
        present = [v for v in vector if not isinstance(v, Missing)]
        same = all(v == present[0] and type(v) is type(present[0]) for v in present)
        replacement.append(explainer.named(vector, wanted) or (Const(present[0]) if same else explainer.explain(vector, wanted)))
    it = iter(replacement)
    same_place = zip(*([e.tensors for s in r.statements for e in walk(s.expr) if isinstance(e, (Param, Initial))] for r in regions))
    tensors = (list({id(t): t for of_call in places for t in of_call}.values()) for places in same_place)

    def fill(e: Expr) -> Expr | None:
        if isinstance(e, Const) and e.value is not None and not isinstance(e.value, str):
            return next(it) or e
        if isinstance(e, Param):
            shape = [v.value if isinstance(v, Const) else v for v in (next(it) for _ in e.shape)]
            return Param(e.path, shape, e.dtype, e.is_state, next(tensors))
        if isinstance(e, Initial):
            return Initial(next(tensors))
        return None

    first = regions[0]
    statements = [Statement(s.targets, transform(s.expr, fill), s.where, s.called) for s in first.statements]
    types: list = [None] * len(first.inputs)
    dims = dimension_names(first.inputs)
    for i in {i for i, _ in explainer.used_dims}:
        types[i] = dims[i]
    arguments = []
    for vector, arg in explainer.arguments:
        common = max(set(vector), key=vector.count)
        arguments.append((vector, arg, common if vector.count(common) * 2 >= len(vector) and (isinstance(common, bool) or common in (0, 1) or vector.count(common) * 4 >= 3 * len(vector)) else ...))
    arguments.sort(key=lambda a: a[2] is not ...)
    block = Block(name, first.inputs, types, [(n, d) for _, n, d in arguments], statements, first.outputs, first.path)
    for i, r in enumerate(regions):
        r.block, r.block_arguments = block, [(n, vector[i], d) for vector, n, d in arguments]
    return block


def call_of(region: Region) -> Call:
    positional = [Var(v) for v in region.inputs]
    names, defaults = {}, {}
    for n, v, d in region.block_arguments:
        if d is ...:
            positional.append(Const(v))
        else:
            names[n], defaults[n] = Const(v), d
    label = region.path if parameters_of(region.statements) else None
    return Call(region.block.name, positional, names, defaults, label)


# --- which modules become blocks --------------------------------------------------------------------------------------------

def size(region: Region) -> int:
    return len(region.statements)


class Builder:
    """Goes over the classes from the innermost out: a class becomes a block, or its calls are taken into what is around them."""

    def __init__(self, root: Region, module, reserved: set):
        self.root, self.module, self.blocks, self.names = root, module, [], set(reserved)

    def submodule(self, region: Region):
        try:
            return self.module.get_submodule(region.path)
        except AttributeError:
            return None

    def run(self) -> list[Block]:
        classes: dict[str, list[Region]] = {}
        for r in self.root.regions():
            classes.setdefault(r.cls, []).append(r)
        for cls, regions in sorted(classes.items(), key=lambda c: max(r.height for r in c[1])):
            self.one_class(cls, regions)
        self.settle(self.root)
        return self.blocks

    def settle(self, region: Region):
        """Calls inside become calls of blocks, or statements; then what a person would write shorter."""
        splice(region, lambda r: not hasattr(r, 'block'))
        for s in region.statements:
            if isinstance(s.expr, RegionCall):
                caller = s.expr.region.depth - 1
                s.called = [v.callers[caller] if caller < len(v.callers) else None for v in s.targets]
                s.expr = call_of(s.expr.region)
        simplify(region.statements, region.outputs)

    def one_class(self, cls: str, regions: list):
        for r in regions:
            self.settle(r)
        nested = any(i.cls == cls for r in regions for i in r.regions())
        candidates = [r for r in regions if r.outputs and r.inputs and self_contained(r)]
        if cls in CONTAINERS or nested or not candidates:
            return
        groups: dict[tuple, list[Region]] = {}
        for r in candidates:
            groups.setdefault(structure(r)[0], []).append(r)
        for group in merge_groups(sorted(groups.values(), key=lambda g: -len(g))):
            big = size(group[0])
            declares = any(isinstance(e, Param) for s in group[0].statements for e in walk(s.expr))
            if len(group) > 1 and (big > 1 or declares) or big > 40:
                name = self.free_name(snake_case(cls.split('.')[-1]))
                self.blocks.append(make_block(name, group, [self.submodule(r) for r in group]))

    def free_name(self, base: str) -> str:
        """conv1d_layer for a class Conv1D: a number would read as a second layer of the language."""
        base = f'{base}_layer' if base in RESERVED else base
        name, k = base, 2
        while name in self.names:
            name, k = f'{base}_{k}', k + 1
        self.names.add(name)
        return name
