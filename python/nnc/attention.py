"""torch.nn.MultiheadAttention as attention over [N, T, E]: torch's own forward puts time first and joins batch and heads, of which a text would be made of transposes and reshapes."""
from __future__ import annotations

import contextlib
import unittest.mock

import torch
import torch.nn.functional as F
from torch import nn

FORWARD = nn.MultiheadAttention.forward


@contextlib.contextmanager
def batch_first():
    """While a module is traced."""
    with unittest.mock.patch.object(nn.MultiheadAttention, 'forward', forward):
        yield


def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
    if query.dim() != 3 or self.bias_k is not None or self.add_zero_attn or is_causal and attn_mask is None or query.is_nested:
        return FORWARD(self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
    same, shared = query is key and key is value, key is value
    if not self.batch_first:
        query = query.transpose(0, 1)
        key = query if same else key.transpose(0, 1)
        value = key if shared else value.transpose(0, 1)
    q, k, v = projections(self, query, key, value)
    q, k, v = (heads(x, self.num_heads) for x in (q, k, v))
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else joined(attn_mask, key_padding_mask, q, k)
    if need_weights:
        weights = (q * self.head_dim ** -0.5) @ k.transpose(2, 3)
        weights = F.softmax(weights if mask is None else weights.masked_fill(~mask, float('-inf')) if mask.dtype == torch.bool else weights + mask, -1)
        if self.training and self.dropout:
            weights = F.dropout(weights, self.dropout)      # torch returns these
        y = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        weights = None
        y = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0, causal)
    y = self.out_proj(y.transpose(1, 2).flatten(2))
    return y if self.batch_first else y.transpose(0, 1), weights


def heads(x: torch.Tensor, number: int) -> torch.Tensor:
    return x.view(*x.shape[:2], number, x.shape[2] // number).transpose(1, 2)


def projections(m: nn.MultiheadAttention, query, key, value) -> tuple:
    e, bias = m.embed_dim, m.in_proj_bias
    if not m._qkv_same_embed_dim:
        weights, biases = (m.q_proj_weight, m.k_proj_weight, m.v_proj_weight), (None,) * 3 if bias is None else bias.chunk(3)
        return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    part = lambda x, a, b: F.linear(x, m.in_proj_weight[a * e:b * e], None if bias is None else bias[a * e:b * e])
    if query is key and key is value:
        return F.linear(query, m.in_proj_weight, bias).chunk(3, -1)
    if key is value:
        return part(query, 0, 1), *part(key, 1, 3).chunk(2, -1)
    return part(query, 0, 1), part(key, 1, 2), part(value, 2, 3)


def joined(mask: torch.Tensor | None, padding: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor | None:
    """Both masks as one for [N, heads, T, S]: of booleans True for what is seen, else what is added."""
    if mask is not None:
        mask = mask.view(q.shape[0], q.shape[1], q.shape[2], k.shape[2]) if mask.dim() == 3 else mask[None, None]
    if padding is not None:
        padding = padding[:, None, None]
    masks = [m for m in (mask, padding) if m is not None]
    if all(m.dtype == torch.bool for m in masks):
        masks = [~m for m in masks]
        return masks[0] & masks[1] if len(masks) == 2 else masks[0] if masks else None
    masks = [torch.zeros_like(m, dtype=q.dtype).masked_fill(m, float('-inf')) if m.dtype == torch.bool else m for m in masks]
    return masks[0] + masks[1] if len(masks) == 2 else masks[0]
