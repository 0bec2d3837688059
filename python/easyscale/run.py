"""The result of a job: history, digests and weights."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .captured import ModuleNames
from .client import Client
from .errors import FailedError, NotFoundError, UsageError
from .folders import TemporaryFolder
from .history import StepRecord, loss_curve, records, with_values
from .metrics import Measure
from .programs import run_json
from .progress import Progress

LOSS_PREFIX = "loss."  # of the parameters of a loss that is a module
PEFT_PREFIX = "base_model.model."  # of the names that peft gives to tensors


class Run:
    """A job that has ended, with everything that its head knew about it.

    In a notebook a Run is displayed as its loss curve.
    """

    def __init__(self, view: dict[str, Any], history: list[StepRecord], checkpoint: str | None,
                 names: ModuleNames, files: Any, has_adapters: bool = False, start: Any = None):
        self.view = view  # Client.describe() at the end of the job
        self.history = history  # one StepRecord for each global step
        self.checkpoint = Path(checkpoint) if checkpoint else None  # of the last step
        self._names = names
        self._files = files  # keeps a temporary folder with the checkpoint while this object lives
        self._weights: dict[bool, dict[str, np.ndarray]] = {}  # by whether they are averages
        self._has_adapters = has_adapters
        self._start = start  # the optimizer at the beginning of the job, if it is one of torch

    @property
    def id(self) -> str:
        """The id of the job."""
        return self.view["job"]

    @property
    def steps(self) -> int:
        """The number of global steps that were made."""
        return self.view["steps"]

    @property
    def params_digest(self) -> str:
        """The digest of all parameters at the end, as 32 hexadecimal digits."""
        return self.view["params_digest"]

    @property
    def state_digest(self) -> str:
        """The digest of optimizer state and EST contexts, as 32 hexadecimal digits."""
        return self.view["state_digest"]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Every evaluation: version (the step before it), total (samples), mean_loss, metrics."""
        return self.view["evaluations"]

    @property
    def best(self) -> dict[str, Any] | None:
        """The best step, of a job with keep_best: metric, value, version (the step), and checkpoint, with
        which a job can begin. None: there is none."""
        return (self.view.get("decisions") or {}).get("best")

    def state_dict(self, ema: bool = False) -> dict[str, np.ndarray]:
        """The trained weights by their names in the state dict of the module, in its shapes.

        Tied weights are there under all of their names. Batch norms have the statistics of EST 0.
        `ema`: the moving averages of the parameters in place of them. A run with adapters has only
        these, as MODULE.lora_A.weight and MODULE.lora_B.weight.
        """
        if ema not in self._weights:
            self._weights[ema] = _exported(self.checkpoint, ema, self._has_adapters)
        return self._names.state_dict(self._weights[ema])

    def save_adapter(self, directory: str | Path, ema: bool = False) -> None:
        """Writes the adapters of a job with `lora` into a new folder, for peft:

        peft.PeftModel.from_pretrained(model, directory) adds them to the module that the job began
        with. `ema`: their moving averages.
        """
        if not self._has_adapters:
            raise UsageError("save_adapter: allowed is a run of a Job with lora")
        _export(self.checkpoint, Path(directory), ema)

    def load_into(self, module: Any, loss: Any = None, ema: bool = False, optimizer: Any = None,
                  schedule: Any = None) -> None:
        """Copies the trained weights into a torch module, bit for bit and in place.

        `optimizer`: an optimizer of torch over the parameters of the module, or a list of them, with the
        classes and groups of the job, and `schedule` the scheduler or the list of them. They get the
        states, numbers and rates that they would have after these steps, each with a call of the
        scheduler.
        `ema`: the moving averages of the parameters in place of them. `loss` is a module with the
        parameters of the loss that was trained; without it they are left out. Every parameter must be
        there with its shape; else UsageError, and nothing is changed.
        """
        for name, part in (("module", module), ("loss", loss)):
            if isinstance(part, type) or not (hasattr(part, "named_buffers")
                                              or (part is None and name == "loss")):
                raise UsageError(f"load_into: {name} is {part!r}: allowed is a torch.nn.Module")
        if self._has_adapters:
            raise UsageError("load_into: the run has adapters, which the module has no place for; "
                             "write them with save_adapter(folder) and add them to the module with "
                             "peft.PeftModel.from_pretrained(module, folder)")
        weights = self.state_dict(ema)
        own = _tensors_of(module)
        parameters = [name for name, _ in module.named_parameters()]
        if loss is None:
            weights = {name: array for name, array in weights.items()
                       if name in own or not name.startswith(LOSS_PREFIX)}
        else:
            own |= {LOSS_PREFIX + name: tensor for name, tensor in _tensors_of(loss).items()}
            parameters += [LOSS_PREFIX + name for name, _ in loss.named_parameters()]
        _check_fit(weights, own, parameters)
        if optimizer is not None or schedule is not None:
            self._load_optimizer(module, loss, optimizer, schedule)
        for name, tensor in own.items():
            if name in weights:
                tensor.copy_(tensor.new_tensor(weights[name]))

    def _load_optimizer(self, module: Any, loss: Any, optimizer: Any, schedule: Any) -> None:
        if optimizer is None:
            raise UsageError("load_into: schedule: allowed together with optimizer")
        if self._start is None:
            raise UsageError("load_into: optimizer: allowed for a job whose optimizer is one of torch, "
                             "with a schedule that looks at no evaluations")
        names = {id(p): prefix + name for prefix, part in (("", module), (LOSS_PREFIX, loss))
                 if part is not None for name, p in part.named_parameters()}
        self._start.load_into(optimizer, schedule, self.steps, names, _states_of(self.checkpoint))

    def plot(self) -> str:
        """The loss of every step, and the loss of every evaluation, as the text of an SVG."""
        return loss_curve(self.history, f"{self.view['name']}: {self.view['state']} after "
                                        f"{self.steps} steps")

    def _repr_svg_(self) -> str:
        return self.plot()

    def __repr__(self) -> str:
        loss = self.view.get("loss_last")
        return (f"<Run {self.id}: {self.view['state']}, {self.steps} steps, loss {loss}, params "
                f"digest {self.params_digest}>")


