"""Programs with what PyTorch says they write, as files that are checked without it. Standard library only.

A file holds the text of a program, its inputs, parameters and states (which follow from a hash of their names), and of each tensor that it writes the largest magnitude and the sum
against a fixed pseudo-random vector. Where it says a precision, the program computes in that.
"""
import glob
import json
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import golden_format as gf

RUNS = 2                              # steps, the second from what the first has written
STEPS = 10                            # of the schedule
BOUND = {'f64': 3e-9, 'f32': 3e-4, 'f16': 2e-2, 'bf16': 0.1}   # of the largest number of a tensor
CODE = {'f64': 'F64', 'f32': 'F32', 'bf16': 'F32', 'f16': 'F32'}
WHOLE = {'i': 'I32', 'l': 'I64', 'u': 'U8'}
HALVES = 4                            # see initial and given


def functions_in(folder):
    """Words of the goldens in a folder, functions of the language among them; schedules have some of their names, too."""
    words = set()
    for path in glob.glob(os.path.join(folder, '*.json')):
        with open(path) as f:
            words |= set(re.findall(r'\w+', re.sub(r'schedule.*', '', json.load(f)['text'])))
    return words


def initial(name, shape, role):
    """Of a parameter or state: f32 numbers, by a hash of its name. role 'halves': multiples of a half, where functions have kinks."""
    if role == 'halves':
        return given(name, shape, -HALVES)
    fan = max(1, gf.count(shape[1:]))
    scale, shift = {'weight': (1.5 / math.sqrt(fan), 0), 'scale': (0.4, 1), 'bias': (0.3, 0), 'positive': (0.4, 1), 'table': (1, 0), 'state': (0.5, 0)}[role]
    return gf.tensor(name, gf.count(shape), scale, shift)


def given(name, shape, below):
    """Of an input. below: integers are below it, floats are any numbers where it is 0, and multiples of a half from below/2 to -below/2 where it is negative."""
    if below < 0:
        return [(v + below) / 2 for v in gf.integers(name, gf.count(shape), 1 - 2 * below)]
    return gf.integers(name, gf.count(shape), below) if below else gf.tensor(name, gf.count(shape))


def digest(values):
    """[count, largest, projection]"""
    seed = gf.fnv1a('digest')
    short = lambda v: float('%.13g' % v)
    return [len(values), short(max(map(abs, values), default=0)), short(sum(v * gf.unit(seed, i) for i, v in enumerate(values)))]


def difference(got, want):
    """Of two digests, relative to the tensor's largest magnitude."""
    if got[0] != want[0]:
        return float('inf')
    scale = max(want[1], 1e-30)
    d = max(abs(got[1] - want[1]) / scale, abs(got[2] - want[2]) / (scale * math.sqrt(max(1, want[0]))))
    return d if d == d else float('inf')


def write_files(golden, dtype, folder):
    """The files of a step's inputs, of a prediction's, and of the parameters and states to begin with."""
    code, seed = CODE[dtype], golden['seed']
    path = lambda name: os.path.join(folder, name)
    inputs = {}
    for name, (kind, shape, below) in golden['inputs'].items():
        inputs[name] = code if kind == 'f' else WHOLE[kind], [golden['accumulate'] * shape[0]] + shape[1:], given(f'{seed}.{name}', [golden['accumulate'] * shape[0]] + shape[1:], below)
    gf.write_safetensors(path('batch.safetensors'), inputs)
    first = lambda name, values: values[:gf.count(golden['inputs'][name][1])]
    gf.write_safetensors(path('predict.safetensors'), {n: (inputs[n][0], golden['inputs'][n][1], first(n, inputs[n][2])) for n in golden['predicted_from']})
    tensors = {name: (code, shape, initial(f'{seed}.{name}', shape, role)) for name, (shape, role) in golden['tensors'].items()}
    tensors.update({name + '.ema': tensors[name] for name in golden['averaged']})
    gf.write_safetensors(path('begin.safetensors'), tensors)
