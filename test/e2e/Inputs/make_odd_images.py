"""The images of make_image_folder.py once more, as other kinds of PNG under odd names (odd/train), beside files that a training passes over; and
bad/NAME/train, folders of three of them and one file that is none."""
import os
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, RGBA = 0, 2, 3, 6
HEIGHT, WIDTH = 8, 6


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width, height, bits, colour, interlaced=0):
    return SIGNATURE + chunk(b"IHDR", struct.pack(">2I5B", width, height, bits, colour, 0, 0, interlaced))


def packed(rows):
    return chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in rows)))


def wide(rows):
    return [[[v for byte in pixel for v in (byte, byte)] for pixel in row] for row in rows]


def with_alpha(rows):
    return [[pixel + [(31 * i) % 256] for i, pixel in enumerate(row)] for row in rows]


def with_palette(rows, more=b""):
    colours = sorted({tuple(pixel) for row in rows for pixel in row})
    indices = [[[colours.index(tuple(pixel))] for pixel in row] for row in rows]
    return header(WIDTH, HEIGHT, 8, PALETTE) + chunk(b"PLTE", bytes(v for c in colours for v in c)) + more + packed(indices)


def interlaced(rows):
    passes = (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)   # Adam7
    lines = [row[x::by] for y, x, down, by in passes for row in rows[y::down] if row[x::by]]
    return header(WIDTH, HEIGHT, 8, RGB, 1) + packed(lines)


END = chunk(b"IEND", b"")
ABOUT = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"tEXt", b"Comment\0none") + chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0")   # to be turned by 90 degrees
KINDS = [lambda rows: header(WIDTH, HEIGHT, 8, RGB) + packed(rows), lambda rows: header(WIDTH, HEIGHT, 16, RGB) + packed(wide(rows)),
         lambda rows: header(WIDTH, HEIGHT, 8, RGBA) + packed(with_alpha(rows)), lambda rows: header(WIDTH, HEIGHT, 16, RGBA) + packed(wide(with_alpha(rows))), with_palette,
         lambda rows: with_palette(rows, chunk(b"tRNS", b"\0\x80")), interlaced, lambda rows: header(WIDTH, HEIGHT, 8, RGB) + ABOUT + packed(rows)]
NAMES = ["{}.png", "{} of eight.png", "{}-ü.PNG", "{}\n.Png", "{}'\".png", "{}$(x).jpg", "{}%s.jpeg", "{}.png.PNG"]


def write(name, data):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as out:
        out.write(data)


def pixels(k, i):
    return [[[(17 * r + 5 * c * c + 41 * p + 29 * k + 3 * i * r) % 256 for p in range(3)] for c in range(WIDTH)] for r in range(HEIGHT)]


for k, name in enumerate(["ape", "bee", "cat"]):
    for i in range(8):
        write(f"odd/train/{name}/" + NAMES[i].format(i), KINDS[(i + k) % 8](pixels(k, i)) + END)
write("odd/train/notes.png", b"beside the classes")
write("odd/train/ape/.hidden.png", b"hidden")
write("odd/train/ape/more.webp", b"RIFF")
write("odd/train/ape/more.bmp", b"BM")
os.makedirs("odd/train/cat/9.jpg")
os.symlink("self", "odd/train/bee/self")
os.symlink(os.path.abspath("odd"), "odd/train/cat/all.png")

good = KINDS[0](pixels(0, 0)) + END
huge = chunk(b"IDAT", zlib.compress(b"\0" * 100000))
BAD = {"empty": b"", "three-bytes": b"\x89PN", "no-end": good[:-12], "cut": good[:60], "header-alone": SIGNATURE, "sum": good[:50] + b"\xff" + good[51:],
       "no-width": header(0, 8, 8, RGB) + huge + END, "wide": header(65536, 1, 8, RGB) + huge + END, "negative": header(1 << 31, 1, 8, RGB) + huge + END,
       "few-rows": header(60000, 60000, 8, RGB) + huge + END, "large-interlaced": header(60000, 60000, 8, RGB, 1) + huge + END, "bits": header(6, 8, 3, RGB) + huge + END,
       "no-palette": header(6, 8, 8, PALETTE) + huge + END, "jpeg-of-nothing": b"\xff\xd8\xff\xd9", "jpeg-alone": b"\xff\xd8\xff\xe0\0\x10JFIF",
       "jpeg-huge": b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\3\1\x11\0\2\x11\0\3\x11\0\xff\xd9", "text": b"no image at all"}
for name in list(BAD) + ["pipe", "folder", "loop", "gone"]:
    for i in range(3):
        write(f"bad/{name}/train/ape/{i}.png", good)
    if name in BAD:
        write(f"bad/{name}/train/ape/3.png", BAD[name])
os.mkfifo("bad/pipe/train/ape/3.png")
os.mkdir("bad/folder/train/ape/3.png")
os.symlink("3.png", "bad/loop/train/ape/3.png")
os.symlink("nowhere", "bad/gone/train/ape/3.png")
