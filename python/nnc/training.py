"""The train section: losses and optimizers of PyTorch that the language has."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .text import number, snake_case

LOSSES = {F.cross_entropy: 'cross_entropy', F.mse_loss: 'mse', F.binary_cross_entropy_with_logits: 'binary_cross_entropy'}
MODULES = {torch.nn.CrossEntropyLoss: 'cross_entropy', torch.nn.MSELoss: 'mse', torch.nn.BCEWithLogitsLoss: 'binary_cross_entropy'}
OPTIMIZERS = {torch.optim.SGD: ('sgd', {'lr': 0.01, 'momentum': 0, 'nesterov': False, 'weight_decay': 0}),
              torch.optim.Adam: ('adam', {'lr': 1e-3, 'beta1': 0.9, 'beta2': 0.999, 'eps': 1e-8, 'weight_decay': 0}),
              torch.optim.AdamW: ('adamw', {'lr': 1e-3, 'beta1': 0.9, 'beta2': 0.999, 'eps': 1e-8, 'weight_decay': 0.01})}
REFUSED = {'dampening': 0, 'amsgrad': False, 'maximize': False}


class NotInLanguage(ValueError):
    """A loss or an optimizer that a train section cannot have; the text says which there are."""


def loss_call(loss: Any) -> tuple[str, str]:
    """The function of the language and its further arguments."""
    if isinstance(loss, torch.nn.Module):
        name = MODULES.get(type(loss))
        if name is None or loss.reduction != 'mean' or getattr(loss, 'weight', None) is not None or getattr(loss, 'pos_weight', None) is not None:
            raise NotInLanguage(f'loss {loss}: cross_entropy, mse_loss or binary_cross_entropy_with_logits, with reduction="mean" and without weights of classes; write another one into the text')
        smoothing = getattr(loss, 'label_smoothing', 0)
        extra = f', smoothing={number(smoothing)}' if smoothing else ''
        return name, extra + (f', ignore_index={loss.ignore_index}' if getattr(loss, 'ignore_index', -100) != -100 else '')
    if loss not in LOSSES:
        raise NotInLanguage(f'loss {loss}: cross_entropy, mse_loss or binary_cross_entropy_with_logits of torch.nn.functional; write another one into the text')
    return LOSSES[loss], ''


def settings(optimizer: torch.optim.Optimizer, group: dict) -> dict:
    name, defaults = OPTIMIZERS[type(optimizer)]
    for key, value in REFUSED.items():
        if group.get(key, value) != value:
            raise NotInLanguage(f'{type(optimizer).__name__} with {key}={group[key]}: the language has it with {key}={value}')
    if type(optimizer) is torch.optim.Adam and group.get('decoupled_weight_decay'):
        raise NotInLanguage('Adam with decoupled_weight_decay: AdamW is that')
    values = dict(group)
    if 'betas' in group:
        values['beta1'], values['beta2'] = group['betas']
    return {k: values[k] for k in defaults}


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


def train_section(program, module: torch.nn.Module, loss: Any, optimizer: torch.optim.Optimizer | None) -> str:
    optimizer = optimizer or torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.01)
    if type(optimizer) not in OPTIMIZERS:
        raise NotInLanguage(f'optimizer {type(optimizer).__name__}: SGD, Adam or AdamW of torch.optim')
    call, extra = loss_call(loss)
    name, defaults = OPTIMIZERS[type(optimizer)]
    inputs = [snake_case(v.hint or 'x') for v in program.inputs]
    target = 'label' if call == 'cross_entropy' else 'target'
    first = settings(optimizer, optimizer.param_groups[0])
    given = ', '.join(f'{k}={number(v)}' for k, v in first.items() if v != defaults[k] or k == 'lr')
    scores, rank = f'{program.name}({", ".join(inputs)})', len(program.outputs[0].shape)
    if call == 'cross_entropy' and rank > 2:      # PyTorch has the classes in the second axis, the language in the last one
        scores = f'transpose({scores}, {[0, *range(2, rank), 1]})'
    lines = [f'data      {", ".join(inputs + [target])} = safetensors("data.safetensors")', f'loss      {call}({scores}, {target}{extra})',
             f'optimizer {name}({given})']
    names = {id(p): n for n, p in module.named_parameters()}
    all_names = list(names.values())
    frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
    trained = {id(p) for g in optimizer.param_groups for p in g['params']}
    frozen += [n for n, p in module.named_parameters() if p.requires_grad and id(p) not in trained]
    groups = [(frozen, 'frozen=true')] if frozen else []
    for g in optimizer.param_groups[1:]:
        other = settings(optimizer, g)
        groups.append(([names[id(p)] for p in g['params'] if id(p) in names], ', '.join(f'{k}={number(v)}' for k, v in other.items() if v != first[k])))
    for members, what in groups:
        if members and what:
            lines.append('group     ' + ', '.join(f'"{p}"' for p in patterns(members, all_names)) + f', {what}')
    return 'train {\n' + ''.join(f'    {line}\n' for line in lines) + '}\n'
