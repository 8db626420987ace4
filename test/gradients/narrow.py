#!/usr/bin/env python3
"""Gradients of one program in narrow types: narrow.py NNC REFERENCE_STEP PROGRAM.nn WORK BOUND TYPE...

One step in f32 and in each type, from the same parameters, which bf16 holds exactly (initial values rounded to it), so that what differs is what the step itself rounds.
 1. Against the reference interpreter, which rounds where the narrow type stands and computes all else in f64: every gradient and the loss differ by at most SAME of the
    tensor's own norm, in f32, which it does not round, by at most WIDE. This is what the compiler has to answer for.
 2. Against f32: by at most BOUND, f16 by a fifth of it, relative to the norm of the tensor or, where contributions cancel, to a twentieth of the largest. There the narrow
    type's own roundings, of inputs and of what stands in memory, do not cancel: the first comparison shows that nothing else does.
f16 is scaled by a number that fits it.
"""
import json
import math
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

WIDE, SAME = 1e-6, 1e-3   # in f32, which the interpreter does not round; in a narrow type, where a number next to the middle of two may fall on the other
ZERO = 1e-6   # a gradient of this part of the largest in f32, such as that of a bias before a batch norm, is what roundings leave of zero


def run(command, text=''):
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'FAILED ({done.returncode}): {" ".join(command)}\n{done.stdout}')
    return done.stdout


def norm(values):
    return math.sqrt(sum(x * x for x in values))


def difference(got, want):
    return norm([x - y for x, y in zip(got, want)])


def worst(off):
    """The tensor that is off by most, a NaN more than all."""
    name = max(off, key=lambda n: off[n] if off[n] == off[n] else math.inf)
    return name, off[name]


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
    end = 8 + struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:end])
    del header['__metadata__']   # the checksums of what is changed here
    data[8:end] = json.dumps(header).encode().ljust(end - 8)
    for i in range(end, len(data), 4):   # all are f32: to bf16, ties to even
        bits, = struct.unpack('<I', data[i:i + 4])
        data[i:i + 4] = struct.pack('<I', (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000)
    with open(weights, 'wb') as f:
        f.write(data)
    run([exe, 'step', '--weights', weights, '--inputs', os.path.join(work, 'none.safetensors'), '--outputs', out])
    return {name: value[-1] for name, value in gf.read_safetensors(out).items() if name == 'loss' or name.startswith('grad.')}


def reference(nnc, interpreter, work, dtype):
    """The same step as `step` has just made, by the interpreter."""
    module = os.path.join(work, 'module.mlir')
    printed = run([nnc, os.path.join(work, 'program.nn'), '--dtype=' + dtype, '--print-ir-after=decompose', '--emit=plan', '-o', os.devnull])
    with open(module, 'w') as f:
        f.write(printed[printed.index('// -----//'):printed.rindex('\n}\n') + 3])   # without what nnc says of the program
    parameters = gf.read_safetensors(os.path.join(work, 'weights.safetensors'))
    said = run([interpreter, module], ''.join(f'{name} {" ".join(map(repr, values))}\n' for name, (_, _, values) in parameters.items()))
    tensors = {line.split()[0]: [float(word) for word in line.split()[1:]] for line in said.splitlines()}
    return {name: values for name, values in tensors.items() if name == 'loss' or name.startswith('grad.')}


def compare(dtype, got, want, size, largest, bound):
    """With the interpreter's. size, largest: norms in f32."""
    assert got.keys() == want.keys() == size.keys(), (got.keys(), want.keys())
    name, off = worst({name: difference(got[name], want[name]) / (norm(want[name]) if size[name] > ZERO * largest else largest) for name in want})
    print(f'{dtype}: {len(want) - 1} gradients, largest difference from the same roundings {off:.2e} ({name})')
    if not off <= bound:
        sys.exit(f'above {bound}')


def main():
    nnc, interpreter, program, work, bound = sys.argv[1:6]
    os.makedirs(work, exist_ok=True)
    wide = step(nnc, program, work, 'f32')
    size = {name: norm(values) for name, values in wide.items()}
    largest = max(size[name] for name in wide if name != 'loss')
    compare('f32', wide, reference(nnc, interpreter, work, 'f32'), size, largest, WIDE)
    for dtype in sys.argv[6:]:
        got = step(nnc, program, work, dtype)
        want = reference(nnc, interpreter, work, dtype)
        compare(dtype, got, want, size, largest, SAME)
        name, off = worst({name: difference(got[name], wide[name]) / max(size[name], largest / 20) for name in want})
        print(f'{dtype}: {len(want) - 1} gradients, largest difference from f32 {off:.2e} ({name})')
        if not off <= float(bound) / (5 if dtype == 'f16' else 1):
            sys.exit(f'above {bound}')


main()
