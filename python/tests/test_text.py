"""The texts: close to what a person writes, with the names of the source."""
import os
import resource
import subprocess

import pytest
import torch

from check import check
from nnc.importer import ImportFailed, convert, from_torch
from nnc.program import united
from nnc.safetensors import load


def lines(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


def test_resnet50_is_as_short_as_by_hand():
    torchvision = pytest.importorskip('torchvision')
    text = convert(torchvision.models.resnet50(), (torch.randn(2, 3, 64, 64),)).text
    assert lines(text) <= 1.5 * 21                       # models/resnet50.nn without its train section
    assert 'block bottleneck(x, channels, stride=1, downsample=false)' in text
    assert '    x = bottleneck(x, 256, stride=2, downsample=true) as "layer3.0"\n    for i in 1..6 { x = bottleneck(x, 256) as "layer3.{i}" }\n' in text
    assert 'dim classes = 1000\n' in text and '|> linear(classes) as fc' in text and 'dim layers' not in text
    assert 'image' not in text and 'f32[N, 3, 64, 64]' in text


def test_resnet18_names_the_stride_of_its_shortcut():
    torchvision = pytest.importorskip('torchvision')
    text = convert(torchvision.models.resnet18(), (torch.randn(2, 3, 64, 64),)).text
    assert 'if downsample {\n        x = x |> conv2d(channels, stride=stride, bias=false) as "downsample.0"' in text
    assert '    x = x |> basic_block(128, stride=2, downsample=true) as "layer2.0" |> basic_block(128) as "layer2.1"\n' in text     # a line for each stage


def gpt2(layers: int = 3):
    transformers = pytest.importorskip('transformers')
    config = transformers.GPT2Config(n_layer=layers, n_embd=32, n_head=4, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def test_gpt2():
    text = convert(gpt2(), (torch.zeros(2, 8, dtype=torch.long),)).text
    assert lines(text) <= 1.5 * 25
    assert 'attention(query_states, key_states, value_states, heads=4, causal=true, dropout=0.1)' in text
    assert 'gelu(approximate=true)' in text and 'input_ids: i64[N, T]' in text and 'embedding(iota(T), 16, 32' in text
    assert text.count('as "transformer.wte"') == 2       # tied weights
    assert 'dim vocabulary = 50\ndim layers = 3\n' in text and 'linear(vocabulary, bias=false)' in text
    assert '    for i in 0..layers { hidden_states = gpt2_block(hidden_states) as "transformer.h.{i}" }\n' in text
    assert 'conv1d_layer(96) as c_attn' in text          # not a second conv1d
    assert 'param weight: f32[D, nf] = normal(0.01' in text and 'param bias: f32[nf]\n' in text
    assert text.count('init=normal(0.0') == 2
    assert 'assert T <= 16, ' in text


@pytest.mark.skipif('NNC' not in os.environ, reason='nnc lays the text out')
def test_the_layout_is_the_formatters(tmp_path):
    torchvision = pytest.importorskip('torchvision')
    for name, module, example in [('r', torchvision.models.resnet18(), torch.randn(2, 3, 64, 64)), ('g', gpt2(), torch.zeros(2, 8, dtype=torch.long))]:
        from_torch(module, example, str(tmp_path / f'{name}.nn'), loss=torch.nn.functional.cross_entropy)
        subprocess.run([os.environ['NNC'], 'fmt', '--check', str(tmp_path / f'{name}.nn')], check=True)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(30, 6)
        self.rnn = torch.nn.LSTM(6, 5, batch_first=True)

    def forward(self, tokens):
        y, _ = self.rnn(self.words(tokens))
        return y


def test_recurrent_layers_are_scans():
    """As long for a hundred steps as for two."""
    module = Recurrent()
    texts = [convert(module, (torch.zeros(2, steps, dtype=torch.long),)).text for steps in (2, 100)]
    assert texts[0].replace('dim T = 2\n', 'dim T = 100\n') == texts[1]
    assert ''' over T, axis=1, init=(zero, zero)) { step, (h, c) ->
        h, c = lstm_cell(step, h, c, projected=true, weight_hh=weight_hh_l0, bias_hh=bias_hh_l0)
        h, c, h
    }
''' in texts[0]


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner = torch.nn.Embedding(30, 6), torch.nn.Linear(6, 5)

    def forward(self, tokens):
        y = self.inner(self.words(tokens))
        n, t = tokens.shape
        flat = y.view(-1, 5)
        return y.sum() / y.numel(), flat - y.square().sum() / n / 3, y / (n * 2) - n * 3 + y * (n + 1), (y.mean() + 2) ** (2 * n) / (t * 3), flat.mean(0) / (2 * n * t)


def test_sizes_in_arithmetic():
    """sum / (5*N), not sum / 5*N."""
    module, tokens = Counts(), torch.randint(0, 30, (4, 7))
    text = convert(module, (tokens,)).text
    for part in ('/ (5*N*T)', '(2*N)', '3*N', '(N + 1)', '** (2*N)', '/ (3*T)', '/ (2*N*T)', '[N*T, 5]'):
        assert part in text.replace('/(', '/ ('), part
    check(module, (tokens,))


class Halves(Counts):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, tokens):
        y = self.inner(self.words(tokens))
        return y / self.size(*tokens.shape)


@pytest.mark.parametrize('size, steps, name', [(lambda n, t: n * t // 2, 6, '3*N'), (lambda n, t: n + t, 7, 'N + 7'), (lambda n, t: n * t, 7, 'N*T')])
def test_a_size_of_two_names_is_their_product(size, steps, name):
    """Of another one no name may be lost: the text is for one T."""
    text = convert(Halves(size), (torch.zeros(4, steps, dtype=torch.long),)).text
    assert f'/ ({name})' in text.replace('/(', '/ (')
    assert ('dim T = ' in text) == ('T' in name) and f'i64[N, {"T" if "T" in name else steps}]' in text


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        total = 0
        for part in self.parts:
            total = total + torch.relu(part(x))
        return total


def test_a_sum_begins_with_its_first_part():
    assert ' + 0' not in convert(Sum(), (torch.randn(2, 4),)).text


class Positions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.out = torch.nn.Embedding(30, 6), torch.nn.Embedding(40, 6), torch.nn.Linear(6, 3)

    def forward(self, batch):
        tokens = batch['tokens']
        places = torch.arange(tokens.shape[1]).expand(tokens.shape) + 2
        near = (torch.arange(8)[:, None] - torch.arange(8)).abs().expand(len(tokens), 8, 8) % 5
        return {'scores': self.out(self.words(tokens) * 1.0 + self.places(places))[:, [-1]] * near[:, :1, 3:6]}


def test_what_is_the_same_for_each_record():
    text = convert(Positions(), ({'tokens': torch.zeros(2, 8, dtype=torch.long)},)).text
    assert 'dim N = 2\n' in text and 'iota(T) + 2' in text and 'i64[1, 1, 3]' in text and 'assert T + 2 <= 40' in text and '*1.0' not in text and '[:, (T - 1):]' in text


class Windowed(torch.nn.Module):
    def __init__(self, look_back):
        super().__init__()
        self.qkv, self.look_back = torch.nn.Linear(8, 24), look_back

    def forward(self, x):
        away = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        seen = (away < 3) & (away >= 0) if self.look_back else away.abs() < 3
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2)


@pytest.mark.parametrize('look_back', [False, True])
def test_attention_in_a_window(look_back):
    module, x = Windowed(look_back), torch.randn(2, 7, 8)
    assert f'attention(q, k, v, heads=2, {"causal=true, " * look_back}window=3)' in convert(module, (x,)).text
    check(module, (x,))


class Biased(torch.nn.Module):
    def __init__(self, unseen, within):
        super().__init__()
        away = torch.arange(6)[:, None] - torch.arange(6)
        self.qkv, self.bias = torch.nn.Linear(8, 24), torch.where(within(away), 0.0, unseen * away.abs())

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, self.bias.to(x.dtype))


@pytest.mark.parametrize('form, within', [('causal=true', lambda away: away >= 0), ('window=1', lambda away: away == 0)])
def test_a_bias_is_no_mask(form, within):
    """Keys that it makes unlikely are seen."""
    assert form in convert(Biased(-100.0, within), (torch.randn(2, 6, 8),)).text
    module, x = Biased(-2.0, within), torch.randn(2, 6, 8)
    assert form not in convert(module, (x,)).text
    check(module, (x,))


class Later(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.qk, self.v = torch.nn.Linear(8, 16), torch.nn.Linear(8, values)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, -1)).transpose(1, 2) for y in (*self.qk(x).chunk(2, -1), self.v(x)))
        return torch.nn.functional.scaled_dot_product_attention(q[:, :, 2:], k, v, torch.ones(4, 6, dtype=torch.bool).tril(2))


