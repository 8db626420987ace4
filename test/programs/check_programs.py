#!/usr/bin/env python3
"""Compiles the random programs of goldens/ and compares what two steps and a prediction write with PyTorch's numbers.

usage: check_programs.py NNC WORKDIR f32|f64 [OPTION of nnc]...
The files are made by tools/fuzz-programs --make-goldens. A program that has a precision is compiled in that instead.
Exits 1 when a difference is above the bound (golden.BOUND).
"""
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'tools'))
import golden_format as gf
from fuzzing import golden


def run(work, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, cwd=work)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def check(g, nnc, work, dtype, options):
    """[(difference, run, name of tensor)] of one program."""
    with open(os.path.join(work, 'program.nn'), 'w') as f:
        f.write(g['text'])
    golden.write_files(g, dtype, work)
    run(work, nnc, 'program.nn', '-o', 'program', *([] if 'precision' in g else [f'--dtype={dtype}']), *options)
    said, weights = [], 'begin.safetensors'
    for step in range(golden.RUNS):
        run(work, './program', 'step', '--inputs=batch.safetensors', f'--weights={weights}', f'--outputs={step}.safetensors', f'--step={g.get("first", 0) + step}', f'--steps={golden.STEPS}')
        weights = f'{step}.safetensors'
        said.append(gf.read_safetensors(os.path.join(work, weights)))
    run(work, './program', 'predict', '--inputs=predict.safetensors', f'--weights={weights}', '--outputs=predicted.safetensors')
    said.append(gf.read_safetensors(os.path.join(work, 'predicted.safetensors')))
    return [(golden.difference(golden.digest(got[name][2]), want) if name in got else float('inf'), i, name) for i, got in enumerate(said) for name, want in g['wrote'][i].items()]


def main():
    nnc, work, dtype = sys.argv[1:4]
    nnc = os.path.abspath(nnc)
    os.makedirs(work, exist_ok=True)
    files = sorted(glob.glob(os.path.join(HERE, 'goldens', '*.json')))
    failed = tensors = 0
    for path in files:
        with open(path) as f:
            g = json.load(f)
        own = g.get('precision', dtype)
        found = check(g, nnc, work, own, sys.argv[4:])
        tensors += len(found)
        worst = max(found)
        if not worst[0] <= golden.BOUND[own]:
            failed += 1
            print(f'{os.path.basename(path)}: run {worst[1]}: {worst[2]} differs by {worst[0]:.2e}')
    print(f'{len(files)} programs, {tensors} tensors, {failed} failed')
    return 1 if failed or not tensors else 0


if __name__ == '__main__':
    sys.exit(main())
