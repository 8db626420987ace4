"""A PyTorch module as a sequence of operations: torch.export, then what is left when constants are computed and what nobody reads is gone.

Nothing here knows the .nn language but the set of operations that have a translator (torch_ops.TABLE)."""
from __future__ import annotations

import contextlib
import dataclasses
import operator
import traceback
import unittest.mock
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound

from . import attention, gradients, source
from .growing import shorten_growing_concats
from .inline import inline_regions

IDENTITY = {'aten.contiguous', 'aten.clone', 'aten.alias', 'aten.lift_fresh_copy', 'aten.detach_', 'aten.lift_fresh', 'aten.positive'}
EMPTY = {'aten.empty', 'aten.empty_like', 'aten.new_empty'}      # with what is drawn into them
SHAPE_ONLY = {'aten.' + n for n in ('full_like', 'zeros_like', 'ones_like', 'new_zeros', 'new_ones', 'new_full')}     # nothing but the shape of what they are given counts
MAX_FOLDED = 1 << 26      # elements of a constant that is computed here


def op_name(node: torch.fx.Node) -> str:
    """aten.add of aten.add.Tensor; the Python function's name of what is no operation of torch."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return f'{target.namespace}.{target._schema.name.split("::")[-1]}'
    return getattr(target, '__name__', str(target))


@dataclasses.dataclass
class Step:
    """One operation: what it is called on is in `args` by the names of its schema, as values of the interpreter below."""
    node: torch.fx.Node
    op: str
    modules: tuple            # ((key, path, class name), ...), the outermost first
    trace: str | None
    hints: list               # lists of names, the innermost statement first
    callers: list             # the name that its result has in each frame, the outermost first, or None


@dataclasses.dataclass
class Traced:
    graph: torch.fx.Graph
    steps: list
    inputs: list              # placeholder nodes
    outputs: list             # nodes, or tensors that are constant
    parameters: dict          # placeholder node: name in the state_dict
    buffers: dict             # placeholder node: (name, tensor)
    constants: dict           # node: tensor that does not depend on inputs or parameters
    alias: dict               # node: the node whose value it has
    training: bool


def module_stack(node: torch.fx.Node) -> tuple:
    stack = node.meta.get('nn_module_stack') or {}
    return tuple((key, path.split('@')[0], cls if isinstance(cls, str) else f'{cls.__module__}.{cls.__qualname__}') for key, (path, cls) in stack.items())


def mutated_argument(node: torch.fx.Node) -> torch.fx.Node | None:
    """The tensor that an operation writes into, such as that of relu_."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    for i, a in enumerate(node.target._schema.arguments):
        if a.alias_info is not None and a.alias_info.is_write:
            found = node.args[i] if i < len(node.args) else node.kwargs.get(a.name)
            return found if isinstance(found, torch.fx.Node) else None
    return None


def is_drawn(node: torch.fx.Node) -> bool:
    return op_name(node) in EMPTY or torch.Tag.nondeterministic_seeded in getattr(node.target, 'tags', ())


def is_view(node: torch.fx.Node) -> bool:
    if node.target is operator.getitem:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and any(r.alias_info is not None and not r.alias_info.is_write for r in node.target._schema.returns)


def writes_into_views(graph: torch.fx.Graph, buffers: dict) -> bool:
    """Whether something is written into a tensor whose memory is read later under another name: renaming is not enough then."""
    at = {n: i for i, n in enumerate(graph.nodes)}
    shares: dict = {}          # node: all nodes with the same memory
    for node in graph.nodes:
        same = node.op == 'call_function' and node.all_input_nodes and (is_view(node) or mutated_argument(node) is not None or op_name(node) in IDENTITY)     # a copy gets the name of what it is made of
        source = node.all_input_nodes[0] if same else None
        shares[node] = shares[source] if source is not None else []
        shares[node].append(node)
    for node in graph.nodes:
        target = mutated_argument(node) if node.op == 'call_function' else None
        if target is None or target in buffers:
            continue
        if op_name(node) == 'aten.copy_' and is_view(target):
            return True
        others = [n for n in shares[node] if n is not target and at[n] < at[node]]
        if any(at[u] > at[node] and u.op != 'output' or u.op == 'output' for n in others for u in n.users):
            return True
    return False


