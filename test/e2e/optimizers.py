#!/usr/bin/env python3
"""Trains 25 steps with each optimizer and compares the parameters with those of PyTorch.

usage: optimizers.py PROGRAM GOLDEN.json BOUND
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

program, golden, bound = sys.argv[1], json.load(open(sys.argv[2])), float(sys.argv[3])
subprocess.run([program, 'export', '--init', 'start.safetensors'], check=True, stdout=subprocess.DEVNULL)
tensors = gf.read_safetensors('start.safetensors')
code = next(iter(tensors.values()))[0]
hashed = {n: (code, shape, gf.tensor(n, gf.count(shape), 0.5)) for n, (_, shape, _) in tensors.items()}
gf.write_safetensors('start.safetensors', hashed)
gf.write_safetensors('data.safetensors', {'x': (code, [16, 4], gf.tensor('x', 64, 0.5)), 'y': (code, [16, 3], gf.tensor('y', 48, 0.5))})
subprocess.run([program, 'train', '--data=.', '-q', '--weights=start.safetensors', '--save=end.safetensors'], check=True)
end = gf.read_safetensors('end.safetensors')
failed = set(golden) != set(hashed)
for name, want in golden.items():
    difference = gf.difference(end[name][2], want)
    print(f'{name}: {difference:.1e}')
    failed |= not difference < bound
sys.exit(failed)
