"""The models that sweep.py takes over: how each is made, and with which inputs."""
from __future__ import annotations

import torch

SIZES = {'inception_v3': 299, 'googlenet': 64, 'alexnet': 64, 'vit_l_32': 64, 'vit_b_32': 64, 'vit_h_14': 28, 'vit_b_16': 32, 'vit_l_16': 32, 'maxvit_t': 224}


def names(family: str) -> list:
    if family == 'timm':
        import models_timm
        return models_timm.NAMES
    if family == 'transformers':
        import models_transformers
        return list(models_transformers.ARCHITECTURES)
    return []


def torchvision_model(name: str):
    import torchvision
    m = torchvision.models
    if name in m.list_models(module=m.segmentation):
        return m.get_model(name, weights=None, weights_backbone=None, num_classes=5), 64
    size = SIZES.get(name, 64)
    extra = {'image_size': size} if name.startswith('vit_') else {}
    extra.update({'init_weights': False} if name in ('inception_v3', 'googlenet') else {})
    return m.get_model(name, weights=None, num_classes=10, **extra), size


def make(family: str, name: str):
    """(module, args, kwargs)"""
    torch.manual_seed(0)
    if family == 'torchvision':
        module, size = torchvision_model(name)
        return module, (torch.randn(2, 3, size, size),), {}
    if family == 'transformers':
        import models_transformers
        return models_transformers.make(name)
    if family == 'timm':
        import models_timm
        return models_timm.make(name)
    raise ValueError(family)
