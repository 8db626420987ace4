#!/usr/bin/env python3
"""Runs three training steps of a compiled model on hashed tensors and compares with a PyTorch golden.

usage: check_golden.py MODEL GOLDEN.json f32|f64 WORKDIR
Prints the largest relative difference per kind of tensor; exits 1 when one is above the bound (1e-4 in f32, 1e-9 in f64).
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

BOUND = {'f32': 1e-4, 'f64': 1e-9}


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def main():
    model, golden_path, dtype, work = sys.argv[1:5]
    with open(golden_path) as f:
        golden = json.load(f)
    name = os.path.splitext(os.path.basename(golden_path))[0]
    code = 'F32' if dtype == 'f32' else 'F64'
    os.makedirs(work, exist_ok=True)
    weights, inputs = os.path.join(work, 'weights.safetensors'), os.path.join(work, 'inputs.safetensors')

    subprocess.run([model, 'export', '--init', weights], check=True, stdout=subprocess.DEVNULL)
    tensors = gf.read_safetensors(weights)
    is_state = lambda n: n.endswith(('running_mean', 'running_var', 'h0', 'c0'))
    names = [n for n in tensors if not is_state(n)]
    states = [n for n in tensors if is_state(n)]
    assert len(names) == len(golden['parameters']), f'{len(names)} parameters, the golden has {len(golden["parameters"])}: {names}'
    for i, (n, p) in enumerate(zip(names, golden['parameters'])):
        assert list(tensors[n][1]) == p['shape'], f'{n} is {tensors[n][1]}, {p["torch"]} is {p["shape"]}'
        tensors[n] = (code, p['shape'], gf.tensor(f'{name}.p{i}', count(p['shape']), p['scale'], p['shift']))
    gf.write_safetensors(weights, tensors)
    gf.write_safetensors(inputs, {
        k: (code if v['dtype'] == 'f' else v['dtype'], v['shape'],
            gf.integers(f'{name}.{k}', count(v['shape']), v['below']) if v['below'] else gf.tensor(f'{name}.{k}', count(v['shape'])))
        for k, v in golden['inputs'].items()})

    worst, first = {}, None

    def compare(kind, label, got, want, among=0.0):
        d = gf.difference(got, want, among)
        if d > worst.get(kind, (-1, ''))[0]:
            worst[kind] = (d, label)

    for step in range(golden['steps']):
        out = os.path.join(work, f'out{step}.safetensors')
        subprocess.run([model, 'step', '--inputs', inputs, '--weights', weights, '--outputs', out, '--step', str(step), '--steps', str(golden['steps'])], check=True, stdout=subprocess.DEVNULL)
        weights, last = out, gf.read_safetensors(out)
        first = first or last
    for kind, got, want in ('loss', first, golden['losses']), ('loss after three steps', last, golden['final_losses']):
        for n, value in want.items():
            compare(kind, n, got[n][2], {'count': 1, 'largest': abs(value), 'projection': value * gf.unit(gf.fnv1a('digest'), 0), 'samples': [value]})
    outputs = [n for n in first if n.startswith('output.')]
    assert len(outputs) == len(golden['outputs']), outputs
    for n, want in zip(outputs, golden['outputs']):
        compare('output', n, first[n][2], want)
    for n, want in zip(names, golden['gradients']):
        compare('gradient', n, first['grad.' + n][2], want, max(g['largest'] for g in golden['gradients']))
    for n, want in zip(names, golden['final']):
        compare('parameter after three steps', n, last[n][2], want)
    for n, want in zip(states, golden['state']):
        compare('state after three steps', n, last[n][2], want)
    bad = False
    for kind, (d, label) in worst.items():
        verdict = 'ok' if d <= BOUND[dtype] else 'TOO FAR'
        bad = bad or verdict != 'ok'
        print(f'{name} {dtype} {kind}: largest difference {d:.2e} ({label}) {verdict}')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
