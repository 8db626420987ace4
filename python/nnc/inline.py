"""Parts of a graph that torch.export keeps apart because they are traced under torch.no_grad() or torch.autocast(): their operations go to where they are used."""
from __future__ import annotations

import operator

import torch
import torch.fx

KEPT_APART = ('wrap_with_set_grad_enabled', 'wrap_with_autocast')


def graph_of(node: torch.fx.Node, owner: torch.nn.Module) -> torch.fx.Graph:
    return getattr(owner, node.target).graph


def inline_regions(ep) -> None:
    """Changes the graph of an exported program. What was computed without a gradient is a constant for the gradient: it is detached."""
    inline_graph(ep.graph, ep.graph_module)
    ep.graph_module.recompile()


def inline_graph(graph: torch.fx.Graph, owner: torch.nn.Module) -> None:
    for node in list(graph.nodes):
        if node.op != 'call_function' or getattr(node.target, '__name__', '') not in KEPT_APART:
            continue
        at = next(i for i, a in enumerate(node.args) if isinstance(a, torch.fx.Node) and a.op == 'get_attr')
        inner, operands = getattr(owner, node.args[at].target), node.args[at + 1:]
        inline_graph(inner.graph, inner)
        with_gradient = node.target.__name__ != 'wrap_with_set_grad_enabled' or node.args[0]
        results = copy_in(graph, node, inner.graph, operands, with_gradient)
        for user in list(node.users):
            if user.target is operator.getitem:
                user.replace_all_uses_with(results[user.args[1]])
                graph.erase_node(user)
        if node.users:
            node.replace_all_uses_with(results[0])
        graph.erase_node(node)


def copy_in(graph: torch.fx.Graph, node: torch.fx.Node, inner: torch.fx.Graph, operands: tuple, with_gradient: bool) -> list:
    places = [n for n in inner.nodes if n.op == 'placeholder']
    values = dict(zip(places, operands))
    with graph.inserting_before(node):
        returned = graph.graph_copy(inner, values)
        returned = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        for new in (n for n in values.values() if isinstance(n, torch.fx.Node) and n not in operands):
            new.meta.setdefault('stack_trace', node.meta.get('stack_trace'))
        return returned if with_gradient else [detached(graph, r) for r in returned]


def detached(graph: torch.fx.Graph, value):
    val = value.meta.get('val') if isinstance(value, torch.fx.Node) else None
    if not isinstance(val, torch.Tensor) or not val.dtype.is_floating_point:
        return value
    result = graph.call_function(torch.ops.aten.detach.default, (value,))
    result.meta = dict(value.meta)
    return result
