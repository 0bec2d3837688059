"""Which initializers are trained, which are statistics, and which are constants."""
from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import torch
from torch import nn

from ..tracing.errors import NoTrainableParameter, UnsupportedType
from ..tracing.state import Tied
from ..errors import UsageError
from .file import OnnxModel

# The inputs of operators that decide shapes and settings, so that they have to be constants.
SETTINGS = {"ConstantOfShape": (0,), "CumSum": (1,), "Dropout": (1, 2), "Expand": (1,),
            "OneHot": (1, 2), "Pad": (1, 2, 3), "Range": (0, 1, 2), "Reshape": (1,),
            "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
            "Tile": (1,), "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,)}
STATISTICS = {"BatchNormalization": (3, 4)}


class Weights:
    """The initializers of a model, as the state that a capture has.

    A parameter is an fp32 initializer with at least one axis and finite numbers that data meet;
    `frozen` has shell patterns of the names that are not trained. `parameters` has them with their
    other names, `statistics` those of batch norms, and `constants` all other initializers. The
    `buffers` are those of the loss.
    """

    def __init__(self, model: OnnxModel, frozen: Sequence[str]):
        aliases = _without_copies(model)
        settings = _settings(model)
        statistics = _inputs(model, STATISTICS)
        read = {name for operation in model.operations for name in operation.inputs}
        self.parameters: dict[int, Tied] = {}
        self.statistics: dict[str, torch.Tensor] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        for name, array in model.initializers.items():
            if name in statistics:
                self.statistics[name] = torch.from_numpy(np.array(array, np.float32))
            elif name not in settings and name in read and _is_trained(name, array):
                self._add_parameter(name, array, aliases.get(name, []))
            else:
                self.constants[name] = array
        _freeze(self.parameters, frozen)

    @property
    def persistent(self) -> list[str]:
        """The names of the buffers, which are all exported."""
        return list(self.buffers)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All parameters and statistics by name."""
        return {tied.names[0]: tied.tensor for tied in self.parameters.values()} | self.statistics

    def arrays(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Parameters and statistics by name, as they are written to a file."""
        tensors = self.tensors()
        return {name: tensors[name].detach().numpy().copy() for name in names}

    def _add_parameter(self, name: str, array: np.ndarray, aliases: list[str]) -> None:
        tensor = nn.Parameter(torch.from_numpy(np.array(array, order="C")))
        self.parameters[id(tensor)] = Tied(tensor, [name, *aliases])


def _is_trained(name: str, array: np.ndarray) -> bool:
    """Whether an initializer is a parameter. Raises UnsupportedType if it is no fp32."""
    if array.dtype.kind in "iub" or array.ndim == 0:
        return False
    if array.dtype != np.float32:
        raise UnsupportedType(f"the initializer {name} has the type {array.dtype}: allowed is "
                              "float32; export the model in fp32, and choose the precision of the "
                              "job instead")
    return bool(np.isfinite(array).all())


def _freeze(parameters: dict[int, Tied], patterns: Sequence[str]) -> None:
    for pattern in patterns:
        found = [tied for tied in parameters.values()
                 if any(fnmatchcase(name, pattern) for name in tied.names)]
        if not found:
            first = ", ".join(tied.names[0] for tied in list(parameters.values())[:5])
            raise UsageError(f"frozen: no parameter has a name like {pattern!r}; the first ones "
                             f"are {first}")
        for tied in found:
            tied.tensor.requires_grad_(False)
    if not any(tied.tensor.requires_grad for tied in parameters.values()):
        raise NoTrainableParameter("no initializer of the file is trained")


def _inputs(model: OnnxModel, table: dict[str, tuple[int, ...]]) -> set[str]:
    """The names at some inputs of operators."""
    return {operation.inputs[i] for operation in model.operations
            for i in table.get(operation.operator, ()) if i < len(operation.inputs)}


def _settings(model: OnnxModel) -> set[str]:
    """Everything that settings are computed from; a shape is known without its tensor."""
    maker = {name: operation for operation in model.operations for name in operation.outputs}
    found: set[str] = set()
    open_names = list(_inputs(model, SETTINGS))
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        found.add(name)
        if name in maker and maker[name].operator not in ("Shape", "Size"):
            open_names += maker[name].inputs
    return found


def _without_copies(model: OnnxModel) -> dict[str, list[str]]:
    """Removes the Identity operators of initializers; returns other names of tied ones.

    An exporter names equal initializers once, also those that are equal by chance when training
    begins: all biases that are zero. So a tensor whose elements are all equal is no tied weight.
    """
    same: dict[str, str] = {}
    aliases: dict[str, list[str]] = {}
    kept = []
    for operation in model.operations:
        operation.inputs = [same.get(name, name) for name in operation.inputs]
        source = operation.inputs[0] if operation.inputs else ""
        if operation.operator != "Identity" or source not in model.initializers:
            kept.append(operation)
        elif _is_uniform(model.initializers[source]):
            model.initializers[operation.outputs[0]] = model.initializers[source].copy()
        else:
            same[operation.outputs[0]] = source
            if _is_a_name(operation.outputs[0]):
                aliases.setdefault(source, []).append(operation.outputs[0])
    model.operations = kept
    return aliases


def _is_uniform(array: np.ndarray) -> bool:
    return array.size > 0 and bool((array == array.reshape(-1)[0]).all())


def _is_a_name(name: str) -> bool:
    """False for the names that exporters make up for values."""
    return not name.isdigit() and "/" not in name and "::" not in name
