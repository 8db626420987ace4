"""Inputs for Inputs/fourier.nn, and whether it gives for them what the definition says: fourier.py make IN | fourier.py check IN OUT."""
import cmath
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def transform(row, count):
    n = len(row)
    return [part for k in range(count) for z in [sum(v * cmath.exp(-2j * cmath.pi * j * k / n) for j, v in enumerate(row))] for part in (z.real, z.imag)]


def rows(values, size):
    return [values[i:i + size] for i in range(0, len(values), size)]


if sys.argv[1] == 'make':
    draw, header, body = random.Random(3), {}, b''
    for name, shape in (('x', [3, 2, 30]), ('y', [3, 17, 2])):
        count = shape[0] * shape[1] * shape[2]
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(body), len(body) + 4 * count]}
        body += struct.pack(f'<{count}f', *(draw.uniform(-1, 1) for _ in range(count)))
    text = json.dumps(header).encode()
    with open(sys.argv[2], 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + body)
else:
    x, y = (gf.read_safetensors(sys.argv[2])[name][2] for name in 'xy')
    found = gf.read_safetensors(sys.argv[3])
    complexes = [[complex(*pair) for pair in rows(record, 2)] for record in rows(y, 34)]
    odd = [[z.real for z in record] for record in complexes]
    wanted = [sum((transform(r, 16) for r in rows(x, 30)), []), x, sum((transform(r, 17) for r in complexes), []), y, sum((transform(r, 9) for r in odd), []), sum(odd, [])]
    for i, values in enumerate(wanted):
        got = found[f'output.fourier.{i}'][2]
        assert len(got) == len(values)
        worst = max(abs(a - b) for a, b in zip(got, values))
        if not worst < 1e-5:
            sys.exit(f'output {i}: off by {worst}')
    print(len(wanted), 'transforms are right')
