"""The train section: losses, optimizers and schedules of PyTorch that the language has."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim import lr_scheduler

from .loss import LARGEST, NotABlock, loss_block, tensor_literal
from .text import number, snake_case
from .torch_ops import INTEGERS

REDUCTION = {'reduction': ('reduction', 'mean')}
MARGIN = {'margin': ('margin', 0), **REDUCTION}
CLASSES = {'weight': ('class_weights', None), 'ignore_index': ('ignore_index', None), **REDUCTION}      # None: the language counts all labels
# PyTorch's function and module: the language's, what it is called with (outputs of the module, and what the data has), and of PyTorch's arguments the language's name and the default
LOSSES = {
    (F.cross_entropy, nn.CrossEntropyLoss): ('cross_entropy', '> label', {'label_smoothing': ('smoothing', 0), **CLASSES}),
    (F.nll_loss, nn.NLLLoss): ('nll_loss', '> label', CLASSES),
    (F.mse_loss, nn.MSELoss): ('mse', '> target', REDUCTION),
    (F.l1_loss, nn.L1Loss): ('l1', '> target', REDUCTION),
    (F.huber_loss, nn.HuberLoss): ('huber', '> target', {'delta': ('delta', 1), **REDUCTION}),
    (F.smooth_l1_loss, nn.SmoothL1Loss): ('smooth_l1', '> target', {'beta': ('beta', 1), **REDUCTION}),
    (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss): ('binary_cross_entropy', '> target', {'pos_weight': ('pos_weight', None), 'weight': ('weights', None), **REDUCTION}),
    (F.kl_div, nn.KLDivLoss): ('kl_div', '> target', {'log_target': ('log_target', False), **REDUCTION}),
    (F.poisson_nll_loss, nn.PoissonNLLLoss): ('poisson_nll', '> target', {'log_input': ('log_input', True), 'full': ('full', False), 'eps': ('eps', 1e-8), **REDUCTION}),
    (F.hinge_embedding_loss, nn.HingeEmbeddingLoss): ('hinge_embedding', '> target', {**MARGIN, 'margin': ('margin', 1)}),
    (F.gaussian_nll_loss, nn.GaussianNLLLoss): ('gaussian_nll', '>mean target >variance', {'full': ('full', False), 'eps': ('eps', 1e-6), **REDUCTION}),
    (F.margin_ranking_loss, nn.MarginRankingLoss): ('margin_ranking', '>first >second target', MARGIN),
    (F.cosine_embedding_loss, nn.CosineEmbeddingLoss): ('cosine_embedding', '>first >second target', MARGIN),
    (F.triplet_margin_loss, nn.TripletMarginLoss): ('triplet_margin', '>anchor >positive >negative',
                                                    {'margin': ('margin', 1), 'p': ('p', 2), 'eps': ('eps', 1e-6), 'swap': ('swap', False), **REDUCTION}),
}
ADAM = {'lr': 1e-3, 'beta1': 0.9, 'beta2': 0.999, 'eps': 1e-8, 'weight_decay': 0}
OPTIMIZERS = {
    optim.SGD: ('sgd', {'lr': 0.01, 'momentum': 0, 'nesterov': False, 'weight_decay': 0}),
    optim.Adam: ('adam', {**ADAM, 'amsgrad': False}),
    optim.AdamW: ('adamw', {**ADAM, 'weight_decay': 0.01, 'amsgrad': False}),
    optim.RMSprop: ('rmsprop', {'lr': 0.01, 'alpha': 0.99, 'eps': 1e-8, 'weight_decay': 0, 'momentum': 0, 'centered': False}),
    optim.Adagrad: ('adagrad', {'lr': 0.01, 'lr_decay': 0, 'weight_decay': 0, 'initial_accumulator_value': 0, 'eps': 1e-10}),
    optim.Adadelta: ('adadelta', {'lr': 1, 'rho': 0.9, 'eps': 1e-6, 'weight_decay': 0}),
    optim.Adamax: ('adamax', ADAM),
    optim.NAdam: ('nadam', {**ADAM, 'momentum_decay': 0.004, 'decoupled_weight_decay': False}),
    optim.RAdam: ('radam', {**ADAM, 'decoupled_weight_decay': False}),
    optim.Adafactor: ('adafactor', {'lr': 0.01, 'beta2_decay': -0.8, 'eps1': torch.finfo(torch.float32).eps, 'eps2': 1e-3, 'd': 1, 'weight_decay': 0}),
}
if hasattr(optim, 'Muon'):     # since torch 2.9
    OPTIMIZERS[optim.Muon] = ('muon', {'lr': 1e-3, 'weight_decay': 0.1, 'momentum': 0.95, 'nesterov': True, 'a': 3.4445, 'b': -4.775, 'c': 2.0315, 'eps': 1e-7, 'ns_steps': 5, 'adjust_lr_fn': 'original'})
PARTS = {'betas': ('beta1', 'beta2'), 'eps': ('eps1', 'eps2'), 'ns_coefficients': ('a', 'b', 'c')}     # PyTorch's tuples
REFUSED = {'dampening': 0, 'maximize': False}


class NotInLanguage(ValueError):
    """A loss, an optimizer or a schedule that a train section cannot have; the text says which there are."""


def literal(value: Any) -> str:
    """A number, or a tensor of constants."""
    if not isinstance(value, torch.Tensor):
        return number(value)
    if value.numel() == 1:
        return number(value.item())
    if value.numel() > LARGEST:
        raise NotInLanguage(f'a weight of {value.numel()} numbers: read it from the data')
    return tensor_literal(value)


def loss_call(loss: Any) -> tuple[str, list, str]:
    """The language's function, the names of what it is called with, `>` before those of outputs, and its further arguments."""
    function, given = loss, {}
    if isinstance(loss, functools.partial):
        function, given = loss.func, loss.keywords
    for (f, module), (name, tensors, arguments) in LOSSES.items():
        if function is f or type(function) is module:
            break
    else:
        known = ', '.join(f.__name__ for f, _ in LOSSES)
        raise NotInLanguage(f'loss {loss}: {known} of torch.nn.functional, functools.partial of these, or their modules; another one with targets=, an example of what the data has, or in the text')
    values = {k: getattr(loss, k, default) for k, (_, default) in arguments.items()} if function is loss else given
    if 'ignore_index' in arguments and values.get('ignore_index') is None:
        values = {**values, 'ignore_index': -100}       # PyTorch's default
    more = set(values) - set(arguments)
    if more or getattr(loss, 'args', ()) or values.get('reduction') == 'none':
        raise NotInLanguage(f'loss {loss}: {", ".join(more) or "a loss"} for the text: {name} is called there with tensors and ' + ', '.join(n for n, _ in arguments.values()))
    extra = ''.join(f', {n}={literal(values[k])}' for k, (n, default) in arguments.items() if isinstance(values.get(k, default), torch.Tensor) or values.get(k, default) != default)
    return name, tensors.split(), extra


