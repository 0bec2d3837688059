"""Scaled dot-product attention."""
from __future__ import annotations

import math

import torch

from .builder import Builder, Operand, type_of
from .table import CannotLower, lowers


def _heads(b: Builder, x: Operand) -> Operand:
    """[..., length, width] as [b, h, length, width]."""
    if x.dim() == 4:
        return x
    if x.dim() < 4:
        return b.reshape(x, (*[1] * (4 - x.dim()), *x.shape))
    return b.reshape(x, (-1, *x.shape[-3:]))


def _repeated(b: Builder, x: Operand, heads: int) -> Operand:
    """Keys or values of grouped queries, one for every head."""
    n, groups, length, width = x.shape
    if groups == heads:
        return x
    apart = b.reshape(x, (n, groups, 1, length, width))
    wide = b.expand(apart, (n, groups, heads // groups, length, width))
    return b.reshape(wide, (n, heads, length, width))


def of_rank_4(b: Builder, x: Operand) -> Operand:
    """A mask of rank 4 or less with axes in front."""
    return b.reshape(x, (*[1] * (4 - x.dim()), *x.shape))


def _mask(b: Builder, mask: Operand | None, q: Operand) -> Operand | None:
    if mask is None:
        return None
    if type_of(mask) == "bool" and isinstance(mask, torch.Tensor) and bool(mask.all()):
        return None
    if mask.dim() <= 4:
        return of_rank_4(b, mask)
    lead = (*q.shape[:-2], *mask.shape[-2:])
    return b.reshape(b.expand(mask, lead), (-1, *lead[-3:]))


def _is_causal(mask: Operand | None, length: int, keys: int) -> bool:
    """True for a constant mask that hides what follows, and nothing else."""
    if not isinstance(mask, torch.Tensor) or tuple(mask.shape[-2:]) != (length, keys):
        return False
    seen = torch.ones(length, keys, dtype=torch.bool).tril()
    if mask.dtype == torch.bool:
        return bool((mask == seen).all())
    hidden = mask <= torch.finfo(torch.float32).min
    return bool((hidden == ~seen).all() and (mask.masked_fill(hidden, 0.0) == 0).all())


def emit_attention(b: Builder, q: Operand, k: Operand, v: Operand, mask: Operand | None,
                   bias: Operand | None, causal: bool, scale: float, dropout: float,
                   site: int) -> Operand:
    """Attention of q [n,h,t,d], k [n,h,s,d] and v [n,h,s,e]; a causal mask becomes an attribute.

    mask: of rank 4. bias: of rank 4, the same for every n. site: of the dropout, if there is one.
    """
    causal = causal or (q.shape[-2] > 1 and _is_causal(mask, q.shape[-2], k.shape[-2]))
    more = {"site": site} if dropout > 0 else {}
    extras = [None if causal else mask] + ([] if bias is None else [bias])
    return b.emit("attention", q, k, v, *extras, causal=causal, scale=float(scale),
                  dropout=float(dropout), **more)


@lowers("scaled_dot_product_attention.default")
def attention(b: Builder, query: Operand, key: Operand, value: Operand,
              attn_mask: Operand | None, dropout_p: float, is_causal: bool, scale: float | None,
              enable_gqa: bool) -> Operand:
    if b.evaluating and dropout_p > 0:
        raise CannotLower("attention that drops in evaluation")
    q = _heads(b, query)
    k, v = (_repeated(b, _heads(b, x), q.shape[1]) for x in (key, value))
    out = emit_attention(b, q, k, v, _mask(b, attn_mask, query), None, is_causal,
                         scale or 1 / math.sqrt(query.shape[-1]), dropout_p, b.node.site)
    return b.reshape(out, b.result.shape)
