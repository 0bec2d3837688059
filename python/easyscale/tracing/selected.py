"""Elements that a computed mask chooses, such as `loss[mask].mean()`.

Their number depends on the data, so a tracer has no shape for them. Until they are reduced, or
written where they came from, all elements are kept with the mask, those that are not chosen as 1, at
which the usual functions have finite gradients; the reduction leaves them out.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from .errors import DataDependent

REFUSED = ("at {place} the model uses elements that a computed mask chooses, whose number depends on "
           "the data, in {name}; choose them behind it, or use torch.where or a product with the mask")
ELEMENTWISE = {
    "add", "sub", "mul", "div", "true_divide", "pow", "neg", "abs", "exp", "log", "log1p", "sqrt",
    "rsqrt", "square", "sigmoid", "tanh", "relu", "softplus", "logsigmoid", "log_sigmoid", "clamp",
    "clip", "clamp_min", "clamp_max", "where", "float", "long", "int", "bool", "to", "type_as",
    "detach", "contiguous", "clone", "sin", "cos", "erf", "gelu", "silu", "minimum", "maximum", "eq",
    "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or", "sign", "round",
    "floor", "expm1", "reciprocal", "rsub", "huber", "__add__", "__radd__", "__sub__", "__rsub__",
    "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__div__", "__rdiv__", "__pow__",
    "__rpow__", "__neg__", "__abs__", "__invert__", "__and__", "__or__", "__eq__", "__ne__",
    "__lt__", "__le__", "__gt__", "__ge__"}
VIEWS = {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
         "aten.flatten.using_ints"}
MAY_BE_VIEWS = {"float", "long", "int", "bool", "to", "type_as", "detach", "contiguous"}
IN_PLACE = {"add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__"}
NORMS = {"layer_norm", "rms_norm"}
LAST_AXIS = {"softmax", "log_softmax", "normalize"}  # elementwise if they work on another axis
LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
          "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"}
KNOWN = {"dtype", "device", "dim", "ndim", "requires_grad", "is_floating_point", "is_complex",
         "layout", "is_sparse", "is_cuda"}


class Selected(torch.Tensor):
    """Rows of `full` [n, ...] that `mask` [n] chooses, `together` in a row at a time."""

    full: torch.Tensor
    mask: torch.Tensor
    together: int
    has_views: bool  # another object stands for the same elements

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name == "__get__":  # a property
            name = func.__self__.__name__  # type: ignore[attr-defined]
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            return _call(func, name, args, kwargs)


def select(x: torch.Tensor, index: Any) -> Any:
    """x[index], in which the first entry is a computed mask."""
    mask, *rest = index if isinstance(index, tuple) else (index,)
    if mask.shape != x.shape[:mask.dim()]:
        raise IndexError(f"a mask of the shape {list(mask.shape)} for a tensor of the shape "
                         f"{list(x.shape)}")
    full, together = x.flatten(0, mask.dim() - 1), 1
    for size, stride in zip(reversed(mask.shape), reversed(mask.stride())):
        if stride:
            break
        together *= size  # the mask was expanded along this axis
    return made(full[(slice(None), *rest)] if rest else full, mask.flatten(), together)


def made(full: torch.Tensor, mask: torch.Tensor, together: int = 1) -> Selected:
    """The rows of a tensor that a mask chooses."""
    rows = mask.reshape(-1, *[1] * (full.dim() - 1))
    if full.dtype.is_floating_point:
        full = torch.where(rows, full, torch.ones((), dtype=full.dtype))
    return _wrapped(full, mask, together)


def _wrapped(full: torch.Tensor, mask: torch.Tensor, together: int = 1) -> Selected:
    with _disable_current_modes():
        found = torch.Tensor._make_subclass(Selected, torch.empty(0))
    found.full, found.mask, found.together, found.has_views = full, mask, together, False
    return found


def node_of(tensor: torch.Tensor, tracer: Any) -> Any:
    """The node of the graph of a tracer that has made a tensor, or None."""
    slot = proxy_tensor.get_proxy_slot(tensor, tracer, None, lambda found: found)
    return getattr(getattr(slot, "proxy", None), "node", None)


def same_masks(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two masks are one, or were computed in the same way from the same tensors."""
    if first is second:
        return True
    mode = proxy_tensor.get_proxy_mode()
    if first.shape != second.shape or mode is None:
        return False
    read: set[Node] = set()
    nodes = (_without_views(node_of(mask, mode.tracer)) for mask in (first, second))
    if not _are_equal(*nodes, read):
        return False
    # Nothing that they were computed from may have been written to.
    return not any(isinstance(node.target, torch._ops.OpOverload)
                   and node.target._schema.is_mutable and read.intersection(node.all_input_nodes)
                   for node in mode.tracer.graph.nodes)


