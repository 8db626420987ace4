#!/usr/bin/env python3
"""Makes test/gradients/Inputs/library.json with PyTorch: value and gradient of the functions that are written in the language itself, in f64.

usage: make_library.py
Each case is an expression of the language and the same in PyTorch, of tensors x, y and z. What is differentiated is sum((result + 0.3)^2), of a list for each of its tensors.
Needs PyTorch; nothing in `make check` does.
"""
import json
import math
import os

import torch
import torch.nn.functional as F

INTEGERS = {'spelt': [[1, 2, 2, 0], [3, 1, 0, 0], [2, 2, 2, 2]], 'steps': [7, 5, 7], 'letters': [3, 2, 2], 'label': [3, 0, 4, 1], 'ignored': [3, -1, 4, 1], 'node': [2, 0, 2, 1, 0, 2]}
SPELT, STEPS, LETTERS = (torch.tensor(INTEGERS[n]) for n in ('spelt', 'steps', 'letters'))
L, I, NODE = (torch.tensor(INTEGERS[n]) for n in ('label', 'ignored', 'node'))
MARKS = [-3.5, -3, -2, -1, -0.5, -1e-4, 0, 1e-4, 0.3, 0.5, 1, 1.5, 2, 2.5, 3, 4]   # kinks of activations among them


def drawn(seed, *shape, scale=1.0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale


def positive(seed, *shape):
    return drawn(seed, *shape).abs() + 0.3


A = torch.tensor(MARKS, dtype=torch.float64)
X, Y, Z = drawn(1, 4, 5), drawn(2, 4, 5), drawn(3, 4, 5)
P = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) * 0.8 + 0.1
SIGN = torch.where(drawn(5, 4, 5) > 0, 1.0, -1.0).double()
V, W = drawn(6, 5), drawn(7, 3)
R, M = drawn(8, 2, 3, 4), drawn(9, 3, 4, 4)
SEQ = drawn(10, 6, 3)
TURNED = 4 * torch.eye(4).flip(0)   # no pivot is on the diagonal


def segment_softmax(x):
    return torch.cat([torch.softmax(x[NODE == s], 0) for s in range(3)])[torch.argsort(torch.argsort(NODE, stable=True), stable=True)]


def fft(x):
    return torch.view_as_real(torch.fft.fft(torch.view_as_complex(x)))


def ifft(x):
    return torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x)))


