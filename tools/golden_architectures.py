"""More of models/ in PyTorch, as golden_models.py has the others: written from the papers, parameters in the order in which the .nn files use them."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from golden_models import RmsNorm, heads_of, rotate


def bare(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def fully_connected(inputs, outputs):
    return nn.Sequential(bare(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())


def shared_mlp(inputs, *outputs):
    layers = []
    for o in outputs:
        layers += [nn.Conv1d(inputs, o, 1, bias=False), nn.BatchNorm1d(o), nn.ReLU()]
        inputs = o
    return nn.Sequential(*layers)


class TNet(nn.Module):
    def __init__(self, c, width):
        super().__init__()
        self.c, self.mlp = c, shared_mlp(c, width, 2 * width, 16 * width)
        self.head = nn.Sequential(fully_connected(16 * width, 8 * width), fully_connected(8 * width, 4 * width), nn.Linear(4 * width, c * c))

    def forward(self, x):
        return self.head(self.mlp(x).amax(2)).view(-1, self.c, self.c) + torch.eye(self.c, dtype=x.dtype)


class PointNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.t1, self.mlp1, self.t2, self.mlp2 = TNet(3, width), shared_mlp(3, width, width), TNet(width, width), shared_mlp(width, width, 2 * width, 16 * width)
        self.head = nn.Sequential(fully_connected(16 * width, 8 * width), fully_connected(8 * width, 4 * width), nn.Linear(4 * width, classes))

    def forward(self, shape):
        x = shape.transpose(1, 2)
        x = self.mlp1(self.t1(x) @ x)
        transform = self.t2(x)
        return self.head(self.mlp2(transform @ x).amax(2)), transform


def pointnet_losses(y, data):
    away = torch.eye(y[1].shape[1], dtype=y[1].dtype) - y[1] @ y[1].transpose(1, 2)
    return {'class': F.cross_entropy(y[0], data['label'].long()), 'regularization': 0.001 * away.square().sum((1, 2)).mean()}


class Experts(nn.Module):
    """Token by token: an expert that has taken its number of tokens takes no more; first choices go before second ones."""

    def __init__(self, d, inner, experts, chosen, percent):
        super().__init__()
        self.router, self.chosen, self.percent = bare(d, experts), chosen, percent
        self.w = nn.ParameterList([torch.empty(experts, *shape) for shape in ((d, inner), (d, inner), (inner, d))])

    def forward(self, x):
        (w1, w3, w2), tokens = self.w, x.flatten(0, 1)
        experts = len(w1)
        capacity = (len(tokens) * self.chosen * self.percent // 100 + experts - 1) // experts
        probabilities = self.router(tokens).softmax(-1)
        weights, expert = probabilities.topk(self.chosen)
        weights, taken, y = weights / weights.sum(1, keepdim=True), [0] * experts, [0] * len(tokens)
        for k in range(self.chosen):
            for t, e in enumerate(expert[:, k].tolist()):
                if taken[e] < capacity:
                    y[t] = y[t] + weights[t, k] * ((F.silu(tokens[t] @ w1[e]) * (tokens[t] @ w3[e])) @ w2[e])
                    taken[e] += 1
        fraction = torch.stack([(expert == e).to(x.dtype).mean() for e in range(experts)])
        y = torch.stack([v if torch.is_tensor(v) else torch.zeros_like(tokens[0]) for v in y])
        return y.view_as(x), experts * (fraction * probabilities.mean(0)).sum()


class MixtureLayer(nn.Module):
    def __init__(self, d, heads, *experts):
        super().__init__()
        self.heads, self.n1, self.qkv, self.out, self.n2, self.experts = heads, RmsNorm(d), bare(d, 3 * d), bare(d, d), RmsNorm(d), Experts(d, *experts)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (heads_of(y, self.heads) for y in self.qkv(self.n1(x)).chunk(3, -1))
        scores = rotate(q) @ rotate(k).transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        y, imbalance = self.experts(self.n2(x))
        return x + y, imbalance


class MixtureOfExperts(nn.Module):
    def __init__(self, vocabulary, d, layers, heads, *experts):
        super().__init__()
        self.embed, self.layers = nn.Embedding(vocabulary, d), nn.ModuleList([MixtureLayer(d, heads, *experts) for _ in range(layers)])
        self.norm, self.head = RmsNorm(d), bare(d, vocabulary)

    def forward(self, tokens):
        x, total = self.embed(tokens), 0
        for layer in self.layers:
            x, imbalance = layer(x)
            total = total + imbalance
        return self.head(self.norm(x)), total / len(self.layers)


class Direction(nn.Module):
    def __init__(self, inputs, h):
        super().__init__()
        self.input, self.hidden = nn.Linear(inputs, 3 * h), nn.Linear(h, 3 * h)

    def forward(self, x):
        h, outputs = x.new_zeros(len(x), self.hidden.in_features), []
        for step in x.unbind(1):
            h = torch.gru_cell(step, h, self.input.weight, self.hidden.weight, self.input.bias, self.hidden.bias)
            outputs.append(h)
        return torch.stack(outputs, 1)


class SpeechLayer(nn.Module):
    def __init__(self, inputs, h):
        super().__init__()
        self.norm, self.there, self.back = nn.BatchNorm1d(inputs), Direction(inputs, h), Direction(inputs, h)

    def forward(self, x):
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.there(x) + self.back(x.flip(1)).flip(1)


class Speech(nn.Module):
    def __init__(self, bands, letters, channels, width, layers):
        super().__init__()
        conv = lambda i, k, s: nn.Sequential(nn.Conv2d(i, channels, k, s, (k[0] // 2, k[1] // 2), bias=False), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20))
        self.convs = nn.Sequential(conv(1, (41, 11), (2, 2)), conv(channels, (21, 11), (2, 1)))
        self.layers = nn.Sequential(SpeechLayer(channels * bands // 4, width), *[SpeechLayer(width, width) for _ in range(layers - 1)])
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, letters)

    def forward(self, spectrogram):
        x = self.layers(self.convs(spectrogram).permute(0, 3, 1, 2).flatten(2))
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2)).log_softmax(-1)


def speech_losses(y, data):
    return {'loss': F.ctc_loss(y[0].transpose(0, 1), data['text'].long(), (data['frames'].long() + 1) // 2, data['length'].long(), blank=y[0].shape[-1] - 1, zero_infinity=True)}


class MambaLayer(nn.Module):
    """The recurrence step by step."""

    def __init__(self, d, states):
        super().__init__()
        self.rank, self.states = (d + 15) // 16, states
        self.norm, self.in_proj, self.conv = RmsNorm(d, 1e-5), bare(d, 4 * d), nn.Conv1d(2 * d, 2 * d, 4, groups=2 * d, padding=3)
        self.x_proj, self.dt_proj = bare(2 * d, self.rank + 2 * states), nn.Linear(self.rank, 2 * d)
        self.ssm = nn.ParameterList([torch.empty(2 * d, states), torch.empty(2 * d)])
        self.out_proj = bare(2 * d, d)

    def forward(self, u):
        x, z = self.in_proj(self.norm(u)).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :u.shape[1]].transpose(1, 2))
        low, b, c = self.x_proj(x).split([self.rank, self.states, self.states], -1)
        delta = F.softplus(self.dt_proj(low))
        A_log, D = self.ssm
        a = -A_log.exp() * torch.arange(1, self.states + 1, dtype=u.dtype)
        h, y = 0, []
        for t in range(u.shape[1]):
            h = (delta[:, t, :, None] * a).exp() * h + (delta[:, t] * x[:, t])[..., None] * b[:, t, None]
            y.append((h * c[:, t, None]).sum(-1))
        return u + self.out_proj((torch.stack(y, 1) + D * x) * F.silu(z))


class Mamba(nn.Module):
    def __init__(self, vocabulary, d, layers, states):
        super().__init__()
        self.embedding, self.layers, self.norm = nn.Embedding(vocabulary, d), nn.Sequential(*[MambaLayer(d, states) for _ in range(layers)]), RmsNorm(d, 1e-5)

    def forward(self, tokens):
        return self.norm(self.layers(self.embedding(tokens))) @ self.embedding.weight.T


class SwinBlock(nn.Module):
    def __init__(self, c, head, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = c // head, window, shift
        self.norm1, self.qkv, self.table = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.ParameterList([torch.empty((2 * window - 1) ** 2, c // head)])
        self.proj, self.norm2, self.fc1, self.fc2 = nn.Linear(c, c), nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        y, w = self.norm1(x), self.window
        shift = self.shift if x.shape[1] > w else 0
        label = torch.zeros(1, *x.shape[1:3], 1)
        parts = (slice(0, -w), slice(-w, -shift or None), slice(-shift, None)) if shift else (slice(None),)
        for i, rows in enumerate(parts):
            for j, columns in enumerate(parts):
                label[:, rows, columns] = i * 3 + j
        y, label = self.cut(y.roll((-shift, -shift), (1, 2))), self.cut(label)[..., 0]
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for p in self.qkv(y).chunk(3, -1))
        place = torch.cartesian_prod(torch.arange(w), torch.arange(w))
        apart = place[:, None] - place + w - 1
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.table[0][apart[..., 0] * (2 * w - 1) + apart[..., 1]].permute(2, 0, 1)
        scores = scores.masked_fill((label[..., :, None] != label[..., None, :])[:, :, None], -math.inf)
        y = self.proj((scores.softmax(-1) @ v).transpose(-2, -3).flatten(-2))
        b, h, wide, c = x.shape
        y = y.view(b, h // w, wide // w, w, w, c).transpose(2, 3).reshape(b, h, wide, c).roll((shift, shift), (1, 2))
        x = x + y
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    def cut(self, x):
        b, h, wide, c = x.shape
        w = self.window
        return x.view(b, h // w, w, wide // w, w, c).transpose(2, 3).reshape(b, -1, w * w, c)


class PatchMerging(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4 * c), bare(4 * c, 2 * c)

    def forward(self, x):
        return self.linear(self.norm(torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)))


class Swin(nn.Module):
    def __init__(self, width, head, window, depths, classes):
        super().__init__()
        self.embed, self.norm, layers = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width), []
        for i, depth in enumerate(depths):
            layers += [PatchMerging(width << i - 1)] if i else []
            layers += [SwinBlock(width << i, head, window, k % 2 * (window // 2)) for k in range(depth)]
        self.layers, c = nn.Sequential(*layers), width << len(depths) - 1
        self.last, self.head = nn.LayerNorm(c), nn.Linear(c, classes)

    def forward(self, image):
        return self.head(self.last(self.layers(self.norm(self.embed(image / 255).permute(0, 2, 3, 1)))).mean((1, 2)))


class MbConv(nn.Module):
    def __init__(self, inputs, outputs, expansion, kernel, stride):
        super().__init__()
        inner, conv = expansion * inputs, lambda i, o, k=1, s=1, g=1: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o, 1e-3, 0.01))
        self.adds, self.expand = stride == 1 and inputs == outputs, conv(inputs, inner) if expansion != 1 else None
        self.depthwise, self.reduce, self.widen = conv(inner, inner, kernel, stride, inner), nn.Conv2d(inner, (inputs + 3) // 4, 1), nn.Conv2d((inputs + 3) // 4, inner, 1)
        self.project = conv(inner, outputs)

    def forward(self, x):
        y = F.silu(self.depthwise(F.silu(self.expand(x)) if self.expand else x))
        y = self.project(y * self.widen(F.silu(self.reduce(y.mean((2, 3), keepdim=True)))).sigmoid())
        return x + y if self.adds else y


class EfficientNet(nn.Module):
    """With depths and channels of its own instead of factors."""

    def __init__(self, stem, stages, last, classes):
        super().__init__()
        conv = lambda i, o, k, s: [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o, 1e-3, 0.01), nn.SiLU()]
        layers, inputs = conv(3, stem, 3, 2), stem
        for expansion, kernel, stride, channels, depth in stages:
            for i in range(depth):
                layers.append(MbConv(inputs, channels, expansion, kernel, 1 if i else stride))
                inputs = channels
        self.layers, self.head = nn.Sequential(*layers, *conv(inputs, last, 1, 1)), nn.Linear(last, classes)

    def forward(self, image):
        return self.head(self.layers(image / 255).mean((2, 3)))


class T5Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.q, self.k, self.v, self.o = heads, bare(d, d), bare(d, d), bare(d, d), bare(d, d)

    def forward(self, x, memory, bias=0):
        q, k, v = heads_of(self.q(x), self.heads), heads_of(self.k(memory), self.heads), heads_of(self.v(memory), self.heads)
        return self.o(((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2))


class T5Layer(nn.Module):
    def __init__(self, d, heads, inner, decoder):
        super().__init__()
        self.n1, self.own = RmsNorm(d), T5Attention(d, heads)
        if decoder:
            self.n2, self.other = RmsNorm(d), T5Attention(d, heads)
        self.n3, self.wi, self.wo = RmsNorm(d), bare(d, inner), bare(inner, d)

    def forward(self, x, bias, memory=None):
        y = self.n1(x)
        x = x + self.own(y, y, bias)
        if memory is not None:
            x = x + self.other(self.n2(x), memory)
        return x + self.wo(F.relu(self.wi(self.n3(x))))


class T5Stack(nn.Module):
    def __init__(self, d, layers, heads, inner, buckets, furthest, decoder):
        super().__init__()
        self.table, self.furthest, self.decoder = nn.Embedding(buckets, heads), furthest, decoder
        self.layers, self.norm = nn.ModuleList([T5Layer(d, heads, inner, decoder) for _ in range(layers)]), RmsNorm(d)

    def bucket(self, distance):
        """Of a key that many tokens before the query."""
        number, first = self.table.num_embeddings, 0
        if self.decoder:
            distance = max(distance, 0)
        else:
            number //= 2
            distance, first = abs(distance), number if distance < 0 else 0
        exact = number // 2
        if distance < exact:
            return first + distance
        return first + min(number - 1, exact + int(math.log(distance / exact) / math.log(self.furthest / exact) * (number - exact) + 1e-4))

    def forward(self, x, memory=None):
        t = x.shape[1]
        bias = self.table(torch.tensor([[self.bucket(i - j) for j in range(t)] for i in range(t)])).permute(2, 0, 1)
        if self.decoder:
            bias = bias.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
        for layer in self.layers:
            x = layer(x, bias, memory)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self, vocabulary, d, *sizes):
        super().__init__()
        self.shared, self.encoder, self.decoder = nn.Embedding(vocabulary, d), T5Stack(d, *sizes, False), T5Stack(d, *sizes, True)

    def forward(self, source, before):
        y = self.decoder(self.shared(before), self.encoder(self.shared(source)))
        return y / y.shape[-1] ** 0.5 @ self.shared.weight.T


class FourierLayer(nn.Module):
    def __init__(self, c, modes):
        super().__init__()
        self.R, self.w = nn.Parameter(torch.empty(modes, 2, c, c)), nn.Conv1d(c, c, 1)

    def forward(self, v):
        weights, low = torch.complex(self.R[:, 0], self.R[:, 1]), torch.fft.rfft(v)[..., :len(self.R)]
        return torch.fft.irfft(torch.einsum('nik,kio->nok', low, weights), v.shape[-1]) + self.w(v)


class FourierOperator(nn.Module):
    def __init__(self, width, modes, layers):
        super().__init__()
        self.lift, self.layers = nn.Linear(2, width), nn.ModuleList([FourierLayer(width, modes) for _ in range(layers)])
        self.project1, self.project2 = nn.Linear(width, 128), nn.Linear(128, 1)

    def forward(self, a):
        grid = torch.linspace(0, 1, a.shape[1], dtype=a.dtype).expand_as(a)
        v = self.lift(torch.stack([a, grid], -1)).transpose(1, 2)
        for i, layer in enumerate(self.layers):
            v = layer(v) if i + 1 == len(self.layers) else F.gelu(layer(v))
        return self.project2(F.gelu(self.project1(v.transpose(1, 2))))[..., 0]


class Unet3d(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        conv = lambda i, o: nn.Sequential(nn.Conv3d(i, o, 3, padding=1, bias=False), nn.BatchNorm3d(o), nn.ReLU())
        self.down = nn.ModuleList([nn.Sequential(conv(i, c), conv(c, 2 * c)) for i, c in ((1, width), (2 * width, 2 * width), (4 * width, 4 * width), (8 * width, 8 * width))])
        self.up = nn.ModuleList([nn.ModuleList([nn.ConvTranspose3d(2 * c, 2 * c, 2, 2), conv(3 * c, c), conv(c, c)]) for c in (8 * width, 4 * width, 2 * width)])
        self.head = nn.Conv3d(2 * width, classes, 1)

    def forward(self, x):
        skipped = []
        for i, analysis in enumerate(self.down):
            x = analysis(F.max_pool3d(x, 2) if i else x)
            skipped.append(x)
        skipped.pop()
        for larger, a, b in self.up:
            x = b(a(torch.cat([skipped.pop(), larger(x)], 1)))
        return self.head(x)


def relu_layers(*sizes):
    return nn.Sequential(*(part for i, o in zip(sizes, sizes[1:]) for part in (nn.Linear(i, o), nn.ReLU())))


class Dlrm(nn.Module):
    def __init__(self, numbers, fields, buckets, width, hidden):
        super().__init__()
        self.bottom = relu_layers(numbers, hidden, hidden // 2, hidden // 8, width)
        self.embeddings = nn.ModuleList(nn.Embedding(buckets, width) for _ in range(fields))
        self.top = nn.Sequential(relu_layers(width + (fields + 1) * fields // 2, hidden, hidden // 2), nn.Linear(hidden // 2, 1))

    def forward(self, number, category):
        x = self.bottom(number.clamp(min=0).log1p())
        vectors = torch.stack([x] + [table(category[:, i]) for i, table in enumerate(self.embeddings)], 1)
        below = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        return self.top(torch.cat([x, torch.bmm(vectors, vectors.transpose(1, 2))[:, below[0], below[1]]], 1))
