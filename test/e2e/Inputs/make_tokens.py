"""Files of the same 203 tokens below 300 in a folder: raw numbers, plain, gzip, with llm.c's headers and in pieces, NumPy arrays and safetensors; and wrong ones."""
import gzip
import json
import os
import struct
import sys
import zipfile

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
with zipfile.ZipFile(os.path.join(folder, "tokens.npz"), "w", zipfile.ZIP_STORED) as archive:
    archive.writestr("text.npy", npy("<u4", "(203,)", struct.pack("<203I", *tokens)))
    archive.writestr("other.npy", npy("<i2", "(203,)", struct.pack("<203h", *tokens)))
write("dataset.bin", b"\x89HDF\r\n\x1a\n" + u16)
write("zipped.bin", gzip.compress(u16))
write("u16.npy", npy("<u2", "(203,)", u16))
write("i32.npy", npy("<i4", "(203,)", i32))
write("one.safetensors", safetensors([("text", "I32", i32)]))
write("two.safetensors", safetensors([("other", "U16", u16[::-1]), ("text", "U16", u16)]))
u32 = struct.pack(f"<{len(tokens)}I", *tokens)
write("u32.bin", u32)
for name, magic, version, data in ("gpt2.bin", 20240520, 1, u16), ("llama3.bin", 20240801, 7, u32), ("claims.bin", 20240520, 1, u16[:-2]):
    write(name, struct.pack("<3i", magic, version, len(tokens)) + bytes(1012) + data)
cuts = [0, 1, 90, 97, 203]
for i in range(4):
    part = u16[2 * cuts[i]:2 * cuts[i + 1]]
    header = struct.pack("<3i", 20240520, 1, len(part) // 2) + bytes(1012)
    write(f"shard_{i}.bin", (header if i % 2 else b"") + part)
    write(f"wrong_{i}.bin", part if i < 3 else part[:-10] + struct.pack("<H", 60000) + part[-8:])
write("shard_x.npy", npy("<u2", "(2, 3)", bytes(12)))
write("large.bin", u16[:150] + struct.pack("<H", 60000) + u16[152:])
write("negative.npy", npy("<i4", "(203,)", i32[:400] + struct.pack("<i", -5) + i32[404:]))
write("odd.bin", u16[:-1])
write("short.bin", u16[:10])
write("rows.npy", npy("<u2", "(29, 7)", u16))
write("float.npy", npy("<f4", "(203,)", f32))
