#!/usr/bin/env python3
"""Types and values of every operator on every pair of element types, against the table of docs/language.md: promotions.py NNC DOCS WORK [OPTION of nnc]...

The table is read from the page, so that it says what is so. Values are small integers, exact in all types, and integers beyond 2^53, exact in i64.
"""
import itertools
import math
import operator
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

TYPES = ['f32', 'bf16', 'f16', 'i64', 'i32', 'u8', 'i1']
X, Y = [1, 2, 3, 0], [3, 2, 1, 1]
LARGE = 9007199254740993
OPERATORS = {'+': operator.add, '-': operator.sub, '*': operator.mul, '/': operator.truediv, '//': operator.floordiv, '%': operator.mod, '**': operator.pow}
COMPARISONS = {'<': operator.lt, '<=': operator.le, '>': operator.gt, '>=': operator.ge, '==': operator.eq, '!=': operator.ne}
FLOATS = 'f32', 'bf16', 'f16'
RELATIVE = {'bf16': 2 ** -8, 'f16': 2 ** -11}   # of a rounding, of other floats 1e-6
# of the library, computed in f32 and rounded once
BINARY = {'atan2': math.atan2, 'xlogy': lambda u, v: u * math.log(v)}


def table(page):
    rows = [[c.strip() for c in line.strip('|\n ').split('|')] for line in open(page) if line.startswith(('| together', '| `f', '| `b', '| `i', '| `u'))]
    head = next(r for r in rows if r[0] == 'together')
    return {(r[0].strip('`'), h.strip('`')): c.strip('`') for r in rows if len(r) == len(head) and r is not head for h, c in zip(head[1:], r[1:])}


def cases(common):
    """(expression, type, values), None where any will do. a_T and b_T are X and Y in type T."""
    of = {t: (X, Y) if t != 'i1' else ([int(v != 0) for v in X], [int(v != 0) for v in Y]) for t in TYPES}
    for p in TYPES:
        for q in TYPES:
            joint = common[p, q]
            arithmetic = 'i32' if joint in ('u8', 'i1') else joint
            x, y = of[p][0], of[q][1]
            for op, function in OPERATORS.items():
                exact = None if op == '/' and joint in ('bf16', 'f16') else [function(u, v) for u, v in zip(x, y)]
                yield f'a_{p} {op} b_{q}', 'f32' if op == '/' and arithmetic not in FLOATS else arithmetic, exact
            for op, function in COMPARISONS.items():
                yield f'a_{p} {op} b_{q}', 'i1', [function(u, v) for u, v in zip(x, y)]
            for name, function in BINARY.items():
                yield f'{name}(a_{p}, b_{q})', joint if joint in FLOATS else 'f32', [float(function(u, v)) for u, v in zip(x, y)]
            yield f'lerp(a_{p}, b_{q}, 1)', arithmetic, y
            yield f'stack([a_{p}, b_{q}])', joint, x + y
            yield f'outer(a_{p}, b_{q})', arithmetic, [u * v for u in x for v in y]
            if arithmetic == p:
                yield f'scan(b_{q} over 4, axis=0, init=a_{p}[1:3]) {{ v, c -> c + v }}', p, [u + sum(y) for u in x[1:3]]
            yield f'maximum(a_{p}, b_{q})', arithmetic, [max(u, v) for u, v in zip(x, y)]
            yield f'minimum(a_{p}, b_{q})', arithmetic, [min(u, v) for u, v in zip(x, y)]
            yield f'where(a_i32 > 1, a_{p}, b_{q})', joint, [u if c > 1 else v for c, u, v in zip(X, x, y)]
            yield f'concat([a_{p}, b_{q}])', joint, x + y
        x = of[p][0]
        beside, summed = 'i32' if p in ('u8', 'i1') else p, p if p in FLOATS else 'i64'
        fraction = p if p in FLOATS else 'f32'
        if p in FLOATS:
            for call in f'matmul(reshape(a_{p}, [2, 2]), reshape(b_{p}, [2, 2]))', f'einsum("i j, j k -> i k", reshape(a_{p}, [2, 2]), reshape(b_{p}, [2, 2]))':
                yield call, p, [5, 4, 9, 6]
        yield f'prod(a_{p}[:3])', summed, [x[0] * x[1] * x[2]]
        yield f'cumsum(a_{p})', summed, list(itertools.accumulate(x))
        yield f'cumprod(a_{p})', summed, list(itertools.accumulate(x, operator.mul))
        if p != 'i1':
            yield f'-a_{p}', beside, [-v for v in x]
        yield f'a_{p} + 2', beside, [v + 2 for v in x]
        yield f'2 * a_{p}', beside, [2 * v for v in x]
        yield f'a_{p} + 0.5', fraction, [v + 0.5 for v in x]
        yield f'where(a_i32 > 1, a_{p}, 3)', 'i32' if p == 'i1' else p, [v if c > 1 else 3 for c, v in zip(X, x)]
        yield f'where(a_i32 > 1, 0.5, a_{p})', fraction, [0.5 if c > 1 else v for c, v in zip(X, x)]
        kept = 'i32' if p == 'i1' else p
        yield f'abs(a_{p})', kept, x
        yield f'relu(a_{p})', kept, x
        yield f'floor(a_{p})', kept, x
        yield f'clamp(a_{p}, 1, 2)', kept, [min(max(v, 1), 2) for v in x]
        yield f'clamp(a_{p}, 0.5, 2)', fraction, [min(max(v, 0.5), 2) for v in x]
        yield f'sum(a_{p})', summed, [sum(x)]
        yield f'amax(a_{p})', kept, [max(x)]
        yield f'amin(a_{p})', kept, [min(x)]
        yield f'mean(a_{p})', fraction, [sum(x) / 4]
    for op, function in ('and', operator.and_), ('or', operator.or_):
        yield f'a_i1 {op} a_i32 > 1', 'i1', [function(u != 0, u > 1) for u in X]
    yield 'not a_i1', 'i1', [u == 0 for u in X]
    yield 'where(a_i32 > 1, 1, 0)', 'i32', [0, 1, 1, 0]
    yield 'where(a_i32 > 1, 0.5, 0)', 'f32', [0, 0.5, 0.5, 0]
    yield f'a_i64 + {LARGE}', 'i64', [v + LARGE for v in X]
    yield f'where(a_i64 > 1, {LARGE}, -{LARGE + 2})', 'i64', [LARGE if v > 1 else -LARGE - 2 for v in X]
    yield f'a_i64 == {LARGE} - {LARGE - 2}', 'i1', [False, True, False, False]
    yield f'abs(a_i64 - {LARGE})', 'i64', [LARGE - v for v in X]
    yield f'clamp(a_i64 * {LARGE}, {LARGE}, {2 * LARGE})', 'i64', [min(max(v, 1), 2) * LARGE for v in X]
    yield f'sum(a_i64 + {LARGE})', 'i64', [4 * LARGE + sum(X)]
    yield f'amax(a_i64 + {LARGE})', 'i64', [LARGE + 3]
    yield f'amin(-a_i64 - {LARGE})', 'i64', [-LARGE - 3]
    yield 'sum(a_i32 - a_i32 + 2147483647)', 'i64', [4 * 2147483647]
    yield 'amin(a_i32 - 2147483647)', 'i32', [-2147483647]


