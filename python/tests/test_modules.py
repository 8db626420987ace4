"""Modules as people write them: control flow, containers, writing in place, functional calls, what is drawn; and what must be refused, since it would come over as something else."""
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from check import check
from nnc.importer import ImportFailed, convert


class Layer(nn.Module):
    """A function of a linear layer's outputs."""

    def __init__(self, f=None):
        super().__init__()
        self.a, self.f = nn.Linear(6, 5), f

    def forward(self, x):
        return self.f(self.a(x))


class Flow(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.steps, self.gate, self.skip = nn.ModuleList(nn.Linear(6, 6) for _ in range(n)), nn.Parameter(torch.zeros(n)), {1: 0, 3: 2}

    def forward(self, x, *, scale: float = 2.0, early=None):
        seen, i = [], 0
        while i < len(self.steps):
            try:
                x = self.steps[i](x)
            finally:
                seen.append(x)
            if i in self.skip and x.shape[-1] == 6:
                x = x + seen[self.skip[i]] * torch.sigmoid(self.gate[i])
            elif x.dim() > 3:
                raise RuntimeError
            x = F.gelu(x, approximate='tanh') if i % 2 == 0 else F.leaky_relu(x, 0.2, inplace=True)
            i += 1
        *rest, last = seen
        return torch.stack(rest, dim=1).amax(1) * scale + last[..., ::2].repeat_interleave(2, -1), rest[0].flip(-1)[:, [0, 2, -1]]


class Einsum(nn.Module):
    """Named as a function that its text calls."""

    def __init__(self):
        super().__init__()
        self.w, self.core = nn.Parameter(torch.randn(3, 4, 4)), nn.Parameter(torch.randn(4, 5, 3))

    def forward(self, x):
        a = torch.einsum('bti,hij,bsj->bhts', x, self.w, x).softmax(-1)
        trace = torch.einsum('hii->hi', self.w)
        z = torch.einsum('...d,deh->...eh', torch.einsum('bhts,bsd->bthd', a, x), self.core)
        return z.sum(2) + torch.einsum('bhtt->bht', a).sum((1, 2))[:, None, None, None] + torch.einsum('hi,hj->ij', trace, trace).sum()


class Tied(nn.Module):
    """A table that is the head, a weight and its transpose, one layer three times."""

    def __init__(self):
        super().__init__()
        self.table, self.code, self.bias = nn.Embedding(10, 6), nn.Linear(6, 8, bias=False), nn.Parameter(torch.zeros(6))
        self.out, self.layers = nn.Linear(6, 10), nn.ModuleList([nn.Linear(8, 8)] * 3)
        self.out.weight = self.table.weight

    def forward(self, tokens):
        h = self.code(self.table(tokens))
        for i, layer in enumerate(self.layers):
            h = torch.tanh(layer(h)) + (h if i % 2 else 0)
        return self.out(F.linear(h, self.code.weight.t(), self.bias))


@dataclasses.dataclass
class Heads:
    first: torch.Tensor
    others: dict


torch.export.register_dataclass(Heads, serialized_type_name='Heads')


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleDict({'a': nn.Sequential(nn.Linear(6, 8), nn.ReLU()), 'b-c': nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8, bias=False))})
        self.heads, self.w = nn.ModuleList([nn.Linear(8, 2), nn.Linear(8, 3)]), nn.ParameterDict({'scale': nn.Parameter(torch.ones(8)), 'shift': nn.Parameter(torch.zeros(8))})

    def forward(self, x, flags=None):
        parts = {name: m(x) for name, m in self.branches.items()}
        h = sum(parts.values()) * self.w['scale'] + self.w['shift']
        outs = [head(h) for head in self.heads]
        return Heads(outs[0], {'second': outs[1], 'list': [h, parts['a']]})