def canonical_names(module: torch.nn.Module) -> dict[str, str]:
    """Of each name of a tied parameter the first one."""
    first: dict[int, str] = {}
    named = list(module.named_parameters(remove_duplicate=False)) + list(module.named_buffers(remove_duplicate=False))
    return {name: first.setdefault(id(t), name) for name, t in named}


def signature(module: torch.nn.Module, ep) -> tuple[dict, dict]:
    names, s = canonical_names(module), ep.graph_signature
    parameters, buffers = {}, {}
    of_parameters, of_buffers, of_constants = s.inputs_to_parameters, s.inputs_to_buffers, s.inputs_to_lifted_tensor_constants     # each is made anew when it is asked for
    for node in ep.graph.nodes:
        if node.op != 'placeholder':
            continue
        if node.name in of_parameters:
            parameters[node] = names.get(of_parameters[node.name], of_parameters[node.name])
        elif node.name in of_buffers:
            name = of_buffers[node.name]
            tensor = ep.state_dict[name] if name in ep.state_dict else ep.constants[name]
            buffers[node] = (names.get(name, name), tensor)
        elif node.name in of_constants:
            name = of_constants[node.name]
            buffers[node] = (name, ep.constants[name])
    return parameters, buffers


def refuse_written_buffers(graph: torch.fx.Graph, buffers: dict) -> None:
    """What forward writes into a buffer is there in the next step; the running statistics of a batch norm are the language's own, counters of batches nobody's."""
    memory: dict = {}          # node: the tensor whose memory it has
    for node in graph.nodes:
        if node.op != 'call_function':
            continue
        written = mutated_argument(node)
        name = buffers.get(memory.get(written, written))
        if name is not None and not name.endswith('num_batches_tracked'):
            stack = module_stack(node)
            where = f': in {stack[-1][1]} ({stack[-1][2].split(".")[-1]})' if stack and stack[-1][1] else ''
            raise NotTraced(f'{source.place(node.stack_trace)}{where}: writes the buffer {name}: compute it outside of forward, or import the module without it and write `state` and `update` into the text')
        if node.all_input_nodes and (is_view(node) or written is not None):
            first = node.all_input_nodes[0] if written is None else written
            memory[node] = memory.get(first, first)


def unknown_ops(traced: Traced, known: set) -> list[Step]:
    return [s for s in traced.steps if s.op not in known or is_projected(s.node)]


def is_projected(node: torch.fx.Node) -> bool:
    """An LSTM whose hidden state is a product of its own (proj_size): five parameters a layer, or three."""
    if op_name(node) != 'aten.lstm':
        return False
    _, _, parameters, biases, layers, _, _, bidirectional, _ = node.args
    return len(parameters) != layers * (2 if bidirectional else 1) * (4 if biases else 2)


@contextlib.contextmanager
def without_caches(module: torch.nn.Module):
    """Keys and values that models of transformers hand out for the next token are no output of a network that is trained."""
    configs = {id(c): c for c in (getattr(m, 'config', None) for m in module.modules()) if getattr(c, 'use_cache', False) is True}
    try:
        for c in configs.values():
            c.use_cache = False
        yield
    finally:
        for c in configs.values():
            c.use_cache = True


class NotTraced(Exception):
    """What the module does next depends on values, or is no part of a trace; the text says where."""


@contextlib.contextmanager
def errors_placed():
    """The place of what depends on values, and of other errors: what torch.export says of it is pages long, and is the cause of what is raised here."""
    try:
        yield
    except (NotTraced, gradients.Refused):
        raise
    except Exception as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith(source.TORCH)]
        line = next((f for f in reversed(frames) if f.filename != __file__), frames[-1])
        values = isinstance(e, (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException))
        what = 'depends on values, which torch.export cannot trace' if values else f'torch.export cannot trace it: {type(e).__name__}'
        if isinstance(e, PendingUnbackedSymbolNotFound):
            what = 'a place that is computed, which torch.export cannot trace here: a tensor of places, y[t[:1]] = v, x[t[:1] + torch.arange(2)]: ' + type(e).__name__
        raise NotTraced(f'{line.filename}:{line.lineno}: {line.line}: {what}: {(str(e).splitlines() or [""])[0]}') from e


