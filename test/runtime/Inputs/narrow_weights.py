"""Weights in bf16 and f16, as other programs store them.

narrow_weights.py TYPE IN OUT    the tensors of IN, all F32, as TYPE: BF16 or F16, rounded to the nearest, ties to even
narrow_weights.py same WIDE NARROW      every tensor of NARROW is in WIDE as F32, with the same numbers
narrow_weights.py equal A B      both have the same tensors, with the same types and bits
narrow_weights.py set FILE NAME INDEX VALUE OUT      FILE, all F32, with another number in it
"""
import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (e["dtype"], e["shape"], data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]]) for name, e in header.items()}


def narrow(values, dtype):
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(bits)}H", *((b + 0x7fff + (b >> 16 & 1)) >> 16 for b in bits))


def wide(dtype, data):
    if dtype == "F16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    if dtype == "BF16":
        return struct.unpack(f"<{len(data) // 2}f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
    return struct.unpack(f"<{len(data) // 4}f", data)


def write(path, tensors):
    header, blob = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + blob)


def count(tensors):
    print(len(tensors), "tensors:", *sorted({dtype for dtype, _, _ in tensors.values()}))


kind, first = sys.argv[1:3]
tensors = read(first)
if kind == "same":
    other = read(sys.argv[3])
    for name, (dtype, shape, data) in other.items():
        assert tensors[name][0] == "F32" and tensors[name][1] == shape and wide("F32", tensors[name][2]) == wide(dtype, data), name
    count(other)
elif kind == "equal":
    other = read(sys.argv[3])
    assert sorted(tensors) == sorted(other) and all(tensors[name] == other[name] for name in other), [name for name in other if tensors.get(name) != other[name]]
    count(other)
elif kind == "set":
    name, index, value, path = sys.argv[3:]
    dtype, shape, data = tensors[name]
    tensors[name] = dtype, shape, data[:4 * int(index)] + struct.pack("<f", float(value)) + data[4 * int(index) + 4:]
    write(path, tensors)
else:
    assert all(dtype == "F32" for dtype, _, _ in tensors.values())
    write(sys.argv[3], {name: (kind, shape, narrow(wide(dtype, data), kind)) for name, (dtype, shape, data) in tensors.items()})
