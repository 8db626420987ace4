"""reshape_weights.py FILE: the tensors a [2, 3, 4], b [6] and c [3, 4] of another program, counted through. reshape_weights.py check OURS BACK: ours have
them in the model's shapes, and what was exported is what was written."""
import json
import struct
import sys

theirs = {"a": ([2, 3, 4], list(range(24))), "b": ([6], list(range(100, 106))), "c": ([3, 4], list(range(200, 212)))}


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    found = {}
    for name in "abc":
        begin, end = header[name]["data_offsets"]
        found[name] = header[name]["shape"], list(struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end]))
    return found


if sys.argv[1] != "check":
    header, at = {}, 0
    for name, (shape, v) in theirs.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at := at + 4 * len(v)]}
    text = json.dumps(header).encode()
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(struct.pack(f"<{len(v)}f", *v) for _, v in theirs.values()))
else:
    c = theirs["c"][1]
    ours = {"a": ([4, 6], theirs["a"][1]), "b": ([1, 6], theirs["b"][1]), "c": ([2, 3, 2], [c[row * 4 + column] for column in range(4) for row in range(3)])}
    assert read(sys.argv[2]) == ours, read(sys.argv[2])
    assert read(sys.argv[3]) == theirs, read(sys.argv[3])
