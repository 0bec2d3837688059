"""Captures an optimizer: what its step does with one parameter of each shape becomes programs.

A copy of the optimizer, whose parameters have no contents, makes all steps of a job, together with a
copy of its scheduler. What differs from step to step in numbers only is one program, whose numbers are
inputs; another structure, as that of a first step, is another program.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ...errors import EasyScaleError
from ...optimizers import listed, some
from ...program import Numbers, Phase, Update
from ...schedules import schedulers_of
from ..graph import Meta, Ref
from ..patches import exchanged
from .check import check_updates
from .copies import (Copy, Loop, copied_optimizer, copies_of, gradients_of, history_of, is_state,
                     keeps_lists, kept_tensors, meta_parameter, optimizers)
from .errors import ADVICE, OptimizerRefused, place_of, refused
from .lowered import Lowered, lower
from .recorder import CHOICE, Recorded, Recorder, Structure
from .scalars import numbers_of_tensors
from .together import Together, together

TRIED = 2        # steps of all parameters, which show what each one needs
SAME_STEPS = 64  # of one structure and the same numbers, after which a shape needs no steps of its own
PROGRAMS_MAX = 32
PATHS_MAX = 16   # through the branches of a step

NEW_TENSOR = Tensor.new_tensor
Report = Callable[[int, int], None]


@dataclass
class Updates:
    """A captured optimizer, as a model file has it. `states` are the first contents of the states as
    STATE.PARAMETER, if they are not zeros."""

    numbers: list[Numbers]
    updates: list[Update]
    states: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class _Kind:
    """Parameters that are updated alike, and the steps of the first one of them.

    `of_step` has the index of the structure of every step and `numbers` what stands at its marks.
    """

    members: list[int]
    group: int
    structures: list[Structure] = field(default_factory=list)
    of_step: list[int] = field(default_factory=list)
    numbers: list[tuple] = field(default_factory=list)
    leader: _Kind | None = None  # whose later steps are those of this kind too

    @property
    def first(self) -> int:
        return self.members[0]

    def note(self, recorder: Recorder, owner: int, recorded: Recorded,
             kept: dict[str, tuple[int, Tensor]]) -> None:
        """Adds the step that was recorded."""
        calls, signature = recorded.calls, recorded.kept
        index = self.of_step[-1] if self.of_step else 0
        if not (self.structures and self.structures[index].is_same(calls, signature)):
            index = next((i for i, known in enumerate(self.structures)
                          if known.is_same(calls, signature)), len(self.structures))
            if index == len(self.structures):
                made = Structure(calls, signature, paths=recorded.paths) if recorded.paths else (
                    recorder.finish(owner, kept))
                self.structures.append(made)
            if not recorded.paths:
                recorder.expect(owner, self.structures[index])
        self.of_step.append(index)
        self.numbers.append(tuple(recorded.numbers))


def capture_updates(optimizer: Any, parameters: Sequence[tuple[str, Tensor]], steps: int,
                    schedule: Any = None, every: int = 1, check: bool = True,
                    report: Report | None = None, clip_value: float = 0.0) -> Updates:
    """Captures the steps of an optimizer from its state on, or those of a list of them.

    `parameters` are those that are trained, with their names in the model file. `schedule` is a torch
    scheduler or a list of them, which are called after every `every` steps. None of them is changed, nor
    are the parameters. `clip_value` is the largest element of a gradient, 0 for no limit. Raises OptimizerRefused, a CaptureError.
    """
    optimizer = together(listed(optimizer))
    loop = Loop(optimizer, schedulers_of(schedule), every, steps, history_of(optimizer), clip_value)
    for part in optimizer.parts if isinstance(optimizer, Together) else [optimizer]:
        _check_signature(part)
    tensors = [tensor for _, tensor in parameters]
    for name, tensor in parameters:
        if tensor.dtype != torch.float32:
            raise refused(optimizer, f"the parameter {name} has the type {tensor.dtype}: allowed is "
                                     "float32")
    owners = [getattr(scheduler, "optimizer", optimizer) for scheduler in loop.schedulers]
    if any(all(owner is not known for known in optimizers(optimizer)) for owner in owners):
        raise refused(optimizer, "schedule is a scheduler of another optimizer")
    if loop.history:
        _check_states(loop, parameters)
    with _explained(optimizer), _capturing():
        try:
            kinds, chosen, recorder = _recorded(loop, tensors, report, False)
        except _Branches:
            kinds, chosen, recorder = _recorded(loop, tensors, report, True)
        found = _Numbers(steps)
        made = [_Made(kind, found, recorder).update(parameters) for kind in kinds]
    updates = Updates(found.numbers, made, _contents(loop, made, parameters))
    if check:
        with _explained(optimizer):
            check_updates(updates.numbers, updates.updates, loop, parameters,
                          [parameters[i][0] for i in chosen])
    return updates


def _contents(loop: Loop, updates: list[Update],
              parameters: Sequence[tuple[str, Tensor]]) -> dict[str, np.ndarray]:
    """The first contents of all states, if some are given; a first step makes what is missing."""
    names = {id(tensor): name for name, tensor in parameters}
    given = {f"{state.name}.{names[id(state.owner)]}": state.tensor.detach().cpu().numpy().copy()
             for state in loop.history.values()}
    needed = [(f"{state}.{name}", shape) for update in updates for name in update.parameters
              for state, shape in update.states().items()]
    return {name: given.get(name, np.zeros(shape, np.float32)) for name, shape in needed} if given else {}


def _check_states(loop: Loop, parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Raises OptimizerRefused for states that are not those of the parameters."""
    names = {id(tensor): name for name, tensor in parameters}
    needed = _shapes(loop, [tensor for _, tensor in parameters])
    for owner, name, tensor in loop.history.values():
        full = names.get(id(owner))
        if full is None:
            raise refused(loop.optimizer, f"it has the state {name} of a parameter of the shape "
                                          f"{tuple(owner.shape)} that is not trained")
        if tensor.dtype != torch.float32:
            raise refused(loop.optimizer, f"its state {name} of {full} has the type {tensor.dtype}: "
                                          "allowed is float32")
        shape = needed.get((id(owner), name), tensor.shape)
        if shape != tensor.shape:
            raise refused(loop.optimizer, f"its state {name} of {full} has the shape "
                                          f"{tuple(tensor.shape)}: allowed is {tuple(shape)}")
    for optimizer in optimizers(loop.optimizer):
        if keeps_lists(optimizer):
            raise refused(optimizer, "it keeps tensors elsewhere than in its state, with which a job cannot "
                                     "begin after steps: make a new one")
        for group in optimizer.param_groups:
            trained = [p for p in group["params"] if id(p) in names]
            missing = sorted(names[id(p)] for p in trained if not optimizer.state.get(p))
            if missing and len(missing) < len(trained) and optimizer.state:
                raise refused(optimizer, f"it has states of some parameters of a group, and none of "
                                         f"{some(missing)}: allowed are those of all or of none")


