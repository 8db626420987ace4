#!/usr/bin/env python3
"""Compiles the program of a golden at its size without a budget and with two, between the smallest that the compiler finds and none, and with that one itself
where neither recomputes anything; runs two steps of each on the golden's inputs and compares all tensors that the second step wrote (loss, gradients, parameters, optimizer state) bit by bit. Dropout is on.

usage: models.py NNC GOLDEN.json WORKDIR LEAST [OPTION of nnc]...
LEAST is the smallest budget, as a part of what is needed without: `found`, or a percentage for a network so deep that the search for it takes minutes; where the
library of another processor takes more memory than that leaves, the smallest that the compiler then names, if that is no more than an eighth above.
Fails when anything differs, when a budget is not kept, or when no variant recomputes anything though less memory could be had.
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'tools'))
import golden_format as gf

PARTS = 0.1, 0.5, 0   # of the way from the smallest budget to none; the last only where the others recompute nothing


def run(*command, may_fail=False):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0 and not may_fail:
        print(f'FAILED ({done.returncode}): {" ".join(command)}\n{done.stdout}')
        sys.exit(1)
    return done.stdout


def smallest(said):
    """The smallest budget that the compiler names when it cannot meet one, in bytes; None where it could."""
    found = re.search(r'smallest budget found is .*\((\d+) bytes\)', said)
    return int(found.group(1)) if found else None


def between(least, whole, part):
    return least + int(part * (whole - least))


def main():
    nnc, golden_path, work, least = sys.argv[1:5]
    os.makedirs(work, exist_ok=True)
    exe, inputs, weights, out = (os.path.join(work, n) for n in ('model', 'inputs', 'weights', 'out'))
    with open(golden_path) as f:
        golden = json.load(f)
    sizes = ' '.join(golden['options']).replace('p=0', 'p=0.1').split()
    compile = [nnc, os.path.join(ROOT, golden['program']), '-o', exe] + sizes + sys.argv[5:]
    gf.write_safetensors(inputs, gf.inputs(golden, 'F32'))

    def step(*option):
        """Arena, how many steps of the plan recompute, and what the second step of training wrote."""
        run(*compile, *option)
        info = run(exe, 'info')
        run(exe, 'step', '--inputs', inputs, '--outputs', weights, '--seed', '7')
        run(exe, 'step', '--inputs', inputs, '--weights', weights, '--outputs', out, '--seed', '7', '--step', '1')
        return int(re.search(r'arena\s.*?\(?([\d,]+) bytes', info).group(1).replace(',', '')), sum(map(int, re.findall(r'train\S* +\d+ steps, (\d+) recomputed', info))), gf.read_safetensors(out)

    whole, _, reference = step('--remat=none')
    if least == 'found':
        least = smallest(run(*compile, '--memory-budget=1%', may_fail=True))
    else:
        least = int(float(least.rstrip('%')) / 100 * whole)
        wanted = between(least, whole, PARTS[0])
        named = smallest(run(*compile, '--emit=plan', f'--memory-budget={wanted}', may_fail=True))
        if named and named > wanted * 1.125:
            print(f'the smallest budget is {named} bytes, far above {wanted}')
            return 1
        least = named or least
    recomputing = 0
    print(f'{golden["program"]}: {whole} bytes without a budget, {least} at least')
    for part in PARTS if least < whole else PARTS[:1]:
        if part == PARTS[-1] and recomputing:
            break
        budget = between(least, whole, part)
        arena, recomputed, written = step(f'--memory-budget={budget}')
        recomputing += recomputed > 0
        kept = arena <= budget
        print(f'budget {budget}: arena {arena} ({100 * arena / whole:.1f} %), {recomputed} recomputed, {"bit-identical" if written == reference else "DIFFERENT"}{"" if kept else ", NOT KEPT"}')
        if written != reference or not kept:
            return 1
    if not recomputing and least < whole:
        print('no variant recomputes anything: the test shows nothing')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
