#!/usr/bin/env python3
"""Compiles one program for every budget from 100 % down to the smallest that can be met, trains each, and compares.

usage: budgets.py NNC PROGRAM.nn WORKDIR STEPS [--by PERCENT] [--time] [--nnc OPTION]... [--data DIR] [--far FOLDER]
Per budget: the arena must be within it, the bytes used must be those planned, and the saved parameters must be those of the run without
recomputation, bit by bit. When a budget cannot be met, the one that the error names must be. With --time, the measured time of a
step is shown beside the predicted. With --far, a budget may be met by moving values to a file.
"""
import argparse
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def run(command, may_fail=False):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0 and not (may_fail and done.returncode == 1):
        sys.exit(f'FAILED ({done.returncode}): {" ".join(command)}\n{done.stdout}')
    return done.returncode, done.stdout


def number(pattern, text, otherwise=None):
    found = re.search(pattern, text, re.M)
    if not found and otherwise is None:
        sys.exit(f'FAILED: no {pattern!r} in\n{text}')
    return float(found.group(1)) if found else otherwise


class Row:
    """One budget, compiled and run."""

    def __init__(self, options, budget):
        exe, saved = os.path.join(options.work, 'model'), os.path.join(options.work, 'saved.safetensors')
        data = ['--data', options.data] if options.data else []
        command = [options.nnc, options.program, '-o', exe] + options.option
        far = [f'--far=file:{options.far}'] if options.far and budget else []
        status, text = run(command + far + ([f'--memory-budget={budget}'] if budget else []), may_fail=budget is not None)
        self.smallest = int(number(r'smallest budget found is .*\((\d+) bytes\)', text)) if status else None
        if status:
            return
        self.overhead, self.bound = number(r'recompute(?: and move)? \+([\d.]+) %', text, 0), number(r'lower bound \+([\d.]+) %', text, 0)
        bench = run([exe, 'bench', '--check', '--steps', '7' if options.time else '1'])[1]
        self.used = int(number(r'^arena used\s+(\d+) bytes', bench))
        self.planned = int(number(r'^arena planned\s+(\d+) bytes', bench))
        self.milliseconds = number(r'([\d.]+) least', bench)
        info = run([exe, 'info'] + data)[1]
        self.arena = int(number(r'^arena\s+(\d+) bytes', info))
        self.recomputed = int(number(r'(\d+) recomputed', info, 0))
        run([exe, 'train', '--quiet', '--steps', options.steps, '--seed', '7', '--save', saved] + data)
        self.tensors = gf.read_safetensors(saved)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('nnc')
    parser.add_argument('program')
    parser.add_argument('work')
    parser.add_argument('steps')
    parser.add_argument('--by', type=float, default=5)
    parser.add_argument('--time', action='store_true')
    parser.add_argument('--nnc', action='append', default=[], dest='option')
    parser.add_argument('--data')
    parser.add_argument('--far', help='with memory far away, in a file of this folder')
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    base = Row(options, None)
    print(f'{"budget":>13} {"arena":>13} {"again":>6} {"predicted":>10} {"bound":>8}' + (f' {"measured":>9}' if options.time else ''))
    percent, budget, recomputing = 100.0, base.arena, 0
    while True:
        row = Row(options, budget)
        if row.smallest is not None:
            if percent is None:
                sys.exit(f'FAILED: the smallest budget found, {budget}, is not met: now it is {row.smallest}')
            percent, budget = None, row.smallest
            continue
        measured = f' {100 * row.milliseconds / base.milliseconds - 100:+8.1f}%' if options.time else ''
        print(f'{budget:13} {row.arena:13} {row.recomputed:6} {row.overhead:+9.1f}% {row.bound:+7.1f}%{measured}', flush=True)
        different = [name for name in base.tensors if row.tensors.get(name) != base.tensors[name]]
        if different or len(row.tensors) != len(base.tensors):
            sys.exit(f'FAILED: other parameters than without recomputation: {", ".join(different[:5])}')
        if row.arena > budget or row.used != row.planned or row.planned > row.arena:
            sys.exit(f'FAILED: budget {budget}, arena {row.arena}, planned {row.planned}, used {row.used}')
        if row.bound > row.overhead + 0.05:
            sys.exit('FAILED: the lower bound is above what was found')
        recomputing += row.recomputed > 0 or row.overhead > 0   # steps, or those inside of a loop
        if percent is None:
            break
        percent -= options.by
        budget = max(1, int(base.arena * percent / 100))   # that of one byte is not met
    if not recomputing:
        sys.exit('FAILED: no budget makes anything run again: the test shows nothing')


if __name__ == '__main__':
    main()
