"""How each operation of torch is written in the .nn language: one small function per operation, in the table TABLE.

A function gets the context `t` and the arguments of the operation's schema in their order, those that were not given with their defaults. Tensors are expressions
(text.Expr), everything else is what torch has: numbers, strings, dtypes, lists. It gives the expression of the result, or raises Unsupported with what a user can do.
The in-place form (relu_) has the entry of the other one."""
from __future__ import annotations

import math
from typing import Any, Callable

import torch

from .text import Const, Expr, Initial, List, Op, Param, Statement, Value, Var, as_expr, call

TABLE: dict[str, Callable] = {}

# Of several results the others are for the backward pass, or places that the language does not have.
FIRST_ONLY = {'aten.' + n for n in ('_native_batch_norm_legit_functional', '_native_batch_norm_legit_no_training', '_native_batch_norm_legit', 'native_batch_norm', 'native_layer_norm', 'embedding_bag', '_embedding_bag', 'rrelu_with_noise_functional', 'adaptive_max_pool1d', 'adaptive_max_pool2d', 'adaptive_max_pool3d', 'max_pool1d_with_indices',
                                    'max_pool2d_with_indices', 'max_pool3d_with_indices')}

# What the language does not have, and what to write instead.
INSTEAD = {'aten.' + n: what for what, names in {
    'max_pool2d or adaptive_max_pool2d': ('fractional_max_pool2d', 'fractional_max_pool3d'),
    'dropout2d': ('feature_alpha_dropout',),
    'conv_transpose2d or interpolate': ('max_unpool2d', 'max_unpool3d'),
    'a factor, such as linalg.cholesky, or linalg.solve; there are no decompositions into singular values or eigenvectors': (
        '_linalg_svd', 'linalg_svd', 'linalg_svdvals', '_linalg_eigh', 'linalg_eigh', 'linalg_eig', 'linalg_eigvalsh', '_linalg_eigvals', 'linalg_qr', 'linalg_lstsq', 'linalg_pinv', 'linalg_matrix_exp', 'linalg_lu'),
    'a size that depends on values cannot be compiled: multiply by the mask, or where(mask, x, 0)': ('nonzero', 'nonzero_static', 'masked_select', 'unique', '_unique2', 'unique_consecutive', 'unique_dim'),
    'real and imaginary part as tensors of their own': ('complex', 'view_as_complex', 'view_as_real', 'fft_fft', 'fft_ifft', 'fft_rfft', 'fft_irfft', '_fft_r2c', '_fft_c2r', '_fft_c2c'),
    'what the language draws is torch.randn, rand, randint, and bernoulli_ of a number: make it of these, or give it as an input': ('multinomial', 'poisson', 'exponential', 'randperm', 'normal'),
    'max_norm changes the table where it is read: normalise what is looked up': ('embedding_renorm',),
    'numbers instead of matrix products of scaled integers': ('_scaled_mm', '_scaled_mm_v2', '_scaled_grouped_mm'),
    'matmul for each group': ('_grouped_mm',),
    'the tensor itself, in place of the number that .item() gives': ('_local_scalar_dense', 'item'),
    'cdist, or differences by broadcasting: x[:, None] - x': ('pdist', '_pdist_forward'),
}.items() for n in names}
OF_EXPERTS = ('aten.histc', 'transformers.grouped_mm_fallback')


def instead(name: str, modules: tuple) -> str:
    """What to write in place of an operation of these modules, (key, path, class name)."""
    if name in OF_EXPERTS and any('xpert' in path or 'xpert' in cls for _, path, cls in modules):
        return 'experts of transformers, grouped by which tokens go to them: module.set_experts_implementation("batched_mm") before'
    return INSTEAD.get(name, 'the .nn language has no such operation, and torch does not decompose it')


class Unsupported(Exception):
    """An operation with arguments that the language does not have; the text says what to write instead."""


