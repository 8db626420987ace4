"""The models of models/ once more, in PyTorch, as references for make_goldens.py.

Written from the papers, not from the .nn files' compiled form; but parameters are declared in the order in which the .nn file uses them, because
goldens match them by order. No dropout: the .nn files are compiled with -D p=0.
"""
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

    def __init__(self, width, depths, classes, channels=3, divisor=1):
        super().__init__()
        self.divisor, self.stem = divisor, conv_bn(channels, width, 3)
        blocks, inputs = [], width
        for i, depth in enumerate(depths):
            for k in range(depth):
                blocks.append(BasicBlock(inputs, width << i, 2 if k == 0 and i > 0 else 1))
                inputs = width << i
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.stem(x / self.divisor))).mean((2, 3)))


def heads_of(x, heads):
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).transpose(1, 2)


class GptBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.qkv, self.proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n2, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (heads_of(p, self.heads) for p in self.qkv(self.n1(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float('-inf'))
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate='tanh'))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, d, layers, heads):
        super().__init__()
        self.wte, self.wpe = nn.Parameter(torch.empty(vocabulary, d)), nn.Parameter(torch.empty(context, d))
        self.blocks, self.norm = nn.Sequential(*[GptBlock(d, heads) for _ in range(layers)]), nn.LayerNorm(d)

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