@pytest.mark.parametrize('values', [8, 12])
def test_the_last_queries_look_back(values):
    check(Later(values), (torch.randn(2, 6, 8),))


class Plain(torch.nn.Module):
    def __init__(self, values, one, mask):
        super().__init__()
        self.qk, self.v, self.one, self.mask = torch.nn.Linear(8, 16), torch.nn.Linear(8, values), one, mask

    def forward(self, x):
        q, k, v = (y if self.one else y.unflatten(-1, (2, -1)).transpose(1, 2) for y in (*self.qk(x).chunk(2, -1), self.v(x)))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, self.mask if self.mask.dtype == torch.bool else self.mask.to(x.dtype))


NEAR = (torch.arange(6)[:, None] - torch.arange(6)).abs() < 2


@pytest.mark.parametrize('values, one, mask', [(8, True, NEAR), (12, False, NEAR), (8, False, torch.randn(6, 1))])
def test_attention_that_the_language_has_as_products(values, one, mask):
    """Of one head without its axis, values of another width, one number for all keys of a query."""
    check(Plain(values, one, mask), (torch.randn(2, 6, 8),))


class Grouped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv = torch.nn.Linear(8, 16), torch.nn.Linear(8, 16)

    def forward(self, x):
        k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2)[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for y in self.kv(x).chunk(2, -1))
        return torch.nn.functional.scaled_dot_product_attention(self.q(x).unflatten(-1, (4, 4)).transpose(1, 2), k, v)


