"""A training job from a PyTorch model, or from a model that was captured before."""
from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .allowed import Allowed
from .captured import Captured
from .client import Client
from .clipping import clipped
from .data import Arrays, Bucketed, Table
from .data.array_samples import FIRST_SAMPLES
from .decisions import EarlyStopping, check_decisions
from .errors import EasyScaleError, NotFoundError, RefusedError, UsageError
from .fields import bind_fields
from .folders import TemporaryFolder
from .job_text import stages_text, toml_text
from .lora import Lora
from .losses import Loss, checked_losses, names_of, turns_of
from .metrics import Function, Measure, named
from .model_file import check_by_engine, explained, pack
from .optimizers import CAPTURED, Optimizer, check_average, class_name, is_average
from .private_head import PrivateHead
from .program import FORMAT_WITH_REDUCTIONS, FORMAT_WITH_UPDATES
from .progress import counting
from .programs import find_easyscaled, find_esctl
from .run import RemoteJob, Run, checkpoint_of, checkpoint_step
from .schedules import Schedule, is_plateau, read_rules
from .settings import checked
from .trackers import tracked, tracker_options

WEIGHTS_FILE = "sample_weights.npy"
GROUPS_FILE = "sample_groups.npy"
ONLY_LAST = 10**12  # [checkpoint] every_steps: a checkpoint of the last step alone


