"""Arrays of the same 40 records of 3 numbers: one file, pieces of it, other element types, Fortran's order."""
import struct


def npy(name, kind, rows, fortran=False, shape=None):
    values = [rows[r][k] for k in range(len(rows[0])) for r in range(len(rows))] if fortran else [v for row in rows for v in row]
    descr = {"b": "|i1", "h": "<i2", "I": "<u4", "f": "<f4", "B": "|u1"}[kind]
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape or (len(rows), len(rows[0]))}, }}".ljust(117) + "\n"
    with open(name, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values))


x = [[(7 * r + 3 * k) % 11 - 5 for k in range(3)] for r in range(40)]
y = [[r % 3 - 1] for r in range(40)]
npy("x.npy", "f", x)
npy("i8.npy", "b", x)
npy("i16.npy", "h", x)
npy("fortran.npy", "f", x, fortran=True)
for i, (a, b) in enumerate([(0, 13), (13, 14), (14, 40)]):
    npy(f"x_{i}.npy", "f", x[a:b], fortran=i == 2)
npy("x_10.npy", "f", x[14:])
npy("x_first.npy", "f", x[:30])
npy("x_rest.npy", "f", x[30:])
npy("y.npy", "f", y)
for i, (a, b) in enumerate([(0, 30), (30, 40)]):
    npy(f"y_{i}.npy", "f", y[a:b])
npy("x_wide_0.npy", "f", x)
npy("x_wide_1.npy", "f", [row + [0] for row in x])
