#!/usr/bin/env python3
"""Makes test/models/goldens/*.json with PyTorch in f64: loss, outputs, gradients of one step and parameters after three.

usage: make_goldens.py [NAME...]
Needs PyTorch (Debian: python3-torch); nothing in `make demo` or `make check` does.
Parameters are matched to those of the compiled .nn file by their order, which is the order of first use on both sides.
Prints how far PyTorch's own f32 is from its f64 by the test's measure, and how far f64 is from itself when parameters are moved by rounding errors of f32 before every
step. Where that is near the test's bound no program can be asked to keep the bound (an activation next to the kink of a ReLU, say, which falls on the other side):
other values are tried until the case is well conditioned.
"""
import copy
import json
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_architectures as architectures
import golden_format as gf
import golden_gradients as gradients
import golden_losses as losses
import golden_models as models
import golden_phases as phases

torch.set_default_dtype(torch.float64)
STEPS = 3
SEEDS = 40
WELL_CONDITIONED = 8e-6   # less than the test allows, for other programs round otherwise
MOVED, ROUNDING = 8, 2 ** -24   # runs with parameters moved, and by which part of themselves: a rounding of f32


class Recurrent(nn.Module):
    """A recurrent layer whose state goes on to the next batch, without a gradient."""

    def __init__(self, kind, states, vocabulary=31, n=3, d=6, h=8):
        super().__init__()
        self.embedding, self.rnn, self.out = nn.Embedding(vocabulary, d), kind(d, h, batch_first=True), nn.Linear(h, vocabulary)
        for state in states:
            self.register_buffer(state, torch.zeros(n, h))
        self.states = states

    def forward(self, tokens):
        before = tuple(getattr(self, s).clone()[None] for s in self.states)
        y, after = self.rnn(self.embedding(tokens), before if len(before) > 1 else before[0])
        with torch.no_grad():
            for s, value in zip(self.states, after if len(before) > 1 else (after,)):
                getattr(self, s).copy_(value[0])
        return self.out(y)


def is_scale(name, shape):
    return len(shape) == 1 and 'weight' in name     # of a normalisation: around one


def values_of(name, inputs):
    data = {}
    for key, (kind, shape, below) in inputs.items():
        values = torch.tensor(gf.values(f'{name}.{key}', kind, shape, below)).reshape(shape)
        data[key] = values.double() if kind in ('f', 'image') or (kind, below) == ('U8', 256) else values
    return data


def set_parameters(name, parameters, gentle):
    """gentle: (end of the name of what scales a residual branch, its scale, bias of norms) for networks so deep that an error of rounding grows a thousandfold
    on its way: branches weigh less than what they are added to, and more of the normalised values pass the ReLU."""
    said, (last, weight, bias) = [], gentle
    scales = {path[:-len('weight')] for path, p in parameters if is_scale(path, p.shape)}
    for i, (path, p) in enumerate(parameters):
        scale = 1.0 / max(1, p[0].numel()) ** 0.5 if p.dim() > 1 else 0.1
        shift = 1.0 if is_scale(path, p.shape) else bias if path[:-len('bias')] in scales else 0.0
        if last and path.endswith((last, last[:-len('weight')] + 'bias')):
            scale, shift = weight * scale, weight * shift if 'weight' in path else 0.0
        p.data = torch.tensor(gf.tensor(f'{name}.p{i}', p.numel(), scale, shift)).reshape(p.shape)
        said.append({'torch': path, 'shape': list(p.shape), 'scale': scale, 'shift': shift})
    return said


def flat(t):
    return t.detach().double().flatten().tolist()


