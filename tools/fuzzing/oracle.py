"""Evaluates the tree of a program with PyTorch: what `step` and `predict` of the compiled program must give."""
import math
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from fuzzing import golden, training
from fuzzing.functions import RULES
from fuzzing.maker import promoted
from fuzzing.tree import WRITTEN, output_name

LARGEST = 1e4   # a program with larger numbers says little
EPS = {'f64': 2.0 ** -52, 'f32': 2.0 ** -23, 'f16': 2.0 ** -11, 'bf16': 2.0 ** -8}      # rounding errors
ROUNDED = {'bf16': torch.bfloat16, 'f16': torch.float16}
WHOLE = {'i': torch.int32, 'l': torch.int64, 'u': torch.uint8, 'b': torch.bool}
KIND = {t: kind for kind, t in WHOLE.items()}
EXACT = 64      # in programs at kinks, multiples of a 64th are taken to be exact, but of what divides by a count
DIVIDES = {'resize', 'mean', 'var', 'avgpool', 'softmax', 'log_softmax', 'mse', 'cross_entropy', 'binary_cross_entropy', 'segment_mean', 'layernorm', 'rmsnorm', 'batchnorm', 'groupnorm', 'attention'}


class Unfit(Exception):
    """The program cannot be judged: numbers that are not finite or too large."""


def value_of_role(name, shape, role):
    return torch.tensor(golden.initial(name, shape, role), dtype=torch.float64).reshape(shape)


def input_of(name, kind, shape, below):
    return torch.tensor(golden.given(name, shape, below), dtype=torch.float64 if kind == 'f' else WHOLE[kind]).reshape(shape)


