#!/usr/bin/env python3
"""Compiles the program of a PyTorch golden at its size, runs three training steps on hashed tensors, and compares.

usage: check_golden.py NNC GOLDEN.json WORKDIR f32|f64[,...] [OPTION of nnc]...
Prints the largest difference per kind of tensor, relative to the tensor's own scale; exits 1 when one is above the bound (1e-5 in f32, 1e-9 in f64).
"""
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'tools'))
import golden_format as gf

BOUND = {'f32': 1e-5, 'f64': 1e-9}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def write_weights(path, golden, code):
    """Hashed parameters instead of those that `export --init` has written; averages of parameters begin as they do. Returns the names of parameters, averages, states."""
    tensors = gf.read_safetensors(path)
    averages = [n for n in tensors if n.rpartition('.')[0] in tensors]
    states = [n for n in tensors if n.endswith(('running_mean', 'running_var', 'h0', 'c0'))]
    names = [n for n in tensors if n not in averages and n not in states]
    if len(names) != len(golden['parameters']):
        sys.exit(f'{len(names)} parameters, the golden has {len(golden["parameters"])}: {names}')
    for i, (n, p) in enumerate(zip(names, golden['parameters'])):
        if list(tensors[n][1]) != p['shape']:
            sys.exit(f'{n} is {tensors[n][1]}, {p["torch"]} is {p["shape"]}')
        tensors[n] = (code, p['shape'], gf.tensor(f'{golden["hashed"]}.p{i}', gf.count(p['shape']), p['scale'], p['shift']))
        for average in averages:
            if average.rpartition('.')[0] == n:
                tensors[average] = tensors[n]
    gf.write_safetensors(path, tensors)
    return names, averages, states


def differences(golden, names, averages, states, first, last):
    """(kind, name, largest difference) of all that the golden knows, `first` and `last` the tensors that steps wrote."""
    for kind, got, want in ('loss', first, golden['losses']), ('loss after three steps', last, golden['final_losses']):
        for n, value in want.items():
            yield kind, n, abs(got[n][2][0] - value) / abs(value)
    outputs = sorted(n for n in first if n.startswith('output.'))
    largest = max(g['largest'] for g in golden['gradients'])
    for kind, got, found, want in (('output', first, outputs, golden['outputs']), ('gradient', first, ['grad.' + n for n in names], golden['gradients']),
                                   ('parameter after three steps', last, names, golden['final']), ('average after three steps', last, averages, golden['averages']),
                                   ('state after three steps', last, states, golden['state'])):
        if len(found) != len(want):
            yield kind, f'{len(found)} instead of {len(want)}', float('inf')
        for n, w in zip(found, want):
            if kind == 'gradient' and w['largest'] < gf.VANISHING * largest:
                yield 'gradient that vanishes', n, max(abs(v) for v in got[n][2]) / largest
            else:
                yield kind, n, gf.difference(got[n][2], w)


def check(nnc, golden_path, work, dtype, options):
    with open(golden_path) as f:
        golden = json.load(f)
    name = os.path.splitext(os.path.basename(golden_path))[0]
    code = 'F32' if dtype == 'f32' else 'F64'
    model, weights, inputs = (os.path.join(work, n) for n in ('model', 'weights.safetensors', 'inputs.safetensors'))
    run(nnc, os.path.join(ROOT, golden['program']), *golden['options'], '--dtype=' + dtype, '-o', model, *options)
    run(model, 'export', '--init', weights)
    names, averages, states = write_weights(weights, golden, code)
    gf.write_safetensors(inputs, gf.inputs(golden, code))
    first = None
    for step in range(golden['steps']):
        out = os.path.join(work, f'out{step}.safetensors')
        run(model, 'step', '--inputs', inputs, '--weights', weights, '--outputs', out, '--step', str(step), '--steps', str(golden['steps']))
        weights, last = out, gf.read_safetensors(out)
        first = first or last
    worst = {}
    for kind, n, d in differences(golden, names, averages, states, first, last):
        if not d <= worst.get(kind, (-1, ''))[0]:
            worst[kind] = (d, n)
    for kind, (d, n) in worst.items():
        print(f'{name} {dtype} {kind}: largest difference {d:.2e} ({n}) {"ok" if d <= BOUND[dtype] else "TOO FAR"}')
    return all(d <= BOUND[dtype] for d, _ in worst.values())


def main():
    nnc, golden, work, dtypes = sys.argv[1:5]
    os.makedirs(work, exist_ok=True)
    return 0 if all([check(nnc, golden, work, dtype, sys.argv[5:]) for dtype in dtypes.split(',')]) else 1


if __name__ == '__main__':
    sys.exit(main())
