#!/usr/bin/env python3
"""Runs one step of two programs on the same hashed tensors and compares everything that they write, within 1e-12 in f64.

usage: scan.py PROGRAM OTHER WORKDIR INPUT=DIM,DIM,... [--predict]       --predict: a prediction in place of a step
"""
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def main():
    predict = '--predict' in sys.argv
    one, other, work, *given = [a for a in sys.argv[1:] if a != '--predict']
    path = lambda name: os.path.join(work, name + '.safetensors')
    subprocess.run([one, 'export', '--init', path('weights')], check=True, stdout=subprocess.DEVNULL)
    inputs = {name: [int(d) for d in dims.split(',')] for name, dims in (a.split('=') for a in given)}
    gf.write_safetensors(path('inputs'), {name: ('F64', dims, gf.tensor(name, math.prod(dims))) for name, dims in inputs.items()})
    outputs = []
    for program in (one, other):
        subprocess.run([program, 'predict' if predict else 'step', '--inputs', path('inputs'), '--weights', path('weights'), '--outputs', path('out')], check=True, stdout=subprocess.DEVNULL)
        outputs.append(gf.read_safetensors(path('out')))
    assert sorted(outputs[0]) == sorted(outputs[1]), (sorted(outputs[0]), sorted(outputs[1]))
    for name in sorted(outputs[0]):
        x, y = outputs[0][name][2], outputs[1][name][2]
        scale = max(max(abs(v) for v in y), 1e-12)
        worst = max(abs(a - b) for a, b in zip(x, y)) / scale
        print(f'{name}: largest difference {worst:.2e} {"ok" if worst <= 1e-12 else "TOO FAR"}')
        if not worst <= 1e-12:
            sys.exit(1)
    print(f'{len(outputs[0])} tensors agree')


if __name__ == '__main__':
    main()
