"""Evaluates operators of constants by the reference implementation of ONNX."""
from __future__ import annotations

import numpy as np
import torch

from ..tracing.lower.table import CannotLower
from .file import Operation
from .package import helper, onnx
from .reference import evaluate

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
          "RandomUniformLike"}


def is_foldable(operation: Operation) -> bool:
    """True if the operator has one result for the same inputs."""
    return operation.operator not in RANDOM


def fold(operation: Operation, opset: int, inputs: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """The outputs of an operator whose inputs are constants."""
    feeds = {name: x.numpy() for name, x in zip(operation.inputs, inputs) if x is not None}
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for name, x in feeds.items()]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None)
               for name in operation.outputs if name]
    graph = helper.make_graph([operation.proto], "constant", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        outputs = iter(evaluate(model, feeds))
    except Exception as error:  # the reference has no common class for what it raises
        raise CannotLower(f"its constant inputs cannot be evaluated: {error}") from error
    return [tensor_of(next(outputs)) if name else None for name in operation.outputs]


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """A constant as the conversion uses it."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise CannotLower(f"a constant of the type {array.dtype}")
    return torch.from_numpy(np.array(array, order="C"))
