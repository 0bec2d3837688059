"""Contents that a tracer could know: those that follow from constants, not from inputs or weights.

A forward pass may branch on a mask that it has made itself, choose elements by it, or read the number
of an `arange`. A tracer gives such a tensor no content. Here the operators that have made it are run, from the graph
that the tracer has recorded so far, as soon as Python asks for a content.
"""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import nn
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from .chosen_places import Places, assigned_places, chosen, place_rows, places_of
from .errors import KEPT, DataDependent
from .lines import calling_line
from .selected import Selected, assigned, node_of, select

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # training changes them
ASKED = ("item", "tolist", "numpy", "__int__", "__float__", "__index__")
NUMBERS = ("arange", "linspace")  # functions whose arguments may be tensors with one number
SIZED = ("unique", "unique_consecutive", "bincount")  # the contents decide the shape of the result
RANDOM = torch.Tag.nondeterministic_seeded


class _Replay:
    """Runs the nodes of a tracer's graph whose arguments are all known, in their order."""

    def __init__(self, step: nn.Module, states: Collection[str]):
        self._step = step
        self._buffers = {name: tensor for name, tensor in step.named_buffers()
                         if not name.endswith(STATISTICS) and name not in states}
        self._graph: Any = None
        self._known: dict[Any, Any] = {}
        self._spoiled: set[int] = set()  # storages with content that is not known
        self._last: Any = None           # the last node that was run

    def content(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The content of a tensor of the tracer, or None."""
        mode = proxy_tensor.get_proxy_mode()
        if mode is None:
            return None
        node = node_of(tensor, mode.tracer)
        if node is None:
            return None
        if mode.tracer.graph is not self._graph:
            self._graph, self._known, self._spoiled, self._last = mode.tracer.graph, {}, set(), None
        # A tracer would record the change of the gradient mode, and is slow if there are many.
        with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
            self._run(mode.tracer)
        found = self._known.get(node)
        return found if self._is_good(found) else None

    def _run(self, tracer: Any) -> None:
        nodes = list(self._graph.nodes)
        begin = nodes.index(self._last) + 1 if self._last is not None else 0
        for node in nodes[begin:]:
            self._last = node
            try:
                self._run_node(node, tracer)
            except Exception:  # what cannot be run is not known, and the tracer says why
                self._known.pop(node, None)

    def _run_node(self, node: Any, tracer: Any) -> None:
        if node.op == "placeholder":
            self._read_buffer(node, tracer)
        elif node.op == "get_attr":
            value = getattr(tracer.root, node.target)
            if type(value) is torch.Tensor:
                self._known[node] = value.clone()
        elif node.op == "call_function":
            arguments = node.all_input_nodes
            if all(self._is_good(self._known.get(argument)) for argument in arguments) and not (
                    isinstance(node.target, torch._ops.OpOverload) and RANDOM in node.target.tags):
                args, kwargs = torch.fx.node.map_arg(
                    (node.args, node.kwargs), self._known.__getitem__)
                self._known[node] = node.target(*args, **kwargs)
            else:
                self._spoil(node)

    def _read_buffer(self, node: Any, tracer: Any) -> None:
        # While the module is traced, its buffers are tensors of the tracer.
        for name, tensor in self._step.named_buffers():
            if name in self._buffers and node_of(tensor, tracer) is node:
                self._known[node] = self._buffers[name].detach().clone()

    def _spoil(self, node: Any) -> None:
        """What an operator with unknown arguments writes is not known, nor any view of it."""
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            for argument in node.all_input_nodes:
                tensor = self._known.get(argument)
                if isinstance(tensor, torch.Tensor):
                    self._spoiled.add(tensor.untyped_storage().data_ptr())

    def _is_good(self, value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return value.untyped_storage().data_ptr() not in self._spoiled or value.numel() == 0
        return value is not None


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype == torch.bool and index.dim() > 0


def _places(mask: torch.Tensor) -> list[torch.Tensor]:
    """The indices of the true elements, for each axis."""
    with _disable_current_modes():
        places = [axis.tolist() for axis in mask.nonzero(as_tuple=True)]
    return [torch.tensor(axis, dtype=torch.long) for axis in places]


def _constant(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the tracer with a content that is known."""
    with _disable_current_modes():
        numbers = x.flatten().tolist()
    return torch.tensor(numbers, dtype=x.dtype).reshape(x.shape)


@contextlib.contextmanager
def known_contents(step: nn.Module, overridden: Callable[..., Any],
                   states: Collection[str]) -> Iterator[Callable[[Any], bool | None]]:
    """In this block a tensor whose content is known answers what Python asks of it. Buffers with names
    in `states` are changed by training, so their contents are not known.

    `overridden(owner, name, replacement)` exchanges an attribute for the time of a block. Gives the
    function that returns the truth of a tensor whose content is known, and None for others.
    """
    replay = _Replay(step, states)

    def is_traced(x: Any) -> bool:
        return isinstance(x, torch.Tensor) and type(x) not in (torch.Tensor, Selected)

    def content(tensor: Any) -> torch.Tensor | None:
        return replay.content(tensor) if is_traced(tensor) else None

    def truth(tensor: Any) -> bool | None:
        found = content(tensor)
        if found is None:
            return None
        with _disable_current_modes():
            return bool(found)

    def answering(name: str) -> Callable:
        real = getattr(torch.Tensor, name)

        @functools.wraps(real)
        def answer(tensor: torch.Tensor, *args: Any) -> Any:
            found = content(tensor)
            if found is None and name == "numpy" and is_traced(tensor):
                raise DataDependent(f"the forward pass at {calling_line()} takes the numbers of a "
                                    "tensor out of torch (numpy); compute with torch, or " + KEPT)
            if found is None:
                return real(tensor, *args)
            with _disable_current_modes():
                return getattr(found, name)(*args)
        return answer

    def of_constants(real: Callable) -> Callable:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = {x: content(x) for x in (*args, *kwargs.values()) if is_traced(x)}
            if not found or any(known is None for known in found.values()):
                return real(*args, **kwargs)
            with _disable_current_modes():
                results = real(*(found[x] if is_traced(x) else x for x in args),
                               **{key: found[x] if is_traced(x) else x
                                  for key, x in kwargs.items()})
            return tree_map_only(torch.Tensor, _constant, results)
        return call

    def with_numbers(real: Callable) -> Callable:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = [content(x) if isinstance(x, torch.Tensor) and x.dim() == 0 else None
                     for x in args]
            with _disable_current_modes():
                numbers = [None if y is None else y.item() for y in found]
            return real(*(x if y is None else y for x, y in zip(args, numbers)), **kwargs)
        return call
    def with_places(real: Callable) -> Callable:
        @functools.wraps(real)
        def get(tensor: torch.Tensor, index: Any) -> Any:
            entries = index if isinstance(index, tuple) else (index,)
            found = [content(x) if _is_mask(x) else None for x in entries]
            if all(mask is None for mask in found):
                if isinstance(entries[0], Places) and not isinstance(tensor, Selected):
                    return chosen(tensor, index)
                if _is_mask(entries[0]) and type(entries[0]) is not torch.Tensor:
                    return select(tensor, index)
                return real(tensor, index)
            places: list[Any] = []
            for entry, mask in zip(entries, found):
                places += [entry] if mask is None else _places(mask)
            return real(tensor, tuple(places))
        return get

    def with_places_of(real: Callable) -> Callable:
        @functools.wraps(real)
        def choose(tensor: torch.Tensor, mask: torch.Tensor) -> Any:
            found = content(mask)
            if found is None:
                shape = torch.broadcast_shapes(tensor.shape, mask.shape)
                return select(tensor.expand(shape), mask.expand(shape))
            # The mask chooses the same elements of each sample, if it has only the last axes.
            tensor = tensor.expand(torch.broadcast_shapes(tensor.shape, found.shape))
            with _disable_current_modes():
                found = found.expand(tensor.shape[tensor.dim() - found.dim():])
            return tensor[(..., *_places(found))].reshape(-1)
        return choose

    def with_assignment(real: Callable) -> Callable:
        @functools.wraps(real)
        def assign(tensor: torch.Tensor, index: Any, value: Any) -> None:
            if isinstance(index, Places) or isinstance(index, tuple) and isinstance(
                    index[0], Places):
                tensor.copy_(assigned_places(tensor, index, value))
            elif isinstance(value, Selected):
                tensor.copy_(assigned(tensor, index, value))
            else:
                real(tensor, index, value)
        return assign

    def is_unknown_mask(x: Any) -> bool:
        return _is_mask(x) and type(x) is not torch.Tensor and content(x) is None

    def where(condition: torch.Tensor, *rest: Any, **options: Any) -> Any:
        if rest or options or not is_unknown_mask(condition):
            return real_where(condition, *rest, **options)
        return places_of(condition)

    def nonzero(x: torch.Tensor, *, as_tuple: bool = False, **options: Any) -> Any:
        if options or not is_unknown_mask(x):
            return real_nonzero(x, as_tuple=as_tuple, **options)
        return places_of(x) if as_tuple else place_rows(x)
    real_where, real_nonzero = torch.where, torch.nonzero
    with contextlib.ExitStack() as stack:
        stack.enter_context(overridden(torch, "where", where))
        for owner in (torch, torch.Tensor):
            stack.enter_context(overridden(owner, "nonzero", nonzero))
        for name, change in (("__getitem__", with_places), ("masked_select", with_places_of),
                             ("__setitem__", with_assignment)):
            stack.enter_context(overridden(torch.Tensor, name,
                                           change(getattr(torch.Tensor, name))))
        stack.enter_context(overridden(torch, "masked_select",
                                       lambda tensor, mask: tensor.masked_select(mask)))
        for name in ASKED:
            stack.enter_context(overridden(torch.Tensor, name, answering(name)))
        for name in SIZED:
            for owner in (torch, torch.Tensor):
                if hasattr(owner, name):
                    stack.enter_context(overridden(owner, name,
                                                   of_constants(getattr(owner, name))))
        for name in NUMBERS:
            stack.enter_context(overridden(torch, name, with_numbers(getattr(torch, name))))
        yield truth