def _shapes(loop: Loop, tensors: list[Tensor]) -> dict[tuple[int, str], torch.Size]:
    """The shapes of the states that a first step makes, by the ids of the parameters and their names;
    those that a constructor makes are not known."""
    run = _Run(replace(loop, history={}), tensors, list(range(len(tensors))), False)
    for optimizer in optimizers(run.copy.optimizer):
        optimizer.state.clear()
    try:
        with _capturing():
            run.record()
    except Exception:  # a step needs what its constructor makes, or fails later too
        return {}
    return {(id(p), name): tensor.shape for p, own in zip(tensors, run.kept)
            for name, (_, tensor) in own.items()}


def _check_signature(optimizer: Optimizer) -> None:
    needed = [p.name for p in inspect.signature(type(optimizer).step).parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:]
    if needed:
        raise refused(optimizer, f"its step needs {', '.join(needed)}; a job computes one gradient for each "
                                 "step, and calls no closure")


@contextlib.contextmanager
def _explained(optimizer: Optimizer) -> Iterator[None]:
    """Says which optimizer an error is about, and at which line."""
    try:
        yield
    except OptimizerRefused as error:
        text = str(error)
        raise error if text.startswith("optimizer ") else refused(optimizer, text) from error
    except EasyScaleError:
        raise
    except Exception as error:  # a step raises whatever it does not support
        raise refused(optimizer, f"its step fails{place_of(error)} on tensors without contents, with "
                                 f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                      ) from error


