"""Compares a converted program with the reference implementation of ONNX, in evaluation."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..allowed import Allowed
from ..tracing.check import OUTPUT_ERROR, compare
from ..tracing.errors import SelfCheckFailed
from ..interpret import TORCH_TYPE, Context, interpret
from ..program import Input, Program
from .evaluation import evaluation_of, keep_attributes
from .file import DEFAULT_DOMAINS, OnnxModel
from .package import helper
from .reference import evaluate
from .weights import Weights

SEED = 20
BATCHES = 2


def check(program: Program, model: OnnxModel, weights: Weights, samples: int,
          loss: str | None) -> None:
    """Raises SelfCheckFailed with the name of an output that differs on random inputs.

    The reference gets batches of `samples`. The program gets the first batch, and then all of them
    at once. `loss` is the name of the output that is the loss, if there is one.
    """
    inputs = _random_inputs(program, BATCHES * samples)
    batches = [{name: x[i:i + samples] for name, x in inputs.items()}
               for i in range(0, BATCHES * samples, samples)]
    results = _evaluate(model, batches)
    # A model that returns its loss only has an output that the file has as one number, or not.
    outputs = {output.name: output.value for output in program.outputs
               if np.ndim(results[0].get(output.name, 0)) > 0}
    alone = outputs | ({loss: program.loss} if loss else {})
    _compare(program, weights, batches[0], results[0], alone)
    of_samples = {name: value for name, value in outputs.items()
                  if any(dim.per_batch for dim in program.values[value].dims[:1])}
    together = {name: np.concatenate([result[name] for result in results]) for name in of_samples}
    _compare(program, weights, inputs, together, of_samples)


@torch.no_grad()
def _compare(program: Program, weights: Weights, inputs: dict[str, torch.Tensor],
             wanted: dict[str, np.ndarray], outputs: dict[str, int]) -> None:
    values = interpret(program, weights.tensors(), inputs, Context(training=False))
    for name, value in outputs.items():
        compare(f"the output {name}", values[value], torch.from_numpy(np.array(wanted[name])),
                OUTPUT_ERROR, "onnx.reference")


def _random_inputs(program: Program, samples: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    inputs = {}
    for field in program.inputs:
        value = program.values[field.value]
        shape = value.shape(samples)
        if value.type == "f32":
            inputs[field.name] = torch.randn(shape, generator=generator)
        else:
            inputs[field.name] = _random_integers(field, shape, generator).to(TORCH_TYPE[value.type])
    return inputs


def _random_integers(field: Input, shape: tuple[int, ...],
                     generator: torch.Generator) -> torch.Tensor:
    """Some that the input takes at each place."""
    allowed = field.allowed or Allowed.between(field.low, field.high)
    numbers = torch.zeros(shape, dtype=torch.int64)
    for number, runs in enumerate(allowed.runs):
        low = max(runs[0][0], 0)
        drawn = torch.randint(low, min(runs[-1][1], low + 255) + 1, shape, generator=generator)
        here = np.array(True) if allowed.places is None else allowed.places == number
        numbers = torch.where(torch.from_numpy(here), drawn, numbers)
    return numbers


def _evaluate(model: OnnxModel, batches: list[dict[str, torch.Tensor]]
              ) -> list[dict[str, np.ndarray]]:
    """The outputs of the reference for every batch, by name."""
    try:
        proto = _for_reference(model.proto)
        return [dict(zip(model.outputs, evaluate(proto, {
            field.name: batch[field.name].numpy().astype(field.dtype) for field in model.fields})))
            for batch in batches]
    except Exception as error:  # the reference has no common class for what it raises
        raise SelfCheckFailed(f"onnx.reference cannot evaluate {model.name}: "
                              f"{type(error).__name__}: {error}; check=False leaves it out"
                              ) from error


def _for_reference(proto: Any) -> Any:
    """The model in evaluation, as the reference can evaluate it.

    The reference of opset 13 mixes the running statistics with those of the batch in any mode; with
    a momentum of 1 they stay as they are.
    """
    result = evaluation_of(proto)
    for node in result.graph.node:
        if node.op_type == "BatchNormalization" and node.domain in DEFAULT_DOMAINS:
            keep_attributes(node, lambda name: name != "momentum")
            node.attribute.append(helper.make_attribute("momentum", 1.0))
        if node.op_type == "GridSample":
            _rename_mode(node)
    return result


def _rename_mode(node: Any) -> None:
    """Gives a mode of GridSample its name of opset 20, which alone the reference knows."""
    for attribute in node.attribute:
        if attribute.name == "mode":
            attribute.s = {b"bilinear": b"linear", b"bicubic": b"cubic"}.get(attribute.s, attribute.s)
