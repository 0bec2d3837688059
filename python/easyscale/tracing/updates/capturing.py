"""What torch does otherwise while a step is recorded."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..patches import exchanged
from .scalars import numbers_of_tensors

NEW_TENSOR = Tensor.new_tensor


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(numbers_of_tensors())
        stack.enter_context(_written_data())
        for owner, name in ((torch, "tensor"), (torch, "as_tensor"), (Tensor, "new_tensor")):
            stack.enter_context(exchanged(owner, name, _with_contents(getattr(owner, name))))
        yield


def _with_contents(real: Callable) -> Callable:
    """A function that makes tensors of numbers, which have contents on all devices."""
    def make(*args: Any, **options: Any) -> Any:
        if args and isinstance(args[-1], Tensor) and args[-1].is_meta and real is not NEW_TENSOR:
            return real(*args, **options)
        if real is NEW_TENSOR or str(options.get("device")) == "meta":
            options["device"] = "cpu"
        if real is NEW_TENSOR:
            options.setdefault("dtype", args[0].dtype)
            return torch.tensor(*args[1:], **options)
        return real(*args, **options)
    return make


@contextlib.contextmanager
def _written_data() -> Iterator[None]:
    """In this block `p.data = x` writes x into p, which a recorder sees."""
    real = torch._C.TensorBase.data

    def write(tensor: Tensor, value: Tensor) -> None:
        if tensor.is_meta and value.shape == tensor.shape:
            with torch.no_grad():
                tensor.copy_(value)
        else:
            real.__set__(tensor, value)
    torch.Tensor.data = property(real.__get__, write)
    try:
        yield
    finally:
        del torch.Tensor.data