@contextlib.contextmanager
def packed_refused():
    """Packed sequences have sizes that depend on values; torch.export ends in the middle of a layer."""
    def refuse(*_):
        line = next(f for f in reversed(traceback.extract_stack()[:-1]) if not f.filename.startswith(source.TORCH))
        raise NotTraced(f'{line.filename}:{line.lineno}: {line.line}: the sizes of packed sequences depend on values: give the layer the whole sequence, and take the last step of each record by its length, y[torch.arange(len(y)), length - 1]')
    with unittest.mock.patch.object(torch._VF, '_pack_padded_sequence', refuse):
        yield


@contextlib.contextmanager
def helpers_placed():
    """torch.export keeps the frames of forward methods alone: beside them the line of a function that one calls."""
    tracer = torch.fx.proxy.TracerBase
    forward_only = getattr(tracer, '_filter_traceback_frames', None)
    if forward_only is None:              # of an older torch
        yield
        return

    def with_helper(self, stack):
        kept, last = forward_only(self, stack), source.helper(stack)
        return traceback.StackSummary.from_list([*kept, last]) if kept and last else kept
    with unittest.mock.patch.object(tracer, '_filter_traceback_frames', with_helper):
        yield


def trace(module: torch.nn.Module, args: tuple, kwargs: dict, known: set) -> tuple[Traced, list[Step]]:
    """The operations of a module on these inputs, and those without a translator that nothing is known to be made of."""
    for path, m in module.named_modules():
        if isinstance(m, torch.nn.CrossMapLRN2d):     # of another time, with a gradient of its own
            raise NotTraced(f'{path}: torch.export cannot trace CrossMapLRN2d: LocalResponseNorm computes the same')
        if isinstance(m, torch.nn.modules.batchnorm._NormBase) and m.track_running_stats and m.momentum is None:
            raise NotTraced(f'{path}: {type(m).__name__} with momentum=None: a number')
    with without_caches(module), errors_placed(), packed_refused(), helpers_placed(), attention.batch_first(), gradients.own_gradients_refused(module):
        ep = torch.export.export(module, args, kwargs, strict=False)
    inline_regions(ep)
    names = ep.graph_signature.inputs_to_buffers
    refuse_written_buffers(ep.graph, {n: names[n.name] for n in ep.graph.nodes if n.name in names})
    shorten_growing_concats(ep.graph)
    functional = False
    for _ in range(12):
        parameters, buffers = signature(module, ep)
        if not functional and writes_into_views(ep.graph, buffers):
            ep, functional = decomposed(ep, {}, []), True
            continue
        traced = simplify(ep, parameters, buffers, module.training)
        unknown = unknown_ops(traced, known)
        if not unknown:
            return traced, []
        table = torch.export.default_decompositions()
        table.update({k: v for k, v in torch._decomp.decomposition_table.items() if k not in table})
        chosen = {s.node.target: table[s.node.target] for s in unknown if s.node.target in table}
        if not chosen:
            return traced, unknown
        ep, functional = decomposed(ep, chosen, [s for s in unknown if s.node.target in chosen]), True
    return traced, unknown


def decomposed(ep, table: dict, steps: list):
    """torch tells of errors without a line: what is taken apart has one."""
    try:
        return ep.run_decompositions(table)
    except Exception as e:
        places = [f'{source.place(s.trace)}: {s.op}' for s in steps] or [f'{source.place(n.stack_trace)}: {op_name(n)}' for n in ep.graph.nodes if n.op == 'call_function' and mutated_argument(n) is not None]
        raise NotTraced('\n'.join(f'{place}: torch cannot take this apart, or an operation beside it: {short(e)}' for place in dict.fromkeys(places or ['unknown place']))) from e


