#!/usr/bin/env python3
"""Training steps of the models of bench/run in PyTorch on the host, in f32 or under autocast: data that is there already, SDPA, channels last, PyTorch's own optimizers.

usage: pytorch_peer.py MODEL [--compile] [--bf16] [--threads N]
--bf16: under autocast
After two steps to warm up it prints a line; then, for each number that comes on standard input, it takes as many steps and prints a line of JSON:
median and least milliseconds, and the most bytes the process had in memory.
"""
import argparse
import os
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

import serve

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'gpu'))
from peers import Bottleneck

# ---- images ----


def conv_bn(inputs, outputs, kernel=1, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs))


class Resnet50(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [], 64
        for stage, depth in enumerate((3, 4, 6, 3)):
            for i in range(depth):
                blocks.append(Bottleneck(channels, 64 << stage, 2 if stage and i == 0 else 1))
                channels = 256 << stage
        self.stem, self.blocks, self.head = conv_bn(3, 64, 7, 2), nn.Sequential(*blocks), nn.Linear(channels, 1000)

    def forward(self, x):
        return self.head(self.blocks(F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)).mean((2, 3)))


class Inverted(nn.Module):
    def __init__(self, channels, outputs, expansion, stride):
        super().__init__()
        wide = expansion * channels
        self.expand = conv_bn(channels, wide) if expansion != 1 else None
        self.depthwise, self.project, self.adds = conv_bn(wide, wide, 3, stride, wide), conv_bn(wide, outputs), stride == 1 and channels == outputs

    def forward(self, x):
        y = F.relu6(self.expand(x)) if self.expand else x
        y = self.project(F.relu6(self.depthwise(y)))
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [], 32
        for expansion, outputs, depth, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for i in range(depth):
                blocks.append(Inverted(channels, outputs, expansion, stride if i == 0 else 1))
                channels = outputs
        self.stem, self.blocks, self.top, self.head = conv_bn(3, 32, 3, 2), nn.Sequential(*blocks), conv_bn(320, 1280), nn.Linear(1280, 1000)

    def forward(self, x):
        x = F.relu6(self.top(self.blocks(F.relu6(self.stem(x))))).mean((2, 3))
        return self.head(F.dropout(x, 0.2))


def bn_relu_conv(inputs, outputs, kernel=1):
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, kernel, 1, kernel // 2, bias=False))


class Dense(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.f = nn.Sequential(bn_relu_conv(channels, 128), bn_relu_conv(128, 32, 3))

    def forward(self, x):
        return torch.cat([x, self.f(x)], 1)


class DenseNet121(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 64
        for depth in (6, 12, 24, 16):
            for _ in range(depth):
                layers.append(Dense(channels))
                channels += 32
            if depth != 16:
                channels //= 2
                layers += [bn_relu_conv(2 * channels, channels), nn.AvgPool2d(2)]
        self.stem, self.layers = conv_bn(3, 64, 7, 2), nn.Sequential(*layers)
        self.norm, self.head = nn.BatchNorm2d(channels), nn.Linear(channels, 1000)

    def forward(self, x):
        x = self.layers(F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1))
        return self.head(F.relu(self.norm(x)).mean((2, 3)))


def double_conv(inputs, outputs):
    return nn.Sequential(conv_bn(inputs, outputs, 3), nn.ReLU(), conv_bn(outputs, outputs, 3), nn.ReLU())


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [64, 128, 256, 512, 1024]
        self.down = nn.ModuleList(double_conv(i, o) for i, o in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[3::-1])
        self.join = nn.ModuleList(double_conv(2 * w, w) for w in widths[3::-1])
        self.head = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        skips = []
        for i, f in enumerate(self.down):
            x = f(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


# ---- texts ----


class Attention(nn.Module):
    def __init__(self, d, heads, causal=False, p=0.0):
        super().__init__()
        self.heads, self.causal, self.p, self.qkv, self.out = heads, causal, p, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(x).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.p, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    """Normalised before each half, or after it (BERT)."""

    def __init__(self, d, heads, causal=False, p=0.0, approximate='none', after=False, eps=1e-5):
        super().__init__()
        self.p, self.after, self.attention = p, after, Attention(d, heads, causal, p)
        self.norm1, self.norm2 = nn.LayerNorm(d, eps), nn.LayerNorm(d, eps)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate), nn.Linear(4 * d, d))

    def forward(self, x, mask=None):
        if self.after:
            x = self.norm1(x + F.dropout(self.attention(x, mask), self.p))
            return self.norm2(x + F.dropout(self.mlp(x), self.p))
        x = x + F.dropout(self.attention(self.norm1(x), mask), self.p)
        return x + F.dropout(self.mlp(self.norm2(x)), self.p)


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, d, layers, heads, approximate):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.layers, self.norm = nn.Sequential(*(Block(d, heads, True, 0.1, approximate) for _ in range(layers))), nn.LayerNorm(d)

    def forward(self, tokens):
        x = F.dropout(self.words(tokens) + self.places.weight[:tokens.shape[1]], 0.1)
        return (self.norm(self.layers(x)) @ self.words.weight.t()).flatten(0, 1)


