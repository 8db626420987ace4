"""The models of models/ once more, in PyTorch, as references for make_goldens.py.

Written from the papers, not from the .nn files' compiled form; but parameters are declared in the order in which the .nn file uses them, because
goldens match them by order. No dropout: the .nn files are compiled with -D p=0.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_bn(inputs, outputs, kernel=1, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs))


class Vgg16(nn.Module):
    def __init__(self, width, hidden, classes, size):
        super().__init__()
        layers, inputs = [], 3
        for scale, depth in (1, 2), (2, 2), (4, 3), (8, 3), (8, 3):
            for _ in range(depth):
                layers += [nn.Conv2d(inputs, scale * width, 3, padding=1), nn.ReLU()]
                inputs = scale * width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        flat = inputs * (size // 32) ** 2
        self.head = nn.Sequential(nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.head(self.features(x / 255).flatten(1))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.a, self.b, self.c = conv_bn(inputs, width), conv_bn(width, width, 3, stride), conv_bn(width, 4 * width)
        if stride != 1 or inputs != 4 * width:
            self.shortcut = conv_bn(inputs, 4 * width, 1, stride)

    def forward(self, x):
        y = self.c(F.relu(self.b(F.relu(self.a(x)))))
        return F.relu(y + (self.shortcut(x) if hasattr(self, 'shortcut') else x))


class PreActivation(nn.Module):
    """Bottleneck of "Identity mappings in deep residual networks"."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.n1 = nn.BatchNorm2d(inputs)
        if stride != 1 or inputs != 4 * width:
            self.projection = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
        self.a, self.n2 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.b, self.n3 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c = nn.Conv2d(width, 4 * width, 1, bias=False)

    def forward(self, x):
        y = F.relu(self.n1(x))
        shortcut = self.projection(y) if hasattr(self, 'projection') else x
        return shortcut + self.c(F.relu(self.n3(self.b(F.relu(self.n2(self.a(y)))))))


