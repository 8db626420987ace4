"""PyTorch to nnc, 100 steps, back: PyTorch computes the loss that nnc does with what load_state_dict takes, in both modes; and the same 100 steps in PyTorch, as far as rounding lets it repeat them itself."""
import copy
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nnc
from check import run, step
from nnc.safetensors import load, save


class Tied(nn.Module):
    """A table that is the head, too, and running statistics; a linear layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(12, 8), nn.BatchNorm1d(8)
        self.mixed = nn.Linear(8, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens).mean(1)
        x = torch.tanh(self.mixed(torch.tanh(self.mixed(x))))
        return self.head(self.norm(x))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (y.view(n, t, 2, d // 2).transpose(1, 2) for y in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.project(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, d))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, words=11, width=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(9, width)
        self.layers, self.ln_f = nn.ModuleList(Layer(width) for _ in range(2)), nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x)).transpose(1, 2)      # classes second, as cross_entropy wants them


def resnet18():
    torchvision = pytest.importorskip('torchvision')
    return torchvision.models.resnet18(num_classes=5), torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))


CASES = {
    'resnet18': (resnet18, lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9)),
    'tied': (lambda: (Tied(), torch.randint(0, 12, (16, 3)), torch.randint(0, 12, (16,))), lambda p: torch.optim.AdamW(p, lr=1e-2)),
    'gpt': (lambda: (Gpt(), torch.randint(0, 11, (4, 9)), torch.randint(0, 11, (4, 9))), lambda p: torch.optim.AdamW(p, lr=1e-3)),
}


def other_bits(module):
    """The same, with other last bits of its parameters: how far rounding takes PyTorch from itself."""
    other = copy.deepcopy(module)
    with torch.no_grad():
        for p in other.parameters():
            p *= 1 + 2.0 ** -52 * torch.randint(-1, 2, p.shape).double()
    return other


def loss_of(module, x, label):
    with torch.no_grad():
        return F.cross_entropy(copy.deepcopy(module)(x), label).item()


@pytest.mark.parametrize('name', CASES)
def test_hundred_steps(tmp_path, name):
    make, optimizer_of = CASES[name]
    module, x, label = make()
    module, x = module.double().train(), x.double() if x.is_floating_point() else x
    path = tmp_path / f'{name}.nn'
    near, optimizer = other_bits(module), optimizer_of(module.parameters())
    optimizer_near = optimizer_of(near.parameters())
    nnc.from_torch(module, x, str(path), loss=F.cross_entropy, optimizer=optimizer)
    net = nnc.compile(path, dtype='f64', options={'weights': str(path.with_suffix('.safetensors')), 'threads': 1})
    field = next(t for t in ('x', 'tokens') if f'{t}:' in path.read_text())
    steps = []
    for _ in range(100):
        steps.append((net.step({field: x, 'label': label})['loss'], step(module, optimizer, x, label), step(near, optimizer_near, x, label)))
    back = make()[0].double()
    missing, others = back.load_state_dict({n: torch.from_numpy(v) for n, v in net.state_dict().items()}, strict=False)
    tied = {n for n, p in back.named_parameters(remove_duplicate=False)} - {n for n, _ in back.named_parameters()}
    assert not others and all(n.endswith('num_batches_tracked') or n in tied for n in missing)
    same = lambda a, b, bound=1e-10: abs(a - b) <= bound * abs(b)
    assert same(net.evaluate({field: x, 'label': label})['loss'], loss_of(back.eval(), x, label))
    assert same(net.step({field: x, 'label': label})['loss'], loss_of(back.train(), x, label))
    ours, own = (max(abs(step[k] - step[1]) / abs(step[1]) for step in steps) for k in (0, 2))
    assert ours <= max(1e-10, 10 * own), (ours, own)
    assert steps[-1][0] < steps[0][0]


@pytest.mark.parametrize('dtype, short', [(torch.bfloat16, 'bf16'), (torch.float16, 'f16')])
def test_half_precision(tmp_path, dtype, short):
    """The text has the module's precision, and the weights come back as they were."""
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).to(dtype)
    x, path = torch.randn(4, 8).to(dtype), tmp_path / 'half.nn'
    nnc.from_torch(module, x, str(path), loss=F.cross_entropy)
    assert f'precision {short}' in path.read_text()
    save(str(tmp_path / 'in.safetensors'), {'input': x.float()})
    run(str(tmp_path), os.environ.get('NNC', 'nnc'), 'half.nn', '-o', 'half')
    run(str(tmp_path), './half', 'predict', '--inputs=in.safetensors', '--weights=half.safetensors', '--outputs=out.safetensors')
    scores = next(iter(load(str(tmp_path / 'out.safetensors')).values())).float()
    assert (scores - module(x).float()).abs().max() <= 8 * torch.finfo(dtype).eps * scores.abs().max()
    run(str(tmp_path), './half', 'export', 'back.safetensors', '--weights=half.safetensors')
    before = {n: p.clone() for n, p in module.state_dict().items()}
    module.load_state_dict(load(str(tmp_path / 'back.safetensors')))
    assert all(p.dtype == dtype and torch.equal(p, before[n]) for n, p in module.state_dict().items())
