"""from_torch with a loss and an optimizer: the whole way to weights that load_state_dict takes."""
import os
import subprocess

import torch
import torch.nn.functional as F
from torch import nn

from check import step
from nnc.importer import from_torch
from nnc.safetensors import load, save


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, image):
        return self.head(self.body(image).flatten(1))


def test_there_and_back(tmp_path):
    """100 steps in nnc, then load_state_dict: the next loss is the one of 100 steps in PyTorch."""
    module, folder = Small().double(), str(tmp_path)
    x, label = torch.randn(8, 1, 6, 6).double(), torch.randint(0, 3, (8,))
    make = lambda m: torch.optim.AdamW([{'params': m.body.parameters()}, {'params': m.head.parameters(), 'lr': 1e-2, 'weight_decay': 0.0}], lr=1e-3)
    from_torch(module, x, os.path.join(folder, 'small.nn'), loss=F.cross_entropy, optimizer=make(module))
    assert 'group     "head.*", lr=0.01, weight_decay=0' in open(os.path.join(folder, 'small.nn')).read()
    save(os.path.join(folder, 'data.safetensors'), {'image': x, 'label': label})
    run = lambda *c: subprocess.run(c, cwd=folder, check=True, capture_output=True, text=True)
    run(os.environ.get('NNC', 'nnc'), 'small.nn', '-o', 'small', '--dtype=f64')
    run('./small', 'train', '--weights=small.safetensors', '--save=trained.safetensors', '--steps=100', '--data=.')
    run('./small', 'export', 'back.safetensors', '--weights=trained.safetensors')
    optimizer = make(module)
    for _ in range(100):
        step(module, optimizer, x, label)
    back = Small().double()
    back.load_state_dict(load(os.path.join(folder, 'back.safetensors')))
    want, got = step(module, optimizer, x, label), step(back, make(back), x, label)
    assert abs(want - got) <= 1e-9 * abs(want)


def test_frozen_layers(tmp_path):
    module = Small()
    module.body.requires_grad_(False)
    from_torch(module, torch.randn(2, 1, 6, 6), str(tmp_path / 'm.nn'), loss=nn.CrossEntropyLoss(label_smoothing=0.1))
    text = (tmp_path / 'm.nn').read_text()
    assert 'group     "body.*", frozen=true' in text and 'smoothing=0.1' in text
