"""Tensors of torch in the safetensors format."""
from __future__ import annotations

import json
import mmap
import struct

import torch

CODES = {torch.float64: 'F64', torch.float32: 'F32', torch.float16: 'F16', torch.bfloat16: 'BF16', torch.int64: 'I64', torch.int32: 'I32', torch.int16: 'I16', torch.uint8: 'U8',
         torch.int8: 'I8', torch.bool: 'BOOL'}
TYPES = {code: t for t, code in CODES.items()}


def save(path: str, tensors: dict) -> None:
    header, at = {}, 0
    for name, t in tensors.items():
        size = t.numel() * t.element_size()
        header[name] = {'dtype': CODES[t.dtype], 'shape': list(t.shape), 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for t in tensors.values():
            f.write(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def load(path: str) -> dict:
    """Tensors that lie in the file's pages: they are read when they are used, and written to by nobody."""
    with open(path, 'rb') as f:
        size, = struct.unpack('<Q', f.read(8))
        header = json.loads(f.read(size))
        pages = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
    out = {}
    for name, e in header.items():
        if name != '__metadata__':
            a, b = e['data_offsets']
            raw = torch.frombuffer(pages, dtype=torch.uint8, count=b - a, offset=8 + size + a) if b > a else torch.empty(0, dtype=torch.uint8)
            out[name] = raw.view(TYPES[e['dtype']]).reshape(e['shape'])
    return out