def test_repeated_keys_are_grouped_heads():
    module, x = Grouped(), torch.randn(2, 5, 8)
    assert 'broadcast_to' not in convert(module, (x,)).text
    check(module, (x,))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)

    def forward(self, x, memory, pad):
        return self.layer(x, memory, tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(5), tgt_is_causal=True, memory_key_padding_mask=pad)


def test_attention_of_torch_is_attention():
    module, inputs = Decoder(), (torch.randn(2, 5, 8), torch.randn(2, 6, 8), torch.tensor([[False] * 6, [False] * 4 + [True] * 2]))
    text = convert(module, inputs).text
    assert 'heads=2, causal=true' in text and 'heads=2, mask=' in text and 'transpose' not in text
    check(module, inputs)


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = torch.nn.MultiheadAttention(8, 2, 0.5, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x)[1]


def test_weights_of_attention_in_training_are_those_after_dropout():
    """As torch gives them, whose sums are not 1."""
    module, x = Weights(), torch.randn(2, 5, 8)
    assert not torch.allclose(module(x).sum(-1), torch.ones(2, 5))
    text = convert(module, (x,)).text
    assert text.count('dropout') == 1 and text.index('dropout') < text.index('mean')
    assert 'dropout' not in convert(module.eval(), (x,)).text
    check(module, (x,))


