"""A loss of one's own: a function of the module's outputs and the targets becomes a block of the text."""
from __future__ import annotations

import inspect
import re
from typing import Any

import torch

from .text import number, snake_case

STATE = re.compile(r'^( *)state (\w+)(?: as "([^"]*)")?: .*\n', re.MULTILINE)
LARGEST = 4096      # elements of `tensor`


class Loss(torch.nn.Module):
    """A function with these names of arguments, which its text has, too."""

    def __init__(self, loss: Any, names: list[str]):
        super().__init__()
        self.loss = loss
        call = lambda *tensors: loss(*tensors)
        call.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
        self.forward = call


class NotABlock(ValueError):
    """A loss that cannot be written; the text says why."""


def names_of(loss: Any, count: int) -> list[str]:
    """Those of its arguments in Python."""
    try:
        given = [p.name for p in inspect.signature(loss.forward if isinstance(loss, torch.nn.Module) else loss).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        given = []
    return [snake_case(n) for n in given[:count]] if len(given) >= count else [f'y{i}' for i in range(count)]


def loss_block(program, loss: Any, outputs: list, targets: list) -> tuple[str, str, dict[str, str]]:
    """The block's text and name, and its arguments with their types: the outputs, then the targets."""
    from .importer import convert
    module = Loss(loss, names_of(loss, len(outputs) + len(targets)))
    name = snake_case(getattr(loss, '__name__', type(loss).__name__))
    name = name if re.fullmatch(r'[a-z]\w*', name) and name not in (program.name, 'lambda') else 'criterion'
    inputs = (*outputs, *targets)
    made = convert(module, inputs, name=name)
    known = {n: size for n, *_, size in program.sizes}
    if any(known.get(n) != size for n, *_, size in made.sizes):
        made = convert(module, inputs, name=name, sizes=False)
    if made.parameters or made.dims or re.search(r'^block ', made.text, re.MULTILINE) or len(made.outputs) != 1 or made.outputs[0].shape:
        raise NotABlock(f'loss {name}: a function of outputs and targets, without parameters and layers of its own, that gives one number')
    head, body = made.text[made.text.index(f'model {made.name}('):].split(') {', 1)
    types = dict(re.findall(r'(\w+): (\w+\[[^]]*\])', head))
    return f'block {made.name}({", ".join(types)}) {{' + STATE.sub(lambda m: constant(made, m), body), made.name, types


def constant(made, m: re.Match) -> str:
    """A tensor in place of a state, which would have a path of its own in the file of weights."""
    value = made.weights.get(m[3] or m[2])
    if value is None:
        raise NotABlock(f'loss {made.name}: constants {m[3]} of a loop: one tensor of them all')
    if value.numel() > LARGEST:
        raise NotABlock(f'loss {made.name}: a constant of {value.numel()} numbers: read it from the data, as a target')
    return f'{m[1]}{m[2]} = {tensor_literal(value)}\n'


def tensor_literal(value: torch.Tensor) -> str:
    listed = lambda v: '[' + ', '.join(map(listed, v)) + ']' if isinstance(v, list) else number(v)
    return f'tensor({listed(value.tolist())})'
