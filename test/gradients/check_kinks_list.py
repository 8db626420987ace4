#!/usr/bin/env python3
"""Whether each function of the language is compared at its kinks, or said to have none, and docs/layers.md tells what it does there: check_kinks_list.py NNC GOLDEN

A case of GOLDEN counts for the function whose name it begins with and that its expression calls.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import kinks


def main():
    text = subprocess.run([sys.argv[1], '--list-ops'], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    listed = re.findall(r'^(\w+)\(', text, re.M)
    with open(sys.argv[2]) as f:
        golden = json.load(f)
    called = lambda name: re.search(rf'\b{name}\(', golden['program'])
    compared = {f for f in listed if called(f) and any(c == f or c.startswith(f + '_') for c in golden['cases'])}
    without = [name for names in kinks.NONE.values() for name in names]
    told = {word for row in kinks.TABLE for word in re.findall(r'`(\w+)`', row[0] + row[2])} | set(kinks.SMOOTH)
    wrong = [name for name in without + kinks.SMOOTH if name not in listed or (name in compared) == (name in without)]
    say = lambda names: ', '.join(sorted(names)) or 'none'
    print(f'{len(listed)} functions, neither compared at kinks nor without any: {say(set(listed) - compared - set(without))}')
    print(f'compared, and docs/layers.md does not tell of them: {say(compared - told)}')
    print(f'wrongly listed: {say(wrong)}')


main()