class Initialised(torch.nn.Module):
    def __init__(self):
        super().__init__()
        drawn = torch.randn(3, 1000)
        drawn = (drawn - drawn.mean()) / drawn.std()
        values = {'one': torch.ones(3), 'zero': torch.zeros(3), 'number': torch.tensor(2.6592), 'drawn': drawn * 0.05, 'shifted': 2 + drawn * 0.3}
        for name, value in values.items():
            self.register_parameter(name, torch.nn.Parameter(value))
        self.table, self.unit = torch.nn.Embedding(50, 3), torch.nn.Embedding(5000, 3)
        torch.nn.init.normal_(self.table.weight, std=0.5)

    def forward(self, x):
        y = self.one + self.zero + (self.drawn + self.shifted).sum(1) * self.number
        return y + self.table(x) + self.unit(x)


def test_parameters_begin_as_the_modules_values():
    text = convert(Initialised(), (torch.zeros(4, dtype=torch.long),)).text
    for line in ('one: f32[3] = ones', 'zero: f32[3]', 'number: f32[] = 2.6592', 'drawn: f32[3, 1000] = normal(0.05)'):
        assert f'    param {line}\n' in text
    assert 'shifted: f32[3, 1000] = normal(0.3, mean=2.0)' in text
    assert 'embedding(x, 50, 3, init=normal(0.' in text and 'embedding(x, 5000, 3) as unit' in text


def test_gpt2_equals_torch():
    from check import check
    check(gpt2(2), (torch.randint(0, 50, (2, 8)),))


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.p = torch.nn.Linear(8, 8)
        self.register_buffer('mask', torch.tril(torch.ones(6, 6)), persistent=False)

    def forward(self, x):
        h = self.p(x)
        scores = (h @ h.transpose(1, 2)).masked_fill(self.mask[:x.size(1), :x.size(1)] == 0, float('-inf'))
        return scores.softmax(-1) @ h


def test_infinity_is_a_large_number():
    from check import check
    check(Masked(), (torch.randn(2, 5, 8),))


class Weighed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('weight', torch.rand(4))

    def forward(self, x):
        return torch.tanh(self.weight * x)


def test_a_module_of_constants_is_no_activation():
    check(torch.nn.Sequential(torch.nn.Linear(3, 4), Weighed()), (torch.randn(2, 3),))


class Dilated(torch.nn.Module):
    def __init__(self, inputs: int, channels: int, dilation: int):
        super().__init__()
        self.conv = torch.nn.Conv2d(inputs, channels, 3, padding=dilation, dilation=dilation)
        self.shortcut = torch.nn.Conv2d(inputs, channels, 1) if inputs != channels else None

    def forward(self, x):
        return self.conv(x) + (x if self.shortcut is None else self.shortcut(x))


def test_zeros_are_no_multiple_of_an_argument():
    module = torch.nn.Sequential(Dilated(3, 4, 1), Dilated(4, 4, 1), Dilated(4, 8, 1), Dilated(8, 8, 2))
    text = convert(module, (torch.randn(2, 3, 8, 8),)).text
    assert 'if shortcut { x = conv2d(x, channels) as shortcut }' in text     # whose padding is 0, where the padding of the other is an argument


