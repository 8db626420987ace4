"""npz archives of the arrays that make_records.py writes: stored, deflated, in pieces, beyond 4 GiB, and damaged."""
import struct
import zipfile


def npz(name, method, **members):
    with zipfile.ZipFile(name, "w", method) as archive:
        for member, file in members.items():
            with archive.open(member + ".npy", "w", force_zip64=True) as out:   # as numpy.savez does
                out.write(open(file, "rb").read())


npz("stored.npz", zipfile.ZIP_STORED, x="x.npy", y="y.npy")
npz("deflated.npz", zipfile.ZIP_DEFLATED, x="x.npy", y="y.npy")
npz("i8.npz", zipfile.ZIP_DEFLATED, x="i8.npy", y="y.npy")
npz("fortran.npz", zipfile.ZIP_STORED, x="fortran.npy", y="y.npy")
npz("other.npz", zipfile.ZIP_LZMA, x="x.npy", y="y.npy")
for i in range(2):
    npz(f"part_{i}.npz", zipfile.ZIP_STORED, x=["x_first.npy", "x_rest.npy"][i], y=f"y_{i}.npy")
npz("names.npz", zipfile.ZIP_STORED, xs="x.npy", label="y.npy")
with zipfile.ZipFile("bare.npz", "w") as archive:
    archive.write("x.npy", "x")
zipfile.ZipFile("empty.npz", "w").close()


# An archive of 5 GiB, nearly all of it a hole, so that places and sizes need 8 bytes.
def large(name):
    entries = []
    with open(name, "wb") as out:
        for member, data, size in [("pad.npy", b"", 5 << 30), ("x.npy", open("x.npy", "rb").read(), 0), ("y.npy", open("y.npy", "rb").read(), 0)]:
            at, size = out.tell(), size or len(data)
            out.write(struct.pack("<IHHHHHIIIHH", 0x04034b50, 45, 0, 0, 0, 0, zipfile.crc32(data), 0xffffffff, 0xffffffff, len(member), 20))
            out.write(member.encode() + struct.pack("<HHQQ", 1, 16, size, size) + data)
            out.seek(at + 50 + len(member) + size)
            entries.append((member, zipfile.crc32(data), size, at))
        at = out.tell()
        for member, crc, size, place in entries:
            wide = struct.pack("<HHQ", 1, 8, place) if size < 1 << 32 else struct.pack("<HHQQQ", 1, 24, size, size, place)
            size = min(size, 0xffffffff)
            out.write(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 45, 45, 0, 0, 0, 0, crc, size, size, len(member), len(wide), 0, 0, 0, 0, 0xffffffff))
            out.write(member.encode() + wide)
        end = out.tell()
        out.write(struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 3, 3, end - at, at))
        out.write(struct.pack("<IIQI", 0x07064b50, 0, end, 1))
        out.write(struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 3, 3, 0xffffffff, 0xffffffff, 0))


large("large.npz")


def damage(name, source, change):
    data = bytearray(open(source, "rb").read())
    open(name, "wb").write(change(data) or data)


def flip(data, at):
    data[at] ^= 1


def second(data, magic):
    return data.index(magic, data.index(magic) + 1)


damage("flipped.npz", "stored.npz", lambda d: flip(d, 300))
damage("garbled.npz", "deflated.npz", lambda d: flip(d, second(d, b"PK\3\4") - 8))
damage("short.npz", "stored.npz", lambda d: d[:-30])
damage("no_entry.npz", "stored.npz", lambda d: flip(d, d.index(b"PK\1\2")))
damage("no_header.npz", "stored.npz", lambda d: flip(d, second(d, b"PK\3\4")))
damage("not_last.npz", "stored.npz", lambda d: flip(d, d.index(b"PK\5\6") + 16))
damage("locked.npz", "stored.npz", lambda d: flip(d, d.index(b"PK\1\2") + 8))
damage("twice.npz", "stored.npz", lambda d: d.replace(b"y.npy", b"x.npy"))
damage("longer.npz", "deflated.npz", lambda d: flip(d, d.index(b"PK\1\2") + 24))
