"""Products of matrices, convolutions and embeddings."""
from __future__ import annotations

import math
from typing import Any

import torch

from .builder import Builder, Operand, Val, number
from .elementwise import binary
from .moves import image_of, patches_of, repeats_rows
from .reductions import reduce
from .table import CannotLower, lowers
from .written_attention import written_attention


@lowers("linear.default")
def linear(b: Builder, input: Operand, weight: Operand, bias: Operand | None) -> Operand:
    if isinstance(weight, torch.Tensor) or weight.dim() == 1:
        product = matmul(b, input, b.swap(weight, -2, -1) if weight.dim() > 1 else weight)
        return product if bias is None else b.emit("add", product, bias)
    return b.emit("linear", input, weight, bias)


@lowers("matmul.default", "mm.default", "bmm.default")
def matmul(b: Builder, self: Operand, other: Operand = None, mat2: Operand = None,
           tensor2: Operand = None) -> Operand:
    other = next(x for x in (other, mat2, tensor2) if x is not None)
    left = b.reshape(self, (1, *self.shape)) if self.dim() == 1 else self
    right = b.reshape(other, (*other.shape, 1)) if other.dim() == 1 else other
    product = written_attention(b, left, right) or b.emit("matmul", left, right)
    shape = list(product.shape)
    if other.dim() == 1:
        del shape[-1]
    if self.dim() == 1:
        del shape[-1 if other.dim() == 1 else -2]
    return b.reshape(product, shape)


@lowers("mv.default")
def mv(b: Builder, self: Operand, vec: Operand) -> Operand:
    return matmul(b, self, vec)


@lowers("dot.default", "inner.default", "vdot.default")
def dot(b: Builder, self: Operand, tensor: Operand = None, other: Operand = None) -> Operand:
    return matmul(b, self, tensor if tensor is not None else other)


@lowers("outer.default")
def outer(b: Builder, self: Operand, vec2: Operand) -> Operand:
    return b.emit("mul", b.reshape(self, (-1, 1)), b.reshape(vec2, (1, -1)))


def _plus_product(b: Builder, term: Operand, product: Operand, beta: float,
                  alpha: float) -> Operand:
    product = b.scale(product, alpha)
    if beta == 0 or number(term) == 0:
        return product
    return binary(b, "add", b.scale(term, beta), product)


@lowers("addmm.default")
def addmm(b: Builder, self: Operand, mat1: Operand, mat2: Operand, beta: float,
          alpha: float) -> Operand:
    if beta == 1 and alpha == 1 and self.dim() == 1 and not isinstance(mat2, torch.Tensor):
        return b.emit("linear", mat1, b.swap(mat2, 0, 1), self)
    return _plus_product(b, self, matmul(b, mat1, mat2), beta, alpha)


@lowers("baddbmm.default")
def baddbmm(b: Builder, self: Operand, batch1: Operand, batch2: Operand, beta: float,
            alpha: float) -> Operand:
    return _plus_product(b, self, matmul(b, batch1, batch2), beta, alpha)


@lowers("bilinear.default")
def bilinear(b: Builder, input1: Operand, input2: Operand, weight: Operand,
             bias: Operand | None) -> Operand:
    result = _contract(b, "...i,oij,...j->...o".replace("...", "n"), [
        b.reshape(input1, (-1, input1.shape[-1])), weight,
        b.reshape(input2, (-1, input2.shape[-1]))])
    result = b.reshape(result, b.result.shape)
    return result if bias is None else b.emit("add", result, bias)


@lowers("einsum.default")
def einsum(b: Builder, equation: str, tensors: list[Operand], path: Any) -> Operand:
    return _contract(b, _without_ellipsis(equation.replace(" ", ""), tensors), tensors)


