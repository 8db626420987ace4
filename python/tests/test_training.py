"""from_torch with a loss and an optimizer: the whole way to weights that load_state_dict takes."""
import functools
import os
import subprocess

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nnc
from check import step
from nnc.importer import from_torch
from nnc.safetensors import load, save
from nnc.training import NotInLanguage


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, image):
        return self.head(self.body(image).flatten(1))


def test_there_and_back(tmp_path):
    """100 steps in nnc, then load_state_dict: the next loss is the one of 100 steps in PyTorch."""
    module, folder = Small().double(), str(tmp_path)
    x, label = torch.randn(8, 1, 6, 6).double(), torch.randint(0, 3, (8,))
    make = lambda m: torch.optim.AdamW([{'params': m.body.parameters()}, {'params': m.head.parameters(), 'lr': 1e-2, 'weight_decay': 0.0}], lr=1e-3)
    from_torch(module, x, os.path.join(folder, 'small.nn'), loss=F.cross_entropy, optimizer=make(module))
    assert 'group     "head.*", lr=0.01, weight_decay=0' in open(os.path.join(folder, 'small.nn')).read()
    save(os.path.join(folder, 'data.safetensors'), {'image': x, 'label': label})
    run = lambda *c: subprocess.run(c, cwd=folder, check=True, capture_output=True, text=True)
    run(os.environ.get('NNC', 'nnc'), 'small.nn', '-o', 'small', '--dtype=f64')
    run('./small', 'train', '--weights=small.safetensors', '--save=trained.safetensors', '--steps=100', '--data=.')
    run('./small', 'export', 'back.safetensors', '--weights=trained.safetensors')
    optimizer = make(module)
    for _ in range(100):
        step(module, optimizer, x, label)
    back = Small().double()
    back.load_state_dict(load(os.path.join(folder, 'back.safetensors')))
    want, got = step(module, optimizer, x, label), step(back, make(back), x, label)
    assert abs(want - got) <= 1e-9 * abs(want)


def test_frozen_layers(tmp_path):
    module = Small()
    module.body.requires_grad_(False)
    with pytest.raises(TypeError, match='kwargs='):
        from_torch(module, {'image': torch.randn(2, 1, 6, 6)}, tmp_path / 'm.nn')
    from_torch(module, torch.randn(2, 1, 6, 6), tmp_path / 'm.nn', loss=nn.CrossEntropyLoss(label_smoothing=0.1))
    text = (tmp_path / 'm.nn').read_text()
    assert 'group     "body.*", frozen=true' in text and 'smoothing=0.1' in text


class Pair(nn.Module):
    """As many outputs as the loss reads."""

    def __init__(self, outputs, positive=False):
        super().__init__()
        self.parts, self.positive = nn.ModuleList(nn.Linear(6, 4) for _ in range(outputs)), positive

    def forward(self, x):
        y = [part(x) for part in self.parts]
        if self.positive:
            y[-1] = F.softplus(y[-1])
        return tuple(y) if len(y) > 1 else y[0]


def trains_alike(folder, module, loss, targets, optimizer, scheduler=None, steps=5, example=None):
    """Losses of the program's steps are those of PyTorch's; returns the train section."""
    x = torch.randn(8, 6).double()
    from_torch(module, x, str(folder / 'm.nn'), loss=loss, optimizer=optimizer, scheduler=scheduler, targets=example)
    text = (folder / 'm.nn').read_text().split('train {')[1]
    net = nnc.compile(folder / 'm.nn', compiler=os.environ.get('NNC', 'nnc'), dtype='f64', options={'weights': folder / 'm.safetensors'})
    names = [n for n, t in net.tensors.items() if t.role == 'input']
    given = dict(zip(names, [x] + [t for t in targets if isinstance(t, torch.Tensor)]))
    for _ in range(steps):
        optimizer.zero_grad()
        y = module(x)
        want = loss(*(t if isinstance(t, torch.Tensor) else (y if isinstance(y, tuple) else (y,))[t] for t in targets))
        want.backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
        have = net.step(given)['loss']
        assert abs(have - want.item()) <= 1e-9 * abs(want.item())
    return text


