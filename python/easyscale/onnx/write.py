"""Writes trained weights back into an ONNX file."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from ..run import Run
from .evaluation import evaluation_of
from .file import load
from .package import numpy_helper, onnx


def to_onnx(run: Run, source: Any, target: str | Path) -> None:
    """Writes an ONNX file with the trained weights of a run, ready for inference.

    `source` is what `from_onnx` has read, and `target` the new file. Batch norms use their trained
    statistics, and dropouts do nothing. Raises UsageError if the weights are those of another file.
    """
    proto = evaluation_of(load(source).proto)
    weights = run.state_dict()
    _name_copies(proto.graph, weights)
    initializers = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, array in weights.items():
        if name not in initializers and not name.endswith(".num_batches_tracked"):
            raise UsageError(f"{source} has no initializer {name!r}, which was trained")
    for name, tensor in initializers.items():
        if name in weights:
            _check_shape(name, weights[name], tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(weights[name], name))
    onnx.save(proto, target)


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise UsageError(f"the initializer {name} has the shape {shape}, but {array.shape} was "
                         "trained")


def _name_copies(graph: Any, weights: dict[str, np.ndarray]) -> None:
    """Gives an initializer of its own to every weight that is an Identity of another one."""
    names = {tensor.name for tensor in graph.initializer}
    copies = [node for node in graph.node if node.op_type == "Identity"
              and node.input[0] in names and node.output[0] in weights]
    for node in copies:
        graph.node.remove(node)
        graph.initializer.append(numpy_helper.from_array(weights[node.output[0]], node.output[0]))
