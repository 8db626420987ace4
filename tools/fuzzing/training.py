"""Optimizers and schedules: how they are drawn, and the same in PyTorch."""
import fnmatch
import math
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from make_optimizers import Lamb, Lion, Muon
from fuzzing.tree import EPS

FIRST = 'sgd', 'momentum', 'adam', 'adamw'
BETAS = {'beta1': (0.9, 0.8), 'beta2': (0.999, 0.95)}
DECAY = {'weight_decay': (0.0, 0.1)}
COUPLED = {'decoupled_weight_decay': (True,)}
# {kind: (PyTorch's, values of lr, of other arguments, those that are always there)}; the defaults of PyTorch's arguments are those of the language, but for what DEFAULTS says
OPTIMIZERS = {
    'sgd': (torch.optim.SGD, (0.01, 0.05), {'momentum': (0.9, 0.5), **DECAY}, {}),
    'momentum': (torch.optim.SGD, (0.01, 0.05), {'momentum': (0.9, 0.5), **DECAY}, {}),
    'adam': (torch.optim.Adam, (0.01, 0.002), {**BETAS, **DECAY}, {'eps': EPS}),
    'adamw': (torch.optim.AdamW, (0.01, 0.002), {**BETAS, **DECAY}, {'eps': EPS}),
    'rmsprop': (torch.optim.RMSprop, (0.01, 0.002), {'alpha': (0.9, 0.5), 'momentum': (0.5,), **DECAY}, {'eps': 1e-3}),
    'adagrad': (torch.optim.Adagrad, (0.01, 0.05), {'lr_decay': (0.1,), 'initial_accumulator_value': (0.1,), **DECAY}, {'eps': EPS}),
    'adadelta': (torch.optim.Adadelta, (0.5, 0.1), {'rho': (0.5,), **DECAY}, {'eps': EPS}),
    'adamax': (torch.optim.Adamax, (0.01, 0.002), {**BETAS, **DECAY}, {'eps': EPS}),
    'nadam': (torch.optim.NAdam, (0.01, 0.002), {'momentum_decay': (0.1,), **BETAS, **DECAY, **COUPLED}, {'eps': EPS}),
    'radam': (torch.optim.RAdam, (0.01, 0.002), {**BETAS, **DECAY, **COUPLED}, {'eps': EPS}),
    'lion': (Lion, (0.01, 0.002), {**BETAS, **DECAY}, {}),
    'lamb': (Lamb, (0.01, 0.002), {**BETAS, **DECAY}, {'eps': EPS}),
    'adafactor': (torch.optim.Adafactor, (0.01, 0.1), {'beta2_decay': (-0.5,), 'd': (2.0,), **DECAY}, {'eps1': 1e-3}),
    'muon': (Muon, (0.01, 0.002), {'momentum': (0.9,), **DECAY}, {}),
}
DEFAULTS = {'momentum': {'momentum': 0.9}, 'lion': {'beta2': 0.99}, 'adafactor': {'eps2': 1e-3}}
OWN_LR = {'sgd': 0.01, 'momentum': 0.01, 'adam': 0.001, 'adamw': 0.001, 'rmsprop': 0.01, 'adagrad': 0.01, 'adadelta': 1.0, 'adamax': 0.002, 'nadam': 0.002, 'radam': 0.001, 'lion': 1e-4, 'lamb': 0.001,
          'adafactor': 0.01, 'muon': 0.001}
CENTRED = {'rmsprop': 'centered', 'adam': 'amsgrad', 'adamw': 'amsgrad'}          # of the whole optimizer, not of a group's
WITHOUT_STEP = 'sgd', 'momentum', 'rmsprop', 'adadelta', 'lion'            # whose first step may be any of the schedule's


# --- drawn

def arguments_of(kind, rng, chance):
    """Of an optimizer, each with that chance; of two betas both or neither."""
    _, rates, others, _ = OPTIMIZERS[kind]
    often = lambda: rng.random() < chance
    a = {'lr': rng.choice(rates)} if often() else {}
    betas = often()
    for name, values in others.items():
        if betas if name in BETAS else often():
            a[name] = rng.choice(values)
    return a


def make_optimizer(rng):
    """{'kind', 'settings', 'groups'}; a group is (pattern, settings), of which `optimizer` is another kind."""
    kind = rng.choice(FIRST) if rng.random() < 0.4 else rng.choice(list(OPTIMIZERS))
    settings = {'lr': OPTIMIZERS[kind][1][0], **arguments_of(kind, rng, 0.6), **OPTIMIZERS[kind][3]}   # of a group's eps the docs say nothing else
    if kind in ('sgd', 'momentum') and settings.get('momentum', 0.9 if kind == 'momentum' else 0) and rng.random() < 0.4:
        settings['nesterov'] = True
    if kind in CENTRED and rng.random() < 0.3:
        settings[CENTRED[kind]] = True
    t = {'kind': kind, 'settings': settings, 'groups': []}
    for _ in range(0 if kind == 'muon' else rng.choice((0, 0, 1, 1, 2, 3))):
        pattern = rng.choice(('*.bias', '*.weight', 'w*', '*w?', 'w[1-4]*', '*[0-9].*', 'p*', 'm0*', '*h*', '*'))
        what = rng.random()
        if what < 0.25:
            own = {'frozen': True}
        elif what < 0.45:
            other = rng.choice([k for k in OPTIMIZERS if k != 'muon'])
            own = {'optimizer': other, **arguments_of(other, rng, 0.5), **OPTIMIZERS[other][3]}
        else:
            own = arguments_of(kind, rng, 0.5) or {'lr': 0.002}
        t['groups'].append((pattern, own))
    return t


