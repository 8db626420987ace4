#!/usr/bin/env python3
"""Values and gradients of calls as PyTorch has them, for test/gradients/check_functions.py: make_functions.py images|attention > test/gradients/Inputs/NAME.json

Each case: a call of the language, the shapes of x, y, …, and the same in PyTorch, in f64. Written down are digests of the tensors.
"""
import json
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_format as gf

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

TABLES = {'images': images, 'attention': attentions}


def case(index, call, shapes, function):
    inputs = {name: torch.tensor(gf.tensor(f'{index}.{name}', gf.count(shape)), dtype=torch.float64).reshape(shape).requires_grad_() for name, shape in shapes.items()}
    y = function(**inputs)
    weights = torch.tensor(gf.tensor(f'{index}.r', y.numel()), dtype=torch.float64).reshape(y.shape)
    (y * weights).sum().backward()
    digest = lambda t: gf.digest(t.detach().flatten().tolist())
    return {'call': call, 'shapes': shapes, 'result': list(y.shape), 'value': digest(y), 'gradients': {n: digest(t.grad) for n, t in inputs.items()}}


def main():
    cases = [json.dumps(case(i, *row)) for i, row in enumerate(TABLES[sys.argv[1]])]
    print('[\n' + ',\n'.join(cases) + '\n]')


if __name__ == '__main__':
    main()