def _without_ellipsis(equation: str, tensors: list[Operand]) -> str:
    """The equation with capital letters for the axes of an ellipsis, and with an output."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    ranks = [x.dim() - len(term.replace("...", "")) for term, x in zip(terms, tensors)
             if "..." in term]
    free = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in left]
    names = "".join(reversed(free[:max(ranks, default=0)]))
    filled = []
    for term, x in zip(terms, tensors):
        own = x.dim() - len(term.replace("...", ""))
        filled.append(term.replace("...", names[len(names) - own:] if own else ""))
    if not arrow:
        letters = "".join(filled)
        right = names + "".join(sorted(c for c in set(letters)
                                       if letters.count(c) == 1 and c not in names))
    return ",".join(filled) + "->" + right.replace("...", names)


def _contract(b: Builder, equation: str, tensors: list[Operand]) -> Operand:
    """Multiplies the operands of an einsum from the left to the right."""
    left, right = equation.split("->")
    terms, tensors = left.split(","), list(tensors)
    for place in range(len(terms)):
        while len(set(terms[place])) < len(terms[place]):
            terms[place], tensors[place] = _diagonal(b, terms[place], tensors[place])
    term, x = terms[0], tensors[0]
    for i in range(1, len(terms)):
        later = set("".join(terms[i + 1:])) | set(right)
        term, x = _multiply(b, term, x, terms[i], tensors[i], later)
    extra = [i for i, c in enumerate(term) if c not in right]
    if extra:
        x = reduce(b, "sum", x, extra, False)
        term = "".join(c for c in term if c in right)
    return b.permute(x, [term.index(c) for c in right])


def _diagonal(b: Builder, term: str, x: Operand) -> tuple[str, Operand]:
    """An operand whose repeated index has one axis less."""
    second = next(i for i, c in enumerate(term) if c in term[:i])
    first = term.index(term[second])
    shape = [size if i in (first, second) else 1 for i, size in enumerate(x.shape)]
    mask = torch.eye(x.shape[first], dtype=torch.bool).reshape(shape)
    kept = b.emit("where", mask, b.cast(x, "f32"), torch.tensor(0.0))
    return term[:second] + term[second + 1:], reduce(b, "sum", kept, [second], False)


def _multiply(b: Builder, first: str, x: Operand, second: str, y: Operand,
              later: set[str]) -> tuple[str, Operand]:
    """One matmul: shared letters that are needed later are batch, the others are summed."""
    first, x = _sum_lonely(b, first, x, later | set(second))
    second, y = _sum_lonely(b, second, y, later | set(first))
    batch = [c for c in first if c in second and c in later]
    summed = [c for c in first if c in second and c not in later]
    rows = [c for c in first if c not in second]
    columns = [c for c in second if c not in first]
    sizes = {c: n for term, t in ((first, x), (second, y)) for c, n in zip(term, t.shape)
             if n != 1} | {}
    size = lambda letters: [sizes.get(c, 1) for c in letters]  # noqa: E731
    left = b.permute(x, [first.index(c) for c in batch + rows + summed])
    right = b.permute(y, [second.index(c) for c in batch + summed + columns])
    result = "".join(batch + rows + columns)
    if not summed:
        left = b.reshape(left, (*left.shape, *[1] * len(columns)))
        shape = (*right.shape[:len(batch)], *[1] * len(rows), *right.shape[len(batch):])
        return result, b.emit("mul", left, b.reshape(right, shape))
    product = lambda letters: int(torch.tensor(size(letters)).prod())  # noqa: E731
    left = b.reshape(left, (*left.shape[:len(batch)], product(rows), product(summed)))
    right = b.reshape(right, (*right.shape[:len(batch)], product(summed), product(columns)))
    return result, b.reshape(b.emit("matmul", left, right), size(batch + rows + columns))


def _sum_lonely(b: Builder, term: str, x: Operand, needed: set[str]) -> tuple[str, Operand]:
    axes = [i for i, c in enumerate(term) if c not in needed]
    if not axes:
        return term, x
    return "".join(c for c in term if c in needed), reduce(b, "sum", x, axes, False)


def _each(value: list[int], rank: int) -> list[int]:
    return list(value) * rank if len(value) == 1 else list(value)


def _with_batch(b: Builder, x: Operand, rank: int) -> Operand:
    return b.reshape(x, (1, *x.shape)) if x.dim() == rank + 1 else x


@lowers("conv1d.default", "conv2d.default", "conv3d.default")
def conv(b: Builder, input: Operand, weight: Operand, bias: Operand | None, stride: list[int],
         padding: list[int], dilation: list[int], groups: int) -> Operand:
    rank = weight.dim() - 2
    input = _with_batch(b, input, rank)
    stride, padding, dilation = (_each(x, rank) for x in (stride, padding, dilation))
    if _has_own_weights(b, input, weight, groups):
        own = _conv_of_groups(b, input, weight, stride, padding, dilation, groups)
        return b.reshape(_with_bias(b, own, bias), b.result.shape)
    out = b.emit("conv", input, weight, bias, stride=stride, padding=padding, dilation=dilation,
                 groups=groups)
    return b.reshape(out, b.result.shape)


def _with_bias(b: Builder, x: Operand, bias: Operand | None) -> Operand:
    return x if bias is None else b.emit("add", x, b.reshape(bias, (1, -1, 1, 1)))


def _has_own_weights(b: Builder, input: Operand, weight: Operand, groups: int) -> bool:
    """Whether the groups of a convolution may be samples: its weight is computed."""
    return (input.shape[0] == 1 and groups > 1 and weight.dim() == 4
            and isinstance(weight, Val) and any(node.output == weight.id for node in b.nodes))


def _conv_of_groups(b: Builder, input: Operand, weight: Operand, stride: list[int],
                    padding: list[int], dilation: list[int], groups: int) -> Operand:
    """A convolution [1, g*c, h, w] whose groups are samples with weights [g*o, c, kh, kw] of their
    own: a product of matrices for each sample."""
    _, channels, *kernel = weight.shape
    images = b.reshape(input, (groups, channels, *input.shape[2:]))
    extents = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in zip(
        input.shape[2:], kernel, stride, padding, dilation)]
    patches = patches_of(b, images, kernel, dilation, padding, stride)
    rows = b.reshape(weight, (groups, -1, channels * math.prod(kernel)))
    product = b.emit("matmul", rows, patches)
    return b.reshape(product, (1, -1, *extents))


@lowers("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padding(b: Builder, input: Operand, weight: Operand, bias: Operand | None,
                 stride: list[int], padding: str, dilation: list[int], groups: int) -> Operand:
    rank = weight.dim() - 2
    dilation = _each(dilation, rank)
    if padding == "valid":
        return conv(b, input, weight, bias, stride, [0], dilation, groups)
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(t % 2 for t in total):
        first = input.dim() - rank
        input = b.emit("pad", input, before=[0] * input.dim(), value=0.0,
                       after=[0] * first + [t % 2 for t in total])
    return conv(b, input, weight, bias, stride, [t // 2 for t in total], dilation, groups)


@lowers("convolution.default")
def convolution(b: Builder, transposed: bool, output_padding: list[int], **args: Any) -> Operand:
    if transposed:
        return conv_transpose(b, output_padding=output_padding, **args)
    return conv(b, **args)


@lowers("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(b: Builder, input: Operand, weight: Operand, bias: Operand | None,
                   stride: list[int], padding: list[int], output_padding: list[int], groups: int,
                   dilation: list[int]) -> Operand:
    rank = weight.dim() - 2
    input = _with_batch(b, input, rank)
    stride, padding, dilation, output_padding = (
        _each(x, rank) for x in (stride, padding, dilation, output_padding))
    if _has_own_weights(b, input, weight, groups):
        own = _conv_transpose_of_groups(b, input, weight, stride, padding, output_padding, dilation,
                                        groups)
        return b.reshape(_with_bias(b, own, bias), b.result.shape)
    out = b.emit("conv_transpose", input, weight, bias, stride=stride, padding=padding,
                 dilation=dilation, groups=groups, output_padding=output_padding)
    return b.reshape(out, b.result.shape)


def _conv_transpose_of_groups(b: Builder, input: Operand, weight: Operand, stride: list[int],
                              padding: list[int], output_padding: list[int], dilation: list[int],
                              groups: int) -> Operand:
    """The same for weights [g*c, o, kh, kw]: a product for each sample, added up where it goes."""
    _, outputs, *kernel = weight.shape
    channels, pixels = input.shape[1] // groups, math.prod(input.shape[2:])
    images = b.reshape(input, (groups, channels, pixels))
    rows = b.swap(b.reshape(weight, (groups, channels, outputs * math.prod(kernel))), 1, 2)
    extents = [(size - 1) * s - 2 * p + d * (k - 1) + more + 1 for size, k, s, p, d, more in zip(
        input.shape[2:], kernel, stride, padding, dilation, output_padding)]
    seen = [(size - 1) * s + d * (k - 1) + 1 for size, k, s, d in zip(
        input.shape[2:], kernel, stride, dilation)]
    whole = image_of(b, b.emit("matmul", rows, images), seen, kernel, dilation, [0, 0], stride)
    for axis, (begin, size, full) in enumerate(zip(padding, extents, seen), start=2):
        missing = begin + size - full  # the output padding reaches behind what the windows see
        if missing > 0:
            whole = b.emit("pad", whole, before=[0] * 4, value=0.0,
                           after=[missing if i == axis else 0 for i in range(4)])
        whole = b.slice(whole, axis, begin, begin + size)
    return b.reshape(whole, (1, groups * outputs, *extents))


@lowers("embedding.default")
def embedding(b: Builder, weight: Operand, indices: Operand, padding_idx: int,
              scale_grad_by_freq: bool, sparse: bool) -> Operand:
    if scale_grad_by_freq:
        raise CannotLower("scale_grad_by_freq")
    if repeats_rows(indices):
        once = b.emit("embedding", weight, indices[:1], padding_idx=padding_idx)
        return b.expand(once, b.result.shape)
    return b.emit("embedding", weight, b.cast(indices, "i32"), padding_idx=padding_idx)


@lowers("embedding_bag.default", "embedding_bag.padding_idx")
def embedding_bag(b: Builder, weight: Operand, indices: Operand, offsets: Operand,
                  mode: int, per_sample_weights: Operand | None, padding_idx: int | None = None,
                  **_: Any) -> list[Operand]:
    """Bags of one length: the rows of an embedding, summed or averaged, or their maxima."""
    if not isinstance(offsets, torch.Tensor) or len(set(offsets.diff().tolist())) > 1:
        raise CannotLower("embedding_bag with bags of different lengths")
    bags = offsets.numel()
    ids = b.reshape(indices, (bags, indices.shape[0] // bags))
    rows = b.emit("embedding", weight, ids, padding_idx=-1)
    if per_sample_weights is not None:
        rows = b.emit("mul", rows, b.reshape(per_sample_weights, (*ids.shape, 1)))
    kind = ("sum", "mean", "amax")[mode]
    if padding_idx is None or padding_idx < 0:
        return [reduce(b, kind, rows, [1], False), None, None, None]
    counts = b.reshape(b.emit("ne", b.cast(ids, "i32"), torch.tensor(padding_idx)),
                       (*ids.shape, 1))
    return [_reduced_where(b, kind, rows, counts), None, None, None]


def _reduced_where(b: Builder, kind: str, rows: Operand, counts: Operand) -> Operand:
    """The rows [n, m, ...] of a bag that count, reduced; zeros if none counts."""
    other = torch.tensor(torch.finfo(torch.float32).min if kind == "amax" else 0.0)
    kept = reduce(b, "amax" if kind == "amax" else "sum", b.emit("where", counts, rows, other), [1],
                  False)
    number = reduce(b, "sum", b.cast(counts, "f32"), [1], False)
    if kind == "mean":
        return b.emit("div", kept, b.emit("clamp", number, min=1.0))
    if kind == "amax":
        return b.emit("where", b.emit("gt", number, torch.tensor(0.0)), kept, torch.tensor(0.0))
    return kept