class Job:
    """A model with its loss, data and settings. Constructing it captures the model.

    model: a torch.nn.Module with fp32 parameters, whose weights now are the initial weights; or
    what `easyscale.from_onnx` or `easyscale.capture` has returned, which has a loss already.
    loss: a module or function (outputs, target) -> number; None if the model has or returns its
    loss.
    losses: a list of easyscale.Loss in place of loss, optimizer and schedule, each with an optimizer of
    its own, as in a GAN. One iteration takes the next mini-batches, and each loss whose turn it is makes
    a step with them, in the order of the list. The first one is what evaluations compute.
    data, eval_data: what `easyscale.data.arrays`, `table`, `dataset` or `bucketed` returns; or data
    alone, from `easyscale.data.tokens`, `texts`, `images` or `webdataset`.
    batch_size: the samples of one EST in a global step; a global step has max_p * batch_size.
    max_p: the number of ESTs (logical workers), and the largest number of devices.
    steps, epochs: the length of the training in global steps or passes over the data; one of them.
    With losses, steps counts iterations, as the loop over a loader does. Each step of a loss is a global
    step of its own, and these are what stages, eval_every, checkpoint_every and the history count.
    level: on which devices the bits are equal: "D0", "D1", "D2" (any mix of types) or "auto".
    optimizer: an optimizer of torch over all trainable parameters, also those of a loss that is a
    module; or an Optimizer. SGD, Adam and AdamW are the engine's own; others are captured, also
    classes that are derived from torch.optim.Optimizer. A list has several, with each parameter in one
    of them, which make a step each for every gradient, in this order. Their states and those of the
    schedule are what the job begins with.
    schedule: a torch scheduler that depends on nothing but the number of its steps, or a Schedule; or
    ReduceLROnPlateau, which then looks at every evaluation: at the loss, or with mode="max" at the
    first of `metrics`.
    With an optimizer that is captured it must be a torch scheduler, or a list of several.
    schedule_unit: "step" if the scheduler would be called after every global step, "epoch" if after
    every pass over the data.
    metrics: names of metrics that compare the first output with the target: "accuracy", "top5" (any
    number), "f1", "f1_binary", "auc", "map", "mse", "mae"; the mean loss is always there.
    metric: a function (outputs, labels) -> number, or a dict of numbers, with NumPy arrays of all
    evaluation samples. It is called here for the checkpoints of the job, with what `esctl predict`
    computes of them. `run` alone calls it; it needs eval_data of es.data.arrays or table.
    sample_weights: a weight for each training sample; an epoch then draws samples with
    replacement, in proportion to their weights.
    sample_groups: an integer key for each training sample; an epoch then uses one sample of each
    key, and all of them in turn. Not together with sample_weights.
    eval_every: global steps between evaluations; 0 is only the one at the end.
    stop: EarlyStopping(...), by which an evaluation may end the job; None for all its steps.
    keep_best: a metric; the checkpoint of the step with its best value is kept, too, as `Run.best`.
    checkpoint_every: global steps between checkpoints; 0 is only the one of the last step.
    recompute: what is not kept for the backward pass but computed again, which saves memory:
    "captured" (what the model passes to torch.utils.checkpoint), "blocks" (parts that are chosen
    for the least memory) or "none". It does not change the bits.
    precision: "fp32", or "bf16", which stores activations and the weights that products read as
    bf16 and needs about half the memory for them. Sums, parameters and moments are fp32. It changes
    the bits; those of one precision are equal on all devices.
    arithmetic: of linear layers and matrix products: "fp32", or exact sums of integers of 15 bits
    ("x15", about as accurate as TF32) or 22 bits ("x22", about as accurate as fp32), which any unit of
    a processor may add in any order. It changes the bits; those of one arithmetic are equal on all
    devices.
    shard_state: "on" divides the state of the optimizer among the workers, each part of it on two of
    them, which takes less memory; "off" keeps all of it on every worker; "auto" divides it if it would
    not fit into the memory of the devices otherwise. It does not change the bits.
    threads: compute threads of a CPU device.
    clip_norm: the largest norm of the whole gradient; 0 for no clipping. Or a list, with a limit for each of
    several optimizers or for each group of the only one; or a dict of names to limits, such as
    {"encoder.*": 1.0, "*": 5.0}, by the first of which a parameter is clipped. Each limit is that of the
    norm of its own parameters together.
    clip_value: the largest element of the gradient, as of clip_grad_value_ of torch, after clip_norm; 0
    for no clipping. The optimizer, which must be one of torch, is then captured.
    ema: decay of a moving average of the parameters, which evaluations use; 0 for none. Or a new
    torch.optim.swa_utils.AveragedModel of the model, whose rule averages them after every step; the
    optimizer, which must be one of torch, is then captured.
    lora: Lora(...), which adds adapters to linear layers and trains only these; None for none.
    directory: a new folder for the files of the job; None is a temporary one, which is removed
    when the Job and its Runs are gone.
    allow_functions: the autograd.Function classes that are captured by their forward.

    Raises CaptureError if the model cannot be captured, and UsageError if a setting is wrong.
    """

    def __init__(self, model: Any, *, data: Arrays, optimizer: Any = None, loss: Any = None,
                 losses: Sequence[Loss] | None = None,
                 eval_data: Arrays | None = None, batch_size: int = 32, max_p: int = 4,
                 epochs: int | None = None, steps: int | None = None, level: str = "D2",
                 recompute: str = "captured", precision: str = "fp32",
                 arithmetic: str = "fp32",
                 schedule: Any = None, schedule_unit: str = "step", metrics: Sequence[str] = (),
                 metric: Function | None = None, sample_weights: Any = None,
                 sample_groups: Any = None, seed: int = 1,
                 name: str | None = None, eval_every: int = 0, stop: EarlyStopping | None = None,
                 keep_best: str | None = None, checkpoint_every: int = 0, shard_state: str = "auto",
                 threads: int = 1, clip_norm: Any = 0.0, clip_value: float = 0.0,
                 ema: Any = 0.0, lora: Lora | None = None, directory: str | Path | None = None,
                 allow_functions: tuple[type, ...] = ()):
        _check_kinds(model=model, loss=loss, data=data, name=name, metrics=metrics, metric=metric,
                     lora=lora, directory=directory, allow_functions=allow_functions)
        top = {key: checked(key, value) for key, value in {
            "max_p": max_p, "batch_size": batch_size, "seed": seed, "level": level,
            "eval_every": eval_every, "recompute": recompute, "precision": precision,
            "arithmetic": arithmetic}.items()}
        self._threads = checked("resources.threads", threads)
        every = checked("checkpoint.every_steps", checkpoint_every, "checkpoint_every")
        self._shard_state = checked("shard.state", shard_state, "shard_state")
        average = ema if is_average(ema) else None
        ema = checked("optimizer.ema", 0.0 if average else ema)
        clip_value = checked("optimizer.clip_norm", clip_value, "clip_value")
        if average is not None:
            check_average(average, model)
        for setting, given in (("clip_value", clip_value), ("ema with an AveragedModel", average)):
            if given and isinstance(optimizer, Optimizer):
                raise UsageError(f"{setting}: allowed with an optimizer of torch, which is captured then")
        is_captured = isinstance(model, Captured)
        _check_one_way(is_captured, losses, loss=loss, optimizer=optimizer, schedule=schedule,
                       ema=ema if average is None else average, lora=lora)
        self.name = _job_name(name or (model.program.name if is_captured else type(model).__name__))
        self._order = _order(sample_weights, sample_groups, data.samples)
        if isinstance(data, Bucketed) and (self._order or lora is not None or losses is not None):
            raise UsageError("data is in length buckets: allowed is neither sample_weights nor "
                             "sample_groups nor lora nor losses with them")
        in_epoch = _steps_of_epoch(data, self._order, top["max_p"] * top["batch_size"])
        self.steps = _steps(in_epoch, steps, epochs)
        unit = _unit(schedule_unit, in_epoch)
        turns: list[int] = []
        self._loss_of_step: list[str] = []
        if losses is not None:
            losses = checked_losses(losses, _parameters(model, None) or [], in_epoch, schedule_unit)
            turns = turns_of(losses, self.steps)
            names = names_of(losses)
            self._loss_of_step = [names[loss] for loss in turns]
            self.steps = len(turns)
            rule = _rule_of_losses(losses, _parameters(model, None) or [], turns, unit)
            self._schedule = Schedule()
        else:
            rule, self._schedule = read_rules(optimizer, schedule, _parameters(model, loss), self.steps,
                                              unit, captured=clip_value > 0 or average is not None,
                                              metrics=metrics)
        check_decisions(self._schedule, stop, keep_best, eval_every=top["eval_every"], data=data,
                        eval_data=eval_data, metrics=named(metrics), metric=metric)
        self._stop, self._keep_best = stop, keep_best
        self._optimizer = clipped(replace(rule, ema=ema or rule.ema), clip_norm, optimizer, losses,
                                  None if lora else _parameters(model, loss, all_names=True))
        self._lora = lora
        if rule.kind == CAPTURED and lora is not None:
            raise UsageError(f"lora: allowed with sgd, adam and adamw; {class_name(optimizer)} is "
                             "captured for the parameters that the model has without adapters")
        self._top = {"name": self.name, "steps": self.steps, **top, "metrics": named(metrics)}
        self._metric = metric
        self._checkpoint_every = every or ONLY_LAST
        self._data, self._eval_data = data, eval_data
        self._place = None if directory is None else Path(directory).resolve()
        self._path: Path | None = None  # the folder of the files, after they were written
        self._files: TemporaryFolder | None = None  # holds it; runs that need it hold it too
        self.interrupted: Run | None = None  # what Ctrl-C has left of the last run()
        if is_captured:
            self._take(model, loss, allow_functions)
        else:
            self._capture(model, loss, losses, allow_functions)
        if losses is not None:
            self._capture_losses(losses, turns, unit, _parameters(model, None) or [], clip_value)
        elif rule.kind == CAPTURED:
            self._capture_optimizer(optimizer, schedule, unit or 1, _parameters(model, loss) or [],
                                    clip_value, average)
        self._start = None
        if losses is not None:
            self._start = self._remember_losses(losses, turns, unit, _parameters(model, None) or [])
        elif lora is None and not isinstance(optimizer, Optimizer) and not is_plateau(schedule):
            self._start = self._remember(optimizer, schedule, unit or 1, _parameters(model, loss) or [])
        self._bind()
        self._check_metric()
        check_by_engine(self.captured.program, self._top["batch_size"])

    def run(self, stages: str | None = None, devices: str | None = None,
            progress: bool = True, loaders: int = 1,
            from_checkpoint: Run | str | PathLike[str] | None = None,
            tensorboard: str | PathLike[str] | None = None, mlflow: str | None = None,
            experiment: str | None = None) -> Run:
        """Trains on this machine, with a daemon of its own, and returns the run.

        stages: "cpu-avx512:4@20,cpu-avx2:2" is 20 steps on four devices and the rest on two.
        devices: one placement for all steps. Without both the scheduler decides.
        progress: shows a line of progress on a terminal or in a notebook.
        loaders: threads of each device that load mini-batches, and processes that compute the
        samples of a dataset.
        from_checkpoint: a Run, or the folder of a checkpoint, with which the job continues: step n
        of it was made already, and the first one here is step n + 1. The bits are those of a run
        that was never interrupted, if the fields that decide them are the same. `stages` and
        `devices` are for the steps that are left.
        tensorboard: a directory, in whose folder JOB an event file has all losses and evaluations.
        mlflow, experiment: the address of an MLflow server, which gets them as a run with the
        fields of the job, and the name of the experiment.

        Ctrl-C stops the job after its current step; `interrupted` is then the run, with its
        weights. Raises FailedError if the job fails.
        """
        trackers = tracker_options(tensorboard, mlflow, experiment)
        find_easyscaled()
        start = None if from_checkpoint is None else checkpoint_of(from_checkpoint)
        file = self._write_job(stages_text(stages, devices, self._steps_left(start)))
        self.interrupted = None
        with PrivateHead(loaders) as head:
            client = Client(head.endpoint)
            client.watch = head.check
            job = self._submit(client, file, start)
            with tracked(job.id, trackers, client.options):
                try:
                    return job.wait(progress, self._measure())
                except KeyboardInterrupt:
                    self._keep_interrupted(job)
                    raise

    def submit(self, head: str | None = None, keys: str | Path | None = None,
               stages: str | None = None, insecure_loopback: bool = False,
               from_checkpoint: Run | str | PathLike[str] | None = None) -> RemoteJob:
        """Submits the job to a head and returns without waiting for it.

        The Job needs a `directory` that the head and all nodes find under the same path.
        head, keys: the endpoint, and the directory of CURVE keys for tcp; see Client.
        from_checkpoint: as for `run`, of a folder that the nodes find too.
        """
        if self._metric is not None:
            raise UsageError("metric: allowed with run, which calls the function; a head does not")
        if self._place is None:
            raise UsageError("submit needs Job(directory=...), a new folder that the head and all "
                             "nodes find under the same path")
        start = None if from_checkpoint is None else checkpoint_of(from_checkpoint)
        placements = stages_text(stages, None, self._steps_left(start))
        client = Client(head, keys, insecure_loopback)
        client.nodes()
        is_new = self._path is None
        try:
            return self._submit(client, self._write_job(placements), start)
        except (NotFoundError, RefusedError, UsageError):  # then the head has no job that reads them
            if is_new and self._path is not None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._path = self._files = None
            raise

    def write(self, stages: str | None = None) -> Path:
        """Writes model, weights, samples and job.toml into the folder of the job.

        Returns the path of job.toml, for `esctl run` and `esctl submit`. The Job needs a
        `directory` if the files are used after it is gone.
        """
        return self._write_job(stages_text(stages, None, self.steps))

    def toml(self, stages: str = "") -> str:
        """The text of the job file, whose paths are relative to the folder of the job."""
        top = self._top | ({"stages": stages} if stages else {})
        if not top["metrics"]:
            del top["metrics"]
        return toml_text(top, {
            "model": {"file": "model.esmodel", "weights": "weights.safetensors"},
            "lora": self._lora.table() if self._lora else {},
            "data": self._data.table(self._eval_data)
                    | {key: file for key, (file, _) in self._order.items()},
            "optimizer": _optimizer_table(self._optimizer),
            "schedule": self._schedule.table(),
            "resources": {"threads": self._threads},
            "shard": {"state": self._shard_state} if self._shard_state != "auto" else {},
            "checkpoint": {"every_steps": self._checkpoint_every, "directory": "checkpoints"}
                          | ({"keep_best": self._keep_best} if self._keep_best else {}),
            "stop": asdict(self._stop) if self._stop else {}})

    def _capture(self, model: Any, loss: Any, losses: Sequence[Loss] | None,
                 allow_functions: tuple[type, ...]) -> None:
        from .binding import Binding, bind, bind_batch
        from .tracing import capture
        from .tracing.errors import CaptureError
        from .tracing.length_buckets import joined
        from .tracing.losses import capture_losses

        def captured(bound: Binding) -> Captured:
            return capture(model, loss, bound.inputs, bound.targets, name=self.name,
                           allow_functions=allow_functions, batch_size=self._top["batch_size"])
        bound = bind(model, loss is not None, self._data) if losses is None else bind_batch(self._data)
        self._data.check_numbers()
        try:
            if losses is not None:
                self.captured = capture_losses(model, losses, bound.inputs, self.name, allow_functions,
                                               self._top["batch_size"])
            elif isinstance(self._data, Bucketed):
                self.captured = joined(
                    (size, partial(captured, bind(model, loss is not None, self._data, head)))
                    for size, head in self._data.heads(FIRST_SAMPLES))
            else:
                self.captured = captured(bound)
        except (CaptureError, UsageError):
            raise
        except Exception as error:
            raise UsageError("the model and its loss fail on the first samples of data: "
                             f"{type(error).__name__}: {error}") from error
        self._keys = {x.name: bound.keys[x.name] for x in self.captured.program.inputs}

    def _capture_optimizer(self, optimizer: Any, schedule: Any, every: int,
                           parameters: list[tuple[str, Any]], clip_value: float,
                           average: Any) -> None:
        """Adds what the steps of an optimizer do to the model."""
        from .tracing.updates import capture_updates
        program, tensors = self.captured.program, dict(parameters)
        trained = [(x.name, tensors[x.name]) for x in program.parameters if x.trainable]
        with counting("the optimizer is captured: step") as report:
            found = capture_updates(optimizer, trained, self.steps, schedule, every, report=report,
                                    clip_value=clip_value, average=average,
                                    lowered=self._schedule.reductions(self.steps, self._top["eval_every"]))
        program.numbers, program.updates = found.numbers, found.updates
        self.captured.weights |= {f"optimizer/{name}": array for name, array in found.states.items()}
        needed = FORMAT_WITH_REDUCTIONS if any(x.reductions for x in found.numbers) else FORMAT_WITH_UPDATES
        program.format = max(program.format, needed)

    def _capture_losses(self, losses: Sequence[Loss], turns: list[int], unit: int | None,
                        parameters: list[tuple[str, Any]], clip_value: float) -> None:
        """Adds what the steps of the optimizers do to the model."""
        from .tracing.losses import add_updates
        from .tracing.updates import capture_updates
        program, tensors = self.captured.program, dict(parameters)
        found = []
        for place, (loss, own) in enumerate(zip(losses, [program, *program.programs])):
            trained = [(x.name, tensors[x.name]) for x in own.parameters if x.trainable]
            with counting(f"the optimizer of losses[{place}] is captured: step") as report:
                found.append(capture_updates(loss.optimizer, trained, turns.count(place), loss.schedule,
                                             _calls(unit, loss), report=report, clip_value=clip_value))
        states = add_updates(program, turns, found)
        self.captured.weights |= {f"optimizer/{name}": array for name, array in states.items()}

    def _remember_losses(self, losses: Sequence[Loss], turns: list[int], unit: int | None,
                         parameters: list[tuple[str, Any]]) -> Any:
        """What gives the states of the optimizers back to torch."""
        from .tracing.losses import Starts
        from .tracing.updates.restored import Start
        program = self.captured.program
        return Starts([Start(loss.optimizer, loss.schedule, _calls(unit, loss), parameters,
                             [x.name for x in own.parameters if x.trainable])
                       for loss, own in zip(losses, [program, *program.programs])], turns)

    def _remember(self, optimizer: Any, schedule: Any, every: int,
                  parameters: list[tuple[str, Any]]) -> Any:
        """What gives the state of the optimizer back to torch."""
        from .tracing.updates.restored import Start
        trained = [x.name for x in self.captured.program.parameters if x.trainable]
        return Start(optimizer, None if isinstance(schedule, Schedule) else schedule, every, parameters,
                     trained)

    def _take(self, captured: Captured, loss: Any, allow_functions: tuple[type, ...]) -> None:
        """A model that is captured already, whose inputs are arrays of the data."""
        if loss is not None or allow_functions:
            raise UsageError("loss and allow_functions: allowed for a torch module; the captured "
                             "model has a loss")
        if isinstance(self._data, Bucketed):
            raise UsageError("data is in length buckets: allowed for a torch module, which is captured at "
                             "the length of each bucket")
        self.captured = captured
        self._keys = bind_fields(captured.program, self._data)

    def _bind(self) -> None:
        program = self.captured.program
        self._allowed = {x.name: x.allowed or Allowed.between(x.low, x.high) for x in program.inputs
                         if program.values[x.value].type == "i32"}
        if self._eval_data is not None:
            self._data.check_eval(self._eval_data)
        self._data.check_inputs([x.name for x in program.inputs], self._keys)

    def _write_job(self, placements: str) -> Path:
        file = self._write() / "job.toml"
        file.write_text(self.toml(placements))
        return file

    def _steps_left(self, start: Path | None) -> int:
        if start is None:
            return self.steps
        done = checkpoint_step(start)
        if done >= self.steps:
            raise UsageError(f"from_checkpoint = {start} is of step {done}: allowed is one before "
                             f"step {self.steps}, the last of the job; give it more steps or "
                             "epochs")
        return self.steps - done

    def _submit(self, client: Client, file: Path, start: Path | None) -> RemoteJob:
        program = self.captured.program
        job = client.submit(file, from_checkpoint=start)
        return RemoteJob(client, job, self.captured.names(), self._files,
                         has_adapters=self._lora is not None,
                         explain=lambda error: explained(program, error), start=self._start,
                         losses=self._loss_of_step)

    def _write(self) -> Path:
        """Writes model, weights and samples once, and returns their folder."""
        if self._path is None:
            find_esctl()
            files = TemporaryFolder("job-") if self._place is None else None
            path = files.path if files else self._new_place()
            try:
                self._write_into(path)
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
            self._path, self._files = path, files
        return self._path

    def _new_place(self) -> Path:
        assert self._place is not None  # or the folder is temporary
        if self._place.exists() and (not self._place.is_dir() or any(self._place.iterdir())):
            raise RefusedError(f"directory = {self._place} exists: allowed is a new folder")
        self._place.mkdir(parents=True, exist_ok=True)
        return self._place

    def _write_into(self, folder: Path) -> None:
        self.captured.save(folder)
        model = folder / "model.json"
        pack(model, folder / "model.esmodel")
        model.unlink()
        self._data.write(folder / "data", self._eval_data, self._keys, self._allowed)
        (folder / "checkpoints").mkdir()
        for file, numbers in self._order.values():
            np.save(folder / file, numbers)

    def _check_metric(self) -> None:
        data = self._eval_data.source if isinstance(self._eval_data, Bucketed) else self._eval_data
        if self._metric is not None and type(data) not in (Arrays, Table):
            raise UsageError("metric: allowed for eval_data that es.data.arrays or es.data.table "
                             "has returned, or es.data.bucketed of such arrays")

    def _measure(self) -> Measure | None:
        if self._metric is None:
            return None
        return Measure(self._metric, self.captured.program, self._write() / "data" / "eval")

    def _keep_interrupted(self, job: RemoteJob) -> None:
        place = self._write() / "checkpoints" / f"{job.id}-interrupted"
        try:
            self.interrupted = job.stop(place)
        except EasyScaleError:
            self.interrupted = None  # the job had made no step or was already over


