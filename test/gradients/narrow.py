#!/usr/bin/env python3
"""Gradients of one program in f32 and in narrow types: narrow.py NNC PROGRAM.nn WORK BOUND TYPE...

One step of each, from the same parameters, which bf16 holds exactly (initial values rounded to it), so that what differs is what the step itself rounds. Every gradient
and the loss differ by at most BOUND, f16 by a fifth of it, relative to the norm of the tensor or, where contributions cancel (a bias before a batch norm has no
gradient at all), to a twentieth of the largest. f16 is scaled by a number that fits it.
"""
import math
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'FAILED ({done.returncode}): {" ".join(command)}\n{done.stdout}')


def step(nnc, program, work, dtype):
    with open(os.path.join(work, 'program.nn'), 'w') as f:
        f.write(open(program).read().replace('steps     1', 'steps     1\n    loss_scale 64' if dtype == 'f16' else 'steps     1'))
    with open(os.path.join(work, 'none.safetensors'), 'wb') as f:
        f.write(struct.pack('<Q', 2) + b'{}')
    exe, out = os.path.join(work, 'program'), os.path.join(work, 'out.safetensors')
    run([nnc, os.path.join(work, 'program.nn'), '--dtype=' + dtype, '-o', exe])
    weights = os.path.join(work, 'weights.safetensors')
    run([exe, 'export', '--init', weights])
    with open(weights, 'rb') as f:
        data = bytearray(f.read())
    for i in range(8 + struct.unpack('<Q', data[:8])[0], len(data), 4):   # all are f32: to bf16, ties to even
        bits, = struct.unpack('<I', data[i:i + 4])
        data[i:i + 4] = struct.pack('<I', (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000)
    with open(weights, 'wb') as f:
        f.write(data)
    run([exe, 'step', '--weights', weights, '--inputs', os.path.join(work, 'none.safetensors'), '--outputs', out])
    return {name: value[-1] for name, value in gf.read_safetensors(out).items() if name == 'loss' or name.startswith('grad.')}


def main():
    nnc, program, work, bound = sys.argv[1:5]
    os.makedirs(work, exist_ok=True)
    want = step(nnc, program, work, 'f32')
    size = {name: math.sqrt(sum(x * x for x in values)) for name, values in want.items()}
    largest = max(size[name] for name in want if name != 'loss')
    scale = {name: max(size[name], largest / 20) for name in want}
    for dtype in sys.argv[5:]:
        got = step(nnc, program, work, dtype)
        assert got.keys() == want.keys()
        off = {name: math.sqrt(sum((x - y) ** 2 for x, y in zip(want[name], got[name]))) / scale[name] for name in want}
        worst = max(off, key=lambda name: off[name] if off[name] == off[name] else math.inf)
        print(f'{dtype}: {len(want) - 1} gradients, largest difference {off[worst]:.2e} ({worst})')
        if not off[worst] <= float(bound) / (5 if dtype == 'f16' else 1):
            sys.exit(f'above {bound}')


main()
