"""What the schemas of aten operators say: names of arguments, what is written, what is viewed."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch


@lru_cache(maxsize=None)
def operator(target: str) -> Any:
    """The torch operator of a name such as "aten.add.Tensor"."""
    namespace, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


def named_arguments(op: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """All arguments of a call by name, with the defaults of the schema."""
    named = {}
    for position, argument in enumerate(op._schema.arguments):
        if position < len(args):
            named[argument.name] = args[position]
        elif argument.name in kwargs:
            named[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            named[argument.name] = argument.default_value
    return named


@lru_cache(maxsize=None)
def written_argument(target: str) -> str | None:
    """The name of the argument that an in-place operator changes."""
    for argument in operator(target)._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            return argument.name
    return None


@lru_cache(maxsize=None)
def viewed_argument(target: str) -> str | None:
    """The name of the argument that the results of an operator share memory with."""
    returns = operator(target)._schema.returns
    if not any(result.alias_info is not None for result in returns):
        return None
    for argument in operator(target)._schema.arguments:
        if argument.alias_info is not None and not argument.alias_info.is_write:
            return argument.name
    return None


def functional_name(target: str) -> str | None:
    """The operator that returns what the in-place operator `target` would write, or None."""
    namespace, name, overload = target.split(".")
    special = {"fill_.Scalar": "full_like.default", "zero_.default": "zeros_like.default",
               "bernoulli_.float": "bernoulli.p",
               "normal_.default": "normal_functional.default"}.get(f"{name}.{overload}")
    if special:
        return f"{namespace}.{special}"
    plain = name.rstrip("_") if not name.startswith("__") else name.replace("__i", "__", 1)
    packet = getattr(getattr(torch.ops, namespace), plain, None)
    if packet is not None and overload in packet.overloads():
        return f"{namespace}.{plain}.{overload}"
    return None