def _check_kinds(*, model: Any, loss: Any, data: Any, name: Any, metrics: Any, metric: Any,
                 lora: Any, directory: Any, allow_functions: Any) -> None:
    """Raises UsageError for the first argument that is no such thing at all."""
    is_module = not isinstance(model, type) and hasattr(model, "named_parameters")
    is_list = isinstance(metrics, Sequence) and not isinstance(metrics, str)
    rules = [
        ("model", model, is_module or isinstance(model, Captured),
         "a torch.nn.Module, or what easyscale.capture or easyscale.from_onnx has returned"),
        ("loss", loss, loss is None or (callable(loss) and not _is_module_class(loss)),
         "a function (outputs, target) -> number, a loss of torch.nn, or None"),
        ("data", data, isinstance(data, Arrays), "what a function of easyscale.data has returned"),
        ("name", name, name is None or isinstance(name, str), "a text"),
        ("metrics", metrics, is_list, "a list of names"),
        ("metric", metric, metric is None or callable(metric),
         "a function (outputs, labels) -> number"),
        ("lora", lora, lora is None or isinstance(lora, Lora), "easyscale.Lora"),
        ("directory", directory, directory is None or isinstance(directory, (str, PathLike)),
         "a path"),
        ("allow_functions", allow_functions, isinstance(allow_functions, (tuple, list)) and all(
            isinstance(function, type) for function in allow_functions),
         "a tuple of classes of torch.autograd.Function")]
    for argument, value, is_right, allowed in rules:
        if not is_right:
            what = (f"the class {value.__name__}" if isinstance(value, type)
                    else repr(value) if isinstance(value, (str, int, float))
                    else f"of the type {type(value).__name__}")
            raise UsageError(f"{argument} is {what}: allowed is {allowed}")


