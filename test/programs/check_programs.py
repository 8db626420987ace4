#!/usr/bin/env python3
"""Compiles the random programs of goldens/ and compares what two steps and a prediction write with PyTorch's numbers.

usage: check_programs.py NNC WORKDIR f32|f64 [--budgets] [OPTION of nnc]...
With --budgets some of them, each in the smallest memory that nnc finds and in one halfway, where they write the same bits as without.
The files are made by tools/fuzz-programs --make-goldens. A program that has a precision is compiled in that instead.
Exits 1 when a difference is above the bound (golden.BOUND).
"""
import glob
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGETED = slice(0, 30, 5)     # of the programs by their size: the search takes long for the largest
EFFORT = '--remat-effort=0.1'
sys.path.insert(0, os.path.join(HERE, '..', '..', 'tools'))
import golden_format as gf
from fuzzing import golden


def run(work, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, cwd=work)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def execute(g, nnc, work, dtype, options):
    """What the steps and the prediction of one program write."""
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
    return said + [gf.read_safetensors(os.path.join(work, 'predicted.safetensors'))]


def differences(g, said):
    """[(difference, run, name of tensor)]"""
    return [(golden.difference(golden.digest(got[name][2]), want) if name in got else float('inf'), i, name) for i, got in enumerate(said) for name, want in g['wrote'][i].items()]


def budgets(nnc, work):
    """Bytes: the smallest that nnc says it can do with, and halfway from there to all that it would take."""
    done = subprocess.run([nnc, 'program.nn', '-o', 'program', '--memory-budget=1%', EFFORT], stderr=subprocess.PIPE, universal_newlines=True, cwd=work)
    share, least = re.search(r'budget 1% \((\d+) bytes\) .*smallest budget found is [^(]*\((\d+) bytes\)', done.stderr).groups()
    return int(least), max(int(least), (int(least) + 100 * int(share)) // 2)


def check_budgets(g, nnc, work, dtype):
    """Names of tensors that a program writes with other bits within a budget."""
    whole = execute(g, nnc, work, dtype, [])
    for bytes in budgets(nnc, work):
        said = execute(g, nnc, work, dtype, [f'--memory-budget={bytes}', EFFORT])
        yield from (f'run {i}: {name} differs within {bytes} bytes' for i, (x, y) in enumerate(zip(whole, said)) for name in x if repr(x[name]) != repr(y.get(name)))


def main():
    nnc, work, dtype, *options = sys.argv[1:]
    nnc = os.path.abspath(nnc)
    os.makedirs(work, exist_ok=True)
    files = sorted(glob.glob(os.path.join(HERE, 'goldens', '*.json')))
    failed = tensors = 0
    if options == ['--budgets']:
        files, options = sorted(files, key=os.path.getsize)[BUDGETED], []
        for path in files:
            with open(path) as f:
                g = json.load(f)
            found = list(check_budgets(g, nnc, work, dtype))
            failed += bool(found)
            print(''.join(f'{os.path.basename(path)}: {text}\n' for text in found), end='')
        print(f'{len(files)} programs within budgets, {failed} failed')
        return 1 if failed else 0
    for path in files:
        with open(path) as f:
            g = json.load(f)
        own = g.get('precision', dtype)
        found = differences(g, execute(g, nnc, work, own, options))
        tensors += len(found)
        worst = max(found)
        if not worst[0] <= golden.BOUND[own]:
            failed += 1
            print(f'{os.path.basename(path)}: run {worst[1]}: {worst[2]} differs by {worst[0]:.2e}')
    print(f'{len(files)} programs, {tensors} tensors, {failed} failed')
    return 1 if failed or not tensors else 0


if __name__ == '__main__':
    sys.exit(main())