class Oracle:
    """precision: type whose rounding errors each float result is moved by, to tell how well conditioned the program is, or None; rounding: to round the results of bf16 and f16 instead.
    masks: of the dropouts whose results are outputs, what a step has written of them."""

    def __init__(self, program, dtype=torch.float64, precision=None, rounding=False, seed=0):
        self.program, self.dtype, self.precision, self.rounding, self.top = program, dtype, precision, rounding, precision
        self.masks, self.seen = {}, {}
        self.random = torch.Generator().manual_seed(seed)
        self.parameters, self.states, self.updates, self.training = {}, {}, {}, True
        self.averages, self.teaching = {}, False                # of parameters, for teachers; within the call of one
        self.roles = {}                                         # of parameters and states, for value_of_role
        self.scopes, self.used, self.blocks = [], [], {b.name: b for b in program.blocks}

    # --- what layers ask for

    def path(self, name):
        return '.'.join(self.scopes + [name])

    def kept(self, table, name, shape, role):
        path = self.path(name)
        if self.teaching and table is self.parameters:
            return self.averages.get(path, table[path]).detach()
        if path not in table:
            self.roles[path] = role
            table[path] = value_of_role(f'{self.program.seed}.{path}', shape, role).to(self.dtype).requires_grad_(table is self.parameters)
        return table[path]

    def parameter(self, name, shape, role):
        p = self.kept(self.parameters, name, shape, 'halves' if self.program.at_kinks and role == 'table' else role)
        return self.moved(p) if self.precision in ROUNDED else p

    def state(self, name, shape, role):
        state = self.kept(self.states, name, shape, role)
        return state.clone() if self.teaching else state        # a teacher changes none, and F.batch_norm writes into it

    def type_of(self, kind):
        return self.dtype if kind == 'f' else WHOLE[kind]

    def alike(self, tensors, operator=True):
        """Operands of one element type: see promoted. A whole number takes the type of the tensor beside it, but i1's."""
        kinds = {KIND.get(t.dtype, 'f') for t in tensors if isinstance(t, torch.Tensor)} | {'f' for t in tensors if isinstance(t, float)}
        if kinds <= {'b'} and any(not isinstance(t, torch.Tensor) for t in tensors):
            kinds.add('i')
        common = self.type_of(promoted(*kinds, operator=operator))
        return [t.to(common) if isinstance(t, torch.Tensor) else torch.tensor(t, dtype=common) for t in tensors]

    # --- scopes

    def enter(self, name, label):
        if label:
            scope = label
        else:
            used = self.used[-1]
            used[name] = used.get(name, 0) + 1
            scope = name if used[name] == 1 else f'{name}_{used[name]}'
        self.scopes.append(scope)
        self.used.append({})

    def leave(self):
        self.scopes.pop()
        self.used.pop()

    # --- expressions

    def moved(self, y, op=None):
        if isinstance(y, list):
            return [self.moved(x, op) for x in y]
        if not isinstance(y, torch.Tensor) or not y.is_floating_point():
            return y
        if y.numel() and not (y.detach().abs().max() < LARGEST or y.detach().abs().max() > 1e29):
            raise Unfit('large or not finite')
        if not self.precision:
            return y
        if self.rounding:
            return y + (y.to(ROUNDED[self.precision]).to(y.dtype) - y).detach() if self.precision in ROUNDED else y
        part = EPS[self.precision] * torch.randn(y.shape, generator=self.random, dtype=torch.float64).to(y.dtype)
        if self.program.at_kinks and op not in DIVIDES:
            part = torch.where(y.detach() * EXACT == (y.detach() * EXACT).floor(), torch.zeros_like(part), part)
        return y * (1 + part)

    def value(self, n, env):
        if n.op == 'name':
            return env[n.attrs['name']]
        if n.op == 'if':
            chosen = n.attrs['holds'] if n.attrs['condition'] != 'training()' else self.training
            return self.value(n.args[0 if chosen else 1], env)
        if n.op == 'scan':
            return self.scan(n, env)
        tensors = [self.value(x, env) for x in n.args]
        if n.op == 'call':
            return self.call(n, tensors)
        self.enter(WRITTEN.get(n.op, n.op), n.label)
        y = self.moved(RULES[n.op](self, n, tensors), n.op)
        self.leave()
        return y

    def call(self, n, tensors):
        block = self.blocks[n.attrs['block']]
        outer = self.precision
        if block.precision and outer not in (None, 'f64'):
            self.precision = block.precision
            tensors = self.moved(tensors)
        self.enter(block.name, n.label)
        results = self.body(block.body, {name: t for (name, _), t in zip(block.parameters, tensors)})
        self.leave()
        self.precision = outer
        if block.precision:
            results = self.moved(results)
        return results if len(results) > 1 else results[0]

    def scan(self, n, env):
        a = n.attrs
        count, axis = len(a['steps']), a['axis']
        values = [self.value(x, env) for x in n.args]
        inputs, carried, kept = values[:count], values[count:], []
        if n.label:                                             # without one it makes no scope
            self.enter('scan', n.label)
        used = dict(self.used[-1])
        rounds = range(inputs[0].shape[axis])
        for i in reversed(rounds) if a['reverse'] else rounds:
            self.used[-1] = dict(used)                          # all rounds have the same parameters
            inner = dict(env, **{name: x.select(axis, i) for name, x in zip(a['steps'], inputs)}, **dict(zip(a['carried'], carried)))
            results = self.body(a['body'], inner)
            carried = results[:len(carried)]
            kept.append(results[len(carried):])
        if n.label:
            self.leave()
        if a['reverse']:
            kept.reverse()
        results = carried + [torch.stack(list(column), axis) for column in zip(*kept)]
        return results if len(results) > 1 else results[0]

    # --- bodies

    def body(self, body, env):
        for s in body.statements:
            getattr(self, 'do_' + s[0])(s, env)
        return [self.value(r, env) for r in body.results]

    def do_let(self, s, env):
        value = self.value(s[2], env)
        env.update(zip(s[1], value if len(s[1]) > 1 else [value]))

    def do_param(self, s, env):
        env[s[1]] = self.parameter(s[1], s[2], 'table')

    def do_state(self, s, env):
        env[s[1]] = self.state(s[1], s[2], 'state')

    def do_update(self, s, env):
        self.updates[self.path(s[1])] = self.value(s[2], env).detach()

    def do_checkpoint(self, s, env):
        pass

    do_assert = do_checkpoint

    def do_loop(self, s, env):
        _, head, label, body, rounds = s
        self.enter(head.split()[0], label)
        for i in range(rounds):
            self.enter(str(i), str(i))
            self.body(body, env)
            self.leave()
        self.leave()

    # --- a batch

    def forward(self, data, training=True, part=None):
        """({loss: value}, {metric: value}, {model: outputs}) of one batch, in a phase or in all."""
        part = part or self.program
        if self.program.differentiates:                         # also by inputs
            data = {name: v.detach().requires_grad_() if v.is_floating_point() else v for name, v in data.items()}
        self.training, self.updates, env, outputs = training, {}, dict(data), {}
        for m, args, names, teacher in self.program.calls(part):
            self.scopes, self.used, self.precision = [], [{}], 'f32' if self.top in ROUNDED else self.top
            values = [self.value(x, env) for x in m.args_of(args)]
            self.scopes, self.precision = [m.name] if len(self.program.models) > 1 else [], self.top
            if self.top in ROUNDED:
                values = self.moved(values)
            self.seen = {r.attrs['name']: output_name(m, i) for i, r in enumerate(m.body.results) if r.op == 'name'}
            self.teaching, updates = bool(teacher), dict(self.updates)
            results = self.body(m.body, dict(zip([i[0] for i in m.inputs], values)))
            if teacher:
                results, self.updates, self.teaching = [r.detach() for r in results], updates, False
            outputs.setdefault(m.name, results)
            env.update(zip(names, results))
        self.scopes, self.used, self.precision = [], [{}], 'f32' if self.top in ROUNDED else self.top
        said = [{name: self.value(n, env) for name, n in some} for some in (part.losses, part.metrics)]
        return said[0], said[1], outputs

    def begin(self, data):
        """Makes parameters and states, by one batch that leaves no trace."""
        self.forward(data)
        for path, state in self.states.items():
            state.data.copy_(value_of_role(f'{self.program.seed}.{path}', state.shape, self.roles[path]))


