"""Recognises attention that is written out: softmax(scale * q k^T + bias + mask) v.

The function here gets the two factors of the last product, and looks back at the nodes that made
them. The scale may be on q, on k, on the product of both or divided by; a bias and a mask may be
added, also to windows of images that share a mask; scores may be hidden where a condition holds;
and the weights may be dropped. The attention has the random numbers of the dropout.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from .attention import emit_attention, of_rank_4
from .builder import Builder, Emitted, Operand, Val, type_of
from .factors import close, unscaled

LEAST = torch.finfo(torch.float32).min


@dataclass
class _Scores:
    """scale * q k^T with what is `added` to it, from the inside, and the truth values `seen`."""

    q: Operand
    k: Operand
    scale: float
    added: list[Operand] = field(default_factory=list)
    seen: Operand | None = None


def written_attention(b: Builder, weights: Operand, values: Operand,
                      all_may_hide: bool = False) -> Operand | None:
    """The attention whose last product is `weights` times `values`; None if it is none.

    A row in which everything is hidden by minus infinity is NaN if it is written out, and +0 in
    the operator. all_may_hide: such rows may exist; else a mask has to show that there is none.
    """
    if weights.dim() != 4 or values.dim() != 4:
        return None
    if b.evaluating and b.is_known("matmul", weights, values):
        return None  # training has it so
    p, site, softmax = _dropped(b, weights)
    if softmax is None or softmax.attributes["axis"] != 3 or not _only_here(b, weights):
        return None
    scores = _scores(b, b.read(softmax, 0), all_may_hide)
    if scores is None or not _fits(scores, values):
        return None
    extras = _bias_and_mask(b, scores)
    if extras is None:
        return None
    bias, mask = extras
    usual = 1 / math.sqrt(scores.q.shape[3])
    scale = usual if close(scores.scale, usual) else scores.scale
    return emit_attention(b, scores.q, scores.k, values, mask, bias, False, scale, p, site)


def _only_here(b: Builder, x: Operand) -> bool:
    """Whether nothing else reads a value; an evaluation does what training does."""
    return b.evaluating or b.readers[x.id] <= 1


def _dropped(b: Builder, weights: Operand) -> tuple[float, int, Emitted | None]:
    """The probability and the site of a dropout, and the softmax before it."""
    dropout = b.made(weights, "dropout")
    if dropout is None:
        return 0.0, -1, b.made(weights, "softmax")
    softmax = b.read(dropout, 0)
    if not _only_here(b, softmax):
        return 0.0, -1, None
    return dropout.attributes["p"], dropout.attributes["site"], b.made(softmax, "softmax")


def _fits(scores: _Scores, values: Operand) -> bool:
    """Whether q, k and v have the same sequences and heads."""
    q, k = scores.q.shape, scores.k.shape
    return q[:2] == values.shape[:2] and q[:2] == k[:2] and k[2] == values.shape[2]


def _scores(b: Builder, x: Operand, all_may_hide: bool) -> _Scores | None:
    found = _scaled_product(b, x)
    if found is not None:
        return found
    for inner, term in (*_added(b, x), *_added_to_windows(b, x)):
        found = _scores(b, inner, all_may_hide) if term.dim() <= 4 else None
        if found is not None and (all_may_hide or _shows(b, term)):
            found.added.append(term)
            return found
    for inner, seen in _selected(b, x, all_may_hide):
        found = _scores(b, inner, all_may_hide) if seen.dim() <= 4 else None
        if found is not None and found.seen is None:
            found.seen = seen
            return found
    return None


def _added(b: Builder, x: Operand) -> list[tuple[Operand, Operand]]:
    """What may be scores + term, as pairs (scores, term)."""
    total = b.made(x, "add")
    if total is None:
        return []
    sides = b.read(total, 0), b.read(total, 1)
    return [(scores, term) for scores, term in (sides, sides[::-1])
            if isinstance(scores, Val) and scores.shape == x.shape]


def _added_to_windows(b: Builder, x: Operand) -> list[tuple[Operand, Operand]]:
    """Scores [n*w,h,t,s] to which a mask [1,w,1,t,s] is added as to [n,w,h,t,s].

    The mask is [w,1,t,s] here: sequence i has the mask i mod w.
    """
    outer = b.made(x, "reshape")
    if outer is None:
        return []
    pairs = []
    for wide, mask in _added(b, b.read(outer, 0)):
        inner = b.made(wide, "reshape")
        scores = None if inner is None else b.read(inner, 0)
        if (isinstance(scores, Val) and scores.shape == x.shape and wide.dim() == 5
                and wide.shape[2:] == x.shape[1:] and mask.dim() in (4, 5)
                and (mask.dim() == 4 or mask.shape[0] == 1)):
            pairs.append((scores, b.reshape(mask, mask.shape[-4:])))
    return pairs


def _selected(b: Builder, x: Operand, all_may_hide: bool) -> list[tuple[Operand, Operand]]:
    """Scores where a mask is true, else a number that hides, as pairs (scores, mask).

    The least number stands for minus infinity, if every row of a constant mask sees something.
    """
    choice = b.made(x, "where")
    if choice is None:
        return []
    mask, first, second = (b.read(choice, i) for i in range(3))
    if isinstance(first, torch.Tensor):
        mask, first, second = b.emit("not", mask), second, first
    if not isinstance(first, Val) or not isinstance(second, torch.Tensor) or second.numel() != 1:
        return []
    if first.shape != x.shape:
        return []
    sees = isinstance(mask, torch.Tensor) and bool(mask.any(-1).all())
    hides = float(second) == -math.inf and all_may_hide or sees and float(second) <= LEAST
    return [(first, mask)] if hides else []


def _shows(b: Builder, term: Operand) -> bool:
    """Whether a term that is added cannot hide all keys of a query by minus infinity."""
    if isinstance(term, torch.Tensor):
        return bool((term > -math.inf).any(-1).all())
    seen, rest = set(), [term]
    while rest:
        x = rest.pop()
        if isinstance(x, torch.Tensor):
            if x.dtype == torch.float32 and bool((x == -math.inf).any()):
                return False
        elif x is not None and x.id not in seen:
            seen.add(x.id)
            node = b.maker(x)
            rest += [] if node is None else [b.read(node, i) for i in range(len(node.inputs))]
    return True


def _bias_and_mask(b: Builder, scores: _Scores) -> tuple[Operand | None, Operand | None] | None:
    """What is added, as (bias, mask); None if the operator cannot add it.

    A bias is the same for every sequence, and may be trained. A constant is a mask, unless there
    is another one.
    """
    masks = [of_rank_4(b, x) for x in scores.added]
    if scores.seen is not None:
        masks.append(of_rank_4(b, scores.seen))
    biases = [x for x in masks if x.shape[0] == 1 and type_of(x) == "f32"]
    values = [x for x in biases if isinstance(x, Val)]
    if len(masks) > 2 or (len(masks) == 2 and not biases):
        return None
    bias = (values or biases)[0] if values or len(masks) == 2 else None
    rest = [x for x in masks if x is not bias]
    return bias, rest[0] if rest else None


def _scaled_product(b: Builder, x: Operand) -> _Scores | None:
    """scale * q k^T; the scale may be on any of the three."""
    outer, product = unscaled(b, x)
    node = b.made(product, "matmul")
    if node is None:
        return None
    (first, q), (second, keys) = (unscaled(b, b.read(node, i)) for i in range(2))
    if not all(isinstance(y, Val) and y.dim() == 4 for y in (q, keys)):
        return None
    third, k = unscaled(b, _transposed(b, keys))
    return _Scores(q, k, outer * first * second * third)


def _transposed(b: Builder, keys: Val) -> Operand:
    """[n,h,d,s] as [n,h,s,d]."""
    before = b.made(keys, "permute")
    if before is not None and before.attributes["order"] == [0, 1, 3, 2]:
        return b.read(before, 0)
    return b.swap(keys, 2, 3)