@contextlib.contextmanager
def _capturing() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(numbers_of_tensors())
        stack.enter_context(_written_data())
        for owner, name in ((torch, "tensor"), (torch, "as_tensor"), (Tensor, "new_tensor")):
            stack.enter_context(exchanged(owner, name, _with_contents(getattr(owner, name))))
        yield


def _with_contents(real: Callable) -> Callable:
    """A function that makes tensors of numbers, which have contents on all devices."""
    def make(*args: Any, **options: Any) -> Any:
        if args and isinstance(args[-1], Tensor) and args[-1].is_meta and real is not NEW_TENSOR:
            return real(*args, **options)
        if real is NEW_TENSOR or str(options.get("device")) == "meta":
            options["device"] = "cpu"
        if real is NEW_TENSOR:
            options.setdefault("dtype", args[0].dtype)
            return torch.tensor(*args[1:], **options)
        return real(*args, **options)
    return make


@contextlib.contextmanager
def _written_data() -> Iterator[None]:
    """In this block `p.data = x` writes x into p, which a recorder sees."""
    real = torch._C.TensorBase.data

    def write(tensor: Tensor, value: Tensor) -> None:
        if tensor.is_meta and value.shape == tensor.shape:
            with torch.no_grad():
                tensor.copy_(value)
        else:
            real.__set__(tensor, value)
    torch.Tensor.data = property(real.__get__, write)
    try:
        yield
    finally:
        del torch.Tensor.data


class _Branches(Exception):
    """A step branches on the content of a tensor, so that it must be made more than once."""


@dataclass
class _Saved:
    """An optimizer that can be copied back, with what stands for its tensors."""

    optimizer: Optimizer
    shadows: dict[int, tuple[Tensor, Tensor]]
    kept: list[dict[str, tuple[int, Tensor]]]

    @staticmethod
    def of(optimizer: Optimizer, metas: dict[int, Tensor], shadows: dict[int, tuple[Tensor, Tensor]],
           kept: list[dict[str, tuple[int, Tensor]]], into: Optimizer | None = None) -> _Saved:
        """A copy; `into` is the one that becomes it, for those who know that one."""
        memo: dict[int, Any] = dict(metas)
        for entries in kept:
            memo.update({id(x): x for _, x in entries.values()})
        places = {} if into is None else {
            id(x): y for x, y in zip(list(optimizers(optimizer)), list(optimizers(into)))}
        copied = copied_optimizer(optimizer, memo, places)
        reals = {key: memo[key] for key in shadows if key in memo}
        return _Saved(copied, {id(real): (real, shadows[key][1]) for key, real in reals.items()}, kept)


def _next_branches(choices: list[bool]) -> list[bool] | None:
    """The branches of the next path, if branches that are not given are those of true."""
    while choices and not choices[-1]:
        choices = choices[:-1]
    return [*choices[:-1], False] if choices else None


