"""Modules that write, repeat and choose by places: each case computes what PyTorch does, or is refused with its line and a word on what to write."""
import re

import pytest
import torch
from torch import nn

from check import check
from nnc import importer, torch_ops
from nnc.importer import ImportFailed, convert


class Several(nn.Module):
    """Functions of a linear layer's outputs, [4, 6]."""

    def __init__(self, *functions):
        super().__init__()
        self.pre, self.functions, self.scale = nn.Linear(6, 6), functions, nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x, *others):
        y = self.pre(x)
        return [f(y, *others) for f in self.functions]


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return x * self.scale.repeat(4, 2) + self.scale.repeat(1, 2)


def same(*functions, given=()):
    return check(Several(*functions), (torch.randn(4, 6), *given), modes=('train',)).text


def refused(f, what, given=()):
    with pytest.raises(ImportFailed, match=what):
        convert(Several(f), (torch.randn(4, 6), *given), sizes=False)


def test_more_repeats_than_axes():
    same(lambda y: y.repeat(2, 1, 2), lambda y: y.repeat(2, 3, 1), lambda y: y[0].repeat(2, 3), lambda y: y[0, :3].repeat(2, 2), lambda y: torch.tile(y, (2, 1, 2)), lambda y: torch.tile(y, (2,)), lambda y: torch.tile(y[:, None], (3, 1)),
         lambda y: y.repeat(1, 1, 1), lambda y: y[0, 0].repeat(2, 3), lambda y: torch.cat([y.repeat(0, 1), y]))
    check(Scale(), (torch.randn(4, 6),), modes=('train',))
    refused(lambda y: y.repeat(2, 0), r'an output: a tensor without elements')
    refused(lambda y: y.repeat(0, 1).sum(0) + y, r'test_imperative.py:\d+: a tensor without elements')


def test_corrections_that_are_no_integers():
    same(lambda y: torch.var(y, dim=1, correction=2.5), lambda y: torch.std(y, dim=0, correction=0.5, keepdim=True), lambda y: torch.var_mean(y, dim=1, correction=1.5), lambda y: torch.std_mean(y, dim=1, correction=0.25),
         lambda y: y.var(1, unbiased=True), lambda y: y.std(1, False), lambda y: y.var(correction=2))


def one_written(y):
    y = y.tanh().clone()
    y[1, 2] = 0.
    return y


def through_a_slice(y):
    y = y * 2
    u = y[1:3]
    u[0, 1] = 5
    return y, u


def of_an_integer(y):
    y = y * 1
    y[0, 1], y[-1, -1] = 5, y[1, 1]
    return y


def test_one_element_is_written():
    same(one_written, through_a_slice, of_an_integer)


def written_at(y, t):
    y = y.clone()
    y[:, t[0]] = 0
    return y


def test_a_place_that_is_computed():
    same(lambda y, t: y[:, t[0]], lambda y, t: y.select(1, t[1]), lambda y, t: y[..., t[0]], lambda y, t: y[t[0]], lambda y, t: y[t[0], t[1]], lambda y, t: y[:, None, t.max()], lambda y, t: y[1:, t[0] - 1], given=(torch.tensor([3, -2]),))
    refused(lambda y, t: y[:t[0]], r'test_imperative.py:\d+: aten.slice: a size that depends on values', (torch.tensor([3, 2]),))
    refused(lambda y, t: y * t[0].item(), r'test_imperative.py:\d+: aten.item: the tensor itself', (torch.tensor([3, 2]),))
    refused(written_at, r'test_imperative.py:\d+: y\[:, t\[0\]\] = 0: a place that is computed.*y\[t\[:1\]\] = v', (torch.tensor([3, 2]),))


def test_fewer_indices_than_elements():
    given = torch.tensor([[1, 0], [3, 2], [2, 2]])
    same(lambda y, t: y.gather(0, t), lambda y, t: y.gather(1, t), lambda y, t: y[:, None].gather(2, t[:, None]), lambda y, t: torch.take_along_dim(y, t[:1, :1], 0), lambda y, t: torch.take_along_dim(y[:3], t, 1), lambda y, t: y[0].gather(0, t[0]),
         lambda y, t: y[:3].scatter(1, t, y.detach()), lambda y, t: y[:3].scatter_add(1, t, y.detach()), lambda y, t: y[:3].scatter_reduce(1, t, y.detach(), 'sum'), lambda y, t: y[:, :2].scatter(0, t, y[:, 1:].detach()), given=(given,))
    refused(lambda y, t: y.scatter(1, t, y), r'test_imperative.py:\d+: aten.scatter: .*put it back with cat', (given,))


