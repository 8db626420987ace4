#!/usr/bin/env python3
"""Value and gradient of functions against PyTorch's in Inputs/library.json: check_library.py NNC GOLDEN WORK f32|f64 [OPTION of nnc]...

Differences count beside the largest element of a tensor, or 1. Prints each tensor that differs by more than roundings.
"""
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

BOUND = {'f32': 1e-5, 'f64': 1e-12}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def difference(got, want):
    if len(got) != len(want):
        return math.inf
    largest = max([1.0] + [abs(w) for w in want])
    return max((abs(g - w) / largest if math.isfinite(g) else math.inf for g, w in zip(got, want)), default=0.0)


def main():
    nnc, golden, work, dtype, *options = sys.argv[1:]
    with open(golden) as f:
        golden = json.load(f)
    os.makedirs(work, exist_ok=True)
    source, exe, inputs, outputs = (os.path.join(work, n) for n in ('functions.nn', 'functions', 'in.safetensors', 'out.safetensors'))
    with open(source, 'w') as f:
        f.write(golden['program'])
    run(nnc, source, '--dtype=' + dtype, '-o', exe, *options)
    tensors = {n: ('I32', shape, v) for n, (shape, v) in golden['integers'].items()}
    for name, case in golden['cases'].items():
        for letter, shape, values in zip('xyz', case['shapes'], case['inputs']):
            tensors[f'{name}_{letter}'] = (dtype.upper(), shape, values)
    gf.write_safetensors(inputs, tensors)
    run(exe, 'step', '--inputs=' + inputs, '--outputs=' + outputs)
    out, index, failed = gf.read_safetensors(outputs), 0, 0
    for name, case in golden['cases'].items():
        wanted = {f'output.functions.{index + i}': v for i, v in enumerate(case['values'])}
        wanted.update({f'grad.{name}_d{letter}': g for letter, g in zip('xyz', case['gradients'])})
        index += len(case['values'])
        for what, want in wanted.items():
            got = list(out[what][2]) if what in out or what.startswith('output') else [0.0] * len(want)   # no gradient at all is zero
            if difference(got, want) > BOUND[dtype]:
                print(f'{dtype} {name}: {what} differs by {difference(got, want):.3g}\n  {got}\n  {want}')
                failed += 1
    print(f'{len(golden["cases"])} functions, {failed} differences')
    sys.exit(failed > 0)


main()
