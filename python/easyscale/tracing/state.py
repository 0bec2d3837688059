"""The state dict of a module: parameters by identity, ties, statistics and buffers."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from .errors import CaptureError, NoTrainableParameter, UnsupportedType

SAFETENSORS_TYPE = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16",
                    torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
                    torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


@dataclass
class Tied:
    """One parameter with all of its names; the first is that of `named_parameters()`."""

    tensor: nn.Parameter
    names: list[str] = field(default_factory=list)

    def numbers(self) -> torch.Tensor:
        """What is trained and stored: the parameter, or if it is complex its parts [..., 2]."""
        return torch.view_as_real(self.tensor) if self.tensor.is_complex() else self.tensor


class State:
    """The parameters and buffers of a model and of its loss.

    `wrapper` is the module that is exported: its `model` is the user's, and `loss` may be a module.
    Names of the model have no prefix; those of a loss begin with "loss.".
    """

    def __init__(self, wrapper: nn.Module):
        self._wrapper = wrapper
        self.parameters: dict[int, Tied] = {}
        for name, tensor in wrapper.named_parameters(remove_duplicate=False):
            tied = self.parameters.setdefault(id(tensor), Tied(tensor))
            tied.names.append(plain_name(name))
        self.buffers = {plain_name(name): tensor
                        for name, tensor in wrapper.named_buffers(remove_duplicate=False)}
        kept = wrapper.state_dict(keep_vars=True)
        self.persistent = [plain_name(name) for name in kept
                           if plain_name(name) in self.buffers]
        self._check()

    def name_of(self, target: str) -> str:
        """The canonical name of the parameter or buffer that export calls `target`."""
        found = self._wrapper
        for part in target.split("."):
            found = getattr(found, part)
        tied = self.parameters.get(id(found))
        return tied.names[0] if tied else plain_name(target)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The numbers of all parameters, and the buffers, by their canonical names."""
        named = {tied.names[0]: tied.numbers() for tied in self.parameters.values()}
        return named | self.buffers

    def trainable(self) -> dict[str, torch.Tensor]:
        """The parameters that the optimizer changes, by their canonical names."""
        return {tied.names[0]: tied.tensor for tied in self.parameters.values()
                if tied.tensor.requires_grad}

    def complex_parameters(self) -> frozenset[str]:
        """The canonical names of those whose parts are stored."""
        return frozenset(tied.names[0] for tied in self.parameters.values()
                         if tied.tensor.is_complex())

    def originals(self) -> list[torch.Tensor]:
        """The parameters and buffers themselves, each once."""
        found = [*(tied.tensor for tied in self.parameters.values()), *self.buffers.values()]
        return list({id(tensor): tensor for tensor in found}.values())

    def full_names(self) -> list[str]:
        """The names of the buffers and frozen parameters of the wrapper."""
        buffers = [name for name, _ in self._wrapper.named_buffers(remove_duplicate=False)]
        return buffers + sorted(self.frozen())

    def frozen(self) -> set[str]:
        """The parameters that the optimizer does not change, by their full names."""
        return {name for name, tensor in self._wrapper.named_parameters(remove_duplicate=False)
                if not tensor.requires_grad}

    def names_of_memory(self, tensor: torch.Tensor) -> set[str]:
        """The names of the parameters and buffers that share memory with a tensor."""
        place = tensor.untyped_storage().data_ptr()
        aliases = {name: tied.tensor for tied in self.parameters.values() for name in tied.names}
        return {name for name, other in (self.buffers | aliases).items()
                if place and other.untyped_storage().data_ptr() == place}

    def counters(self) -> set[str]:
        """The buffers in which batch norms of torch count their mini-batches, by their full names."""
        return {f"{path}.num_batches_tracked" for path, module in self._wrapper.named_modules()
                if isinstance(module, nn.modules.batchnorm._NormBase)}

    def _check(self) -> None:
        storages: dict[int, str] = {}
        for tied in self.parameters.values():
            name, tensor = tied.names[0], tied.tensor
            if isinstance(tensor, nn.parameter.UninitializedParameter):
                raise CaptureError(f"the lazy parameter {name} has no shape yet: run the model "
                                   "once")
            if tensor.dtype not in (torch.float32, torch.complex64):
                raise UnsupportedType(f"the parameter {name} has the type {tensor.dtype}; call "
                                      "model.float() first, and choose the job's precision")
            _check_tensor(name, tensor)
            if tensor.numel() and tensor.data_ptr():
                other = storages.setdefault(tensor.untyped_storage().data_ptr(), name)
                if other != name:
                    raise CaptureError(f"the parameters {other} and {name} share memory but are "
                                       "two objects; assign the same Parameter to both names")
        if not any(tied.tensor.requires_grad for tied in self.parameters.values()):
            raise NoTrainableParameter("the model has no parameter with requires_grad=True")


def _check_tensor(name: str, tensor: nn.Parameter) -> None:
    """Raises CaptureError for a parameter that cannot begin a training, or not like its module."""
    if tensor.is_meta:
        raise CaptureError(f"the parameter {name} is on the device meta and has no elements; call "
                           "model.to_empty(device=\"cpu\") and give it values")
    if not torch.isfinite(tensor.detach()).all():
        raise CaptureError(f"the parameter {name} has an element that is not finite")
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        raise CaptureError(f"the parameter {name} has a hook on its gradient (register_hook), which "
                           "cannot be captured; remove it, and change the gradient in the loss")


def plain_name(name: str) -> str:
    """The state dict's name of the user's module."""
    return name.removeprefix("model.")
