#!/usr/bin/env python3
"""Makes test/import/Inputs/NAME.nn and NAME.json: networks that nnc.from_torch has written, and what PyTorch computes with them in f64: loss and every gradient.

usage: make_import_goldens.py [NAME...]       names of python/tests/models_transformers.py; needs torch and transformers, which nothing in `make check` does,
                                              and NNC=build/nnc, which lays the texts out
Parameters and inputs are hashed (golden_format.py), so that the files stay small."""
import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path[:0] = [os.path.join(ROOT, 'tools'), os.path.join(ROOT, 'python'), os.path.join(ROOT, 'python', 'tests')]
import golden_format as gf
import torch

import check
import models
import models_transformers
from nnc.importer import convert, formatted
from nnc.text import snake_case

NAMES = list(models_transformers.ARCHITECTURES)
SCALE = 0.2
LARGE = 2048      # elements: a larger tensor is hashed, not written


def tensor(t):
    """Floats of inputs are hashed: no values."""
    kind = {torch.float64: 'F64', torch.float32: 'F64', torch.bool: 'BOOL', torch.int32: 'I32'}.get(t.dtype, 'I64')
    hashed = t.is_floating_point() and t.numel() > LARGE
    return {'dtype': kind, 'shape': list(t.shape), **({} if hashed else {'values': t.reshape(-1).tolist()})}


def make(name):
    module, args, kwargs = models.make('transformers', name)
    module = module.double()
    check.without_dropout(module)
    module.train()
    hashed = lambda t: torch.tensor(gf.tensor(f'{name}.input', t.numel()), dtype=torch.float64).reshape(t.shape) if t.is_floating_point() else t
    args, kwargs = tuple(hashed(a) for a in args), {k: hashed(v) for k, v in kwargs.items()}
    with check.Wide():
        program = convert(module, args, kwargs, sizes=False)
        constants = {n: t for n, t in program.weights.items() if n not in dict(module.named_parameters())}
        if any(t.numel() > LARGE for t in constants.values()):
            return 'has large constants'
        with torch.no_grad():
            for n, p in module.named_parameters():
                shift = 1.0 if p.dim() == 1 and n.endswith('weight') else 0.0
                p.copy_(torch.tensor(gf.tensor(f'{name}.{n}', p.numel(), SCALE, shift), dtype=torch.float64).reshape(p.shape))
        outs = check.flat(module(*args, **kwargs))[:len(program.outputs)]
        targets = {f'target{i}': gf.tensor(f'{name}.target{i}', o.numel()) for i, o in enumerate(outs)}
        loss = sum((o * torch.tensor(targets[f'target{i}'], dtype=torch.float64).reshape(o.shape)).mean() for i, o in enumerate(outs))
        loss.backward()
    used = zip([snake_case(v.hint or 'x') for v in program.inputs], check.flat((args, kwargs)))
    parameters = {n: p for n, p in module.named_parameters() if n in program.weights}
    golden = {'network': name, 'scale': SCALE, 'loss': loss.item(), 'inputs': {n: tensor(t) for n, t in used}, 'constants': {n: tensor(t) for n, t in constants.items()},
              'targets': {f'target{i}': list(o.shape) for i, o in enumerate(outs)},
              'parameters': {n: {'shape': list(p.shape), 'gradient': gf.digest(p.grad.reshape(-1).tolist())} for n, p in parameters.items() if p.grad is not None}}
    folder = os.path.join(ROOT, 'test', 'import', 'Inputs')
    with open(os.path.join(folder, name + '.nn'), 'w') as f:
        f.write(formatted(f'# {name}: written by nnc.from_torch (tools/make_import_goldens.py), with the train section of its test.\n' + program.text + '\n' + check.train_section(program)))
    with open(os.path.join(folder, name + '.json'), 'w') as f:
        f.write(json.dumps(golden, separators=(',', ':')) + '\n')
    return f'{len(program.text.splitlines())} lines'


for wanted in sys.argv[1:] or NAMES:
    try:
        print(wanted, make(wanted), flush=True)
    except Exception as e:      # the others are made all the same
        print(wanted, 'fails:', str(e)[:200], flush=True)
