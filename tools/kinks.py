"""What the functions of the language do where they bend, branch or overflow: the table of docs/layers.md, and the functions that do none of that.

test/gradients/kinks.test holds that each function of nnc --list-ops is among those that make_kinks.py compares with PyTorch, or in NONE.
"""

# functions, where, gradient. Words in backquotes that are functions count as told of.
TABLE = [
    ('`relu`, `leaky_relu`, `prelu`, `reglu`', '0', 'that of the negative side: 0, `slope`'),
    ('`elu`, `selu`, `celu`', '0', 'that of the negative side, `alpha`, 1.76, 1; the second is 0, as that of x'),
    ('`relu6`, `clamp`, `hardtanh`, `hardsigmoid`', 'at a limit, and beyond', '0 (in older versions of PyTorch `clamp` has 1 at the limits)'),
    ('`hardswish`', '-3, 3', '0, 1: those of the outer sides'),
    ('`softshrink`, `hardshrink`, `threshold`', 'at a limit', '0, as between the limits, or below'),
    ('`abs`, `l1`, `softsign`', '0', '0, of `softsign` 1'),
    ('`sign`, `floor`, `ceil`, `trunc`, `round`', '', '0 everywhere, also of `x // y`; `frac` has 1, `x % y` and `fmod` 1 and minus the quotient. `round` takes the even one of two, `sign` of NaN is NaN, where PyTorch has 0'),
    ('`huber`, `smooth_l1`', 'at the limit', 'both sides agree; `smooth_l1` with a limit of 0 is `l1`'),
    ('`hinge`, `hinge_embedding`, `margin_ranking`, `cosine_embedding`, `triplet_margin`', 'just the margin', '0'),
    ('`maximum`, `minimum`', 'equal operands', 'half to each'),
    ('`amax`, `amin`, `segment_max`, `norm` with `p = "inf"`', 'several equal extremes', 'the same part to each'),
    ('`maxpool`, `adaptive_maxpool`', 'several equal maxima', 'all to the first of the window'),
    ('`cummax`, `cummin`', 'equal elements', 'to the last of them'),
    ('`sort`, `argsort`, `topk`, `kthvalue`, `median`, `searchsorted`', 'equal elements', 'to the one that stands there: equal ones stay in their order. NaN is the largest, and the `median` of a row that has one'),
    ('`argmax`, `argmin`, `accuracy`', 'several equal extremes', 'none; the first counts, of NaN the first'),
    ('`isnan`, `isinf`, `isfinite`, `all`, `any`', '', 'none'),
    ('`where`', '', '0 for what is not chosen; but what is made of it is computed all the same: in `where(x > 0, log(x), 0)` the gradient at 0 is 0/0, NaN. Choose before: `log(where(x > 0, x, 1))`'),
    ('`sqrt`, `x ** 0.5`, `rsqrt`, `log`, `log2`, `log10`, `log1p`, `logit`, `reciprocal`', 'where they have a pole or begin', 'infinite; `sqrt(sum(square(x)))` of zeros NaN. Use `norm`, or add a small number inside'),
    ('`norm`, `hypot`, `std`, `normalize`', 'zeros, for `std` equal elements', '0; `normalize` is x / `eps` up to the limit, `cosine_similarity` below it has the gradient of the length all the same'),
    ('`asin`, `acos`, `acosh`, `atanh`, `erfinv`', 'at the ends', 'infinite'),
    ('`atan2`', '0', '0; zeros have signs: `atan2(-0, -1)` is -pi, `atan2(0, -0)` pi; of two infinities it is an odd multiple of pi/4'),
    ('`lgamma`, `digamma`', 'at the poles', 'that of PyTorch; `digamma(0)` is infinite with the sign of the side'),
    ('`xlogy`, `kl_div`', '0', '`xlogy(0, y)` is 0 with gradient log(y), where y <= 0 with 0; in `kl_div` a target of 0 counts 0 also beside a logarithm of -infinity, where PyTorch has NaN'),
    ('`x ** y`', 'x = 0', 'that of y is 0 for y >= 0; `x ** 0` is 1 everywhere, with gradient 0'),
    ('`prod`, `cumprod`', '0', 'the product of the others'),
    ('`softplus`, `log_sigmoid`, `logaddexp`, `binary_cross_entropy`', '0', 'sigmoid(x) everywhere; small results keep their digits (PyTorch\'s `softplus` is x above 20)'),
    ('`expm1`, `sinh`, `cosh`, `sinc`', 'beside 0, `expm1` far below', 'all digits, where PyTorch\'s lose some'),
    ('`logsumexp`, `logcumsumexp`, `logaddexp`', 'infinities', 'infinite, not NaN'),
    ('`lerp`', 'a weight of 1', 'just `end`'),
    ('`layernorm`, `rmsnorm`, `groupnorm`, `batchnorm`, `instance_norm`, `local_response_norm`', 'equal elements', 'finite: `eps` keeps it from dividing by 0'),
    ('`weight_norm`', 'zeros', 'NaN: a row without length has no direction'),
    ('`softmax`, `softmin`, `log_softmax`, `segment_softmax`, `cross_entropy`', '-infinity', 'a class that cannot be; a row of nothing else is NaN. `attention` gives zeros where a query sees no key'),
    ('`cross_entropy`, `nll_loss`', 'no label counts: all are ignored, or all weights are 0', '0, and so is the mean, where PyTorch has NaN'),
    ('`ctc_loss`', 'what no path spells', 'the loss is infinite, the gradient 0; PyTorch\'s gradient is NaN, also where a logarithm is -infinity'),
    ('`gaussian_nll`, `poisson_nll`', 'a variance below `eps`, targets up to 1', 'that of the variance as it would be without the limit; Stirling\'s part is 0, with gradient 0'),
    ('`segment_max`', '', 'a segment of nothing but -infinity is like an empty one: 0'),
    ('`nan_to_num`', 'NaN, infinities', '0'),
    ('`grid_sample`', 'centres of pixels, the border', 'that of the side above; `"border"` and `"reflection"` have 0 at the border, `"nearest"` everywhere'),
]

