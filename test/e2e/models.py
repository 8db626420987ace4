#!/usr/bin/env python3
"""Compiles a model of models/ without a budget and with several, runs two steps of each on the inputs of its golden, and compares all tensors that the
second step wrote (loss, gradients, parameters, optimizer state) bit by bit.

usage: models.py NNC MODEL.nn GOLDEN.json WORKDIR BUDGET,... [OPTION of nnc]...
Fails when anything differs, when a budget is not kept, or when no variant recomputes anything.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        print(f'FAILED ({done.returncode}): {" ".join(command)}\n{done.stdout}')
        sys.exit(1)
    return done.stdout


def write_inputs(path, golden, name):
    tensors = {}
    for key, v in golden['inputs'].items():
        count = 1
        for d in v['shape']:
            count *= d
        tensors[key] = ('F32' if v['dtype'] == 'f' else v['dtype'], v['shape'], gf.integers(f'{name}.{key}', count, v['below']))
    gf.write_safetensors(path, tensors)


def main():
    nnc, program, golden_path, work, budgets = sys.argv[1:6]
    os.makedirs(work, exist_ok=True)
    exe, inputs, weights, out = (os.path.join(work, n) for n in ('model', 'inputs', 'weights', 'out'))
    with open(golden_path) as f:
        write_inputs(inputs, json.load(f), os.path.splitext(os.path.basename(golden_path))[0])
    reference, whole, recomputing = None, None, 0
    for budget in [None] + budgets.split(','):
        run([nnc, program, '-o', exe] + sys.argv[6:] + (['--memory-budget=' + budget] if budget else ['--remat=none']))
        info = run([exe, 'info'])
        arena = int(re.search(r'arena\s.*?\(?([\d,]+) bytes', info).group(1).replace(',', ''))
        recomputed = int(re.search(r'train .*?(\d+) recomputed', info).group(1))
        run([exe, 'step', '--inputs', inputs, '--outputs', weights, '--seed', '7'])
        run([exe, 'step', '--inputs', inputs, '--weights', weights, '--outputs', out, '--seed', '7', '--step', '1'])
        written = gf.read_safetensors(out)   # the order of the file is that of the schedule
        whole, reference = whole or arena, reference or written
        recomputing += recomputed > 0
        kept = not budget or arena <= whole * float(budget.rstrip('%')) / 100
        print(f'{os.path.basename(program)} {budget or "no budget"}: arena {arena} ({100 * arena / whole:.1f} %), {recomputed} recomputed, '
              f'{"bit-identical" if written == reference else "DIFFERENT"}{"" if kept else ", NOT KEPT"}')
        if written != reference or not kept:
            sys.exit(1)
    if not recomputing:
        print('no variant recomputes anything: the test shows nothing')
        sys.exit(1)


if __name__ == '__main__':
    main()