def _check_one_way(is_captured: bool, losses: Any, **others: Any) -> None:
    """Raises UsageError unless the job has either losses or an optimizer."""
    if losses is None:
        if others["optimizer"] is None:
            raise UsageError("optimizer: allowed is an optimizer of torch, a list of them, or "
                             "easyscale.Optimizer; or losses with their own ones")
        return
    if is_captured:
        raise UsageError("losses: allowed for a torch.nn.Module, not for a captured model")
    given = [name for name, value in others.items() if value is not None and value != 0]
    if given:
        raise UsageError(f"losses and {given[0]}: allowed is one of them")


def _rule_of_losses(losses: Sequence[Loss], parameters: list[tuple[str, Any]], turns: list[int],
                    unit: int | None) -> Optimizer:
    """What the job file says of the optimizers: that of the first one. All are captured."""
    rules = []
    for place, loss in enumerate(losses):
        own = {id(p) for p in loss.parameters()}
        calls = None if unit is None or loss.schedule is None else _calls(unit, loss)
        if is_plateau(loss.schedule):
            raise UsageError(f"losses[{place}]: schedule ReduceLROnPlateau: allowed are schedulers that depend on "
                             "the number of their steps alone")
        try:
            rules.append(read_rules(loss.optimizer, loss.schedule,
                                    [(name, p) for name, p in parameters if id(p) in own],
                                    turns.count(place), calls, captured=True)[0])
        except UsageError as error:
            raise UsageError(f"losses[{place}]: {error}") from None
    return rules[0]