class RemoteJob:
    """A job at a head. The methods of `client` with its `id` do what the methods here do not."""

    def __init__(self, client: Client, job: str, names: ModuleNames, files: Any = None,
                 has_adapters: bool = False, explain: Callable[[str], str] = str, start: Any = None,
                 losses: Sequence[str] = ()):
        self.client = client
        self._explain = explain  # adds to an error of the engine what is known of the model
        self._has_adapters = has_adapters
        self._start = start  # the optimizer at the beginning, if it is one of torch
        self._losses = losses  # the name of the loss of each step, if there are several
        self.id = job
        self._names = names
        self._files = files
        self._speeds: list[tuple[int, float]] = []  # (step, samples per second), as they were seen
        self._values: dict[int, dict[str, float]] = {}  # of the metric function, by step

    def describe(self) -> dict[str, Any]:
        """What the head knows about the job now."""
        return self.client.describe(self.id)

    def wait(self, progress: bool = True, measure: Measure | None = None) -> Run:
        """Follows the job to its end. Raises FailedError if the job fails.

        The job continues if this call is interrupted. `measure` is called for the newest checkpoint
        whenever there is another one.
        """
        line = Progress(progress)
        try:
            for view in self.client.follow(self.id):
                line.show(view)
                if view["samples_per_s"]:
                    self._speeds.append((view["steps"], view["samples_per_s"]))
                if measure is not None:
                    self._measure(measure, view["checkpoint"])
        finally:
            line.end()
        if view["state"] == "failed":
            raise FailedError(f"job {self.id}: {self._explain(view['error'])}")
        return self.result()

    def result(self) -> Run:
        """The run up to now, with the newest checkpoint of the job."""
        view = self.describe()
        mean = view.get("samples_per_s_mean")
        speeds = [*self._speeds, *([(view["steps"], mean)] if mean else [])]
        view["evaluations"] = with_values(view["evaluations"], self._values)
        history = records(self.client.ledger(self.id), view["evaluations"], speeds, self._losses)
        return Run(view, history, view["checkpoint"], self._names, self._files,
                   self._has_adapters, self._start)

    def _measure(self, measure: Measure, checkpoint: str | None) -> None:
        """Adds the values of a checkpoint PARENT/step-N that has none yet."""
        if checkpoint is None:
            return
        step = int(checkpoint.rpartition("-")[2])
        if step not in self._values and (values := measure.of(Path(checkpoint))):
            self._values[step] = values

    def stop(self, checkpoint: Path) -> Run:
        """Writes a checkpoint to this new directory, cancels the job, and returns the run.

        The run ends with the step of the checkpoint, although the job may have made more.
        """
        written = self.client.checkpoint(self.id, to=checkpoint)
        self.client.cancel(self.id)
        run = self.result()
        at_checkpoint = {key: written[key] for key in ("params_digest", "state_digest")}
        view = run.view | at_checkpoint | {"steps": written["version"]}
        return Run(view, run.history[:written["version"]], written["path"], self._names,
                   self._files, self._has_adapters, self._start)

    def __repr__(self) -> str:
        return f"<RemoteJob {self.id}>"