def batches(program, dtype):
    """The inputs of each micro-batch of a step; and of all, as the program reads them."""
    parts = program.train['accumulate']
    parted, joined = [{} for _ in range(parts)], {}
    for name, (kind, shape, below) in program.data.items():
        joined[name] = input_of(f'{program.seed}.{name}', kind, (parts * shape[0],) + tuple(shape[1:]), below)
        for part, t in zip(parted, joined[name].chunk(parts)):
            part[name] = t.to(dtype) if kind == 'f' else t
    return parted, joined


def untrained(program, part):
    """The paths of parameters that are a part's and that are frozen or that no loss depends on: a step need not write their gradients."""
    o = Oracle(program)
    data = batches(program, o.dtype)[0][0]
    o.begin(data)
    sum(o.forward(data, part=part)[0].values()).backward()
    return {path for path, p in o.parameters.items() if part.trains(path) and (p.grad is None or training.settings_of(part.train, path)[1]['frozen'])}


class Training:
    """Of a phase, or of the whole program: its optimizers, and what becomes of the averages of what it trains."""

    def __init__(self, o, part):
        self.o, self.part, self.t = o, part, o.program.train
        self.parameters = {path: p for path, p in o.parameters.items() if part.trains(path)}
        self.optimizers, self.trained = training.optimizers_of(part.train, self.parameters)
        self.rates = [(g, g['lr']) for optimizer in self.optimizers for g in optimizer.param_groups]

    def step(self, done, steps, parted, averages, trained_too, left_out):
        """What it writes in its step behind so many; averages: those of ema."""
        o, part, record = self.o, self.part, {}
        for g, rate in self.rates:
            g['lr'] = rate * training.factor(part.train, done, steps)
        for p in o.parameters.values():
            p.grad = None
        prefix = f'{part.name}.' if part.name else ''
        for data in parted:
            losses, metrics, outputs = o.forward(data, part=part)
            total = sum(losses.values())
            if not torch.isfinite(total):
                raise Unfit('the loss is not finite')
            (total / len(parted)).backward()
            names = dict(losses, **metrics, loss=total) if len(losses) > 1 else dict(metrics, loss=total)
            for name, v in names.items():
                record[prefix + name] = record.get(prefix + name, 0) + v.detach() / len(parted)
            for path, v in o.updates.items():
                o.states[path] = v.to(o.dtype)
        for m in o.program.models:
            record.update({output_name(m, i, part): y.detach().clone() for i, y in enumerate(outputs.get(m.name, ()))})
        record.update({f'grad.{path}': torch.zeros_like(p) if p.grad is None else p.grad.clone() for path, p in self.parameters.items()})
        if part.train['clip']:
            torch.nn.utils.clip_grad_norm_(self.trained, part.train['clip'])
        for path, p in self.parameters.items():
            if path in left_out:
                p.grad = None
            elif path in trained_too and p.grad is None:
                p.grad = torch.zeros_like(p)
        for optimizer in self.optimizers:
            optimizer.step()
        for path, p in self.parameters.items():
            averages[path] += (1 - (self.t['ema'] or 0)) * (p.detach() - averages[path])
            teacher = o.program.teacher_of(path)
            if teacher and (done + 1) % (teacher.every or 1) == 0:
                o.averages[path] += (1 - (teacher.decay or 0)) * (p.detach() - o.averages[path])
        return record


def run(program, steps, dtype=torch.float64, precision=None, rounding=False, seed=0, trained_too=(), left_out=(), masks=None):
    """What the compiled program writes: [{name: tensor} of each step] and {name: tensor} of a prediction after the last.
    trained_too: parameters on which no loss depends but that are trained, with a gradient of zero; left_out: those with a gradient of zero that are not. masks: see Oracle, of each step."""
    o = Oracle(program, dtype, precision, rounding, seed)
    parted, _ = batches(program, dtype)
    o.begin(parted[0])
    t = program.train
    trainings = [Training(o, part) for part in program.parts()]
    averages = {path: p.detach().clone() for path, p in o.parameters.items()}
    o.averages = {path: p.detach().clone() for path, p in o.parameters.items() if program.teacher_of(path)}
    said = []
    for step in range(t['first'], t['first'] + steps):
        o.masks, record = masks[step - t['first']] if masks else {}, {}
        for x in trainings:
            if (step + 1) % x.part.every == 0:
                record.update(x.step(step // x.part.every, golden.STEPS // x.part.every, parted, averages, trained_too, left_out))
        record.update({path: p.detach().clone() for path, p in o.parameters.items()})
        record.update({path: v.detach().clone() for path, v in o.states.items()})
        record.update({f'{path}.{program.teacher_of(path).name}': v.clone() for path, v in o.averages.items()})
        if t['ema']:
            record.update({path + '.ema': averages[path].clone() for x in trainings for path, p in x.parameters.items() if any(p is q for q in x.trained)})
        said.append(record)
    if t['ema']:
        for path, p in o.parameters.items():
            p.data = averages[path]
    outputs = o.forward(parted[0], training=False)[2][program.models[0].name]
    return said, {output_name(program.models[0], i): y.detach() for i, y in enumerate(outputs)}
