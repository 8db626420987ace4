#!/usr/bin/env python3
"""The learning rates of schedules, as programs compute them, against a golden.

usage: schedules.py NNC GOLDEN.json WORKDIR
The golden maps schedule lines, or what stands behind `lr=` of the optimizer, to the rates in 40 steps; with a schedule lr is 0.5. The function of each program is taken out of its tables, and all are compiled as one C file.
"""
import json
import os
import subprocess
import sys

nnc, golden, folder = sys.argv[1], json.load(open(sys.argv[2])), sys.argv[3]
os.makedirs(folder, exist_ok=True)
PROGRAM = '''model m(x: f32[4, 2]) { linear(x, 3) }
let half = 0.5
train {
    data      x = npy("x.npy")
    loss      mean(m(x))
    optimizer sgd(%s)
    %s
    steps     40
}
schedule mine(step, steps, lr, share=0.5) { where(step < share * steps, 1.0, 0.5 * share / lr) }
'''
code, calls = ['#include <stdio.h>', '#include <math.h>'], []
for i, line in enumerate(golden):
    path = os.path.join(folder, f'{i}.nn')
    by_hand = line.startswith('lr=')
    open(path, 'w').write(PROGRAM % ((line, '') if by_hand else ('lr=0.5', 'schedule ' + line)))
    tables = subprocess.run([nnc, path, '--emit=tables'], check=True, capture_output=True, text=True).stdout
    body = tables.split(f'static double {"rate_0" if by_hand else "schedule"}(', 1)[1].split('\n}\n', 1)[0]
    code.append(f'static double schedule_{i}({body}\n}}')
    calls.append(f'  for (int step = 1; step <= 40; step++) printf("%.17g\\n", {1 if by_hand else 0.5} * schedule_{i}(step, 40));')
source, program = os.path.join(folder, 'all.c'), os.path.join(folder, 'all')
open(source, 'w').write('\n'.join(code + ['int main(void) {', *calls, '}', '']))
subprocess.run(['cc', '-O0', '-w', source, '-o', program, '-lm'], check=True)
rates = [float(x) for x in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()]
failed = False
for i, (line, want) in enumerate(golden.items()):
    got = rates[40 * i:40 * i + 40]
    worst = max(abs(a - b) for a, b in zip(got, want))
    print(f'{line}: {worst:.1e}')
    failed |= not worst < 1e-12
sys.exit(failed)
