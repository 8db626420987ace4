#!/usr/bin/env python3
"""Values and gradients of functions against PyTorch's: check_functions.py NNC GOLDEN WORK f32|f64 [OPTION of nnc]...

GOLDEN: calls with digests of their tensors, by tools/make_functions.py, or expressions with whole tensors, by tools/make_library.py. All are
one program. Prints each tensor that differs by more than roundings.
"""
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


# --- calls, whose loss weights every element of their results


def named(i, call, names):
    """The call with its arguments as they are named in the program: x is x_3."""
    out, quoted = [], call.split('"')
    for k, part in enumerate(quoted):
        if k % 2 == 0:
            for name in names:
                for before in '([, =':
                    for after in ',) ][':
                        part = part.replace(before + name + after, f'{before}{name}_{i}{after}')
        out.append(part)
    return '"'.join(out)


def program(cases):
    lines, outs = ['model calls() {'], ', '.join(f'out_{i}' for i in range(len(cases)))
    for i, c in enumerate(cases):
        lines += [f'    param {n}_{i}: f32[{", ".join(map(str, s))}] = zeros' for n, s in {**c['shapes'], 'r': c['result']}.items()]
        lines += [f'    out_{i} = {named(i, c["call"], c["shapes"])}']
    lines += ['    loss = ' + ' + '.join(f'sum(out_{i} * r_{i})' for i in range(len(cases))), '    ' + outs + ', loss', '}']
    lines += ['train {', '    ' + outs + ', weighted = calls()', '    loss weighted', '    optimizer sgd(lr=1)', '    steps 1', '}', '']
    return '\n'.join(lines)


def calls(cases, dtype):
    weights = {f'{n}_{i}': (dtype.upper(), s, gf.tensor(f'{i}.{n}', gf.count(s))) for i, c in enumerate(cases) for n, s in {**c['shapes'], 'r': c['result']}.items()}
    wanted = {f'{c["call"]} {c["shapes"]} ({i})': {f'output.calls.{i}': c['value'], **{f'grad.{n}_{i}': d for n, d in c['gradients'].items()}} for i, c in enumerate(cases)}

    def off(values, want):
        return gf.difference(values if values or want['largest'] > 0 else [0.0] * want['count'], want)

    return program(cases), weights, {}, wanted, off, {'f32': 1e-5, 'f64': 1e-11}   # of the largest element


# --- expressions; differences count beside the largest element of a tensor, or 1


def expressions(golden, dtype):
    inputs, wanted, index = {n: ('I32', shape, v) for n, (shape, v) in golden['integers'].items()}, {}, 0
    for name, case in golden['cases'].items():
        inputs.update({f'{name}_{letter}': (dtype.upper(), shape, values) for letter, shape, values in zip('xyz', case['shapes'], case['inputs'])})
        wanted[name] = {f'output.functions.{index + i}': v for i, v in enumerate(case['values'])}
        wanted[name].update({f'grad.{name}_d{letter}': g for letter, g in zip('xyz', case['gradients'])})
        index += len(case['values'])

    def off(values, want):
        values = values or [0.0] * len(want)
        if len(values) != len(want):
            return math.inf
        largest = max([1.0] + [abs(w) for w in want])
        return max((abs(g - w) / largest if math.isfinite(g - w) else math.inf for g, w in zip(values, want)), default=0.0)

    return golden['program'], None, inputs, wanted, off, {'f32': 1e-5, 'f64': 1e-12}


def main():
    nnc, golden, work, dtype, *options = sys.argv[1:]
    with open(golden) as f:
        golden = json.load(f)
    source, weights, inputs, wanted, off, bound = (calls if isinstance(golden, list) else expressions)(golden, dtype)
    os.makedirs(work, exist_ok=True)
    path = lambda name: os.path.join(work, name)
    with open(path('program.nn'), 'w') as f:
        f.write(source)
    run(nnc, path('program.nn'), '--dtype=' + dtype, '-o', path('program'), *options)
    gf.write_safetensors(path('in.safetensors'), inputs)
    if weights:
        gf.write_safetensors(path('w.safetensors'), weights)
    run(path('program'), 'step', *(['--weights=' + path('w.safetensors')] if weights else []), '--inputs=' + path('in.safetensors'), '--outputs=' + path('out.safetensors'))
    out, failed = gf.read_safetensors(path('out.safetensors')), 0
    for case, tensors in wanted.items():
        for name, want in tensors.items():
            # no gradient at all is zero
            values = out[name][2] if name in out or name.startswith('output') else []
            if not off(values, want) <= bound[dtype]:
                print(f'{dtype} {case}: {name} differs by {off(values, want):.3g}')
                failed += 1
    print(f'{len(wanted)} functions, {failed} differences')
    sys.exit(failed > 0)


main()
