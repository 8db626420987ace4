#!/usr/bin/env python3
"""Data of rows.nn: make_rows.py FILE."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import golden_format as gf

N = 16
gf.write_safetensors(sys.argv[1], {'x': ('F32', [N, 8], gf.tensor('x', N * 8)), 'words': ('I32', [N, 5], gf.integers('words', N * 5, 11)),
                                   'label': ('I32', [N], gf.integers('label', N, 6)), 'weight': ('F32', [N], gf.integers('weight', N, 2))})