class _Run:
    """A copy of an optimizer that makes steps with parameters without contents."""

    def __init__(self, loop: Loop, tensors: list[Tensor], chosen: list[int], forks: bool):
        self.forks = forks
        self.recorded: list[Recorded] = []
        self.metas = {i: meta_parameter(tensors[i]) for i in chosen}
        metas = {id(tensors[i]): x for i, x in self.metas.items()}
        history = {key: state for key, state in loop.history.items() if id(state.owner) in metas}
        states = {key: torch.empty(state.tensor.shape, device="meta") for key, state in history.items()}
        self.copy = Copy(loop, metas | states)
        self.places = {i: place for place, i in enumerate(chosen)}
        stand_ins = {id(tensor): self.metas.get(i, None) for i, tensor in enumerate(tensors)}
        stand_ins = {key: x if x is not None else meta_parameter(tensor)
                     for (key, x), tensor in zip(stand_ins.items(), tensors)}
        self.recorder = Recorder(len(chosen), stand_ins)
        self.tensors = tensors
        self.kept: list[dict[str, tuple[int, Tensor]]] = [
            {state.name: (0, states[key]) for key, state in history.items() if state.owner is tensors[i]}
            for i in chosen]
        self.is_first = True

    def step(self) -> None:
        """Records a step; `recorded` is then what it does with each parameter."""
        saved = self._save() if self.forks else None
        self.record()
        self.recorded = self.recorder.recorded(self.kept)
        if saved is not None:
            self._record_paths(saved)
        elif any(tape.choices for tape in self.recorder.tapes):
            raise _Branches
        self.is_first = False
        self.copy.advance()

    def record(self, wanted: list[list[bool]] | None = None) -> None:
        """Makes a step, in which the tapes take these branches."""
        recorder, wanted = self.recorder, wanted or [[] for _ in self.kept]
        recorder.begin()
        for i, meta in self.metas.items():
            owner = self.places[i]
            recorder.tapes[owner].wanted = wanted[owner]
            recorder.bind(owner, "parameter", meta)
            gradient = torch.empty_like(meta)
            meta.grad = gradient
            recorder.bind(owner, "gradient", gradient)
            for name, (_, tensor) in self.kept[owner].items():
                recorder.bind(owner, name, tensor)
        if self.is_first:
            self._begin_states()
        with gradients_of(recorder.with_gradient), recorder:
            self.copy.step()
        tensors = list(kept_tensors(self.copy.optimizer))
        self.kept = recorder.kept(tensors)
        ids = {id(tensor) for _, tensor in tensors}
        recorder.shadows = {key: x for key, x in recorder.shadows.items() if key in ids}

    def _record_paths(self, saved: _Saved) -> None:
        """Makes the step again from where it began until all branches on contents were taken."""
        paths = [[self.recorder.finish(owner, kept)] for owner, kept in enumerate(self.kept)]
        numbers = [list(tape.numbers) for tape in self.recorder.tapes]
        wanted = [_next_branches(path[0].choices) for path in paths]
        while any(x is not None for x in wanted):
            if max(map(len, paths)) == PATHS_MAX:
                raise OptimizerRefused(f"its step has more than {PATHS_MAX} paths through branches on the "
                                       f"contents of tensors; {ADVICE}")
            self._restore(saved)
            self.record([x or [] for x in wanted])
            for owner, kept in enumerate(self.kept):
                if wanted[owner] is not None:
                    paths[owner].append(self.recorder.finish(owner, kept))
                    numbers[owner] += self.recorder.tapes[owner].numbers
                    wanted[owner] = _next_branches(paths[owner][-1].choices)
        for owner, found in enumerate(paths):
            if len(found) > 1:
                # What is kept on some paths only has no content on the others.
                common = set.intersection(*({name for name, _ in path.kept} for path in found))
                self.kept[owner] = {name: x for name, x in self.kept[owner].items() if name in common}
                for path in found:
                    path.kept = tuple((name, value) for name, value in path.kept if name in common)
                self.recorded[owner] = Recorded(
                    [call for path in found for call in (*path.calls, (path.kept, CHOICE))],
                    numbers[owner], found[0].kept, found)

    def _save(self) -> _Saved:
        """The optimizer as it is now. Its tensors without contents stay the same ones."""
        return _Saved.of(self.copy.optimizer, self._metas(), self.recorder.shadows, self.kept)

    def _restore(self, saved: _Saved) -> None:
        again = _Saved.of(saved.optimizer, self._metas(), saved.shadows, saved.kept, self.copy.optimizer)
        self.recorder.shadows, self.kept = again.shadows, again.kept

    def _metas(self) -> dict[int, Tensor]:
        tensors = [*self.metas.values(), *(x for kept in self.kept for _, x in kept.values())]
        return {id(x): x for x in tensors}

    def _begin_states(self) -> None:
        """What the constructor has copied from a parameter is a copy of it in the first step."""
        mine = {i: self.tensors[i] for i in self.metas}
        for tensor, i in list(copies_of(self.copy.optimizer, mine)):
            with self.recorder:
                self.recorder.shadows[id(tensor)] = (tensor, self.metas[i].detach().clone())

    def leave_out(self, chosen: list[int]) -> None:
        self.copy.leave_out([self.metas.pop(i) for i in chosen])