LABEL, REAL, POSITIVE, SIGN, PART = torch.tensor([0, 1, 2, 3, 3, 2, 1, 0]), torch.randn(8, 4).double(), torch.rand(8, 4).double(), torch.tensor([1.0, -1] * 4).double(), torch.rand(8, 4).double()
LOSSES = {      # what it is called with: the number of an output, or what the data has
    'cross_entropy': (F.cross_entropy, 0, LABEL),
    'smoothing=0.1, class_weights=tensor([1.0, 2.0, 0.5, 3.0]), ignore_index=2': (nn.CrossEntropyLoss(weight=torch.tensor([1, 2, 0.5, 3]).double(), label_smoothing=0.1, ignore_index=2), 0, LABEL),
    'reduction="sum"': (functools.partial(F.cross_entropy, reduction='sum'), 0, LABEL),
    'mse': (nn.MSELoss(), 0, REAL),
    'l1': (F.l1_loss, 0, REAL),
    'huber': (nn.HuberLoss(delta=0.5), 0, REAL),
    'smooth_l1': (functools.partial(F.smooth_l1_loss, beta=0.3), 0, REAL),
    'pos_weight=tensor([1.0, 2.0, 3.0, 4.0])': (nn.BCEWithLogitsLoss(pos_weight=torch.arange(1.0, 5).double()), 0, PART),
    'pos_weight=2': (nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0).double()), 0, PART),
    'reduction="batchmean"': (nn.KLDivLoss(reduction='batchmean'), 0, PART),
    'log_target=true': (nn.KLDivLoss(log_target=True), 0, REAL),
    'poisson_nll': (nn.PoissonNLLLoss(full=True), 0, 3 * PART),
    'hinge_embedding': (nn.HingeEmbeddingLoss(margin=0.5), 0, SIGN.reshape(8, 1).expand(8, 4).contiguous()),
    'gaussian_nll(mean, target, variance': (nn.GaussianNLLLoss(full=True), 0, REAL, 1),
    'margin_ranking(first, second, target': (nn.MarginRankingLoss(margin=0.2), 0, 1, SIGN.reshape(8, 1).expand(8, 4).contiguous()),
    'cosine_embedding(first, second, target': (nn.CosineEmbeddingLoss(), 0, 1, SIGN),
    'triplet_margin(anchor, positive, negative': (nn.TripletMarginLoss(swap=True), 0, 1, 2),
}


@pytest.mark.parametrize('text', LOSSES)
def test_losses(tmp_path, text):
    loss, *targets = LOSSES[text]
    module = Pair(max(t for t in targets if isinstance(t, int)) + 1, positive='gaussian' in text).double()
    assert text in trains_alike(tmp_path, module, loss, targets, torch.optim.SGD(module.parameters(), lr=0.01))


class Named(nn.Linear):
    def forward(self, target):
        return super().forward(target)


def test_an_input_with_the_name_of_what_the_data_has(tmp_path):
    module = Named(6, 4).double()
    sgd = torch.optim.SGD(module.parameters(), lr=0.01)
    assert 'data      target, target_true = ' in trains_alike(tmp_path, module, F.mse_loss, (0, REAL), sgd)
    text = trains_alike(tmp_path, module, smooth, (0, REAL), sgd, example=REAL)
    assert 'loss      smooth(named(target), target_true)' in text and 'target_true=f32[N, 4]' in text


def test_negative_log_likelihood(tmp_path):
    module = nn.Sequential(nn.Linear(6, 4), nn.LogSoftmax(-1)).double()
    loss = nn.NLLLoss(weight=torch.tensor([1, 2, 0.5, 3]).double())
    assert 'nll_loss(' in trains_alike(tmp_path, module, loss, (0, LABEL), torch.optim.SGD(module.parameters(), lr=0.01))


@pytest.mark.parametrize('loss', [F.cross_entropy, nn.CrossEntropyLoss(), functools.partial(F.cross_entropy, label_smoothing=0.1), nn.NLLLoss()])
def test_labels_that_do_not_count(tmp_path, loss):
    module = nn.Sequential(nn.Linear(6, 4), nn.LogSoftmax(-1)).double()
    label = torch.where(torch.arange(8) % 3 == 0, -100, LABEL)
    assert 'ignore_index=-100)' in trains_alike(tmp_path, module, loss, (0, label), torch.optim.SGD(module.parameters(), lr=0.01))