def _without_views(node: Any) -> Any:
    """What a node has the elements of, in the same order."""
    while isinstance(node, Node) and str(node.target) in VIEWS:
        node = node.args[0]
    return node


def _are_equal(first: Any, second: Any, read: set[Node]) -> bool:
    """Whether two arguments are equal; `read` gets the nodes among them."""
    if isinstance(first, Node) and isinstance(second, Node):
        read.update((first, second))
        return first is second or (
            first.op == second.op == "call_function" and first.target == second.target
            and not (isinstance(first.target, torch._ops.OpOverload)
                     and torch.Tag.nondeterministic_seeded in first.target.tags)
            and _are_equal(first.args, second.args, read)
            and _are_equal(first.kwargs, second.kwargs, read))
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(
            _are_equal(a, b, read) for a, b in zip(first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _are_equal(first[key], second[key], read) for key in first)
    return type(first) is type(second) and first == second


def assigned(x: torch.Tensor, index: Any, value: Selected) -> torch.Tensor:
    """What x is after x[index] = value, if both were chosen by the same mask."""
    mask = index if isinstance(index, torch.Tensor) else None
    if mask is None or mask.shape != x.shape[:mask.dim()] or not same_masks(
            mask.flatten(), value.mask):
        raise refused("an assignment")
    chosen = mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim()))
    return torch.where(chosen, value.full.reshape(x.shape).to(x.dtype), x)


def refused(name: str) -> DataDependent:
    import sys

    from .reader import _in_library, short_path
    frame = sys._getframe(1)
    while frame.f_back is not None and _in_library(frame.f_code.co_filename):
        frame = frame.f_back
    place = f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"
    return DataDependent(REFUSED.format(place=place, name=name))


