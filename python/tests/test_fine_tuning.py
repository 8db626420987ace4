"""docs/fine-tuning.md as a new user follows it: its programs and commands, on small networks with random weights in the layout that their libraries give them."""
import os
import re
import subprocess

import pytest
import torch

import nnc
from nnc.safetensors import load, save

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
NNC = os.path.abspath(os.environ.get('NNC', 'nnc'))
transformers, torchvision = pytest.importorskip('transformers'), pytest.importorskip('torchvision')


class Page:
    """A section of the page in a folder: Python is run, programs are written, commands are given to a shell whose nnc has further dims."""

    def __init__(self, folder, heading, dims='', steps=40):
        page = open(os.path.join(ROOT, 'docs', 'fine-tuning.md')).read()
        section = page.split(f'## {heading}\n')[1].split('\n## ')[0]
        self.blocks = re.findall(r'^```(\w*)\n(.*?)^```$', section, flags=re.MULTILINE | re.DOTALL)
        self.folder, self.steps, self.names = folder, steps, {}
        os.symlink(os.path.join(ROOT, 'models'), folder / 'models')
        (folder / 'bin').mkdir()
        (folder / 'bin' / 'nnc').write_text(f'#!/bin/sh\nexec {NNC} "$@" {dims}\n')
        (folder / 'bin' / 'nnc').chmod(0o755)

    def follow(self, first=0, last=None):
        for language, text in self.blocks[first:last]:
            text = text.replace('steps      40', f'steps      {self.steps}')
            program = re.match(r'# (\w+\.nn):', text)
            if language == 'python':
                exec(text, self.names)
            elif program:
                (self.folder / program[1]).write_text(text)
            else:
                path = f'{self.folder / "bin"}:{os.environ["PATH"]}'
                done = subprocess.run(['sh', '-e', '-c', text], cwd=self.folder, env={**os.environ, 'PATH': path}, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def small_gpt2(monkeypatch):
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=60, n_positions=64, bos_token_id=0, eos_token_id=0)
    monkeypatch.setattr(transformers.GPT2Model, 'from_pretrained', classmethod(lambda cls, name: cls(config)))
    words = type('Words', (), {'encode': staticmethod(lambda text: [ord(c) % 60 for c in text])})
    monkeypatch.setattr(transformers.AutoTokenizer, 'from_pretrained', staticmethod(lambda name: words))
    return config


def test_gpt2(tmp_path, monkeypatch, small_gpt2):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'story.txt').write_text('once upon a time there was a compiler. ' * 100)
    dims = '-D width=32 -D layers=2 -D heads=4 -D vocabulary=60 -D context=64 -D T=16 -D B=4'
    Page(tmp_path, 'GPT-2, a text of one\'s own', dims).follow()
    theirs, trained = load('gpt2-theirs/model.safetensors'), load('trained.safetensors')
    assert set(theirs) == set(trained)
    frozen = [n for n in theirs if n.startswith(('wte', 'wpe', 'h.0.'))]
    assert all(torch.equal(theirs[n], trained[n]) == (n in frozen) for n in theirs)
    module = transformers.GPT2LMHeadModel(small_gpt2)
    module.transformer.load_state_dict(trained)
    module.eval()
    tokens = torch.tensor([ord(c) % 60 for c in 'once upon a time there was a compiler. ' * 2])[:65]
    x, target = tokens[:64].reshape(4, 16), tokens[1:65].reshape(4, 16)
    with torch.no_grad():
        wanted = torch.nn.functional.cross_entropy(module(x).logits.reshape(-1, 60), target.reshape(-1)).item()
    net = nnc.compile('story.nn', compiler=NNC, width=32, layers=2, heads=4, vocabulary=60, context=64, T=16, B=4)
    started, after = (net.load(f, weights=True) or net.step(tokens=x, target=target)['loss'] for f in ('start.safetensors', 'gpt2.safetensors'))
    assert abs(after - wanted) <= 1e-5 * wanted and after < started - 0.05


def test_gpt2_with_another_head(tmp_path, monkeypatch, small_gpt2):
    monkeypatch.chdir(tmp_path)
    page = Page(tmp_path, 'A module of PyTorch')
    at = next(i for i, (_, text) in enumerate(page.blocks) if 'class Classifier' in text)
    page.follow(at, at + 1)
    before = {n: p.clone() for n, p in page.names['module'].state_dict().items()}
    save('data.safetensors', {'tokens': torch.randint(0, 60, (32, 64)), 'label': torch.randint(0, 5, (32,), dtype=torch.int32)})
    page.follow(at + 1)
    module = page.names['module']
    module.load_state_dict(load('back.safetensors'))
    changed = {n for n, p in module.state_dict().items() if not torch.equal(p, before[n])}
    assert changed == {n for n in before if n.startswith(('head.', 'gpt.h.1.'))}


def test_resnet18(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make = torchvision.models.resnet18
    monkeypatch.setattr(torchvision.models, 'resnet18', lambda weights: make())
    page = Page(tmp_path, 'A module of PyTorch')
    page.follow(0, 1)
    before = {n: p.clone() for n, p in page.names['module'].state_dict().items()}
    save('data.safetensors', {'x': torch.randn(16, 3, 224, 224), 'label': torch.randint(0, 5, (16,), dtype=torch.int32)})
    page.follow(1, 2)
    module = page.names['module']
    missing = module.load_state_dict(load('back.safetensors'), strict=False)
    assert not missing.unexpected_keys and all(n.endswith('num_batches_tracked') for n in missing.missing_keys)
    changed = {n for n, p in module.state_dict().items() if not torch.equal(p, before[n])}
    assert changed == {'fc.weight', 'fc.bias'} | {n for n in before if 'running_' in n}


def test_resnet50(tmp_path, monkeypatch):
    """The layout of torchvision's ResNet-50 itself; training on images of 32 x 32."""
    monkeypatch.chdir(tmp_path)
    save('resnet50-theirs.safetensors', {n: t for n, t in torchvision.models.resnet50().state_dict().items()})
    import numpy as np
    np.save('images.npy', np.random.default_rng(0).integers(0, 256, (24, 3, 32, 32)).astype('u1'))
    np.save('labels.npy', np.arange(24, dtype='i4') % 5)
    Page(tmp_path, 'ResNet-50, five classes of one\'s own', '-D size=32', steps=3).follow()
    module = torchvision.models.resnet50(num_classes=5)
    module.load_state_dict(load('trained.safetensors'), strict=False)
    theirs, trained = load('resnet50-theirs.safetensors'), module.state_dict()
    assert torch.equal(theirs['layer3.0.conv1.weight'], trained['layer3.0.conv1.weight']) and not torch.equal(theirs['layer4.0.conv1.weight'], trained['layer4.0.conv1.weight'])