class Scaled(torch.nn.Module):
    """An attribute that is learnt in some, and a number or nothing in others."""

    def __init__(self, learnt: bool, heads: int, shift=1.0):
        super().__init__()
        self.fc, self.heads, self.shift = torch.nn.Linear(4, 4), heads, shift
        self.gamma = torch.nn.Parameter(torch.full((4,), 0.5)) if learnt else 1.0

    def forward(self, x):
        y = x.view(-1, self.heads, 4 // self.heads).transpose(1, 2).reshape(x.shape) if self.heads > 1 else x
        return x + self.gamma * torch.tanh(self.fc(y) + self.shift)


@pytest.mark.parametrize('calls', [((1, 1), (0, 1), (1, 2)), ((1, 1), (0, 2), (1, 2)), ((1, 2), (0, 2), (1, 1)), ((1, 1), (1, 2), (1, 1))])
def test_a_parameter_is_declared_where_it_is_read(calls):
    text = check(torch.nn.Sequential(*[Scaled(*c) for c in calls]), (torch.randn(2, 4),)).text
    assert text.count('block') == 1
    declared = next(line for line in text.splitlines() if 'f32[4] = 0.5' in line).strip()
    assert declared.startswith('param') == all(learnt for learnt, _ in calls)


def test_conditions_of_places_are_united():
    assert united([{'a': True}, {'a': True}]) == [{'a': True}]
    assert united([{'a': True, 'b': True}, {'a': False}, {'a': True, 'b': False}]) == [{}]
    assert united([{'a': True, 'b': True}, {'a': False}]) == [{'a': True, 'b': True}, {'a': False}]


def test_an_attribute_that_is_a_number_in_some():
    module = torch.nn.Sequential(Scaled(False, 1, 2.0), Scaled(False, 1, 3.0), Scaled(False, 1, torch.tensor(3.0)))
    module[0].gamma, module[1].gamma, module[2].gamma = 2.0, torch.nn.Parameter(torch.ones(4)), 2.0
    check(module, (torch.randn(2, 4),))
    check(torch.nn.Sequential(Scaled(False, 1, 2.0), Scaled(True, 1, 3.0)), (torch.randn(2, 4),))


class Alike(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x, _x):
        return self.fc(x) - _x


def test_inputs_of_like_names():
    assert 'alike(x: f32[N, 4], x_2: f32[N, 4])' in check(Alike(), (torch.randn(2, 4), torch.randn(2, 4))).text


class GRUCell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.fc(x))


