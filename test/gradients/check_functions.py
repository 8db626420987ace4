#!/usr/bin/env python3
"""Values and gradients of calls against PyTorch's, which tools/make_functions.py wrote down: check_functions.py NNC GOLDEN WORK f32|f64 [OPTION of nnc]...

All calls in one program, whose loss weights every element of their results. Prints each that differs.
"""
import json
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


def program(cases, shape):
    lines, outs = ['model calls() {'], ', '.join(f'out_{i}' for i in range(len(cases)))
    for i, c in enumerate(cases):
        lines += [f'    param {n}_{i}: f32[{shape(s)}] = zeros' for n, s in {**c['shapes'], 'r': c['result']}.items()]
        lines += [f'    out_{i} = {named(i, c["call"], c["shapes"])}']
    lines += ['    loss = ' + ' + '.join(f'sum(out_{i} * r_{i})' for i in range(len(cases))), '    ' + outs + ', loss', '}']
    lines += ['train {', '    ' + outs + ', weighted = calls()', '    loss weighted', '    optimizer sgd(lr=1)', '    steps 1', '}', '']
    return '\n'.join(lines)


def main():
    nnc, golden, work, dtype, *options = sys.argv[1:]
    with open(golden) as f:
        cases = json.load(f)
    os.makedirs(work, exist_ok=True)
    source, exe, weights, inputs, outputs = (os.path.join(work, n) for n in ('calls.nn', 'calls', 'w.safetensors', 'in.safetensors', 'out.safetensors'))
    with open(source, 'w') as f:
        f.write(program(cases, lambda s: ', '.join(map(str, s))))
    run(nnc, source, '--dtype=' + dtype, '-o', exe, *options)
    gf.write_safetensors(inputs, {})
    gf.write_safetensors(weights, {f'{n}_{i}': (dtype.upper(), s, gf.tensor(f'{i}.{n}', gf.count(s))) for i, c in enumerate(cases) for n, s in {**c['shapes'], 'r': c['result']}.items()})
    run(exe, 'step', '--weights=' + weights, '--inputs=' + inputs, '--outputs=' + outputs)
    out, failed = gf.read_safetensors(outputs), 0
    for i, c in enumerate(cases):
        wanted = [(f'output.calls.{i}', c['value'])] + [(f'grad.{n}_{i}', d) for n, d in c['gradients'].items()]
        for what, want in wanted:
            values = out[what][2] if what in out or want['largest'] > 0 else [0.0] * want['count']   # no gradient at all is zero
            off = gf.difference(values, want)
            if not off <= BOUND[dtype]:
                print(f'{dtype} {c["call"]} {c["shapes"]}: {what} differs by {off:.2e}')
                failed += 1
    print(f'{len(cases)} calls, {failed} differences')
    sys.exit(failed > 0)


main()
