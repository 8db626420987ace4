#!/usr/bin/env python3
"""Compares what predict wrote as a file and as text: narrow_output.py OUT.safetensors OUT.json"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

dtype, shape, values = gf.read_safetensors(sys.argv[1])['output.net']
with open(sys.argv[2]) as f:
    text = [x for line in f for x in json.loads(line)['output.net']]
same = len(text) == len(values) and all(abs(x - y) <= 1e-8 * abs(x) for x, y in zip(values, text))
narrow = all(struct.unpack('<I', struct.pack('<f', x))[0] & 0xffff == 0 for x in values)
print(f"{dtype} {shape}: {'the' if same else 'not the'} numbers of the text, {'each of 8 bits' if narrow else 'of more than 8 bits'}")
