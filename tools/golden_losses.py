"""PyTorch's side of the goldens of networks that make their own losses: forward gives outputs of which the first carries them, {name: value}. What follows its
parameters is told after each step. Outputs are in the order of their names."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from golden_gradients import with_losses


class Average:
    """A network as it was: of each parameter `decay` of what it was and the rest of the parameter, every so many steps."""

    def __init__(self, network, decay=0.0, every=1):
        self.network, self.decay, self.every = copy.deepcopy(network), decay, every
        self.step = 0

    def __call__(self, x):
        with torch.no_grad():
            return self.network(x)

    def follow(self, network):
        self.step += 1
        for mine, new in zip(self.network.parameters(), network.parameters()):
            if self.step % self.every == 0:
                mine.data = self.decay * mine.data + (1 - self.decay) * new.data


class Teaching(nn.Module):
    """A network with averages of its parts as teachers, made where they are used first: name=(part, {decay or every})."""

    def __init__(self, **averages):
        super().__init__()
        self.how, self.averages = averages, None

    def teachers(self):
        if self.averages is None:
            self.averages = {name: Average(getattr(self, part), **how) for name, (part, how) in self.how.items()}
        return self.averages.values()

    def after_step(self):
        for name, (part, _) in self.how.items():
            self.averages[name].follow(getattr(self, part))

    def averages_of(self):
        return [(f'{n}.{name}', p) for name, a in self.averages.items() for n, p in a.network.named_parameters()]


class Teacher(Teaching):
    """test/models/teacher.nn"""

    def __init__(self):
        super().__init__(target=('network', dict(decay=0.75)), copied=('network', dict(every=2)))
        self.network = nn.Sequential(nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
        self.predictor = nn.Linear(4, 4)

    def forward(self, x, y):
        target, copied = self.teachers()
        online = self.network(x)
        z = self.predictor(online)
        return with_losses(online, slow=F.mse_loss(z, target(y)), stepped=0.5 * F.mse_loss(z, copied(y))), z


class Vae(nn.Module):
    """models/vae.nn"""

    def __init__(self, pixels, hidden, latent):
        super().__init__()
        self.encode, self.mean, self.log_variance = nn.Linear(pixels, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decode = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, pixels))

    def forward(self, x, noise):
        h = torch.tanh(self.encode(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        y = self.decode(mean + torch.exp(0.5 * log_variance) * noise)
        likelihood = F.binary_cross_entropy_with_logits(y, x, reduction='sum') / len(x)
        return with_losses(y, reconstruction=likelihood, divergence=-0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum() / len(x)), mean, log_variance


class Residual(nn.Module):
    """of models/byol.nn"""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        conv = lambda i, o, kernel, step: nn.Sequential(nn.Conv2d(i, o, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(o))
        self.first, self.second = conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3, 1)
        self.shortcut = conv(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class Byol(Teaching):
    """models/byol.nn"""

    def __init__(self, width, hidden, projection, tau=0.99):
        super().__init__(f=('encoder', dict(decay=tau)), g=('projector', dict(decay=tau)))
        mlp = lambda n: nn.Sequential(nn.Linear(n, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, projection))
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), Residual(width, width, 1),
                                     Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projector, self.predictor = mlp(4 * width), mlp(projection)

    def forward(self, v, w):
        f, g = self.teachers()
        y, other_y = self.encoder(v), self.encoder(w)
        z, other_z = self.projector(y), self.projector(other_y)
        q, other_q = self.predictor(z), self.predictor(other_z)
        loss = sum(2 - 2 * F.cosine_similarity(a, g(f(b))).mean() for a, b in ((q, w), (other_q, v)))
        return with_losses(y, loss=loss), q, z


class Tower(nn.Module):
    """A transformer of models/clip.nn."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.ln_1, self.qkv, self.proj = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, causal):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(b, t, d))
        h = self.up(self.ln_2(x))
        return x + self.down(h * torch.sigmoid(1.702 * h))


