#!/usr/bin/env python3
"""Trains to the steps 3, 4 and 5 and compares what states kept with what it is the value of.

usage: kept_states.py PROGRAM
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

gf.write_safetensors('data.safetensors', {'x': ('F32', [16, 3], gf.tensor('x', 48, 0.5)), 'y': ('F32', [16, 3], gf.tensor('y', 48, 0.5))})
at = {}
for step in (3, 4, 5):
    subprocess.run([sys.argv[1], 'train', '--data=.', '-q', f'--stop-at={step}', '--save=at.safetensors'], check=True)
    at[step] = {name: list(tensor[2]) for name, tensor in gf.read_safetensors('at.safetensors').items()}
failed = False


def compare(name, found, want):
    global failed
    same = max(abs(a - b) for a, b in zip(found, want, strict=True)) < 1e-6
    print(f'{name}: {"ok" if same else "differs"}')
    failed |= not same


compare('older', at[5]['older'], at[4]['newest'])
compare('flat', at[5]['flat'], at[4]['older'])
compare('even', at[5]['even'], [2.0] * 3)
compare('odd', at[5]['odd'], [1.0] * 3)
compare('before', at[5]['before'], at[4]['scale'])
failed |= at[5]['newest'] == at[4]['newest'] or at[5]['scale'] == at[4]['scale']
for name in ('scale', 'linear.weight', 'linear.bias'):
    compare(f'{name}.last', at[5][f'{name}.last'], at[4][name])
    compare(f'{name}.last_but_one', at[5][f'{name}.last_but_one'], at[3][name])
    step = [(a - b) / 0.1 for a, b in zip(at[4][name], at[5][name])]
    failed |= max(abs(a - b) for a, b in zip(step, at[5][f'{name}.last_gradient'])) > 1e-4
sys.exit(failed)