def train(model, data, optimizer_of, clip, schedule, loss_of, ema, moved=0):
    """Three steps; {kind: [(name, values)]} as check_golden.py compares them. moved: seed by which parameters are moved before each step; 0: they are not."""
    random = torch.Generator().manual_seed(moved)

    def perturb(parameters):
        for _, p in parameters if moved else ():
            p.data *= 1 + ROUNDING * torch.randn(p.shape, generator=random)

    if hasattr(model, 'phases'):
        return phases.train(model, data, optimizer_of, STEPS, perturb)
    parameters, buffers = list(model.named_parameters()), [(n, b) for n, b in model.named_buffers() if 'num_batches' not in n]
    taken = model.forward.__code__.co_argcount - 1
    optimizer = optimizer_of(parameters)
    rates = [g['lr'] for g in optimizer.param_groups]
    averages = [p.detach().clone() for _, p in parameters]
    results = {}
    for step in range(STEPS):
        for g, rate in zip(optimizer.param_groups, rates):
            g['lr'] = rate * (schedule(step) if schedule else 1)
        perturb(parameters)
        optimizer.zero_grad()
        outputs = model(*list(data.values())[:taken])
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        scores = loss_of(outputs, data)
        sum(scores.values()).backward()
        said = [(k, [v.item()]) for k, v in scores.items()]
        if step == 0:
            results['losses'], results['outputs'] = said, [(f'output {i}', flat(y)) for i, y in enumerate(outputs)]
            results['gradients'] = [(n, flat(p.grad)) for n, p in parameters]
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        for average, (_, p) in zip(averages, parameters):
            average.lerp_(p.detach(), 1 - ema)
        if isinstance(model, losses.Teaching):
            model.after_step()
    results['final_losses'] = said
    results['final'] = [(n, flat(p)) for n, p in parameters]
    results['averages'] = [(n, flat(a)) for (n, _), a in zip(parameters, averages)] if ema != 1 else []
    if isinstance(model, losses.Teaching):
        results['averages'] = [(n, flat(a)) for n, a in model.averages_of()]
    results['state'] = [(n, flat(b)) for n, b in buffers]
    return results


def condition(results, singles):
    """[(largest difference, kind, name of tensor)] of one run from PyTorch in f64."""
    said = []
    for kind, tensors in results.items():
        largest = max(max(map(abs, v)) for _, v in tensors) if kind == 'gradients' else 0
        found = [(gf.difference(v, gf.digest(want)), kind, n) for (n, want), (_, v) in zip(tensors, singles[kind]) if max(map(abs, want)) > gf.VANISHING * largest]
        said += [max(found)] if found else []
    return said


def make(name, program, options, model, inputs, optimizer_of, clip=None, schedule=None, loss_of=None, ema=1, gentle=(None, 1, 0), first=0):
    """program, options: what is compiled; inputs: {name: (kind, shape, integers below, or 0)}, those that the model takes first;
    loss_of: (outputs, data) to {name of loss: value}; schedule: (optimizer, step) sets the rates; first: the seed to begin with, where kernels of
    some processor are further than PyTorch's own f32 with those before."""
    if only and name not in only:
        return
    loss_of = loss_of or (lambda y, data: {'loss': F.cross_entropy(y[0].reshape(-1, y[0].shape[-1]), data['label' if 'label' in data else list(data)[1]].flatten().long())})
    untouched = model
    for seed in range(first, first + SEEDS):
        model, hashed = copy.deepcopy(untouched), f'{name}{seed or ""}'
        data = values_of(hashed, inputs)
        parameters = set_parameters(hashed, list(model.named_parameters()), gentle)
        how = optimizer_of, clip, schedule, loss_of, ema
        runs = [(copy.deepcopy(model).float(), {k: v.float() if v.is_floating_point() else v for k, v in data.items()}, 0)]
        runs += [(copy.deepcopy(model), data, i + 1) for i in range(MOVED)]
        results = train(model, data, *how)
        said = []
        for other, batch, moved in runs:
            said.append(condition(results, train(other, batch, *how, moved)))
            if max(said[-1])[0] >= WELL_CONDITIONED:
                break
        if len(said) == len(runs) and max(said[-1])[0] < WELL_CONDITIONED:
            break
    golden = {'program': program, 'options': options, 'steps': STEPS, 'hashed': hashed,
              'inputs': {k: {'kind': v[0], 'shape': list(v[1]), 'below': v[2]} for k, v in inputs.items()}, 'parameters': parameters}
    for kind, tensors in results.items():
        golden[kind] = {k: v[0] for k, v in tensors} if 'losses' in kind else [gf.digest(v) for _, v in tensors]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'models', 'goldens', name + '.json')
    with open(path, 'w') as f:
        f.write(json.dumps(golden, separators=(',', ':')) + '\n')
    print(f'{hashed}: {golden["losses"]} -> {golden["final_losses"]}, {sum(p.numel() for p in model.parameters())} parameters, {os.path.getsize(path)} bytes')
    for d, kind, n in said[0]:
        print(f'  in f32 {kind}: {d:.1e} ({n})', flush=True)
    d, kind, n = max(max(one) for one in said)
    print(f'  moved {kind}: {d:.1e} ({n})', flush=True)
    if d >= WELL_CONDITIONED:
        sys.exit(f'{name}: badly conditioned with all seeds')


