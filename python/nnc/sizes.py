"""Sizes that a text has as a `dim`: the module is traced again with another size, and a number that has changed with it is written by its name. What cannot be told so stays a number."""
from __future__ import annotations

import logging
import math
import re
from typing import Callable

import torch

NUMBER = re.compile(r'(?<![\w.])\d+(?![\w.])')
UNIT = re.compile(r'⟨([^⟩]*)⟩')      # 3*N in place of a number, before it is known whether it needs brackets there


def named(text: str, other: str, name: str, size: int, other_size: int) -> str | None:
    """text with `name` for the numbers that are `size` in it and `other_size` in the other; None where the texts differ in another way."""
    a, b = NUMBER.split(text), NUMBER.split(other)
    if a != b:
        return None
    numbers = [one(x, y, name, size, other_size) for x, y in zip(NUMBER.findall(text), NUMBER.findall(other))]
    if None in numbers:
        return None
    return ''.join(p + n for p, n in zip(a, numbers + ['']))


def one(x: str, y: str, name: str, size: int, other_size: int) -> str | None:
    if x == y:
        return x
    v, w = int(x), int(y)
    if v * other_size == w * size and v % size == 0:
        return name if v == size else f'⟨{v // size}*{name}⟩'
    if v - size == w - other_size:
        return f'⟨{name} {"+" if v > size else "-"} {abs(v - size)}⟩'
    return None


def resized(args: tuple, kwargs: dict, axis: int, size: int, sequences: bool = False) -> tuple:
    """The inputs with one more element along an axis (batch) or one less (time), of those that have the size there: of time tokens, and with `sequences` what a module has made of them."""
    def change(t):
        if not isinstance(t, torch.Tensor) or t.dim() <= axis or t.shape[axis] != size or axis == 1 and not sequences and (t.is_floating_point() or t.dim() != 2):
            return t
        return torch.cat([t, t[:1]]) if axis == 0 else t[:, :-1]
    return torch.utils._pytree.tree_map(change, (tuple(args), kwargs))


def generalise(text: str, convert: Callable, args: tuple, kwargs: dict, names: list, sequences: bool = False) -> tuple[str, list]:
    """names: (name, axis, size). The text with those sizes as names that another trace confirms, and the names that are in it."""
    found = []
    for name, axis, size in names:
        changed = size + 1 if axis == 0 else size - 1
        heard = logging.root.manager.disable
        logging.disable(logging.ERROR)      # torch tells at length what went wrong
        try:
            other = convert(*resized(args, kwargs, axis, size, sequences))
        except Exception:       # the module does not take that size: it stays as it is
            continue
        finally:
            logging.disable(heard)
        for n, _, s in found:
            again = named(other, text, n, s, s)
            other = other if again is None else again
        new = match(text, other, name, size, changed, found)
        if new is not None:
            text = new
            found.append((name, axis, size))
    return bracketed(text), found


def bracketed(text: str) -> str:
    """Units in brackets where they would be taken apart otherwise: x / (3*N)."""
    def written(m: re.Match) -> str:
        before, after = text[:m.start()].rstrip(), text[m.end():].lstrip()
        apart = before.endswith(('/', '%', '**')) or after.startswith('**')
        return f'({m[1]})' if ' ' in m[1] or apart else m[1]
    return UNIT.sub(written, text)


def value(unit: str, sizes: dict) -> int:
    """Of 3*N, N*T or N + 1 in numbers."""
    number = lambda p: sizes.get(p) or int(p)
    if ' ' in unit:
        a, sign, b = unit.split()
        return number(a) + (number(b) if sign == '+' else -number(b))
    return math.prod(map(number, unit.split('*')))


def match(text: str, other: str, name: str, size: int, changed: int, found: list) -> str | None:
    """The other text has numbers where this one has names already: both are compared as numbers."""
    if not found:
        return named(text, other, name, size, changed)
    sizes = {n: s for n, _, s in found}
    plain = UNIT.sub(lambda m: str(value(m[1], sizes)), text)
    plain = re.sub(r'(?<![\w."])(' + '|'.join(sizes) + r')(?![\w])', lambda m: str(sizes[m[1]]), plain)
    result = named(plain, other, name, size, changed)
    return None if result is None else overlay(text, result, name, size)


def overlay(text: str, result: str, name: str, size: int) -> str | None:
    """Both texts are equal but for numbers: of each place the name, from whichever has one, or their product: 14*N and 8*T of N = 4 and T = 7 are 2*N*T. None where both have one that are no product: the text is
    right for one size then, of which it would compute another number silently."""
    word = re.compile(UNIT.pattern.replace('(', '(?:', 1) + r'|(?<![\w.])[A-Z]\w*(?![\w])|' + NUMBER.pattern)
    a, b = word.split(text), word.split(result)
    if a != b:
        return None

    def pick(x: str, y: str) -> str | None:
        if x == y or not re.search(rf'\b{name}\b', y):
            return x
        if x.isdigit():
            return y
        times = re.fullmatch(r'⟨(\d+)\*(\w+)⟩', x)
        if not times or ' ' in y or int(times[1]) % size:
            return None
        factor = int(times[1]) // size
        return f'⟨{f"{factor}*" if factor != 1 else ""}{times[2]}*{name}⟩'
    picked = [pick(x, y) for x, y in zip(word.findall(text), word.findall(result))]
    return None if None in picked else ''.join(p + n for p, n in zip(a, picked + ['']))