def main():
    nnc, page, work, *options = sys.argv[1:]
    os.makedirs(work, exist_ok=True)
    source, exe, data, out = (os.path.join(work, n) for n in ('promotions.nn', 'promotions', 'in.safetensors', 'out.safetensors'))
    # all floats are f64 with that option, whatever the file says
    wide = '--dtype=f64' in options
    listed = [(e, 'f64' if wide and t in FLOATS else t, values) for e, t, values in cases(table(page))]
    failed = 0
    lines = ['model m(x: i32[4], y: i32[4]) {'] + [f'{n}_{t} = {v}' if t == 'i32' else f'{n}_{t} = {v} != 0' if t == 'i1' else f'{n}_{t} = cast({v}, "{t}")' for t in TYPES for n, v in ('ax', 'by')]
    with open(source, 'w') as f:
        f.write('\n'.join(lines + [f'r{i} = {c[0]}' for i, c in enumerate(listed)] + [', '.join(f'r{i}' for i in range(len(listed))), '}']) + '\n')
    text = subprocess.run([nnc, '--emit=nn', source, *(['--dtype=f64'] if wide else [])], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    types = {int(i): t.replace('ui8', 'u8') for t, i in re.findall(r'tensor<(?:\d+x)*(\w+)> {nn.name = "output.m.(\d+)"', text)}
    gf.write_safetensors(data, {'x': ('I32', [4], X), 'y': ('I32', [4], Y)})
    subprocess.run([nnc, source, '-o', exe, *options], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([exe, 'predict', '--inputs=' + data, '--outputs=' + out], check=True)
    results = gf.read_safetensors(out)
    for i, (expression, dtype, values) in enumerate(listed):
        got = results[f'output.m.{i}'][2]
        close = values is None or len(got) == len(values) and all(abs(g - v) <= RELATIVE.get(dtype, 1e-6) * abs(v) if isinstance(v, float) else g == v for g, v in zip(got, values))
        if types[i] != dtype or not close:
            print(f'{expression} is {types[i]} {got}, not {dtype} {values}')
            failed += 1
    print(f'{len(listed)} expressions, {failed} differ')
    sys.exit(failed > 0)


main()