def _calls(unit: int | None, loss: Loss) -> int:
    """The steps of a loss between two calls of its scheduler; `unit` are the iterations of an epoch."""
    return 1 if unit is None else max(1, unit // loss.every)


def _is_module_class(loss: Any) -> bool:
    return isinstance(loss, type) and hasattr(loss, "named_parameters")


def _job_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:64]


def _steps_of_epoch(data: Arrays, order: dict[str, tuple[str, np.ndarray]],
                    global_batch: int) -> int:
    if isinstance(data, Bucketed):
        return data.global_batches(global_batch)
    used, what = data.samples, "samples"
    if "groups" in order:
        used, what = len(np.unique(order["groups"][1])), "groups of samples"
    in_epoch = used // global_batch
    if in_epoch == 0:
        raise UsageError(f"data has {used} {what}: allowed is at least max_p * batch_size "
                         f"= {global_batch}, one global step")
    return in_epoch


def _steps(in_epoch: int, steps: int | None, epochs: int | None) -> int:
    if (steps is None) == (epochs is None):
        raise UsageError("steps and epochs: allowed is exactly one of them")
    key, length = ("epochs", epochs) if steps is None else ("steps", steps)
    length = checked(key, length)
    if length == 0:
        raise UsageError(f"{key} = 0: allowed is at least 1")
    return length * (in_epoch if key == "epochs" else 1)


