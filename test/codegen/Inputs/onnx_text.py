"""A file of ONNX as text, read without ONNX: onnx_text.py MODEL [WEIGHTS]. With a safetensors file its tensors must be the initialisers of their names."""
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', '..'), os.path.join(HERE, '..', '..', '..', 'tools')]
import golden_format as gf
from protobuf_fields import fields


def every(data, field):
    return [v for f, v in fields(data) if f == field]


def first(data, field):
    return (every(data, field) or [b''])[0]


def attribute(data):
    value = {1: lambda: f'{struct.unpack("<f", first(data, 2))[0]:g}', 2: lambda: first(data, 3), 3: lambda: first(data, 4).decode(), 5: lambda: 'a graph', 7: lambda: every(data, 8)}
    return f'{first(data, 1).decode()}={value[first(data, 20)]()}'


def described(value):
    tensor = first(first(value, 2), 1)
    return f'{first(value, 1).decode()} type {first(tensor, 1)} {[first(d, 1) for d in every(first(tensor, 2), 1)]}'


def show(graph, around, indent):
    """Prints a graph, which may read names `around`; its tensors."""
    known = set(around)
    for kind, field in (('input', 11), ('output', 12)):
        for value in every(graph, field):
            print(indent + kind, described(value))
            assert kind == 'output' or first(value, 1) not in known, value
            known |= {first(value, 1)} if kind == 'input' else set()
    weights = {}
    for tensor in every(graph, 5):
        weights[first(tensor, 8).decode()] = (every(tensor, 1), first(tensor, 9))
        assert first(tensor, 8) not in known, tensor
        known.add(first(tensor, 8))
    for node in every(graph, 1):
        assert all(name in known for name in every(node, 1)), node   # in order, nothing missing
        assert not known & set(every(node, 2)), node   # each name is set once
        print(indent + ' '.join([first(node, 4).decode()] + [attribute(a) for a in every(node, 5)]), '<-',
              ', '.join(n.decode() for n in every(node, 1) if not n.startswith(b'/')))
        for a in every(node, 5):
            if first(a, 20) == 5:
                show(first(a, 6), known, indent + '  ')
        known.update(every(node, 2))
    assert all(first(value, 1) in known for value in every(graph, 12))
    return weights


model = open(sys.argv[1], 'rb').read()
graph = first(model, 7)
print('ir', first(model, 1), 'opset', first(first(model, 8), 2), 'of', first(model, 2).decode(), 'graph', first(graph, 2).decode())
weights = show(graph, set(), '')
if len(sys.argv) > 2:
    for name, (_, shape, data) in gf.read_bytes(sys.argv[2]).items():
        assert weights[name] == (shape, data), name
        print('weight', name, shape)