OPTIMIZERS = {
    'sgd(lr=0.1, momentum=0.9, nesterov=true, weight_decay=0.01)': lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    'adam(lr=0.01, beta1=0.8, amsgrad=true)': lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.999), amsgrad=True),
    'adamw(lr=0.01, amsgrad=true)': lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01, dtype=torch.float64), amsgrad=True),
    'rmsprop(lr=0.01, momentum=0.5, centered=true)': lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    'adagrad(lr=0.01, lr_decay=0.1, initial_accumulator_value=0.2)': lambda p: torch.optim.Adagrad(p, lr=0.01, lr_decay=0.1, initial_accumulator_value=0.2),
    'adadelta(lr=1.0, rho=0.8)': lambda p: torch.optim.Adadelta(p, rho=0.8),
    'adamax(lr=0.002, weight_decay=0.1)': lambda p: torch.optim.Adamax(p, weight_decay=0.1),
    'nadam(lr=0.002, weight_decay=0.1, decoupled_weight_decay=true)': lambda p: torch.optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True),
    'nadam(lr=0.002, beta1=0.7)': lambda p: torch.optim.NAdam(p, betas=[0.7, 0.999]),
    'radam(lr=0.001, beta2=0.9)': lambda p: torch.optim.RAdam(p, betas=(0.9, 0.9)),
    'adafactor(lr=0.01, d=2.0)': lambda p: torch.optim.Adafactor(p, d=2.0),
}


@pytest.mark.parametrize('text', OPTIMIZERS)
def test_optimizers(tmp_path, text):
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    assert text in trains_alike(tmp_path, module, F.mse_loss, (0, REAL), OPTIMIZERS[text](module.parameters()))


@pytest.mark.skipif(not hasattr(torch.optim, 'Muon'), reason='of a newer torch')
def test_muon(tmp_path):
    """In f32: PyTorch computes its products in bf16."""
    module = nn.Linear(6, 4, bias=False)
    optimizer = torch.optim.Muon(module.parameters(), lr=0.2, adjust_lr_fn='match_rms_adamw')
    from_torch(module, torch.randn(8, 6), str(tmp_path / 'm.nn'), loss=F.mse_loss, optimizer=optimizer)
    assert 'optimizer muon(lr=0.2, adjust_lr_fn="match_rms_adamw")' in (tmp_path / 'm.nn').read_text()
    net = nnc.compile(tmp_path / 'm.nn', compiler=os.environ.get('NNC', 'nnc'), options={'weights': tmp_path / 'm.safetensors'})
    x, target = torch.randn(8, 6), torch.randn(8, 4)
    first = F.mse_loss(module(x), target).item()
    for _ in range(10):
        optimizer.zero_grad()
        want = F.mse_loss(module(x), target)
        want.backward()
        optimizer.step()
        assert abs(net.step(input=x, target=target)['loss'] - want.item()) <= 1e-2 * want.item()
    assert want.item() < 0.9 * first


SCHEDULES = {
    'schedule  step(every=2, gamma=0.5)': lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
    'schedule  exponential(gamma=0.9)': lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    'schedule  polynomial(power=2)\n    steps     6': lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 6, 2),
    'schedule  cosine(min=0.001)\n    steps     6': lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6, eta_min=0.001),
    'schedule  cosine_restarts(T_0=2, T_mult=2)': lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    'schedule  cosine_restarts(T_0=2, min=0.01)': lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, eta_min=0.01),
    'schedule  one_cycle(pct_start=0.3, div_factor=25.0, final_div_factor=10000.0)\n    steps     6': lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=6, cycle_momentum=False),
    'schedule  one_cycle(pct_start=0.5, div_factor=4.0, final_div_factor=8.0)\n    steps     6': lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=6, pct_start=0.5, div_factor=4, final_div_factor=8, cycle_momentum=False),
}


@pytest.mark.parametrize('text', SCHEDULES)
def test_schedules(tmp_path, text):
    module = nn.Linear(6, 4).double()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    assert text in trains_alike(tmp_path, module, F.mse_loss, (0, REAL), optimizer, SCHEDULES[text](optimizer), steps=6)