def settings(optimizer: optim.Optimizer, group: dict, scheduled: bool) -> dict:
    name, defaults = OPTIMIZERS[type(optimizer)]
    for key, value in REFUSED.items():
        if group.get(key, value) != value:
            raise NotInLanguage(f'{type(optimizer).__name__} with {key}={group[key]}: the language has it with {key}={value}')
    if type(optimizer) is optim.Adam and group.get('decoupled_weight_decay'):
        raise NotInLanguage('Adam with decoupled_weight_decay: AdamW is that')
    if 'initial_lr' in group and not scheduled:
        raise NotInLanguage('a scheduler has set the rate of the optimizer: give it as scheduler=, or an optimizer without one, and write `schedule` into the text')
    values = dict(group)
    for key, parts in PARTS.items():
        if isinstance(group.get(key), (tuple, list)):
            values.update(zip(parts, group[key]))
    if scheduled:
        values['lr'] = group.get('max_lr', group['initial_lr'])
    return {k: defaults[k] if values[k] is None else values[k].item() if isinstance(values[k], torch.Tensor) else values[k] for k in defaults}


def schedule_lines(scheduler: Any, rates: set) -> list[str]:
    """The schedule, and the steps that it takes; its step() is called once for each step of the optimizer."""
    steps, least = None, getattr(scheduler, 'eta_min', 0)
    if type(scheduler) is lr_scheduler.StepLR:
        call = f'step(every={scheduler.step_size}, gamma={number(scheduler.gamma)}'
    elif type(scheduler) is lr_scheduler.ExponentialLR:
        call = f'exponential(gamma={number(scheduler.gamma)}'
    elif type(scheduler) is lr_scheduler.PolynomialLR:
        call, steps = f'polynomial(power={number(scheduler.power)}', scheduler.total_iters
    elif type(scheduler) is lr_scheduler.CosineAnnealingLR:
        call, steps = 'cosine(', scheduler.T_max
    elif type(scheduler) is lr_scheduler.CosineAnnealingWarmRestarts:
        call = f'cosine_restarts(T_0={scheduler.T_0}' + (f', T_mult={scheduler.T_mult}' if scheduler.T_mult != 1 else '')
    elif type(scheduler) is lr_scheduler.OneCycleLR and len(scheduler._schedule_phases) == 2 and scheduler._anneal_func_type == 'cos' and not scheduler.cycle_momentum:
        group, steps = scheduler.optimizer.param_groups[0], scheduler.total_steps
        call = f'one_cycle(pct_start={number((scheduler._schedule_phases[0]["end_step"] + 1) / steps)}, div_factor={number(group["max_lr"] / group["initial_lr"])}, final_div_factor={number(group["initial_lr"] / group["min_lr"])}'
    else:
        raise NotInLanguage(f'scheduler {type(scheduler).__name__}: StepLR, ExponentialLR, PolynomialLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, or OneCycleLR with cosines and without cycles of the momentum; '
                            'write another one into the text, as an expression of `step`')
    if least and len(rates) > 1:
        raise NotInLanguage(f'scheduler {type(scheduler).__name__} with eta_min={least} and groups of several rates, of which each ends at the same share in the language; write `schedule` into the text')
    minimum = f'{"" if call[-1] == "(" else ", "}min={number(least)}' if least else ''
    return [f'schedule  {call}{minimum})'] + ([f'steps     {steps}'] if steps else [])