def _unit(name: Any, in_epoch: int) -> int | None:
    """The global steps between two calls of a scheduler by epochs; None for one by steps."""
    if name not in ("step", "epoch"):
        raise UsageError(f"schedule_unit = {name!r}: allowed is one of step, epoch")
    return in_epoch if name == "epoch" else None


def _parameters(model: Any, loss: Any, all_names: bool = False) -> list[tuple[str, Any]] | None:
    """The parameters of the model and of a loss that is a module, with their names in the model file; or with
    all names of those that have several. None for a captured model."""
    if isinstance(model, Captured):
        return None
    parts = [("", model)] + ([("loss.", loss)] if hasattr(loss, "named_parameters") else [])
    return [(prefix + name, parameter) for prefix, part in parts
            for name, parameter in part.named_parameters(remove_duplicate=not all_names)]


def _optimizer_table(optimizer: Optimizer) -> dict[str, Any]:
    if optimizer.kind == CAPTURED:
        others = tuple(key for key in asdict(optimizer)
                       if key not in ("kind", "learning_rate", "clip_norm", "clip_groups", "ema"))
    else:
        others = ("beta1", "beta2", "epsilon") if optimizer.kind == "sgd" else ("momentum", "nesterov")
    return {key: value for key, value in asdict(optimizer).items()
            if key not in others and value != () and (key != "ema" or value)}


