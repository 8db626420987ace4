"""Integers of 8 and 16 bits, and booleans, whose arithmetic is another one in torch: that wraps around in these bits, and the sum of two booleans is `or`.

The language computes bytes in i32 and has neither i8 nor i16, which are i32 in a text. What torch computes in them is written with what wraps, or refused."""
from __future__ import annotations

import torch

from .text import Call, Const, Expr, List, Op, call, constant_of
from .torch_ops import Unsupported, dtype_name, need

LIMITS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int16: (-(1 << 15), (1 << 15) - 1)}
SIGNED = (torch.int8, torch.int16)
NAMES = {torch.bool: 'bool', **{t: str(t).removeprefix('torch.') for t in LIMITS}}

WRAPS = {'+', '-', '*', '**', '//', '%', 'square', 'abs', 'sign'}     # exact in i32, or the same number modulo 2 to the 32
KEEPS = set('reshape flatten unsqueeze squeeze transpose rearrange broadcast_to concat stack split flip roll pad gather take_along where scatter full cast stop_gradient dropout relu clamp '
            'maximum minimum amax amin sort topk kthvalue median cummax cummin maxpool pixel_shuffle pixel_unshuffle channel_shuffle randint bernoulli'.split())    # give elements that they are given
OF_TRUTHS = {'+', '-', '*', '**', '//', '%', 'square', 'abs', 'sum', 'prod', 'cumsum', 'cumprod', 'scatter_add'}
IN_I32 = {'maximum', 'minimum', 'amax', 'amin'}                       # of booleans, the first two of bytes, too

SIZED = {'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'clamp', 'clip', 'clamp_min', 'clamp_max', 'maximum', 'minimum', 'max', 'min', 'where', 'masked_fill', 'floor_divide', 'div', 'remainder'}


CONVERTS = {'to': 0, '_to_copy': 0, 'type_as': 0, 'copy': 1}          # what is converted, among the operands


def plain(op: str) -> str:
    name = op.removeprefix('aten.')
    return name[:-1] if name.endswith('_') and not name.endswith('__') else name


def operands_of(node: torch.fx.Node) -> list:
    """Its numbers, and its tensors as torch.export knows them."""
    given = [a.meta.get('val') if isinstance(a, torch.fx.Node) else a for a in [*node.args, *node.kwargs.values()]]
    return [v for v in given if isinstance(v, (torch.Tensor, int, float))]


def of_result(op: str, node: torch.fx.Node, e: Expr) -> Expr:
    """e, what an operation computes, as torch has it in the type of the result."""
    t, converted = node.meta['val'].dtype, CONVERTS.get(plain(op))
    if t not in NAMES or isinstance(e, List):
        return e
    if converted is not None:
        return wrapped(e, t) if t in SIGNED and is_wider(operands_of(node)[converted].dtype, t) else e
    head = e.op if isinstance(e, Op) else e.fn if isinstance(e, Call) else None
    nearest = head == 'interpolate' and str(constant_of(e.names['mode'])).startswith('nearest')     # the same elements, as floats
    if nearest or (head in IN_I32 if t == torch.bool else t == torch.uint8 and head in ('maximum', 'minimum')):
        return call('cast', e, dtype_name(t))
    if t == torch.bool:
        need(head not in OF_TRUTHS, 'arithmetic of bool: | and &, or of x.int()')
        return e
    if head is None or head in KEEPS:
        return e
    small = head != '**' or t != torch.int16 and constant_of(e.args[1]) in (1, 2, 3)       # a power beyond i32 does not wrap
    need(head in WRAPS and small, f'arithmetic of {NAMES[t]}, which wraps around: of x.int(), or x.float()')
    return wrapped(e, t)


def is_wider(a: torch.dtype, b: torch.dtype) -> bool:
    """Whether there are integers of type a that b, of few bits, does not have. Floats beyond its range are undefined in torch."""
    if a.is_floating_point or a == torch.bool:
        return False
    return a not in LIMITS or LIMITS[a][0] < LIMITS[b][0] or LIMITS[a][1] > LIMITS[b][1]


def wrapped(e: Expr, t: torch.dtype) -> Expr:
    if t == torch.uint8:
        return call('cast', e, dtype_name(t))
    half = -LIMITS[t][0]
    return Op('-', [Op('%', [Op('+', [e, Const(half)]), Const(2 * half)]), Const(half)])


def refuse_beyond(op: str, node: torch.fx.Node) -> None:
    """torch converts a number, and a scalar tensor, beside a tensor of few bits to its type: what compares, divides or chooses sees another number then."""
    out, given = node.meta['val'], operands_of(node)
    if plain(op) not in SIZED or not isinstance(out, torch.Tensor):
        return
    t = torch.result_type(*given) if out.dtype == torch.bool and len(given) == 2 else out.dtype
    low, high = LIMITS.get(t, (0, 0))
    if t in LIMITS and any(is_wider(x.dtype, t) if isinstance(x, torch.Tensor) else type(x) is int and not low <= x <= high for x in given):
        raise Unsupported(f'a number beyond {NAMES[t]}, which wraps around: x.int() before')