def patterns(names: list, all_names: list) -> list:
    """Few patterns that fit these parameters and no others: whole modules where all of one are meant."""
    wanted, out, covered = set(names), [], set()
    for n in names:
        if n in covered:
            continue
        parts = n.split('.')
        for depth in range(1, len(parts) + 1):
            prefix = '.'.join(parts[:depth])
            inside = [m for m in all_names if m == prefix or m.startswith(prefix + '.')]
            if set(inside) <= wanted:
                out.append(prefix if depth == len(parts) else prefix + '.*')
                covered.update(inside)
                break
    return out


def group_lines(program, module: nn.Module, optimizer: optim.Optimizer, scheduled: bool) -> list[str]:
    """What is frozen, or not given to the optimizer, and the groups that have other arguments than the first."""
    names = {id(p): n for n, p in module.named_parameters() if n in program.parameters}
    trained = {id(p) for g in optimizer.param_groups for p in g['params']}
    if not trained <= {id(p) for p in module.parameters()}:
        raise NotInLanguage('the optimizer has a parameter that is none of the module: give one of module.parameters()')
    all_names, first = list(names.values()), settings(optimizer, optimizer.param_groups[0], scheduled)
    groups = [([names[id(p)] for p in module.parameters() if id(p) in names and not (p.requires_grad and id(p) in trained)], 'frozen=true')]
    for g in optimizer.param_groups[1:]:
        other = settings(optimizer, g, scheduled)
        groups.append(([names[id(p)] for p in g['params'] if id(p) in names and p.requires_grad], ', '.join(f'{k}={number(v)}' for k, v in other.items() if v != first[k])))
    return ['group     ' + ', '.join(number(p) for p in patterns(members, all_names)) + f', {what}' for members, what in groups if members and what]


