"""Captures a PyTorch module with its loss as a model file. The only part that imports torch."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..captured import Captured
from ..program import Program
from .batch import ADVICE, OTHER_SIZES, SIZES, check_same, unify
from .check import KeptStates, check_evaluation, check_no_state, check_training, has_gradients
from .check import differs, loss_alone, moved_weights
from .errors import BatchTraced, CaptureError, ExportFailed, SelfCheckFailed
from .first_difference import first_difference
from .graph import Graph, refs
from .known import STATISTICS
from .merge import Static, lower_both, simplify
from .patches import refuse_cumulative_averages, refuse_hooks, tracing, unchanged
from .ranks import loss_among_ranks, refuse_other, refuse_synchronised_norms
from .reader import read
from .state import State, plain_name
from .step import Loss, LossStep, Step, argument_names, name_fields, with_samples

VERSION = "0.1"
BATCH_SIZE = 8  # where none is given: an even number, because SIZES are odd


def capture(model: nn.Module, loss: Loss, example_inputs: Any, example_targets: Any = None,
            name: str = "", allow_functions: tuple[type, ...] = (),
            check: bool = True, batch_size: int = BATCH_SIZE) -> Captured:
    """Captures a model with its loss.

    `example_inputs` is a tensor [samples, ...], a tuple of them, or a dict of keyword arguments;
    `example_targets` is what the loss gets as its second argument. `loss` is a module or a function
    (outputs, targets) -> number; None means that the model returns its loss. The number of samples
    may be any, but a model that computes something else for `batch_size` samples than for few is
    refused. A torch.autograd.Function in `allow_functions` is captured by its forward. `check` runs
    the captured program beside the module, and refuses one that differs.

    The module is traced in training and in evaluation, and is left as it was. Raises CaptureError.
    """
    _refuse_wrapped(model)
    fields = _Sample.of(model, example_inputs, example_targets)
    step = Step(model, loss, fields.inputs, fields.targets)
    return _captured(step, fields.tensors, allow_functions, batch_size, name, check)[0]


def capture_loss(model: nn.Module, function: Callable[[Any, Any], Any], batch: Any, name: str,
                 allow_functions: tuple[type, ...], batch_size: int) -> tuple[Captured, set[str]]:
    """Captures a function (model, batch) -> loss of several ones, with an example of `batch`. Returns the
    names of the buffers that it reads, too."""
    _refuse_wrapped(model)
    fields, tensors = name_fields(batch, [], "input")
    return _captured(LossStep(model, function, fields), tensors, allow_functions, batch_size, name, True)


def _captured(step: Step, tensors: dict[str, torch.Tensor], allow_functions: tuple[type, ...],
              batch_size: int, name: str, check: bool) -> tuple[Captured, set[str]]:
    model = step.model
    modes = {module: module.training for module in model.modules()}
    try:
        training = _training_modes(model, modes)
        refuse_synchronised_norms(model, training)
        with torch.compiler.set_stance("force_eager"):
            capture = _Capture(step, tensors, allow_functions, training, batch_size)
            return capture.run(name or type(model).__name__, check), capture.read
    finally:
        model.train(modes[model])
        _set_modes(modes)


def _refuse_wrapped(model: nn.Module) -> None:
    """Raises CaptureError for what other tracers have made of a module."""
    if hasattr(model, "_orig_mod"):
        raise CaptureError("the model is compiled by torch.compile: pass the module that was "
                           "compiled, which is model._orig_mod")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise CaptureError("the model is wrapped by DistributedDataParallel: pass the module inside of "
                           "it, which is model.module; a job has its own ranks")
    if isinstance(model, torch.jit.ScriptModule):
        raise CaptureError("the model is a TorchScript module: pass the torch.nn.Module that it was "
                           "made of")


def _training_modes(model: nn.Module, modes: dict[nn.Module, bool]) -> dict[nn.Module, bool]:
    """The modes of a training. A module is in evaluation if its user has put it there, or if a
    `train` of the model's own does it, as one that freezes batch norms. A model that is in evaluation
    as a whole is put into training."""
    model.train()
    return {module: module.training and (was or not modes[model]) for module, was in modes.items()}


def _set_modes(modes: dict[nn.Module, bool]) -> None:
    for module, training in modes.items():
        module.training = training


@dataclass
class _Sample:
    inputs: Any
    targets: Any
    tensors: dict[str, torch.Tensor]

    @staticmethod
    def of(model: nn.Module, inputs: Any, targets: Any) -> _Sample:
        fields, tensors = name_fields(inputs, argument_names(model), "input")
        if targets is None:
            return _Sample(fields, None, tensors)
        more, labels = name_fields(targets, [], "label")
        return _Sample(fields, more, tensors | labels)


class _Capture:
    """One capture: traces, lowers, checks."""

    def __init__(self, step: Step, tensors: dict[str, torch.Tensor], allowed: tuple[type, ...],
                 modes: dict[nn.Module, bool], batch_size: int):
        self.step, self.tensors, self.allowed = step, tensors, allowed
        self.state = State(step)
        self.modes = modes  # of a training
        self.batch_size = batch_size
        self.states: set[str] = set()  # what training writes, by full names
        self.read: set[str] = set()  # the buffers that are read
        self.among_ranks: Any = None  # _other_loss() as that of one rank of several

    def run(self, name: str, check: bool) -> Captured:
        self.among_ranks = self._loss_among_ranks()
        try:
            program = self._checked(name, SIZES, check)
        except BatchTraced as error:
            # A number of the model may happen to be the number of samples. A forward pass that
            # depends on that number fails the check, which has another one.
            if not check:
                raise
            try:
                program = self._checked(name, OTHER_SIZES, check)
            except CaptureError:
                raise error from None
        names = [x.name for x in (*program.parameters, *program.statistics, *program.states)]
        tensors = self.state.tensors()
        return Captured(program, {n: tensors[n].detach().cpu().numpy().copy() for n in names},
                        self.state.complex_parameters())

    def _checked(self, name: str, sizes: tuple[int, int], check: bool) -> Program:
        """The program, lowered at `sizes` samples and compared with SIZES[0] of them."""
        try:
            small = self._lower(sizes[0], evaluate=True)
            large = self._lower(sizes[1], evaluate=small.evaluation_differs)
        except ExportFailed as error:
            raise self._about_samples(error, sizes) from error
        producer = f"easyscale {VERSION}, torch {torch.__version__}"
        program = unify(small, large, self.state, name, producer, sizes)
        if check:
            self._check_batch_size(program, small, *sizes)
            self._check(program, small, sizes[0])
        self._add_zero_losses(program)
        return program

    def _add_zero_losses(self, program: Program) -> None:
        """Adds terms for the parameters that no node shows the loss to depend on, but to which torch
        gives a gradient of zeros, which its optimizers treat unlike none."""
        reached = program.reached()
        rest = [x for x in program.parameters if x.trainable and x.value not in reached]
        if rest:
            with self._unchanged(training=True):
                found = has_gradients(self.step, self.state, with_samples(self.tensors, SIZES[0]))
            program.zero_losses(x.value for x in rest if x.name in found)

    def _check_batch_size(self, program: Program, small: Static, size: int,
                          other_size: int) -> None:
        """Raises BatchTraced if the program is another one for the mini-batches of the job. Those of
        one sample are not looked at, because that number is special to torch."""
        count = self.batch_size
        if count in (1, size):
            return
        evaluate = small.evaluation_differs

        def of(static: Static, other: Static, sizes: tuple[int, int]) -> Program:
            return unify(static, other, self.state, program.name, program.producer, sizes)
        try:
            check_same(program, of(small, self._lower(count, evaluate), (size, count)))
        except BatchTraced as error:
            # A constant of the model may be equal to one that has the number of samples.
            first, second, third = (self._lower(n, evaluate, distinct=True)
                                    for n in (size, other_size, count))
            try:
                check_same(of(first, second, (size, other_size)), of(first, third, (size, count)))
            except BatchTraced:
                raise BatchTraced(f"with the batch_size {count}: {error}") from None

    def _about_samples(self, error: ExportFailed, sizes: tuple[int, int]) -> CaptureError:
        """Says that the number of samples is the reason, if the module runs with another one."""
        example = len(next(iter(self.tensors.values())))
        failures = {count: self._failure(count)
                    for count in dict.fromkeys((example, self.batch_size, *sizes))}
        works = {count: failure is None for count, failure in failures.items()}
        if all(works.values()):
            return error
        if not any(works.values()):
            own = failures[example]
            return ExportFailed(f"{error}; the model and its loss fail on the example themselves, with "
                                f"{type(own).__name__}: {own}")
        good = ", ".join(str(count) for count in works if works[count])
        bad = ", ".join(str(count) for count in works if not works[count])
        return BatchTraced(f"{error}; the forward pass runs with {good} samples and not with {bad}, "
                           f"so it has their number as a constant: {ADVICE}")

    def _failure(self, count: int) -> Exception | None:
        """What the module itself raises for a number of samples."""
        try:
            with self._unchanged(training=True), torch.no_grad():
                self.step(*with_samples(self.tensors, count).values())
        except Exception as error:  # torch has no common class for what it raises here
            return error
        return None

    def _lower(self, count: int, evaluate: bool, distinct: bool = False) -> Static:
        """The program for `count` samples, whose contents are not read; evaluation is traced where it
        may have own nodes. `distinct`: as for `lower_both`."""
        tensors = {name: x.new_empty((count, *x.shape[1:]))
                   for name, x in with_samples(self.tensors, 1).items()}
        train = self._trace(tensors, training=True)
        evaluation = self._trace(tensors, training=False) if evaluate else None
        return lower_both(train, evaluation, self.state, self.step.outputs.names, distinct)

    def _trace(self, tensors: dict[str, torch.Tensor], training: bool) -> Graph:
        while True:
            with self._unchanged(training), tracing(self.step, self.allowed, self.states):
                refuse_hooks(self.step)
                refuse_cumulative_averages(self.step.model)
                graph = read(self.step, list(tensors.values()), list(tensors))
            used = {value for node in graph.nodes for value in refs(node.args)}
            self.read |= {plain_name(name) for value, name in graph.buffers.items() if value in used}
            graph = simplify(graph, self.state, training,
                             {plain_name(name) for name in self.states})
            written = {name for name in self.state.full_names()
                       if training and plain_name(name) in graph.written.values()}
            if written <= self.states:
                return graph
            # The trace may have used the contents of these buffers, which change: it is made again.
            self.states |= written

    def _statistics(self, program: Program) -> set[str]:
        """The running statistics: those of the program, and of all batch norms of torch, which also
        count their mini-batches."""
        norms = [path for path, module in self.step.named_modules()
                 if isinstance(module, nn.modules.batchnorm._NormBase)]
        return {s.name for s in program.statistics} | {
            plain_name(f"{path}.{name}") for path in norms for name in STATISTICS}

    def _set_mode(self, training: bool) -> None:
        self.step.with_loss = training
        _set_modes(self.modes if training else dict.fromkeys(self.modes, False))

    def _check(self, program: Program, static: Static, size: int) -> None:
        """Compares the program with the module; `static` is that of `size` samples."""
        tensors, others = with_samples(self.tensors, SIZES[0]), self._others()
        loss = self._other_loss()
        refuse_other(self.among_ranks, lambda found: differs(found, loss))
        with self._unchanged(training=True):
            check_no_state(self.step, self.state, tensors, others, loss, self._statistics(program),
                           {state.name for state in program.states})
        with self._unchanged(training=True):
            try:
                check_training(program, self.step, self.state, tensors, static.builder.mirrored)
            except SelfCheckFailed as error:
                samples = with_samples(self.tensors, size)
                raise SelfCheckFailed(
                    f"{error}; {first_difference(static, self.state, samples)}") from None
        with self._unchanged(training=False):
            check_evaluation(program, self.step, self.state, tensors,
                             static.builder.evaluation_sites)

    def _others(self) -> dict[str, torch.Tensor]:
        """Other samples than those of the check."""
        return with_samples({name: x.flip(0) for name, x in self.tensors.items()}, SIZES[0])

    def _loss_among_ranks(self) -> Any:
        """Which buffers training writes is not known yet, so all of them are kept."""
        tensors = [*self.step.named_buffers(),
                   *((n, p) for n, p in self.step.named_parameters() if not p.requires_grad)]
        kept = KeptStates(self.step, {plain_name(name) for name, _ in tensors})
        try:
            return loss_among_ranks(self._other_loss)
        finally:
            kept.restore()

    def _other_loss(self) -> torch.Tensor:
        """The loss of other samples, with moved weights."""
        with self._unchanged(training=True), moved_weights(self.state):
            return loss_alone(self.step, self._others())

    @contextlib.contextmanager
    def _unchanged(self, training: bool) -> Iterator[None]:
        """Puts the model into a mode, and keeps its state and that of its loss as they are."""
        with contextlib.ExitStack() as stack:
            kept = KeptStates(self.step, {plain_name(name) for name in self.states})
            stack.callback(kept.restore)
            for name, part in self.step.named_children():
                stack.enter_context(unchanged(part, f"the {name}"))
            self._set_mode(training)
            yield
