"""Compiles a program in several ways, runs steps and a prediction, and compares all they write with PyTorch's."""
import collections
import functools
import os
import random
import re
import resource
import signal
import subprocess
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import golden_format as gf
from fuzzing import generate, golden, oracle, training, tree
from fuzzing.golden import RUNS

BASE = {'f64': 1e-9, 'f32': 1e-4, 'f16': 2e-3, 'bf16': 1e-2}   # of the largest number of a tensor
MOVED = {'f64': 3, 'f32': 3, 'f16': 5, 'bf16': 5}               # evaluations in which each result is moved by a rounding error
FACTOR = {'f64': 30, 'f32': 30, 'f16': 8, 'bf16': 8}            # how much further than they a program may be off
JUDGED = {'f64': 1e-2, 'f32': 1e-2, 'f16': 0.1, 'bf16': 0.25}   # a tensor whose bound is a larger part of it is not judged
UNLIKELY = 6                                                    # standard deviations


class Failure(Exception):
    """kind: a few words that stay the same when the program is made smaller."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def flat(t):
    return t.detach().double().flatten()


class Reference:
    """What a program must write: steps[i][name] and predicted[name]; and how far it may be off. trained_too, left_out, masks: as of oracle.run."""

    def __init__(self, program, trained_too=(), left_out=(), masks=None):
        self.run = functools.partial(oracle.run, program, RUNS, trained_too=trained_too, left_out=left_out, masks=masks)
        self.program, self.masks = program, masks
        self.steps, self.predicted = self.run()
        self.off, self.told = {}, None
        self.untrained = set().union(left_out, *[oracle.untrained(program, part) for part in program.parts()])
        averages = ['ema', *(t.name for t in program.teachers)]
        self.need_not = {f'grad.{path}' for path in self.untrained} | {f'{path}.{name}' for path in self.untrained for name in averages}
        largest = [flat(v).abs().max().item() for k, v in self.steps[0].items() if k.startswith('grad.') and v.numel()]
        self.largest = max(largest + [1e-12])

    def prepare(self, dtype):
        """Finds how far a program of that type may be off: self.off."""
        if any(key[0] == dtype for key in self.off):
            return
        others = [self.run(precision=dtype, seed=i + 1) for i in range(MOVED[loosest(self.program, dtype)])]
        if dtype != 'f64':
            others.append(self.run(dtype=torch.float32, precision=dtype, rounding=True))
        for steps, predicted in others:
            for where, (mine, theirs) in enumerate(zip(self.steps + [self.predicted], steps + [predicted])):
                for name in mine:
                    d = (flat(mine[name]) - flat(theirs[name])).abs()
                    d = d.max().item() if len(d) else 0.0
                    key = dtype, where, name
                    self.off[key] = max(self.off.get(key, 0.0), d if d == d else float('inf'))

    def as_trained(self, said):
        """A parameter whose gradient is zero may be trained, or not: weight decay acts on it where a loop passes it by, and does not where a condition is known to leave it out."""
        wrote, zero = {name for record in said[:RUNS] for name in record}, {name for record in self.steps for name, v in record.items() if name.startswith('grad.') and not v.any()}
        trained = [path for path in self.untrained if f'grad.{path}' in wrote]
        left_out = [name[len('grad.'):] for name in zero - wrote if name[len('grad.'):] not in self.untrained]
        return Reference(self.program, trained, left_out, self.masks) if trained or left_out else self

    def tensors(self):
        for where, record in enumerate(self.steps + [self.predicted]):
            for name, want in record.items():
                yield where, name, flat(want) if self.told is None or name not in self.told[where] else torch.tensor(self.told[where][name][2], dtype=torch.float64)

    def bound(self, dtype, where, name, want):
        """(largest allowed difference, whether that says anything)"""
        self.prepare(dtype)
        scale, least = want.abs().max().item() if len(want) else 0.0, loosest(self.program, dtype)
        floor = self.largest if name.startswith('grad.') else 1e-6
        allowed = BASE[least] * scale + FACTOR[least] * self.off[dtype, where, name] + oracle.EPS[least] * floor
        return allowed, allowed <= JUDGED[least] * max(scale, floor)


def loosest(program, dtype):
    """The type of least precision that a program computes in, of those of its blocks."""
    used = {dtype} | {b.precision for b in program.blocks if b.precision and dtype != 'f64'}
    return max(used, key=oracle.EPS.get)


class Judge:
    def __init__(self, nnc, work):
        self.nnc, self.work, self.compared, self.skipped = nnc, work, 0, 0
        self.predicts = None                            # the model that predictions are of, where a program has several
        self.ways = collections.Counter()               # how often programs ran in which way
        self.masks = None                               # of the dropouts of the program judged last, where outputs show them
        os.makedirs(work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def command(self, words, kind, limit=120):
        """limit: seconds of processor time, which other work on the machine does not lengthen."""
        bound = lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=60 * limit, cwd=self.work, preexec_fn=bound)
        except subprocess.TimeoutExpired:
            raise Failure(kind + ' takes too long', ' '.join(words))
        if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            raise Failure(kind + ' takes too long', ' '.join(words))
        if done.returncode != 0:
            raise Failure(f'{kind} ends with {done.returncode}: {summary(done.stdout)}', f'{" ".join(words)}\n{done.stdout}')

    def compile(self, text, exe, *options):
        with open(self.path('program.nn'), 'w') as f:
            f.write(text)
        self.command([self.nnc, 'program.nn', '-o', exe, *options], 'nnc')

    def execute(self, exe, what, first=0):
        """[{name: (dtype, shape, values)} of each step], and of the prediction."""
        said, weights = [], 'begin.safetensors'
        for step in range(RUNS):
            out = f'{exe}.{step}.safetensors'
            self.command([f'./{exe}', 'step', '--inputs=batch.safetensors', f'--weights={weights}', f'--outputs={out}', f'--step={first + step}', f'--steps={tree.STEPS}'], f'{what}: step')
            said.append(gf.read_safetensors(self.path(out)))
            weights = out
        model = [f'--model={self.predicts}'] if self.predicts else []   # without it that of the first call, be it in a phase
        self.command([f'./{exe}', 'predict', *model, '--inputs=predict.safetensors', f'--weights={weights}', '--outputs=predicted.safetensors'], f'{what}: predict')
        return said + [gf.read_safetensors(self.path('predicted.safetensors'))]

    def compare(self, reference, said, dtype, what, outputs=True, than='PyTorch'):
        for where, name, want in reference.tensors():
            record = said[where]
            if name.startswith('output.') and not outputs and where < RUNS:
                continue
            if name not in record:
                if name in reference.need_not:
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
                raise Failure(f'{what}: {kind_of(name)} differs', f'{place}: {name}{record[name][1]} at {i} is {got[i].item():.17g}, {than} says {want[i].item():.17g}; allowed is {allowed:.2e}')

    def same(self, a, b, what):
        """Bit for bit, whatever order the tensors are in."""
        for where, (x, y) in enumerate(zip(a, b)):
            for name in x:
                if name not in y or x[name] != y[name] and repr(x[name]) != repr(y[name]):   # NaN is no NaN's equal
                    raise Failure(f'{what}: {kind_of(name)} is not the same within a budget', f'run {where}: {name}: {x[name]} and {y.get(name)}'[:2000])

    def budgeted(self, text, options, rng, without, what, first):
        """The program within a random part of its memory, or the least that the compiler says it can do with."""
        share = rng.choice((95, 90, 80, 70, 60, 50, 40))
        try:
            self.compile(text, 'small', f'--memory-budget={share}%', '--remat-effort=0.1', *options)
        except Failure as e:
            least = re.search(r'the smallest budget found is [^(]*\((\d+) bytes\)', str(e))
            if not least:
                raise
            self.compile(text, 'small', f'--memory-budget={least.group(1)}', '--remat-effort=0.1', *options)
        self.same(without, self.execute('small', what, first), what)
        self.ways[f'{what} within a budget'] += 1

    def judge(self, program, ways=None):
        """Raises Failure. ways: the parts of the check to do, such as {'f32 host'}; by default see ways_of."""
        text, reference, self.masks = tree.print_program(program), Reference(program), None
        self.predicts = program.models[0].name if len(program.models) > 1 else None
        hidden, shown = generate.dropouts(program, False), generate.dropouts(program, True)
        whole = program.train['accumulate'] == 1        # else outputs are those of one of the micro-batches
        taken, on_host = names_taken(program), {}
        for way in sorted(ways or ways_of(program), reverse=True):
            dtype, target = way.split()
            rng = random.Random(f'{program.seed}.{way}')
            options = [f'--target={target}'] + ([] if rng.random() < 0.7 else ['-O', rng.choice('013')])
            if dtype != program.precision or rng.random() < 0.3:
                options.append(f'--dtype={dtype}')
            golden.write_files(without_numbers(program), dtype, self.work)
            try:
                self.compile(text, 'whole', *options)
            except Failure as e:
                if taken and 'cannot have it too' in str(e):
                    raise oracle.Unfit('names that files give to something else, refused')
                if 'what is differentiated does not depend on this' in str(e):   # where floor or argmax stand between
                    raise oracle.Unfit('a gradient by what a result does not depend on, refused')
                if dtype in ('f16', 'bf16') and 'is carried as' in str(e):   # what a body computes in f32
                    raise oracle.Unfit('a value that a scan carries in two types, refused')
                raise
            if taken:
                raise Failure('a name that files give to something else is not refused', f'{taken}\n{text}')
            said = self.execute('whole', way, program.train['first'])
            self.ways[way] += 1
            if shown:
                self.check_masks(program, shown, said)
                self.masks = [{name: torch.tensor(t[2], dtype=torch.float64) for name, t in record.items() if name.startswith('output.')} for record in said[:RUNS]]
                reference = Reference(program, masks=self.masks)
            if not hidden:
                self.compare(reference.as_trained(said), said, dtype, way, whole)
            elif dtype in on_host:
                told = reference.as_trained(said)
                told.told = on_host[dtype]
                self.compare(told, said, dtype, way, whole, than='the host')
            if target == 'host':
                on_host[dtype] = said
            if rng.random() < 0.6:
                self.budgeted(text, options, rng, said, way, program.train['first'])

    def check_masks(self, program, shown, said):
        """As many elements are zeroed as there should be, other ones in each step."""
        for n, name in shown:
            masks = [[v != 0 for v in record[name][2]] for record in said[:RUNS]]
            kept, count = sum(map(sum, masks)), RUNS * len(masks[0])
            p = 1 - n.attrs['p']
            if n.args[0].op == 'full' and abs(kept - p * count) > UNLIKELY * (p * (1 - p) * count) ** 0.5:
                raise Failure('dropout: another part is zeroed', f'{name}: {count - kept} of {count} with p={n.attrs["p"]}')
            if n.args[0].op == 'full' and len(masks[0]) > 100 and masks[0] == masks[1]:
                raise Failure('dropout: two steps have the same mask', name)


def ways_of(program):
    """Both types on the host, and one of them in the emulator; those that the program asks for where it does."""
    rng = random.Random(program.seed)
    if program.precision:
        return {f'{program.precision} host', f'{program.precision} cuda-emu'} | ({'f64 host'} if rng.random() < 0.2 else set())
    other = rng.choice(('f64', 'f32'))
    return {'f64 host', 'f32 host', f'{"f32" if program.mixed else other} cuda-emu'}


def names_taken(program):
    """Paths of parameters that a program may not have: see docs/language.md."""
    o = oracle.Oracle(program)
    o.begin(oracle.batches(program, torch.float64)[0][0])
    paths = set(o.parameters) | set(o.states)
    others = {'loss', 'loss_scale'} | {name for name, _ in program.metrics + (program.losses if len(program.losses) > 1 else [])}   # those of phases have a name that no model has in front
    others |= {f'grad.{p}' for p in paths} | {f'{p}.{word}' for p in paths for word in ('exp_avg', 'exp_avg_sq', 'momentum', 'grad_accum', 'ema')}
    return paths & others


def without_numbers(program):
    """What golden.write_files needs."""
    o = oracle.Oracle(program)
    o.begin(oracle.batches(program, torch.float64)[0][0])
    tensors = {path: (list(t.shape), o.roles[path]) for path, t in list(o.parameters.items()) + list(o.states.items())}
    return {'seed': program.seed, 'first': program.train['first'], 'accumulate': program.train['accumulate'], 'inputs': {n: (kind, list(shape), below) for n, (kind, shape, below) in program.data.items()},
            'predicted_from': [i[0] for i in program.models[0].inputs], 'tensors': tensors, 'averaged': list(o.parameters) if program.train['ema'] else []}


def golden_of(program, masks):
    """The program as a golden: what is well conditioned of all that it writes."""
    reference, whole = Reference(program, masks=masks), program.train['accumulate'] == 1
    dtypes = [program.precision] if program.precision else ['f64', 'f32']
    said, gradients = [{} for _ in range(RUNS + 1)], {name: v for record in reference.steps for name, v in record.items() if name.startswith('grad.')}
    for where, name, want in reference.tensors():
        scale = want.abs().max().item() if len(want) else 0
        g = gradients.get('grad.' + name.replace('.ema', ''))
        if g is not None and not g.any():                           # it may be left out of the training: see as_trained
            continue
        if name in reference.need_not or name.startswith('output.') and not whole and where < RUNS:
            continue
        if scale > 0 and all(reference.bound(dtype, where, name, want)[0] < golden.BOUND[dtype] * scale for dtype in dtypes):
            said[where][name] = golden.digest(want.tolist())
    precision = {'precision': program.precision} if program.precision else {}
    return dict(without_numbers(program), **precision, text=tree.print_program(program), wrote=said)


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
    try:
        for part in program.parts():
            shapes = {path: p.shape for path, p in o.parameters.items() if part.trains(path)}
            training.fit_groups(part.train, shapes)
            if len(oracle.untrained(program, part)) == len(shapes):     # all that a loss depends on is frozen
                part.train['groups'] = []
                training.fit_groups(part.train, shapes)
        oracle.run(program, 1)
    except RuntimeError as e:
        if 'does not require grad' in str(e):
            raise oracle.Unfit('nothing is trained')
        raise
