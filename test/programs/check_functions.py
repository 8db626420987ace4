#!/usr/bin/env python3
"""Whether tools/fuzz-programs draws every function, optimizer and schedule of the language, or says why not, and whether each is in a golden. Without PyTorch: nothing is evaluated.

usage: check_functions.py NNC
"""
import os
import re
import subprocess
import sys
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
for name in 'torch', 'torch.nn', 'torch.nn.functional', 'torch.optim':
    sys.modules[name] = mock.MagicMock()
from fuzzing import functions, generate, golden, training, tree

PROGRAMS = 3000     # the rarest function is in 20 of them
LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'compiler', 'library')


def of_library(kind):
    with open(os.path.join(LIBRARY, kind + 's.nn')) as f:
        return set(re.findall(rf'^{kind} ([a-z]\w*)\(', f.read(), re.M))


def main():
    text = subprocess.run([sys.argv[1], '--list-ops'], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    listed = set(re.findall(r'^(\w+)\(', text, re.M))
    drawn, optimizers, schedules = set(), set(), set()
    for seed in range(PROGRAMS):
        program = generate.make(seed)
        models, train = tree.print_program(program).split('\ntrain {')
        drawn.update(re.findall(r'\w+', models + ''.join(line for line in train.splitlines() if line.split()[:1] in (['loss'], ['metric']))))
        optimizers.update(re.findall(r'optimizer (\w+)', train))
        schedules.update(re.findall(r'schedule (\w+)', train))
    for what, there, known in ('function', listed, drawn | set(functions.LEFT_OUT)), ('optimizer', of_library('optimizer'), optimizers), ('schedule', of_library('schedule'), schedules):
        print(f'{what}s: {len(there)}, neither drawn nor left out: {", ".join(sorted(there - known)) or "none"}')
    without = listed - golden.functions_in(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'goldens')) - set(functions.LEFT_OUT) - functions.DRAWN
    print(f'in no golden: {", ".join(sorted(without)) or "none"}')
    wrong = [name for name in functions.LEFT_OUT if name in drawn or name not in listed]
    print(f'left out: {len(functions.LEFT_OUT)}, wrongly: {", ".join(wrong) or "none"}')


main()