def short(e: Exception) -> str:
    return f'{type(e).__name__}: {(str(e).splitlines() or [""])[0]}'


def simplify(ep, parameters: dict, buffers: dict, training: bool) -> Traced:
    graph = ep.graph
    alias: dict = {}
    constants: dict = {n: t for n, (_, t) in buffers.items()}
    statistics = set()
    for node in graph.nodes:      # running statistics, and counters of batches, change: they are no constants
        if 'batch_norm' in op_name(node) if node.op == 'call_function' else False:
            statistics.update(a for a in node.args if isinstance(a, torch.fx.Node) and a in buffers)
        if node.op == 'call_function' and mutated_argument(node) in buffers:
            statistics.add(mutated_argument(node))
    for n in statistics:
        constants.pop(n, None)

    def resolve(n: Any) -> Any:
        while isinstance(n, torch.fx.Node) and n in alias:
            n = alias[n]
        return n

    ordered = []
    sizes: dict = {}          # symbol: the number that a constant has shown it to be
    for node in graph.nodes:
        if node.op != 'call_function':
            continue
        if sizes:
            node.meta['val'] = with_sizes(node.meta.get('val'), sizes)
        node_inputs = [resolve(i) for i in node.all_input_nodes]
        name = op_name(node)
        written = mutated_argument(node)
        if name in ('aten._assert_tensor_metadata', 'aten._assert_async', 'aten.sym_constrain_range_for_size', 'aten.sym_constrain_range') or name.startswith('_assert'):
            continue
        if written is not None and resolve(written) in statistics and 'batch_norm' not in name:
            continue                                    # num_batches_tracked += 1
        if name in IDENTITY or (name in ('aten.to', 'aten._to_copy', 'aten.type_as', 'aten.expand_as', 'aten.expand', 'aten.view', 'aten.reshape', 'aten.flatten', 'aten.squeeze',
                                         'aten.slice', 'aten._unsafe_view') and same_type(node, node_inputs[0])):
            alias[node] = node_inputs[0]
            continue
        if name in SHAPE_ONLY and foldable(node):
            val = node_inputs[0].meta['val']
            stand_in = {node_inputs[0]: torch.zeros((), dtype=val.dtype).expand(val.shape)}
            constants[node] = evaluate(node, resolve, {**constants, **stand_in})
            continue
        if not is_drawn(node) and all(i in constants for i in node_inputs) and foldable(node):
            value = evaluate(node, resolve, constants)
            if has_unknown_size(node):
                sizes.update(sizes_of(node.meta['val'], value))
                node.meta['val'] = with_sizes(node.meta['val'], sizes)
            if written is None or not isinstance(value, torch.Tensor):
                constants[node] = value
                continue
            constants[node] = value
            alias[resolve(written)] = node
            continue
        ordered.append(node)
        if written is not None and resolve(written) not in statistics:
            old = resolve(written)
            alias_after(node, old, resolve, alias)
    return finish(graph, ordered, ep, parameters, buffers, constants, alias, training, resolve)


def sizes_of(val, value) -> dict:
    """What the sizes of a constant are that torch.export had no number for, such as nonzero's."""
    vals, values = (x if isinstance(x, (list, tuple)) else [x] for x in (val, value))
    return {n.node.expr: m for v, t in zip(vals, values) if isinstance(v, torch.Tensor) for n, m in zip(v.shape, t.shape) if not isinstance(n, int) and n.node.expr.is_Symbol}


def with_sizes(val, sizes: dict):
    if isinstance(val, (list, tuple)):
        return type(val)(with_sizes(v, sizes) for v in val)
    if not isinstance(val, torch.Tensor) or all(isinstance(n, int) for n in val.shape):
        return val
    shape = [n if isinstance(n, int) else n.node.expr.subs(sizes) for n in val.shape]
    return torch.empty([int(n) for n in shape], dtype=val.dtype, device='meta') if all(isinstance(n, int) or n.is_Integer for n in shape) else val


def alias_after(node, old, resolve, alias):
    """From here on the old name stands for the new value; what was read before keeps the old one, since steps are made in order (see Reader)."""
    node.meta['renames'] = old