class Mask(nn.Module):
    """Causal, by distance, by length: with infinity, with the least number, as a product."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.register_buffer('bias', torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16), persistent=False)
        self.register_buffer('slopes', torch.tensor([0.5, 0.25]))

    def forward(self, x, lengths):
        b, t, d = x.shape
        q, k, v = (m(x).view(b, t, 2, 4).transpose(1, 2) for m in (self.q, self.k, self.v))
        a = (q @ k.mT / math.sqrt(4)).masked_fill(self.bias[:, :, :t, :t] == 0, float('-inf'))
        a = a - self.slopes[None, :, None, None] * (torch.arange(t)[:, None] - torch.arange(t)[None]).abs()
        pad = torch.arange(t)[None] >= lengths[:, None]
        a = a.masked_fill(pad[:, None, None], torch.finfo(a.dtype).min)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d) * (~pad)[..., None]
        return y.sum(1) / lengths[:, None].clamp(min=1)


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.cls = nn.Linear(6, 6), nn.Parameter(torch.randn(6))

    def forward(self, x):
        y, out = self.l(x), torch.zeros(x.shape[0], 4, 6, dtype=x.dtype)
        out[:, 0] = self.cls
        out[:, 1:3] += y[:, None]
        out[:, 3, ::2] = y[:, 1::2]
        out[:, :, -1] *= 2
        y[y < 0] = 0.1
        return out.narrow(1, -3, 2), y


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.delta, self.order = nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Parameter(torch.randn(6, 6) * 0.1), [2, 0, 1]

    def forward(self, x):
        changed = {k: v + (self.delta if k == '0.weight' else 0) for k, v in self.inner.named_parameters()}
        y = torch.func.functional_call(self.inner, changed, (x,))
        z = torch.vmap(lambda a, b: a @ b)(y, x)
        return y[:, self.order] + z[:, None], torch.stack([F.normalize(c, dim=-1) for c in y.unbind(0)]), F.one_hot((x[:, 0] > 0).long(), 3) * z[:, None]


class Frozen(nn.Module):
    """A part in evaluation while the rest is in training."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.7), nn.Linear(5, 5)), nn.Linear(5, 2)

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))


class Scaled(nn.Module):
    """Draws in training, and is not its input in evaluation."""

    def forward(self, x):
        return x * (torch.rand(x.shape, dtype=x.dtype) * 0 + 3) if self.training else x * 3


class Kept(nn.Module):
    def forward(self, x):
        return x * x.new_empty((x.shape[0], 1)).bernoulli_(1.0) if self.training else x


class AlwaysDrawn(nn.Module):
    def forward(self, x):
        return x * (torch.rand(x.shape, dtype=x.dtype) * 0 + 3)


class Swish(torch.autograd.Function):
    """With a backward that saves memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * s * (1 + ctx.saved_tensors[0] * (1 - s))


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        return g


def drawn(y):
    return y + 0 * (torch.randn_like(y) * torch.rand_like(y) + torch.randn(5) + torch.empty_like(y).normal_(1, 2) + torch.empty_like(y).uniform_(-1, 1) + torch.randint(3, y.shape) + torch.randint(2, 5, (4, 1)))


class Twice(nn.Module):
    """A batch norm that is called twice, beside an operation that torch takes apart."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU())

    def forward(self, x):
        return F.pairwise_distance(self.net(x), self.net(x.flip(0) * 2))


class Outputs(nn.Module):
    """A parameter, a constant, an input, the same twice, what is no tensor."""

    def __init__(self):
        super().__init__()
        self.a, self.w = nn.Linear(6, 5), nn.Parameter(torch.randn(3))

    def forward(self, x):
        y = self.a(x)
        return {'y': y, 'w': self.w, 'one': torch.tensor([1.0, 2.0]), 'x': x, 'again': y, 'none': None, 'number': 3, 'class': y.argmax(-1)}


class Chosen(nn.Module):
    """Columns that a buffer tells."""

    def __init__(self):
        super().__init__()
        self.register_buffer('mask', torch.tensor([True, False, True, True, False]))

    def forward(self, y):
        return y[:, self.mask.nonzero().squeeze(1)] + y.tanh().index_select(1, torch.nonzero(self.mask).flatten()) * self.mask.nonzero(as_tuple=True)[0]


