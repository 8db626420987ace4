# tensors.py npy OUT D0,D1,… EXPRESSION [i4|u1]: a .npy file of float32 (or int32, or bytes); EXPRESSION is evaluated at each linear index i.
# tensors.py show FILE NAME…: tensors of a safetensors file, one line each.
import json
import math
import struct
import sys

if sys.argv[1] == "npy":
    shape = [int(d) for d in sys.argv[3].split(",")]
    kind = sys.argv[5] if sys.argv[5:] else "f4"
    convert, letter = {"f4": (float, "f"), "i4": (int, "i"), "u1": (int, "B")}[kind]
    code = compile(sys.argv[4], "expression", "eval")
    values = [convert(eval(code, {"i": i, "math": math})) for i in range(math.prod(shape))]
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(sys.argv[2], "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{letter}", *values))
else:
    data = open(sys.argv[2], "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    for name in sys.argv[3:]:
        begin, end = header[name]["data_offsets"]
        count = (end - begin) // 4
        print(name, *(f"{v:.6f}" for v in struct.unpack(f"<{count}f", data[8 + size + begin:8 + size + end])))