def _call(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    chosen = [x for x in [*args, *kwargs.values()] if isinstance(x, Selected)]
    if not chosen:
        raise refused(name)
    first = chosen[0]
    if not all(same_masks(x.mask, first.mask) for x in chosen):
        raise refused(name)

    def plain(x: Any) -> Any:
        return x.full if isinstance(x, Selected) else x
    inner = tuple(map(plain, args)), {key: plain(x) for key, x in kwargs.items()}
    if name in KNOWN:
        return func(*inner[0], **inner[1])
    if name in IN_PLACE:
        return _changed(func, name, first, inner)
    if name == "ctc_loss":
        return func(*args, **kwargs)
    if name in ("sum", "mean"):
        return _reduced(name, first, args[1:], kwargs)
    if name in LOSSES:
        return _loss(func, name, first, inner)
    if name in ELEMENTWISE and _rows_stay(inner, first):
        found = _wrapped(func(*inner[0], **inner[1]), first.mask)
        return _sharing(first, found) if name in MAY_BE_VIEWS else found
    if name in ("linear", "matmul", "__matmul__") and args[0] is first and len(chosen) == 1:
        return _wrapped(func(*inner[0], **inner[1]), first.mask)
    if name in LAST_AXIS and first.full.dim() > 1 and _axis(args, kwargs) not in (0, None):
        return _wrapped(func(*inner[0], **inner[1]), first.mask)
    if name in NORMS and args[0] is first and len(chosen) == 1 and len(args[1]) < first.full.dim():
        return _wrapped(func(*inner[0], **inner[1]), first.mask)
    if name in ("view", "reshape", "flatten") and first.full.dim() == 1:
        return _sharing(first, _reshaped(name, first, args[1:]))
    if name == "__getitem__" and isinstance(args[1], tuple) and args[1][0] == slice(None):
        return _sharing(first, _wrapped(func(*inner[0]), first.mask))
    if name in ("unsqueeze", "squeeze"):
        axis, axes = _axis(args, kwargs), first.full.dim() + (name == "unsqueeze")
        if isinstance(axis, int) and axis % axes != 0:
            return _sharing(first, _wrapped(func(*inner[0], **inner[1]), first.mask))
    raise refused(name)


def _sharing(x: Selected, view: Selected) -> Selected:
    """A view, through which a write would change the other one."""
    x.has_views = view.has_views = True
    return view


def _changed(func: Callable, name: str, x: Selected, inner: tuple) -> Selected:
    """An operator that writes: an index has made a copy, so nothing else sees it."""
    if inner[0][0] is not x.full or x.has_views or not _rows_stay(inner, x):
        raise refused(name)
    x.full = func(x.full.clone(), *inner[0][1:], **inner[1])
    return x


def _reshaped(name: str, x: Selected, args: tuple) -> Selected:
    """Chosen numbers as they are, or as rows of those that are chosen together."""
    shape = tuple(args[0]) if args and isinstance(args[0], (list, tuple)) else args
    if name == "flatten" or shape == (-1,):
        return x
    if len(shape) == 2 and shape[0] == -1 and x.together == shape[1]:
        return _wrapped(x.full.reshape(shape), x.mask.reshape(shape)[:, 0])
    raise refused(name)


def _axis(args: tuple, kwargs: dict) -> Any:
    return kwargs.get("dim", args[1] if len(args) > 1 else None)


def _rows_stay(inner: tuple, first: Selected) -> bool:
    """Whether no other tensor meets the rows as if they were all of them."""
    rank = first.full.dim()
    return all(not isinstance(x, torch.Tensor) or x.dim() < rank
               or x.shape[0] in (1, first.mask.shape[0]) for x in inner[0])


def _count(first: Selected) -> torch.Tensor:
    return first.mask.to(torch.float32).sum()


def _reduced(name: str, x: Selected, args: tuple, kwargs: dict) -> Any:
    rows = x.mask.reshape(-1, *[1] * (x.full.dim() - 1))
    axes = kwargs.get("dim", args[0] if args and not isinstance(args[0], torch.dtype) else None)
    every = axes is None
    axes = list(range(x.full.dim())) if every else [
        a % x.full.dim() for a in (axes if isinstance(axes, (list, tuple)) else [axes])]
    keep = bool(kwargs.get("keepdim", False))
    if 0 not in axes:
        return _wrapped(getattr(x.full, name)(axes, keep), x.mask)
    total = torch.where(rows, x.full, torch.zeros((), dtype=x.full.dtype)).sum(axes, keep)
    if name == "sum":
        return total
    each = 1
    for axis in axes[0:] if 0 in axes else axes:
        each *= 1 if axis == 0 else x.full.shape[axis]
    return total / (_count(x) * each)


def _loss(func: Callable, name: str, first: Selected, inner: tuple) -> Any:
    args, kwargs = inner
    if name in ("cross_entropy", "nll_loss") and not args[1].is_floating_point():
        ignored = kwargs.get("ignore_index", -100)
        rows = first.mask.reshape(-1, *[1] * (args[1].dim() - 1))
        target = torch.where(rows, args[1], torch.full_like(args[1], ignored))
        if kwargs.get("reduction", "mean") == "none":
            return _wrapped(func(args[0], target, *args[2:], **kwargs), first.mask)
        return func(args[0], target, *args[2:], **kwargs)
    reduction = kwargs.get("reduction", "mean")
    if name in ("cross_entropy", "nll_loss") or reduction not in ("mean", "sum", "none"):
        raise refused(name)
    pair = [torch.where(first.mask.reshape(-1, *[1] * (x.dim() - 1)), x,
                        torch.ones((), dtype=x.dtype)) if isinstance(x, torch.Tensor) and x.dim()
            else x for x in args[:2]]
    rows = _wrapped(func(*pair, *args[2:], **{**kwargs, "reduction": "none"}), first.mask)
    return rows if reduction == "none" else _reduced(reduction, rows, (), {})
