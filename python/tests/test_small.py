"""Small networks: in both types as PyTorch computes them."""
import pytest
import torch
from torch import nn

from check import check


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


@pytest.mark.parametrize('dtype', ['f64', 'f32'])
@pytest.mark.parametrize('make, shape', [(Mlp, (4, 10)), (Lenet, (2, 1, 28, 28))])
def test_equals_torch(make, shape, dtype):
    check(make(), (torch.randn(shape),), dtype=dtype)


def test_resnet18():
    torchvision = pytest.importorskip('torchvision')
    check(torchvision.models.resnet18(num_classes=10), (torch.randn(2, 3, 64, 64),))
