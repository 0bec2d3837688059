"""The loss of an ONNX model, which has none of its own: a name, a torch loss, or an output."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..tracing.check import differs, loss_alone
from ..tracing.errors import CaptureError, LossNotScalar
from ..tracing.lower.builder import Builder, Operand, Val, type_of
from ..tracing.merge import Lowering, simplify
from ..tracing.ranks import loss_among_ranks, refuse_other
from ..tracing.reader import read
from ..tracing.step import Step, name_fields, with_samples
from ..errors import UsageError
from .state import BufferState

LOSSES: dict[str, Callable[[], nn.Module]] = {
    "cross_entropy": nn.CrossEntropyLoss, "nll": nn.NLLLoss, "mse": nn.MSELoss, "l1": nn.L1Loss,
    "smooth_l1": nn.SmoothL1Loss, "huber": nn.HuberLoss, "bce": nn.BCELoss,
    "bce_with_logits": nn.BCEWithLogitsLoss,
    "kl_div": lambda: nn.KLDivLoss(reduction="batchmean"),
}
OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)
LIKE_THE_OUTPUT = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss,
                   nn.BCEWithLogitsLoss, nn.KLDivLoss)
TORCH_TYPE = {"f32": torch.float32, "i32": torch.int64, "bool": torch.bool}


class LossOf:
    """What is trained: an output that is the loss already, or a loss of outputs and targets.

    `outputs` are the names of the outputs that an evaluation returns, that of the loss first. The
    loss gets the output that was named, or the only one, or a dict of all.
    """

    def __init__(self, loss: Any, output: str | None, outputs: list[str], example_targets: Any):
        if output is not None and output not in outputs:
            raise UsageError(f"output = {output!r}: allowed are {', '.join(outputs)}")
        self.ready = loss if isinstance(loss, str) and loss in outputs else None
        self.module = None if self.ready else _module(loss, outputs)
        self.given = [output] if output else outputs
        if isinstance(loss, str) and not self.ready and len(self.given) > 1:
            raise UsageError(f"loss = {loss!r}: the file has the outputs {', '.join(outputs)}; "
                             "name the one that the loss takes with output=")
        self.outputs = [name for name in [*self.given, *outputs] if name != self.ready]
        self.outputs = list(dict.fromkeys(self.outputs))
        self._example_targets = example_targets

    def add(self, builder: Builder, values: dict[str, Operand], count: int) -> _Added:
        """Adds the loss of `count` samples to a program whose outputs are `values`."""
        if self.ready:
            return _Added(_number(builder, values[self.ready]), {}, {})
        outputs = {name: builder.value(values[name]) for name in self.given}
        alone = next((name for name, val in outputs.items() if not val.shape), None)
        if alone is not None and len(outputs) == 1 and self._example_targets is None:
            raise UsageError(f"the output {alone!r} is one number, as a loss is: loss={alone!r} takes it "
                             "as the loss")
        targets = self._targets(list(outputs.values()), count)
        return _lowered(builder, self.module, outputs, targets)

    def _targets(self, outputs: list[Val], count: int) -> Any:
        """Targets of zeros in the shape that the loss needs, or the example."""
        if self._example_targets is not None:
            fields, tensors = name_fields(_tensors(self._example_targets), [], "label")
            return fields.rebuild(with_samples(tensors, count))
        shape = outputs[0].shape
        if isinstance(self.module, OF_CLASSES) and len(outputs) == 1 and len(shape) > 1:
            return torch.zeros((shape[0], *shape[2:]), dtype=torch.int64)
        if isinstance(self.module, LIKE_THE_OUTPUT) and len(outputs) == 1:
            return torch.zeros(shape)
        raise UsageError("the shape of the targets does not follow from this loss and the outputs: "
                         "give example_targets")


@dataclass
class _Added:
    """The loss, the inputs that it reads beside those of the model, and its buffers."""

    loss: Operand
    inputs: dict[str, Val]
    buffers: dict[str, torch.Tensor]


def _module(loss: Any, outputs: list[str]) -> Any:
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise UsageError(f"loss = {loss!r}: allowed are {', '.join(LOSSES)}, the output that "
                             f"is the loss ({', '.join(outputs)}), and a loss of torch")
        return LOSSES[loss]()
    if not callable(loss):
        raise UsageError(f"loss is {type(loss).__name__}: allowed is a name or a loss of torch")
    if isinstance(loss, nn.Module) and next(loss.parameters(), None) is not None:
        raise CaptureError("a loss with parameters: only those of the ONNX file can be trained")
    return loss


def _number(builder: Builder, x: Operand) -> Operand:
    if not isinstance(x, Val) or x.shape not in ((), (1,)) or x.type != "f32":
        raise LossNotScalar(f"the loss has the shape {list(x.shape)} and the type {type_of(x)}; it "
                            "must be one fp32 number")
    return builder.reshape(x, ())


def _tensors(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _tensors(item) for name, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return tuple(_tensors(item) for item in tree)
    return torch.as_tensor(tree)


class _Same(nn.Module):
    """Stands for the model in the trace of a loss: its outputs are given."""

    def forward(self, output: Any = None, **outputs: Any) -> Any:
        return outputs or output


def _lowered(builder: Builder, module: Any, outputs: dict[str, Val], targets: Any) -> _Added:
    """Traces module(outputs, targets) by torch, and lowers it into the program."""
    examples = {name: torch.zeros(val.shape, dtype=TORCH_TYPE[val.type])
                for name, val in outputs.items()}
    given = examples if len(examples) > 1 else next(iter(examples.values()))
    fields, tensors = name_fields(given, ["outputs"], "")
    more, labels = name_fields(targets, [], "label")
    if set(tensors) & set(labels):
        raise UsageError(f"a target has the name {next(iter(set(tensors) & set(labels)))!r} of an "
                         "output: give it another one")
    step = Step(_Same(), module, fields, more)
    _refuse_ranks(step, tensors | labels)
    graph = read(step, [*tensors.values(), *labels.values()], [*tensors, *labels])
    if any(node.site >= 0 for node in graph.nodes):
        raise CaptureError("the loss draws random numbers")
    state: Any = BufferState(dict(step.named_buffers()))
    graph = simplify(graph, state, training=True, states=set())
    if graph.written:
        raise CaptureError(f"the loss changes its buffer {min(graph.written.values())}, which only a "
                           "captured module may do")
    inputs = {name: builder.new_value(tuple(tensor.shape), _TYPE_NAMES[tensor.dtype])
              for name, tensor in labels.items()}
    named = dict(zip(tensors, outputs.values())) | inputs
    loss = Lowering(builder, graph, state, named, {}, {}).run()[0]
    return _Added(loss, inputs, state.buffers)


def _refuse_ranks(step: Step, tensors: dict[str, torch.Tensor]) -> None:
    """Raises CaptureError for a loss that computes with other ranks."""
    filled = {name: torch.rand_like(x) if x.is_floating_point() else x
              for name, x in tensors.items()}
    among = loss_among_ranks(lambda: loss_alone(step, filled))
    refuse_other(among, lambda found: differs(found, loss_alone(step, filled)))


_TYPE_NAMES = {dtype: name for name, dtype in TORCH_TYPE.items()}
