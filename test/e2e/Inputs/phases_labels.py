# Data of phases_labels.nn, eight records and a batch of four: in good/, and in label/ and word/ with one number out of range.
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "tools"))
import golden_format as gf

labels, words = [0, 1, 2, 3, 4, -100, 1, 0], [k % 10 for k in range(24)]
folders = {"good": (labels, words), "label": (labels[:3] + [5] + labels[4:], words), "word": (labels, words[:23] + [10])}
for folder, (label, word) in folders.items():
    os.mkdir(folder)
    for name, n in ("data", 8), ("batch", 4):
        gf.write_safetensors(f"{folder}/{name}.safetensors", {
            "x": ("F32", [n, 6], gf.tensor("x", 6 * n)),
            "label": ("I32", [n], label[:n]),
            "words": ("I32", [n, 3], word[:3 * n])})