class Occurrences(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(5, 3, **options)

    def forward(self, x):
        return self.table(x.argmax(-1))


def nothing(y):
    """Parts without elements."""
    return torch.cat([y[:, :5].tanh(), y[:, 5:] * 2], -1) + torch.stack([y, -y], 1)[:, :1].sum(1) + torch.stack([y[:, 0], y[:, 1]]).sum()


def copies(y):
    z, u, w = y.clone(), y.clone(), y.contiguous()
    z.mul_(2)
    u += 1
    return y + z.tanh() + u * w


def truths(y):
    m = (y > 0) | (y < -0.5)
    n = ~m & (y.sin() > 0) ^ m
    return y * m + y.masked_fill(n, 0.25) + m.sum(1, keepdim=True) + m.any(1, keepdim=True) * y


SAME = {
    'chosen': lambda: (Layer(Chosen()), (torch.randn(4, 6),)),
    'flow': lambda: (Flow(), (torch.randn(4, 6),), {'scale': 1.5}), 'einsum': lambda: (Einsum(), (torch.randn(2, 5, 4),)), 'tied': lambda: (Tied(), (torch.randint(0, 10, (3, 5)),)),
    'branches': lambda: (Branches(), (torch.randn(4, 6),)), 'mask': lambda: (Mask(), (torch.randn(2, 5, 8), torch.tensor([5, 3]))), 'writes': lambda: (Writes(), (torch.randn(4, 6),)),
    'functional': lambda: (Functional(), (torch.randn(4, 6),)), 'frozen': lambda: (Frozen(), (torch.randn(4, 6),)), 'scaled': lambda: (Layer(Scaled()), (torch.randn(4, 6),)),
    'kept': lambda: (Layer(Kept()), (torch.randn(4, 6),)), 'always drawn': lambda: (Layer(AlwaysDrawn()), (torch.randn(4, 6),)), 'backward of its own': lambda: (Layer(Swish.apply), (torch.randn(4, 6),)),
    'twice': lambda: (Twice(), (torch.randn(8, 6),)), 'outputs': lambda: (Outputs(), (torch.randn(4, 6),)), 'drawn': lambda: (Layer(drawn), (torch.randn(4, 6),)),
    'nothing': lambda: (Layer(nothing), (torch.randn(4, 6),)), 'copies': lambda: (Layer(copies), (torch.randn(4, 6),)), 'truths': lambda: (Layer(truths), (torch.randn(4, 6),)), 'decimals': lambda: (Layer(lambda y: y + torch.round(y, decimals=1)), (torch.randn(4, 6),)),
}


@pytest.mark.parametrize('name', SAME)
def test_equals_torch(name):
    module, args, *kwargs = SAME[name]()
    check(module, args, *kwargs, modes=('train',))


class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('center', torch.zeros(5))

    def forward(self, x):
        with torch.no_grad():
            self.center.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.center


class Noise(Layer):
    def forward(self, x):
        y = self.a(x)
        return y + torch.rand(y.shape) if self.training else y


def hooked(y):
    y.register_hook(lambda g: -g)
    return y.square()


def mask_of_gradient(layer):
    layer.a.weight.register_hook(lambda g: g * 0)
    return layer


INFINITE = float('inf')
REFUSED = {
    'average': (lambda: Layer(Average()), r'in f \(Average\): writes the buffer f.center'), 'noise': (lambda: Noise(), 'a module of its own'), 'straight through': (lambda: Layer(StraightThrough.apply), r'StraightThrough.*\.detach\(\)'),
    'hook': (lambda: Layer(hooked), 'register_hook.*detach'), 'hook of a parameter': (lambda: mask_of_gradient(Layer(torch.tanh)), 'a.weight: has a hook'), 'detach_': (lambda: Layer(lambda y: y.square().detach_() + y), r'y = x\.detach\(\)'),
    'average without a momentum': (lambda: Layer(nn.BatchNorm1d(5, momentum=None)), 'f: BatchNorm1d with momentum=None: a number'), 'frequencies': (lambda: Occurrences(scale_grad_by_freq=True), 'scale_grad_by_freq'),
    'largest norm': (lambda: Occurrences(max_norm=1.0), 'normalise what is looked up'), 'normal': (lambda: Layer(lambda y: y + torch.normal(0.0, 1.0, (4, 5))), 'torch.randn'),
    'within torch': (lambda: Layer(lambda y: torch.cat([y, y.sum()])), r'test_modules.py:\d+: .*torch.cat.*: torch.export cannot trace it: RuntimeError: zero-dimensional'),
    'softplus': (lambda: Layer(nn.Softplus(threshold=1)), 'threshold below 20'), 'bits': (lambda: Layer(lambda y: y * (y.long() & 3)), 'integers'), 'towards zero': (lambda: Layer(lambda y: y * torch.div(y.long(), 3, rounding_mode='trunc')), 'x // y'),
    'running instance norm': (lambda: Layer(nn.Sequential(nn.Unflatten(0, (1, 4)), nn.InstanceNorm1d(4, track_running_stats=True))), 'track_running_stats=False'),
    'order 0': (lambda: Layer(lambda y: y.norm(0, dim=1)), r'test_modules.py:\d+: .*order 0: sum'), 'order -inf': (lambda: Layer(lambda y: y.norm(-INFINITE, dim=1)), 'order -inf'),
    'cdist of order 0': (lambda: Layer(lambda y: torch.cdist(y, y, p=0)), 'order 0'), 'not a number': (lambda: Layer(lambda y: torch.where(y > 0, y, float('nan'))), r'test_modules.py:\d+: NaN'),
    'causal of other lengths': (lambda: Layer(lambda y: nn.functional.scaled_dot_product_attention(y[None, None], y[None, None, :2], y[None, None, :2], is_causal=True)[0, 0]), r'is_causal and \d+ queries of 2 keys'),
    'times infinity': (lambda: Layer(lambda y: y * INFINITE), r'beside \*'),
    'repeats': (lambda: Layer(lambda y: y.repeat_interleave(torch.tensor([1, 2, 0, 1]), 0)), r'test_modules.py:\d+: aten.repeat_interleave: a size .* output_size'),
    'variance of one': (lambda: Layer(lambda y: y[:, :1].var(1)), r'test_modules.py:\d+: aten.var: the variance of 1 with a correction of 1'), 'deviation of two': (lambda: Layer(lambda y: y[:, :2].std(1, correction=2.5)), 'correction of 2.5'),
    'spectral norm': (lambda: Layer(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 5))), r'\(_SpectralNorm\): writes the buffer'),
}


@pytest.mark.parametrize('name', REFUSED)
def test_is_refused(name):
    make, what = REFUSED[name]
    with pytest.raises(ImportFailed, match=what):
        convert(make().train(), (torch.randn(4, 6),), sizes=False)


def test_modes_stay():
    module = Layer(Kept())
    module.a.eval()
    convert(module, (torch.randn(4, 6),))
    assert module.training and module.f.training and not module.a.training


def test_what_is_drawn():
    text = convert(Layer(drawn), (torch.randn(4, 6),)).text
    assert 'normal(2.0, 1.0, [4, 5])' in text and 'uniform(-1.0, 1.0, [4, 5])' in text and 'randint(2, 5, [4, 1])' in text and 'randint(0, 3, [4, 5])' in text


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)

    def forward(self, tokens):
        before, either = torch.empty_like(tokens), tokens.new_empty(tokens.shape, dtype=torch.bool)
        before[:, 0] = 8
        before[:, 1:] = tokens[:, :-1]
        either[:, :2] = tokens[:, :2] > 3
        either[:, 2:] = True
        return self.words(before) * either[..., None]


def test_what_is_written_into_an_empty_tensor_has_its_type():
    check(Shifted(), (torch.randint(0, 8, (2, 5)),))
