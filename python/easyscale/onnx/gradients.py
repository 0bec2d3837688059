"""Which parameters of a file have a gradient, be it of zeros, which optimizers treat unlike none."""
from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..program import Program
from ..tracing.lower.builder import Operand, type_of
from .file import Operation

# Operators of real numbers that read the shape of an input only.
OF_SHAPES = {"EyeLike", "RandomNormalLike", "RandomUniformLike"}


def add_zero_losses(program: Program, operations: list[Operation], values: Mapping[str, Operand],
                    outputs: Iterable[str]) -> None:
    """Adds terms for the parameters that reach one of the outputs in the file by real numbers, but not
    the loss in the program, which leaves out products of nothing. `values` are those of the file."""
    reached = program.reached()
    needed = _needed(operations, values, outputs)
    program.zero_losses(x.value for x in program.parameters
                        if x.trainable and x.value not in reached and x.name in needed)


def _needed(operations: list[Operation], values: Mapping[str, Operand],
            outputs: Iterable[str]) -> set[str]:
    needed = set(outputs)
    for operation in reversed(operations):
        real = [name for name in operation.outputs if name in needed and _is_real(values[name])]
        if real and operation.operator not in OF_SHAPES:
            needed.update(operation.inputs)
    return needed


def _is_real(x: Operand | None) -> bool:
    return x is not None and type_of(x) == "f32"
