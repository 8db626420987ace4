"""Weights in bf16 and f16, as other programs store them.

narrow_weights.py TYPE IN OUT    the tensors of IN, all F32, as TYPE: BF16 or F16, rounded to the nearest, ties to even
narrow_weights.py same WIDE NARROW      every tensor of NARROW is in WIDE as F32, with the same numbers
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


kind, first, second = sys.argv[1:]
tensors = read(first)
if kind == "same":
    other = read(second)
    for name, (dtype, shape, data) in other.items():
        assert tensors[name][0] == "F32" and tensors[name][1] == shape and wide("F32", tensors[name][2]) == wide(dtype, data), name
    print(len(other), "tensors:", *sorted({dtype for dtype, _, _ in other.values()}))
else:
    header, blob = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        assert dtype == "F32", name
        packed = narrow(wide(dtype, data), kind)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(blob), len(blob) + len(packed)]}
        blob += packed
    text = json.dumps(header).encode()
    open(second, "wb").write(struct.pack("<Q", len(text)) + text + blob)