def test_the_optimizer_of_a_scheduler(tmp_path):
    module = nn.Linear(6, 4).double()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    from_torch(module, torch.randn(8, 6).double(), tmp_path / 'm.nn', loss=F.mse_loss, scheduler=scheduler)
    text = (tmp_path / 'm.nn').read_text()
    assert 'optimizer sgd(lr=0.1, momentum=0.9)' in text and 'schedule  exponential(gamma=0.9)' in text
    with pytest.raises(NotInLanguage, match='another optimizer'):
        from_torch(module, torch.randn(8, 6).double(), tmp_path / 'm.nn', loss=F.mse_loss, scheduler=scheduler, optimizer=torch.optim.SGD(module.parameters(), lr=0.1))


def test_groups(tmp_path):
    module = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 4)).double()
    decays = [p for p in module.parameters() if p.ndim > 1]
    optimizer = torch.optim.AdamW([{'params': decays, 'weight_decay': 0.1}, {'params': [p for p in module.parameters() if p.ndim == 1], 'weight_decay': 0, 'lr': 0.02}], lr=0.01)
    text = trains_alike(tmp_path, module, F.mse_loss, (0, REAL), optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9))
    assert 'adamw(lr=0.01, weight_decay=0.1)' in text and '"0.bias", "1.*", "3.bias", lr=0.02, weight_decay=0' in text


def smooth(y, target):
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=y.dtype)
    return (weight * (y - target).abs().log1p()).mean() + 0.01 * y.square().sum() / len(y)


class Margin(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, first, second, label):
        return F.cross_entropy(first + second, label) + F.relu(self.margin - (first - second).norm(dim=1)).mean()


def test_statistics_stay(tmp_path):
    module = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    from_torch(module, torch.randn(8, 6), tmp_path / 'm.nn', loss=smooth, targets=torch.randn(8, 4))
    assert not module[1].running_mean.any() and not load(str(tmp_path / 'm.safetensors'))['1.running_mean'].any()


def test_losses_of_ones_own(tmp_path):
    module = Pair(1).double()
    sgd = torch.optim.SGD(module.parameters(), lr=0.01)
    text = trains_alike(tmp_path, module, smooth, (0, REAL), sgd, example=REAL)
    assert 'data      x, target = ' in text and 'loss      smooth(pair(x), target)' in text and 'block smooth(y, target) {' in (tmp_path / 'm.nn').read_text()
    assert 'loss      criterion(pair(x), t)' in trains_alike(tmp_path, module, lambda y, t: F.cross_entropy(y[:, None].transpose(1, 2), t[:, None]), (0, LABEL), sgd, example=LABEL)
    module = Pair(2).double()
    text = trains_alike(tmp_path, module, Margin(0.5), (0, 1, LABEL), torch.optim.SGD(module.parameters(), lr=0.01), example=LABEL)
    assert 'first, second = pair(x)' in text and 'loss      margin(first, second, label)' in text


