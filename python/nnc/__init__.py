"""nnc from Python: PyTorch modules become .nn texts, and compiled programs are called as libraries.

    nnc.from_torch(module, example_inputs, "model.nn")     # text and weights (needs torch)
    net = nnc.compile("model.nn", memory_budget="512MiB")  # or nnc.load("libmodel.so")
    net.step(image=images, label=labels)

What needs torch is imported when it is first used.
"""
import importlib
from typing import Any

_WHERE = {                      # name: the module of this package that has it
    'from_torch': 'importer',
    'ImportFailed': 'importer',
    'load': 'library',
    'compile': 'library',
    'Net': 'library',
    'Error': 'library',
    'Status': 'library',
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f'{__name__}.{_WHERE[name]}'), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
