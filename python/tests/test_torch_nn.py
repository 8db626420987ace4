"""All of torch.nn, torch.nn.functional, and what else modules call of torch: what comes over computes what PyTorch does, in f64 to 1e-9, and what does not is refused with a word on what to do."""
import re

import pytest
import torch
import torch_cases
from torch import nn

import check as checking
from check import Mismatch, check
from nnc.importer import ImportFailed, convert

ALONE = {'MultiheadAttention', 'Transformer', 'TransformerDecoder', 'TransformerDecoderLayer', 'TransformerEncoder', 'TransformerEncoderLayer', 'LSTM', 'GRU', 'RNN', 'recurrent layers with a state'}     # large: tables of their own
TABLES = {'MODULES': torch_cases.MODULES, 'FUNCTIONS': torch_cases.FUNCTIONS, 'TENSORS': torch_cases.TENSORS}
TOGETHER = 12


class Together(nn.Module):
    """Cases side by side, each with inputs of its own, to which what is learnt is added."""

    def __init__(self, cases: list):
        super().__init__()
        self.cases, self.inputs = nn.ModuleDict(), []
        for name, (f, *inputs) in cases:
            learnt = nn.ParameterList(nn.Parameter(torch.zeros_like(x)) for x in inputs if isinstance(x, torch.Tensor) and x.is_floating_point())
            self.cases[name] = nn.ModuleDict({'f': f if isinstance(f, nn.Module) else Function(f), 'x': learnt})
            self.inputs.append([x.tensor if isinstance(x, torch_cases.Fixed) else x for x in inputs])
        self.learnt = [[isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs] for _, (_, *inputs) in cases]
        self.values = []           # which outputs each case has

    def forward(self, *inputs):
        outputs, given, self.values = [], iter(inputs), []
        for case, learnt in zip(self.cases.values(), self.learnt):
            own = iter(case['x'])
            made = checking.flat(case['f'](*[x + next(own) if is_learnt else x for is_learnt, x in zip(learnt, given)]))
            self.values.append(len(made))
            outputs += made
        return outputs


class Function(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def made(table: str, names) -> list:
    return [(f'{re.sub("[^A-Za-z0-9]", "_", n)}_{k}', case) for n in names for k, case in enumerate(TABLES[table][n]())]


def groups():
    for table, cases in TABLES.items():
        names = [n for n in cases if n not in torch_cases.REFUSED]
        small = [n for n in names if n not in ALONE]
        for group in [small[k:k + TOGETHER] for k in range(0, len(small), TOGETHER)] + [[n] for n in names if n in ALONE]:
            yield pytest.param(table, group, id=f'{table}-{group[0]}')


@pytest.mark.parametrize('table, names', groups())
def test_equals_torch(table, names):
    module = Together(made(table, names))
    args = tuple(x for inputs in module.inputs for x in inputs)
    try:
        check(module, args, modes=('train',))
    except Mismatch as e:
        module(*args)
        of_output = [n for n, k in zip(module.cases, module.values) for _ in range(k)]
        raise Mismatch(re.sub(r'output (\d+)', lambda m: f'{of_output[int(m[1])]} (output {m[1]})', str(e))) from e


@pytest.mark.parametrize('name', torch_cases.REFUSED)
def test_is_refused(name):
    table = next(t for t in TABLES if name in TABLES[t])
    module = Together(made(table, [name])[:1]).train()
    with pytest.raises(ImportFailed, match=torch_cases.REFUSED[name]):
        convert(module, tuple(module.inputs[0]), sizes=False)


def test_names_the_module_within_torch():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.RReLU()))
    with pytest.raises(ImportFailed, match=r'in 1\.0 \(RReLU\): aten.rrelu: leaky_relu'):
        convert(model, (torch.randn(2, 4),))


def test_every_one_of_torch_nn_is_here():
    modules = {n for n, c in vars(nn).items() if isinstance(c, type) and issubclass(c, nn.Module)}
    functions = {n for n, f in vars(nn.functional).items() if not n.startswith('_') and callable(f) and not isinstance(f, type) and getattr(f, '__module__', '') != 'typing'}
    assert modules - set(torch_cases.MODULES) - torch_cases.BASES == set()
    assert functions - set(torch_cases.FUNCTIONS) - torch_cases.HELPERS == set()
