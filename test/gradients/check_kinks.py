#!/usr/bin/env python3
"""Value and gradient of functions where they bend, against PyTorch's in Inputs/kinks.json: check_kinks.py NNC GOLDEN WORK f32|f64 [OPTION of nnc]...

Infinities, NaN and zeros have to be the same, other numbers differ by a few roundings. Prints each that does not, as function(point).
"""
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

RELATIVE = {'f32': 2e-6, 'f64': 2e-14}
LEAST = {'f32': 1e-37, 'f64': 1e-300}   # below it, results may be flushed to zero
NEAR_ONE = ('tanh', 'gelu', 'gelu_tanh', 'binary_cross_entropy', 'layernorm', 'rmsnorm', 'groupnorm', 'batchnorm', 'softmax', 'log_softmax', 'cross_entropy',
            'acosh', 'cosine', 'ctc_loss', 'dice', 'expm1', 'focal', 'info_nce', 'normalize', 'segment_softmax', 'softmin', 'std', 'weight_norm')   # differences of numbers near 1


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def same(name, got, want, dtype):
    if got == want or math.isnan(got) and math.isnan(want):
        return True
    least = RELATIVE[dtype] if name.startswith(NEAR_ONE) else LEAST[dtype]
    return math.isfinite(got) and math.isfinite(want) and abs(got - want) <= max(RELATIVE[dtype] * abs(want), least)


def differences(index, name, case, dtype, out):
    """Where a result differs: (what, its index, got, wanted)."""
    golden = case[dtype]
    for what, want in [(f'output.kinks.{index}', golden['value'])] + [(f'grad.{name}_d{"xyz"[i]}', g) for i, g in enumerate(golden['gradients'])]:
        got = out[what][2] if what in out or what.startswith('output') else [0.0] * len(want)   # no gradient at all is zero
        for i, (g, w) in enumerate(zip(got, want)):
            if w is not None and not any(same(name, g, float(one), dtype) for one in w.split('|')):
                yield what, i, g, w
        if len(got) != len(want):
            yield what, len(want), len(got), len(want)


def main():
    nnc, golden, work, dtype, *options = sys.argv[1:]
    with open(golden) as f:
        golden = json.load(f)
    os.makedirs(work, exist_ok=True)
    source, exe, inputs, outputs = (os.path.join(work, n) for n in ('kinks.nn', 'kinks', 'in.safetensors', 'out.safetensors'))
    with open(source, 'w') as f:
        f.write(golden['program'])
    run(nnc, source, '--dtype=' + dtype, '-o', exe, *options)
    tensors = {}
    for name, rows in golden['integers'].items():
        deep = isinstance(rows[0], list)
        tensors[name] = ('I32', [len(rows), len(rows[0])], sum(rows, [])) if deep else ('I32', [len(rows)], rows)
    for name, case in golden['cases'].items():
        for letter, shape, values in zip('xyz', case['shapes'], case[dtype]['inputs']):
            tensors[f'{name}_{letter}'] = (dtype.upper(), shape, [float(v) for v in values])
    gf.write_safetensors(inputs, tensors)
    run(exe, 'step', '--inputs=' + inputs, '--outputs=' + outputs)
    out, failed = gf.read_safetensors(outputs), 0
    for index, (name, case) in enumerate(golden['cases'].items()):
        points = [[float(v) for v in values] for values in case[dtype]['inputs']]
        for what, i, got, want in differences(index, name, case, dtype, out):
            at = ', '.join(f'{p[i]:.9g}' for p in points if i < len(p)) or '…'
            print(f'{dtype} {name}({at}): {what}[{i}] is {got:.9g}, PyTorch has {want}')
            failed += 1
    print(f'{len(golden["cases"])} functions, {failed} differences')
    sys.exit(failed > 0)


main()
