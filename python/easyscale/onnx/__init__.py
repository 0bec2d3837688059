"""Reads ONNX files as captured models, and writes weights back. Needs torch and `onnx`."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..tracing import VERSION
from ..tracing.batch import SIZES, unify
from ..tracing.merge import Static, check_loss
from ..captured import Captured
from ..errors import UsageError
from ..program import Program
from ..tracing.lower.builder import Operand
from .check import check as check_program
from .convert import Conversion
from .file import OnnxModel, load
from .gradients import add_zero_losses
from .inputs import Inputs
from .loss import LossOf
from .package import onnx
from .weights import Weights
from .write import to_onnx

__all__ = ["from_onnx", "to_onnx"]


def from_onnx(source: Any, loss: Any, *, output: str | None = None,
              shapes: Mapping[str, Sequence[int]] | None = None, frozen: Sequence[str] = (),
              example_targets: Any = None, name: str = "", check: bool = True) -> Captured:
    """Reads an ONNX model of the opsets 13 to 20 as a captured model, which `easyscale.Job` takes.

    source: the path of a file, its bytes, or an onnx.ModelProto.
    loss: "cross_entropy", "nll", "mse", "l1", "smooth_l1", "huber", "bce", "bce_with_logits" or
    "kl_div"; a module or function of torch (outputs, targets) -> number; or the name of an output
    that is the loss already. The target is the input `label`.
    output: the output that the loss gets, if the file has several.
    shapes: the extents of one sample by the name of an input, where the file has symbolic ones.
    frozen: shell patterns of the names of weights that are not trained.
    example_targets: targets [samples, ...], as for `easyscale.capture`, where their shape does not
    follow from the loss.
    check: compares the program with onnx.reference on random inputs.

    The first axis of every input is the sample. A file that has a number there is converted for any
    number of samples. Dropouts and batch norms have their meaning in training, whatever the mode in
    which the file was exported. Raises CaptureError, and UsageError if an argument is wrong.
    """
    model = load(source)
    reading = _Reading(model, Inputs(model, shapes or {}), Weights(model, frozen),
                       LossOf(loss, output, model.outputs, example_targets))
    small, large = (reading.at(count) for count in SIZES)
    stem = Path(source).stem if isinstance(source, (str, Path)) else model.proto.graph.name
    program = unify(small, large, reading.weights, name or stem,
                    f"easyscale {VERSION}, onnx {onnx.__version__}")
    if check:
        check_program(program, model, reading.weights, reading.inputs.fixed or SIZES[0],
                      reading.loss.ready)
    add_zero_losses(program, model.operations, reading.values, reading.read_by(program))
    names = [p.name for p in program.parameters] + [s.name for s in program.statistics]
    return Captured(program, reading.weights.arrays(names))


class _Reading:
    """A model with all that decides its program."""

    def __init__(self, model: OnnxModel, inputs: Inputs, weights: Weights, loss: LossOf):
        self.model, self.inputs, self.weights, self.loss = model, inputs, weights, loss
        self.values: Mapping[str, Operand] = {}

    def at(self, count: int) -> Static:
        """The program for `count` samples."""
        conversion = Conversion(self.model, self.weights, self.inputs, count)
        conversion.run()
        builder, values = conversion.builder, conversion.values
        self.values = values
        added = self.loss.add(builder, values, count)
        self.weights.buffers = added.buffers
        _check_names(conversion.inputs, added.inputs)
        trainable = [conversion.parameters[tied.names[0]]
                     for tied in self.weights.parameters.values() if tied.tensor.requires_grad]
        check_loss(builder, added.loss, trainable)
        outputs = [(name, builder.value(values[name])) for name in self.loss.outputs]
        return Static(builder, conversion.inputs | added.inputs, conversion.parameters,
                      added.loss, outputs)


    def read_by(self, program: Program) -> list[str]:
        """The names of the outputs that the loss reads."""
        if self.loss.ready:
            return [self.loss.ready]
        reached = program.reached()
        return [output.name for output in program.outputs if output.value in reached]


def _check_names(inputs: Mapping[str, Any], targets: Mapping[str, Any]) -> None:
    for name in targets:
        if name in inputs:
            raise UsageError(f"the model has an input {name!r}, which is also the name of a "
                             "target: give a function as the loss and example_targets={NAME: "
                             "...}, the dict that it gets as its second argument")
