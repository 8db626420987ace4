#!/usr/bin/env python3
"""remat_moves.py NNC FILE OPTION...: the time that a plan with copies is chosen by is that of the program as it is then predicted."""
import re
import subprocess
import sys

UNITS = {'s': 1, 'ms': 1e-3, 'us': 1e-6}


def step(*options):
    number, unit = re.search(r'^step +([\d.]+) (\w+)', subprocess.check_output([*options, '--emit=prediction'], universal_newlines=True), re.M).groups()
    return float(number) * UNITS[unit]


nnc, file, *options = sys.argv[1:]
plan = subprocess.check_output([nnc, file, *options, '--emit=plan'], universal_newlines=True)
chosen = float(re.search(r'^remat .*?\+([\d.]+) % time', plan, re.M).group(1))
budgets = ('--memory-budget', '--far', '--remat')
found = 100 * (step(nnc, file, *options) / step(nnc, file, *[o for o in options if not o.startswith(budgets)]) - 1)
print(f'moved: {"yes" if re.search("^moved: [1-9]", plan, re.M) else "no"}; as predicted: {"yes" if abs(found - chosen) < 0.01 * (100 + found) else f"{chosen} %, then {found} %"}')