class Resnet(nn.Module):
    """Both forms for large images: with bottlenecks after the original paper, or with pre-activation and a norm at the end."""

    def __init__(self, width, depths, classes, pre=False):
        super().__init__()
        self.pre = pre
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], width
        for i, depth in enumerate(depths):
            for k in range(depth):
                blocks.append((PreActivation if pre else Bottleneck)(inputs, width << i, 2 if k == 0 and i > 0 else 1))
                inputs = 4 * (width << i)
        self.blocks = nn.Sequential(*blocks)
        if pre:
            self.norm = nn.BatchNorm2d(inputs)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x / 255))
        return self.head((F.relu(self.norm(x)) if self.pre else x).mean((2, 3)))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        self.adds = stride == 1 and inputs == outputs
        layers = [conv_bn(inputs, expansion * inputs), nn.ReLU6()] if expansion != 1 else []
        layers += [conv_bn(expansion * inputs, expansion * inputs, 3, stride, groups=expansion * inputs), nn.ReLU6(), conv_bn(expansion * inputs, outputs)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class Mobilenetv2(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        layers, inputs = [conv_bn(3, width, 3, 2), nn.ReLU6()], width
        for t, c, n, s in (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1):
            for k in range(n):
                layers.append(InvertedResidual(inputs, c * width // 32, t, s if k == 0 else 1))
                inputs = c * width // 32
        self.layers = nn.Sequential(*layers, conv_bn(inputs, 40 * width), nn.ReLU6())
        self.head = nn.Linear(40 * width, classes)

    def forward(self, x):
        return self.head(self.layers(x / 255).mean((2, 3)))


def bn_relu_conv(inputs, outputs, kernel=1):
    return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False))


class DenseLayer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.layers = nn.Sequential(bn_relu_conv(inputs, 4 * growth), bn_relu_conv(4 * growth, growth, 3))

    def forward(self, x):
        return torch.cat([x, self.layers(x)], 1)


class Densenet121(nn.Module):
    def __init__(self, growth, classes):
        super().__init__()
        c = 2 * growth
        layers = [nn.Conv2d(3, c, 7, 2, 3, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for depth in 6, 12, 24, 16:
            for _ in range(depth):
                layers.append(DenseLayer(c, growth))
                c += growth
            if depth != 16:
                layers += [bn_relu_conv(c, c // 2), nn.AvgPool2d(2)]
                c //= 2
        self.layers, self.head = nn.Sequential(*layers, nn.BatchNorm2d(c), nn.ReLU()), nn.Linear(c, classes)

    def forward(self, x):
        return self.head(self.layers(x / 255).mean((2, 3)))


def double_conv(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UpConv(nn.Module):
    """A transposed convolution of kernel and stride 2, its weight kept as (outputs*2*2, inputs, 1, 1) and its bias per output pixel."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(4 * outputs, inputs, 1, 1)), nn.Parameter(torch.empty(4 * outputs))

    def forward(self, x):
        outputs = self.bias.numel() // 4
        kernel = self.weight.view(outputs, 2, 2, -1).permute(3, 0, 1, 2)
        return F.conv_transpose2d(x, kernel, stride=2) + self.bias.view(outputs, 2, 2).repeat(1, x.shape[2], x.shape[3])


class Unet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.down = nn.ModuleList([double_conv(3 if i == 0 else width << (i - 1), width << i) for i in range(5)])
        self.up = nn.ModuleList()
        for i in (3, 2, 1, 0):
            self.up.append(nn.ModuleList([UpConv(width << (i + 1), width << i), double_conv(2 * (width << i), width << i)]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips, x = [], x / 255
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i, (up, block) in zip((3, 2, 1, 0), self.up):
            x = block(torch.cat([skips[i], up(x)], 1))
        return self.head(x).permute(0, 2, 3, 1)


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.a, self.b = conv_bn(inputs, width, 3, stride), conv_bn(width, width, 3)
        if stride != 1 or inputs != width:
            self.shortcut = conv_bn(inputs, width, 1, stride)

    def forward(self, x):
        y = self.b(F.relu(self.a(x)))
        return F.relu(y + (self.shortcut(x) if hasattr(self, 'shortcut') else x))


class ResnetSmall(nn.Module):
    """ResNets for small images: depths and strides per stage, each stage twice as wide as the last."""

    def __init__(self, width, depths, classes):
        super().__init__()
        self.stem = conv_bn(3, width, 3)
        blocks, inputs = [], width
        for i, depth in enumerate(depths):
            for k in range(depth):
                blocks.append(BasicBlock(inputs, width << i, 2 if k == 0 and i > 0 else 1))
                inputs = width << i
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.stem(x / 255))).mean((2, 3)))


def heads_of(x, heads):
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).transpose(1, 2)


class GptBlock(nn.Module):
    def __init__(self, d, heads, gelu):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.n1, self.qkv, self.proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n2, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (heads_of(p, self.heads) for p in self.qkv(self.n1(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float('-inf'))
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate=self.gelu))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, d, layers, heads, gelu='tanh'):
        super().__init__()
        self.wte, self.wpe = nn.Parameter(torch.empty(vocabulary, d)), nn.Parameter(torch.empty(context, d))
        self.blocks, self.norm = nn.Sequential(*[GptBlock(d, heads, gelu) for _ in range(layers)]), nn.LayerNorm(d)

    def forward(self, tokens):
        x = self.wte[tokens] + self.wpe[:tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.wte.T


class BertLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj, self.n1 = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d, eps=1e-12)
        self.up, self.down, self.n2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), nn.LayerNorm(d, eps=1e-12)

    def forward(self, x, padding):
        b, t, d = x.shape
        q, k, v = (heads_of(p, self.heads) for p in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).masked_fill(padding, float('-inf'))
        x = self.n1(x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """In pre-training. Padding is masked out whole, which is what adding -1e9 comes to."""

    def __init__(self, vocabulary, t, d, layers, heads):
        super().__init__()
        self.words, self.segments, self.positions = (nn.Parameter(torch.empty(n, d)) for n in (vocabulary, 2, t))
        self.norm = nn.LayerNorm(d, eps=1e-12)
        self.layers = nn.ModuleList([BertLayer(d, heads) for _ in range(layers)])
        self.transform, self.transform_norm, self.bias = nn.Linear(d, d), nn.LayerNorm(d, eps=1e-12), nn.ParameterList([nn.Parameter(torch.empty(vocabulary))])
        self.pooler, self.next = nn.Linear(d, d), nn.Linear(d, 2)

    def forward(self, tokens, segments, valid, positions):
        x = self.norm(self.words[tokens] + self.segments[segments] + self.positions)
        padding = (valid == 0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, padding)
        masked = x[torch.arange(len(x))[:, None], positions]
        words = self.transform_norm(F.gelu(self.transform(masked))) @ self.words.T + self.bias[0]
        return words, self.next(torch.tanh(self.pooler(x[:, 0])))


class Vit(nn.Module):
    """The Vision Transformer; normalisations before attention and before the perceptron."""

    def __init__(self, size, patch, d, layers, heads, classes):
        super().__init__()
        self.patch = patch
        self.class_token, self.position = nn.Parameter(torch.empty(1, 1, d)), nn.Parameter(torch.empty((size // patch) ** 2 + 1, d))
        self.projection = nn.Conv2d(3, d, patch, patch)
        self.layers = nn.Sequential(*[VitLayer(d, heads) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, classes)

    def forward(self, image):
        x = self.projection(image / 255).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.ln(self.layers(x))[:, 0])


class VitLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.qkv, self.proj = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ln_2, self.up, self.down = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (heads_of(p, self.heads) for p in self.qkv(self.ln_1(x)).chunk(3, -1))
        y = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).softmax(-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class RmsNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(d)), eps

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


def rotate(x):
    """Rotary positions: element i of a head turns with element i + d/2, by the angle position / 10000^(2i/d)."""
    t, d = x.shape[-2:]
    angle = torch.arange(t, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class LlamaLayer(nn.Module):
    def __init__(self, d, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, kv = heads, groups, groups * d // heads
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.n1, self.q, self.k, self.v, self.o = RmsNorm(d), linear(d, d), linear(d, kv), linear(d, kv), linear(d, d)
        self.n2, self.gate, self.up, self.down = RmsNorm(d), linear(d, inner), linear(d, inner), linear(inner, d)

    def forward(self, x):
        b, t, d = x.shape
        y = self.n1(x)
        q = rotate(heads_of(self.q(y), self.heads))
        k, v = (heads_of(p(y), self.groups).repeat_interleave(self.heads // self.groups, 1) for p in (self.k, self.v))
        scores = q @ rotate(k).transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float('-inf'))
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary, d, layers, heads, groups, inner):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        self.layers = nn.Sequential(*[LlamaLayer(d, heads, groups, inner) for _ in range(layers)])
        self.norm, self.head = RmsNorm(d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.layers(self.embed(tokens))))


class DiffusionResidual(nn.Module):
    def __init__(self, inputs, features, time):
        super().__init__()
        self.norm1, self.conv1, self.time = nn.GroupNorm(8, inputs), nn.Conv2d(inputs, features, 3, padding=1), nn.Linear(time, features)
        self.norm2, self.conv2 = nn.GroupNorm(8, features), nn.Conv2d(features, features, 3, padding=1)
        if inputs != features:
            self.shortcut = nn.Conv2d(inputs, features, 1)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (self.shortcut(x) if hasattr(self, 'shortcut') else x)


class DiffusionUnet(nn.Module):
    """Trained on an image mixed with noise by the cosine schedule over so many steps, or the linear one."""

    def __init__(self, channels, w, steps, linear=False):
        super().__init__()
        self.steps, self.linear = steps, linear
        self.half = w // 2
        self.time1, self.time2 = nn.Linear(w, 4 * w), nn.Linear(4 * w, 4 * w)
        self.conv_a, self.a = nn.Conv2d(channels, w, 3, padding=1), DiffusionResidual(w, w, 4 * w)
        self.conv_b, self.b = nn.Conv2d(w, w, 3, 2, 1), DiffusionResidual(w, 2 * w, 4 * w)
        self.conv_c, self.c1, self.c2 = nn.Conv2d(2 * w, 2 * w, 3, 2, 1), DiffusionResidual(2 * w, 4 * w, 4 * w), DiffusionResidual(4 * w, 4 * w, 4 * w)
        self.up_b, self.up_a = DiffusionResidual(6 * w, 2 * w, 4 * w), DiffusionResidual(3 * w, w, 4 * w)
        self.norm, self.out = nn.GroupNorm(8, w), nn.Conv2d(w, channels, 3, padding=1)

    def forward(self, image, noise, t):
        kept = (t.to(image.dtype) / self.steps * 1.5707963).cos().square().view(-1, 1, 1, 1)
        if self.linear:
            kept = (1 - torch.linspace(1e-4, 0.02, self.steps, dtype=image.dtype)).cumprod(0)[t.long()].view(-1, 1, 1, 1)
        x = kept.sqrt() * image + (1 - kept).sqrt() * noise
        angle = t.to(image.dtype)[:, None] * (torch.arange(self.half, dtype=image.dtype) * (-math.log(10000.0) / self.half)).exp()
        time = self.time2(F.silu(self.time1(torch.cat([angle.sin(), angle.cos()], 1))))
        a = self.a(self.conv_a(x), time)
        b = self.b(self.conv_b(a), time)
        c = self.c2(self.c1(self.conv_c(b), time), time)
        x = self.up_b(torch.cat([F.interpolate(c, scale_factor=2), b], 1), time)
        x = self.up_a(torch.cat([F.interpolate(x, scale_factor=2), a], 1), time)
        return self.out(F.silu(self.norm(x)))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down, self.layer_scale = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.ParameterList([torch.zeros(width)])

    def forward(self, x):
        y = self.down(F.gelu(self.up(self.norm(self.conv(x).permute(0, 2, 3, 1)))))
        return x + (self.layer_scale[0] * y).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, width, depths, classes):
        super().__init__()
        layers = [nn.Conv2d(3, width, 4, 4), ChannelNorm(width, eps=1e-6)]
        for stage, depth in enumerate(depths):
            if stage > 0:
                layers += [ChannelNorm(width, eps=1e-6), nn.Conv2d(width, 2 * width, 2, 2)]
                width *= 2
            layers += [ConvNextBlock(width) for _ in range(depth)]
        self.layers, self.norm, self.head = nn.Sequential(*layers), nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, image):
        return self.head(self.norm(self.layers(image / 255).mean([2, 3])))


class OdeField(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        norm, conv = lambda: nn.GroupNorm(groups, width), lambda: nn.Conv2d(width + 1, width, 3, padding=1)
        self.a, self.b, self.c, self.d, self.e = norm(), conv(), norm(), conv(), norm()

    def at(self, conv, h, t):
        return conv(torch.cat([torch.full_like(h[:, :1], t), h], 1))

    def forward(self, h, t):
        return self.e(self.at(self.d, self.c(self.at(self.b, self.a(h).relu(), t)).relu(), t))


class NeuralOde(nn.Module):
    """A layer of continuous depth, in steps of Runge and Kutta."""

    def __init__(self, width, groups, steps):
        super().__init__()
        smaller = lambda: [nn.GroupNorm(groups, width), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1)]
        self.stem, self.field = nn.Sequential(nn.Conv2d(1, width, 3), *smaller(), *smaller()), OdeField(width, groups)
        self.norm, self.last, self.steps = nn.GroupNorm(groups, width), nn.Linear(width, 10), steps

    def forward(self, image):
        h, dt = self.stem(image / 255), 1 / self.steps
        for step in range(self.steps):
            t = step * dt
            k1 = self.field(h, t)
            k2 = self.field(h + dt / 2 * k1, t + dt / 2)
            k3 = self.field(h + dt / 2 * k2, t + dt / 2)
            k4 = self.field(h + dt * k3, t + dt)
            h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return self.last(self.norm(h).relu().mean([2, 3]))


class InceptionBlock(nn.Module):
    def __init__(self, inputs, one, three_in, three, five_in, five, pooled):
        super().__init__()
        self.a = nn.Sequential(conv_bn(inputs, one), nn.ReLU())
        self.b = nn.Sequential(conv_bn(inputs, three_in), nn.ReLU(), conv_bn(three_in, three, 3), nn.ReLU())
        self.c = nn.Sequential(conv_bn(inputs, five_in), nn.ReLU(), conv_bn(five_in, five, 5), nn.ReLU())
        self.d = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_bn(inputs, pooled), nn.ReLU())

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1)


class Inception(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        channels, blocks = width, []
        for sizes in ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (256, 160, 320, 32, 128, 128)):
            one, three_in, three, five_in, five, pooled = (c * width // 64 for c in sizes)
            blocks.append(InceptionBlock(channels, one, three_in, three, five_in, five, pooled))
            channels = one + three + five + pooled
        self.stem = nn.Sequential(conv_bn(3, width, 3), nn.ReLU())
        self.a, self.b, self.c = blocks[:3]
        self.auxiliary = nn.Linear(512 * width // 64, classes)
        self.d, self.e = blocks[3:]
        self.classifier = nn.Linear(channels, classes)

    def forward(self, image):
        x = self.c(F.max_pool2d(self.b(self.a(self.stem(image / 255))), 2))
        early = self.auxiliary(x.mean((2, 3)))
        x = self.e(F.max_pool2d(self.d(x), 2))
        return self.classifier(x.mean((2, 3))), early


class TwoInputs(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.see1, self.see2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.words, self.joined = nn.Embedding(128, 32), nn.Linear(64, 64)
        self.classes, self.rating = nn.Linear(64, classes), nn.Linear(64, 1)

    def forward(self, image, text):
        seen = F.relu(self.see2(F.max_pool2d(F.relu(self.see1(image)), 2))).mean((2, 3))
        x = F.relu(self.joined(torch.cat([seen, self.words(text).mean(1)], 1)))
        return self.classes(x), self.rating(x)


def rows_of_one(x):
    return x / x.sum(1, keepdim=True).clamp(min=1)


class Gcn(nn.Module):
    """Dense: D^-1/2 (A + I) D^-1/2 X W twice; A counts edges."""

    def __init__(self, words, hidden, classes):
        super().__init__()
        self.first, self.second = nn.Linear(words, hidden, bias=False), nn.Linear(hidden, classes, bias=False)

    def forward(self, x, source, target):
        a = torch.eye(len(x), dtype=x.dtype).index_put((target.long(), source.long()), torch.ones(len(source), dtype=x.dtype), accumulate=True)
        scale = a.sum(1).rsqrt()
        a = scale[:, None] * a * scale
        return a @ self.second(F.relu(a @ self.first(rows_of_one(x))))


class GraphSage(nn.Module):
    def __init__(self, words, hidden, classes):
        super().__init__()
        self.self1, self.near1 = nn.Linear(words, hidden), nn.Linear(words, hidden, bias=False)
        self.self2, self.near2 = nn.Linear(hidden, classes), nn.Linear(hidden, classes, bias=False)

    def forward(self, x, source, target):
        a = torch.zeros(len(x), len(x), dtype=x.dtype).index_put((target.long(), source.long()), torch.ones(len(source), dtype=x.dtype), accumulate=True)
        a = rows_of_one(a)
        x = rows_of_one(x)
        x = F.relu(self.self1(x) + self.near1(a @ x))
        return self.self2(x) + self.near2(a @ x)


class RecurrentLayer(nn.Module):
    """PyTorch's cell of one kind over a sequence; the state goes on to the next batch, without a gradient. An LSTM has one bias here, a GRU two."""

    def __init__(self, kind, inputs, h, n):
        super().__init__()
        gates, self.kind = (4 if kind == 'lstm' else 3) * h, kind
        self.input, self.hidden = nn.Linear(inputs, gates), nn.Linear(h, gates, bias=kind == 'gru')
        self.register_buffer('h0', torch.zeros(n, h))
        if kind == 'lstm':
            self.register_buffer('c0', torch.zeros(n, h))
            self.none = torch.zeros(gates)

    def forward(self, x):
        h, outputs = self.h0.clone(), []
        c = self.c0.clone() if self.kind == 'lstm' else None
        for step in x.unbind(1):
            if self.kind == 'lstm':
                h, c = torch.lstm_cell(step, (h, c), self.input.weight, self.hidden.weight, self.input.bias, self.none.to(x.dtype))
            else:
                h = torch.gru_cell(step, h, self.input.weight, self.hidden.weight, self.input.bias, self.hidden.bias)
            outputs.append(h)
        with torch.no_grad():
            self.h0.copy_(h)
            if c is not None:
                self.c0.copy_(c)
        return torch.stack(outputs, 1)


class RecurrentModel(nn.Module):
    def __init__(self, kind, n, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width // 4)
        self.layers = nn.Sequential(RecurrentLayer(kind, width // 4, width, n), RecurrentLayer(kind, width, width, n))
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.out(self.layers(self.embedding(tokens)))


class Mlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 10))

    def forward(self, image):
        return self.layers((image / 255).flatten(1))


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.c, self.d, self.e = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.a(image / 255)), 2)
        x = F.max_pool2d(F.relu(self.b(x)), 2)
        return self.e(F.relu(self.d(F.relu(self.c(x.flatten(1))))))