def _recorded(loop: Loop, tensors: list[Tensor], report: Report | None,
              forks: bool) -> tuple[list[_Kind], list[int], Recorder]:
    """The kinds of parameters with all steps, and the parameters that have made these."""
    kinds, has_lists = _kinds(loop, tensors, forks)
    chosen = list(range(len(tensors))) if has_lists else [kind.first for kind in kinds]
    make = functools.partial(_make_steps, loop, tensors, kinds, chosen, report, forks)
    return kinds, chosen, make(not has_lists) or make(False)


def _kinds(loop: Loop, tensors: list[Tensor], forks: bool) -> tuple[list[_Kind], bool]:
    """The parameters by what the first steps of all of them do with each, and whether the optimizer
    keeps tensors elsewhere than in its state, such as a list with one for each parameter."""
    run = _Run(loop, tensors, list(range(len(tensors))), forks)
    groups = {id(p): place for place, group in enumerate(loop.optimizer.param_groups)
              for p in group["params"]}
    keys: list[list[Any]] = [[groups.get(id(p)), tuple(p.shape)] for p in tensors]
    for _ in range(min(TRIED, loop.steps)):
        run.step()
        for i, recorded in enumerate(run.recorded):
            keys[i] += [tuple(recorded.calls), tuple(map(repr, recorded.numbers)), recorded.kept]
    found: dict[tuple, _Kind] = {}
    for i, key in enumerate(keys):
        found.setdefault(tuple(key), _Kind([], key[0])).members.append(i)
    return list(found.values()), keeps_lists(run.copy.optimizer)


def _make_steps(loop: Loop, tensors: list[Tensor], kinds: list[_Kind], chosen: list[int],
                report: Report | None, forks: bool, shares: bool) -> Recorder | None:
    """Makes all steps with the chosen parameters, among which is the first one of each kind.

    `shares`: after some steps, kinds that differ in extents only share the steps of one of them. None
    if the steps of that one do something new later.
    """
    run = _Run(loop, tensors, chosen, forks)
    for kind in kinds:
        kind.leader, kind.structures, kind.of_step, kind.numbers = None, [], [], []
    active = [(run.places[kind.first], kind) for kind in kinds]
    for step in range(loop.steps):
        run.step()
        for owner, kind in active:
            kind.note(run.recorder, owner, run.recorded[owner], run.kept[owner])
            if len(kind.structures) > PROGRAMS_MAX:
                raise OptimizerRefused(
                    f"its steps do something else in more than {PROGRAMS_MAX} ways up to step {step + 1}; an "
                    "integer argument or the content of a constant may depend on the step")
        if step + 1 == SAME_STEPS and shares:
            _follow(kinds, tensors)
            run.leave_out([kind.first for _, kind in active if kind.leader])
            active = [(owner, kind) for owner, kind in active if kind.leader is None]
            counts = {id(kind): len(kind.structures) for _, kind in active}
        if report is not None and step % 256 == 0:
            report(step, loop.steps)
    for kind in kinds:
        if kind.leader is not None:
            if len(kind.leader.structures) != counts[id(kind.leader)]:
                return None
            kind.of_step, kind.numbers = kind.leader.of_step, kind.leader.numbers
    return run.recorder


