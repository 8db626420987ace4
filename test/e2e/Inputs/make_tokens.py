"""Files of the same 203 tokens below 300 in a folder: raw 16-bit numbers, plain and gzip, NumPy arrays and safetensors; and wrong ones."""
import gzip
import json
import os
import struct
import sys

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
tokens = [i * i * 7 % 300 for i in range(203)]


def write(name, data):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def safetensors(tensors):
    header, data = {}, b""
    for name, dtype, values in tensors:
        header[name] = {"dtype": dtype, "shape": [len(tokens)], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


u16, i32, f32 = (struct.pack(f"<{len(tokens)}{c}", *tokens) for c in "Hif")
write("tokens.bin", u16)
write("zipped.bin", gzip.compress(u16))
write("u16.npy", npy("<u2", "(203,)", u16))
write("i32.npy", npy("<i4", "(203,)", i32))
write("one.safetensors", safetensors([("text", "I32", i32)]))
write("two.safetensors", safetensors([("other", "U16", u16[::-1]), ("text", "U16", u16)]))
write("large.bin", u16[:150] + struct.pack("<H", 60000) + u16[152:])
write("negative.npy", npy("<i4", "(203,)", i32[:400] + struct.pack("<i", -5) + i32[404:]))
write("odd.bin", u16[:-1])
write("short.bin", u16[:10])
write("rows.npy", npy("<u2", "(29, 7)", u16))
write("float.npy", npy("<f4", "(203,)", f32))
