"""The same 24 images of 3 classes as a folder of PNG files and as arrays; a folder with files that are no images, and with links back."""
import os
import struct
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, colour):
    height, width = len(rows), len(rows[0]) // (3 if colour else 1)
    raw = b"".join(b"\0" + bytes(row) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2 if colour else 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def npy(name, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with open(name, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write(name, data):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as out:
        out.write(data)


images, greys, labels = b"", b"", []
for k, name in enumerate(["ape", "bee", "cat"]):
    for i in range(8):
        pixels = [[[(17 * r + 5 * c * c + 41 * p + 29 * k + 3 * i * r) % 256 for p in range(3)] for c in range(6)] for r in range(8)]
        data = png([[v for pixel in row for v in pixel] for row in pixels], True)
        images += bytes(pixels[r][c][p] for p in range(3) for r in range(8) for c in range(6))
        greys += bytes((19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16 for row in pixels for r, g, b in row)
        labels.append(k)
        write(f"train/{name}/{'sub/' if i == 7 else ''}{i}.png", data)
        write(f"broken/{name}/{i}.png", data if (k, i) not in ((1, 3), (1, 4)) else data[: len(data) // 2] if i == 3 else b"GIF89a")
    write(f"eval/{name}/0.png", data)
os.symlink(".", "train/bee/loop")
os.symlink("../..", "train/cat/sub/up")
write("train/ape/notes.txt", b"no image")
write("other/dog/0.png", data)
npy("image.npy", "|u1", "(24, 3, 8, 6)", images)
npy("grey.npy", "|u1", "(24, 1, 8, 6)", greys)
npy("label.npy", "<i4", "(24,)", struct.pack("<24i", *labels))
kept = [i for i in range(24)]
kept[11] = kept[12] = 13
npy("skipped-image.npy", "|u1", "(24, 3, 8, 6)", b"".join(images[144 * i:144 * i + 144] for i in kept))
npy("skipped-label.npy", "<i4", "(24,)", struct.pack("<24i", *(labels[i] for i in kept)))
