"""Small networks: in both types as PyTorch computes them."""
import pytest
import torch
from torch import nn

import budget
import check as checking
from check import FACTOR, Mismatch, check, times


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, image):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(10, 20), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(20), nn.Linear(20, 3))


class Windows(nn.Module):
    """Overlapping windows, and attention whose values are wider than its keys."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(9, 4), nn.Linear(9, 4), nn.Linear(9, 6)

    def forward(self, image):
        x = image.unfold(2, 3, 2).unfold(3, 3, 2).flatten(4).flatten(2, 3)
        return nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=True)


def test_windows_and_wide_values():
    check(Windows(), (torch.randn(2, 2, 7, 5),))


class Extremes(nn.Module):
    """Of all, of two, along an axis with and without their places; rounded, so that several are equal."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4))
        self.same = nn.Parameter(self.w.detach().clone())

    def forward(self, x):
        y = (x * self.w).add(torch.round(2 * x))
        low, place = torch.min(torch.round(y) + 0 * y, -1, keepdim=True)
        high = torch.round(y).max(1)[0] * y.max(dim=1).values
        return torch.max(y, -y), torch.min(y) + torch.max(y), low + place, high, torch.cat([self.w, self.same]).max(0)[0]


def test_extremes_and_their_places():
    check(Extremes(), (torch.randn(5, 3, 4),))


class Matrices(nn.Module):
    """A Gaussian of a learnt covariance: its factor, what it solves on either side, its determinant."""

    def __init__(self):
        super().__init__()
        self.root = nn.Parameter(torch.eye(4) + 0.1 * torch.randn(4, 4))

    def forward(self, x):
        covariance = self.root @ self.root.T + torch.eye(4)
        lower, upper = torch.linalg.cholesky(covariance), torch.linalg.cholesky(covariance, upper=True)
        y = torch.linalg.solve(covariance, x) + torch.linalg.solve(covariance, x.mT, left=False).mT
        z = torch.linalg.solve_triangular(lower, x, upper=False) + torch.linalg.solve_triangular(upper, x.mT, upper=True, left=False).mT
        z = z + torch.linalg.solve_triangular(lower, x, upper=False, unitriangular=True) + torch.inverse(covariance) @ x
        sign, size = torch.linalg.slogdet(self.root)
        return y + z * sign + size + torch.linalg.det(self.root) + torch.logdet(covariance)


def test_linear_algebra():
    check(Matrices(), (torch.randn(3, 4, 2),))


@pytest.mark.parametrize('dtype', ['f64', 'f32'])
@pytest.mark.parametrize('make, shape', [(Mlp, (4, 10)), (Lenet, (2, 1, 28, 28))])
def test_equals_torch(make, shape, dtype):
    check(make(), (torch.randn(shape),), dtype=dtype)


def test_resnet18():
    torchvision = pytest.importorskip('torchvision')
    check(torchvision.models.resnet18(num_classes=10), (torch.randn(2, 3, 64, 64),))


@pytest.mark.parametrize('dtype', ['f64', 'f32'])
def test_another_activation_is_found(monkeypatch, dtype):
    changed(monkeypatch, 'gelu', 'silu')
    with pytest.raises(Mismatch, match='grad'):
        check(Mlp(), (torch.randn(4, 10),), dtype=dtype)


class Cancelling(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1e5 - 1e5


def changed(monkeypatch, old: str, new: str) -> None:
    """What is compared is another text than that of the module."""
    convert = checking.convert

    def wrong(*args):
        program = convert(*args)
        assert old in program.text
        program.text = program.text.replace(old, new)
        return program
    monkeypatch.setattr(checking, 'convert', wrong)


def test_rounding_is_measured_against_the_truth(monkeypatch):
    changed(monkeypatch, '100000', '150000')         # errors are twice as large
    report = check(Cancelling(10, 20), (torch.randn(4, 10),), dtype='f32')
    assert report.own['output 0'] > 1e-3 and 1 < report.times < 3
    changed(monkeypatch, '150000', '1500000')
    with pytest.raises(Mismatch, match='output 0'):
        check(Cancelling(10, 20), (torch.randn(4, 10),), dtype='f32')


def test_a_loss_is_measured_against_its_terms(tmp_path):
    module, x, targets = nn.Linear(3, 2), torch.ones(2, 3), {0: torch.tensor([[1.0, 1.0], [-1.0, -1.0]])}
    want, floors = checking.reference(module, (x,), {}, [None], 1, targets, str(tmp_path))
    terms = (want['output 0'] * targets[0]).abs().mean()
    assert want['loss'].abs() < 1e-6 * terms
    errors = checking.differences({**want, 'loss': want['loss'] + 2e-4 * terms}, want, floors, 'f32')
    assert 1.9e-4 < errors['loss'] < 2.1e-4


def test_times_of_rounding():
    gradients = lambda many, one: {**{f'grad.{i}': many for i in range(10)}, 'grad.z': one}
    own = {'output 0': 1e-7, **gradients(1e-3, 2e-1)}
    of = lambda output, *errors: times({'output 0': output, **gradients(*errors)}, own, 1e-4)
    assert of(1e-6, 3e-3, 1e-4) == 3
    assert of(1e-6, 5e-3, 2e-1) == 5         # the middle one
    assert of(0, 1e-3, 9e-1) == 4.5          # the largest
    assert of(2e-4, 1e-3, 2e-1) == 8         # an output, beyond the bound, which is four times what rounding makes at least
    assert times({'output 0': 1e-4, 'grad.a': 1e-4}, {}, 1e-4) == 0


def test_same_bytes_within_a_budget():
    budget.check(Lenet(), (torch.randn(2, 1, 28, 28),))


def test_another_byte_is_found():
    one = {'a': torch.zeros(3), 'b': torch.ones(2)}
    assert budget.differ(one, {'b': torch.ones(2), 'a': torch.zeros(3)}) == []
    assert budget.differ(one, {'b': torch.ones(2), 'a': torch.tensor([0.0, -0.0, 0.0])}) == ['a']
    assert budget.differ(one, {'b': torch.ones(2)}) == ['a']


def test_nothing_is_left_out_in_a_comparison():
    """With layers that are left out at random PyTorch differs from itself as far as from anything."""
    ops = pytest.importorskip('torchvision').ops
    depth, margin, dropout = ops.StochasticDepth(0.5, 'row'), nn.TripletMarginLoss(p=2.0), nn.Dropout(0.5)
    checking.without_dropout(nn.ModuleList([depth, margin, dropout]))
    assert (depth.p, margin.p, dropout.p) == (0.0, 2.0, 0.0)


class Shrinking(nn.Linear):
    calls = 0

    def forward(self, x):
        Shrinking.calls += 1
        return super().forward(x) / 100 ** Shrinking.calls


def test_a_module_that_differs_from_itself_is_no_reference():
    comparison = checking.Comparison(nn.Linear(3, 2), (torch.randn(4, 3),), {}, 'f32', 'net', 1, ('train',))
    comparison.given = Shrinking(3, 2)
    with pytest.raises(Mismatch, match='differs from itself'):
        comparison.report(True)


def test_a_layer_alone():
    """Its model cannot be called as the function is that it calls."""
    assert 'model linear_model(' in check(nn.Linear(3, 2), (torch.randn(4, 3),)).text