def checkpoint_of(run: Any) -> Path:
    """The checkpoint of a run, or the one with this path. Raises NotFoundError and UsageError."""
    if isinstance(run, Run):
        if run.checkpoint is None:
            raise NotFoundError("from_checkpoint: the run has no checkpoint, so its weights were "
                                "not kept")
        return run.checkpoint
    if not isinstance(run, (str, PathLike)):
        raise UsageError(f"from_checkpoint is of the type {type(run).__name__}: allowed is a Run, "
                         "or the path of a checkpoint")
    return Path(run).resolve()


def checkpoint_step(checkpoint: Path) -> int:
    """The step whose parameters a checkpoint has. Raises NotFoundError if it is none."""
    found = run_json(["checkpoint", "ls", str(checkpoint)])["checkpoints"]
    if [Path(entry["path"]) for entry in found] != [checkpoint]:
        names = ", ".join(Path(entry["path"]).name for entry in found)
        raise NotFoundError(f"from_checkpoint = {checkpoint}: allowed is the folder of one "
                            f"checkpoint, such as step-100; it has {names or 'none'}")
    return int(found[0]["version"])


def _export(checkpoint: Path | None, place: Path, ema: bool, *options: str) -> None:
    if checkpoint is None:
        raise NotFoundError("the run has no checkpoint, so its weights were not kept")
    run_json(["export", str(checkpoint), str(place), *(["--ema"] if ema else []), *options])


def _states_of(checkpoint: Path | None) -> dict[str, np.ndarray]:
    """The arrays of the optimizer as STATE.PARAMETER."""
    from safetensors.numpy import load_file
    with TemporaryFolder("export-") as folder:
        states = folder / "states.safetensors"
        _export(checkpoint, folder / "weights.safetensors", False, "--optimizer", str(states))
        return load_file(states) if states.exists() else {}


def _exported(checkpoint: Path | None, ema: bool, has_adapters: bool) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file
    with TemporaryFolder("export-") as folder:
        place = folder / ("adapters" if has_adapters else "weights.safetensors")
        _export(checkpoint, place, ema)
        if not has_adapters:
            return load_file(place)
        weights = load_file(place / "adapter_model.safetensors")
        return {name.removeprefix(PEFT_PREFIX): array for name, array in weights.items()}


def _tensors_of(module: Any) -> dict[str, Any]:
    """The tensors themselves by their names; a `state_dict` of the user's own may return copies."""
    named = [*module.named_parameters(remove_duplicate=False),
             *module.named_buffers(remove_duplicate=False)]
    return {name: tensor.detach() for name, tensor in named}


def _check_fit(weights: Mapping[str, np.ndarray], own: Mapping[str, Any],
               parameters: Sequence[str]) -> None:
    missing = [name for name in parameters if name not in weights]
    if missing:
        raise UsageError(f"the run has no parameter {missing[0]!r} of the module")
    for name, array in weights.items():
        if name not in own:
            raise UsageError(f"the module has no tensor {name!r}, which was trained")
        if tuple(own[name].shape) != array.shape:
            raise UsageError(f"{name} has the shape {tuple(own[name].shape)} in the module: allowed "
                             f"is {array.shape}, as it was trained")
        if str(own[name].dtype) != f"torch.{array.dtype}":
            raise UsageError(f"{name} has the type {own[name].dtype} in the module: allowed is "
                             f"torch.{array.dtype}, as it was trained")
