"""Evaluates the tree of a program with PyTorch: what `step` and `predict` of the compiled program must give."""
import math
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from fuzzing import golden
from fuzzing.functions import RULES
from fuzzing.tree import EPS, GROUP_RATE, STEPS

LARGEST = 1e4   # a program with larger numbers says little


class Unfit(Exception):
    """The program cannot be judged: numbers that are not finite or too large."""


def value_of_role(name, shape, role):
    return torch.tensor(golden.initial(name, shape, role), dtype=torch.float64).reshape(shape)


def input_of(name, kind, shape, below):
    return torch.tensor(golden.given(name, shape, below), dtype=torch.float64 if kind == 'f' else torch.int32).reshape(shape)


class Oracle:
    """noise: each float result is moved by this part of itself, to tell how well conditioned the program is."""

    def __init__(self, program, dtype=torch.float64, noise=0.0, seed=0):
        self.program, self.dtype, self.noise = program, dtype, noise
        self.random = torch.Generator().manual_seed(seed)
        self.parameters, self.states, self.updates, self.training = {}, {}, {}, True
        self.roles = {}                                         # of parameters and states, for value_of_role
        self.scopes, self.used, self.blocks = [], [], {b.name: b for b in program.blocks}

    # --- what layers ask for

    def path(self, name):
        return '.'.join(self.scopes + [name])

    def kept(self, table, name, shape, role):
        path = self.path(name)
        if path not in table:
            self.roles[path] = role
            table[path] = value_of_role(f'{self.program.seed}.{path}', shape, role).to(self.dtype).requires_grad_(table is self.parameters)
        return table[path]

    def parameter(self, name, shape, role):
        return self.kept(self.parameters, name, shape, role)

    def state(self, name, shape, role):
        return self.kept(self.states, name, shape, role)

    def alike(self, tensors):
        """Operands of one element type: integers beside floats become floats."""
        floats = any(isinstance(t, torch.Tensor) and t.is_floating_point() or isinstance(t, float) for t in tensors)
        first = next(t for t in tensors if isinstance(t, torch.Tensor))
        if not floats:
            return [torch.as_tensor(t, dtype=first.dtype) for t in tensors]
        return [t.to(self.dtype) if isinstance(t, torch.Tensor) else torch.tensor(t, dtype=self.dtype) for t in tensors]

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

    def moved(self, y):
        if isinstance(y, list):
            return [self.moved(x) for x in y]
        if not isinstance(y, torch.Tensor) or not y.is_floating_point():
            return y
        if y.numel() and not (y.detach().abs().max() < LARGEST or y.detach().abs().max() > 1e29):
            raise Unfit('large or not finite')
        return y * (1 + self.noise * torch.randn(y.shape, generator=self.random, dtype=torch.float64).to(y.dtype)) if self.noise else y

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
        self.enter(n.op, n.label)
        y = self.moved(RULES[n.op](self, n, tensors))
        self.leave()
        return y

    def call(self, n, tensors):
        block = self.blocks[n.attrs['block']]
        self.enter(block.name, n.label)
        results = self.body(block.body, {name: t for (name, _), t in zip(block.parameters, tensors)})
        self.leave()
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

    def forward(self, data, training=True):
        """({loss: value}, {metric: value}, {model: outputs}) of one batch."""
        self.training, self.updates, env, outputs = training, {}, dict(data), {}
        for m in self.program.models:
            self.scopes, self.used = ([m.name] if len(self.program.models) > 1 else []), [{}]
            outputs[m.name] = self.body(m.body, {i[0]: data[i[0]] for i in m.inputs})
            env.update(zip(m.outputs, outputs[m.name]))
        self.scopes, self.used = [], [{}]
        said = [{name: self.value(n, env) for name, n in part} for part in (self.program.losses, self.program.metrics)]
        return said[0], said[1], outputs

    def begin(self, data):
        """Makes parameters and states, by one batch that leaves no trace."""
        with torch.no_grad():
            self.forward(data)
        for path, state in self.states.items():
            state.copy_(value_of_role(f'{self.program.seed}.{path}', state.shape, self.roles[path]))


def batches(program, dtype):
    """The inputs of each micro-batch of a step; and of all, as the program reads them."""
    parts = program.train['accumulate']
    parted, joined = [{} for _ in range(parts)], {}
    for name, (kind, shape, below) in program.data.items():
        joined[name] = input_of(f'{program.seed}.{name}', kind, (parts * shape[0],) + tuple(shape[1:]), below)
        for part, t in zip(parted, joined[name].chunk(parts)):
            part[name] = t.to(dtype) if kind == 'f' else t
    return parted, joined


