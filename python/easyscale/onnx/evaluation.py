"""An ONNX model with batch norms and dropouts as they are in evaluation."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .file import DEFAULT_DOMAINS
from .package import onnx


def evaluation_of(proto: Any) -> Any:
    """A copy of a model whose batch norms use their statistics, and whose dropouts do nothing."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for node in result.graph.node:
        if node.domain not in DEFAULT_DOMAINS:
            continue
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            keep_attributes(node, lambda name: name != "training_mode")
        elif node.op_type == "Dropout":
            node.op_type = "Identity"
            del node.input[1:], node.output[1:], node.attribute[:]
    return result


def keep_attributes(node: Any, is_kept: Callable[[str], bool]) -> None:
    """Removes the attributes of a node for whose names `is_kept` returns False."""
    kept = [attribute for attribute in node.attribute if is_kept(attribute.name)]
    del node.attribute[:]
    node.attribute.extend(kept)
