"""A table of 40 rows as CSV files and as arrays: numbers, categories, quotes; and tables with a fault."""
import struct

rows = [((7 * r) % 11 - 5, r % 3 / 4, f"k{r * r % 7}" if r % 5 else 'a, "b"\nc', r % 2) for r in range(40)]


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text


def table(name, separator=",", end="\n", change=lambda lines: lines):
    lines = [separator.join(["a", "unused", "b", "word", "label"])]
    lines += [separator.join([str(a), '"x"', f"{b:g}", quoted(w), str(y)]) for a, b, w, y in rows]
    with open(name, "w", newline="") as out:
        out.write(end.join(change(lines)) + end)


def npy(name, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with open(name, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


table("table.csv")
table("lines.csv", end="\r\n")
table("tabs.csv", separator="\t")
table("mark.csv", change=lambda lines: ["\ufeff" + lines[0].replace("unused", '"un\nused"')] + lines[1:])
table("glued.csv", change=lambda lines: lines[:3] + [lines[3].replace('"x"', '"x"y')] + lines[4:])
table("short.csv", change=lambda lines: lines[:4] + [lines[4].rsplit(",", 1)[0]] + lines[5:])
table("empty.csv", change=lambda lines: lines[:8] + [lines[8].rsplit(",", 1)[0] + ","] + lines[9:])
table("open.csv", change=lambda lines: lines[:3] + ['1,"x'])
table("twice.csv", change=lambda lines: [lines[0].replace("unused", "a")] + lines[1:])
table("part_0.csv", change=lambda lines: lines[:18])
table("part_1.csv", end="\r\n", change=lambda lines: lines[:1] + lines[18:])
npy("x.npy", "<f4", "(40, 2)", b"".join(struct.pack("<2f", b, a) for a, b, _, _ in rows))
npy("label.npy", "<i4", "(40,)", struct.pack("<40i", *(y for *_, y in rows)))