class Known(Expr):
    """A constant tensor, before it is known how it is written."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor


class Context:
    """What a translator may ask: the results' values, shapes and types of expressions."""

    def __init__(self, outputs: list, training: bool, where: str = '', wide: bool = False):
        self.outputs, self.training, self.where, self.wide, self.before = outputs, training, where, wide, []

    @property
    def out(self) -> Value:
        return self.outputs[0]

    def let(self, expr: Expr, shape: list, dtype: str = 'f32') -> Var:
        """A value that the result reads more than once."""
        value = Value(shape, dtype)
        self.before.append(Statement([value], expr, self.where))
        return Var(value)

    def shape(self, e: Expr) -> list:
        if isinstance(e, Var):
            return e.value.shape
        if isinstance(e, Param):
            return e.shape
        if isinstance(e, Known):
            return list(e.tensor.shape)
        if isinstance(e, (Const, int, float, bool)):
            return []
        raise TypeError(e)

    def dtype(self, e: Expr) -> str:
        if isinstance(e, Var):
            return e.value.dtype
        if isinstance(e, Param):
            return e.dtype
        if isinstance(e, Known):
            return dtype_name(e.tensor.dtype)
        v = e.value if isinstance(e, Const) else e
        return 'i1' if isinstance(v, bool) else 'i32' if isinstance(v, int) else 'f32'

    def is_float(self, e: Expr) -> bool:
        return self.dtype(e) == 'f32'


DTYPES = {torch.bool: 'i1', torch.uint8: 'u8', torch.int32: 'i32', torch.int64: 'i64', torch.int16: 'i32', torch.int8: 'i32'}
INTEGERS = {'i64': torch.int64, 'i32': torch.int32, 'u8': torch.uint8, 'i1': torch.bool}


def dtype_name(dtype: torch.dtype) -> str:
    """Floats are the program's float type, f32 in a text."""
    return 'f32' if dtype.is_floating_point else DTYPES.get(dtype, str(dtype))


def op(*names: str):
    def register(f):
        for n in names:
            TABLE['aten.' + n if '.' not in n else n] = f
        return f
    return register


def known_names() -> set:
    return set(TABLE) | {n + '_' for n in TABLE} | {'getitem'} | set(INSTEAD) | set(OF_EXPERTS)


def find(name: str) -> Callable | None:
    return TABLE.get(name) or (TABLE.get(name[:-1]) if name.endswith('_') and not name.endswith('__') else None)


def need(condition: bool, what: str):
    if not condition:
        raise Unsupported(what)