class Vit(nn.Module):
    def __init__(self, d=768):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, d, 16, 16), nn.Parameter(torch.zeros(1, 1, d))
        self.places = nn.Parameter(0.02 * torch.randn(197, d))
        self.layers, self.norm, self.head = nn.Sequential(*(Block(d, 12, eps=1e-6) for _ in range(12))), nn.LayerNorm(d, 1e-6), nn.Linear(d, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], 1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers, self.head = nn.Embedding(256, 64), nn.LSTM(64, 256, 2, batch_first=True), nn.Linear(256, 256)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens))[0]).flatten(0, 1)


class Bert(nn.Module):
    def __init__(self, t, d=768, vocabulary=30522):
        super().__init__()
        self.words, self.segments, self.places, self.norm = nn.Embedding(vocabulary, d), nn.Embedding(2, d), nn.Embedding(t, d), nn.LayerNorm(d, 1e-12)
        self.layers = nn.ModuleList(Block(d, 12, p=0.1, after=True, eps=1e-12) for _ in range(12))
        self.transform, self.bias = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d, 1e-12)), nn.Parameter(torch.zeros(vocabulary))
        self.pooler, self.next = nn.Linear(d, d), nn.Linear(d, 2)

    def forward(self, tokens, segments, valid, positions):
        x = F.dropout(self.norm(self.words(tokens) + self.segments(segments) + self.places.weight), 0.1)
        for layer in self.layers:
            x = layer(x, valid[:, None, None, :])
        masked = x.gather(1, positions[:, :, None].expand(-1, -1, x.shape[2]))
        words = self.transform(masked) @ self.words.weight.t() + self.bias
        return words.flatten(0, 1), self.next(torch.tanh(self.pooler(x[:, 0])))


# ---- what bench/run takes ----


def adamw(lr, decay=0.01, beta2=0.999):
    return lambda parameters: torch.optim.AdamW(parameters, lr, betas=(0.9, beta2), weight_decay=decay)


def momentum(lr, decay, nesterov=False):
    return lambda parameters: torch.optim.SGD(parameters, lr, momentum=0.9, weight_decay=decay, nesterov=nesterov)


def images(n, size=224, channels=3):
    return torch.rand(n, channels, size, size).to(memory_format=torch.channels_last)


def integers(most, *shape):
    return torch.randint(most, shape)


# name: model, its inputs, labels, optimizer, clipping
MODELS = {
    'resnet50': lambda: (Resnet50(), [images(8)], integers(1000, 8), momentum(0.1, 1e-4), None),
    'gpt2': lambda: (Gpt(50257, 1024, 768, 12, 12, 'tanh'), [integers(256, 1, 256)], integers(256, 256), adamw(6e-4, 0.1, 0.95), 1.0),
    'mobilenetv2': lambda: (MobileNetV2(), [images(8)], integers(1000, 8), momentum(0.045, 4e-5), None),
    'vit_b16': lambda: (Vit(), [images(1)], integers(1000, 1), adamw(1e-3, 0.3), 1.0),
    'densenet121': lambda: (DenseNet121(), [images(4)], integers(1000, 4), momentum(0.1, 1e-4, True), None),
    'unet': lambda: (Unet(), [images(1, 256)], integers(2, 1, 256, 256), adamw(1e-4, 0), None),
    'lstm_lm': lambda: (Lstm(), [integers(256, 32, 64)], integers(256, 32 * 64), adamw(2e-3, 0), 1.0),
    'bert_base': lambda: (Bert(128), [integers(30522, 1, 128), integers(2, 1, 128), torch.ones(1, 128, dtype=torch.bool), integers(128, 1, 20)],
                          (integers(30522, 20), integers(2, 1)), adamw(1e-4), 1.0),
    'gpt_small': lambda: (Gpt(256, 64, 128, 4, 4, 'none'), [integers(256, 16, 64)], integers(256, 16 * 64), adamw(1e-3, 0.1, 0.99), 1.0),
    'lenet': lambda: (lenet(), [torch.rand(128, 1, 28, 28)], integers(10, 128), adamw(4e-3), None),
    'mlp': lambda: (mlp(), [torch.rand(128, 28, 28)], integers(10, 128), adamw(1e-3), None),
}


def loss_of(scores, labels):
    return sum(map(F.cross_entropy, scores, labels)) if isinstance(labels, tuple) else F.cross_entropy(scores, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', choices=list(MODELS))
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--bf16', action='store_true')
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    options = parser.parse_args()
    warnings.filterwarnings('ignore')
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model, inputs, labels, optimizer, clip = MODELS[options.model]()
    if inputs[0].dim() == 4:
        model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer(model.parameters())
    forward = torch.compile(model) if options.compile else model

    def step():
        optimizer.zero_grad()
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled=options.bf16):
            loss = loss_of(forward(*inputs), labels)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    serve.serve(step, 'PyTorch ' + torch.__version__.split('+')[0] + (' compiled' if options.compile else ''))


if __name__ == '__main__':
    sys.exit(main())
