#!/usr/bin/env python3
"""remat_moves.py NNC FILE OPTION...: the time that a plan with copies is chosen by is that of the program as it is then predicted, and no more
than that of the plan without memory far away, where there is one."""
import re
import subprocess
import sys

UNITS = {'s': 1, 'ms': 1e-3, 'us': 1e-6}


def step(*options):
    number, unit = re.search(r'^step +([\d.]+) (\w+)', subprocess.check_output([*options, '--emit=prediction'], universal_newlines=True), re.M).groups()
    return float(number) * UNITS[unit]


def planned(*options):
    """Plan and added time; infinite where there is none."""
    plan = subprocess.run([*options, '--emit=plan'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout
    return plan, float(re.search(r'^remat .*?\+([\d.]+) % time', plan, re.M).group(1)) if plan else float('inf')


nnc, file, *options = sys.argv[1:]
plan, chosen = planned(nnc, file, *options)
alone = planned(nnc, file, *[o for o in options if not o.startswith('--far')])[1]
budgets = ('--memory-budget', '--far', '--remat')
found = 100 * (step(nnc, file, *options) / step(nnc, file, *[o for o in options if not o.startswith(budgets)]) - 1)
print(f'moved: {"yes" if re.search("^moved: [1-9]", plan, re.M) else "no"}; as predicted: {"yes" if abs(found - chosen) < 0.01 * (100 + found) else f"{chosen} %, then {found} %"}')
print(f'no slower: {"yes" if chosen <= alone else f"{chosen} %, alone {alone} %"}')
