"""Compiles a program in several ways, runs steps and a prediction, and compares all they write with PyTorch's."""
import functools
import os
import random
import re
import subprocess
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import golden_format as gf
from fuzzing import golden, oracle, tree
from fuzzing.golden import RUNS

BASE = {'f64': 1e-9, 'f32': 1e-4}               # of the largest number of a tensor
ROUNDING = {'f64': 2.0 ** -52, 'f32': 2.0 ** -23}
MOVED = 3                                       # evaluations in which each result is moved by a rounding error
FACTOR = 30                                     # how much further than they a program may be off
JUDGED = 1e-2                                   # a tensor whose bound is a larger part of it is not judged


class Failure(Exception):
    """kind: a few words that stay the same when the program is made smaller."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def flat(t):
    return t.detach().double().flatten()


class Reference:
    """What a program must write: steps[i][name] and predicted[name]; and how far it may be off. trained_too, left_out: as of oracle.run."""

    def __init__(self, program, trained_too=(), left_out=()):
        run = functools.partial(oracle.run, program, RUNS, trained_too=trained_too, left_out=left_out)
        self.program = program
        self.steps, self.predicted = run()
        self.off = {}
        for dtype in BASE:
            others = [run(noise=ROUNDING[dtype], seed=i + 1) for i in range(MOVED)]
            if dtype == 'f32':
                others.append(run(dtype=torch.float32))
            for steps, predicted in others:
                for where, (mine, theirs) in enumerate(zip(self.steps + [self.predicted], steps + [predicted])):
                    for name in mine:
                        d = (flat(mine[name]) - flat(theirs[name])).abs()
                        d = d.max().item() if len(d) else 0.0
                        key = dtype, where, name
                        self.off[key] = max(self.off.get(key, 0.0), d if d == d else float('inf'))
        self.untrained = oracle.untrained(program) | {f'grad.{path}' for path in left_out}
        largest = [flat(v).abs().max().item() for k, v in self.steps[0].items() if k.startswith('grad.') and v.numel()]
        self.largest = max(largest + [1e-30])

    def as_trained(self, record):
        """A parameter whose gradient is zero may be trained, or not: weight decay acts on it where a loop passes it by, and does not where a condition is known to leave it out."""
        trained = [name[len('grad.'):] for name in record if name in self.untrained]
        left_out = [name[len('grad.'):] for name, g in self.steps[0].items() if name.startswith('grad.') and name not in record and name not in self.untrained and not g.any()]
        return Reference(self.program, trained, left_out) if trained or left_out else self

    def tensors(self):
        for where, record in enumerate(self.steps + [self.predicted]):
            for name, want in record.items():
                yield where, name, flat(want)

    def bound(self, dtype, where, name, want):
        """(largest allowed difference, whether that says anything)"""
        scale = want.abs().max().item() if len(want) else 0.0
        floor = self.largest if name.startswith('grad.') else 1e-6
        allowed = BASE[dtype] * scale + FACTOR * self.off[dtype, where, name] + ROUNDING[dtype] * floor
        return allowed, allowed <= JUDGED * max(scale, floor)


class Judge:
    def __init__(self, nnc, work):
        self.nnc, self.work, self.compared, self.skipped = nnc, work, 0, 0
        os.makedirs(work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def command(self, words, kind, limit=120):
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=limit, cwd=self.work)
        except subprocess.TimeoutExpired:
            raise Failure(kind + ' takes too long', ' '.join(words))
        if done.returncode != 0:
            raise Failure(f'{kind} ends with {done.returncode}: {summary(done.stdout)}', f'{" ".join(words)}\n{done.stdout}')

    def compile(self, text, exe, *options):
        with open(self.path('program.nn'), 'w') as f:
            f.write(text)
        self.command([self.nnc, 'program.nn', '-o', exe, *options], 'nnc')

    def execute(self, exe, what):
        """[{name: (dtype, shape, values)} of each step], and of the prediction."""
        said, weights = [], 'begin.safetensors'
        for step in range(RUNS):
            out = f'{exe}.{step}.safetensors'
            self.command([f'./{exe}', 'step', '--inputs=batch.safetensors', f'--weights={weights}', f'--outputs={out}', f'--step={step}', f'--steps={tree.STEPS}'], f'{what}: step')
            said.append(gf.read_safetensors(self.path(out)))
            weights = out
        self.command([f'./{exe}', 'predict', '--inputs=predict.safetensors', f'--weights={weights}', '--outputs=predicted.safetensors'], f'{what}: predict')
        return said + [gf.read_safetensors(self.path('predicted.safetensors'))]

    def compare(self, reference, said, dtype, what, outputs=True):
        for where, name, want in reference.tensors():
            record = said[where]
            if name.startswith('output.') and not outputs and where < RUNS:
                continue
            if name not in record:
                if name in reference.untrained:
                    continue
                raise Failure(f'{what}: {kind_of(name)} is missing', f'{name} is not in step {where}: {sorted(record)}')
            got = torch.tensor(record[name][2], dtype=torch.float64)
            if len(got) != len(want):
                raise Failure(f'{what}: {kind_of(name)} has another shape', f'{name}: {record[name][1]}')
            allowed, judged = reference.bound(dtype, where, name, want)
            self.compared, self.skipped = self.compared + judged, self.skipped + (not judged)
            d = (got - want).abs()
            worst = d.max().item() if len(d) else 0.0
            if judged and not worst <= allowed:
                i = int(torch.where(torch.isnan(d), torch.tensor(float('inf'), dtype=d.dtype), d).argmax())
                place = f'step {where}' if where < RUNS else 'prediction'
                raise Failure(f'{what}: {kind_of(name)} differs', f'{place}: {name}{record[name][1]} at {i} is {got[i].item():.17g}, PyTorch says {want[i].item():.17g}; allowed is {allowed:.2e}')

    def same(self, a, b, what):
        """Bit for bit, whatever order the tensors are in."""
        for where, (x, y) in enumerate(zip(a, b)):
            for name in x:
                if name not in y or x[name] != y[name] and repr(x[name]) != repr(y[name]):   # NaN is no NaN's equal
                    raise Failure(f'{what}: {kind_of(name)} is not the same within a budget', f'run {where}: {name}: {x[name]} and {y.get(name)}'[:2000])

    def budgeted(self, text, options, rng, without, what):
        """The program within a random part of its memory, or the least that the compiler says it can do with."""
        share = rng.choice((95, 90, 80, 70, 60, 50, 40))
        try:
            self.compile(text, 'small', f'--memory-budget={share}%', *options)
        except Failure as e:
            least = re.search(r'the smallest budget found is .*\((\d+) bytes\)', str(e))
            if not least:
                raise
            self.compile(text, 'small', f'--memory-budget={least.group(1)}', *options)
        self.same(without, self.execute('small', what), what)

    def judge(self, program, ways=None):
        """Raises Failure. ways: the parts of the check to do, such as {'f32 host'}; by default both types on the host, and one of them in the emulator."""
        text, reference = tree.print_program(program), Reference(program)
        whole = program.train['accumulate'] == 1        # else outputs are those of one of the micro-batches
        ways = ways or {'f64 host', 'f32 host', random.Random(program.seed).choice(('f64', 'f32')) + ' cuda-emu'}
        for way in sorted(ways):
            dtype, target = way.split()
            rng = random.Random(f'{program.seed}.{way}')
            options = [f'--dtype={dtype}', f'--target={target}'] + ([] if rng.random() < 0.7 else ['-O', rng.choice('013')])
            golden.write_files(without_numbers(program), dtype, self.work)
            self.compile(text, 'whole', *options)
            said = self.execute('whole', way)
            self.compare(reference.as_trained(said[0]), said, dtype, way, whole)
            if rng.random() < 0.6:
                self.budgeted(text, options, rng, said, way)


def without_numbers(program):
    """What golden.write_files needs."""
    o = oracle.Oracle(program)
    o.begin(oracle.batches(program, torch.float64)[0][0])
    tensors = {path: (list(t.shape), o.roles[path]) for path, t in list(o.parameters.items()) + list(o.states.items())}
    return {'seed': program.seed, 'accumulate': program.train['accumulate'], 'inputs': {n: (kind, list(shape), below) for n, (kind, shape, below) in program.data.items()},
            'predicted_from': [i[0] for i in program.models[0].inputs], 'tensors': tensors, 'averaged': list(o.parameters) if program.train['ema'] else []}


def golden_of(program):
    """The program as a golden: what is well conditioned of all that it writes."""
    reference, whole = Reference(program), program.train['accumulate'] == 1
    said = [{} for _ in range(RUNS + 1)]
    for where, name, want in reference.tensors():
        scale = want.abs().max().item() if len(want) else 0
        if name in reference.untrained or name.startswith('output.') and not whole and where < RUNS:
            continue
        if scale > 0 and all(reference.bound(dtype, where, name, want)[0] < golden.BOUND[dtype] * scale for dtype in BASE):
            said[where][name] = golden.digest(want.tolist())
    return dict(without_numbers(program), text=tree.print_program(program), wrote=said)


def kind_of(name):
    return 'gradient' if name.startswith('grad.') else 'output' if name.startswith('output.') else 'loss' if name.startswith(('l_', 'loss')) else 'parameter or state'


def summary(text):
    """The first message, without places and numbers."""
    line = next((l for l in text.splitlines() if 'error' in l or 'Assert' in l or 'fail' in l), text.splitlines()[0] if text else '')
    return re.sub(r"'[^']*'", "''", re.sub(r'\d+', '#', re.sub(r'^\S+:\d+:\d+: ', '', line)))[:90]


def fit(program):
    """Makes the program one that can be judged, or raises oracle.Unfit: settings that match no parameter are left out."""
    o = oracle.Oracle(program)
    o.begin(oracle.batches(program, torch.float64)[0][0])
    group = program.train['group']
    if group and not any(path.endswith(group) for path in o.parameters):
        program.train['group'] = None
        program.train['frozen'] = False
    if all(path.endswith(program.train['group'] or '?') for path in o.parameters):
        program.train['frozen'] = False
    try:
        oracle.run(program, 1)
    except RuntimeError as e:
        if 'does not require grad' in str(e):
            raise oracle.Unfit('nothing is trained')
        raise
