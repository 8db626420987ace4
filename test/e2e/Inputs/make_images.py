"""Files of the MNIST format in a folder: 28 x 28 images of ten kinds of stripes with noise, 256 to train on and 16 to evaluate."""
import gzip
import os
import random
import struct
import sys

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
random.seed(1)
for name, n in (("train", 256), ("t10k", 16)):
    labels = bytes(random.randrange(10) for _ in range(n))
    images = bytearray()
    for label in labels:
        for y in range(28):
            for x in range(28):
                images.append(min(255, 150 * ((x * label + y * (9 - label)) % 28 < 14) + random.randrange(100)))
    with gzip.open(os.path.join(folder, name + "-images-idx3-ubyte.gz"), "wb") as out:
        out.write(struct.pack(">4i", 0x803, n, 28, 28) + bytes(images))
    with gzip.open(os.path.join(folder, name + "-labels-idx1-ubyte.gz"), "wb") as out:
        out.write(struct.pack(">2i", 0x801, n) + labels)