def on_the_diagonal(y):
    y = y.clone()
    y.diagonal(1).mul_(2)
    return y


def test_parts_put_into_their_places():
    same(lambda y: torch.diagonal_scatter(y @ y.T, y[:, 0]), lambda y: torch.diagonal_scatter(y, y[0, :4], 2), lambda y: torch.diagonal_scatter(y.reshape(2, 2, 6), y[:2, :2], -1, 2, 0)[1:], on_the_diagonal,
         lambda y: torch.slice_scatter(y, y[:2] * 2, 0, 1, 3), lambda y: torch.slice_scatter(y, y[:2], 0, 0, 4, 2), lambda y: torch.select_scatter(y, y[0], 0, -1))
    same(lambda y, t: (y * 1).fill_diagonal_(0.5), lambda y, t: y[0, 0] * (t * 1).fill_diagonal_(7), given=(torch.tensor([[1, 2], [3, 4]]),))
    same(lambda y, t: y.index_fill(1, t, 2.0), lambda y, t: y.index_fill(0, t[0], y[1, 1]), given=(torch.tensor([3, -2]),))
    refused(lambda y: y.masked_scatter(y > 0, y.exp()), r'test_imperative.py:\d+: aten.masked_scatter: the .nn language')


class Experts(Several):
    pass


def test_truth_of_numbers():
    same(lambda y: y * y.all() + y * y.relu().any(1, keepdim=True) + y * y.relu().all(0), lambda y: y * y.relu().logical_not() - y * (y > 0).logical_not())
    same(lambda y, t: y * t.all() + t.any() * y, given=(torch.tensor([3, 0]),))


def test_experts_are_named_where_there_are_some():
    refused(torch.histc, r'aten.histc: the .nn language has no such')
    with pytest.raises(ImportFailed, match='experts of transformers'):
        convert(nn.Sequential(Experts(torch.histc)), (torch.randn(4, 6),), sizes=False)


def test_a_constant_mask_is_told_by_its_places():
    refused(lambda y: y[:, torch.tensor([True, False, True, False, False, False])], r'test_imperative.py:\d+: aten.index: a constant mask: its places, \[0, 2\]')
    refused(lambda y: y[y[:, 0] > 0], r'test_imperative.py:\d+: aten.index: a size that depends on values')


def broken(*_):
    raise ZeroDivisionError('by nothing')


def test_errors_of_the_importer_are_told_with_their_line(monkeypatch, tmp_path):
    def cause(f):
        with pytest.raises(ImportFailed) as e:
            importer.from_torch(Several(f), torch.randn(4, 6), tmp_path / 'm.nn')
        found = e.value
        while found.__cause__ is not None:
            found = found.__cause__
        assert isinstance(found, ZeroDivisionError) and not list(tmp_path.iterdir())
        return str(e.value)
    with monkeypatch.context() as m:
        m.setitem(torch_ops.TABLE, 'aten.tanh', broken)
        assert re.fullmatch(r'.*test_imperative.py:\d+: aten.tanh: the importer failed: ZeroDivisionError: by nothing', cause(lambda y: y.tanh()))
    with monkeypatch.context() as m:
        m.setattr(torch.export.ExportedProgram, 'run_decompositions', broken)
        assert re.fullmatch(r'.*test_imperative.py:\d+: aten.addr: torch cannot take this apart, .*: ZeroDivisionError: by nothing', cause(lambda y: torch.addr(y, y[:, 0], y[0])))
        assert re.fullmatch(r'.*test_imperative.py:\d+: aten.fill_: torch cannot take this apart, .*: ZeroDivisionError: by nothing', cause(one_written).splitlines()[-1])
    with monkeypatch.context() as m:
        m.setattr(importer, 'connect', broken)
        assert cause(lambda y: y.tanh()) == 'Several: the importer failed: ZeroDivisionError: by nothing'
        m.setattr(importer, 'connect', stopped)
        with pytest.raises(KeyboardInterrupt):
            convert(Several(torch.tanh), (torch.randn(4, 6),))


def stopped(*_):
    raise KeyboardInterrupt