def of_data(name: str, inputs: list) -> str:
    """Of what the loss reads from the data, where an input of the model has its name already."""
    while name in inputs:
        name += '_true'
    return name


def loss_lines(program, call: str, tensors: list, extra: str, types: dict) -> list[str]:
    """The line of the data, that of the outputs where there are several, and the loss."""
    inputs = [snake_case(v.hint or 'x') for v in program.inputs]
    outputs = [t[1:] for t in tensors if t[0] == '>']
    tensors, types = [of_data(t, inputs) for t in tensors], {of_data(n, inputs): t for n, t in types.items()}
    given = [t for t in tensors if t[0] != '>']
    if len(outputs) != len(program.outputs):
        raise NotInLanguage(f'the module has {len(program.outputs)} outputs, and {call} is of {len(outputs)}: give a module that returns what the loss reads, or write the loss into the text')
    scores, rank = f'{program.name}({", ".join(inputs)})', len(program.outputs[0].shape)
    typed = ''.join(f', {n}={t}' for n, t in types.items())
    lines = [f'data      {", ".join(inputs + given)} = safetensors("data.safetensors"{typed})']
    if len(outputs) > 1:
        own = {t: t if t not in inputs else t + '_out' for t in outputs}
        lines.append(f'{", ".join(own.values())} = {scores}')
        tensors = [own.get(t.lstrip('>'), t) for t in tensors]
    elif call in ('cross_entropy', 'nll_loss') and rank > 2:      # PyTorch has the classes in the second axis, the language in the last one
        scores = f'transpose({scores}, {[0, *range(2, rank), 1]})'
    return lines + [f'loss      {call}({", ".join(scores if t == ">" else t for t in tensors)}{extra})']


def own_loss(program, module: nn.Module, loss: Any, targets: Sequence) -> tuple[str, str, list, str, dict]:
    """Of a loss that the language does not have: its block, what loss_call gives, and the types of targets, which the language knows of its own losses."""
    floats = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    outputs = [torch.randn(v.shape).to(floats) if v.dtype == 'f32' else torch.zeros(v.shape, dtype=INTEGERS[v.dtype]) for v in program.outputs]     # the module is not run: that would change its running statistics
    try:
        text, name, types = loss_block(program, loss, outputs, list(targets))
    except NotABlock as e:
        raise NotInLanguage(str(e)) from e
    several, names = len(outputs) > 1, list(types)
    return text + '\n', name, [f'>{n}' if several else '>' for n in names[:len(outputs)]] + names[len(outputs):], '', {n: types[n] for n in names[len(outputs):]}


def train_section(program, module: nn.Module, loss: Any, optimizer: optim.Optimizer | None, scheduler: Any = None, targets: Sequence | None = None) -> str:
    """`targets`: examples, where the loss may be one of one's own."""
    its = getattr(scheduler, 'optimizer', optimizer)
    optimizer = optimizer or its
    if its is not optimizer:
        raise NotInLanguage('the scheduler is of another optimizer than optimizer=')
    optimizer = optimizer or optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.01)
    if type(optimizer) not in OPTIMIZERS:
        raise NotInLanguage(f'optimizer {type(optimizer).__name__}: {", ".join(o.__name__ for o in OPTIMIZERS)} of torch.optim')
    scheduled = scheduler is not None
    name, defaults = OPTIMIZERS[type(optimizer)]
    first = settings(optimizer, optimizer.param_groups[0], scheduled)
    given = ', '.join(f'{k}={number(v)}' for k, v in first.items() if v != defaults[k] or k == 'lr')
    try:
        block, *call = '', *loss_call(loss), {}
    except NotInLanguage:
        if targets is None:
            raise
        block, *call = own_loss(program, module, loss, targets)
    lines = loss_lines(program, *call) + [f'optimizer {name}({given})'] + group_lines(program, module, optimizer, scheduled)
    if scheduled:
        lines += schedule_lines(scheduler, {settings(optimizer, g, True)['lr'] for g in optimizer.param_groups})
    return block + 'train {\n' + ''.join(f'    {line}\n' for line in lines) + '}\n'
