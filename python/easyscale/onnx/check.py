"""Compares a converted program with the reference implementation of ONNX, in evaluation."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..capture.check import OUTPUT_ERROR, compare
from ..capture.errors import SelfCheckFailed
from ..interpret import TORCH_TYPE, Context, interpret
from ..program import Program
from .file import DEFAULT_DOMAINS, OnnxModel
from .package import ReferenceEvaluator, onnx
from .weights import Weights

SAMPLES = 2  # of a file whose number of samples is symbolic
SEED = 20


def check(program: Program, model: OnnxModel, weights: Weights, samples: int | None) -> None:
    """Raises SelfCheckFailed with the name of an output that differs on random inputs."""
    inputs = _random_inputs(program, samples or SAMPLES)
    dtypes = {field.name: field.dtype for field in model.fields}
    feeds = {name: tensor.numpy().astype(dtypes[name]) for name, tensor in inputs.items()
             if name in dtypes}
    wanted = _evaluate(model, feeds)
    with torch.no_grad():
        values = interpret(program, weights.tensors(), inputs, Context(training=False))
    for output in program.outputs:
        compare(f"the output {output.name}", values[output.value],
                torch.from_numpy(np.array(wanted[output.name])), OUTPUT_ERROR, "onnx.reference")


def _random_inputs(program: Program, samples: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    inputs = {}
    for field in program.inputs:
        value = program.values[field.value]
        shape, low = value.shape(samples), max(field.low, 0)
        if value.type == "f32":
            inputs[field.name] = torch.randn(shape, generator=generator)
        else:
            high = min(field.high, low + 255) + 1
            inputs[field.name] = torch.randint(low, high, shape, generator=generator).to(
                TORCH_TYPE[value.type])
    return inputs


def _evaluate(model: OnnxModel, feeds: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        results = ReferenceEvaluator(_evaluation_of(model.proto)).run(None, feeds)
    except Exception as error:  # the reference has no common class for what it raises
        raise SelfCheckFailed(f"onnx.reference cannot evaluate {model.name}: "
                              f"{type(error).__name__}: {error}; check=False leaves it out"
                              ) from error
    return dict(zip(model.outputs, results))


def _evaluation_of(proto: Any) -> Any:
    """The model with batch norms and dropouts as they are in evaluation.

    The reference of opset 13 mixes the running statistics with those of the batch in any mode; with
    a momentum of 1 they stay as they are.
    """
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for node in result.graph.node:
        if node.domain not in DEFAULT_DOMAINS:
            continue
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            kept = [x for x in node.attribute if x.name == "epsilon"]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("momentum", 1.0)])
        elif node.op_type == "Dropout":
            node.op_type = "Identity"
            del node.input[1:], node.output[1:], node.attribute[:]
    return result
