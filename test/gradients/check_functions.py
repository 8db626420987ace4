#!/usr/bin/env python3
"""Values and gradients of functions against PyTorch's, by tools/make_functions.py: check_functions.py NNC GOLDEN WORK f32|f64 [OPTION of nnc]...

All are one program. Prints each tensor that differs by more than roundings.
"""
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

BOUND = {'f32': 1e-5, 'f64': 1e-11}   # of the largest element


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def program(golden):
    """The tensors of all cases are inputs, to which parameters of zeros are added."""
    signature, lines, outs = [f'{name}: i32{shape}' for name, (shape, _) in golden['integers'].items()], [], []
    for i, c in enumerate(golden['cases']):
        for name, (shape, _) in c['tensors'].items():
            signature.append(f'{name}_{i}: f32{shape}')
            lines += [f'param d_{name}_{i}: f32{shape} = zeros', f'{name} = {name}_{i} + d_{name}_{i}']
        results = [f'out_{i}_{k}' for k in range(len(c['results']))]
        lines.append(f'{", ".join(results)} = {c["call"]}')
        outs += results
    inputs = ', '.join(s.split(':')[0] for s in signature)
    lines = [f'model calls({", ".join(signature)}) {{'] + lines + ['loss = ' + ' + '.join(f'sum(square({o} + 0.3))' for o in outs), f'{", ".join(outs)}, loss', '}']
    lines += ['train {', f'data {inputs} = safetensors("none", whole=true)', f'{", ".join(outs)}, total = calls({inputs})', 'loss total', 'optimizer sgd(lr=1)', 'steps 1', '}']
    return '\n'.join(lines) + '\n', outs


def off(values, want):
    """The largest difference beside the largest element, of small tensors or 1; no tensor at all is zeros."""
    n = len(want) if isinstance(want, list) else want['count']
    values = values or [0.0] * n
    if len(values) != n:
        return math.inf
    if isinstance(want, dict):
        return gf.difference(values, want)
    return max((abs(g - w) if math.isfinite(g - w) else math.inf for g, w in zip(values, want)), default=0.0) / max([1.0] + [abs(w) for w in want])


def main():
    nnc, golden, work, dtype, *options = sys.argv[1:]
    with open(golden) as f:
        golden = json.load(f)
    source, outs = program(golden)
    os.makedirs(work, exist_ok=True)
    path = lambda name: os.path.join(work, name)
    with open(path('program.nn'), 'w') as f:
        f.write(source)
    run(nnc, path('program.nn'), '--dtype=' + dtype, '-o', path('program'), *options)
    inputs = {f'{name}_{i}': (dtype.upper(), shape, values or gf.tensor(f'{i}.{name}', gf.count(shape))) for i, c in enumerate(golden['cases']) for name, (shape, values) in c['tensors'].items()}
    inputs.update({name: ('I32', shape, values) for name, (shape, values) in golden['integers'].items()})
    gf.write_safetensors(path('in.safetensors'), inputs)
    run(path('program'), 'step', '--inputs=' + path('in.safetensors'), '--outputs=' + path('out.safetensors'))
    out, failed = gf.read_safetensors(path('out.safetensors')), 0
    for i, c in enumerate(golden['cases']):
        wanted = {f'output.calls.{outs.index(f"out_{i}_{k}")}': want for k, want in enumerate(c['results'])}
        for name, want in {**wanted, **{f'grad.d_{name}_{i}': want for name, want in c['gradients'].items()}}.items():
            differs = off(out[name][2] if name in out or name.startswith('output') else [], want)
            if not differs <= BOUND[dtype]:
                print(f'{dtype} {c["call"]} ({i}): {name} differs by {differs:.3g}')
                failed += 1
    print(f'{len(golden["cases"])} functions, {failed} differences')
    sys.exit(failed > 0)


main()