def _follow(kinds: list[_Kind], tensors: list[Tensor]) -> None:
    """Finds the kinds of one group and of as many dims whose steps were the same but for extents."""
    leaders: dict[Any, _Kind] = {}
    for kind in kinds:
        key = (kind.group, tensors[kind.first].dim(), tuple(kind.of_step), repr(kind.numbers),
               tuple(tuple(call[1] for call in x.calls) for x in kind.structures))
        leader = leaders.setdefault(key, kind)
        kind.leader = None if leader is kind else leader


class _Numbers:
    """The numbers of a model; those that are equal in all steps are one."""

    def __init__(self, steps: int):
        self.steps = steps
        self.numbers: list[Numbers] = []
        self._known: dict[bytes, int] = {}

    def add(self, at: np.ndarray, values: np.ndarray) -> int:
        """The index of what has these values at these steps."""
        whole = np.zeros(self.steps, np.float32)
        whole[at] = values
        key = whole.tobytes()
        if key not in self._known:
            self._known[key] = len(self.numbers)
            self.numbers.append(Numbers(f"number.{len(self.numbers)}", whole))
        return self._known[key]


class _Made:
    """Makes the update of one kind."""

    def __init__(self, kind: _Kind, numbers: _Numbers, recorder: Recorder):
        self.kind, self.recorder = kind, recorder
        of_step = np.array(kind.of_step)
        self.paths = [path for x in kind.structures for path in x.paths or [x]]
        self.lowered: list[Lowered] = [
            lower(structure, self._marks(np.flatnonzero(of_step == i), numbers), recorder)
            for i, structure in enumerate(kind.structures)]

    def _marks(self, at: np.ndarray, numbers: _Numbers) -> list[Any]:
        """What stands at the marks of the structure of these steps."""
        rows = [self.kind.numbers[step] for step in at]
        table = np.array(rows, np.float64).reshape(len(rows), -1)
        found: list[Any] = []
        for column in range(table.shape[1]):
            values = table[:, column]
            same = bool((values == values[0]).all() or np.isnan(values).all())
            found.append(rows[0][column] if same else Ref(numbers.add(at, values)))
        return found

    def update(self, parameters: Sequence[tuple[str, Tensor]]) -> Update:
        """The update of the parameters of the kind."""
        states = self._states()
        names = [parameters[i][0] for i in self.kind.members]
        programs = [lowered.program("update", states) for lowered in self.lowered]
        return Update(names, programs, self._phases())

    def _states(self) -> dict[str, Meta]:
        """What the next parameter depends on of what is kept."""
        needed = {"parameter"} | {name for structure in self.paths
                                  for name, value in structure.kept if is_state(name)
                                  and (meta := self._meta(structure, value)) is not None
                                  and meta.dtype == torch.float32}
        while True:
            more = set().union(*(lowered.read(needed) for lowered in self.lowered)) | needed
            if more == needed:
                break
            needed = more
        states: dict[str, Meta] = {}
        for structure in self.paths:
            for name, value in [*structure.inputs.items(), *structure.kept]:
                if name in needed and name not in ("parameter", "gradient"):
                    meta = self._meta(structure, value)
                    if meta is not None and states.setdefault(name, meta) != meta:
                        raise OptimizerRefused(f"its state {name} changes from {states[name]} to {meta}")
        for name, meta in states.items():
            if meta.dtype != torch.float32:
                raise OptimizerRefused(f"its state {name} has the type {meta.dtype}: allowed is float32")
        return states

    @staticmethod
    def _meta(structure: Structure, value: int) -> Meta | None:
        if value in structure.input_metas:
            return structure.input_metas[value]
        for (first, *_), metas in zip(structure.calls, structure.metas):
            if first <= value < first + len(metas):
                return metas[value - first]
        return None

    def _phases(self) -> list[Phase]:
        of_step = self.kind.of_step
        return [Phase(step, index) for step, index in enumerate(of_step)
                if step == 0 or of_step[step - 1] != index]
