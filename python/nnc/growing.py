"""Concatenations that grow, as those of DenseNet: each lays one more tensor behind what the one before has laid beside each other, and stands where its parts are made, not in the module that reads it."""
from __future__ import annotations

import torch
import torch.fx

CAT = torch.ops.aten.cat.default


def shorten_growing_concats(graph: torch.fx.Graph) -> None:
    """cat([a]), cat([a, b]), cat([a, b, c]) become a, x = cat([a, b]), cat([x, c])."""
    made: dict = {}      # (axis, parts): the node that lays them beside each other
    for node in list(graph.nodes):
        if node.op != 'call_function' or node.target is not CAT:
            continue
        parts, axis = tuple(node.args[0]), node.args[1] if len(node.args) > 1 else 0
        before = made.get((axis, parts[:-1]))
        made[axis, parts] = parts[0] if len(parts) == 1 else node
        if len(parts) == 1:
            node.replace_all_uses_with(parts[0])
            graph.erase_node(node)
        elif before is not None:
            node.args = ([before, parts[-1]], axis)
            node.meta['nn_module_stack'] = shared(node.meta.get('nn_module_stack'), parts[-1].meta.get('nn_module_stack'))


def shared(stack: dict | None, other: dict | None) -> dict:
    """The modules that are in both stacks, from the outermost."""
    out = {}
    for (key, value), other_key in zip((stack or {}).items(), other or {}):
        if key != other_key:
            break
        out[key] = value
    return out
