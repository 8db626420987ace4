#!/usr/bin/env python3
"""Compares tensors of two files, row by row at the ends of chunks: chunk.py A.safetensors B.safetensors BOUND NAME ROWS,ROWS,...

Rows are counted over all axes but the last one. Values differ by at most BOUND, relative to the largest of the row.
chunk.py inputs OUT.safetensors ROWS COLUMNS makes tokens and targets below 1000.
"""
import array
import json
import math
import struct
import sys


def tensor(path, name):
    with open(path, 'rb') as f:
        head, = struct.unpack('<Q', f.read(8))
        entry = json.loads(f.read(head))[name]
        f.seek(8 + head + entry['data_offsets'][0])
        values = array.array({'F32': 'f', 'F64': 'd'}[entry['dtype']], f.read(entry['data_offsets'][1] - entry['data_offsets'][0]))
    assert len(values) == math.prod(entry['shape'])
    return entry['shape'], values


def inputs(path, rows, columns):
    n = rows * columns
    head = {name: {'dtype': 'I32', 'shape': [rows, columns], 'data_offsets': [4 * n * i, 4 * n * (i + 1)]} for i, name in enumerate(('tokens', 'target'))}
    text = json.dumps(head).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for step in 7919, 104729:
            f.write(array.array('i', (i * step % 1000 for i in range(n))).tobytes())


def main():
    if sys.argv[1] == 'inputs':
        return inputs(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    one, other, bound, name, rows = sys.argv[1:]
    (shape, x), (again, y) = tensor(one, name), tensor(other, name)
    assert shape == again, (shape, again)
    columns = shape[-1]
    for row in map(int, rows.split(',')):
        a, b = x[row * columns:(row + 1) * columns], y[row * columns:(row + 1) * columns]
        worst = max(abs(p - q) for p, q in zip(a, b)) / max(map(abs, a))
        assert max(a) > min(a) and worst <= float(bound), f'row {row} differs by {worst:.1e}'
    print(f"{name}: {'x'.join(map(str, shape))}, {len(rows.split(','))} rows compared")


main()
