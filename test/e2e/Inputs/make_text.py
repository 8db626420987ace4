"""Files for the tests of bad input, in a folder: texts of bytes below 50, one of them with a byte too large, and tensors for predict and step."""
import json
import os
import random
import struct
import sys


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}i", *values)
        header[name] = {"dtype": "I32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


folder = sys.argv[1]
random.seed(1)
text = bytearray(random.randrange(50) for _ in range(1000))
for name, changed in (("good", None), ("large", 50)):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    if changed is not None:
        text[333] = changed
    with open(os.path.join(folder, name, "text.txt"), "wb") as out:
        out.write(text)
tokens = [random.randrange(50) for _ in range(48)]
write_safetensors(os.path.join(folder, "good.safetensors"), {"tokens": ([6, 8], tokens), "targets": ([6, 8], tokens)})
tokens[42] = -1
write_safetensors(os.path.join(folder, "negative.safetensors"), {"tokens": ([6, 8], tokens), "targets": ([6, 8], tokens)})
