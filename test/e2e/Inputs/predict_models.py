"""predict_models.py uniform FILE TENSOR LOW HIGH: its numbers fill that range; rename FILE TENSOR OUT NAME; near A B: lines of JSON within 1e-5"""
import json
import struct
import sys


def load(path, name):
    with open(path, 'rb') as f:
        size, = struct.unpack('<Q', f.read(8))
        entry = json.loads(f.read(size))[name]
        f.seek(8 + size + entry['data_offsets'][0])
        return entry['shape'], f.read(entry['data_offsets'][1] - entry['data_offsets'][0])


def uniform(path, name, low, high):
    shape, data = load(path, name)
    values = struct.unpack(f'<{len(data) // 4}f', data)
    low, high = float(low), float(high)
    assert shape == [100, 3] and len(set(values)) == 300
    assert low <= min(values) < low + 0.1 and high - 0.1 < max(values) < high, (min(values), max(values))


def rename(path, name, out, other):
    shape, data = load(path, name)
    head = json.dumps({other: {'dtype': 'F32', 'shape': shape, 'data_offsets': [0, len(data)]}}).encode()
    with open(out, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head + data)


def near(a, b):
    with open(a, encoding='ascii') as f, open(b, encoding='ascii') as g:
        for x, y in zip(f, g, strict=True):
            for (name, these), (other, those) in zip(json.loads(x).items(), json.loads(y).items(), strict=True):
                assert name == other and all(abs(u - v) <= 1e-5 for u, v in zip(these, those, strict=True)), (x, y)


{'uniform': uniform, 'rename': rename, 'near': near}[sys.argv[1]](*sys.argv[2:])
