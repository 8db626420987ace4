#!/usr/bin/env python3
"""Compiles one program under several rematerialization policies and budgets, trains each, and compares the saved files byte by byte.

usage: exactness.py NNC PROGRAM.nn WORKDIR STEPS --budgets 90%,80%,70% [--data DIR]
Shows per variant the arena and how many steps are recomputed. Fails when parameters differ anywhere, when no variant recomputes anything, or
when a budget is not kept.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

POLICIES = ['none', 'sqrt', 'speed', 'manual']


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        print(f'FAILED ({done.returncode}): {" ".join(command)}\n{done.stdout}')
        sys.exit(1)
    return done.stdout


def main():
    nnc, program, work, steps = sys.argv[1:5]
    budgets, data = sys.argv[6].split(','), sys.argv[7:]
    variants = ['--remat=' + p for p in POLICIES] + ['--memory-budget=' + b for b in budgets]
    os.makedirs(work, exist_ok=True)
    reference, base_arena, recomputing = None, None, 0
    for variant in variants:
        exe, saved = os.path.join(work, 'model'), os.path.join(work, 'saved.safetensors')
        run([nnc, program, '-o', exe, variant])
        info = run([exe, 'info'])
        arena = int(re.search(r'arena\s.*?\(?([\d,]+) bytes', info).group(1).replace(',', ''))
        recomputed = int(re.search(r'(\d+) recomputed', info).group(1))
        run([exe, 'train', '--steps', steps, '--seed', '7', '--save', saved] + data)
        tensors = gf.read_safetensors(saved)
        base_arena = base_arena or arena
        reference = reference or tensors
        different = [n for n in reference if tensors.get(n) != reference[n]]
        print(f'{variant:24} arena {arena:12} ({100 * arena / base_arena:5.1f} %), {recomputed:4} steps recomputed, '
              f'{"bit-identical" if not different else "DIFFERENT: " + ", ".join(different[:5])}')
        recomputing += recomputed > 0
        if different:
            sys.exit(1)
        if '%' in variant:
            if arena > base_arena * float(variant.split('=')[1][:-1]) / 100:
                print('the budget is not kept')
                sys.exit(1)
    if not recomputing:
        print('no variant recomputes anything: the test shows nothing')
        sys.exit(1)


if __name__ == '__main__':
    main()
