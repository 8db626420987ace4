"""Inputs for Inputs/along_axis.nn, and what it gives for them: rows.py make IN | rows.py check IN OUT."""
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

N, X, Y, C, Z = 3, 700, 7, 40, 90


def make(path):
    draw = random.Random(5)
    x = [[round(draw.gauss(0, 1) * 64) / 64 for _ in range(X)] for _ in range(N)]
    x[0][5], x[1][7], x[1][9], x[2][3], x[2][4] = math.nan, math.inf, -math.inf, -0.0, 0.0
    tensors = {'x': ('F32', [N, X], sum(x, [])), 'y': ('F32', [N, Y, C], [round(draw.gauss(0, 1) * 8) / 8 for _ in range(N * Y * C)]),
               'z': ('I32', [N, Z], [draw.randrange(-20, 20) for _ in range(N * Z)]), 'at': ('I32', [N, 5, C], [draw.randrange(Y) for _ in range(N * 5 * C)])}
    header, body = {}, b''
    for name, (dtype, shape, values) in tensors.items():
        data = struct.pack(f'<{len(values)}{"f" if dtype == "F32" else "i"}', *values)
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(body), len(body) + len(data)]}
        body += data
    text = gf.json.dumps(header).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + body)


def split(values, size):
    return [values[i:i + size] for i in range(0, len(values), size)]


def columns(values, length):
    """Of (N, length, C): the C columns of each record."""
    return [[record[t * C + c] for t in range(length)] for record in split(values, length * C) for c in range(C)]


def back(rows, length):
    """The inverse of columns."""
    return [rows[n * C + c][t] for n in range(N) for t in range(length) for c in range(C)]


def order(row, descending=False):
    key = lambda i: (row[i] != row[i], row[i] if row[i] == row[i] else 0)
    down = lambda i: (row[i] == row[i], -row[i] if row[i] == row[i] else 0)
    return sorted(range(len(row)), key=down if descending else key)


def running(row):
    best, out = 0, []
    for i, v in enumerate(row):
        if v != v or (row[best] == row[best] and v >= row[best]):
            best = i
        out.append(best)
    return out


def sums(row):
    return [sum(row[:i + 1]) for i in range(len(row))]


def scattered(row, at, source, add):
    row = list(row)
    for i, v in zip(at, source):
        row[i] = row[i] + v if add else v
    return row


def expected(inputs):
    x, y, z, at = (inputs[name][2] for name in ('x', 'y', 'z', 'at'))
    xs, ys, zs, ats = split(x, X), columns(y, Y), split(z, Z), columns(at, 5)
    pick = lambda rows, orders: [[row[i] for i in o] for row, o in zip(rows, orders)]
    join = lambda rows: [v for row in rows for v in row]
    up, down = [order(r) for r in xs], [order(c, True) for c in ys]
    most, least, when = [order(r, True)[:9] for r in xs], [order(r)[:4] for r in zs], [running(r) for r in xs]
    third, middle = [order(c)[2:3] for c in ys], [order(r)[44:45] for r in zs]
    out = [join(pick(xs, up)), join(up), back(pick(ys, down), Y), back(down, Y), join(pick(xs, most)), join(most), join(pick(zs, least)), join(least),
           join(pick(xs, when)), join(when), join(pick(ys, third)), join(third), join(pick(zs, middle)), join(middle)]
    out += [join(sums(r) for r in zs), back([sums(c) for c in ys], Y), back(pick(ys, ats), 5), back([scattered(c, a, c, False) for c, a in zip(ys, ats)], Y)]
    out.append(back([scattered([int(v * 8) for v in c], a, a, True) for c, a in zip(ys, ats)], Y))
    out.append([y[(n * Y + t) * C + at[c]] for n in range(N) for t in range(Y) for c in range(C)])
    out.append([sum(not b >= v for b in xs[2]) for r in xs for v in r[:50]])   # all are below a NaN
    return out + [join(order(r, True) for r in xs), join(order(r) for r in zs)]


def main():
    if sys.argv[1] == 'make':
        return make(sys.argv[2])
    found, wanted = gf.read_safetensors(sys.argv[3]), expected(gf.read_safetensors(sys.argv[2]))
    for i, values in enumerate(wanted):
        got = found[f'output.rows.{i}'][2]
        different = [k for k, (a, b) in enumerate(zip(got, values)) if not (a == b or (a != a and b != b))]
        if different or len(got) != len(values):
            k = different[0] if different else -1
            sys.exit(f'output {i}: {len(got)} numbers of {len(values)}, {len(different)} differ, as {k}: {got[k]}, expected {values[k]}')
    print(len(wanted), 'outputs are right')


main()