class Scan(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.gru = torch.nn.Sequential(GRUCell(), GRUCell()), torch.nn.GRU(4, 4, batch_first=True)

    def forward(self, x):
        return self.gru(self.before(x))[0]


def test_no_block_hides_scan_and_its_cells():
    text = check(Scan(), (torch.randn(2, 3, 4),)).text
    assert 'model scan_model(' in text and 'block gru_cell_2(' in text
    assert 'block scan_layer(' in convert(torch.nn.Sequential(Scan(), Scan()), (torch.randn(2, 3, 4),)).text


class Größe(torch.nn.Module):
    def __init__(self, key='größe"\\'):
        super().__init__()
        self.layers, self.σ = torch.nn.ModuleDict({key: torch.nn.Linear(4, 4)}), torch.nn.Parameter(torch.ones(4))
        self._ = torch.nn.Parameter(torch.ones(4))

    def forward(self, größe):
        μ = next(iter(self.layers.values()))(größe)
        return μ * self.σ + μ * self._


def test_names_are_ascii_and_paths_any_string():
    text = check(torch.nn.Sequential(Größe(), Größe()), (torch.randn(2, 4),)).text
    assert 'block grose(' in text and 'param sigma as "σ"' in text and r'as "layers.größe\"\\"' in text
    check(Größe(), (torch.randn(2, 4),), modes=('train',))
    for key in ('{i}', 'a\nb'):
        with pytest.raises(ImportFailed, match='in the name of a parameter'):
            convert(Größe(key), (torch.randn(2, 4),))


class Unknown(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.qr(x)[0] + torch.fft.fft(x).real


def test_all_unknown_operations_are_named_with_their_place(tmp_path):
    with pytest.raises(ImportFailed) as e:
        from_torch(Unknown(), torch.randn(3, 3), str(tmp_path / 'm.nn'))
    text = str(e.value)
    assert 'qr: a factor, such as linalg.cholesky' in text and 'fft: real and imaginary part' in text and 'test_text.py:' in text
    assert not list(tmp_path.iterdir())


def factor(x):
    return x + torch.linalg.qr(x + 1)[0]


class Helped(torch.nn.Module):
    def helper(self, x):
        return factor(x) * 2

    def forward(self, x):
        return self.helper(x) + torch.fft.fft(self.helper(x) - 1).real


def test_the_line_is_that_of_the_function_which_forward_calls():
    module = torch.nn.Sequential(Helped())
    with pytest.raises(ImportFailed) as e:
        convert(module, (torch.randn(3, 3),))
    assert f'test_text.py:{factor.__code__.co_firstlineno + 1}: in 0 (Helped): aten.linalg_qr' in str(e.value)
    assert f'test_text.py:{Helped.forward.__code__.co_firstlineno + 1}: in 0 (Helped): aten.fft_fft' in str(e.value)


def test_nothing_is_written_where_the_text_cannot_be(tmp_path):
    (tmp_path / 'm').mkdir()
    with pytest.raises(IsADirectoryError):
        from_torch(torch.nn.Linear(4, 4), torch.randn(2, 4), tmp_path / 'm')
    assert list(tmp_path.iterdir()) == [tmp_path / 'm']


def test_text_and_weights_are_written_together(tmp_path):
    """On a disk that is full before the weights are there both files stay what they were."""
    (tmp_path / 'elsewhere.nn').touch()
    (tmp_path / 'm.nn').symlink_to('elsewhere.nn')
    from_torch(torch.nn.Linear(4, 4), torch.randn(2, 4), tmp_path / 'm.nn')
    files = lambda: {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    before, limits = files(), resource.getrlimit(resource.RLIMIT_FSIZE)
    assert set(before) == {'elsewhere.nn', 'm.nn', 'm.safetensors'} and before['m.nn'].startswith(b'# m.nn: Linear') and (tmp_path / 'm.nn').is_symlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with pytest.raises(OSError):
            from_torch(torch.nn.Linear(40, 40), torch.randn(2, 40), tmp_path / 'm.nn')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files() == before


def test_empty_inputs_are_refused():
    with pytest.raises(ImportFailed, match=r'an input of shape \[0, 4\]'):
        convert(torch.nn.Linear(4, 4), (torch.randn(0, 4),))


def test_a_complex_buffer_that_nobody_reads(tmp_path):
    module = torch.nn.Linear(4, 4)
    module.register_buffer('turns', torch.zeros(3, dtype=torch.complex64))
    from_torch(module, torch.randn(2, 4), tmp_path / 'm.nn')
    assert set(load(tmp_path / 'm.safetensors')) == {'weight', 'bias'}


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.RReLU()])

    def forward(self, x):
        return self.layers[1](self.layers[0](x))        # this line


def test_within_torch_the_users_line_and_the_modules_path_are_named():
    with pytest.raises(ImportFailed) as e:
        convert(torch.nn.Sequential(Inner()), (torch.randn(2, 3),))
    line = next(n for n, text in enumerate(open(__file__), 1) if text.endswith('# this line\n'))
    assert str(e.value).startswith(f'{__file__}:{line}: in 0.layers.1 (RReLU): aten.rrelu: leaky_relu')
    with pytest.raises(ImportFailed, match=r'test_text.py:\d+: .*depends on values'):
        convert(Branches(), (torch.randn(2, 3),))


class Branches(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_growing_concatenations_are_a_loop():
    torchvision = pytest.importorskip('torchvision')
    from check import check
    module = torchvision.models.DenseNet(growth_rate=4, block_config=(2, 6), num_init_features=8, bn_size=2, num_classes=3)
    text = check(module, (torch.randn(2, 3, 64, 64),)).text
    assert 'for i in 1..7 {' in text and 'as "features.denseblock2.denselayer{i}"' in text and text.count('block dense_layer') == 1
    assert 'as "features.denseblock1.denselayer2"' in text       # of two rounds no loop is made
