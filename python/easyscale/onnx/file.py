"""An ONNX file as plain Python objects. The only place that reads protocol buffers."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import OnnxRefused
from .package import helper, numpy_helper, onnx

OPSETS = range(13, 21)
DEFAULT_DOMAINS = ("", "ai.onnx")
LARGEST_MESSAGE = 2**31 - 1  # the checker serialises the model


@dataclass
class Operation:
    """A node; its operator has the domain in front unless that is the default one."""

    operator: str
    name: str
    inputs: list[str]  # an input that is left out is empty
    outputs: list[str]
    attributes: dict[str, Any]
    proto: Any


@dataclass(frozen=True)
class Field:
    """An input; an extent is a number, or the name of what it depends on."""

    name: str
    dtype: np.dtype
    dims: tuple[int | str, ...]


@dataclass
class OnnxModel:
    """The graph of a file; `initializers` has also the weights that are only named twice."""

    name: str
    proto: Any
    opset: int
    operations: list[Operation]
    fields: list[Field]
    initializers: dict[str, np.ndarray]
    outputs: list[str]

    def uses(self) -> Counter[str]:
        """How often every value is read, also as an output."""
        read = Counter(name for operation in self.operations for name in operation.inputs)
        return read + Counter(self.outputs)


def load(source: Any) -> OnnxModel:
    """Reads a file by its path, its bytes, or an onnx.ModelProto. Raises OnnxRefused."""
    name = source if isinstance(source, (str, Path)) else "the model"
    proto = _parsed(source, str(name))
    opset = _opset(proto, str(name))
    _check(proto, str(name))
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    return _model(proto, opset, str(name))


def _parsed(source: Any, name: str) -> Any:
    if isinstance(source, onnx.ModelProto):
        return source
    try:
        if isinstance(source, bytes):
            return onnx.load_model_from_string(source)
        return onnx.load(source)
    except Exception as error:  # onnx has no common class for what it raises here
        raise OnnxRefused(f"{name} cannot be read: {type(error).__name__}: {error}") from error


def _opset(proto: Any, name: str) -> int:
    versions = [x.version for x in proto.opset_import if x.domain in DEFAULT_DOMAINS]
    if len(versions) != 1 or versions[0] not in OPSETS:
        raise OnnxRefused(f"{name}: opset = {', '.join(map(str, versions)) or 'none'}: allowed is "
                          f"{OPSETS[0]} to {OPSETS[-1]}; export it again, or convert it with "
                          "onnx.version_converter")
    return versions[0]


def _check(proto: Any, name: str) -> None:
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise OnnxRefused(f"{name}: the data of {tensor.name} are in another file, which was "
                              "not read: give the path of the file")
    for node in proto.graph.node:  # newer exporters of torch name the module
        if any("SyncBatchNorm" in entry.value for entry in getattr(node, "metadata_props", ())):
            raise OnnxRefused(f"{name}: the batch norm {node.name or node.output[0]} was a "
                              "SyncBatchNorm, which normalises the mini-batches of all ranks "
                              "together; export BatchNorm, which normalises the mini-batch of each "
                              "EST, or GroupNorm")
    if proto.graph.sparse_initializer:
        raise OnnxRefused(f"{name}: {proto.graph.sparse_initializer[0].values.name} is sparse: "
                          "allowed are dense initializers")
    if proto.ByteSize() > LARGEST_MESSAGE:
        return
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        raise OnnxRefused(f"{name} is no valid model: {error}") from error


def _model(proto: Any, opset: int, name: str) -> OnnxModel:
    initializers = {x.name: numpy_helper.to_array(x) for x in proto.graph.initializer}
    fields = [_field(x, name) for x in proto.graph.input if x.name not in initializers]
    return OnnxModel(name, proto, opset, [_operation(node) for node in proto.graph.node], fields,
                     initializers, [x.name for x in proto.graph.output])


def _field(info: Any, name: str) -> Field:
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
        raise OnnxRefused(f"{name}: the input {info.name} is no tensor with a shape")
    tensor = info.type.tensor_type
    dims = tuple(dim.dim_value if dim.dim_value > 0 else dim.dim_param or "?"
                 for dim in tensor.shape.dim)
    return Field(info.name, np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)), dims)


def _operation(node: Any) -> Operation:
    operator = node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"
    attributes = {x.name: _attribute(x) for x in node.attribute}
    return Operation(operator, node.name or (node.output[0] if node.output else ""),
                     list(node.input), list(node.output), attributes, node)


def _attribute(attribute: Any) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return decimal(value)
    if isinstance(value, (list, tuple)) or hasattr(value, "append"):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    return value


def decimal(value: float) -> float:
    """The number with the fewest digits that is `value` in fp32: 0.1 for 0.10000000149."""
    return float(str(np.float32(value)))