# name, in the language, in PyTorch, tensors
CASES = [
    ('elu', 'elu(x)', F.elu, A),
    ('elu_alpha', 'elu(x, 0.5)', lambda x: F.elu(x, 0.5), A),
    ('selu', 'selu(x)', F.selu, A),
    ('celu', 'celu(x, 0.75)', lambda x: F.celu(x, 0.75), A),
    ('mish', 'mish(x)', F.mish, A),
    ('hardswish', 'hardswish(x)', F.hardswish, A[3:-2]),
    ('hardsigmoid', 'hardsigmoid(x)', lambda x: F.relu6(x + 3) / 6, A),
    ('hardtanh', 'hardtanh(x, -2, 1.5)', lambda x: F.hardtanh(x, -2, 1.5), A),
    ('softsign', 'softsign(x)', F.softsign, A),
    ('log_sigmoid', 'log_sigmoid(x)', F.logsigmoid, A),
    ('tanhshrink', 'tanhshrink(x)', F.tanhshrink, A),
    ('softshrink', 'softshrink(x)', F.softshrink, A),
    ('hardshrink', 'hardshrink(x)', F.hardshrink, A),
    ('threshold', 'threshold(x, 0.5, -1)', lambda x: F.threshold(x, 0.5, -1), A),
    ('prelu', 'prelu(x)', lambda x: F.prelu(x, torch.full((1,), 0.25, dtype=x.dtype)), A),
    ('prelu_channels', 'prelu(x, per_channel=true, init=0.1)', lambda x: F.prelu(x, torch.full((3,), 0.1, dtype=x.dtype)), R),
    ('prelu_given', 'prelu(x, weight=y)', F.prelu, R, W),
    ('glu', 'glu(x)', F.glu, R),
    ('glu_axis', 'glu(x, axis=0)', lambda x: F.glu(x, 0), R),
    ('geglu', 'geglu(x)', lambda x: F.gelu(x[..., :2]) * x[..., 2:], R),
    ('reglu', 'reglu(x)', lambda x: F.relu(x[..., :2]) * x[..., 2:], R),
    ('quick_gelu', 'quick_gelu(x)', lambda x: x * torch.sigmoid(1.702 * x), A),
    ('softmin', 'softmin(x, 0)', lambda x: F.softmin(x, 0), X),
    ('reciprocal', 'reciprocal(x)', torch.reciprocal, positive(11, 6)),
    ('tan', 'tan(x)', torch.tan, drawn(12, 6, scale=0.5)),
    ('sinh', 'sinh(x)', torch.sinh, A),
    ('cosh', 'cosh(x)', torch.cosh, A),
    ('atan', 'atan(x)', torch.atan, A),
    ('atan_large', 'atan(1e5 * x * x * x)', lambda x: torch.atan(1e5 * x * x * x), A),
    ('atan2', 'atan2(x, y)', torch.atan2, X, Y),
    ('atan2_axes', 'atan2(stack([x, 0 * x, -x, 0 * x]), stack([0 * x, x, 0 * x, -x]))', lambda x: torch.atan2(torch.stack([x, 0 * x, -x, 0 * x]), torch.stack([0 * x, x, 0 * x, -x])), positive(39, 3)),
    ('asin', 'asin(x)', torch.asin, drawn(37, 9).tanh()),
    ('acos', 'acos(x)', torch.acos, drawn(38, 9).tanh()),
    ('atan_twice', 'grad(grad(atan(x), x), x)', lambda x: -2 * x / (1 + x * x) ** 2, A),
    ('asinh', 'asinh(x)', torch.asinh, A),
    ('acosh', 'acosh(x)', torch.acosh, 1 + positive(40, 6)),
    ('atanh', 'atanh(x)', torch.atanh, drawn(37, 9).tanh()),
    ('hypot', 'hypot(x, y)', torch.hypot, X, Y),
    ('logaddexp', 'logaddexp(x, y)', torch.logaddexp, X, Y),
    ('xlogy', 'xlogy(floor(abs(x)) * x, y)', lambda x, y: torch.xlogy(x.abs().floor() * x, y), X, P),
    ('sinc', 'sinc(x)', torch.sinc, torch.cat([A[:5], A[8:], 0.3 * A[8:]])),
    ('lerp', 'lerp(x, y, z)', torch.lerp, X, Y, P),
    ('expm1', 'expm1(x)', torch.expm1, A),
    ('log1p', 'log1p(x)', torch.log1p, A[4:]),
    ('exp2', 'exp2(x)', torch.exp2, A),
    ('log2', 'log2(x)', torch.log2, positive(13, 6)),
    ('log10', 'log10(x)', torch.log10, positive(14, 6)),
    ('logit', 'logit(x)', torch.logit, P),
    ('logit_eps', 'logit(x, 0.3)', lambda x: torch.logit(x, 0.3), P),
    ('ceil', 'ceil(x)', torch.ceil, A),
    ('trunc', 'trunc(x)', torch.trunc, A),
    ('frac', 'frac(x)', torch.frac, A),
    ('round', 'round(x)', torch.round, torch.cat([A, 5 * V])),
    ('sign', 'sign(x)', torch.sign, A),
    ('isfinite', 'cast(isnan(x / x), "f32") + cast(isinf(1 / x), "f32") + cast(isfinite(x), "f32")',
     lambda x: (torch.isnan(x / x).double() + torch.isinf(1 / x) + torch.isfinite(x)).detach() + 0 * x, A[6:]),
    ('nan_to_num', 'nan_to_num(x + stop_gradient(x / 0), 2, 3, -4) + nan_to_num(x)', lambda x: torch.nan_to_num(x + (x / 0).detach(), 2.0, 3.0, -4.0) + x, A),
    ('fmod', 'fmod(3 * x, y)', lambda x, y: torch.fmod(3 * x, y), X, Y),
    ('fmod_number', 'fmod(x, -0.3)', lambda x: torch.fmod(x, -0.3), A),
    ('erfc', 'erfc(x)', torch.special.erfc, torch.cat([A, 3 * V])),
    ('erfc_twice', 'grad(grad(erfc(x), x), x)', lambda x: 4 / math.sqrt(math.pi) * x * (-x * x).exp(), A),
    ('erfinv', 'erfinv(x)', torch.special.erfinv, torch.cat([drawn(37, 9).tanh(), torch.tensor([0.0, 1 - 2**-10, 2**-13 - 1], dtype=torch.float64)])),
    ('lgamma', 'lgamma(x)', torch.lgamma, torch.cat([3 * V + 0.03, positive(42, 4) * 9])),
    ('digamma', 'digamma(x)', torch.digamma, torch.cat([3 * V + 0.03, positive(42, 4) * 9])),
    ('l1', 'l1(x, y)', F.l1_loss, X, Y),
    ('l1_sum', 'l1(x, y, reduction="sum")', lambda x, y: F.l1_loss(x, y, reduction='sum'), X, Y),
    ('huber', 'huber(x, y, 0.5, reduction="none")', lambda x, y: F.huber_loss(x, y, delta=0.5, reduction='none'), X, Y),
    ('smooth_l1', 'smooth_l1(x, y, 0.5)', lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), X, Y),
    ('nll_loss', 'nll_loss(log_softmax(x), label)', lambda x: F.nll_loss(F.log_softmax(x, -1), L), X),
    ('nll_loss_weighted', 'nll_loss(x, ignored, class_weights=stop_gradient(y), ignore_index=-1)', lambda x, y: F.nll_loss(x, I, y.detach(), ignore_index=-1) + 0 * y.sum(), X, positive(15, 5)),
    ('kl_div', 'kl_div(x, softmax(y))', lambda x, y: F.kl_div(x, F.softmax(y, -1)), X, Y),
    ('kl_div_log', 'kl_div(x, log_softmax(y), log_target=true, reduction="batchmean")', lambda x, y: F.kl_div(x, F.log_softmax(y, -1), log_target=True, reduction='batchmean'), X, Y),
    ('soft_cross_entropy', 'soft_cross_entropy(x, y, smoothing=0.1)', lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), X, P),
    ('binary_cross_entropy', 'binary_cross_entropy(x, y, pos_weight=2, reduction="sum")',
     lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.0).double(), reduction='sum'), X, P),
    ('binary_cross_entropy_weights', 'binary_cross_entropy(x, y, weights=stop_gradient(z))',
     lambda x, y, z: F.binary_cross_entropy_with_logits(x, y, weight=z.detach()) + 0 * z.sum(), X, P, Y),
    ('mse', 'mse(x, y, reduction="none")', lambda x, y: F.mse_loss(x, y, reduction='none'), X, Y),
    ('focal', 'focal(x, y)', lambda x, y: focal(x, y, 0.25, 2), X, P),
    ('focal_plain', 'focal(x, y, alpha=-1, gamma=1.5)', lambda x, y: focal(x, y, -1, 1.5), X, P),
    ('hinge', 'hinge(x, y)', lambda x, y: F.relu(1 - x * y).mean(), X, SIGN),
    ('hinge_embedding', 'hinge_embedding(x, stop_gradient(y))', lambda x, y: F.hinge_embedding_loss(x, y.detach()) + 0 * y.sum(), X, SIGN),
    ('margin_ranking', 'margin_ranking(x, y, z, margin=0.2)', lambda x, y, z: F.margin_ranking_loss(x, y, z, margin=0.2), X, Y, SIGN),
    ('cosine_similarity', 'cosine_similarity(x, y)', F.cosine_similarity, X, Y),
    ('cosine_embedding', 'cosine_embedding(x, y, stop_gradient(z), margin=0.1)', lambda x, y, z: F.cosine_embedding_loss(x, y, z.detach(), margin=0.1) + 0 * z.sum(), X, Y, SIGN[:, 0]),
    ('triplet_margin', 'triplet_margin(x, y, z)', F.triplet_margin_loss, X, Y, Z),
    ('triplet_margin_swap', 'triplet_margin(x, y, z, margin=2, p=1, swap=true)', lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=2, p=1, swap=True), X, Y, Z),
    ('info_nce', 'info_nce(x, y, 0.5, symmetric=true)', lambda x, y: clip(x, y, 0.5), X, Y),
    ('dice', 'dice(x, y)', lambda x, y: (1 - (2 * (x.sigmoid() * y).sum(1) + 1) / (x.sigmoid().sum(1) + y.sum(1) + 1)).mean(), X, P),
    ('gaussian_nll', 'gaussian_nll(x, y, z, full=true)', lambda x, y, z: F.gaussian_nll_loss(x, y, z, full=True), X, Y, P),
    ('poisson_nll', 'poisson_nll(x, stop_gradient(y), full=true)', lambda x, y: F.poisson_nll_loss(x, y.detach(), full=True) + 0 * y.sum(), X, 4 * P),
    ('poisson_nll_plain', 'poisson_nll(x, y, log_input=false)', lambda x, y: F.poisson_nll_loss(x, y, log_input=False), P, Y),
    ('norm', 'norm(x, axes=1)', lambda x: torch.linalg.vector_norm(x, 2, 1), X),
    ('norm_zero', 'norm(x * 0, axes=-1, keepdims=true)', lambda x: torch.linalg.vector_norm(x * 0, 2, -1, True), X),
    ('norm_1', 'norm(x, 1)', lambda x: torch.linalg.vector_norm(x, 1), X),
    ('norm_3', 'norm(x, 3, axes=[0, 2])', lambda x: torch.linalg.vector_norm(x, 3, (0, 2)), R),
    ('norm_inf', 'norm(x, "inf", axes=1)', lambda x: torch.linalg.vector_norm(x, math.inf, 1), X),
    ('normalize', 'normalize(x)', F.normalize, X),
    ('std', 'std(x, axes=1, correction=1)', lambda x: torch.std(x, 1), X),
    ('var', 'var(x, axes=[0, 2], correction=1, keepdims=true)', lambda x: torch.var(x, (0, 2), keepdim=True), R),
    ('prod', 'prod(x, axes=1)', lambda x: torch.prod(x, 1), X),
    ('prod_all', 'prod(x)', torch.prod, R),
    ('prod_integers', 'cast(prod(spelt + 3000, axes=1), "f32") + 0 * sum(x)', lambda x: torch.prod(SPELT + 3000, 1).double() + 0 * x.sum(), X),
    ('logsumexp', 'logsumexp(x, axes=[0, 2])', lambda x: torch.logsumexp(x, (0, 2)), R),
    ('logsumexp_keepdims', 'logsumexp(x, axes=-1, keepdims=true)', lambda x: torch.logsumexp(x, -1, True), X),
    ('all_any', 'where(all(x > -1, axes=1), 1, 0.0) + where(any(x > 1, axes=1), 2, 0.0) + 0 * sum(x, axes=1)',
     lambda x: (x > -1).all(1).double() + 2 * (x > 1).any(1) + 0 * x.sum(1), X),
    ('argmin', 'cast(argmin(x), "f32") + 0 * sum(x, axes=1)', lambda x: x.argmin(1).double() + 0 * x.sum(1), X),
    ('rest', 'x[..., 1] * x[0, ..., 2] + x[:, 0:1, ...][..., 0]', lambda x: x[..., 1] * x[0, ..., 2] + x[:, 0:1, ...][..., 0], R),
    ('einsum_rest', 'einsum("... i, j i -> ... j", x, y)', lambda x, y: torch.einsum('...i,ji->...j', x, y), R, drawn(34, 3, 4)),
    ('einsum_rests', 'einsum("... i j, ... j -> i ...", x, y)', lambda x, y: torch.einsum('...ij,...j->i...', x, y), R, drawn(35, 4)),
    ('einsum_ones', 'einsum("... i j, ... j k -> ... i k", x, y)', lambda x, y: torch.einsum('...ij,...jk->...ik', x, y), drawn(41, 1, 3, 2, 4), drawn(42, 2, 1, 4, 2)),
    ('einsum_implicit', 'einsum("z i, i b", x, y)', lambda x, y: torch.einsum('zi,ib', x, y), drawn(43, 3, 4), drawn(35, 4, 2)),
    ('einsum_implicit_rest', 'einsum("... i j, j", x, y)', lambda x, y: torch.einsum('...ij,j', x, y), R, drawn(35, 4)),
    ('einsum_diagonal', 'einsum("b i i -> b i", x)', lambda x: torch.einsum('bii->bi', x), M),
    ('einsum_trace', 'einsum("b i i, b i -> ", x, y)', lambda x, y: torch.einsum('bii,bi->', x, y), M, drawn(36, 3, 4)),
    ('tensor', 'x * tensor([[0.5, 1, 2, -1, 3]]) + tensor([1, 2, 3, 4, 7])', lambda x: x * torch.tensor([[0.5, 1, 2, -1, 3]]) + torch.tensor([1, 2, 3, 4, 7]), X),
    ('ctc_loss', 'ctc_loss(log_softmax(x), spelt, steps, letters)', lambda x: F.ctc_loss(x.log_softmax(-1), SPELT, STEPS, LETTERS), drawn(20, 7, 3, 5)),
    ('ctc_loss_sum', 'ctc_loss(log_softmax(x), spelt, steps, letters, blank=4, reduction="sum")',
     lambda x: F.ctc_loss(x.log_softmax(-1), SPELT, STEPS, LETTERS, blank=4, reduction='sum'), drawn(21, 7, 3, 5)),
    ('cross_entropy', 'cross_entropy(x, label, reduction="sum")', lambda x: F.cross_entropy(x, L, reduction='sum'), X),
    ('cross_entropy_ignored', 'cross_entropy(x, ignored, ignore_index=-1, smoothing=0.1)', lambda x: F.cross_entropy(x, I, ignore_index=-1, label_smoothing=0.1), X),
    ('cross_entropy_classes', 'cross_entropy(x, ignored, ignore_index=-1, class_weights=stop_gradient(y))',
     lambda x, y: F.cross_entropy(x, I, weight=y.detach(), ignore_index=-1) + 0 * y.sum(), X, positive(22, 5)),
    ('cross_entropy_classes_smoothed', 'cross_entropy(x, ignored, ignore_index=-1, class_weights=stop_gradient(y), smoothing=0.2)',
     lambda x, y: F.cross_entropy(x, I, weight=y.detach(), ignore_index=-1, label_smoothing=0.2) + 0 * y.sum(), X, positive(22, 5)),
    ('soft_cross_entropy_classes', 'soft_cross_entropy(x, y, smoothing=0.1, class_weights=stop_gradient(z))',
     lambda x, y, z: F.cross_entropy(x, y, weight=z.detach(), label_smoothing=0.1) + 0 * z.sum(), X, P, positive(22, 5)),
    ('layernorm', 'layernorm(x, axes=[1, 2], weight=y, bias=false)', lambda x, y: F.layer_norm(x, [3, 4], y), R, drawn(23, 3, 4)),
    ('layernorm_plain', 'layernorm(x, 1e-3, weight=false, bias=y)', lambda x, y: F.layer_norm(x, [5], None, y, 1e-3), X, V),
    ('rmsnorm', 'rmsnorm(x, weight=y)', lambda x, y: F.rms_norm(x, [5], y, 1e-6), X, V),
    ('groupnorm', 'groupnorm(x, 2, weight=false, bias=y)', lambda x, y: F.group_norm(x, 2, None, y), drawn(24, 2, 4, 3), drawn(25, 4)),
    ('batchnorm', 'batchnorm(x, weight=y, bias=false)', lambda x, y: F.batch_norm(x, None, None, y, training=True), R, W),
    ('instance_norm', 'instance_norm(x)', F.instance_norm, R),
    ('instance_norm_affine', 'instance_norm(x, weight=y, bias=z)', lambda x, y, z: F.instance_norm(x, weight=y, bias=z), R, W, drawn(26, 3)),
    ('local_response_norm', 'local_response_norm(x, 3, alpha=0.5)', lambda x: F.local_response_norm(x, 3, alpha=0.5), drawn(27, 2, 5, 3)),
    ('local_response_norm_even', 'local_response_norm(x, 2, k=2)', lambda x: F.local_response_norm(x, 2, k=2), drawn(28, 2, 5, 3)),
    ('weight_norm', 'weight_norm(x, 1)', lambda x: x / x.norm(dim=(0, 2), keepdim=True), R),
    ('embedding', 'embedding(label, weight=x)', lambda x: F.embedding(L, x), drawn(29, 5, 3)),
    ('linear', 'linear(x, 3, weight=y, bias=z)', F.linear, X, drawn(30, 3, 5), W),
    ('gru_cell', 'gru_cell(x, y, bias=false, weight_ih=z, weight_hh=concat([z, z]))', lambda x, y, z: gru(x, y, z), drawn(31, 2, 3), drawn(32, 2, 6), drawn(33, 18, 3)),
    ('one_hot', 'x * one_hot(label, 5)', lambda x: x * F.one_hot(L, 5), X),
    ('flip', 'flip(x, [0, -1])', lambda x: x.flip([0, -1]), R),
    ('negative_step', 'x[::-1, 2:0:-1, ::2]', lambda x: x.flip([0])[:, [2, 1], ::2], R),
    ('roll', 'roll(x, 3)', lambda x: x.roll(3), R),
    ('roll_axes', 'roll(x, [1, -1], axes=[0, 2])', lambda x: x.roll([1, -1], [0, 2]), R),
    ('tile', 'tile(x, [2, 1, 3])', lambda x: x.tile(2, 1, 3), X),
    ('tile_last', 'tile(x, 2)', lambda x: x.tile(2), R),
    ('repeat_interleave', 'repeat_interleave(x, 2, axis=1)', lambda x: x.repeat_interleave(2, 1), R),
    ('repeat_interleave_all', 'repeat_interleave(x, 3)', lambda x: x.repeat_interleave(3), V),
    ('stack', 'stack([x, y], 1)', lambda x, y: torch.stack([x, y], 1), X, Y),
    ('stack_last', 'stack([x, y, x], axis=-1)', lambda x, y: torch.stack([x, y, x], -1), X, Y),
    ('unstack', 'unstack(x, 1)', lambda x: torch.unbind(x, 1), R),
    ('squeeze', 'squeeze(unsqueeze(unsqueeze(x, -1), 0), [0, 1])', lambda x: x[..., None], X),
    ('squeeze_all', 'squeeze(reshape(x, [1, 4, 1, 5]))', lambda x: x + 0, X),
    ('expand', 'expand(unsqueeze(x, 1), [2, -1, 3, -1])', lambda x: x[:, None].expand(2, -1, 3, -1), X),
    ('tril', 'tril(x, -1)', lambda x: x.tril(-1), M),
    ('triu', 'triu(x, 1)', lambda x: x.triu(1), X),
    ('eye', 'x * eye(4, 5) + matmul(eye(4), x)', lambda x: x * torch.eye(4, 5) + x, X),
    ('outer', 'outer(x, y)', torch.outer, V, W),
    ('meshgrid', 'meshgrid([x, y])', lambda x, y: torch.meshgrid(x, y, indexing='ij'), V, W),
    ('arange', 'x + arange(5) * arange(7, -3, -2) + arange(0.5, 1, 0.1)', lambda x: x + torch.arange(5) * torch.arange(7, -3, -2) + torch.arange(0.5, 1, 0.1, dtype=x.dtype), X),
    ('linspace', 'x + linspace(-1, 2, 5)', lambda x: x + torch.linspace(-1, 2, 5, dtype=x.dtype), X),
    ('narrow', 'narrow(x, -1, -3, 2)', lambda x: x.narrow(-1, 1, 2), R),
    *[(f'rfft_{n}', 'rfft(x)', lambda x: torch.view_as_real(torch.fft.rfft(x)), drawn(50, 2, n)) for n in (9, 66, 77, 256)],
    *[(f'irfft_{n}', f'irfft(x, n={n})', lambda x, n=n: torch.fft.irfft(torch.view_as_complex(x), n), drawn(51, 2, n // 2 + 1, 2)) for n in (9, 70, 77, 91)],
    *[(f'fft_{n}', f'fft(x, inverse={inverse})', transform, drawn(52, 2, n, 2)) for n, inverse, transform in ((12, 'true', ifft), (70, 'false', fft), (144, 'true', ifft))],
    ('segment_softmax', 'segment_softmax(x, node, 4)', segment_softmax, SEQ),
    ('cholesky', 'cholesky(matmul(x, transpose(x)) + 2 * eye(4))', lambda x: torch.linalg.cholesky(x @ x.mT + 2 * torch.eye(4)), M),
    ('cholesky_one', 'cholesky(outer(x, x) + eye(5))', lambda x: torch.linalg.cholesky(torch.outer(x, x) + torch.eye(5)), V),
    ('solve', 'solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), M, drawn(60, 3, 4, 2)),
    ('solve_integers', 'reshape(det(cast(2 * eye(4), "i32") + cast(x > 0, "i32")), [3, 1, 1]) * solve(cast(3 * flip(eye(4), 0), "i32"), y)', lambda x, y: torch.linalg.det(2 * torch.eye(4) + (x > 0).to(x.dtype))[:, None, None] * (y.flip(1) / 3), M, drawn(60, 3, 4, 2)),
    ('solve_vectors', 'solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), M, drawn(61, 3, 4)),
    ('solve_vector', 'solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), M, drawn(62, 4)),
    ('solve_stretched', 'solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), drawn(63, 1, 4, 4), drawn(64, 2, 3, 4, 3)),
    ('solve_triangular', 'solve_triangular(x + 3 * eye(4), y)', lambda x, y: torch.linalg.solve_triangular(x + 3 * torch.eye(4), y, upper=False), M, drawn(65, 3, 4, 2)),
    ('solve_triangular_upper', 'solve_triangular(x + 3 * eye(4), y, upper=true)', lambda x, y: torch.linalg.solve_triangular(x + 3 * torch.eye(4), y, upper=True), M, drawn(66, 4, 2)),
    ('solve_triangular_unit', 'solve_triangular(x, y, unit=true)', lambda x, y: torch.linalg.solve_triangular(x, y, upper=False, unitriangular=True), M, drawn(67, 3, 4, 1)),
    ('inv', 'inv(x + 4 * flip(eye(4), 0))', lambda x: torch.linalg.inv(x + TURNED), M),
    ('det', 'det(x + 4 * flip(eye(4), 0))', lambda x: torch.linalg.det(x + TURNED), M),
    ('det_one', 'det(x)', torch.linalg.det, M[0]),
    ('slogdet', 'slogdet(x)', lambda x: list(torch.linalg.slogdet(x)), M),
    ('logdet', 'logdet(matmul(x, transpose(x)) + eye(4))', lambda x: torch.logdet(x @ x.mT + torch.eye(4)), M),
]


def focal(x, y, alpha, gamma):
    p, entropy = torch.sigmoid(x), F.binary_cross_entropy_with_logits(x, y, reduction='none')
    loss = entropy * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
    return (loss * (alpha * y + (1 - alpha) * (1 - y)) if alpha >= 0 else loss).mean()


def gru(x, h, w):
    cell = torch.nn.GRUCell(3, 6, bias=False, dtype=torch.float64)
    return torch.func.functional_call(cell, {'weight_ih': w, 'weight_hh': torch.cat([w, w], 1)}, (x, h))


def clip(x, y, temperature):
    logits = F.normalize(x) @ F.normalize(y).T / temperature
    return (F.cross_entropy(logits, torch.arange(len(x))) + F.cross_entropy(logits.T, torch.arange(len(x)))) / 2


def tensors_of(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def evaluate(function, inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    results = tensors_of(function(*inputs))
    loss = sum((r + 0.3).square().sum() for r in results)
    gradients = torch.autograd.grad(loss, inputs, allow_unused=True) if loss.requires_grad else [None] * len(inputs)
    case = {'shapes': [list(x.shape) for x in inputs], 'inputs': [x.flatten().tolist() for x in inputs]}
    return {**case, 'values': [r.double().flatten().tolist() for r in results], 'gradients': [(torch.zeros_like(x) if g is None else g).flatten().tolist() for x, g in zip(inputs, gradients)]}


def program(golden):
    """All cases: each argument is a parameter, to which the input is added."""
    signature, body, outputs = [f'{n}: i32{list(torch.tensor(v).shape)}' for n, v in INTEGERS.items()], [], []
    for name, expression, _, *inputs in CASES:
        for letter, x in zip('xyz', inputs):
            signature.append(f'{name}_{letter}: f32{list(x.shape)}')
            body.append(f'param {name}_d{letter}: f32{list(x.shape)}')
            body.append(f'{letter} = {name}_{letter} + {name}_d{letter}')
        results = [f'{name}_{i}' for i in range(len(golden[name]['values']))]
        body.append(', '.join(results) + f' = {expression}')
        outputs += results
    inputs = ', '.join(s.split(':')[0] for s in signature)
    lines = ['model functions(' + ',\n    '.join(signature) + ') {'] + body + [', '.join(outputs), '}', 'train {', f'data {inputs} = safetensors("none", whole=true)']
    lines += ['results' + f' = functions({inputs})', 'loss ' + ' + '.join(f'sum(square(results[{i}] + 0.3))' for i in range(len(outputs))), 'optimizer sgd(lr=1)', 'steps 1', '}']
    return '\n'.join(lines) + '\n'


def main():
    cases = {name: evaluate(function, inputs) for name, _, function, *inputs in CASES}
    golden = {'torch': torch.__version__.split('+')[0], 'integers': {n: [list(torch.tensor(v).shape), torch.tensor(v).flatten().tolist()] for n, v in INTEGERS.items()}, 'program': program(cases), 'cases': cases}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'test', 'gradients', 'Inputs', 'library.json')
    with open(path, 'w') as f:
        f.write(json.dumps(golden, separators=(',', ':')).replace('},"', '},\n"') + '\n')


if __name__ == '__main__':
    main()
