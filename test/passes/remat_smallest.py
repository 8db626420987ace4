#!/usr/bin/env python3
"""remat_smallest.py NNC FILE OPTION...: the smallest budget that is found with memory far away is no larger than that without, and can be met."""
import re
import subprocess
import sys


def compile_for(budget, *options):
    done = subprocess.run([nnc, file, *options, f'--memory-budget={budget}', '--emit=plan'], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)
    return done.returncode, done.stderr


def smallest(*options):
    _, said = compile_for(1, *options)
    return int(re.search(r'smallest budget found is .* \((\d+) bytes\)', said).group(1))


nnc, file, *options = sys.argv[1:]
found = smallest(*options)
alone = smallest(*[o for o in options if not o.startswith('--far')])
print(f'no larger: {"yes" if found <= alone else f"{found} bytes, alone {alone}"}')
status, said = compile_for(found, *options)
print(f'can be met: {said if status else "yes"}')
