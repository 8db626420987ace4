"""Convolutions of one and three axes, windows, grids, norms, linear algebra and spectra: makers and the same in PyTorch."""
import torch
import torch.nn.functional as F

from fuzzing.functions import RULES
from fuzzing.library import as_rule, drawn_from, with_axes, within
from fuzzing.maker import LARGEST, count, maker, num
from fuzzing.tree import Node, var


# --- convolutions
@maker('conv3d', 'conv_transpose1d', 'conv_transpose3d', 'conv1d_layer')
def _(g, name):
    axes, transposed = 1 if '1d' in name else 3, 'transpose' in name
    x = g.of_rank(axes + 2)
    if x is None:
        return None
    n, c, *image = x.shape
    kernel = [g.rng.randint(1, 3) for _ in image]
    groups = g.rng.choice([k for k in (1, 1, 2, c) if c % k == 0])
    channels = groups * g.rng.choice((1, 2, 3))
    a = {'channels': channels, 'first': ['channels'], 'kernel': kernel if g.chance(0.5) else kernel[0]}
    kernel = kernel if isinstance(a['kernel'], list) else [kernel[0]] * axes
    a.update(drawn_from(g, {'stride': (1, 2), 'dilation': (1, 2), 'padding': (0, 1)}))
    a.update({'groups': groups} if groups > 1 else {})
    a.update({'bias': False} if g.chance(0.3) else {})
    stride, dilation, padding = a.get('stride', 1), a.get('dilation', 1), a.get('padding', 0)
    wide = [dilation * (k - 1) + 1 for k in kernel]
    if transposed:
        if stride > 1 and g.chance(0.4):
            a['output_padding'] = 1
        out = [(d - 1) * stride - 2 * padding + w + a.get('output_padding', 0) for d, w in zip(image, wide)]
    else:
        out = [(d + 2 * padding - w) // stride + 1 if d + 2 * padding >= w else 0 for d, w in zip(image, wide)]
    if min(out) < 1 or n * channels * count(out) > LARGEST:
        return None
    return Node(name, [x], type=('f', (n, channels, *out)), mag=x.mag, label=g.label(), **a)


def convolution(f, transposed):
    def rule(o, n, t):
        a, x, axes = n.attrs, t[0], t[0].dim() - 2
        kernel, groups = (tuple(a['kernel']) if isinstance(a['kernel'], list) else (a['kernel'],) * axes), a.get('groups', 1)
        c, channels = x.shape[1], a['channels']
        weight = o.parameter('weight', ((c, channels // groups) if transposed else (channels, c // groups)) + kernel, 'weight')
        bias = o.parameter('bias', (channels,), 'bias') if a.get('bias', True) else None
        return f(x, weight, bias, groups=groups, **{k: a[k] for k in ('stride', 'dilation', 'padding', 'output_padding') if k in a})
    return rule


RULES['conv1d_layer'] = convolution(F.conv1d, False)
RULES['conv3d'] = convolution(F.conv3d, False)
RULES['conv_transpose1d'] = convolution(F.conv_transpose1d, True)
RULES['conv_transpose3d'] = convolution(F.conv_transpose3d, True)


# --- windows and grids
@maker('unfold', 'fold')
def _(g, name):
    x = g.of_rank(4, fits=lambda s: 1 < s[2] < 8 and 1 < s[3] < 8)
    if x is None:
        return None
    n, c, *image = x.shape
    kernel = [g.rng.randint(1, 2), g.rng.randint(1, 2)]
    a = {'kernel': kernel, **drawn_from(g, {'stride': (1, 2), 'padding': (0, 1)})}
    windows = count([(d + 2 * a.get('padding', 0) - k) // a.get('stride', 1) + 1 for d, k in zip(image, kernel)])
    columns = (n, c * count(kernel), windows)
    if count(columns) > LARGEST:
        return None
    if name == 'unfold':
        return Node(name, [x], type=('f', columns), mag=x.mag, first=['kernel'], **a)
    return Node(name, [g.want(columns)], type=x.type, mag=4 * x.mag, size=image, first=['size', 'kernel'], **a)


RULES['unfold'] = as_rule(lambda x, kernel, **a: F.unfold(x, kernel, **a))
RULES['fold'] = as_rule(lambda x, size, kernel, **a: F.fold(x, size, kernel, **a))


@maker('affine_grid', 'grid_sample', 'pixel_unshuffle', 'channel_shuffle', 'local_response_norm')
def _(g, name):
    if name == 'affine_grid':
        n, h, w = g.size(4), g.size(6), g.size(6)
        return Node(name, [g.tame(g.want((n, 2, 3)), 2)], type=('f', (n, h, w, 2)), mag=4, size=[h, w], first=['size'], **drawn_from(g, {'align_corners': (True,)}))
    if name == 'pixel_unshuffle':
        x = g.of_rank(4, fits=lambda s: s[2] % 2 == s[3] % 2 == 0)
        return x and Node(name, [x], type=('f', (x.shape[0], 4 * x.shape[1], x.shape[2] // 2, x.shape[3] // 2)), mag=x.mag, factor=2, first=['factor'])
    x = g.of_rank(3, 4) if name != 'grid_sample' else g.of_rank(4)
    if x is None:
        return None
    if name == 'channel_shuffle':
        return Node(name, [x], type=x.type, mag=x.mag, groups=g.rng.choice([k for k in range(1, x.shape[1] + 1) if x.shape[1] % k == 0]), first=['groups'])
    if name == 'local_response_norm':
        return Node(name, [x], type=x.type, mag=x.mag, size=g.rng.randint(1, 3), first=['size'], **drawn_from(g, {'alpha': (0.5,), 'beta': (0.5,), 'k': (2,)}))
    h, w = g.size(5), g.size(5)
    if x.shape[0] * x.shape[1] * h * w > LARGEST:
        return None
    grid = Node('mul', [within(g, g.want((x.shape[0], h, w, 2)), 'small'), num(1.25)], type=('f', (x.shape[0], h, w, 2)))
    return Node(name, [x, grid], type=('f', x.shape[:2] + (h, w)), mag=2 * x.mag,
                **drawn_from(g, {'mode': ('bilinear', 'nearest', 'bicubic'), 'padding_mode': ('zeros', 'border', 'reflection'), 'align_corners': (True,)}))


def shuffled(x, groups):
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


RULES['affine_grid'] = as_rule(lambda x, size, align_corners=False: F.affine_grid(x, [x.shape[0], 1] + size, align_corners=align_corners))
RULES['grid_sample'] = as_rule(lambda x, grid, align_corners=False, **a: F.grid_sample(x, grid, align_corners=align_corners, **a))
RULES['pixel_unshuffle'] = as_rule(lambda x, factor: F.pixel_unshuffle(x, factor))
RULES['channel_shuffle'] = as_rule(shuffled)
RULES['local_response_norm'] = as_rule(lambda x, size, **a: F.local_response_norm(x, size, **{'k': 1.0, **a}))


# --- with parameters
@maker('prelu', 'weight_norm', 'spectral_norm')
def _(g, name):
    if name == 'spectral_norm':
        x = None if g.depth or not g.states else g.of_rank(2, 3, 4)
        return x and Node(name, [within(g, x, 'positive')], type=x.type, mag=2, **drawn_from(g, {'iterations': (2,)}))
    x = g.of_rank(2, 3, 4)
    if x is None:
        return None
    if name == 'prelu':
        return Node(name, [x], type=x.type, mag=x.mag, label=g.label(), **drawn_from(g, {'per_channel': (True,)}))
    return Node(name, [within(g, x, 'positive')], type=x.type, mag=2, label=g.label(), axis=g.rng.randrange(len(x.shape)))


def prelu(o, n, t):
    return F.prelu(t[0], o.parameter('weight', (t[0].shape[1] if n.attrs.get('per_channel') else 1,), 'scale'))


def weight_norm(o, n, t):
    x, axis = t[0], n.attrs['axis']
    others = [i for i in range(x.dim()) if i != axis]
    g = o.parameter('g', (x.shape[axis],), 'scale').reshape([-1 if i == axis else 1 for i in range(x.dim())])
    return x / x.square().sum(others, keepdim=True).sqrt() * g


def spectral_norm(o, n, t):
    """As PyTorch's torch.nn.utils.spectral_norm."""
    u, x = o.state('u', (len(t[0]), 1), 'state'), t[0].flatten(1)
    fixed = x.detach()
    left = F.normalize(u, dim=0)
    right = F.normalize(fixed.T @ left, dim=0)
    if o.training:
        for _ in range(n.attrs.get('iterations', 1)):
            right = F.normalize(fixed.T @ left, dim=0)
            left = F.normalize(fixed @ right, dim=0)
        o.updates[o.path('u')] = left
    return t[0] / (left * (x @ right)).sum()


RULES['prelu'], RULES['weight_norm'], RULES['spectral_norm'] = prelu, weight_norm, spectral_norm


# --- linear algebra, of matrices that are far from singular
@maker('cholesky', 'solve', 'solve_triangular', 'inv', 'det', 'slogdet', 'logdet')
def _(g, name):
    n, more = g.size(6), tuple(g.size(4) for _ in range(g.rng.choice((0, 0, 1, 2))))
    shape = more + (n, n)
    if count(shape) > LARGEST:
        return None
    small = Node('mul', [Node('tanh', [g.want(shape)], type=('f', shape)), num(1.0 / n)], type=('f', shape))
    x = Node('add', [small, Node('mul', [Node('eye', type=('f', (n, n)), n=n, first=['n']), num(1.75)], type=('f', (n, n)))], type=('f', shape), mag=2)
    if name in ('cholesky', 'inv'):
        return Node(name, [x], type=('f', shape), mag=2)
    if name in ('det', 'logdet'):
        return Node(name, [x], type=('f', more), mag=2.0 ** n)
    if name == 'slogdet':
        names = [g.fresh('v'), g.fresh('v')]
        g.statements.append(['let', names, Node(name, [x], types=[('f', more)] * 2)])
        for v in names:
            g.add(var(v, ('f', more), n))
        return True
    b = g.want(shape[:-1] + ((g.size(4),) if g.chance(0.6) else ()))
    a = drawn_from(g, {'upper': (True,), 'unit': (True,)}) if name == 'solve_triangular' else {}
    return Node(name, [x, b], type=b.type, mag=b.mag, **a)


def of_vectors(f):
    """Vectors as matrices of one column."""
    def rule(o, n, t):
        x, b = t
        return f(x, b, n.attrs) if b.dim() == x.dim() else f(x, b.unsqueeze(-1), n.attrs).squeeze(-1)
    return rule


def determinant(x):
    """The gradient of PyTorch's own, of f32, takes the default type (f64, from make_optimizers.py) into a product with f32 and fails."""
    sign, log = torch.linalg.slogdet(x)
    return sign * log.exp()


RULES['cholesky'] = as_rule(lambda x: torch.linalg.cholesky((x + x.mT) / 2))
RULES['solve'] = of_vectors(lambda x, b, a: torch.linalg.solve(x, b))
RULES['solve_triangular'] = of_vectors(lambda x, b, a: torch.linalg.solve_triangular(x, b, upper=a.get('upper', False), unitriangular=a.get('unit', False)))
RULES['inv'], RULES['logdet'] = as_rule(torch.linalg.inv), as_rule(torch.logdet)
RULES['det'] = as_rule(determinant)
RULES['slogdet'] = as_rule(lambda x: list(torch.linalg.slogdet(x)))


# --- spectra
@maker('rfft', 'irfft', 'fft')
def _(g, name):
    x = with_axes(g, 1, lambda s: 2 * count(s) + 2 * count(s[:-1]) <= LARGEST)
    if x is None:
        return None
    x, n = g.tame(x), x.shape[-1]
    if name == 'rfft':
        return Node(name, [x], type=('f', x.shape[:-1] + (n // 2 + 1, 2)), mag=x.mag * n ** 0.5)
    if name == 'fft':
        return Node(name, [g.want(x.shape + (2,))], type=('f', x.shape + (2,)), mag=4 * n ** 0.5, **drawn_from(g, {'inverse': (True,)}))
    half = n // 2 + 1
    y = g.want(x.shape[:-1] + (half, 2))
    even = 2 * (half - 1)
    if even < 1 or g.chance(0.5):
        return Node(name, [y], type=x.type, mag=y.mag, n=n)
    return Node(name, [y], type=('f', x.shape[:-1] + (even,)), mag=y.mag)


def pairs_of(x):
    return torch.view_as_complex(x.contiguous())


RULES['rfft'] = as_rule(lambda x: torch.view_as_real(torch.fft.rfft(x)))
RULES['irfft'] = as_rule(lambda x, n=None: torch.fft.irfft(pairs_of(x), n))
RULES['fft'] = as_rule(lambda x, inverse=False: torch.view_as_real((torch.fft.ifft if inverse else torch.fft.fft)(pairs_of(x))))