def no_decay(matches, optimizer, decay, **options):
    """Two groups: parameters whose path or shape matches are not decayed."""
    def of(parameters):
        free = [p for n, p in parameters if matches(n, p)]
        rest = [p for n, p in parameters if not matches(n, p)]
        return optimizer([{'params': rest, 'weight_decay': decay}, {'params': free, 'weight_decay': 0}], **options)
    return of


def all_of(optimizer, **options):
    return lambda parameters: optimizer([p for _, p in parameters], **options)


def bert_losses(y, data):
    each = F.cross_entropy(y[0].flatten(0, 1), data['label'].flatten(), reduction='none').view(data['label'].shape)
    return {'masked_words': (each * data['weight']).sum() / data['weight'].sum(), 'next_sentence': F.cross_entropy(y[1], data['next'])}


def images(n, size, classes):
    return {'image': ('image', (n, 3, size, size), 0), 'label': ('I32', (n,), classes)}


def warmup(steps):
    return lambda step: (step + 1) / (steps + 1)


def cosine(step):
    return 0.5 * (1 + math.cos(math.pi * step / STEPS))


def weighted(y, data):
    each = F.cross_entropy(y[0], data['label'].long(), reduction='none')
    return {'loss': (each * data['mask']).sum() / data['mask'].sum()}


def sizes(**values):
    return [word for name, value in values.items() for word in ('-D', f'{name}={value}')]


