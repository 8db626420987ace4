#!/usr/bin/env python3
"""Training steps of the models of bench/run in JAX, f32 on the host: one function per step, compiled, which overwrites parameters and state.

usage: jax_peer.py MODEL [--threads N]      answers as pytorch_peer.py does
Images are NHWC. Statistics of batch norms are computed, their running means left out.
"""
import argparse
import os
import sys

import serve


class Net:
    """Parameters in the order of their use: made in the first run, taken in the others."""

    def __init__(self, key, values=None):
        self.key, self.values, self.made = key, values, []

    def next_key(self):
        self.key, key = jax.random.split(self.key)
        return key

    def param(self, shape, scale=0.02, mean=0.0):
        if self.values is None:
            self.made.append(mean + scale * jax.random.normal(self.next_key(), shape))
            return self.made[-1]
        return self.values.pop(0)

    def linear(self, x, n):
        return x @ self.param((x.shape[-1], n)) + self.param((n,), 0.0)

    def conv(self, x, n, kernel=1, stride=1, groups=1, padding=None, bias=False):
        pad = kernel // 2 if padding is None else padding
        y = jax.lax.conv_general_dilated(x, self.param((kernel, kernel, x.shape[3] // groups, n), 0.05), (stride, stride), [(pad, pad)] * 2,
                                         dimension_numbers=('NHWC', 'HWIO', 'NHWC'), feature_group_count=groups)
        return y + self.param((n,), 0.0) if bias else y

    def batchnorm(self, x):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * self.param((x.shape[3],), 0.0, 1.0) + self.param((x.shape[3],), 0.0)

    def conv_bn(self, x, n, kernel=1, stride=1, groups=1):
        return self.batchnorm(self.conv(x, n, kernel, stride, groups))

    def layernorm(self, x, eps=1e-5):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + eps) * self.param((x.shape[-1],), 0.0, 1.0) + self.param((x.shape[-1],), 0.0)

    def dropout(self, x, p):
        return jnp.where(jax.random.bernoulli(self.next_key(), 1 - p, x.shape), x / (1 - p), 0) if p else x

    def attention(self, x, heads, causal=False, p=0.0, mask=None):
        b, t, d = x.shape
        q, k, v = (y.reshape(b, t, heads, d // heads) for y in jnp.split(self.linear(x, 3 * d), 3, axis=2))
        scores = jnp.einsum('bqhd,bkhd->bhqk', q, k) / (d // heads) ** 0.5
        if causal:
            mask = jnp.tril(jnp.ones((t, t), bool))
        if mask is not None:
            scores = jnp.where(mask, scores, -jnp.inf)
        y = jnp.einsum('bhqk,bkhd->bqhd', self.dropout(jax.nn.softmax(scores), p), v)
        return self.linear(y.reshape(b, t, d), d)

    def mlp(self, x, approximate):
        return self.linear(jax.nn.gelu(self.linear(x, 4 * x.shape[-1]), approximate), x.shape[-1])

    def block(self, x, heads, causal=False, p=0.0, approximate=False, eps=1e-5):
        x = x + self.dropout(self.attention(self.layernorm(x, eps), heads, causal, p), p)
        return x + self.dropout(self.mlp(self.layernorm(x, eps), approximate), p)


def pool(x, size, stride, pad=0):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, size, size, 1), (1, stride, stride, 1), ((0, 0), (pad, pad), (pad, pad), (0, 0)))


def resnet50(net, x):
    x = pool(jax.nn.relu(net.conv_bn(x, 64, 7, 2)), 3, 2, 1)
    for stage, depth in enumerate((3, 4, 6, 3)):
        for i in range(depth):
            width, stride = 64 << stage, 2 if stage and i == 0 else 1
            y = jax.nn.relu(net.conv_bn(x, width))
            y = net.conv_bn(jax.nn.relu(net.conv_bn(y, width, 3, stride)), 4 * width)
            x = jax.nn.relu((net.conv_bn(x, 4 * width, 1, stride) if i == 0 else x) + y)
    return net.linear(x.mean((1, 2)), 1000)


def mobilenetv2(net, x):
    x = jax.nn.relu6(net.conv_bn(x, 32, 3, 2))
    for expansion, outputs, depth, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(depth):
            wide, step = expansion * x.shape[3], stride if i == 0 else 1
            y = jax.nn.relu6(net.conv_bn(x, wide)) if expansion != 1 else x
            y = net.conv_bn(jax.nn.relu6(net.conv_bn(y, wide, 3, step, wide)), outputs)
            x = x + y if x.shape == y.shape else y
    return net.linear(net.dropout(jax.nn.relu6(net.conv_bn(x, 1280)).mean((1, 2)), 0.2), 1000)


def densenet121(net, x):
    x = pool(jax.nn.relu(net.conv_bn(x, 64, 7, 2)), 3, 2, 1)
    for depth in (6, 12, 24, 16):
        for _ in range(depth):
            y = net.conv(jax.nn.relu(net.batchnorm(x)), 128)
            x = jnp.concatenate([x, net.conv(jax.nn.relu(net.batchnorm(y)), 32, 3)], 3)
        if depth != 16:
            x = net.conv(jax.nn.relu(net.batchnorm(x)), x.shape[3] // 2)
            x = x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, x.shape[3]).mean((2, 4))
    return net.linear(jax.nn.relu(net.batchnorm(x)).mean((1, 2)), 1000)


def unet(net, x):
    def double_conv(x, n):
        return jax.nn.relu(net.conv_bn(jax.nn.relu(net.conv_bn(x, n, 3)), n, 3))
    skips = [double_conv(x, 64)]
    for width in (128, 256, 512, 1024):
        skips.append(double_conv(pool(skips[-1], 2, 2), width))
    x = skips.pop()
    for width in (512, 256, 128, 64):
        n, h, w, _ = x.shape
        y = net.conv(x, 4 * width, bias=True).reshape(n, h, w, 2, 2, width).transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, width)
        x = double_conv(jnp.concatenate([skips.pop(), y], 3), width)
    return net.conv(x, 2, bias=True).reshape(-1, 2)


def lenet(net, x):
    x = pool(jax.nn.relu(net.conv(x, 6, 5, bias=True)), 2, 2)
    x = pool(jax.nn.relu(net.conv(x, 16, 5, padding=0, bias=True)), 2, 2).reshape(x.shape[0], -1)
    return net.linear(jax.nn.relu(net.linear(jax.nn.relu(net.linear(x, 120)), 84)), 10)


def mlp(net, x):
    x = net.dropout(jax.nn.relu(net.linear(x.reshape(x.shape[0], -1), 512)), 0.2)
    return net.linear(jax.nn.relu(net.linear(x, 256)), 10)


def gpt(vocabulary, context, d, layers, heads, approximate):
    def model(net, tokens):
        words, places = net.param((vocabulary, d)), net.param((context, d))
        x = net.dropout(words[tokens] + places[:tokens.shape[1]], 0.1)
        for _ in range(layers):
            x = net.block(x, heads, True, 0.1, approximate)
        return (net.layernorm(x) @ words.T).reshape(-1, vocabulary)
    return model


def vit(net, x):
    x = net.conv(x, 768, 16, 16, padding=0, bias=True).reshape(x.shape[0], -1, 768)
    x = jnp.concatenate([jnp.broadcast_to(net.param((1, 1, 768), 0.0), (x.shape[0], 1, 768)), x], 1) + net.param((197, 768))
    for _ in range(12):
        x = net.block(x, 12, eps=1e-6)
    return net.linear(net.layernorm(x, 1e-6)[:, 0], 1000)


def lstm(net, tokens):
    x = net.param((256, 64), 1.0)[tokens]
    for _ in range(2):
        gates, recurrent, zero = net.linear(x, 1024), net.param((256, 1024)), jnp.zeros((x.shape[0], 256))

        def cell(state, projected):
            h, c = state
            i, f, g, o = jnp.split(projected + h @ recurrent, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        x = jax.lax.scan(cell, (zero, zero), gates.swapaxes(0, 1))[1].swapaxes(0, 1)
    return net.linear(x, 256).reshape(-1, 256)


def bert(net, tokens, segments, valid, positions):
    words = net.param((30522, 768))
    x = words[tokens] + net.param((2, 768))[segments] + net.param((tokens.shape[1], 768))
    x = net.dropout(net.layernorm(x, 1e-12), 0.1)
    for _ in range(12):
        x = net.layernorm(x + net.dropout(net.attention(x, 12, False, 0.1, valid[:, None, None, :]), 0.1), 1e-12)
        x = net.layernorm(x + net.dropout(net.mlp(x, False), 0.1), 1e-12)
    masked = jnp.take_along_axis(x, positions[:, :, None], 1)
    scores = net.layernorm(jax.nn.gelu(net.linear(masked, 768), False), 1e-12) @ words.T + net.param((30522,), 0.0)
    return scores.reshape(-1, 30522), net.linear(jnp.tanh(net.linear(x[:, 0], 768)), 2)


def images(n, size=224, channels=3):
    return jax.random.uniform(jax.random.key(2), (n, size, size, channels))


def integers(most, *shape):
    return jax.random.randint(jax.random.key(3), shape, 0, most)


def models():
    """name: model, inputs, labels, learning rate, weight decay, beta2 of Adam (None: momentum, 'nesterov': that), clipping"""
    return {
        'resnet50': lambda: (resnet50, [images(8)], integers(1000, 8), 0.1, 1e-4, None, None),
        'gpt2': lambda: (gpt(50257, 1024, 768, 12, 12, True), [integers(256, 1, 256)], integers(256, 256), 6e-4, 0.1, 0.95, 1.0),
        'mobilenetv2': lambda: (mobilenetv2, [images(8)], integers(1000, 8), 0.045, 4e-5, None, None),
        'vit_b16': lambda: (vit, [images(1)], integers(1000, 1), 1e-3, 0.3, 0.999, 1.0),
        'densenet121': lambda: (densenet121, [images(4)], integers(1000, 4), 0.1, 1e-4, 'nesterov', None),
        'unet': lambda: (unet, [images(1, 256)], integers(2, 256 * 256), 1e-4, 0.0, 0.999, None),
        'lstm_lm': lambda: (lstm, [integers(256, 32, 64)], integers(256, 32 * 64), 2e-3, 0.0, 0.999, 1.0),
        'bert_base': lambda: (bert, [integers(30522, 1, 128), integers(2, 1, 128), jnp.ones((1, 128), bool), integers(128, 1, 20)],
                              (integers(30522, 20), integers(2, 1)), 1e-4, 0.01, 0.999, 1.0),
        'gpt_small': lambda: (gpt(256, 64, 128, 4, 4, False), [integers(256, 16, 64)], integers(256, 16 * 64), 1e-3, 0.1, 0.99, 1.0),
        'lenet': lambda: (lenet, [images(128, 28, 1)], integers(10, 128), 4e-3, 0.01, 0.999, None),
        'mlp': lambda: (mlp, [images(128, 28, 1)], integers(10, 128), 1e-3, 0.01, 0.999, None),
    }


def cross_entropy(scores, labels):
    if isinstance(labels, tuple):
        return sum(map(cross_entropy, scores, labels))
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()


def training_step(model, labels, lr, decay, beta2, clip):
    def loss(params, key, inputs):
        return cross_entropy(model(Net(key, list(params)), *inputs), labels)

    def adamw(t, p, g, m, v):
        m, v = 0.9 * m + 0.1 * g, beta2 * v + (1 - beta2) * g * g
        return p * (1 - lr * decay) - lr * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - beta2 ** t)) + 1e-8), m, v

    def momentum(t, p, g, m, v):
        m = 0.9 * m + (g + decay * p)
        return p - lr * (g + decay * p + 0.9 * m if beta2 == 'nesterov' else m), m, v

    def step(params, first, second, t, inputs):
        grads = jax.grad(loss)(params, jax.random.fold_in(jax.random.key(1), t), inputs)
        if clip:
            norm = jnp.sqrt(sum((g * g).sum() for g in grads))
            grads = [g * jnp.minimum(1.0, clip / (norm + 1e-6)) for g in grads]
        update = adamw if isinstance(beta2, float) else momentum
        new = [update(t, *row) for row in zip(params, grads, first, second)]
        return [n[0] for n in new], [n[1] for n in new], [n[2] for n in new], t + 1
    return jax.jit(step, donate_argnums=(0, 1, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])   # XLA makes as many threads as there are processors
    os.environ['JAX_PLATFORMS'] = 'cpu'
    global jax, jnp
    import jax
    from jax import numpy as jnp
    model, inputs, labels, lr, decay, beta2, clip = models()[options.model]()
    net = Net(jax.random.key(0))
    model(net, *inputs)
    adam = isinstance(beta2, float)
    zeros = lambda: [jnp.zeros_like(p) for p in net.made]
    state = [net.made, zeros(), zeros() if adam else [0.0] * len(net.made), 1.0]
    compiled = training_step(model, labels, lr, decay, beta2, clip)

    def step():
        state[:] = compiled(*state, inputs)
        jax.block_until_ready(state)

    serve.serve(step, 'JAX ' + jax.__version__)


if __name__ == '__main__':
    sys.exit(main())