# Compared at infinities, zeros and NaN, but they do not bend.
SMOOTH = ['gelu', 'silu', 'mish', 'quick_gelu', 'sigmoid', 'tanh', 'tanhshrink', 'swiglu', 'glu', 'geglu', 'exp', 'exp2', 'sin', 'cos', 'tan', 'atan', 'asinh', 'erf', 'erfc', 'square', 'sum', 'mean', 'var', 'mse',
          'soft_cross_entropy', 'focal', 'dice', 'info_nce', 'avgpool', 'segment_sum', 'segment_mean', 'cumsum', 'linear_recurrence', 'attention']

# Why no row says what they do, and which.
NONE = {
    'moves, repeats or chooses elements': [
        'reshape', 'flatten', 'transpose', 'rearrange', 'narrow', 'split', 'concat', 'pad', 'broadcast_to', 'gather', 'take_along', 'scatter', 'scatter_add', 'index_select', 'embedding', 'flip', 'roll', 'tile',
        'repeat_interleave', 'stack', 'unstack', 'squeeze', 'unsqueeze', 'expand', 'tril', 'triu', 'meshgrid', 'pixel_shuffle', 'pixel_unshuffle', 'channel_shuffle', 'unfold', 'causal_mask'],
    'sums of products': [
        'linear', 'conv1d', 'conv2d', 'conv3d', 'conv_transpose1d', 'conv_transpose2d', 'conv_transpose3d', 'matmul', 'einsum', 'outer', 'rfft', 'irfft', 'fft', 'rope', 'fold', 'affine_grid', 'resize', 'interpolate',
        'adaptive_avgpool'],
    'made of sigmoid and tanh': ['lstm_cell', 'gru_cell'],
    'singular matrices: singular.test': ['cholesky', 'solve', 'solve_triangular', 'inv', 'slogdet', 'logdet', 'det'],
    'follows a singular value over steps; that of zeros is 0, by which it divides': ['spectral_norm'],
    'draws, or of no tensor': ['dropout', 'drop_path', 'normal', 'uniform', 'bernoulli', 'randint', 'permutation', 'constant', 'zeros', 'ones', 'iota', 'tensor', 'full', 'eye', 'arange', 'linspace', 'one_hot'],
    'of what is known while compiling': ['len', 'dims', 'axes_of', 'is_list', 'contains', 'dtype', 'none', 'training', 'parameters'],
    'gives the value on as it is': ['stop_gradient', 'cast'],
    'the gradient itself': ['grad'],
}
