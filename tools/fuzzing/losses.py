"""Losses whose operands are more than a prediction and a target: makers and the same in PyTorch."""
import torch
import torch.nn.functional as F

from fuzzing.functions import RULES
from fuzzing.library import as_rule, drawn_from, with_axes, within
from fuzzing.maker import count, maker, num
from fuzzing.tree import Node

REDUCTIONS = {'reduction': ('sum', 'mean')}


def signs(g, shape):
    """1 and -1."""
    return Node('where', [Node('gt', [g.want(shape), num(0.1)], type=('b', shape)), num(1.0), num(-1.0)], type=('f', shape))


@maker('hinge_embedding', 'margin_ranking', 'cosine_embedding', 'triplet_margin', 'gaussian_nll', 'focal', 'dice', 'info_nce', 'nll_loss', 'ctc_loss')
def _(g, name):
    return globals()['make_' + name](g, name)


def loss(name, args, x, a):
    return Node(name, args, type=('f', ()), mag=(x.mag + 4) ** 2 * (count(x.shape) if a.get('reduction') == 'sum' else 1), **a)


def make_hinge_embedding(g, name):
    x, a = g.pick(), drawn_from(g, {'margin': (0.5, 2.0), **REDUCTIONS})
    return x and loss(name, [x, signs(g, x.shape)], x, a)


def make_margin_ranking(g, name):
    x, a = g.pick(), drawn_from(g, {'margin': (0.5,), **REDUCTIONS})
    return x and loss(name, [x, g.want(x.shape), signs(g, x.shape)], x, a)


def make_cosine_embedding(g, name):
    x, a = g.of_rank(2), drawn_from(g, {'margin': (0.25,), **REDUCTIONS})
    return x and loss(name, [within(g, x, 'positive'), g.want(x.shape), signs(g, x.shape[:1])], x, a)


def make_triplet_margin(g, name):
    x, a = g.of_rank(2), drawn_from(g, {'margin': (0.5,), 'p': (1.0, 2.0), 'swap': (True,), **REDUCTIONS})
    return x and loss(name, [within(g, x, 'positive'), Node('neg', [within(g, g.want(x.shape), 'positive')], type=x.type), g.want(x.shape)], x, a)


def make_gaussian_nll(g, name):
    x, a = g.pick(), drawn_from(g, {'full': (True,), **REDUCTIONS})
    return x and loss(name, [x, g.want(x.shape), within(g, g.want(x.shape), 'positive')], x, a)


def make_focal(g, name):
    x, a = g.pick(), drawn_from(g, {'alpha': (-1.0, 0.5), 'gamma': (1.0, 3.0), **REDUCTIONS})
    return x and loss(name, [g.tame(x), within(g, g.want(x.shape), 'share')], x, a)


def make_dice(g, name):
    x, a = with_axes(g, 2), drawn_from(g, {'smooth': (0.5,), **REDUCTIONS})
    return x and loss(name, [x, within(g, g.want(x.shape), 'share')], x, a)


def make_info_nce(g, name):
    x, a = g.of_rank(2), drawn_from(g, {'temperature': (0.5, 1.0), 'symmetric': (True,)})
    return x and loss(name, [within(g, x, 'positive'), within(g, g.want(x.shape), 'positive')], x, a)


def make_nll_loss(g, name):
    x = g.of_rank(2, 3, fits=lambda s: s[-1] > 1)
    labels = x and g.integers(x.shape[-1], x.shape[:-1])
    if not labels:
        return None
    a, args = drawn_from(g, REDUCTIONS), [Node('log_softmax', [x], type=x.type), labels]
    if g.chance(0.4):
        args.append(Node('stop_gradient', [within(g, g.want(x.shape[-1:]), 'positive')], type=('f', x.shape[-1:])))
        a['named'] = ['class_weights']
    return loss(name, args, x, a)


def make_ctc_loss(g, name):
    n, length, classes = g.size(4), g.rng.randint(1, 3), g.rng.randint(2, 5)
    t = 2 * length + g.rng.randint(1, 4)
    targets = g.integers(classes - 1, (n, length))
    if not targets:
        return None
    x = Node('log_softmax', [g.want((t, n, classes))], type=('f', (t, n, classes)))
    lengths = lambda low, high: Node('tensor', type=('i', (n,)), values=[g.rng.randint(low, high) for _ in range(n)], first=['values'])
    labels = Node('add', [Node('cast', [targets], type=('i', (n, length)), dtype='i32', first=['dtype']), num(1)], type=('i', (n, length)))
    return loss(name, [x, labels, lengths(2 * length + 1, t), lengths(1, length)], x, drawn_from(g, {'zero_infinity': (True,), **REDUCTIONS}))


def cosine_embedding(a, b, y, margin=0.0, reduction='mean'):
    return F.cosine_embedding_loss(a, b, y, margin=margin, reduction=reduction)


def focal(x, y, alpha=0.25, gamma=2.0, reduction='mean'):
    p = x.sigmoid()
    hit = p * y + (1 - p) * (1 - y)
    each = F.binary_cross_entropy_with_logits(x, y, reduction='none') * (1 - hit) ** gamma
    return getattr(each * (alpha * y + (1 - alpha) * (1 - y)) if alpha >= 0 else each, reduction)()


def dice(x, y, smooth=1.0, reduction='mean'):
    p, y = x.sigmoid().flatten(1), y.flatten(1)
    return getattr(1 - (2 * (p * y).sum(1) + smooth) / (p.sum(1) + y.sum(1) + smooth), reduction)()


def info_nce(a, b, temperature=0.07, symmetric=False):
    logits, own = F.normalize(a, eps=1e-12) @ F.normalize(b, eps=1e-12).T / temperature, torch.arange(len(a))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2 if symmetric else F.cross_entropy(logits, own)


def nll_loss(o, n, t):
    x, labels = t[0].flatten(0, -2), t[1].flatten().long()
    return F.nll_loss(x, labels, weight=t[2] if len(t) > 2 else None, reduction=n.attrs.get('reduction', 'mean'))


RULES['hinge_embedding'] = as_rule(lambda x, y, **a: F.hinge_embedding_loss(x, y, **a))
RULES['margin_ranking'] = as_rule(lambda x, y, s, **a: F.margin_ranking_loss(x, y, s, **a))
RULES['triplet_margin'] = as_rule(lambda x, y, z, **a: F.triplet_margin_loss(x, y, z, **a))
RULES['gaussian_nll'] = as_rule(lambda x, y, v, **a: F.gaussian_nll_loss(x, y, v, **a))
RULES['cosine_embedding'], RULES['focal'], RULES['dice'], RULES['info_nce'] = map(as_rule, (cosine_embedding, focal, dice, info_nce))
RULES['nll_loss'] = nll_loss
RULES['ctc_loss'] = as_rule(lambda x, y, xs, ys, **a: F.ctc_loss(x, y.long(), xs.long(), ys.long(), **a))
