#!/usr/bin/env python3
"""The same training steps in PyTorch, for a comparison on the same machine: prints one JSON line with the median and least milliseconds.

usage: bench/peer_pytorch.py resnet50|gpt2 [--steps N] [--threads N]      ResNet-50 at batch 8, GPT-2 124M at 1 x 256 tokens, f32
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'gpu'))
from peers import Resnet50


class Layer(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(d, 2))
        scores = (q @ k.transpose(2, 3)) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float('-inf'))
        y = F.dropout(scores.softmax(-1), self.p) @ v
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, t, d)), self.p)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh')), self.p)


class Gpt2(nn.Module):
    def __init__(self, vocabulary=50257, context=1024, d=768, layers=12, heads=12, p=0.1):
        super().__init__()
        self.p, self.wte, self.wpe = p, nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.layers, self.norm = nn.Sequential(*(Layer(d, heads, p) for _ in range(layers))), nn.LayerNorm(d)

    def forward(self, tokens):
        x = F.dropout(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])), self.p)
        return self.norm(self.layers(x)) @ self.wte.weight.t()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', choices=['resnet50', 'gpt2'])
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if options.model == 'resnet50':
        model = Resnet50().to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
        x, y, clip = torch.rand(8, 3, 224, 224).to(memory_format=torch.channels_last), torch.randint(1000, (8,)), None
    else:
        model = Gpt2()
        optimizer = torch.optim.AdamW(model.parameters(), 6e-4, betas=(0.9, 0.95), weight_decay=0.1)
        x, y, clip = torch.randint(256, (1, 256)), torch.randint(256, (256,)), 1.0
    times = []
    for step in range(options.steps + 3):
        start = time.perf_counter()
        optimizer.zero_grad()
        out = model(x)
        F.cross_entropy(out.view(-1, out.shape[-1]), y).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if step >= 3:
            times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({'peer': 'PyTorch ' + torch.__version__, 'model': options.model, 'threads': options.threads,
                      'ms': statistics.median(times), 'least': min(times)}))


if __name__ == '__main__':
    main()