def make_schedule(rng, lr):
    """(name, arguments), ('by hand', text), or None"""
    kind = rng.choice((None, None, *SCHEDULES))
    if kind is None:
        return None
    a = {}
    if kind != 'one_cycle' and rng.random() < 0.6:
        a['warmup'] = rng.choice((1, 4))
    least = rng.choice((0.0, 0.001, lr / 2))
    if least and kind not in ('constant', 'inverse_square_root', 'one_cycle'):
        a['min'] = least
    a.update({'step': {'every': rng.choice((1, 2)), 'gamma': 0.5}, 'exponential': {'gamma': 0.7}, 'polynomial': {'power': rng.choice((2.0, 0.5))}, 'warmup_stable_decay': {'decay': rng.choice((2, 5))},
              'cosine_restarts': {'T_0': rng.choice((2, 3)), **rng.choice(({}, {'T_mult': 2}))}, 'one_cycle': {'pct_start': rng.choice((0.3, 0.5))}}.get(kind, {}))
    return kind, a


def fit_groups(t, shapes):
    """Leaves out groups that match nothing; muon is for matrices, and each of the others gets a group of its own."""
    matched, kept = set(), []
    for pattern, settings in t['groups']:
        own = {path for path in shapes if fnmatch.fnmatchcase(path, pattern)} - matched
        kept += [(pattern, settings)] if own else []
        matched |= own
    if t['kind'] == 'muon':
        kept = [(path, {'optimizer': 'adamw', 'lr': 0.01, 'eps': EPS}) for path, shape in shapes.items() if len(shape) != 2]
    t['groups'] = kept


# --- evaluated

def settings_of(t, path):
    """(kind, arguments) for a parameter: those of the first group that matches it."""
    own = dict(next((settings for pattern, settings in t['groups'] if fnmatch.fnmatchcase(path, pattern)), {}))
    kind = own.pop('optimizer', None)
    return (kind, {'frozen': False, 'lr': OWN_LR[kind], **own}) if kind else (t['kind'], {'frozen': False, **t['settings'], **own})


def optimizers_of(t, parameters):
    """The optimizers of PyTorch, and the parameters that they train."""
    groups = {}
    for path, p in parameters.items():
        kind, s = settings_of(t, path)
        if s.pop('frozen'):
            continue
        s = {**DEFAULTS.get(kind, {}), **s}
        if 'beta1' in s or 'beta2' in s:
            s['betas'] = s.pop('beta1', 0.9), s.pop('beta2', 0.999)
        if 'eps1' in s:
            s['eps'] = s.pop('eps1'), s.pop('eps2')
        # an accumulator begins as its group says, of which PyTorch's Adagrad looks at the default only
        groups.setdefault((kind, s.get('initial_accumulator_value', 0)), []).append({'params': [p], **s})
    decay = {'adamw': 0.01, 'muon': 0.1}
    made = [OPTIMIZERS[kind][0](g, lr=OWN_LR[kind], weight_decay=decay.get(kind, 0), **({'initial_accumulator_value': first} if kind == 'adagrad' else {})) for (kind, first), g in groups.items()]
    return made, [g['params'][0] for o in made for g in o.param_groups]


def cosine(part):
    return (1 + math.cos(math.pi * part)) / 2


def restarts(done, T_0, T_mult=1):
    length = T_0
    while done >= length:
        done, length = done - length, length * T_mult
    return cosine(done / length)


def one_cycle(step, steps, pct_start):
    top, first = pct_start * steps - 1, 1 / 25
    if step <= top:
        return 1 + (first - 1) * cosine(step / top)
    return first * 1e-4 + (1 - first * 1e-4) * cosine((step - top) / (steps - 1 - top))


# the factor of the rate in a step, counted from 0 behind the warm-up, before the floor is put under it: (step, part of the steps, arguments, steps)
SCHEDULES = {
    'constant': lambda step, part, a, steps: 1,
    'cosine': lambda step, part, a, steps: cosine(part),
    'linear': lambda step, part, a, steps: 1 - part,
    'step': lambda step, part, a, steps: a['gamma'] ** (step // a['every']),
    'exponential': lambda step, part, a, steps: a['gamma'] ** step,
    'polynomial': lambda step, part, a, steps: (1 - part) ** a['power'],
    'inverse_square_root': None,
    'warmup_stable_decay': lambda step, part, a, steps: min(1, (steps - a.get('warmup', 0) - step) / a['decay']),
    'cosine_restarts': lambda step, part, a, steps: restarts(step, a['T_0'], a.get('T_mult', 1)),
    'one_cycle': None,
}


def factor(t, step, steps):
    """Of the learning rate in one of so many steps (docs/language.md): a warm-up from 1/(warmup+1) to 1, then down to a floor."""
    if not t['schedule']:
        return 1
    kind, a = t['schedule']
    warmup, floor = a.get('warmup', 0), a.get('min', 0) / t['settings']['lr']
    if kind == 'inverse_square_root':
        return min((step + 1) / max(1, warmup), math.sqrt(max(1, warmup) / (step + 1)))
    if kind == 'one_cycle':
        return one_cycle(step, steps, a['pct_start'])
    if step < warmup:
        return (step + 1) / (warmup + 1)
    share = SCHEDULES[kind](step - warmup, (step - warmup) / (steps - warmup), a, steps)
    return max(floor, share) if kind in ('step', 'exponential') else floor + (1 - floor) * share
