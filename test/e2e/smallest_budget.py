#!/usr/bin/env python3
"""The smallest budget that the compiler names is one that it keeps: for each model, asks for a budget of one byte, reads the smallest one from
the error, and compiles with it.

usage: smallest_budget.py NNC EFFORT MODEL.nn[:OPTION...] ...
"""
import re
import subprocess
import sys


def main():
    nnc, effort = sys.argv[1:3]
    for model in sys.argv[3:]:
        command = [nnc] + model.split(':') + ['--emit=plan', '--remat-effort=' + effort, '--memory-budget=']
        refused = subprocess.run(command[:-1] + [command[-1] + '1'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        named = re.search(r'the smallest budget found is .* \((\d+) bytes\)', refused.stderr)
        if refused.returncode != 1 or not named:
            sys.exit(f'{model}: no error that names a budget ({refused.returncode}): {refused.stderr}')
        kept = subprocess.run(command[:-1] + [command[-1] + named.group(1)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        arena = re.match(r'arena .* \((\d+) bytes\)', kept.stdout)
        if kept.returncode != 0 or int(arena.group(1)) > int(named.group(1)):
            sys.exit(f'{model}: a budget of {named.group(1)} bytes, which it has named, is refused ({kept.returncode}): {kept.stderr}')
        print(f'{model}: {named.group(1)} bytes, arena {arena.group(1)}')


if __name__ == '__main__':
    main()
