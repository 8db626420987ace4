#!/usr/bin/env python3
"""What nnc --emit=onnx writes, against the program: the same weights and inputs, through ONNX Runtime and through `predict`.

usage: check_onnx.py NNC WORKDIR [MODEL[:NAME=VALUE,...]]...      MODEL: a name in models/, or a file; without any all of them, small

Prints for each model the largest difference as a part of the largest output, or the op that ONNX has no counterpart of. Exit status 1 where
they differ by more than 1e-5, or a file is not valid. Needs onnx and onnxruntime; where Python has none it says "skipped" and ends with status 0.
"""
import os
import re
import subprocess
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as e:
    print('skipped:', e)
    sys.exit(0)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_format as gf

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
BOUND = 1e-5
OWN = [os.path.abspath(os.path.join(ROOT, 'test/codegen/Inputs', f'onnx_{f}.nn')) for f in ('edges', 'order', 'loops', 'integers')]
SMALL = {'gpt2': 'T=16,width=64,layers=2,heads=4,vocabulary=300', 'llama': 'T=16,width=64,layers=2,heads=4,groups=2,inner=96,vocabulary=300',
         'bert_base': 'layers=1', 'vit_b16': 'layers=1', 'resnet50': '', 'vgg16': ''}
NUMPY = {'tensor(float)': numpy.float32, 'tensor(double)': numpy.float64, 'tensor(int32)': numpy.int32, 'tensor(int64)': numpy.int64,
         'tensor(uint8)': numpy.uint8, 'tensor(bool)': numpy.bool_}


CODES = {'float32': 'F32', 'float64': 'F64', 'int32': 'I32', 'int64': 'I64', 'uint8': 'U8', 'bool': 'BOOL'}


def save(path, tensors):
    gf.write_bytes(path, {name: (CODES[t.dtype.name], t.shape, t.tobytes()) for name, t in tensors.items()})


def load(path):
    names = {code: dtype for dtype, code in CODES.items()}
    return {name: numpy.frombuffer(data, names[dtype]).reshape(shape) for name, (dtype, shape, data) in gf.read_bytes(path).items()}


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def inputs_of(session, limits, rng):
    values = {}
    for i in session.get_inputs():
        dtype = NUMPY[i.type]
        if numpy.issubdtype(dtype, numpy.floating):
            values[i.name] = rng.standard_normal(i.shape).astype(dtype)
        else:
            values[i.name] = rng.integers(0, 2 if dtype == numpy.bool_ else limits.get(i.name, 200), i.shape).astype(dtype)
    return values


def normalised(path, values):
    """What the program makes of its images before the model has them, which whoever runs a file of ONNX does: `normalise` of the data line."""
    with open(path) as f:
        line = re.search(r'^ *data +(\w+).*\bnormalise\(mean=([^=]*), std=(.*?)\)(?= *(?:\||$))', f.read(), re.MULTILINE)
    if not line:
        return values
    mean, std = (numpy.array(eval(n), numpy.float32).reshape(-1, 1, 1) for n in line.group(2, 3))
    return {name: (x - mean) / std if name == line.group(1) else x for name, x in values.items()}


def check(nnc, folder, model, defines):
    name = os.path.basename(model)
    options = [o for d in filter(None, defines.split(',')) for o in ('-D', d)]
    path = model if model.endswith('.nn') else os.path.join(ROOT, 'models', model + '.nn')
    made = run(nnc, path, *options, '-o', name, cwd=folder)
    if made.returncode:
        return False, made.stderr.strip().splitlines()[0]
    program = os.path.join(folder, name)
    made = run(program, 'export', name + '.safetensors', '--init', cwd=folder)
    weights = ['--weights=' + name + '.safetensors'] if os.path.exists(os.path.join(folder, name + '.safetensors')) else []
    made = run(nnc, path, *options, '--emit=onnx', *weights, '-o', name + '.onnx', cwd=folder)
    if made.returncode:
        lines = [line for line in made.stderr.splitlines() if 'error: ' in line]
        return any('no counterpart' in line for line in lines) or 'no model that predicts' in made.stderr, lines[0] if lines else made.stderr
    file = os.path.join(folder, name + '.onnx')
    onnx.checker.check_model(file, full_check=True)
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1   # rows that are added up at equal indices race otherwise
    session = onnxruntime.InferenceSession(file, alone, providers=['CPUExecutionProvider'])
    text = run(nnc, path, *options, '--emit=nn', '-o', '-', cwd=folder).stdout
    limits = {m.group(2): int(m.group(1)) for m in re.finditer(r'nn\.limit = (\d+) : i64, nn\.name = "([^"]*)"', text)}
    values = inputs_of(session, limits, numpy.random.default_rng(1))
    save(os.path.join(folder, 'in.safetensors'), values)
    made = run(program, 'predict', '--inputs=in.safetensors', '--outputs=out.safetensors', *weights, cwd=folder)
    if made.returncode:
        return False, made.stderr.strip()
    ours = load(os.path.join(folder, 'out.safetensors'))
    worst = 0
    for output, theirs in zip(session.get_outputs(), session.run(None, normalised(path, values))):
        mine = numpy.asarray(ours[output.name], dtype=numpy.float64)
        worst = numpy.maximum(worst, numpy.abs(mine - theirs).max() / max(numpy.abs(mine).max(), 1e-30))   # NaN stays
    return worst <= BOUND, f'{worst:.1e}, {os.path.getsize(file) / 2**20:.1f} MiB'


def main():
    nnc, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    models = sys.argv[3:] or OWN + sorted(f[:-3] for f in os.listdir(os.path.join(ROOT, 'models')) if f.endswith('.nn'))
    fine = True
    for model in models:
        model, given, defines = model.partition(':')
        ok, text = check(nnc, folder, model, defines if given else SMALL.get(model, ''))
        fine &= ok
        print(f'{"ok  " if ok else "FAIL"} {model}: {text}', flush=True)
    sys.exit(0 if fine else 1)


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    main()
