#!/usr/bin/env python3
"""One training step of a program on the host and in the emulator: emulated.py NNC PROGRAM.nn WORK TYPE:BOUND...

From the same parameters and draws. The loss, the gradients and the parameters after the step differ by at most BOUND, relative to the largest element of the tensor or, where
contributions cancel (a bias before a batch norm has no gradient at all), to a twentieth of the largest of all gradients.
"""
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


def step(nnc, program, work, flags, weights):
    """What one step leaves, by name; `weights` is written by the first program that asks for it."""
    exe, out, none = (os.path.join(work, name) for name in ('program', 'out.safetensors', 'none.safetensors'))
    with open(none, 'wb') as f:
        f.write(struct.pack('<Q', 2) + b'{}')
    run([nnc, program, '-o', exe] + flags)
    if not os.path.exists(weights):
        run([exe, 'export', '--init', weights])
    run([exe, 'step', '--weights', weights, '--inputs', none, '--outputs', out])
    return {name: value[-1] for name, value in gf.read_safetensors(out).items()}


def main():
    nnc, program, work = sys.argv[1:4]
    os.makedirs(work, exist_ok=True)
    weights = os.path.join(work, 'weights.safetensors')
    for argument in sys.argv[4:]:
        dtype, bound = argument.split(':')
        if os.path.exists(weights):
            os.remove(weights)
        host = step(nnc, program, work, ['--dtype=' + dtype], weights)
        emulated = step(nnc, program, work, ['--dtype=' + dtype, '--target=cuda-emu'], weights)
        assert {n: len(v) for n, v in host.items()} == {n: len(v) for n, v in emulated.items()} and any(name.startswith('grad.') for name in host)
        size = {name: max(map(abs, values)) for name, values in host.items()}
        least = max(size[name] for name in host if name.startswith('grad.')) / 20
        off = {name: max(abs(x - y) for x, y in zip(host[name], emulated[name])) / (max(size[name], least if name.startswith('grad.') else 1e-30)) for name in host}
        worst = max(off, key=lambda name: off[name] if off[name] == off[name] else float('inf'))
        print(f'{dtype}: {len(host)} tensors, largest difference {off[worst]:.2e} ({worst})')
        if not off[worst] <= float(bound):
            sys.exit(f'above {bound}')


main()
