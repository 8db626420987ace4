#!/usr/bin/env python3
"""Values and gradients of functions as PyTorch has them, for test/gradients/check_functions.py: make_functions.py library|images|attention > test/gradients/Inputs/NAME.json

Each case: an expression of the language, its tensors, given or by their shapes, and the same in PyTorch, in f64. What is differentiated is sum((result + 0.3)^2), of a list for each of its tensors.
Small tensors are written down whole, of others a digest. Needs PyTorch; nothing in `make check` does.
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_format as gf

# --- functions that are written in the language itself: (call, PyTorch, x, y, z)

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


library = [
    ('elu(x)', F.elu, A),
    ('elu(x, 0.5)', lambda x: F.elu(x, 0.5), A),
    ('selu(x)', F.selu, A),
    ('celu(x, 0.75)', lambda x: F.celu(x, 0.75), A),
    ('mish(x)', F.mish, A),
    ('hardswish(x)', F.hardswish, A),
    ('hardsigmoid(x)', lambda x: F.relu6(x + 3) / 6, A),
    ('hardtanh(x, -2, 1.5)', lambda x: F.hardtanh(x, -2, 1.5), A),
    ('softsign(x)', F.softsign, A),
    ('log_sigmoid(x)', F.logsigmoid, A),
    ('tanhshrink(x)', F.tanhshrink, A),
    ('softshrink(x)', F.softshrink, A),
    ('hardshrink(x)', F.hardshrink, A),
    ('threshold(x, 0.5, -1)', lambda x: F.threshold(x, 0.5, -1), A),
    ('prelu(x)', lambda x: F.prelu(x, torch.full((1,), 0.25, dtype=x.dtype)), A),
    ('prelu(x, per_channel=true, init=0.1)', lambda x: F.prelu(x, torch.full((3,), 0.1, dtype=x.dtype)), R),
    ('prelu(x, weight=y)', F.prelu, R, W),
    ('glu(x)', F.glu, R),
    ('glu(x, axis=0)', lambda x: F.glu(x, 0), R),
    ('geglu(x)', lambda x: F.gelu(x[..., :2]) * x[..., 2:], R),
    ('reglu(x)', lambda x: F.relu(x[..., :2]) * x[..., 2:], R),
    ('quick_gelu(x)', lambda x: x * torch.sigmoid(1.702 * x), A),
    ('softmin(x, 0)', lambda x: F.softmin(x, 0), X),
    ('reciprocal(x)', torch.reciprocal, positive(11, 6)),
    ('tan(x)', torch.tan, drawn(12, 6, scale=0.5)),
    ('sinh(x)', torch.sinh, A),
    ('cosh(x)', torch.cosh, A),
    ('atan(x)', torch.atan, A),
    ('atan(1e5 * x * x * x)', lambda x: torch.atan(1e5 * x * x * x), A),
    ('atan2(x, y)', torch.atan2, X, Y),
    ('atan2(stack([x, 0 * x, -x, 0 * x]), stack([0 * x, x, 0 * x, -x]))', lambda x: torch.atan2(torch.stack([x, 0 * x, -x, 0 * x]), torch.stack([0 * x, x, 0 * x, -x])), positive(39, 3)),
    ('asin(x)', torch.asin, drawn(37, 9).tanh()),
    ('acos(x)', torch.acos, drawn(38, 9).tanh()),
    ('grad(grad(atan(x), x), x)', lambda x: -2 * x / (1 + x * x) ** 2, A),
    ('asinh(x)', torch.asinh, A),
    ('acosh(x)', torch.acosh, 1 + positive(40, 6)),
    ('atanh(x)', torch.atanh, drawn(37, 9).tanh()),
    ('hypot(x, y)', torch.hypot, X, Y),
    ('logaddexp(x, y)', torch.logaddexp, X, Y),
    ('xlogy(floor(abs(x)) * x, y)', lambda x, y: torch.xlogy(x.abs().floor() * x, y), X, P),
    ('sinc(x)', torch.sinc, torch.cat([A[:5], A[8:], 0.3 * A[8:]])),
    ('lerp(x, y, z)', torch.lerp, X, Y, P),
    ('expm1(x)', torch.expm1, A),
    ('log1p(x)', torch.log1p, A[4:]),
    ('exp2(x)', torch.exp2, A),
    ('log2(x)', torch.log2, positive(13, 6)),
    ('log10(x)', torch.log10, positive(14, 6)),
    ('logit(x)', torch.logit, P),
    ('logit(x, 0.3)', lambda x: torch.logit(x, 0.3), P),
    ('ceil(x)', torch.ceil, A),
    ('trunc(x)', torch.trunc, A),
    ('frac(x)', torch.frac, A),
    ('round(x)', torch.round, torch.cat([A, 5 * V])),
    ('sign(x)', torch.sign, A),
    ('cast(isnan(x / x), "f32") + cast(isinf(1 / x), "f32") + cast(isfinite(x), "f32")',
     lambda x: (torch.isnan(x / x).double() + torch.isinf(1 / x) + torch.isfinite(x)).detach() + 0 * x, A[6:]),
    ('nan_to_num(x + stop_gradient(x / 0), 2, 3, -4) + nan_to_num(x)', lambda x: torch.nan_to_num(x + (x / 0).detach(), 2.0, 3.0, -4.0) + x, A),
    ('fmod(3 * x, y)', lambda x, y: torch.fmod(3 * x, y), X, Y),
    ('fmod(x, -0.37)', lambda x: torch.fmod(x, -0.37), A),
    ('erfc(x)', torch.special.erfc, torch.cat([A, 3 * V])),
    ('grad(grad(erfc(x), x), x)', lambda x: 4 / math.sqrt(math.pi) * x * (-x * x).exp(), A),
    ('grad(grad(grad(grad(erfc(x), x), x), x), x)', lambda x: 8 / math.sqrt(math.pi) * x * (2 * x * x - 3) * (-x * x).exp(), A),
    ('erfinv(x)', torch.special.erfinv, torch.cat([drawn(37, 9).tanh(), torch.tensor([0.0, 1 - 2**-10, 2**-13 - 1], dtype=torch.float64)])),
    ('lgamma(x)', torch.lgamma, torch.cat([3 * V + 0.03, positive(42, 4) * 9])),
    ('digamma(x)', torch.digamma, torch.cat([3 * V + 0.03, positive(42, 4) * 9])),
    ('l1(x, y)', F.l1_loss, X, Y),
    ('l1(x, y, reduction="sum")', lambda x, y: F.l1_loss(x, y, reduction='sum'), X, Y),
    ('huber(x, y, 0.5, reduction="none")', lambda x, y: F.huber_loss(x, y, delta=0.5, reduction='none'), X, Y),
    ('smooth_l1(x, y, 0.5)', lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), X, Y),
    ('nll_loss(log_softmax(x), label)', lambda x: F.nll_loss(F.log_softmax(x, -1), L), X),
    ('nll_loss(x, ignored, class_weights=stop_gradient(y), ignore_index=-1)', lambda x, y: F.nll_loss(x, I, y.detach(), ignore_index=-1) + 0 * y.sum(), X, positive(15, 5)),
    ('kl_div(x, softmax(y))', lambda x, y: F.kl_div(x, F.softmax(y, -1)), X, Y),
    ('kl_div(x, log_softmax(y), log_target=true, reduction="batchmean")', lambda x, y: F.kl_div(x, F.log_softmax(y, -1), log_target=True, reduction='batchmean'), X, Y),
    ('soft_cross_entropy(x, y, smoothing=0.1)', lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), X, P),
    ('binary_cross_entropy(x, y, pos_weight=2, reduction="sum")',
     lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.0).double(), reduction='sum'), X, P),
    ('binary_cross_entropy(x, y, weights=stop_gradient(z))',
     lambda x, y, z: F.binary_cross_entropy_with_logits(x, y, weight=z.detach()) + 0 * z.sum(), X, P, Y),
    ('mse(x, y, reduction="none")', lambda x, y: F.mse_loss(x, y, reduction='none'), X, Y),
    ('focal(x, y)', lambda x, y: focal(x, y, 0.25, 2), X, P),
    ('focal(x, y, alpha=-1, gamma=1.5)', lambda x, y: focal(x, y, -1, 1.5), X, P),
    ('hinge(x, y)', lambda x, y: F.relu(1 - x * y).mean(), X, SIGN),
    ('hinge_embedding(x, stop_gradient(y))', lambda x, y: F.hinge_embedding_loss(x, y.detach()) + 0 * y.sum(), X, SIGN),
    ('margin_ranking(x, y, z, margin=0.2)', lambda x, y, z: F.margin_ranking_loss(x, y, z, margin=0.2), X, Y, SIGN),
    ('cosine_similarity(x, y)', F.cosine_similarity, X, Y),
    ('cosine_embedding(x, y, stop_gradient(z), margin=0.1)', lambda x, y, z: F.cosine_embedding_loss(x, y, z.detach(), margin=0.1) + 0 * z.sum(), X, Y, SIGN[:, 0]),
    ('triplet_margin(x, y, z)', F.triplet_margin_loss, X, Y, Z),
    ('triplet_margin(x, y, z, margin=2, p=1, swap=true)', lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=2, p=1, swap=True), X, Y, Z),
    ('info_nce(x, y, 0.5, symmetric=true)', lambda x, y: clip(x, y, 0.5), X, Y),
    ('dice(x, y)', lambda x, y: (1 - (2 * (x.sigmoid() * y).sum(1) + 1) / (x.sigmoid().sum(1) + y.sum(1) + 1)).mean(), X, P),
    ('gaussian_nll(x, y, z, full=true)', lambda x, y, z: F.gaussian_nll_loss(x, y, z, full=True), X, Y, P),
    ('poisson_nll(x, stop_gradient(y), full=true)', lambda x, y: F.poisson_nll_loss(x, y.detach(), full=True) + 0 * y.sum(), X, 4 * P),
    ('poisson_nll(x, y, log_input=false)', lambda x, y: F.poisson_nll_loss(x, y, log_input=False), P, Y),
    ('norm(x, axes=1)', lambda x: torch.linalg.vector_norm(x, 2, 1), X),
    ('norm(x * 0, axes=-1, keepdims=true)', lambda x: torch.linalg.vector_norm(x * 0, 2, -1, True), X),
    ('norm(x, 1)', lambda x: torch.linalg.vector_norm(x, 1), X),
    ('norm(x, 3, axes=[0, 2])', lambda x: torch.linalg.vector_norm(x, 3, (0, 2)), R),
    ('norm(x, "inf", axes=1)', lambda x: torch.linalg.vector_norm(x, math.inf, 1), X),
    ('normalize(x)', F.normalize, X),
    ('std(x, axes=1, correction=1)', lambda x: torch.std(x, 1), X),
    ('var(x, axes=[0, 2], correction=1, keepdims=true)', lambda x: torch.var(x, (0, 2), keepdim=True), R),
    ('prod(x, axes=1)', lambda x: torch.prod(x, 1), X),
    ('prod(x)', torch.prod, R),
    ('cast(prod(spelt + 3000, axes=1), "f32") + 0 * sum(x)', lambda x: torch.prod(SPELT + 3000, 1).double() + 0 * x.sum(), X),
    ('logsumexp(x, axes=[0, 2])', lambda x: torch.logsumexp(x, (0, 2)), R),
    ('logsumexp(x, axes=-1, keepdims=true)', lambda x: torch.logsumexp(x, -1, True), X),
    ('where(all(x > -1, axes=1), 1, 0.0) + where(any(x > 1, axes=1), 2, 0.0) + 0 * sum(x, axes=1)',
     lambda x: (x > -1).all(1).double() + 2 * (x > 1).any(1) + 0 * x.sum(1), X),
    ('cast(argmin(x), "f32") + 0 * sum(x, axes=1)', lambda x: x.argmin(1).double() + 0 * x.sum(1), X),
    ('x[..., 1] * x[0, ..., 2] + x[:, 0:1, ...][..., 0]', lambda x: x[..., 1] * x[0, ..., 2] + x[:, 0:1, ...][..., 0], R),
    ('einsum("... i, j i -> ... j", x, y)', lambda x, y: torch.einsum('...i,ji->...j', x, y), R, drawn(34, 3, 4)),
    ('einsum("... i j, ... j -> i ...", x, y)', lambda x, y: torch.einsum('...ij,...j->i...', x, y), R, drawn(35, 4)),
    ('einsum("... i j, ... j k -> ... i k", x, y)', lambda x, y: torch.einsum('...ij,...jk->...ik', x, y), drawn(41, 1, 3, 2, 4), drawn(42, 2, 1, 4, 2)),
    ('einsum("z i, i b", x, y)', lambda x, y: torch.einsum('zi,ib', x, y), drawn(43, 3, 4), drawn(35, 4, 2)),
    ('einsum("... i j, j", x, y)', lambda x, y: torch.einsum('...ij,j', x, y), R, drawn(35, 4)),
    ('einsum("b i i -> b i", x)', lambda x: torch.einsum('bii->bi', x), M),
    ('einsum("b i i, b i -> ", x, y)', lambda x, y: torch.einsum('bii,bi->', x, y), M, drawn(36, 3, 4)),
    ('x * tensor([[0.5, 1, 2, -1, 3]]) + tensor([1, 2, 3, 4, 7])', lambda x: x * torch.tensor([[0.5, 1, 2, -1, 3]]) + torch.tensor([1, 2, 3, 4, 7]), X),
    ('ctc_loss(log_softmax(x), spelt, steps, letters)', lambda x: F.ctc_loss(x.log_softmax(-1), SPELT, STEPS, LETTERS), drawn(20, 7, 3, 5)),
    ('ctc_loss(log_softmax(x), spelt, steps, letters, blank=4, reduction="sum")',
     lambda x: F.ctc_loss(x.log_softmax(-1), SPELT, STEPS, LETTERS, blank=4, reduction='sum'), drawn(21, 7, 3, 5)),
    ('cross_entropy(x, label, reduction="sum")', lambda x: F.cross_entropy(x, L, reduction='sum'), X),
    ('cross_entropy(x, ignored, ignore_index=-1, smoothing=0.1)', lambda x: F.cross_entropy(x, I, ignore_index=-1, label_smoothing=0.1), X),
    ('cross_entropy(x, ignored, ignore_index=-1, class_weights=stop_gradient(y))',
     lambda x, y: F.cross_entropy(x, I, weight=y.detach(), ignore_index=-1) + 0 * y.sum(), X, positive(22, 5)),
    ('cross_entropy(x, ignored, ignore_index=-1, class_weights=stop_gradient(y), smoothing=0.2)',
     lambda x, y: F.cross_entropy(x, I, weight=y.detach(), ignore_index=-1, label_smoothing=0.2) + 0 * y.sum(), X, positive(22, 5)),
    ('soft_cross_entropy(x, y, smoothing=0.1, class_weights=stop_gradient(z))',
     lambda x, y, z: F.cross_entropy(x, y, weight=z.detach(), label_smoothing=0.1) + 0 * z.sum(), X, P, positive(22, 5)),
    ('layernorm(x, axes=[1, 2], weight=y, bias=false)', lambda x, y: F.layer_norm(x, [3, 4], y), R, drawn(23, 3, 4)),
    ('layernorm(x, 1e-3, weight=false, bias=y)', lambda x, y: F.layer_norm(x, [5], None, y, 1e-3), X, V),
    ('rmsnorm(x, weight=y)', lambda x, y: F.rms_norm(x, [5], y, 1e-6), X, V),
    ('groupnorm(x, 2, weight=false, bias=y)', lambda x, y: F.group_norm(x, 2, None, y), drawn(24, 2, 4, 3), drawn(25, 4)),
    ('batchnorm(x, weight=y, bias=false)', lambda x, y: F.batch_norm(x, None, None, y, training=True), R, W),
    ('instance_norm(x)', F.instance_norm, R),
    ('instance_norm(x, weight=y, bias=z)', lambda x, y, z: F.instance_norm(x, weight=y, bias=z), R, W, drawn(26, 3)),
    ('local_response_norm(x, 3, alpha=0.5)', lambda x: F.local_response_norm(x, 3, alpha=0.5), drawn(27, 2, 5, 3)),
    ('local_response_norm(x, 2, k=2)', lambda x: F.local_response_norm(x, 2, k=2), drawn(28, 2, 5, 3)),
    ('weight_norm(x, 1)', lambda x: x / x.norm(dim=(0, 2), keepdim=True), R),
    ('embedding(label, weight=x)', lambda x: F.embedding(L, x), drawn(29, 5, 3)),
    ('linear(x, 3, weight=y, bias=z)', F.linear, X, drawn(30, 3, 5), W),
    ('gru_cell(x, y, bias=false, weight_ih=z, weight_hh=concat([z, z]))', lambda x, y, z: gru(x, y, z), drawn(31, 2, 3), drawn(32, 2, 6), drawn(33, 18, 3)),
    ('x * one_hot(label, 5)', lambda x: x * F.one_hot(L, 5), X),
    ('flip(x, [0, -1])', lambda x: x.flip([0, -1]), R),
    ('x[::-1, 2:0:-1, ::2]', lambda x: x.flip([0])[:, [2, 1], ::2], R),
    ('roll(x, 3)', lambda x: x.roll(3), R),
    ('roll(x, [1, -1], axes=[0, 2])', lambda x: x.roll([1, -1], [0, 2]), R),
    ('tile(x, [2, 1, 3])', lambda x: x.tile(2, 1, 3), X),
    ('tile(x, 2)', lambda x: x.tile(2), R),
    ('repeat_interleave(x, 2, axis=1)', lambda x: x.repeat_interleave(2, 1), R),
    ('repeat_interleave(x, 3)', lambda x: x.repeat_interleave(3), V),
    ('stack([x, y], 1)', lambda x, y: torch.stack([x, y], 1), X, Y),
    ('stack([x, y, x], axis=-1)', lambda x, y: torch.stack([x, y, x], -1), X, Y),
    ('unstack(x, 1)', lambda x: torch.unbind(x, 1), R),
    ('squeeze(unsqueeze(unsqueeze(x, -1), 0), [0, 1])', lambda x: x[..., None], X),
    ('squeeze(reshape(x, [1, 4, 1, 5]))', lambda x: x + 0, X),
    ('expand(unsqueeze(x, 1), [2, -1, 3, -1])', lambda x: x[:, None].expand(2, -1, 3, -1), X),
    ('tril(x, -1)', lambda x: x.tril(-1), M),
    ('triu(x, 1)', lambda x: x.triu(1), X),
    ('x * eye(4, 5) + matmul(eye(4), x)', lambda x: x * torch.eye(4, 5) + x, X),
    ('outer(x, y)', torch.outer, V, W),
    ('meshgrid([x, y])', lambda x, y: torch.meshgrid(x, y, indexing='ij'), V, W),
    ('x + arange(5) * arange(7, -3, -2) + arange(0.5, 1, 0.1)', lambda x: x + torch.arange(5) * torch.arange(7, -3, -2) + torch.arange(0.5, 1, 0.1, dtype=x.dtype), X),
    ('x + linspace(-1, 2, 5)', lambda x: x + torch.linspace(-1, 2, 5, dtype=x.dtype), X),
    ('narrow(x, -1, -3, 2)', lambda x: x.narrow(-1, 1, 2), R),
    *[('rfft(x)', lambda x: torch.view_as_real(torch.fft.rfft(x)), drawn(50, 2, n)) for n in (9, 66, 77, 256)],
    *[(f'irfft(x, n={n})', lambda x, n=n: torch.fft.irfft(torch.view_as_complex(x), n), drawn(51, 2, n // 2 + 1, 2)) for n in (9, 70, 77, 91)],
    *[(f'fft(x, inverse={inverse})', transform, drawn(52, 2, n, 2)) for n, inverse, transform in ((12, 'true', ifft), (70, 'false', fft), (144, 'true', ifft))],
    ('segment_softmax(x, node, 4)', segment_softmax, SEQ),
    ('cholesky(matmul(x, transpose(x)) + 2 * eye(4))', lambda x: torch.linalg.cholesky(x @ x.mT + 2 * torch.eye(4)), M),
    ('cholesky(outer(x, x) + eye(5))', lambda x: torch.linalg.cholesky(torch.outer(x, x) + torch.eye(5)), V),
    ('solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), M, drawn(60, 3, 4, 2)),
    ('reshape(det(cast(2 * eye(4), "i32") + cast(x > 0, "i32")), [3, 1, 1]) * solve(cast(3 * flip(eye(4), 0), "i32"), y)', lambda x, y: torch.linalg.det(2 * torch.eye(4) + (x > 0).to(x.dtype))[:, None, None] * (y.flip(1) / 3), M, drawn(60, 3, 4, 2)),
    ('solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), M, drawn(61, 3, 4)),
    ('solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), M, drawn(62, 4)),
    ('solve(x + 4 * flip(eye(4), 0), y)', lambda x, y: torch.linalg.solve(x + TURNED, y), drawn(63, 1, 4, 4), drawn(64, 2, 3, 4, 3)),
    ('solve_triangular(x + 3 * eye(4), y)', lambda x, y: torch.linalg.solve_triangular(x + 3 * torch.eye(4), y, upper=False), M, drawn(65, 3, 4, 2)),
    ('solve_triangular(x + 3 * eye(4), y, upper=true)', lambda x, y: torch.linalg.solve_triangular(x + 3 * torch.eye(4), y, upper=True), M, drawn(66, 4, 2)),
    ('solve_triangular(x, y, unit=true)', lambda x, y: torch.linalg.solve_triangular(x, y, upper=False, unitriangular=True), M, drawn(67, 3, 4, 1)),
    ('inv(x + 4 * flip(eye(4), 0))', lambda x: torch.linalg.inv(x + TURNED), M),
    ('inv(x + 4 * flip(eye(4), 0))', lambda x: torch.linalg.inv(x + TURNED), drawn(68, 4, 4, 4)),   # as many matrices as rows
    ('det(x + 4 * flip(eye(4), 0))', lambda x: torch.linalg.det(x + TURNED), M),
    ('det(x)', torch.linalg.det, M[0]),
    ('slogdet(x)', lambda x: list(torch.linalg.slogdet(x)), M),
    ('logdet(matmul(x, transpose(x)) + eye(4))', lambda x: torch.logdet(x @ x.mT + torch.eye(4)), M),
]

IMAGE, ROWS, VOLUME = [2, 4, 9, 7], [2, 4, 13], [2, 2, 5, 6, 4]

# --- images: (call, shapes, PyTorch)
images = [
    ('conv2d(x, weight=w, bias=false, padding="same")', dict(x=IMAGE, w=[6, 4, 3, 4]), lambda x, w: F.conv2d(x, w, padding='same')),
    ('conv2d(x, weight=w, bias=b, padding="same", dilation=[2, 1], groups=2)', dict(x=IMAGE, w=[6, 2, 2, 3], b=[6]), lambda x, w, b: F.conv2d(x, w, b, padding='same', dilation=(2, 1), groups=2)),
    ('conv2d(x, weight=w, bias=b, stride=2, padding=[1, 0, 2, 1])', dict(x=IMAGE, w=[3, 4, 3, 3], b=[3]), lambda x, w, b: F.conv2d(F.pad(x, (2, 1, 1, 0)), w, b, stride=2)),
    ('conv2d(x, 6, 3, weight=w, bias=b, padding="valid")', dict(x=IMAGE, w=[6, 4, 3, 3], b=[6]), lambda x, w, b: F.conv2d(x, w, b)),
    ('conv1d(x, weight=w, bias=b, padding="same")', dict(x=ROWS, w=[6, 4, 4], b=[6]), lambda x, w, b: F.conv1d(x, w, b, padding='same')),
    ('conv1d(x, weight=w, bias=b, stride=2, padding=1, dilation=2)', dict(x=ROWS, w=[6, 4, 3], b=[6]), lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, dilation=2)),
    ('conv1d(x, weight=w, bias=false, groups=4, padding=[2, 0])', dict(x=ROWS, w=[8, 1, 3]), lambda x, w: F.conv1d(F.pad(x, (2, 0)), w, groups=4)),
    ('conv_transpose1d(x, weight=w, bias=b, stride=2, padding=1, output_padding=1)', dict(x=ROWS, w=[4, 3, 4], b=[3]), lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1)),
    ('conv_transpose1d(x, weight=w, bias=false, stride=3, dilation=2, groups=2)', dict(x=ROWS, w=[4, 3, 3]), lambda x, w: F.conv_transpose1d(x, w, stride=3, dilation=2, groups=2)),
    ('conv_transpose2d(x, weight=w, bias=b, stride=2, padding=1, dilation=2)', dict(x=IMAGE, w=[4, 3, 3, 2], b=[3]), lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, dilation=2)),
    ('conv_transpose2d(x, weight=w, bias=b, stride=[1, 2], padding=2, output_padding=[1, 1], dilation=3, groups=2)', dict(x=IMAGE, w=[4, 3, 3, 3], b=[6]),
     lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(1, 2), padding=2, output_padding=1, dilation=3, groups=2)),
    ('conv_transpose2d(x, weight=w, bias=false, stride=2, padding=[1, 0, 0, 1])', dict(x=IMAGE, w=[4, 3, 3, 3]), lambda x, w: F.conv_transpose2d(x, w, stride=2)[:, :, 1:, :-1]),
    ('maxpool(x, 3, stride=2, ceil_mode=true)', dict(x=IMAGE), lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    ('maxpool(x, [2, 3], stride=[3, 2], padding=1, ceil_mode=true)', dict(x=IMAGE), lambda x: F.max_pool2d(x, (2, 3), (3, 2), 1, ceil_mode=True)),
    ('maxpool(x, [3, 2], stride=2, padding=1, dilation=2)', dict(x=IMAGE), lambda x: F.max_pool2d(x, (3, 2), 2, 1, dilation=2)),
    ('maxpool(x, 2, stride=2, dilation=[2, 3], ceil_mode=true)', dict(x=IMAGE), lambda x: F.max_pool2d(x, 2, 2, dilation=(2, 3), ceil_mode=True)),
    ('maxpool(x, 17, stride=1, padding=8)', dict(x=[1, 2, 19, 18]), lambda x: F.max_pool2d(x, 17, 1, 8)),
    ('maxpool(x, 3, stride=2, padding=1)', dict(x=ROWS), lambda x: F.max_pool1d(x, 3, 2, 1)),
    ('maxpool(x, 2, ceil_mode=true)', dict(x=VOLUME), lambda x: F.max_pool3d(x, 2, ceil_mode=True)),
    ('maxpool(x, [2, 3, 1], stride=[1, 2, 2], padding=[1, 1, 0])', dict(x=VOLUME), lambda x: F.max_pool3d(x, (2, 3, 1), (1, 2, 2), (1, 1, 0))),
    ('avgpool(x, 3, stride=2, padding=1, ceil_mode=true)', dict(x=IMAGE[:2] + [8, 6]), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    ('avgpool(x, 3, stride=2, padding=1, ceil_mode=true, include_pad=false)', dict(x=IMAGE[:2] + [8, 6]), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    ('avgpool(x, [2, 3], stride=2, ceil_mode=true)', dict(x=IMAGE), lambda x: F.avg_pool2d(x, (2, 3), 2, ceil_mode=True)),
    ('avgpool(x, 3, stride=2, padding=1)', dict(x=ROWS), lambda x: F.avg_pool1d(x, 3, 2, 1)),
    ('avgpool(x, 2, stride=[2, 2, 1], padding=[1, 0, 1], ceil_mode=true)', dict(x=VOLUME), lambda x: F.avg_pool3d(x, 2, (2, 2, 1), (1, 0, 1), ceil_mode=True)),
    ('avgpool(x, 3, stride=2, padding=1, include_pad=false)', dict(x=VOLUME), lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False)),
    ('adaptive_avgpool(x, [3, 7])', dict(x=IMAGE), lambda x: F.adaptive_avg_pool2d(x, (3, 7))),
    ('adaptive_avgpool(x, [5, 3])', dict(x=IMAGE), lambda x: F.adaptive_avg_pool2d(x, (5, 3))),
    ('adaptive_avgpool(x, [12, 1])', dict(x=IMAGE), lambda x: F.adaptive_avg_pool2d(x, (12, 1))),
    ('adaptive_avgpool(x, 5)', dict(x=ROWS), lambda x: F.adaptive_avg_pool1d(x, 5)),
    ('adaptive_avgpool(x, [2, 3, 3])', dict(x=VOLUME), lambda x: F.adaptive_avg_pool3d(x, (2, 3, 3))),
    ('adaptive_maxpool(x, [5, 3])', dict(x=IMAGE), lambda x: F.adaptive_max_pool2d(x, (5, 3))),
    ('adaptive_maxpool(x, 1)', dict(x=IMAGE), lambda x: F.adaptive_max_pool2d(x, 1)),
    ('adaptive_maxpool(x, 20)', dict(x=ROWS), lambda x: F.adaptive_max_pool1d(x, 20)),
    ('adaptive_maxpool(x, [2, 3, 3])', dict(x=VOLUME), lambda x: F.adaptive_max_pool3d(x, (2, 3, 3))),
    ('interpolate(x, size=[13, 5])', dict(x=IMAGE), lambda x: F.interpolate(x, (13, 5))),
    ('interpolate(x, scale_factor=[2, 1.7])', dict(x=IMAGE), lambda x: F.interpolate(x, scale_factor=(2.0, 1.7))),
    ('interpolate(x, scale_factor=0.5, mode="nearest-exact")', dict(x=IMAGE), lambda x: F.interpolate(x, scale_factor=0.5, mode='nearest-exact')),
    ('interpolate(x, size=20)', dict(x=ROWS), lambda x: F.interpolate(x, 20)),
    ('interpolate(x, size=20, mode="linear")', dict(x=ROWS), lambda x: F.interpolate(x, 20, mode='linear')),
    ('interpolate(x, size=[13, 5], mode="bilinear")', dict(x=IMAGE), lambda x: F.interpolate(x, (13, 5), mode='bilinear')),
    ('interpolate(x, size=[13, 1], mode="bilinear", align_corners=true)', dict(x=IMAGE), lambda x: F.interpolate(x, (13, 1), mode='bilinear', align_corners=True)),
    ('interpolate(x, scale_factor=1.7, mode="bilinear")', dict(x=IMAGE), lambda x: F.interpolate(x, scale_factor=1.7, mode='bilinear')),
    ('interpolate(x, size=[4, 11], mode="bilinear", antialias=true)', dict(x=IMAGE), lambda x: F.interpolate(x, (4, 11), mode='bilinear', antialias=True)),
    ('interpolate(x, size=[4, 3], mode="bilinear", antialias=true, align_corners=true)', dict(x=IMAGE), lambda x: F.interpolate(x, (4, 3), mode='bilinear', antialias=True, align_corners=True)),
    ('interpolate(x, size=[13, 5], mode="bicubic")', dict(x=IMAGE), lambda x: F.interpolate(x, (13, 5), mode='bicubic')),
    ('interpolate(x, size=[13, 5], mode="bicubic", align_corners=true)', dict(x=IMAGE), lambda x: F.interpolate(x, (13, 5), mode='bicubic', align_corners=True)),
    ('interpolate(x, scale_factor=2, mode="bicubic")', dict(x=IMAGE), lambda x: F.interpolate(x, scale_factor=2.0, mode='bicubic')),
    ('interpolate(x, size=[4, 11], mode="bicubic", antialias=true)', dict(x=IMAGE), lambda x: F.interpolate(x, (4, 11), mode='bicubic', antialias=True)),
    ('interpolate(x, size=[7, 9, 3], mode="trilinear")', dict(x=VOLUME), lambda x: F.interpolate(x, (7, 9, 3), mode='trilinear')),
    ('interpolate(x, size=[5, 3], mode="area")', dict(x=IMAGE), lambda x: F.interpolate(x, (5, 3), mode='area')),
    ('pad(x, [0, 0, 2, 3], [0, 0, 8, 1], mode="reflect")', dict(x=IMAGE), lambda x: F.pad(x, (3, 1, 2, 8), mode='reflect')),
    ('pad(x, [0, 0, 2, 12], [0, 0, 3, 1], mode="replicate")', dict(x=IMAGE), lambda x: F.pad(x, (12, 1, 2, 3), mode='replicate')),
    ('pad(x, [0, 0, 9, 3], [0, 0, 3, 0], mode="circular")', dict(x=IMAGE), lambda x: F.pad(x, (3, 0, 9, 3), mode='circular')),
    ('pad(x, [0, 0, -2, 3], [0, 0, 1, -1], mode="replicate")', dict(x=IMAGE), lambda x: F.pad(x, (3, -1, -2, 1), mode='replicate')),
    ('pad(x, [0, 0, -2, 3], [0, 0, 1, -1], 0.5)', dict(x=IMAGE), lambda x: F.pad(x, (3, -1, -2, 1), value=0.5)),
    ('unfold(x, 3, padding=1)', dict(x=IMAGE), lambda x: F.unfold(x, 3, padding=1)),
    ('unfold(x, [2, 3], dilation=[2, 1], padding=[1, 0], stride=[2, 1])', dict(x=IMAGE), lambda x: F.unfold(x, (2, 3), (2, 1), (1, 0), (2, 1))),
    ('fold(x, [9, 7], 3, padding=1)', dict(x=[2, 18, 63]), lambda x: F.fold(x, (9, 7), 3, padding=1)),
    ('fold(x, [9, 7], [2, 3], dilation=[2, 1], padding=[1, 0], stride=[2, 1])', dict(x=[2, 12, 25]), lambda x: F.fold(x, (9, 7), (2, 3), (2, 1), (1, 0), (2, 1))),
]
images += [
    ('pixel_shuffle(x, 2)', dict(x=[2, 12, 3, 2]), lambda x: F.pixel_shuffle(x, 2)),
    ('pixel_unshuffle(x, 3)', dict(x=[2, 2, 6, 9]), lambda x: F.pixel_unshuffle(x, 3)),
    ('channel_shuffle(x, 3)', dict(x=[2, 12, 3, 2]), lambda x: F.channel_shuffle(x, 3)),
    ('affine_grid(x, [5, 4])', dict(x=[2, 2, 3]), lambda x: F.affine_grid(x, (2, 1, 5, 4), align_corners=False)),
    ('affine_grid(x, [2, 3, 5, 4], align_corners=true)', dict(x=[2, 2, 3]), lambda x: F.affine_grid(x, (2, 3, 5, 4), align_corners=True)),
]
images += [
    ('conv3d(x, weight=w, bias=b, padding=1)', dict(x=VOLUME, w=[3, 2, 3, 3, 3], b=[3]), lambda x, w, b: F.conv3d(x, w, b, padding=1)),
    ('conv3d(x, weight=w, bias=false, stride=[2, 1, 2], padding=[1, 0, 1], dilation=[2, 1, 1], groups=2)', dict(x=VOLUME, w=[4, 1, 2, 3, 2]),
     lambda x, w: F.conv3d(x, w, stride=(2, 1, 2), padding=(1, 0, 1), dilation=(2, 1, 1), groups=2)),
    ('conv3d(x, weight=w, bias=false, padding="same")', dict(x=VOLUME, w=[3, 2, 2, 1, 3]), lambda x, w: F.conv3d(x, w, padding='same')),
    ('conv_transpose3d(x, weight=w, bias=b, stride=2)', dict(x=VOLUME, w=[2, 3, 2, 2, 2], b=[3]), lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2)),
    ('conv_transpose3d(x, weight=w, bias=b, stride=[2, 1, 2], padding=1, output_padding=[1, 0, 1], dilation=[1, 2, 1])', dict(x=VOLUME, w=[2, 3, 3, 2, 3], b=[3]),
     lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(2, 1, 2), padding=1, output_padding=(1, 0, 1), dilation=(1, 2, 1))),
    ('conv_transpose3d(x, weight=w, bias=false, stride=3, groups=2)', dict(x=VOLUME, w=[2, 2, 1, 2, 2]), lambda x, w: F.conv_transpose3d(x, w, stride=3, groups=2)),
]
for mode in 'bilinear', 'nearest', 'bicubic':
    for padding in 'zeros', 'border', 'reflection':
        for align in False, True:
            images.append((f'grid_sample(x, 1.7 * g, "{mode}", "{padding}", {str(align).lower()})', dict(x=[2, 3, 5, 4], g=[2, 3, 6, 2]),
                           lambda x, g, mode=mode, padding=padding, align=align: F.grid_sample(x, 1.7 * g, mode, padding, align)))

# --- attention: heads are an axis; what is not seen is -infinity, a query that sees nothing gives zeros


def attention(q, k, v, bias=None, mask=None, window=None, cap=None, causal=False):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    s = cap * torch.tanh(s / cap) if cap else s
    s = s if bias is None else s + bias
    away = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2] - torch.arange(k.shape[2])
    seen = torch.ones_like(s, dtype=torch.bool)
    seen = seen & (away >= 0) if causal else seen
    seen = seen & (away.abs() < window) if window else seen
    seen = seen if mask is None else seen & mask
    p = torch.softmax(s.masked_fill(~seen, -1e30), -1) * seen
    return p @ v


def qkv(batch, heads, groups, queries, keys, d, **more):
    return dict(q=[batch, heads, queries, d], k=[batch, groups, keys, d], v=[batch, groups, keys, d], **more)


attentions = []
for d, (queries, keys) in (5, (9, 11)), (64, (70, 83)):   # of 64 on a GPU: tensor cores
    small = (2, 4, 2, queries, keys, d)
    forms = [
        ('attention(q, k, v, bias=b)', qkv(*small, b=[2, 4, queries, keys]), lambda q, k, v, b: attention(q, k, v, b)),
        ('attention(q, k, v, bias=8 * b, causal=true)', qkv(*small, b=[1, 4, queries, keys]), lambda q, k, v, b: attention(q, k, v, 8 * b, causal=True)),
        ('attention(q, k, v, bias=b)', qkv(*small, b=[2, 1, 1, keys]), lambda q, k, v, b: attention(q, k, v, b)),
        ('attention(q, k, v, mask=m > 0)', qkv(*small, m=[2, 4, queries, keys]), lambda q, k, v, m: attention(q, k, v, mask=m > 0) + 0 * m.sum()),
        ('attention(q, k, v, mask=m > 0, bias=b)', qkv(*small, m=[2, 1, queries, keys], b=[1, 4, queries, keys]), lambda q, k, v, m, b: attention(q, k, v, b, m > 0) + 0 * m.sum()),
        ('attention(q, k, v, mask=m[:, 0, 0, :] > 0, bias=b, window=5)', qkv(*small, m=[2, 1, 1, keys], b=[1, 1, queries, keys]), lambda q, k, v, m, b: attention(q, k, v, b, m > 0, 5) + 0 * m.sum()),
        ('attention(q, k, v, window=4, causal=true)', qkv(*small), lambda q, k, v: attention(q, k, v, window=4, causal=True)),
        ('attention(q, k, v, window=4)', qkv(*small), lambda q, k, v: attention(q, k, v, window=4)),
        ('attention(q, k, v, window=3, causal=true)', qkv(2, 4, 2, keys, queries, d), lambda q, k, v: attention(q, k, v, window=3, causal=True)),
        ('attention(4 * q, k, v, softcap=1.5)', qkv(*small), lambda q, k, v: attention(4 * q, k, v, cap=1.5)),
        ('attention(4 * q, k, v, softcap=1.5, window=6, causal=true, bias=b)', qkv(*small, b=[2, 1, queries, keys]), lambda q, k, v, b: attention(4 * q, k, v, b, None, 6, 1.5, True)),
    ]
    attentions += forms if d < 64 else [forms[i] for i in (1, 5, 10)]
attentions.append(('attention(q, k, v, window=20, causal=true, softcap=2)', qkv(1, 2, 1, 200, 200, 16), lambda q, k, v: attention(q, k, v, None, None, 20, 2, True)))
attentions.append(('attention(rearrange(q, "b h t d -> b t (h d)"), rearrange(k, "b h t d -> b t (h d)"), rearrange(v, "b h t d -> b t (h d)"), heads=4, bias=b)',
                   qkv(2, 4, 2, 9, 11, 5, b=[2, 4, 9, 11]), lambda q, k, v, b: attention(q, k, v, b).transpose(1, 2).flatten(2)))



def drawn_of(index, name, shape):
    return torch.tensor(gf.tensor(f'{index}.{name}', gf.count(shape)), dtype=torch.float64).reshape(shape)


def case(call, function, given, tensors):
    """given: whether the tensors are to be written down."""
    inputs = {name: x.clone().requires_grad_() for name, x in tensors.items()}
    results = function(*inputs.values())
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    loss = sum((r + 0.3).square().sum() for r in results)
    gradients = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True) if loss.requires_grad else [None] * len(inputs)
    told = lambda t: gf.told(t.detach().double().flatten().tolist())
    return {'call': call, 'tensors': {name: [list(x.shape), x.detach().flatten().tolist() if given else None] for name, x in inputs.items()}, 'results': [told(r) for r in results],
            'gradients': {name: told(torch.zeros_like(x) if g is None else g) for (name, x), g in zip(inputs.items(), gradients)}}


def main():
    if sys.argv[1] == 'library':
        cases = [case(call, function, True, dict(zip('xyz', tensors))) for call, function, *tensors in library]
    else:
        rows = {'images': images, 'attention': attentions}[sys.argv[1]]
        cases = [case(call, function, False, {name: drawn_of(i, name, shape) for name, shape in shapes.items()}) for i, (call, shapes, function) in enumerate(rows)]
    integers = {name: [list(torch.tensor(v).shape), torch.tensor(v).flatten().tolist()] for name, v in INTEGERS.items()} if sys.argv[1] == 'library' else {}
    print('{"integers": ' + json.dumps(integers) + ', "cases": [\n' + ',\n'.join(json.dumps(c, separators=(',', ':')) for c in cases) + '\n]}')


if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    main()
