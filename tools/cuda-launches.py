#!/usr/bin/env python3
"""Launches of kernels in a training step on a GPU as a Markdown table, from the step tables of --emit=tables.

cuda-launches.py NNC 'MODEL.nn [OPTION...]'...      each argument is a row; the options are nnc's

One by one: what there would be if each call of a group (docs/cuda.md, Many tensors in one launch) were a launch of its own. Products of
cuBLAS and copies do not count, nor do the launches inside of loops.
"""
import re
import shlex
import subprocess
import sys


def launches(nnc, arguments):
    """(one by one, grouped) of the function train."""
    command = [nnc, '--target=cuda', '--gpu-arch=sm_90a', '--emit=tables', '-o', '-', *shlex.split(arguments)]
    tables = subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    name, count = re.search(r'\{\.name="train",.*?\.n_steps=(\d+),\.steps=(\w+),', tables).group(2, 1)
    start = tables.index('static const NncStep %s[] = {\n' % name)
    rows = tables[start:].splitlines()[1:]
    kernels = [row for row in rows[:next(i for i, row in enumerate(rows) if row.strip() == '{0}};')] if row.startswith('  {NNC_STEP_KERNEL')]
    assert kernels and len(kernels) <= int(count)
    parts = [re.search(r'\.n_parts=(\d+)', row) for row in kernels]
    return sum(int(p.group(1)) if p else 1 for p in parts), len(kernels)


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    print('| launches of kernels in a training step | one by one | grouped |\n|---|---|---|')
    for arguments in sys.argv[2:]:
        print('| `%s` | %d | %d |' % (arguments, *launches(sys.argv[1], arguments)), flush=True)