class VisionTransformer(nn.Module):
    def __init__(self, size, patch, embed, width, layers, heads):
        super().__init__()
        self.class_embedding, self.positions = nn.Parameter(torch.empty(1, 1, width)), nn.Parameter(torch.empty((size // patch) ** 2 + 1, width))
        self.patches, self.ln_pre = nn.Conv2d(3, width, patch, patch, bias=False), nn.LayerNorm(width)
        self.layers = nn.ModuleList([Tower(width, heads) for _ in range(layers)])
        self.ln_post, self.projection = nn.LayerNorm(width), nn.Linear(width, embed, bias=False)

    def forward(self, image):
        x = torch.cat([self.class_embedding.expand(len(image), -1, -1), self.patches(image).flatten(2).transpose(1, 2)], 1) + self.positions
        x = self.ln_pre(x)
        for layer in self.layers:
            x = layer(x, False)
        return F.normalize(self.projection(self.ln_post(x[:, 0])), dim=1)


class TextTransformer(nn.Module):
    def __init__(self, length, vocabulary, embed, width, layers, heads):
        super().__init__()
        self.positions, self.embedding = nn.Parameter(torch.empty(length, width)), nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([Tower(width, heads) for _ in range(layers)])
        self.ln_final, self.projection = nn.LayerNorm(width), nn.Linear(width, embed, bias=False)

    def forward(self, text):
        x = self.embedding(text) + self.positions
        for layer in self.layers:
            x = layer(x, True)
        return F.normalize(self.projection(self.ln_final(x)[torch.arange(len(text)), text.argmax(1)]), dim=1)


class Clip(nn.Module):
    """models/clip.nn"""

    def __init__(self, size, patch, length, vocabulary, embed, width, layers, heads):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.empty(()))
        self.image, self.text = VisionTransformer(size, patch, embed, width, layers, heads), TextTransformer(length, vocabulary, embed, width, layers, heads)

    def forward(self, image, text):
        colours = lambda *c: torch.tensor(c, dtype=image.dtype).view(1, 3, 1, 1)
        image = (image - colours(0.4815, 0.4578, 0.4082)) / colours(0.2686, 0.2613, 0.2758)
        logits, labels = self.logit_scale.exp().clamp(max=100) * self.image(image) @ self.text(text.long()).T, torch.arange(len(image))
        return with_losses(logits, loss=0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)))


class Code(nn.Module):
    def __init__(self, k, d):
        super().__init__()
        self.e = nn.Parameter(torch.empty(k, d))

    def forward(self, z):
        places = z.permute(0, 2, 3, 1)
        code = torch.cdist(places.flatten(0, 2), self.e).argmin(1).view(places.shape[:3])
        return code, self.e[code].permute(0, 3, 1, 2)


class Bottleneck(nn.Module):
    """of models/vq_vae.nn"""

    def __init__(self, hidden):
        super().__init__()
        self.a, self.b = nn.Conv2d(hidden, hidden // 4, 3, 1, 1, bias=False), nn.Conv2d(hidden // 4, hidden, 1, bias=False)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class VqVae(nn.Module):
    """models/vq_vae.nn"""

    def __init__(self, hidden, k, d):
        super().__init__()
        h = hidden
        self.encoder = nn.Sequential(nn.Conv2d(3, h // 2, 4, 2, 1), nn.ReLU(), nn.Conv2d(h // 2, h, 4, 2, 1), nn.ReLU(), nn.Conv2d(h, h, 3, 1, 1),
                                     Bottleneck(h), Bottleneck(h), nn.ReLU(), nn.Conv2d(h, d, 1))
        self.code = Code(k, d)
        self.decoder = nn.Sequential(nn.Conv2d(d, h, 3, 1, 1), Bottleneck(h), Bottleneck(h), nn.ReLU(), nn.ConvTranspose2d(h, h // 2, 4, 2, 1), nn.ReLU(),
                                     nn.ConvTranspose2d(h // 2, 3, 4, 2, 1))

    def forward(self, x):
        z = self.encoder(x)
        code, near = self.code(z)
        y = self.decoder(z + (near - z).detach())
        losses = dict(reconstruction=F.mse_loss(y, x), embedding=F.mse_loss(near, z.detach()), commitment=0.25 * F.mse_loss(z, near.detach()))
        return with_losses(code, **losses), near, y, z


class Dqn(Teaching):
    """models/dqn.nn"""

    def __init__(self, observations, hidden, actions, every):
        super().__init__(target=('network', dict(every=every)))
        self.network = nn.Sequential(nn.Linear(observations, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, actions))

    def forward(self, state, action, reward, following, ended):
        target, = self.teachers()
        values = self.network(state)
        wanted = reward + 0.99 * (1 - ended) * target(following).amax(1, keepdim=True)
        return with_losses(values, loss=F.huber_loss(values.gather(1, action.long()), wanted))