def axis(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def pair(v, n: int = 2) -> Any:
    """[3, 3] is written 3."""
    v = list(v) if isinstance(v, (list, tuple)) else [v]
    v = v * n if len(v) == 1 else v
    return v[0] if all(i == v[0] for i in v) else v


def axes_of(dims, rank: int) -> Any:
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return None
    dims = [axis(d, rank) for d in (dims if isinstance(dims, (list, tuple)) else [dims])]
    dims = [d - rank if d == rank - 1 else d for d in dims] if len(dims) == 1 else dims
    return dims[0] if len(dims) == 1 else dims


def module_of(weight: Expr, last: str = 'weight') -> str | None:
    """The path of the module whose parameter `last` this is."""
    return weight.path[:-len(last) - 1] if isinstance(weight, Param) and weight.path.endswith('.' + last) else None


def same_module(weight: Expr, bias: Expr | None) -> str | None:
    path = module_of(weight)
    return path if path is not None and (bias is None or module_of(bias, 'bias') == path) else None


def axis_from_end(dim: int, rank: int) -> int:
    dim = axis(dim, rank)
    return -1 if dim == rank - 1 else dim


# --- element by element -------------------------------------------------------------------------------------------------

def simple(torch_name: str, name: str | None = None):
    TABLE['aten.' + torch_name] = lambda t, x, *rest, _name=name or torch_name: call(_name, floats(t, x))


def floats(t: Context, x: Expr) -> Expr:
    return x


for _n in ('relu', 'relu6', 'sigmoid', 'tanh', 'exp', 'log', 'sqrt', 'rsqrt', 'abs', 'sin', 'cos', 'erf', 'floor', 'silu', 'square'):
    simple(_n)


@op('gelu')
def gelu(t, x, approximate):
    return call('gelu', x, approximate=(approximate == 'tanh', False))


@op('leaky_relu')
def leaky_relu(t, x, slope):
    return call('leaky_relu', x, slope=(slope, 0.01))


@op('hardtanh')
def hardtanh(t, x, low, high):
    return call('relu6', x) if (low, high) == (0, 6) else call('clamp', x, low, high)


@op('clamp', 'clip')
def clamp(t, x, low, high):
    if isinstance(low, Expr) or isinstance(high, Expr):
        x = x if low is None else call('maximum', x, low)
        return x if high is None else call('minimum', x, high)
    if low is None or high is None:
        return call('minimum', x, high) if low is None else call('maximum', x, low)
    return call('clamp', x, low, high)


@op('clamp_min')
def clamp_min(t, x, low):
    return call('maximum', x, low)


@op('clamp_max')
def clamp_max(t, x, high):
    return call('minimum', x, high)


@op('softplus')
def softplus(t, x, beta, threshold):
    need(threshold >= 20, 'softplus with a threshold below 20: softplus without one, whose values differ there')
    return call('softplus', x) if beta == 1 else Op('/', [call('softplus', Op('*', [x, Const(beta)])), Const(beta)])


@op('elu')
def elu(t, x, alpha, scale, input_scale):
    if abs(alpha - 1.6732632423543772) < 1e-12 and abs(scale - 1.0507009873554805) < 1e-12 and input_scale == 1:
        return call('selu', x)
    need(scale == 1 and input_scale == 1, 'elu with a scale: multiply the result')
    return call('elu', x, alpha=(alpha, 1))


@op('threshold')
def threshold(t, x, at, value):
    return call('threshold', x, at, value)


for _n in ('selu', 'mish', 'hardswish', 'hardsigmoid', 'log1p', 'expm1', 'ceil', 'trunc', 'frac', 'sign', 'tan', 'sinh', 'cosh', 'log2', 'log10', 'exp2', 'asin', 'acos', 'atan', 'asinh', 'acosh', 'atanh', 'sinc', 'isnan', 'isinf', 'isfinite', 'reciprocal', 'erfc', 'erfinv', 'lgamma', 'digamma'):
    simple(_n)
simple('log_sigmoid_forward', 'log_sigmoid')
simple('log_sigmoid')


@op('round')
def rounded(t, x, decimals=0):
    if not decimals:
        return call('round', x)
    factor, (before, behind) = Const(10.0 ** abs(decimals)), '*/' if decimals > 0 else '/*'
    return Op(behind, [call('round', Op(before, [x, factor])), factor])


@op('logit', 'special_logit')
def logit(t, x, eps=None):
    return call('logit', x, eps=(eps, None))


for _n in ('atan2', 'hypot', 'xlogy', 'logaddexp'):
    op(_n)(lambda t, x, y, _n=_n: call(_n, x, y))


@op('celu')
def celu(t, x, alpha):
    return call('celu', x, alpha=(alpha, 1))


@op('glu')
def glu(t, x, dim):
    return call('glu', x, axis=(axis_from_end(dim, len(t.shape(x))), -1))


@op('neg')
def neg(t, x):
    return Op('-', [x])


def scaled(x, alpha):
    return x if alpha == 1 else Op('*', [as_expr(alpha), as_expr(x)])


@op('add')
def add(t, x, y, alpha=1):
    if isinstance(x, Var) and type(y) in (int, float) and y == 0 and t.dtype(x) == t.out.dtype:     # total = 0; total = total + x
        return x
    if t.out.dtype == 'i1':                   # True + True is True
        return logical_or(t, x, y) if alpha else as_expr(x)
    return Op('+', [as_expr(x), as_expr(scaled(y, alpha))])


@op('sub')
def sub(t, x, y, alpha=1):
    return Op('-', [as_expr(x), as_expr(scaled(y, alpha))])


@op('rsub')
def rsub(t, x, y, alpha=1):
    return Op('-', [as_expr(y), as_expr(scaled(x, alpha))])


@op('mul')
def mul(t, x, y):
    if isinstance(x, Var) and type(y) in (int, float) and y == 1 and t.dtype(x) == t.out.dtype:
        return x
    return logical_and(t, x, y) if t.out.dtype == 'i1' else Op('*', [as_expr(x), as_expr(y)])


@op('div', 'divide', 'true_divide')
def div(t, x, y, rounding_mode=None):
    if rounding_mode == 'floor':
        return Op('//', [as_expr(x), as_expr(y)])
    need(rounding_mode is None or t.out.dtype == 'f32', 'integers divided towards zero: x // y, towards minus infinity')
    quotient = Op('/', [as_expr(x), as_expr(y)])
    return call('trunc', quotient) if rounding_mode == 'trunc' else quotient


@op('floor_divide')
def floor_divide(t, x, y):
    return Op('//', [as_expr(x), as_expr(y)])


@op('remainder')
def remainder(t, x, y):
    return Op('%', [as_expr(x), as_expr(y)])


@op('fmod', 'prims.fmod')
def fmod(t, x, y):
    return call('fmod', x, y)


@op('nan_to_num')
def nan_to_num(t, x, nan=None, posinf=None, neginf=None):
    return call('nan_to_num', x, nan=(nan or 0.0, 0.0), posinf=(posinf, None), neginf=(neginf, None))


@op('pow')
def power(t, x, y):
    if y == 2:
        return call('square', x)
    return Op('**', [as_expr(x), as_expr(y)])


def comparison(name: str, operator: str):
    def f(t, x, y):
        infinite = isinstance(y, float) and math.isinf(y)       # is written as 1e30: what is as large is equal to it
        of_infinity = {'==': '>=', '!=': '<'} if infinite and y > 0 else {'==': '<=', '!=': '>'} if infinite else {}
        return Op(of_infinity.get(operator, operator), [as_expr(x), as_expr(y)])
    TABLE['aten.' + name] = f


for _n, _o in (('eq', '=='), ('ne', '!='), ('lt', '<'), ('le', '<='), ('gt', '>'), ('ge', '>=')):
    comparison(_n, _o)


@op('maximum')
def maximum(t, x, y):
    return call('maximum', x, y)


@op('minimum')
def minimum(t, x, y):
    return call('minimum', x, y)


@op('where')
def where(t, condition, x, y):
    if isinstance(condition, Known) and (condition.tensor.all() or not condition.tensor.any()):
        chosen = as_expr(x if condition.tensor.all() else y)
        return chosen if t.shape(chosen) == t.out.shape else call('broadcast_to', chosen, t.out.shape) if t.shape(chosen) else call('full', t.out.shape, chosen)
    return call('where', condition, x, y)


@op('masked_fill')
def masked_fill(t, x, mask, value):
    return where(t, mask, value, x)


@op('logical_not')
def logical_not(t, x):
    return Op('==', [x, Const(0)])


@op('bitwise_not')
def bitwise_not(t, x):
    need(t.dtype(x) == 'i1', 'bitwise_not of integers: -1 - x')
    return logical_not(t, x)


@op('logical_or', 'bitwise_or', '__or__')
def logical_or(t, x, y):
    need(t.dtype(x) == t.dtype(y) == 'i1', 'bitwise_or of integers, or of numbers as truth: comparisons, x != 0')
    return Op('or', [as_expr(x), as_expr(y)])


@op('logical_xor', 'bitwise_xor', '__xor__')
def logical_xor(t, x, y):
    need(t.dtype(x) == t.dtype(y) == 'i1', 'bitwise_xor of integers, or of numbers as truth: comparisons, x != 0')
    return Op('!=', [as_expr(x), as_expr(y)])


@op('logical_and', 'bitwise_and', '__and__')
def logical_and(t, x, y):
    need(t.dtype(x) == t.dtype(y) == 'i1', 'bitwise_and of integers, or of numbers as truth: comparisons, x != 0')
    return call('where', x, y, False) if isinstance(x, Expr) else call('where', y, x, False)


@op('to', '_to_copy', 'type_as')
def convert(t, x, *rest):
    return x if t.dtype(x) == t.out.dtype else call('cast', x, t.out.dtype)


@op('detach')
def detach(t, x):
    return call('stop_gradient', x)


# --- layers with parameters ---------------------------------------------------------------------------------------------

@op('linear')
def linear(t, x, weight, bias):
    features, path = t.shape(weight)[0], same_module(weight, bias)
    if path is not None:
        rows = x if len(t.shape(x)) > 1 else call('reshape', x, [1, -1])
        y = call('linear', rows, features, bias=(bias is not None, True), label=path)
        return y if rows is x else call('reshape', y, [features])
    y = call('linear', x, features, bias=False, weight=weight) if len(t.shape(x)) > 1 else call('matmul', x, call('transpose', weight))
    return y if bias is None else Op('+', [y, bias])


@op('embedding')
def embedding(t, weight, indices, padding_idx=-1, scale=False, sparse=False):
    need(not scale, 'scale_grad_by_freq divides gradients by how often a row is read: without it')
    path = module_of(weight)
    if path is None:
        rows = call('gather', weight, indices)
    else:
        rows = call('embedding', indices, *t.shape(weight), **{'init': Initial(weight.tensors)} if weight.tensors else {}, label=path)
    if padding_idx < 0:
        return rows
    rows = t.let(rows, t.out.shape)         # the row of padding_idx gets no gradient
    return call('where', call('unsqueeze', Op('==', [indices, Const(padding_idx)]), -1), call('stop_gradient', rows), rows)


@op('embedding_bag', '_embedding_bag')
def embedding_bag(t, weight, indices, offsets, scale=False, mode=0, sparse=False, weights=None, include_last=False, padding_idx=None):
    need(isinstance(offsets, Known) and not include_last and len(t.shape(indices)) == 1, 'embedding_bag with offsets that are computed: bags of one size, indices[N, L]')
    bags, size = offsets.tensor.numel(), t.shape(indices)[0] // max(offsets.tensor.numel(), 1)
    need(torch.equal(offsets.tensor, torch.arange(bags) * size), 'embedding_bag with bags of several sizes: indices[N, L]')
    need(mode < 2 and padding_idx in (None, -1), 'embedding_bag with mode="max" or padding_idx: Embedding, and amax or a product with a mask')
    rows = embedding(t, weight, call('reshape', indices, [bags, size]), scale=scale)
    if weights is not None:
        rows = Op('*', [rows, call('reshape', weights, [bags, size, 1])])
    return call('mean' if mode else 'sum', rows, axes=1)


@op('rrelu')
def rrelu(t, x, lower, upper, training=False, generator=None):
    need(not training, 'leaky_relu: nothing is drawn for each element')
    return leaky_relu(t, x, (lower + upper) / 2)


@op('rrelu_with_noise', 'rrelu_with_noise_functional')
def rrelu_with_noise(t, x, noise, *rest):
    return rrelu(t, x, *rest)


@op('dropout')
def dropout(t, x, p, train):
    return x if p == 0 or t.training and not train else call('dropout', x, *([] if p == 0.5 else [p]))


# --- places that are computed ---------------------------------------------------------------------------------------------

@op('index_select')
def index_select(t, x, dim, at):
    return TABLE['aten.index'](t, x, [None] * axis(dim, len(t.shape(x))) + [at])


# --- reductions and products --------------------------------------------------------------------------------------------

def reduction(name: str, torch_name: str):
    def f(t, x, dims=None, keepdim=False, dtype=None):
        rank = len(t.shape(x))
        return call(name, x, axes=(axes_of(dims, rank), None), keepdims=(bool(keepdim), False))
    TABLE['aten.' + torch_name] = f


for _n, _m in (('sum', 'sum'), ('amax', 'amax'), ('amin', 'amin')):
    reduction(_n, _m)


@op('mean')
def mean(t, x, *rest):
    if not rest or rest[0] is None or isinstance(rest[0], torch.dtype):
        return call('mean', x)
    return call('mean', x, axes=axes_of(rest[0], len(t.shape(x))), keepdims=(bool(rest[1]) if len(rest) > 1 else False, False))


def extreme(name: str, over_all: str, index_of: str, of_two: str):
    def f(t, x, dim=None, keepdim=False):
        if dim is None:
            return call(over_all, x)
        if isinstance(dim, Expr):
            return call(of_two, x, dim)
        shape, a = t.shape(x), axis(dim, len(t.shape(x)))
        at = axis_from_end(dim, len(shape))
        index = call(index_of, x, axis=(at, -1))
        kept = call('reshape', index, shape[:a] + [1] + shape[a + 1:])
        value = call('take_along', x, kept, axis=(at, -1))       # unlike amax's, its gradient goes to one of several equal ones
        return List([value, kept] if keepdim else [call('reshape', value, shape[:a] + shape[a + 1:]), index])
    TABLE['aten.' + name] = f


extreme('max', 'amax', 'argmax', 'maximum')
extreme('min', 'amin', 'argmin', 'minimum')


@op('var')
def var(t, x, *rest):
    rank = len(t.shape(x))
    dims, correction, keepdim = (list(rest) + [None, None, None])[:3] if rest and not isinstance(rest[0], bool) else (None, rest[0] if rest else 1, False)
    correction = 1 if correction is None else correction
    axes = axes_of(dims, rank)
    n = math.prod(t.shape(x)[a] for a in (range(rank) if axes is None else [axes] if isinstance(axes, int) else axes))
    need(n > correction, f'the variance of {n} with a correction of {correction:g}, which is not finite: correction=0')
    y = call('var', x, axes=(axes, None), keepdims=(bool(keepdim), False))
    return y if correction == 0 else Op('*', [y, Const(n / (n - correction))])


def place_of_extreme(t, x, dim, keepdim, name):
    if dim is None:
        return call('reshape', call(name, call('reshape', x, [-1])), t.out.shape)
    index = call(name, x, axis=(axis_from_end(dim, len(t.shape(x))), -1))
    return call('reshape', index, t.out.shape) if keepdim else index


for _n in ('argmax', 'argmin'):
    TABLE['aten.' + _n] = lambda t, x, dim=None, keepdim=False, _n=_n: place_of_extreme(t, x, dim, keepdim, _n)


@op('prod')
def prod(t, x, *rest):
    if not rest or rest[0] is None or isinstance(rest[0], torch.dtype):
        return call('prod', x)
    return call('prod', x, axes=axes_of(rest[0], len(t.shape(x))), keepdims=(bool(rest[1]) if len(rest) > 1 else False, False))


def variance_and_mean(t, x, *rest):
    dims, correction, keepdim = (list(rest) + [None, None, None])[:3] if rest and not isinstance(rest[0], bool) else (None, rest[0] if rest else 1, False)
    return var(t, x, *rest), call('mean', x, axes=(axes_of(dims, len(t.shape(x))), None), keepdims=(bool(keepdim), False))


TABLE['aten.var_mean'] = lambda t, *args: List(list(variance_and_mean(t, *args)))


@op('std')
def std(t, x, *rest):
    return call('sqrt', var(t, x, *rest))


@op('std_mean')
def std_mean(t, x, *rest):
    variance, average = variance_and_mean(t, x, *rest)
    return List([call('sqrt', variance), average])


for _n in ('softmax', 'log_softmax'):
    TABLE[f'aten.{_n}'] = TABLE[f'aten._{_n}'] = lambda t, x, dim, *rest, _n=_n: call(_n, x, axis=(axis_from_end(dim, len(t.shape(x))), -1))


from . import ops_draws, ops_images, ops_indices, ops_losses, ops_norms, ops_products, ops_recurrent, ops_shapes, ops_timm   # noqa: E402, F401  their functions go into TABLE, too