def _order(weights: Any, groups: Any, samples: int) -> dict[str, tuple[str, np.ndarray]]:
    """The fields of the job's data that decide the order of the samples: their files and contents.
    Raises UsageError."""
    order = {"weights": (WEIGHTS_FILE, _sample_weights(weights, samples)),
             "groups": (GROUPS_FILE, _sample_groups(groups, samples))}
    found = {key: (file, array) for key, (file, array) in order.items() if array is not None}
    if len(found) == 2:
        raise UsageError("sample_weights and sample_groups: allowed is one of them")
    return found


def _sample_groups(groups: Any, samples: int) -> np.ndarray | None:
    """The keys as they are stored: integers of 64 bits. Raises UsageError."""
    if groups is None:
        return None
    array = np.asarray(groups)
    if array.shape != (samples,) or array.dtype.kind not in "iu":
        raise UsageError(f"sample_groups has the shape {array.shape} and elements of the type "
                         f"{array.dtype}: allowed are {samples} integers, one for each sample of data")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise UsageError("sample_groups: allowed are integers below 2^63")
    return array.astype(np.int64)


def _sample_weights(weights: Any, samples: int) -> np.ndarray | None:
    """The weights as they are stored: numbers of 64 bits. Raises UsageError."""
    if weights is None:
        return None
    array = np.asarray(weights)
    if array.shape != (samples,) or array.dtype.kind not in "fiu":
        raise UsageError(f"sample_weights has the shape {array.shape} and elements of the type "
                         f"{array.dtype}: allowed are {samples} numbers, one for each sample of data")
    wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    if not (np.isfinite(wide).all() and (wide >= 0).all() and (wide > 0).any()):
        raise UsageError("sample_weights: allowed are finite numbers from 0 on, not all 0")
    return wide
