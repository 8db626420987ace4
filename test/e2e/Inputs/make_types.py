"""The same 12 records of 2 x 3 small numbers in every format and type that it has, in C's and in Fortran's order."""
import json
import struct
import zipfile

x = [[[(5 * r + 3 * i + k) % 11 for k in range(3)] for i in range(2)] for r in range(12)]
flat = [v for r in x for row in r for v in row]
fortran = [x[r][i][k] for k in range(3) for i in range(2) for r in range(12)]
TYPES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "f32": "f", "f64": "d"}


def npy(name, code, turned):
    descr = {"b": "|i1", "B": "|u1", "h": "<i2", "H": "<u2", "i": "<i4", "I": "<u4", "q": "<i8", "f": "<f4", "d": "<f8"}[code]
    header = f"{{'descr': '{descr}', 'fortran_order': {turned}, 'shape': (12, 2, 3), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<72{code}", *(fortran if turned else flat))


def write(name, data):
    with open(name, "wb") as out:
        out.write(data)


tensors, data = {}, b""
with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_STORED) as archive, zipfile.ZipFile("deflated.npz", "w", zipfile.ZIP_DEFLATED) as deflated:
    for name, code in TYPES.items():
        for turned in False, True:
            full = name + ("_fortran" if turned else "")
            write(f"{full}.npy", npy(full, code, turned))
            archive.writestr(f"{full}.npy", npy(full, code, turned))
            deflated.writestr(f"{full}.npy", npy(full, code, turned))
        new = struct.pack(f"<72{code}", *flat)
        tensors[name] = {"dtype": name.upper(), "shape": [12, 2, 3], "data_offsets": [len(data), len(data) + len(new)]}
        data += new
text = json.dumps(tensors).encode()
write("x.safetensors", struct.pack("<Q", len(text)) + text + data)
for name, kind in ("u8", 0x08), ("i8", 0x09), ("i16", 0x0B), ("i32", 0x0C), ("f32", 0x0D), ("f64", 0x0E):
    write(f"{name}.idx", struct.pack(">4B3i", 0, 0, kind, 3, 12, 2, 3) + struct.pack(f">72{TYPES[name]}", *flat))