class Weighed(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.register_buffer('weight', torch.tensor(weight).double())

    def forward(self, x):
        return (self.weight * x).square().mean()


class Ridge(Weighed):
    def forward(self, x):
        return (self.weight * x).abs().mean()


class Terms(nn.Module):
    def __init__(self):
        super().__init__()
        self.ridge, self.error = Ridge([0.5, 0.25, 2.0, 4.0]), Weighed([1.0, 2.0, 3.0, 5.0])

    def forward(self, y, target):
        return self.error(y - target) + self.ridge(y)


def test_a_loss_keeps_its_mode(tmp_path):
    loss = nn.Sequential(nn.Dropout(), Weighed([1.0, 2.0, 3.0, 5.0]).eval()).eval()
    loss.forward = lambda y, target: loss[1](loss[0](y - target))
    from_torch(Pair(1), torch.randn(8, 6), tmp_path / 'm.nn', loss=loss, targets=torch.randn(8, 4))
    assert not any(m.training for m in loss.modules()) and 'dropout' not in (tmp_path / 'm.nn').read_text()


class Rounds(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(13):
            self.register_buffer(f'{"scale" if i < 6 else "shift"}{i}', torch.rand(4))

    def forward(self, y, target):
        for i in range(13):
            y = torch.tanh(y * getattr(self, f'scale{i}') if i < 6 else y + getattr(self, f'shift{i}'))
        return (y - target).square().mean()


def test_constants_of_a_loop_in_a_loss(tmp_path):
    with pytest.raises(NotInLanguage, match='constants loss.* of a loop'):
        from_torch(Pair(1), torch.randn(8, 6), tmp_path / 'm.nn', loss=Rounds(), targets=torch.randn(8, 4))


def test_constants_of_a_loss_that_have_one_name(tmp_path):
    module = Pair(1).double()
    trains_alike(tmp_path, module, Terms(), (0, REAL), torch.optim.SGD(module.parameters(), lr=0.01), example=REAL)
    assert (tmp_path / 'm.nn').read_text().count('= tensor([') == 2


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.out = nn.Embedding(11, 6), nn.GRU(6, 6, batch_first=True), nn.Linear(6, 11)

    def forward(self, tokens):
        return self.out(self.rnn(self.words(tokens))[0])


def test_a_language_model(tmp_path):
    module, tokens, target = Words().double(), torch.randint(0, 11, (4, 7)), torch.randint(0, 11, (4, 7))
    loss, optimizer = lambda y, target: F.cross_entropy(y.flatten(0, 1), target.flatten()), torch.optim.SGD(module.parameters(), lr=0.1)
    from_torch(module, tokens, str(tmp_path / 'm.nn'), loss=loss, optimizer=optimizer, targets=target)
    text = (tmp_path / 'm.nn').read_text()
    assert 'target=i64[N, T]' in text and 'cross_entropy(reshape(target, [N*T]), ignore_index=-100)' in text
    net = nnc.compile(tmp_path / 'm.nn', compiler=os.environ.get('NNC', 'nnc'), dtype='f64', options={'weights': tmp_path / 'm.safetensors'}, N=2)
    want = loss(module(tokens[:2]), target[:2]).item()
    assert abs(net.step(tokens=tokens[:2], target=target[:2])['loss'] - want) <= 1e-9 * want


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.frozen, self.unread = nn.Linear(6, 4), nn.Linear(4, 4), nn.Linear(5, 5)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.used(x))


def test_what_is_not_read_is_in_no_group(tmp_path):
    module = Halves().double()
    module.unread.requires_grad_(False)
    text = trains_alike(tmp_path, module, F.mse_loss, (0, REAL), torch.optim.SGD([{'params': module.used.parameters()}, {'params': module.frozen.parameters(), 'lr': 1.0}], lr=0.01))
    assert 'group     "frozen.*", frozen=true' in text and 'unread' not in text


def test_what_a_train_section_cannot_have(tmp_path):
    module = nn.Linear(6, 4)
    sgd, rate = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9), torch.optim.lr_scheduler
    scheduled = torch.optim.SGD([{'params': [module.weight]}, {'params': [module.bias], 'lr': 1.0}], lr=0.1)
    scheduler = rate.CosineAnnealingLR(scheduled, 10, eta_min=0.01)
    cases = [('that gives one number', dict(loss=lambda y, t: (y - t).abs(), targets=torch.randn(8, 4))), ('with targets=', dict(loss=lambda y, t: (y - t).abs().mean())), ('reduction', dict(loss=nn.MSELoss(reduction='none'))), ('is of 3', dict(loss=nn.TripletMarginLoss())),
             ('size_average', dict(loss=functools.partial(F.mse_loss, size_average=False))), ('Rprop', dict(optimizer=torch.optim.Rprop(module.parameters()))),
             ('dampening=0.5', dict(optimizer=torch.optim.SGD(module.parameters(), momentum=0.9, dampening=0.5))), ('AdamW is that', dict(optimizer=torch.optim.Adam(module.parameters(), decoupled_weight_decay=True))),
             ('none of the module', dict(optimizer=torch.optim.SGD([*module.parameters(), nn.Parameter(torch.ones(1))]))), ('give it as scheduler=', dict(optimizer=scheduled)),
             ('of several rates', dict(optimizer=scheduled, scheduler=scheduler)), ('without cycles of the momentum', dict(optimizer=sgd, scheduler=rate.OneCycleLR(sgd, max_lr=1, total_steps=10))),
             *(('OneCycleLR with cosines', dict(scheduler=rate.OneCycleLR(sgd, max_lr=1, total_steps=10, cycle_momentum=False, **more))) for more in (dict(three_phase=True), dict(anneal_strategy='linear')))]
    for reason, given in cases:
        with pytest.raises(NotInLanguage, match=reason):
            from_torch(module, torch.randn(8, 6), str(tmp_path / 'm.nn'), **{'loss': F.mse_loss, **given})
        assert not os.listdir(tmp_path)