def same_type(node: torch.fx.Node, x: torch.fx.Node) -> bool:
    a, b = node.meta.get('val'), x.meta.get('val')
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or has_unknown_size(node) or has_unknown_size(x):
        return False
    floats = a.dtype.is_floating_point and b.dtype.is_floating_point
    return tuple(a.shape) == tuple(b.shape) and (a.dtype == b.dtype or floats)


def has_unknown_size(node: torch.fx.Node) -> bool:
    vals = node.meta.get('val')
    tensors = [v for v in (vals if isinstance(vals, (list, tuple)) else [vals]) if isinstance(v, torch.Tensor)]
    return any(not isinstance(n, int) for v in tensors for n in v.shape)


def foldable(node: torch.fx.Node) -> bool:
    val = node.meta.get('val')
    return not isinstance(val, torch.Tensor) or has_unknown_size(node) or val.numel() <= MAX_FOLDED


def evaluate(node: torch.fx.Node, resolve, constants: dict) -> Any:
    def value(n):
        v = constants[resolve(n)]
        if not isinstance(v, torch.Tensor):
            return v
        return v.clone() if mutated_argument(node) is n else v.contiguous()     # aliases leave contiguous() out
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), value)
    try:
        with torch.no_grad():
            return node.target(*args, **kwargs)
    except Exception as e:
        raise NotTraced(f'{source.place(node.stack_trace)}: {op_name(node)} of constants: {short(e)}') from e


def of_constant_mask(node: torch.fx.Node, reads: dict, constants: dict) -> str | None:
    """Of x[mask], whose mask is known: its places, which torch.export does not compute."""
    indices = node.args[1] if op_name(node) == 'aten.index' else []
    mask = next((constants.get(reads[node][i]) for i in indices if isinstance(i, torch.fx.Node)), None)
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.dim() != 1:
        return None
    places = mask.nonzero().flatten().tolist()
    return 'a constant mask: its places, ' + (str(places) if len(places) < 9 else 'mask.nonzero().flatten() outside of forward')


def finish(graph, ordered, ep, parameters, buffers, constants, alias, training, resolve) -> Traced:
    outputs_node = next(n for n in graph.nodes if n.op == 'output')
    wanted = set(ep.graph_signature.user_outputs)
    flat = [o for o in outputs_node.args[0]]
    outputs = [o for o in flat if not isinstance(o, torch.fx.Node) or o.name in wanted]
    # in-place results: walk in order with the renames that hold at each place
    current: dict = {}

    def now(n):
        n = resolve(n)
        while n in current:
            n = resolve(current[n])
        return n

    reads: dict = {}
    for node in ordered:
        reads[node] = {i: now(i) for i in node.all_input_nodes}
        if 'renames' in node.meta:
            current[now(node.meta.pop('renames'))] = node
    outputs = [now(o) if isinstance(o, torch.fx.Node) else o for o in outputs]
    live, kept = set(o for o in outputs if isinstance(o, torch.fx.Node)), []
    for node in reversed(ordered):
        if node in live:
            kept.append(node)
            live.update(reads[node].values())
    kept.reverse()
    unknown = next((n for n in kept if has_unknown_size(n)), None)
    if unknown is not None:
        what = 'a size that depends on values: multiply by the mask, or where(mask, x, 0); repeat_interleave has output_size'
        raise NotTraced(f'{source.place(unknown.stack_trace)}: {op_name(unknown)}: {of_constant_mask(unknown, reads, constants) or what}')
    hints = source.name_hints([n.stack_trace for n in kept])
    steps = [Step(n, op_name(n), module_stack(n), n.stack_trace, [names for names in reversed(h) if names], [names[0] if len(names) == 1 and names[0] else None for names in h])
             for n, h in zip(kept, hints)]
    for n in kept:
        n.meta['reads'] = reads[n]
    used = ep.graph_signature.user_inputs
    inputs = [n for n in graph.nodes if n.op == 'placeholder' and n.name in used]
    return Traced(graph, steps, inputs, outputs, parameters, buffers, constants, alias, training)