def main():
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    biases = lambda n, p: n.endswith('bias')
    vectors = lambda n, p: p.dim() == 1
    for name, kind, states in ('lstm', nn.LSTM, ['h0', 'c0']), ('gru', nn.GRU, ['h0']):
        make(name, f'test/models/{name}.nn', [], Recurrent(kind, states), {'tokens': ('I32', (3, 7), 31), 'label': ('I32', (3, 7), 31)}, all_of(adam, lr=1e-2), clip=0.5)

    def zoo(name, options, *rest, program=None, **more):
        make(name, f'models/{program or name}.nn', sizes(**options), *rest, **more)

    zoo('mlp', dict(N=9, hidden=16, p=0), models.Mlp(16), {'image': ('U8', (9, 28, 28), 256), 'label': ('U8', (9,), 10)},
        all_of(adamw, lr=1e-3, weight_decay=0.01), schedule=warmup(100))
    zoo('lenet', dict(N=5), models.Lenet(), {'image': ('U8', (5, 1, 28, 28), 256), 'label': ('U8', (5,), 10)}, all_of(adamw, lr=4e-3, weight_decay=0.01), schedule=warmup(100))
    zoo('vgg16', dict(N=4, size=32, classes=10, width=4, hidden=16, p=0), models.Vgg16(4, 16, 10, 32), images(4, 32, 10), all_of(sgd, lr=0.01, momentum=0.9, weight_decay=5e-4))
    zoo('resnet18', dict(N=5, width=4), models.ResnetSmall(4, (2, 2, 2, 2), 10), images(5, 32, 10), all_of(sgd, lr=0.1, momentum=0.9, weight_decay=5e-4), schedule=warmup(100))
    zoo('resnet_cifar', dict(N=5, size=16, width=4), models.ResnetSmall(4, (3, 3, 3), 10), images(5, 16, 10),
        all_of(sgd, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4), schedule=warmup(400))
    for name, depths, options, first in ('resnet50', (3, 4, 6, 3), {}, 2), ('resnet152', (3, 8, 36, 3), dict(d2=8, d3=36), 9):
        zoo(name, dict(N=8, size=64, classes=10, width=4, **options), models.Resnet(4, depths, 10), images(8, 64, 10), no_decay(biases, sgd, 1e-4, lr=0.1, momentum=0.9),
            schedule=warmup(500), program='resnet50', gentle=('.c.1.weight', 0.2, 0.5), first=first)
    zoo('resnet_deep', dict(N=4, size=64, classes=10, width=4, d2=4, d3=5), models.Resnet(4, (3, 4, 5, 3), 10, pre=True), images(4, 64, 10),
        all_of(sgd, lr=0.1, momentum=0.9, weight_decay=1e-4), schedule=warmup(500), gentle=('.c.weight', 0.2, 0.5), first=8)
    zoo('mobilenetv2', dict(N=4, size=64, classes=10, width=4, p=0), models.Mobilenetv2(4, 10), images(4, 64, 10), all_of(sgd, lr=0.045, momentum=0.9, weight_decay=4e-5),
        schedule=cosine, gentle=('layers.4.1.weight', 0.3, 2))
    zoo('densenet121', dict(N=4, size=64, classes=10, growth=4), models.Densenet121(4, 10), images(4, 64, 10), all_of(sgd, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4),
        schedule=cosine, gentle=(None, 1, 1))
    zoo('inception', dict(N=8, size=16, width=8), models.Inception(8, 10), images(8, 16, 10), all_of(sgd, lr=0.1, momentum=0.9, weight_decay=5e-4), schedule=cosine, first=5,
        loss_of=lambda y, data: {'main': F.cross_entropy(y[0], data['label']), 'auxiliary': 0.3 * F.cross_entropy(y[1], data['label'])})
    zoo('unet', dict(N=2, size=32, width=2, classes=3), models.Unet(2, 3), {'image': ('image', (2, 3, 32, 32), 0), 'mask': ('I32', (2, 32, 32), 3)}, all_of(adam, lr=1e-4))
    zoo('diffusion_unet', dict(N=3, size=8, width=16, steps=40), models.DiffusionUnet(1, 16, 40), {'image': ('f', (3, 1, 8, 8), 0), 'noise': ('f', (3, 1, 8, 8), 0), 't': ('I32', (3,), 40)},
        all_of(adam, lr=2e-4), clip=1.0, ema=0.999, loss_of=lambda y, data: {'loss': F.mse_loss(y[0], data['noise'])})
    zoo('vit_b16', dict(N=3, size=12, patch=4, width=16, layers=2, heads=4, classes=5), models.Vit(12, 4, 16, 2, 4, 5), images(3, 12, 5),
        no_decay(lambda n, p: 'bias' in n or 'ln' in n, adamw, 0.3, lr=1e-3), clip=1.0, ema=0.9999, schedule=warmup(1000),
        loss_of=lambda y, data: {'loss': F.cross_entropy(y[0], data['label'], label_smoothing=0.1)})
    tokens = lambda n, t, vocabulary: {'tokens': ('I32', (n, t), vocabulary), 'target': ('I32', (n, t), vocabulary)}
    zoo('gpt_small', dict(B=2, T=9, width=16, layers=2, heads=4, p=0, eps=1e-4), models.Gpt(256, 9, 16, 2, 4, gelu='none'), tokens(2, 9, 256),
        no_decay(vectors, adamw, 0.1, lr=1e-3, betas=(0.9, 0.99), eps=1e-4), clip=1.0, schedule=warmup(100))
    zoo('gpt2', dict(B=2, T=12, width=16, layers=2, heads=4, vocabulary=50, context=16), models.Gpt(50, 16, 16, 2, 4), tokens(2, 12, 50),
        no_decay(vectors, adamw, 0.1, lr=6e-4, betas=(0.9, 0.95)), clip=1.0, schedule=warmup(700))
    zoo('llama', dict(B=2, T=9, width=16, layers=2, heads=4, groups=2, inner=24, vocabulary=40), models.Llama(40, 16, 2, 4, 2, 24), tokens(2, 9, 40),
        all_of(adamw, lr=4e-4, betas=(0.9, 0.95), weight_decay=0.1), clip=1.0, schedule=warmup(100))
    zoo('bert_base', dict(N=4, T=12, width=16, layers=2, heads=4, vocabulary=40, M=3, p=0), models.Bert(40, 12, 16, 2, 4),
        {'tokens': ('I32', (4, 12), 40), 'segments': ('I32', (4, 12), 2), 'valid': ('f', (4, 12), 2), 'positions': ('I32', (4, 3), 12),
         'label': ('I32', (4, 3), 40), 'weight': ('f', (4, 3), 2), 'next': ('I32', (4,), 2)},
        no_decay(vectors, adamw, 0.01, lr=1e-4), clip=1.0, schedule=warmup(10000), loss_of=bert_losses)
    for kind in 'lstm', 'gru':
        zoo(kind + '_lm', dict(N=3, T=7, vocabulary=31, width=12), models.RecurrentModel(kind, 3, 31, 12), tokens(3, 7, 31), all_of(adam, lr=2e-3), clip=1.0, schedule=warmup(50))
    graph = {'x': ('f', (11, 7), 2), 'source': ('I32', (29,), 11), 'target': ('I32', (29,), 11), 'label': ('I32', (11,), 3), 'mask': ('f', (11,), 2)}
    sizes_of_graph = dict(nodes=11, edges=29, words=7, hidden=6, classes=3, p=0)
    zoo('gcn', sizes_of_graph, models.Gcn(7, 6, 3), graph, lambda parameters: adam([{'params': [parameters[0][1]], 'weight_decay': 5e-4}, {'params': [parameters[1][1]]}], lr=0.01),
        loss_of=weighted)
    zoo('graphsage', sizes_of_graph, models.GraphSage(7, 6, 3), graph, all_of(adam, lr=0.01, weight_decay=5e-4), loss_of=weighted)
    zoo('two_inputs', dict(N=4), models.TwoInputs(5),
        {'image': ('f', (4, 1, 16, 16), 0), 'text': ('I32', (4, 12), 128), 'label': ('I32', (4,), 5), 'rating': ('f', (4, 1), 0)}, all_of(adam, lr=1e-3),
        loss_of=lambda y, data: {'class': F.cross_entropy(y[0], data['label']), 'rating': 0.5 * F.mse_loss(y[1], data['rating'])})
    zoo('convnext', dict(N=3, size=32, classes=10, width=4, d1=1, d2=2, d3=2, d4=1, p=0), models.ConvNext(4, (1, 2, 2, 1), 10), images(3, 32, 10),
        no_decay(vectors, adamw, 0.05, lr=1e-3), ema=0.9999, schedule=warmup(1000), loss_of=lambda y, data: {'loss': F.cross_entropy(y[0], data['label'], label_smoothing=0.1)})
    zoo('neural_ode', dict(N=4, width=4, groups=2, steps=3), models.NeuralOde(4, 2, 3), {'image': ('U8', (4, 1, 28, 28), 256), 'label': ('U8', (4,), 10)},
        all_of(sgd, lr=0.1, momentum=0.9), schedule=warmup(100))
    zoo('pointnet', dict(N=6, points=9, classes=5, width=3, p=0, eps=1e-3), architectures.PointNet(3, 5), {'shape': ('f', (6, 9, 3), 0), 'label': ('I32', (6,), 5)}, all_of(adam, lr=1e-3, eps=1e-3),
        schedule=lambda step: 0.99998 ** step, loss_of=architectures.pointnet_losses, gentle=(None, 1, 1), first=344)
    zoo('moe', dict(B=2, T=8, width=8, layers=2, heads=2, inner=6, experts=4, chosen=2, capacity_percent=80, vocabulary=24),
        architectures.MixtureOfExperts(24, 8, 2, 2, 6, 4, 2, 80), tokens(2, 8, 24), all_of(adamw, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1), clip=1.0, schedule=warmup(100),
        loss_of=lambda y, data: {'text': F.cross_entropy(y[0].flatten(0, 1), data['target'].flatten().long()), 'balanced': 0.01 * y[1]})
    zoo('ctc', dict(N=3, bands=12, T=18, L=4, letters=6, channels=2, width=5, layers=2), architectures.Speech(12, 6, 2, 5, 2),
        {'spectrogram': ('f', (3, 1, 12, 18), 0), 'frames': ('I32', (3,), 19), 'text': ('I32', (3, 4), 5), 'length': ('I32', (3,), 4)}, all_of(adam, lr=3e-4), clip=10,
        loss_of=architectures.speech_losses)
    zoo('mamba', dict(B=2, T=9, width=6, layers=2, states=4, vocabulary=30), architectures.Mamba(30, 6, 2, 4), tokens(2, 9, 30),
        no_decay(lambda n, p: 'norm' in n or 'ssm' in n or n.endswith('bias'), adamw, 0.1, lr=6e-4, betas=(0.9, 0.95)), clip=1.0, schedule=warmup(700))
    zoo('swin', dict(N=2, size=64, classes=5, width=4, window=2, head=2, d1=2, d2=1, d3=1, d4=1, p=0), architectures.Swin(4, 2, 2, (2, 1, 1, 1), 5), images(2, 64, 5),
        no_decay(lambda n, p: p.dim() == 1 or 'table' in n, adamw, 0.05, lr=1e-3), clip=5.0, schedule=warmup(1000),
        loss_of=lambda y, data: {'loss': F.cross_entropy(y[0], data['label'], label_smoothing=0.1)})
    zoo('t5', dict(B=2, S=9, T=7, width=8, layers=2, heads=2, inner=12, vocabulary=30, buckets=8, furthest=6, p=0), architectures.T5(30, 8, 2, 2, 12, 8, 6),
        {'source': ('I32', (2, 9), 30), 'before': ('I32', (2, 7), 30), 'target': ('I32', (2, 7), 30)}, all_of(torch.optim.Adafactor, lr=0.01, eps=(2 ** -23, 1e-3)),
        loss_of=lambda y, data: {'loss': F.cross_entropy(y[0].flatten(0, 1), data['target'].flatten().long())})
    zoo('fno', dict(N=3, points=72, width=4, modes=3, layers=2), architectures.FourierOperator(4, 3, 2), {'a': ('f', (3, 72), 0), 'u': ('f', (3, 72), 0)},
        all_of(adam, lr=1e-3, weight_decay=1e-4), loss_of=lambda y, data: {'loss': ((y[0] - data['u']).norm(dim=1) / data['u'].norm(dim=1)).mean()})
    stages = (1, 3, 1, 2, 1), (6, 3, 2, 3, 2), (6, 5, 2, 5, 2), (6, 3, 2, 10, 3), (6, 5, 1, 14, 3), (6, 5, 2, 24, 4), (6, 3, 1, 40, 1)
    zoo('efficientnet', dict(N=16, size=64, classes=5, smallest=1, wide=0.125, p=0, p_path=0), architectures.EfficientNet(4, stages, 160, 5), images(16, 64, 5),
        all_of(torch.optim.RMSprop, lr=0.016, alpha=0.9, momentum=0.9, eps=1e-3, weight_decay=1e-5), ema=0.9999, gentle=('project.1.weight', 0.3, 1), schedule=warmup(1000),
        loss_of=lambda y, data: {'loss': F.cross_entropy(y[0], data['label'], label_smoothing=0.1)})
    zoo('unet3d', dict(N=1, depth=16, size=16, classes=2, width=1), architectures.Unet3d(1, 2),
        {'volume': ('f', (1, 1, 16, 16, 16), 0), 'label': ('I32', (1, 16, 16, 16), 2), 'weight': ('f', (1, 16, 16, 16), 2)}, all_of(sgd, lr=0.01, momentum=0.99),
        loss_of=lambda y, data: {'loss': (F.cross_entropy(y[0], data['label'].long(), reduction='none') * data['weight']).sum() / data['weight'].sum()})
    zoo('dlrm', dict(N=6, numbers=4, fields=5, buckets=7, width=4, hidden=16), architectures.Dlrm(4, 5, 7, 4, 16),
        {'number': ('f', (6, 4), 0), 'category': ('I32', (6, 5), 7), 'label': ('f', (6, 1), 2)}, all_of(sgd, lr=0.1),
        loss_of=lambda y, data: {'loss': F.binary_cross_entropy_with_logits(y[0], data['label'])})
    carried = lambda y, data: y[0].losses
    make('pinn_heat', 'test/models/pinn_heat.nn', sizes(N=7, width=6), gradients.HeatEquation(6), {'x': ('f', (7, 1), 0), 't': ('f', (7, 1), 0)}, all_of(adam, lr=5e-3),
         loss_of=carried)
    image = ('f', (4, 1, 8, 8), 0)
    make('critic', 'test/models/critic.nn', [], gradients.Critic(), {'real': image, 'made': image, 'mix': ('f', (4, 1, 1, 1), 0)},
         all_of(adam, lr=1e-3, betas=(0.5, 0.9)), loss_of=carried)
    points = ('f', (60, 1), 0)
    make('maml_sine', 'test/models/maml_sine.nn', sizes(shots=60), gradients.Maml(), {name: points for name in ('x', 'y', 'query', 'target')}, all_of(adam, lr=1e-3), loss_of=carried)
    views = lambda *shape: {name: ('f', shape, 0) for name in 'xy'}
    make('teacher', 'test/models/teacher.nn', [], losses.Teacher(), views(6, 5), all_of(adam, lr=0.05), loss_of=carried)
    make('vae', 'test/models/vae.nn', sizes(N=5, pixels=12, hidden=8, latent=3), losses.Vae(12, 8, 3), {'x': ('f', (5, 12), 2), 'noise': ('f', (5, 3), 0)}, all_of(adam, lr=1e-3),
         loss_of=carried)
    views = {name: ('f', (16, 3, 8, 8), 0) for name in 'vw'}
    make('byol', 'test/models/byol.nn', sizes(N=16, size=8, width=4, hidden=16, projection=8), losses.Byol(4, 16, 8), views, all_of(sgd, lr=0.05, momentum=0.9, weight_decay=5e-4), loss_of=carried)
    zoo('clip', dict(N=4, size=8, patch=4, T=6, vocabulary=20, embed=6, image_width=8, image_layers=2, image_heads=2, text_width=8, text_layers=2, text_heads=2),
        losses.Clip(8, 4, 6, 20, 6, 8, 2, 2), {'image': ('f', (4, 3, 8, 8), 0), 'text': ('I32', (4, 6), 20)},
        no_decay(lambda n, p: n.endswith('bias') or 'ln_' in n or n == 'logit_scale', adamw, 0.2, lr=5e-4, betas=(0.9, 0.98), eps=1e-6), schedule=warmup(2000), loss_of=carried)
    make('vq_vae', 'test/models/vq_vae.nn', sizes(N=24, size=8, hidden=16, K=6, D=4), losses.VqVae(16, 6, 4), {'x': ('f', (24, 3, 8, 8), 0)}, all_of(adam, lr=2e-4), loss_of=carried)
    noise = ('f', (3, 1, 8, 8), 0)
    make('ddpm', 'test/models/ddpm.nn', sizes(N=3, size=8, width=16, steps=40), models.DiffusionUnet(1, 16, 40, linear=True), {'x': noise, 'noise': noise, 't': ('I32', (3,), 40)},
         all_of(adam, lr=2e-4), clip=1.0, ema=0.999, loss_of=lambda y, data: {'loss': F.mse_loss(y[0], data['noise'])})
    transition = {'state': ('f', (6, 4), 0), 'action': ('I32', (6, 1), 2), 'reward': ('f', (6, 1), 0), 'next': ('f', (6, 4), 0), 'ended': ('f', (6, 1), 2)}
    zoo('dqn', dict(N=6, hidden=8, copied=2), losses.Dqn(4, 8, 2, 2), transition, all_of(adam, lr=1e-3), clip=10.0, loss_of=carried)
    pixels = ('U8', (4, 1, 28, 28), 256)
    make('dcgan', 'test/models/dcgan.nn', sizes(N=4, Z=6, width=4), phases.Dcgan(6, 4), {'z': ('f', (4, 6), 0), 'image': pixels}, all_of(adam, lr=2e-4, betas=(0.5, 0.999)))
    make('wgan_gp', 'test/models/wgan_gp.nn', sizes(N=4, Z=6, width=4, critics=1), phases.WganGp(6, 4), {'z': ('f', (4, 6), 0), 'image': pixels, 'mix': ('f', (4, 1, 1, 1), 0)},
         all_of(adam, lr=1e-4, betas=(0.0, 0.9)))
    words = ('f', (3, 6, 8), 0)
    make('curvature', 'test/models/curvature.nn', [], gradients.Curvature(), {'words': words, 'direction': words, 'label': ('I32', (3,), 5)}, all_of(sgd, lr=0.1),
         loss_of=carried)


if __name__ == '__main__':
    only = sys.argv[1:]
    main()