def optimizer_of(program, parameters):
    """The optimizer of PyTorch, and the parameters that it trains."""
    t = program.train
    own = {path for path in parameters if t['group'] and path.endswith(t['group'])}
    trained = {path: p for path, p in parameters.items() if not (t['frozen'] and path in own)}
    groups = [{'params': [p], 'lr': GROUP_RATE if path in own else t['rate']} for path, p in trained.items()]
    if t['kind'] == 'sgd':
        return torch.optim.SGD(groups, momentum=t['momentum'], nesterov=t['nesterov'], weight_decay=t['weight_decay']), list(trained.values())
    kind = torch.optim.Adam if t['kind'] == 'adam' else torch.optim.AdamW
    return kind(groups, betas=t['betas'], eps=EPS, weight_decay=t['weight_decay']), list(trained.values())


def factor(schedule, step):
    """Of the learning rate in a step (docs/runtime.md)."""
    name = (schedule or '').split('(')[0]
    if name == 'constant':
        return min(1, (step + 1) / 5)
    if name == 'cosine':
        return 0.5 if step < 1 else (1 + math.cos(math.pi * (step - 1) / (STEPS - 1))) / 2
    return {'': 1, 'linear': 1 - step / STEPS, 'step': 0.5 ** step}[name]


def untrained(program):
    """Names of the gradients that a step need not write: of parameters that are frozen or that no loss depends on."""
    o = Oracle(program)
    data = batches(program, o.dtype)[0][0]
    o.begin(data)
    sum(o.forward(data)[0].values()).backward()
    frozen = program.train['group'] if program.train['frozen'] else None
    return {f'grad.{path}' for path, p in o.parameters.items() if p.grad is None or frozen and path.endswith(frozen)}


def run(program, steps, dtype=torch.float64, noise=0.0, seed=0, trained_too=(), left_out=()):
    """What the compiled program writes: [{name: tensor} of each step] and {name: tensor} of a prediction after the last.
    trained_too: parameters on which no loss depends but that are trained, with a gradient of zero; left_out: those with a gradient of zero that are not."""
    o = Oracle(program, dtype, noise, seed)
    parted, _ = batches(program, dtype)
    o.begin(parted[0])
    t = program.train
    optimizer, trained = optimizer_of(program, o.parameters)
    rates = [g['lr'] for g in optimizer.param_groups]
    averages = {path: p.detach().clone() for path, p in o.parameters.items()}
    said = []
    for step in range(steps):
        for g, rate in zip(optimizer.param_groups, rates):
            g['lr'] = rate * factor(t['schedule'], step)
        optimizer.zero_grad()
        record = {}
        for part in parted:
            losses, metrics, outputs = o.forward(part)
            total = sum(losses.values())
            if not torch.isfinite(total):
                raise Unfit('the loss is not finite')
            (total / len(parted)).backward()
            names = dict(losses, **metrics, loss=total) if len(losses) > 1 else dict(metrics, loss=total)
            for name, v in names.items():
                record[name] = record.get(name, 0) + v.detach() / len(parted)
            for path, v in o.updates.items():
                o.states[path] = v.to(dtype)
        for model, values in outputs.items():
            for i, y in enumerate(values):
                record[f'output.{model}' + (f'.{i}' if len(values) > 1 else '')] = y.detach()
        record.update({f'grad.{path}': torch.zeros_like(p) if p.grad is None else p.grad.clone() for path, p in o.parameters.items()})
        if t['clip']:
            torch.nn.utils.clip_grad_norm_(trained, t['clip'])
        for path in left_out:
            o.parameters[path].grad = None
        for path in trained_too:
            if o.parameters[path].grad is None:
                o.parameters[path].grad = torch.zeros_like(o.parameters[path])
        optimizer.step()
        for path, p in o.parameters.items():
            averages[path] += (1 - (t['ema'] or 0)) * (p.detach() - averages[path])
        record.update({path: p.detach().clone() for path, p in o.parameters.items()})
        record.update({path: v.detach().clone() for path, v in o.states.items()})
        if t['ema']:
            record.update({path + '.ema': v.clone() for path, v in averages.items() if any(o.parameters[path] is p for p in trained)})
        said.append(record)
    if t['ema']:
        for path, p in o.parameters.items():
            p.data = averages[path]
    with torch.no_grad():
        outputs = o.forward(parted[0], training=False)[2][program.models[0].name]
    model = program.models[0].name
    return said, {f'output.{model}' + (f'.{i}' if len(outputs) > 1 else ''): y for i, y in enumerate(outputs)}
