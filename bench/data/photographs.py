#!/usr/bin/env python3
"""Makes a folder of JPEG files like photographs, of ImageNet's usual size, in a folder for each class: photographs.py FOLDER [IMAGES [CLASSES]].

Needs Pillow and NumPy. With it is measured whether a training waits for its images: `train` says so at its end.
"""
import os
import sys

import numpy as np
from PIL import Image

folder, images, classes = sys.argv[1], int((sys.argv + [20000])[2]), int((sys.argv + [0, 10])[3] if len(sys.argv) > 3 else 10)
random = np.random.default_rng(1)
for i in range(images):
    path = os.path.join(folder, f"{i % classes:04}")
    os.makedirs(path, exist_ok=True)
    height, width = (375, 500) if i % 3 else (500, 375)
    coarse = Image.fromarray(random.integers(0, 256, (height // 24, width // 24, 3), dtype=np.uint8)).resize((width, height), Image.BICUBIC)
    fine = random.normal(0, 8, (height, width, 1))
    pixels = np.clip(np.asarray(coarse) + fine, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(os.path.join(path, f"{i:06}.jpg"), quality=90)
