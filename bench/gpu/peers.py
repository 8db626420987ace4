#!/usr/bin/env python3
"""What PyTorch takes for the same work on the same GPU, one JSON object per line as soon as it is measured.

usage: peers.py [--tiny] gpt2|resnet50|attention|conv ...
Training steps as PyTorch runs them best: torch.compile, bf16 by autocast (and tf32), channels last, fused optimizers, flash attention, gradients
of the whole step, data already on the device. --tiny: small sizes on the CPU without compilation, to try the script itself.
"""
import argparse
import contextlib
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

import shapes


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        def conv_bn(inputs, outputs, kernel=1, stride=1):
            return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))
        self.a, self.b, self.c = conv_bn(channels, width), conv_bn(width, width, 3, stride), conv_bn(width, 4 * width)
        self.skip = conv_bn(channels, 4 * width, 1, stride) if stride != 1 or channels != 4 * width else None

    def forward(self, x):
        y = self.c(F.relu(self.b(F.relu(self.a(x)))))
        return F.relu((self.skip(x) if self.skip else x) + y)


class Resnet50(nn.Module):
    def __init__(self, width=64, depths=(3, 4, 6, 3)):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        blocks, channels = [], width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Bottleneck(channels, width << stage, 2 if stage and i == 0 else 1))
                channels = 4 * width << stage
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x / 255))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(d, 2))
        x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))


def attend(q, k, v):
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[2]
    scores = (q @ k.transpose(2, 3)) / math.sqrt(q.shape[3])
    return scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float('-inf')).softmax(-1) @ v


class Gpt2(nn.Module):
    def __init__(self, vocabulary=50257, context=1024, d=768, layers=12, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.layers, self.norm = nn.Sequential(*(Layer(d, heads) for _ in range(layers))), nn.LayerNorm(d)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.norm(self.layers(x)) @ self.wte.weight.t()


def synchronize(o):
    if not o.tiny:
        torch.cuda.synchronize()


def measure(o, once, steps):
    times = []
    for step in range(steps + (1 if o.tiny else 5)):
        synchronize(o)
        start = time.perf_counter()
        once()
        synchronize(o)
        times.append(1e3 * (time.perf_counter() - start))
    times = times[-steps:]
    return {'median_ms': statistics.median(times), 'least_ms': min(times)}


def emit(**row):
    print(json.dumps(row), flush=True)


def train(o, name, dtype):
    torch.manual_seed(1)
    device = 'cpu' if o.tiny else 'cuda'
    if name == 'resnet50':
        batch, size = (2, 32) if o.tiny else (128, 224)
        model = (Resnet50(4, (1, 1, 1, 1)) if o.tiny else Resnet50()).to(device).to(memory_format=torch.channels_last)
        x = torch.rand(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
        y, clip = torch.randint(10, (batch,), device=device), None
        optimizer, options = torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=1e-4)
    else:
        batch, tokens = (1, 16) if o.tiny else (64 if dtype == 'bf16' else 16, 1024)
        model = (Gpt2(99, 16, 24, 1, 2) if o.tiny else Gpt2()).to(device)
        x, y, clip = torch.randint(99, (batch, tokens), device=device), torch.randint(99, (batch * tokens,), device=device), 1.0
        optimizer, options = torch.optim.AdamW, dict(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != 'f32'
    torch.backends.cudnn.benchmark = True
    optimizer = optimizer(model.parameters(), **options, **({} if o.tiny else {'fused': True}))
    compiled = model if o.tiny else torch.compile(model)
    precision = contextlib.nullcontext() if dtype != 'bf16' or o.tiny else torch.autocast('cuda', torch.bfloat16)

    def once():
        with precision:
            out = compiled(x)
            loss = F.cross_entropy(out.view(-1, out.shape[-1]), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    row = measure(o, once, 2 if o.tiny else 20)
    peak = 0 if o.tiny else torch.cuda.max_memory_allocated()
    emit(kind='peer', model=name, dtype=dtype, batch=batch, peer='PyTorch ' + torch.__version__, peak_bytes=peak, **row)


def attention(o):
    for d in 64, 128:
        for tokens in (64,) if o.tiny else (1024, 4096, 16384):
            width, total = (d, tokens) if o.tiny else (2048, 16384)
            shape = (total // tokens, width // d, tokens, d)
            kind = dict(device='cpu') if o.tiny else dict(device='cuda', dtype=torch.bfloat16)
            q, k, v = (torch.randn(shape, requires_grad=True, **kind) for _ in range(3))
            flops = 2 * total * (width // d) * tokens * d
            with torch.no_grad():
                emit(kind='peer', model='attention', name=f'forward bf16 d{d} T{tokens}', flops=flops, **measure(o, lambda: attend(q, k, v), 3 if o.tiny else 20))
            out = attend(q, k, v)
            gradient = torch.randn_like(out)
            emit(kind='peer', model='attention', name=f'backward bf16 d{d} T{tokens}', flops=2.5 * flops,
                 **measure(o, lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), 3 if o.tiny else 20))


def conv(o):
    batch = 1 if o.tiny else 128
    for size, inputs, outputs, kernel, stride in shapes.convolutions(o.tiny):
        kind = dict(device='cpu') if o.tiny else dict(device='cuda', dtype=torch.bfloat16)
        x = torch.randn(batch, inputs, size, size, **kind).to(memory_format=torch.channels_last).requires_grad_()
        w = torch.randn(outputs, inputs, kernel, kernel, **kind).to(memory_format=torch.channels_last).requires_grad_()
        label = 'bf16 ' + shapes.label(size, inputs, outputs, kernel, stride)
        y = F.conv2d(x, w, stride=stride, padding=kernel // 2)
        flops = 2 * y.shape[0] * y.shape[2] * y.shape[3] * inputs * outputs * kernel * kernel
        gradient = torch.randn_like(y)
        with torch.no_grad():
            emit(kind='peer', model='conv', name='forward ' + label, flops=flops, **measure(o, lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2), 3 if o.tiny else 20))
        for name, of in ('input_grad', x), ('weight_grad', w):
            emit(kind='peer', model='conv', name=f'{name} {label}', flops=flops, **measure(o, lambda: torch.autograd.grad(y, of, gradient, retain_graph=True), 3 if o.tiny else 20))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tiny', action='store_true')
    parser.add_argument('work', nargs='+', choices=['gpt2', 'resnet50', 'attention', 'conv'])
    o = parser.parse_args()
    for work in o.work:   # what the bars are about comes first
        for dtype in ('bf16', 'tf32') if work in ('gpt2', 'resnet50') else (None,):
            try:
                train(o, work, dtype) if dtype else globals()[work](o)
            except Exception as e:   # the next may do
                emit(kind='error', model=work, dtype=dtype, error=f'{type(e).__name__}: {e}'[:300])


if __name__ == '__main__':
    main()
