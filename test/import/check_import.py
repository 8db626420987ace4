#!/usr/bin/env python3
"""Compiles what nnc.from_torch has written and compares one training step in f64 with PyTorch's loss and gradients (tools/make_import_goldens.py).

usage: check_import.py NNC GOLDEN.json WORKDIR"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

BOUND = 1e-9
nnc, path, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
golden = json.load(open(path))
name = golden['network']
os.makedirs(work, exist_ok=True)
run = lambda *c: subprocess.run(c, cwd=work, check=True, stdout=subprocess.DEVNULL)
run(nnc, path[:-5] + '.nn', '-o', 'program', '--dtype=f64')
batch = {n: (v['dtype'], v['shape'], v.get('values') or gf.tensor(f'{name}.input', gf.count(v['shape']))) for n, v in golden['inputs'].items()}
batch.update({n: ('F64', s, gf.tensor(f'{name}.{n}', gf.count(s))) for n, s in golden['targets'].items()})
gf.write_safetensors(os.path.join(work, 'batch.st'), batch)
run('./program', 'export', '--init', 'initial.st')
weights = {}
for n, (_, shape, _) in gf.read_safetensors(os.path.join(work, 'initial.st')).items():
    if n in golden['constants']:
        c = golden['constants'][n]
        weights[n] = (c['dtype'], c['shape'], c['values'])
        continue
    shift = 1.0 if len(shape) == 1 and n.endswith('weight') else 0.0
    weights[n] = ('F64', shape, gf.tensor(f'{name}.{n}', gf.count(shape), golden['scale'], shift))
gf.write_safetensors(os.path.join(work, 'weights.st'), weights)
run('./program', 'step', '--inputs', 'batch.st', '--weights', 'weights.st', '--outputs', 'step.st')
got = gf.read_safetensors(os.path.join(work, 'step.st'))
largest = max(p['gradient']['largest'] for p in golden['parameters'].values())
errors = {'loss': abs(got['loss'][2][0] - golden['loss']) / abs(golden['loss'])}
for n, p in golden['parameters'].items():
    if f'grad.{n}' not in got:
        sys.exit(f'{name}: the program has no parameter {n}')
    if p['gradient']['largest'] > gf.VANISHING * largest:
        errors[n] = gf.difference(got[f'grad.{n}'][2], p['gradient'])
worst = max(errors, key=errors.get)
print(f'{name}: {len(errors)} compared, largest difference {errors[worst]:.1e} of {worst}')
sys.exit(0 if errors[worst] <= BOUND else 1)
