"""Recurrent layers: a scan over time for each layer and direction, and single cells."""
from __future__ import annotations

from .text import Const, Expr, Index, List, Op, Scan, Statement, Value, Var, call
from .torch_ops import Context, Known, dropout, module_of, op


def recurrent(t: Context, cell: str, x: Expr, states: list, params: list, biases: bool, layers: int, p: float, train: bool, bidirectional: bool, batch_first: bool) -> Expr:
    """The last layer's output, and of each state those that all layers and directions end with."""
    directions, each, axis = 2 if bidirectional else 1, 4 if biases else 2, 1 if batch_first else 0
    shape = t.shape(x)
    zero = zeros(t, states)
    first = [[initial(t, s, k, zero) for k in range(layers * directions)] for s in states]
    last: list[list] = [[] for _ in states]
    for layer in range(layers):
        made = []
        for k in range(layer * directions, (layer + 1) * directions):
            weight_ih, weight_hh, *bias = params[k * each:(k + 1) * each]
            projected = call('linear', x, t.shape(weight_ih)[0], bias=False, weight=weight_ih)
            projected = t.let(Op('+', [projected, bias[0]]) if bias else projected, [*shape[:2], t.shape(weight_ih)[0]])
            hidden = t.shape(weight_hh)[1]
            ends = [Value([shape[1 - axis], hidden], 'f32', name) for name in 'hc'[:len(states)]]
            made.append(Value([*shape[:2], hidden], 'f32'))
            t.before.append(Statement([*ends, made[-1]], Scan(cell, axis, k % directions == 1, projected, Const(shape[axis]), [f[k] for f in first], [weight_hh, *bias[1:]]), t.where))
            for f, v in zip(last, ends):
                f.append(Var(v))
        x = Var(made[0]) if len(made) == 1 else t.let(call('concat', [Var(v) for v in made]), [*shape[:2], 2 * hidden])
        if layer + 1 < layers and p and train:
            x = t.let(dropout(t, x, p, True), t.shape(x))
    return List([x] + [call('stack', f) if len(f) > 1 else call('unsqueeze', f[0], 0) for f in last])


def zeros(t: Context, states: list) -> Expr | None:
    """One value for all states where none is given, which PyTorch begins with zeros."""
    if not all(isinstance(s, Known) and not s.tensor.any() and s.tensor[0].shape == states[0].tensor[0].shape for s in states):
        return None
    zero = t.let(Known(states[0].tensor[0]), t.shape(states[0])[1:])
    zero.value.hint = 'zero'
    return zero


def initial(t: Context, states: Expr, k: int, zero: Expr | None) -> Expr:
    """That of one layer and direction of [layers directions, N, H]."""
    if zero is not None:
        return Var(zero.value)
    return Known(states.tensor[k]) if isinstance(states, Known) else t.let(Index(states, [Const(k)]), t.shape(states)[1:])


@op('lstm')
def lstm(t, x, states, *rest):
    return recurrent(t, 'lstm_cell', x, states, *rest)


@op('gru')
def gru(t, x, state, *rest):
    return recurrent(t, 'gru_cell', x, [state], *rest)


@op('rnn_tanh')
def rnn_tanh(t, x, state, *rest):
    return recurrent(t, 'tanh', x, [state], *rest)


@op('rnn_relu')
def rnn_relu(t, x, state, *rest):
    return recurrent(t, 'relu', x, [state], *rest)


def cell(name: str, x: Expr, states: list, weight_ih: Expr, weight_hh: Expr, bias_ih: Expr | None, bias_hh: Expr | None) -> Expr:
    parameters = {'weight_ih': weight_ih, 'weight_hh': weight_hh, 'bias_ih': bias_ih, 'bias_hh': bias_hh}
    given = {n: p for n, p in parameters.items() if p is not None}
    paths = {module_of(p, n) for n, p in given.items()}
    path = paths.pop() if len(paths) == 1 else None
    return call(name, x, *states, bias=(bias_ih is not None, True), **({} if path is not None else given), label=path)


@op('lstm_cell')
def lstm_cell(t, x, states, *parameters):
    return cell('lstm_cell', x, states, *parameters)


@op('gru_cell')
def gru_cell(t, x, state, *parameters):
    return cell('gru_cell', x, [state], *parameters)
