"""Integers of 8 and 16 bits, which the engine keeps with 32 bits.

In torch their sums and products wrap: the uint8 numbers 200 + 100 are 44. So the results of such
operators are brought into the range of their type.
"""
from __future__ import annotations

import torch

from .builder import Builder, Operand
from .table import CannotLower

LEAST = {torch.uint8: 0, torch.int8: -2 ** 7, torch.int16: -2 ** 15}
# Operators that may leave the range of their arguments.
SMALL = {"add", "sub", "rsub", "neg", "abs"}  # by one bit
LARGE = {"mul", "square", "to", "_to_copy", "type_as", "sum", "cumsum"}
REFUSED = {"pow", "prod", "cumprod"}
COARSE = 2 ** 16


def wrapped(b: Builder, target: str, x: Operand, dtype: torch.dtype) -> Operand:
    """The result `x` of an operator in the range of a torch type; of most it is there already."""
    name = target.split(".")[1]
    if dtype not in LEAST or name not in SMALL | LARGE | REFUSED or isinstance(x, torch.Tensor):
        return x
    if name in REFUSED:
        raise CannotLower(f"its result has the type {dtype}, in which it may wrap; convert to "
                          "float or long before")
    least = LEAST[dtype]
    count = 2 ** torch.iinfo(dtype).bits
    shifted = b.emit("sub", b.cast(x, "i32"), torch.tensor(least, dtype=torch.int32))
    if name in LARGE and count < COARSE or dtype == torch.int16:
        # fp32 has 24 bits: after this the rest is small, though a rounded quotient may be off by 1.
        shifted = _less_multiples(b, shifted, COARSE)
    rest = _less_multiples(b, shifted, count)
    return b.emit("add", rest, torch.tensor(least, dtype=torch.int32))


def _less_multiples(b: Builder, x: Operand, of: int) -> Operand:
    """x - of * floor(x / of)."""
    quotient = b.emit("floor", b.scale(b.cast(x, "f32"), 1 / of))
    return b.emit("sub", x, b.emit("mul", b.cast(quotient, "i32"),
                                   torch.tensor(of, dtype=torch.int32)))
