"""Elements that a computed mask chooses, such as `loss[mask].mean()`.

Their number depends on the data, so a tracer has no shape for them. Until they are reduced, or
written where they came from, all elements are kept with the mask, those that are not chosen as 1, at
which the usual functions have finite gradients; the reduction leaves them out.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from .errors import DataDependent
from .lines import calling_line

REFUSED = ("at {place} the model uses elements that a computed mask chooses, whose number depends on "
           "the data, in {name}; choose them behind it, or use torch.where or a product with the mask")
VIEWS = {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
         "aten.flatten.using_ints"}


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
        with torch._C.DisableTorchFunctionSubclass():
            call = _Call.of(func, name, args, kwargs or {})
            if name not in CALLS:
                raise refused(name)
            return CALLS[name](call)


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
    if full.dtype.is_floating_point:
        full = _rows_or(mask, full, 1)
    return _wrapped(full, mask, together)


def _rows_or(mask: torch.Tensor, x: torch.Tensor, other: int) -> torch.Tensor:
    """The rows that a mask chooses, and a number in place of the others."""
    rows = mask.reshape(-1, *[1] * (x.dim() - 1))
    return torch.where(rows, x, torch.full((), other, dtype=x.dtype))


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
    return DataDependent(REFUSED.format(place=calling_line(), name=name))


@dataclass(frozen=True)
class _Call:
    """A call of torch that has selected elements among its arguments, all chosen by one mask."""

    func: Callable
    name: str
    args: tuple
    kwargs: dict
    first: Selected
    alone: bool  # no other argument has been selected

    @staticmethod
    def of(func: Callable, name: str, args: tuple, kwargs: dict) -> _Call:
        chosen = [x for x in [*args, *kwargs.values()] if isinstance(x, Selected)]
        if not chosen or not all(same_masks(x.mask, chosen[0].mask) for x in chosen):
            raise refused(name)
        return _Call(func, name, args, kwargs, chosen[0], len(chosen) == 1)

    def require(self, condition: bool) -> None:
        if not condition:
            raise refused(self.name)

    def on_all(self) -> tuple[tuple, dict]:
        """The arguments with all elements."""
        def plain(x: Any) -> Any:
            return x.full if isinstance(x, Selected) else x
        return tuple(map(plain, self.args)), {key: plain(x) for key, x in self.kwargs.items()}

    def result(self) -> Any:
        """That of all elements."""
        args, kwargs = self.on_all()
        return self.func(*args, **kwargs)

    def rows(self) -> Selected:
        """The rows of that result."""
        return _wrapped(self.result(), self.first.mask)

    def rows_stay(self) -> bool:
        """Whether no other tensor meets the rows as if they were all of them."""
        rank = self.first.full.dim()
        return all(not isinstance(x, torch.Tensor) or x.dim() < rank
                   or x.shape[0] in (1, self.first.mask.shape[0]) for x in self.on_all()[0])

    def axis(self) -> Any:
        return self.kwargs.get("dim", self.args[1] if len(self.args) > 1 else None)


CALLS: dict[str, Callable[[_Call], Any]] = {}  # by the name of a function or a method of torch


def _calls(*names: str) -> Callable:
    """Registers what functions or methods of torch do with selected elements."""
    def register(function: Callable) -> Callable:
        CALLS.update(dict.fromkeys(names, function))
        return function
    return register


@_calls("dtype", "device", "dim", "ndim", "requires_grad", "is_floating_point", "is_complex",
        "layout", "is_sparse", "is_cuda")
def _known(call: _Call) -> Any:
    return call.result()


@_calls("add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__")
def _changed(call: _Call) -> Selected:
    """An operator that writes: an index has made a copy, so nothing else sees it."""
    args, kwargs = call.on_all()
    x = call.first
    call.require(args[0] is x.full and not x.has_views and call.rows_stay())
    x.full = call.func(x.full.clone(), *args[1:], **kwargs)
    return x


@_calls("ctc_loss")
def _ctc(call: _Call) -> Any:
    return call.func(*call.args, **call.kwargs)


@_calls(
    "add", "sub", "mul", "div", "true_divide", "pow", "neg", "abs", "exp", "log", "log1p", "sqrt",
    "rsqrt", "square", "sigmoid", "tanh", "relu", "softplus", "logsigmoid", "log_sigmoid", "clamp",
    "clip", "clamp_min", "clamp_max", "where", "clone", "sin", "cos", "erf", "gelu", "silu",
    "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and",
    "logical_or", "sign", "round", "floor", "expm1", "reciprocal", "rsub", "huber",
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__div__", "__rdiv__", "__pow__", "__rpow__", "__neg__", "__abs__",
    "__invert__", "__and__", "__or__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
def _elementwise(call: _Call) -> Selected:
    call.require(call.rows_stay())
    return call.rows()


@_calls("float", "long", "int", "bool", "to", "type_as", "detach", "contiguous")
def _perhaps_view(call: _Call) -> Selected:
    return _sharing(call.first, _elementwise(call))


@_calls("linear", "matmul", "__matmul__")
def _product(call: _Call) -> Selected:
    call.require(call.args[0] is call.first and call.alone)
    return call.rows()


@_calls("softmax", "log_softmax", "normalize")
def _along_an_axis(call: _Call) -> Selected:
    """Elementwise if it works on another axis than that of the rows."""
    call.require(call.first.full.dim() > 1 and call.axis() not in (0, None))
    return call.rows()


@_calls("layer_norm", "rms_norm")
def _norm(call: _Call) -> Selected:
    call.require(call.args[0] is call.first and call.alone
                 and len(call.args[1]) < call.first.full.dim())
    return call.rows()


@_calls("view", "reshape", "flatten")
def _reshaped(call: _Call) -> Selected:
    """Chosen numbers as they are, or as rows of those that are chosen together."""
    x, args = call.first, call.args[1:]
    call.require(x.full.dim() == 1)
    shape = tuple(args[0]) if args and isinstance(args[0], (list, tuple)) else args
    if call.name == "flatten" or shape == (-1,):
        return _sharing(x, x)
    call.require(len(shape) == 2 and shape[0] == -1 and x.together == shape[1])
    return _sharing(x, _wrapped(x.full.reshape(shape), x.mask.reshape(shape)[:, 0]))


@_calls("__getitem__")
def _columns(call: _Call) -> Selected:
    index = call.args[1]
    call.require(isinstance(index, tuple) and index[0] == slice(None))
    return _sharing(call.first, call.rows())


@_calls("unsqueeze", "squeeze")
def _one_axis_more_or_less(call: _Call) -> Selected:
    axis, axes = call.axis(), call.first.full.dim() + (call.name == "unsqueeze")
    call.require(isinstance(axis, int) and axis % axes != 0)
    return _sharing(call.first, call.rows())


def _sharing(x: Selected, view: Selected) -> Selected:
    """A view, through which a write would change the other one."""
    x.has_views = view.has_views = True
    return view


@_calls("sum", "mean")
def _reduction(call: _Call) -> Any:
    return _reduced(call.name, call.first, call.args[1:], call.kwargs)


def _reduced(name: str, x: Selected, args: tuple, kwargs: dict) -> Any:
    axes = kwargs.get("dim", args[0] if args and not isinstance(args[0], torch.dtype) else None)
    if axes is None:
        axes = range(x.full.dim())
    axes = [a % x.full.dim() for a in ([axes] if isinstance(axes, int) else axes)]
    keep = bool(kwargs.get("keepdim", False))
    if 0 not in axes:
        return _wrapped(getattr(x.full, name)(axes, keep), x.mask)
    total = _rows_or(x.mask, x.full, 0).sum(axes, keep)
    if name == "sum":
        return total
    each = math.prod(x.full.shape[axis] for axis in axes if axis)
    return total / (x.mask.to(torch.float32).sum() * each)


@_calls("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
        "binary_cross_entropy_with_logits")
def _pointwise_loss(call: _Call) -> Any:
    args, kwargs = call.on_all()
    reduction, mask = kwargs.get("reduction", "mean"), call.first.mask
    call.require(reduction in ("mean", "sum", "none"))
    pair = [_rows_or(mask, x, 1) if isinstance(x, torch.Tensor) and x.dim() else x
            for x in args[:2]]
    rows = _wrapped(call.func(*pair, *args[2:], **{**kwargs, "reduction": "none"}), mask)
    return rows if reduction == "none" else _reduced(reduction, rows, (), {})


@_calls("cross_entropy", "nll_loss")
def _loss_of_classes(call: _Call) -> Any:
    """The rows that are not chosen have the label that the loss ignores."""
    args, kwargs = call.on_all()
    call.require(not args[1].is_floating_point())
    mask = call.first.mask
    target = _rows_or(mask, args[1], kwargs.get("ignore_index", -100))
    found = call.func(args[0], target, *args[2:], **kwargs)
    return _wrapped(found, mask) if kwargs.get("reduction", "mean") == "none" else found
