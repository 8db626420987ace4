"""One example or more of each module of torch.nn, and of each function of torch.nn.functional: what test_torch_nn.py compares.

A case is (module or function, inputs); floats among the inputs are learnt, so that gradients by inputs are compared, too, but those in fixed()."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

INFINITE = float('inf')
draw = torch.Generator().manual_seed(7)


class Fixed:
    def __init__(self, tensor):
        self.tensor = tensor


def fixed(tensor):
    """An input without a gradient."""
    return Fixed(tensor)


def r(*shape, low=None, high=None):
    """Normal, or from low to high."""
    return torch.randn(shape, generator=draw) if low is None else low + (high - low) * torch.rand(shape, generator=draw)


def i(n, *shape):
    return torch.randint(0, n, shape, generator=draw)


def signs(*shape):
    return fixed(2.0 * torch.randint(0, 2, shape, generator=draw) - 1)


def bits(*shape):
    return fixed(torch.randint(0, 2, shape, generator=draw).float())


def ready(module, *inputs):
    """A lazy module that has seen its first input."""
    module(*inputs)
    return module


class Use(nn.Module):
    """A module beside a function of it."""

    def __init__(self, f, *modules, **others):
        super().__init__()
        self.inner = modules[0] if len(modules) == 1 else nn.ModuleList(modules)
        self.f = f
        for name, m in others.items():
            setattr(self, name, m)

    def forward(self, *args):
        return self.f(self.inner, *args)


def image(n=6):
    return r(2, 4, n, n)


line, volume = lambda n=7: r(2, 4, n), lambda n=5: r(2, 4, n, n, n)
probability = lambda *s: r(*s, low=0.1, high=0.9)


def by_rank(make, *ranks, x=None):
    """A case for each number of axes behind the channels."""
    shapes = {1: (2, 4, 8), 2: (2, 4, 6, 6), 3: (2, 4, 5, 5, 5)}
    return {n: lambda n=n: [(m, r(*shapes[n])) for m in make(n)] for n in ranks or (1, 2, 3)}


def numbered(name, make, *ranks):
    return {f'{name}{n}d': case for n, case in by_rank(lambda n: make(getattr(nn, f'{name}{n}d'), n), *ranks).items()}


def functional(name, make, *ranks):
    return {f'{name}{n}d': case for n, case in by_rank(lambda n: make(getattr(F, f'{name}{n}d'), n), *ranks).items()}


def source_and_target(module):
    return module, r(2, 5, 8), r(2, 3, 8)


MODULES = {
    **numbered('AdaptiveAvgPool', lambda m, n: [m(3), m(1)]),
    **numbered('AdaptiveMaxPool', lambda m, n: [m(3), m(2)]),
    **numbered('AvgPool', lambda m, n: [m(2), m(3, 2, 1, count_include_pad=False), m(3, 2, ceil_mode=True)]),
    **numbered('MaxPool', lambda m, n: [m(2), m(3, 2, 1), m(2, 1, dilation=2), m(3, 2, ceil_mode=True)]),
    **numbered('LPPool', lambda m, n: [m(2, 2), m(4, 3, 2)]),
    **numbered('BatchNorm', lambda m, n: [m(4), m(4, affine=False), m(4, track_running_stats=False), m(4, eps=1e-3, momentum=0.2), m(4, affine=False, track_running_stats=False)]),
    **numbered('InstanceNorm', lambda m, n: [m(4), m(4, affine=True)]),
    **numbered('CircularPad', lambda m, n: [m(2), m(tuple(range(1, 2 * n + 1)) if n == 1 else 1)]),
    **numbered('ConstantPad', lambda m, n: [m(2, 1.5), m(-1, 0.5)]),
    **numbered('ReflectionPad', lambda m, n: [m(2)]),
    **numbered('ReplicationPad', lambda m, n: [m(2)]),
    **numbered('ZeroPad', lambda m, n: [m(2)]),
    **numbered('Conv', lambda m, n: [m(4, 6, 3), m(4, 6, 3, stride=2, padding=1, groups=2, bias=False), m(4, 4, 3, padding='same', dilation=2, padding_mode='reflect')]),
    **numbered('ConvTranspose', lambda m, n: [m(4, 6, 3), m(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)]),
    **numbered('Dropout', lambda m, n: [m(0.3)]),
    **numbered('LazyBatchNorm', lambda m, n: [ready(m(), r(2, 4, *[6] * n))]),
    **numbered('LazyConv', lambda m, n: [ready(m(6, 3), r(2, 4, *[6] * n))]),
    **numbered('LazyConvTranspose', lambda m, n: [ready(m(6, 3), r(2, 4, *[6] * n))]),
    **numbered('LazyInstanceNorm', lambda m, n: [ready(m(affine=True, track_running_stats=False), r(2, 4, *[6] * n))]),
    'AdaptiveLogSoftmaxWithLoss': lambda: [(nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3, 6]), r(5, 4), i(9, 5))],
    'AlphaDropout': lambda: [(nn.AlphaDropout(0.2), r(3, 5))],
    'BCELoss': lambda: [(nn.BCELoss(), probability(4, 3), bits(4, 3)), (nn.BCELoss(reduction='sum'), probability(4), probability(4))],
    'BCEWithLogitsLoss': lambda: [(nn.BCEWithLogitsLoss(), r(4, 3), bits(4, 3)), (nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0])), r(4, 3), bits(4, 3))],
    'Bilinear': lambda: [(nn.Bilinear(4, 5, 3), r(6, 4), r(6, 5)), (nn.Bilinear(4, 5, 3, bias=False), r(2, 3, 4), r(2, 3, 5))],
    'CELU': lambda: [(nn.CELU(), r(3, 5)), (nn.CELU(0.5), r(3, 5))],
    'CTCLoss': lambda: [(nn.CTCLoss(), r(7, 2, 5).log_softmax(-1), i(4, 2, 3) + 1, torch.tensor([7, 6]), torch.tensor([3, 2]))],
    'ChannelShuffle': lambda: [(nn.ChannelShuffle(2), image())],
    'CosineEmbeddingLoss': lambda: [(nn.CosineEmbeddingLoss(), r(4, 5), r(4, 5), signs(4)), (nn.CosineEmbeddingLoss(margin=0.3, reduction='sum'), r(4, 5), r(4, 5), signs(4))],
    'CosineSimilarity': lambda: [(nn.CosineSimilarity(), r(4, 5), r(4, 5)), (nn.CosineSimilarity(dim=-1), r(4, 5), r(4, 5))],
    'CrossEntropyLoss': lambda: [(nn.CrossEntropyLoss(), r(4, 5), i(5, 4)), (nn.CrossEntropyLoss(label_smoothing=0.1), r(4, 5), i(5, 4)), (nn.CrossEntropyLoss(ignore_index=0), r(4, 5, 3), i(5, 4, 3)),
                                 (nn.CrossEntropyLoss(weight=torch.rand(5)), r(4, 5), i(5, 4)), (nn.CrossEntropyLoss(), r(4, 5), probability(4, 5)), (nn.CrossEntropyLoss(reduction='none'), r(4, 5), i(5, 4))],
    'CrossMapLRN2d': lambda: [(nn.CrossMapLRN2d(3), image())],
    'DataParallel': lambda: [(nn.DataParallel(nn.Linear(4, 3)), r(2, 4))],
    'Dropout': lambda: [(nn.Dropout(0.3), r(3, 5))],
    'ELU': lambda: [(nn.ELU(), r(3, 5)), (nn.ELU(0.7, inplace=True), r(3, 5))],
    'Embedding': lambda: [(nn.Embedding(7, 4), i(7, 3, 5)), (nn.Embedding(7, 4, padding_idx=2), i(7, 3, 5)), (Use(lambda m, t: m(t) @ m.weight.T, nn.Embedding(7, 4, padding_idx=0)), i(7, 3, 5))],
    'EmbeddingBag': lambda: [(nn.EmbeddingBag(7, 4), i(7, 3, 5)), (nn.EmbeddingBag(7, 4, mode='sum'), i(7, 3, 5))],
    'FeatureAlphaDropout': lambda: [(nn.FeatureAlphaDropout(0.2), image())],
    'Flatten': lambda: [(nn.Flatten(), image()), (nn.Flatten(0), image()), (nn.Flatten(2), image())],
    'Fold': lambda: [(nn.Fold((5, 6), 2), r(2, 12, 20)), (nn.Fold((4, 5), (2, 3), padding=1, stride=2), r(2, 12, 9))],
    'FractionalMaxPool2d': lambda: [(nn.FractionalMaxPool2d(2, output_size=3), image())],
    'FractionalMaxPool3d': lambda: [(nn.FractionalMaxPool3d(2, output_size=2), volume())],
    'GELU': lambda: [(nn.GELU(), r(3, 5)), (nn.GELU('tanh'), r(3, 5))],
    'GLU': lambda: [(nn.GLU(), r(3, 6)), (nn.GLU(1), image())],
    'GRU': lambda: [(nn.GRU(4, 5), r(3, 2, 4)), (nn.GRU(4, 5, 2, batch_first=True, bidirectional=True, bias=False), r(2, 3, 4))],
    'GRUCell': lambda: [(nn.GRUCell(4, 5), r(2, 4), r(2, 5)), (nn.GRUCell(4, 5, bias=False), r(2, 4))],
    'GaussianNLLLoss': lambda: [(nn.GaussianNLLLoss(), r(4, 3), r(4, 3), probability(4, 3)), (nn.GaussianNLLLoss(full=True), r(4, 3), r(4, 3), probability(4, 1))],
    'GroupNorm': lambda: [(nn.GroupNorm(2, 4), image()), (nn.GroupNorm(2, 4, affine=False), image()), (nn.GroupNorm(4, 4), r(3, 4))],
    'Hardshrink': lambda: [(nn.Hardshrink(), r(3, 5))],
    'Hardsigmoid': lambda: [(nn.Hardsigmoid(), 3 * r(3, 5))],
    'Hardswish': lambda: [(nn.Hardswish(), 3 * r(3, 5))],
    'Hardtanh': lambda: [(nn.Hardtanh(), r(3, 5)), (nn.Hardtanh(-0.5, 2), r(3, 5))],
    'HingeEmbeddingLoss': lambda: [(nn.HingeEmbeddingLoss(), r(4, 3), signs(4, 3))],
    'HuberLoss': lambda: [(nn.HuberLoss(), r(4, 3), r(4, 3)), (nn.HuberLoss(delta=0.3, reduction='sum'), r(4, 3), r(4, 3))],
    'Identity': lambda: [(nn.Identity(), r(3, 5))],
    'KLDivLoss': lambda: [(nn.KLDivLoss(reduction='batchmean'), r(4, 3), probability(4, 3)), (nn.KLDivLoss(log_target=True), r(4, 3), r(4, 3))],
    'L1Loss': lambda: [(nn.L1Loss(), r(4, 3), r(4, 3)), (nn.L1Loss(reduction='none'), r(4, 3), r(4, 3))],
    'LSTM': lambda: [(nn.LSTM(4, 5), r(3, 2, 4)), (nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), r(2, 3, 4)), (nn.LSTM(4, 5, proj_size=3), r(3, 2, 4))],
    'LSTMCell': lambda: [(Use(lambda m, x, h, c: m(x, (h, c)), nn.LSTMCell(4, 5)), r(2, 4), r(2, 5), r(2, 5))],
    'LayerNorm': lambda: [(nn.LayerNorm(6), image()), (nn.LayerNorm((6, 6)), image()), (nn.LayerNorm(6, bias=False), image()), (nn.LayerNorm(6, elementwise_affine=False, eps=1e-3), image())],
    'LazyLinear': lambda: [(ready(nn.LazyLinear(3), r(2, 4)), r(2, 4))],
    'LeakyReLU': lambda: [(nn.LeakyReLU(), r(3, 5)), (nn.LeakyReLU(0.2), r(3, 5))],
    'Linear': lambda: [(nn.Linear(4, 3), r(2, 4)), (nn.Linear(4, 3, bias=False), r(2, 5, 4)), (nn.Linear(4, 3), r(4))],
    'LinearCrossEntropyLoss': lambda: [(nn.LinearCrossEntropyLoss(4, 5), r(6, 4), i(5, 6))],
    'LocalResponseNorm': lambda: [(nn.LocalResponseNorm(3), image()), (nn.LocalResponseNorm(2, alpha=0.1, beta=0.5, k=2), line())],
    'LogSigmoid': lambda: [(nn.LogSigmoid(), r(3, 5))],
    'LogSoftmax': lambda: [(nn.LogSoftmax(-1), r(3, 5)), (nn.LogSoftmax(1), image())],
    'MSELoss': lambda: [(nn.MSELoss(), r(4, 3), r(4, 3)), (nn.MSELoss(reduction='sum'), r(4, 3), r(4, 3))],
    'MarginRankingLoss': lambda: [(nn.MarginRankingLoss(0.2), r(4), r(4), signs(4))],
    'MaxUnpool1d': lambda: [(Use(lambda m, x: m(*F.max_pool1d(x, 2, return_indices=True)), nn.MaxUnpool1d(2)), r(2, 4, 8))],
    'MaxUnpool2d': lambda: [(Use(lambda m, x: m(*F.max_pool2d(x, 2, return_indices=True)), nn.MaxUnpool2d(2)), image())],
    'MaxUnpool3d': lambda: [(Use(lambda m, x: m(*F.max_pool3d(x, 2, return_indices=True)), nn.MaxUnpool3d(2)), volume(4))],
    'Mish': lambda: [(nn.Mish(), r(3, 5))],
    'ModuleDict': lambda: [(Use(lambda m, x: m['b'](m['a'](x)), nn.ModuleDict({'a': nn.Linear(4, 5), 'b': nn.Linear(5, 3)})), r(2, 4))],
    'ModuleList': lambda: [(Use(lambda m, x: m[1](m[0](x)), nn.ModuleList([nn.Linear(4, 5), nn.Linear(5, 3)])), r(2, 4))],
    'MultiLabelMarginLoss': lambda: [(nn.MultiLabelMarginLoss(), r(3, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0], [2, 1, 0, -1]]))],
    'MultiLabelSoftMarginLoss': lambda: [(nn.MultiLabelSoftMarginLoss(), r(4, 3), bits(4, 3))],
    'MultiMarginLoss': lambda: [(nn.MultiMarginLoss(), r(4, 5), i(5, 4)), (nn.MultiMarginLoss(p=2, margin=0.5), r(4, 5), i(5, 4))],
    'MultiheadAttention': lambda: [(Use(lambda m, x: m(x, x, x, need_weights=False)[0], nn.MultiheadAttention(8, 2, batch_first=True)), r(2, 5, 8)),
                                   (Use(lambda m, q, k: m(q, k, k), nn.MultiheadAttention(8, 2)), r(5, 2, 8), r(6, 2, 8)),
                                   (Use(lambda m, q, k, v: m(q, k, v)[0], nn.MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True, bias=False, batch_first=True)), r(2, 5, 8), r(2, 6, 4), r(2, 6, 6)),
                                   (Use(lambda m, x: m(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(5), is_causal=True, need_weights=False)[0], nn.MultiheadAttention(8, 2, batch_first=True)), r(2, 5, 8)),
                                   (Use(lambda m, x, p: m(x, x, x, key_padding_mask=p, need_weights=False)[0], nn.MultiheadAttention(8, 2, batch_first=True)), r(2, 5, 8), torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool())],
    'NLLLoss': lambda: [(nn.NLLLoss(), r(4, 5), i(5, 4)), (nn.NLLLoss(weight=torch.rand(5), ignore_index=1, reduction='sum'), r(4, 5), i(5, 4)), (nn.NLLLoss(), r(2, 5, 3, 3), i(5, 2, 3, 3))],
    'NLLLoss2d': lambda: [(nn.NLLLoss2d(), r(2, 5, 3, 3), i(5, 2, 3, 3))],
    'PReLU': lambda: [(nn.PReLU(), r(3, 5)), (nn.PReLU(4), image())],
    'PairwiseDistance': lambda: [(nn.PairwiseDistance(), r(4, 5), r(4, 5)), (nn.PairwiseDistance(1, keepdim=True), r(4, 5), r(4, 5))],
    'ParameterDict': lambda: [(Use(lambda m, x: x * m['w'] + m['b'], nn.ParameterDict({'w': nn.Parameter(r(5)), 'b': nn.Parameter(r(5))})), r(3, 5))],
    'ParameterList': lambda: [(Use(lambda m, x: x * m[0] + m[1], nn.ParameterList([nn.Parameter(r(5)), nn.Parameter(r(5))])), r(3, 5))],
    'PixelShuffle': lambda: [(nn.PixelShuffle(2), image())],
    'PixelUnshuffle': lambda: [(nn.PixelUnshuffle(2), image())],
    'PoissonNLLLoss': lambda: [(nn.PoissonNLLLoss(), r(4, 3), probability(4, 3)), (nn.PoissonNLLLoss(log_input=False, full=True), probability(4, 3), fixed(r(4, 3, low=0.5, high=4)))],
    'RMSNorm': lambda: [(nn.RMSNorm(6), image()), (nn.RMSNorm(6, elementwise_affine=False), image()), (nn.RMSNorm((6, 6), eps=1e-3), image())],
    'RNN': lambda: [(nn.RNN(4, 5), r(3, 2, 4)), (nn.RNN(4, 5, 2, nonlinearity='relu', batch_first=True, bidirectional=True), r(2, 3, 4))],
    'RNNCell': lambda: [(nn.RNNCell(4, 5), r(2, 4), r(2, 5)), (nn.RNNCell(4, 5, nonlinearity='relu'), r(2, 4))],
    'RReLU': lambda: [(nn.RReLU(), r(3, 5))],
    'ReLU': lambda: [(nn.ReLU(), r(3, 5)), (nn.ReLU(inplace=True), r(3, 5))],
    'ReLU6': lambda: [(nn.ReLU6(), 4 * r(3, 5))],
    'SELU': lambda: [(nn.SELU(), r(3, 5))],
    'Sequential': lambda: [(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), r(2, 4))],
    'SiLU': lambda: [(nn.SiLU(), r(3, 5))],
    'Sigmoid': lambda: [(nn.Sigmoid(), r(3, 5))],
    'SmoothL1Loss': lambda: [(nn.SmoothL1Loss(), r(4, 3), r(4, 3)), (nn.SmoothL1Loss(beta=0.5), r(4, 3), r(4, 3))],
    'SoftMarginLoss': lambda: [(nn.SoftMarginLoss(), r(4, 3), signs(4, 3))],
    'Softmax': lambda: [(nn.Softmax(-1), r(3, 5)), (nn.Softmax(1), image())],
    'Softmax2d': lambda: [(nn.Softmax2d(), image())],
    'Softmin': lambda: [(nn.Softmin(-1), r(3, 5))],
    'Softplus': lambda: [(nn.Softplus(), r(3, 5)), (nn.Softplus(beta=2), r(3, 5))],
    'Softshrink': lambda: [(nn.Softshrink(), r(3, 5)), (nn.Softshrink(0.2), r(3, 5))],
    'Softsign': lambda: [(nn.Softsign(), r(3, 5))],
    'SyncBatchNorm': lambda: [(nn.SyncBatchNorm(4), image())],
    'Tanh': lambda: [(nn.Tanh(), r(3, 5))],
    'Tanhshrink': lambda: [(nn.Tanhshrink(), r(3, 5))],
    'Threshold': lambda: [(nn.Threshold(0.1, 2), r(3, 5))],
    'Transformer': lambda: [source_and_target(nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True))],
    'TransformerDecoder': lambda: [source_and_target(nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), 2))],
    'TransformerDecoderLayer': lambda: [source_and_target(nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True, activation='gelu'))],
    'TransformerEncoder': lambda: [(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, norm=nn.LayerNorm(8), enable_nested_tensor=False), r(2, 5, 8))],
    'TransformerEncoderLayer': lambda: [(nn.TransformerEncoderLayer(8, 2, 16, 0.0), r(5, 2, 8)), (nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, bias=False), r(2, 5, 8))],
    'TripletMarginLoss': lambda: [(nn.TripletMarginLoss(), r(4, 5), r(4, 5), r(4, 5)), (nn.TripletMarginLoss(swap=True, p=1), r(4, 5), r(4, 5), r(4, 5))],
    'TripletMarginWithDistanceLoss': lambda: [(nn.TripletMarginWithDistanceLoss(), r(4, 5), r(4, 5), r(4, 5))],
    'Unflatten': lambda: [(nn.Unflatten(1, (2, 2)), image())],
    'Unfold': lambda: [(nn.Unfold(2), image()), (nn.Unfold((2, 3), padding=1, stride=2, dilation=(1, 2)), image())],
    'Upsample': lambda: [(nn.Upsample(scale_factor=2), image()), (nn.Upsample(9, mode='bilinear', align_corners=True), image()), (nn.Upsample(scale_factor=1.5, mode='bicubic'), image()), (nn.Upsample(10, mode='linear'), line())],
    'UpsamplingBilinear2d': lambda: [(nn.UpsamplingBilinear2d(9), image())],
    'UpsamplingNearest2d': lambda: [(nn.UpsamplingNearest2d(scale_factor=2), image())],
}

FUNCTIONS = {
    **functional('adaptive_avg_pool', lambda f, n: [lambda x: f(x, 3)]),
    **functional('adaptive_max_pool', lambda f, n: [lambda x: f(x, 3)]),
    **functional('avg_pool', lambda f, n: [lambda x: f(x, 2)]),
    **functional('max_pool', lambda f, n: [lambda x: f(x, 2)]),
    **functional('lp_pool', lambda f, n: [lambda x: f(x, 2.0, 2)]),
    **functional('dropout', lambda f, n: [lambda x: f(x, 0.0)]),
    **{f'adaptive_max_pool{n}d_with_indices': lambda n=n: [(lambda x: getattr(F, f'adaptive_max_pool{n}d_with_indices')(x, 3)[0], r(2, 4, *[6] * n))] for n in (1, 2, 3)},
    **{f'max_pool{n}d_with_indices': lambda n=n: [(lambda x: getattr(F, f'max_pool{n}d_with_indices')(x, 2)[0], r(2, 4, *[6] * n))] for n in (1, 2, 3)},
    **{f'max_unpool{n}d': lambda n=n: [(lambda x: getattr(F, f'max_unpool{n}d')(*getattr(F, f'max_pool{n}d')(x, 2, return_indices=True), 2), r(2, 4, *[6] * n))] for n in (1, 2, 3)},
    **{f'conv{n}d': lambda n=n: [(getattr(F, f'conv{n}d'), r(2, 4, *[5] * n), r(6, 4, *[3] * n), r(6))] for n in (1, 2, 3)},
    **{f'conv_transpose{n}d': lambda n=n: [(getattr(F, f'conv_transpose{n}d'), r(2, 4, *[5] * n), r(4, 6, *[3] * n))] for n in (1, 2, 3)},
    'affine_grid': lambda: [(lambda theta: F.affine_grid(theta, [2, 4, 5, 5], align_corners=False), r(2, 2, 3))],
    'alpha_dropout': lambda: [(lambda x: F.alpha_dropout(x, 0.2, training=True), r(3, 5))],
    'batch_norm': lambda: [(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), image(), r(4), r(4))],
    'bilinear': lambda: [(F.bilinear, r(6, 4), r(6, 5), r(3, 4, 5), r(3))],
    'binary_cross_entropy': lambda: [(F.binary_cross_entropy, probability(4, 3), probability(4, 3)), (lambda x, y, w: F.binary_cross_entropy(x, y, w), probability(4, 3), bits(4, 3), fixed(probability(3)))],
    'binary_cross_entropy_with_logits': lambda: [(F.binary_cross_entropy_with_logits, r(4, 3), probability(4, 3))],
    'celu': lambda: [(lambda x: F.celu(x, 2.0), r(3, 5))],
    'celu_': lambda: [(lambda x: F.celu_(x * 2), r(3, 5))],
    'channel_shuffle': lambda: [(lambda x: F.channel_shuffle(x, 2), image())],
    'conv_tbc': lambda: [(F.conv_tbc, r(6, 2, 4), r(3, 4, 5), r(5))],
    'cosine_embedding_loss': lambda: [(F.cosine_embedding_loss, r(4, 5), r(4, 5), signs(4))],
    'cosine_similarity': lambda: [(F.cosine_similarity, r(4, 5), r(4, 5))],
    'cross_entropy': lambda: [(F.cross_entropy, r(4, 5), i(5, 4)), (lambda x, y: F.cross_entropy(x, y, reduction='sum', label_smoothing=0.2), r(4, 5), i(5, 4))],
    'ctc_loss': lambda: [(lambda x, y: F.ctc_loss(x.log_softmax(-1), y, [7, 6], [3, 2]), r(7, 2, 5), i(4, 2, 3) + 1)],
    'dropout': lambda: [(lambda x: F.dropout(x, 0.0), r(3, 5))],
    'elu': lambda: [(F.elu, r(3, 5))],
    'elu_': lambda: [(lambda x: F.elu_(x * 2), r(3, 5))],
    'embedding': lambda: [(F.embedding, i(7, 3, 5), r(7, 4)), (lambda t, w: F.embedding(t, w, padding_idx=1), i(7, 3, 5), r(7, 4))],
    'embedding_bag': lambda: [(F.embedding_bag, i(7, 3, 5), r(7, 4))],
    'feature_alpha_dropout': lambda: [(lambda x: F.feature_alpha_dropout(x, 0.2, training=True), image())],
    'fold': lambda: [(lambda x: F.fold(x, (5, 6), 2), r(2, 12, 20))],
    'fractional_max_pool2d': lambda: [(lambda x: F.fractional_max_pool2d(x, 2, output_size=3), image())],
    'fractional_max_pool2d_with_indices': lambda: [(lambda x: F.fractional_max_pool2d_with_indices(x, 2, output_size=3)[0], image())],
    'fractional_max_pool3d': lambda: [(lambda x: F.fractional_max_pool3d(x, 2, output_size=2), volume())],
    'fractional_max_pool3d_with_indices': lambda: [(lambda x: F.fractional_max_pool3d_with_indices(x, 2, output_size=2)[0], volume())],
    'gaussian_nll_loss': lambda: [(F.gaussian_nll_loss, r(4, 3), r(4, 3), probability(4, 3))],
    'gelu': lambda: [(F.gelu, r(3, 5))],
    'glu': lambda: [(F.glu, r(3, 6))],
    'grid_sample': lambda: [(lambda x, g, mode=mode, pad=pad: F.grid_sample(x, g, mode, pad, align_corners=pad == 'border'), image(), 0.7 * r(2, 3, 5, 2))
                            for mode in ('bilinear', 'nearest', 'bicubic') for pad in ('zeros', 'border', 'reflection')],
    'group_norm': lambda: [(lambda x: F.group_norm(x, 2), image()), (lambda x, w, b: F.group_norm(x, 2, w, b), image(), r(4), r(4))],
    'grouped_mm': lambda: [(F.grouped_mm, r(2, 4, 8), r(2, 8, 4))],
    'gumbel_softmax': lambda: [(F.gumbel_softmax, r(3, 5))],
    'hardshrink': lambda: [(F.hardshrink, r(3, 5))],
    'hardsigmoid': lambda: [(lambda x: F.hardsigmoid(x), 3 * r(3, 5))],
    'hardswish': lambda: [(F.hardswish, 3 * r(3, 5))],
    'hardtanh': lambda: [(F.hardtanh, r(3, 5))],
    'hardtanh_': lambda: [(lambda x: F.hardtanh_(x * 2), r(3, 5))],
    'hinge_embedding_loss': lambda: [(F.hinge_embedding_loss, r(4, 3), signs(4, 3))],
    'huber_loss': lambda: [(F.huber_loss, r(4, 3), r(4, 3))],
    'instance_norm': lambda: [(F.instance_norm, image())],
    'interpolate': lambda: [(lambda x: F.interpolate(x, scale_factor=2), image()), (lambda x: F.interpolate(x, (4, 9), mode='area'), image()), (lambda x: F.interpolate(x, (4, 9), mode='bilinear', antialias=True), image()),
                            (lambda x: F.interpolate(x, 8, mode='trilinear'), volume()), (lambda x: F.interpolate(x, 8, mode='nearest-exact'), line())],
    'kl_div': lambda: [(lambda x, y: F.kl_div(x, y, reduction='batchmean'), r(4, 3), probability(4, 3))],
    'l1_loss': lambda: [(F.l1_loss, r(4, 3), r(4, 3))],
    'layer_norm': lambda: [(lambda x: F.layer_norm(x, (6,)), image()), (lambda x, w, b: F.layer_norm(x, (6,), w, b), image(), r(6), r(6))],
    'leaky_relu': lambda: [(F.leaky_relu, r(3, 5))],
    'leaky_relu_': lambda: [(lambda x: F.leaky_relu_(x * 2), r(3, 5))],
    'linear': lambda: [(F.linear, r(2, 4), r(3, 4), r(3))],
    'linear_cross_entropy': lambda: [(F.linear_cross_entropy, r(6, 4), r(5, 4), i(5, 6))],
    'local_response_norm': lambda: [(lambda x: F.local_response_norm(x, 3), image())],
    'log_softmax': lambda: [(lambda x: F.log_softmax(x, -1), r(3, 5))],
    'logsigmoid': lambda: [(F.logsigmoid, r(3, 5))],
    'margin_ranking_loss': lambda: [(F.margin_ranking_loss, r(4), r(4), signs(4))],
    'mish': lambda: [(F.mish, r(3, 5))],
    'mse_loss': lambda: [(F.mse_loss, r(4, 3), r(4, 3))],
    'multi_head_attention_forward': lambda: [(lambda x, w, o: F.multi_head_attention_forward(x, x, x, 8, 2, w, None, None, None, False, 0.0, o, None)[0], r(5, 2, 8), r(24, 8), r(8, 8))],
    'multi_margin_loss': lambda: [(F.multi_margin_loss, r(4, 5), i(5, 4))],
    'multilabel_margin_loss': lambda: [(F.multilabel_margin_loss, r(2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]]))],
    'multilabel_soft_margin_loss': lambda: [(F.multilabel_soft_margin_loss, r(4, 3), bits(4, 3))],
    'native_channel_shuffle': lambda: [(lambda x: F.native_channel_shuffle(x, 2), fixed(image()))],
    'nll_loss': lambda: [(F.nll_loss, r(4, 5), i(5, 4))],
    'normalize': lambda: [(F.normalize, r(4, 5)), (lambda x: F.normalize(x, p=1, dim=-1), r(4, 5))],
    'one_hot': lambda: [(lambda t, w: F.one_hot(t, 5) * w, i(5, 4), r(5))],
    'pad': lambda: [(lambda x: F.pad(x, (1, 2)), r(3, 5)), (lambda x: F.pad(x, (1, 2, 0, 1), mode='reflect'), image()), (lambda x: F.pad(x, (1, 2), mode='circular'), line()), (lambda x: F.pad(x, (-1, 2), value=1.0), r(3, 5))],
    'pairwise_distance': lambda: [(F.pairwise_distance, r(4, 5), r(4, 5))],
    'pdist': lambda: [(F.pdist, r(4, 5))],
    'pixel_shuffle': lambda: [(lambda x: F.pixel_shuffle(x, 2), image())],
    'pixel_unshuffle': lambda: [(lambda x: F.pixel_unshuffle(x, 2), image())],
    'poisson_nll_loss': lambda: [(F.poisson_nll_loss, r(4, 3), probability(4, 3))],
    'prelu': lambda: [(F.prelu, image(), r(4))],
    'relu': lambda: [(F.relu, r(3, 5))],
    'relu6': lambda: [(F.relu6, 4 * r(3, 5))],
    'relu_': lambda: [(lambda x: F.relu_(x * 2), r(3, 5))],
    'rms_norm': lambda: [(lambda x: F.rms_norm(x, (6,)), image())],
    'rrelu': lambda: [(F.rrelu, r(3, 5))],
    'rrelu_': lambda: [(lambda x: F.rrelu_(x * 2), r(3, 5))],
    'rrelu in training': lambda: [(lambda x: F.rrelu(x, training=True), r(3, 5))],
    'scaled_dot_product_attention': lambda: [(F.scaled_dot_product_attention, r(2, 2, 5, 4), r(2, 2, 6, 4), r(2, 2, 6, 4)), (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), r(2, 5, 4), r(2, 5, 4), r(2, 5, 4)),
                                             (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), r(2, 4, 5, 4), r(2, 2, 5, 4), r(2, 2, 5, 4)),
                                             (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), r(2, 2, 5, 4), r(2, 2, 6, 4), r(2, 2, 6, 4), r(5, 6))],
    'selu': lambda: [(F.selu, r(3, 5))],
    'selu_': lambda: [(lambda x: F.selu_(x * 2), r(3, 5))],
    'sigmoid': lambda: [(F.sigmoid, r(3, 5))],
    'silu': lambda: [(F.silu, r(3, 5))],
    'smooth_l1_loss': lambda: [(F.smooth_l1_loss, r(4, 3), r(4, 3))],
    'soft_margin_loss': lambda: [(F.soft_margin_loss, r(4, 3), signs(4, 3))],
    'softmax': lambda: [(lambda x: F.softmax(x, -1), r(3, 5))],
    'softmin': lambda: [(lambda x: F.softmin(x, -1), r(3, 5))],
    'softplus': lambda: [(F.softplus, r(3, 5))],
    'softshrink': lambda: [(F.softshrink, r(3, 5))],
    'softsign': lambda: [(F.softsign, r(3, 5))],
    'tanh': lambda: [(F.tanh, r(3, 5))],
    'tanhshrink': lambda: [(F.tanhshrink, r(3, 5))],
    'threshold': lambda: [(lambda x: F.threshold(x, 0.1, 2), r(3, 5))],
    'threshold_': lambda: [(lambda x: F.threshold_(x * 2, 0.1, 2), r(3, 5))],
    'triplet_margin_loss': lambda: [(F.triplet_margin_loss, r(4, 5), r(4, 5), r(4, 5))],
    'triplet_margin_with_distance_loss': lambda: [(F.triplet_margin_with_distance_loss, r(4, 5), r(4, 5), r(4, 5))],
    'unfold': lambda: [(lambda x: F.unfold(x, 2), image())],
    'upsample': lambda: [(lambda x: F.upsample(x, scale_factor=2), image())],
    'upsample_bilinear': lambda: [(lambda x: F.upsample_bilinear(x, scale_factor=2), image())],
    'upsample_nearest': lambda: [(lambda x: F.upsample_nearest(x, scale_factor=2), image())],
}

# Functions of torch and methods of tensors that ordinary modules call: name: (function, inputs).
TENSORS = {
    'topk': lambda: [(lambda x: x.topk(2)[0] * x.topk(2, dim=1)[1].sum(), r(2, 5, 4)), (lambda x: torch.topk(x, 3, dim=1, largest=False), r(2, 5))],
    'sort': lambda: [(lambda x: x.sort(), r(2, 5)), (lambda x: torch.sort(x, dim=0, descending=True)[0], r(4, 3)), (lambda x: torch.sort(x, stable=True)[1], r(4, 3))],
    'argsort': lambda: [(lambda x: x.argsort(-1, descending=True), r(2, 5)), (lambda x: torch.argsort(x, dim=0), r(2, 5))],
    'kthvalue': lambda: [(lambda x: x.kthvalue(2, dim=-1)[0], r(2, 5))],
    'median': lambda: [(lambda x: x.median(dim=1), r(2, 5))],
    'gather': lambda: [(lambda x, t: x.gather(1, t), r(3, 5), i(5, 3, 4)), (lambda x, t: torch.gather(x, 0, t), r(3, 5), i(3, 2, 5))],
    'take_along_dim': lambda: [(lambda x, t: torch.take_along_dim(x, t, dim=1), r(3, 5), i(5, 3, 4))],
    'scatter': lambda: [(lambda x, s: x.scatter(1, torch.arange(5).flip(0).expand(3, 5), s), r(3, 5), r(3, 5)), (lambda x, t: x.scatter(1, t, 0.5), r(3, 5), i(5, 3, 2)), (lambda x, t: torch.zeros_like(x).scatter_(1, t, 1.0) * x, r(3, 5), i(5, 3, 2))],
    'scatter_add': lambda: [(lambda x, t, s: x.scatter_add(0, t, s), r(3, 5), i(3, 4, 5), r(4, 5)), (lambda x, t, s: torch.scatter_add(x, 1, t, s), r(3, 5), i(5, 3, 7), r(3, 7))],
    'scatter_reduce': lambda: [(lambda x, t, s: x.scatter_reduce(1, t, s, 'sum'), r(3, 5), i(5, 3, 7), r(3, 7))],
    'index_add': lambda: [(lambda x, t, s: x.index_add(0, t, s), r(3, 5), i(3, 4), r(4, 5)), (lambda x, t, s: x.index_add(1, t, s, alpha=2), r(3, 5), i(5, 4), r(3, 4))],
    'index_select': lambda: [(lambda x, t: x.index_select(1, t), r(3, 5), i(5, 4))],
    'index_fill': lambda: [(lambda x: x.index_fill(1, torch.tensor([0, 2]), 0.5), r(3, 5))],
    'index_copy': lambda: [(lambda x, s: x.index_copy(1, torch.tensor([3, 1]), s), r(3, 5), r(3, 2))],
    'x[i]': lambda: [(lambda x, t: x[t], r(3, 5), i(3, 4)), (lambda x, t: x[torch.arange(3), t], r(3, 5), i(5, 3)), (lambda x: x[:, -1], r(3, 5)), (lambda x: x[..., None, 1:3], r(3, 5)), (lambda x: x[:, [2, 0]], r(3, 5))],
    'x[mask] = v': lambda: [(lambda x: masked_in_place(x), r(3, 5))],
    'x[i] = v': lambda: [(lambda x, s: put_in_place(x, s), r(3, 5), r(3, 2))],
    'masked_fill': lambda: [(lambda x: x.masked_fill(x > 0.5, 0.0), r(3, 5)), (lambda x: x.masked_fill(torch.ones(5, 5).tril() == 0, float('-inf')).softmax(-1), r(2, 5, 5))],
    'equal to infinity': lambda: [(lambda x: masked_softmax(x.masked_fill(x > -0.5, -INFINITE)), r(4, 3)), (lambda x: masked_softmax(x.masked_fill(x > -0.5, -INFINITE) + fixed_mask(4)), r(4, 4)),
                                  (lambda x: torch.where(x.masked_fill(x > 0, INFINITE) != INFINITE, x, 0.0), r(3, 5))],
    'where': lambda: [(lambda x, y: torch.where(x > y, x, y * 2), r(3, 5), r(3, 5))],
    'clamp': lambda: [(lambda x: x.clamp(min=-0.5), r(3, 5)), (lambda x, y: torch.clamp(x, max=y), r(3, 5), r(5))],
    'prod': lambda: [(lambda x: x.prod(), r(3, 5)), (lambda x: x.prod(dim=1, keepdim=True), r(3, 5))],
    'std': lambda: [(lambda x: x.std(), r(3, 5)), (lambda x: x.std(dim=1), r(3, 5)), (lambda x: torch.std(x, dim=(0, 1), unbiased=False), r(3, 5, 2)), (lambda x: torch.std_mean(x, dim=-1), r(3, 5))],
    'var': lambda: [(lambda x: x.var() + x.var(0, correction=0.5), r(3, 5)), (lambda x: x.var(dim=1, unbiased=False, keepdim=True), r(3, 5)), (lambda x: torch.var_mean(x, dim=-1), r(3, 5))],
    'all, any': lambda: [(lambda x: x * (x > 0).any(dim=1, keepdim=True) + (x > -9).all(), r(3, 5))],
    'amax, amin, aminmax': lambda: [(lambda x: x.amax(1) + x.amin((0, 1)) + x.aminmax(dim=1)[0], r(3, 3))],
    'argmax, argmin': lambda: [(lambda x: x.argmax(1) + x.argmin(dim=1) + x.argmax(), r(3, 5)), (lambda x: x * x.argmax(1, keepdim=True), r(3, 5))],
    'logsumexp': lambda: [(lambda x: x.logsumexp(1), r(3, 5))],
    'cumsum, cumprod, cummax, logcumsumexp': lambda: [(lambda x: x.cumsum(1) + x.cumprod(0) + x.cummax(1)[0] + x.logcumsumexp(1), r(3, 5))],
    'norm': lambda: [(lambda x: x.norm(), r(3, 5)), (lambda x: x.norm(dim=-1), r(3, 5)), (lambda x: torch.linalg.norm(x, dim=1, keepdim=True), r(3, 5)), (lambda x: torch.linalg.vector_norm(x, 1), r(3, 5)), (lambda x: torch.norm(x, p=3, dim=1), r(3, 5)),
                     (lambda x: x.norm(INFINITE, dim=1) + F.normalize(x, p=INFINITE).T, r(3, 3)), (lambda x, y: F.pairwise_distance(x, y, p=INFINITE) + torch.dist(x, y, INFINITE), r(3, 5), r(3, 5))],
    'tril, triu': lambda: [(lambda x: x.tril() + x.triu(1), r(2, 4, 4))],
    'diagonal, diag, trace': lambda: [(lambda x: x.diagonal() + torch.diag(x) + x.trace(), r(4, 4)), (torch.diag, r(4)), (lambda x: torch.diag_embed(x), r(2, 4))],
    'outer, dot, mv': lambda: [(lambda x, y: torch.outer(x, y) + x.dot(y) + torch.outer(x, y).mv(y), r(4), r(4))],
    'recurrent layers with a state': lambda: [(Use(lambda m, x, h, c: m(x, (h, c)), nn.LSTM(4, 5, 2)), r(3, 2, 4), r(2, 2, 5), r(2, 2, 5)), (Use(lambda m, x, h: m(x, h)[0], nn.GRU(4, 5, bidirectional=True)), r(3, 2, 4), r(2, 2, 5)),
                                              (Use(lambda m, x: m(x)[0][:, -1], nn.LSTM(4, 5, 2, dropout=0.1, batch_first=True)), r(2, 3, 4)), (nn.GRU(4, 5), r(3, 4))],
    'packed sequences': lambda: [(Use(lambda m, x, n: m(nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True))[1], nn.GRU(4, 5, batch_first=True)), r(2, 3, 4), torch.tensor([3, 2]))],
    'cdist': lambda: [(torch.cdist, r(2, 4, 3), r(2, 5, 3)), (lambda x, y: torch.cdist(x, y, p=1), r(4, 3), r(5, 3)), (lambda x, y: torch.cdist(x, y, p=INFINITE), r(4, 3), r(5, 3))],
    'cross': lambda: [(lambda x, y: torch.linalg.cross(x, y), r(4, 3), r(4, 3))],
    'kron': lambda: [(torch.kron, r(2, 3), r(3, 2))],
    'tensordot': lambda: [(lambda x, y: torch.tensordot(x, y, dims=([1], [0])), r(2, 3, 4), r(3, 5))],
    'einsum': lambda: [(lambda x, y: torch.einsum('bij,bjk->bik', x, y), r(2, 3, 4), r(2, 4, 5)), (lambda x, y: torch.einsum('...i,oi->...o', x, y), r(2, 3, 4), r(5, 4)), (lambda x, y: torch.einsum('i,j', x, y), r(3), r(4))],
    'lerp, addcmul, addcdiv': lambda: [(lambda x, y: torch.lerp(x, y, 0.3) + torch.addcmul(x, x, y, value=2) + torch.addcdiv(x, x, y.exp(), value=0.5), r(3, 5), r(3, 5))],
    'trigonometry': lambda: [(lambda x: x.tan() + x.atan() + x.sinh() + x.cosh() + (0.9 * x.tanh()).asin() + (0.9 * x.tanh()).acos() + x.asinh() + (2 + x.square()).acosh() + (0.9 * x.tanh()).atanh(), r(3, 5)), (torch.atan2, r(3, 5), r(3, 5)), (torch.hypot, r(3, 5), r(3, 5))],
    'logarithms': lambda: [(lambda x: x.log1p() + x.expm1() + x.log2() + x.log10() + x.exp2() + x.logit(), probability(3, 5)), (torch.logaddexp, r(3, 5), r(3, 5)), (torch.xlogy, r(3, 5), probability(3, 5))],
    'special': lambda: [(lambda x: x.erf() + x.erfc() + x.sinc() + x.sigmoid() + torch.special.ndtr(x), r(3, 5))],
    'gamma functions': lambda: [(lambda x: x.lgamma() + x.digamma(), probability(3, 5))],
    'erfinv': lambda: [(lambda x: x.erfinv(), probability(3, 5))],
    'rounding': lambda: [(lambda x: x.floor() + x.ceil() + x.round() + x.trunc() + x.frac() + x.sign(), 3 * r(3, 5)), (lambda x: torch.fmod(x, 0.7) + torch.remainder(x, 0.7), r(3, 5)), (lambda x: torch.div(x, 0.3, rounding_mode='trunc') + x.detach() // 0.3, r(3, 5))],
    'nan_to_num': lambda: [(lambda x: x.nan_to_num(), r(3, 5))],
    'copysign': lambda: [(torch.copysign, r(3, 5), r(3, 5))],
    'pow': lambda: [(lambda x: x ** 2 + x.pow(3) + x.abs() ** 0.5 + 2 ** x + x.exp() ** x, r(3, 5)), (lambda x: x.float_power(2).to(x.dtype), r(3, 5))],
    'repeat': lambda: [(lambda x: x.repeat(2, 3), r(3, 5)), (lambda x: x.repeat_interleave(2, dim=1), r(3, 5)), (lambda x: x.tile(2), r(3, 5)), (lambda x: x.expand(4, -1, -1), r(3, 5))],
    'images without a batch': lambda: [
        *[(m, r(4, *[6] * n)) for n in (1, 2, 3) for m in (getattr(nn, f'MaxPool{n}d')(3, 2, 1), getattr(nn, f'AvgPool{n}d')(2), getattr(nn, f'AdaptiveAvgPool{n}d')(1), getattr(nn, f'AdaptiveAvgPool{n}d')(4),
                                                       getattr(nn, f'AdaptiveMaxPool{n}d')(4), getattr(nn, f'Conv{n}d')(4, 6, 3, stride=2), getattr(nn, f'ConvTranspose{n}d')(4, 3, 2))],
        (nn.LPPool2d(2, 2), r(4, 6, 6)), (nn.Unfold(2), r(4, 6, 6)), (nn.Fold((5, 6), 2), r(12, 20)),
        (nn.PixelShuffle(2), r(4, 3, 3)), (nn.PixelUnshuffle(2), r(2, 3, 4, 6, 6)), (lambda x: F.pixel_shuffle(x, 2), r(2, 3, 4, 6, 6))],
    'shapes': lambda: [(lambda x: x.movedim(0, 1) + x.mT + x.swapaxes(0, 1) + x.permute(1, 0) + x.T, r(4, 4)), (lambda x: torch.stack([x, 2 * x], 1).unbind(1)[1], r(3, 5)), (lambda x: torch.hstack([x, x]) + torch.vstack([x, x]).sum(), r(3, 5)), (lambda x: x.unflatten(1, (5, 1)).squeeze(-1).unsqueeze(0), r(3, 5))],
    'split, chunk': lambda: [(lambda x: x.split(2, 1), r(3, 5)), (lambda x: x.chunk(2, 1), r(3, 6)), (lambda x: torch.tensor_split(x, 3, dim=1), r(3, 7)), (lambda x: x.split([1, 4], dim=1)[1], r(3, 5))],
    'flip, roll, rot90': lambda: [(lambda x: x.flip(0) + x.roll(1, 1) + x.rot90() + x.roll(2), r(4, 4))],
    'meshgrid': lambda: [(lambda x, y: torch.stack(torch.meshgrid(x, y, indexing='ij')), r(3), r(4))],
    'bucketize, searchsorted': lambda: [(lambda x: x * torch.bucketize(x.detach(), torch.tensor([-1.0, 0.0, 1.0])), r(3, 5)), (lambda x, s: x * torch.searchsorted(s.detach().sort()[0], x.detach(), right=True), r(5), r(6))],
    'one_hot by comparison': lambda: [(lambda x, t: x * (t[:, None] == torch.arange(5)), r(4, 5), i(5, 4))],
    'fft': lambda: [(lambda x: torch.fft.rfft(x).abs(), r(3, 8))],
    'autocast, checkpoint': lambda: [(lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False), r(3, 5))],
    'svd': lambda: [(lambda x: torch.linalg.svd(x)[1], r(4, 4))],
    'eigh': lambda: [(lambda x: torch.linalg.eigh(x @ x.T)[0], r(4, 4))],
    'qr': lambda: [(lambda x: torch.linalg.qr(x)[0], r(4, 4))],
    'pinv': lambda: [(lambda x: torch.linalg.pinv(x), r(4, 4))],
    'matrix_exp': lambda: [(lambda x: torch.matrix_exp(x), r(4, 4))],
    'complex': lambda: [(lambda x: torch.view_as_real(torch.view_as_complex(x) * 1j), r(3, 2))],
    'nonzero': lambda: [(lambda x: x[x > 0].sum(), r(3, 5))],
    'unique': lambda: [(lambda x, t: torch.unique(t).sum() * x, r(3), i(5, 3))],
    'multinomial': lambda: [(lambda x: x.softmax(-1).multinomial(1), r(3, 5))],
    'item': lambda: [(lambda x: x * x.sum().item(), r(3, 5))],
    'control flow': lambda: [(lambda x: x if x.sum() > 0 else -x, r(3, 5))],
}


def masked_softmax(x):
    nothing = (x == -INFINITE).all(-1, keepdim=True)
    return torch.where(nothing, 0.0, x.masked_fill(nothing, 0.0).softmax(-1))


def fixed_mask(n):
    return torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1) > 0, -INFINITE)


def masked_in_place(x):
    y = x.clone()
    y[y > 0.5] = 0.25
    y[torch.tensor([True, False, True])] = -1.0
    return y


def put_in_place(x, s):
    y = x * 2
    y[:, 1:3] = s
    y[0] = 0.5
    y[1, 2] += 3
    return y


# What does not come over: what the message says.
REFUSED = {
    **{n: 'leaky_relu' for n in ('RReLU', 'rrelu in training')},
    **{n: 'max_pool2d or adaptive' for n in ('FractionalMaxPool2d', 'FractionalMaxPool3d', 'fractional_max_pool2d', 'fractional_max_pool3d', 'fractional_max_pool2d_with_indices', 'fractional_max_pool3d_with_indices')},
    **{n: 'conv_transpose2d' for n in ('MaxUnpool1d', 'MaxUnpool2d', 'MaxUnpool3d', 'max_unpool1d', 'max_unpool2d', 'max_unpool3d')},
    **{n: 'depends on values' for n in ('AdaptiveLogSoftmaxWithLoss', 'CTCLoss', 'ctc_loss', 'GaussianNLLLoss', 'gaussian_nll_loss', 'control flow', 'nonzero', 'unique')},
    **{n: 'cholesky' for n in ('svd', 'eigh', 'qr', 'pinv', 'matrix_exp')},
    **{n: 'imaginary' for n in ('fft', 'complex')},
    'item': 'the tensor itself', 'multinomial': 'give it as an input', 'gumbel_softmax': 'give it as an input', 'pdist': 'cdist', 'grouped_mm': 'matmul', 'feature_alpha_dropout': 'dropout2d',
    'FeatureAlphaDropout': 'dropout2d', 'CrossMapLRN2d': 'LocalResponseNorm', 'copysign': 'no such', 'packed sequences': 'by its length',
}
BASES = {'Module', 'Container', 'RNNBase', 'RNNCellBase'}
HELPERS = {'scaled_mm', 'scaled_grouped_mm', 'scaled_addmm', 'scaled_addmm_',      # of types of 8 bits, and GPUs
           'assert_int_or_pair', 'boolean_dispatch', 'handle_torch_function', 'has_torch_function', 'has_torch_function_unary', 'has_torch_function_variadic', 'Optional'}
