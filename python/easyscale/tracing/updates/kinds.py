"""Which parameters and which steps are alike."""
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from .copies import Loop, keeps_lists
from .errors import OptimizerRefused
from .recorder import Recorded, Recorder, Structure
from .steps import Run

TRIED = 2        # steps of all parameters, which show what each one needs
SAME_STEPS = 64  # of one structure and the same numbers, after which a shape needs no steps of its own
PROGRAMS_MAX = 32
MEMORY_STEPS = 8  # after a rate was lowered, which show whether numbers depend on those before

Report = Callable[[int, int], None]


@dataclass
class Kind:
    """Parameters that are updated alike, and the steps of the first one of them.

    `of_step` has the index of the structure of every step and `numbers` what stands at its marks. `lowered`
    are these numbers for rates that were lowered once, twice, ...
    """

    members: list[int]
    group: int
    structures: list[Structure] = field(default_factory=list)
    of_step: list[int] = field(default_factory=list)
    numbers: list[tuple] = field(default_factory=list)
    lowered: list[list[tuple]] = field(default_factory=list)
    leader: Kind | None = None  # whose later steps are those of this kind too

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


def recorded_steps(loop: Loop, tensors: list[Tensor], report: Report | None, forks: bool,
                   lowered: int) -> tuple[list[Kind], list[int], Recorder]:
    """The kinds of parameters with all steps, also with rates that were lowered up to `lowered` times, and the
    parameters that have made these."""
    kinds, has_lists = kinds_of(loop, tensors, forks)
    chosen = list(range(len(tensors))) if has_lists else [kind.first for kind in kinds]

    def made(loop: Loop, kinds: list[Kind]) -> Recorder:
        make = functools.partial(_make_steps, loop, tensors, kinds, chosen, report, forks)
        return make(not has_lists) or make(False)
    recorder = made(loop, kinds)
    for times in range(1, lowered + 1):
        for kind, again in zip(kinds, _made_again(replace(loop, reductions=times), kinds, made)):
            kind.lowered.append(again.numbers)
    if lowered:
        _check_no_memory(loop, kinds, made)
    return kinds, chosen, recorder


def _made_again(loop: Loop, kinds: list[Kind], made: Callable[[Loop, list[Kind]], Recorder]) -> list[Kind]:
    """The kinds with the steps of this loop, which must do the same with other numbers."""
    again = [Kind(kind.members, kind.group) for kind in kinds]
    made(loop, again)
    for kind, other in zip(kinds, again):
        same = other.of_step == kind.of_step[:loop.steps] and all(
            x.is_same(y.calls, y.kept) for x, y in zip(kind.structures, other.structures))
        if not same:
            raise OptimizerRefused("its steps do something else when ReduceLROnPlateau has lowered the rate: "
                                   "allowed is a scheduler that depends on the number of its steps alone")
    return again


def _check_no_memory(loop: Loop, kinds: list[Kind],
                     made: Callable[[Loop, list[Kind]], Recorder]) -> None:
    """Raises OptimizerRefused if numbers depend on the rates of earlier steps, as those of a schedule-free
    optimizer: when the rate falls is not known here."""
    first = min(TRIED, loop.steps)
    short = replace(loop, steps=min(loop.steps, first + MEMORY_STEPS), lowers_after=first)
    for kind, again in zip(kinds, _made_again(short, kinds, made)):
        if repr(again.numbers[first:]) != repr(kind.lowered[0][first:short.steps]):
            raise OptimizerRefused("its numbers depend on the rates of earlier steps, and when ReduceLROnPlateau "
                                   "lowers a rate is not known before: allowed is a scheduler that depends on "
                                   "the number of its steps alone")


def kinds_of(loop: Loop, tensors: list[Tensor], forks: bool) -> tuple[list[Kind], bool]:
    """The parameters by what the first steps of all of them do with each, and whether the optimizer
    keeps tensors elsewhere than in its state, such as a list with one for each parameter."""
    run = Run(loop, tensors, list(range(len(tensors))), forks)
    groups = {id(p): place for place, group in enumerate(loop.optimizer.param_groups)
              for p in group["params"]}
    keys: list[list[Any]] = [[groups.get(id(p)), tuple(p.shape)] for p in tensors]
    for _ in range(min(TRIED, loop.steps)):
        run.step()
        for i, recorded in enumerate(run.recorded):
            keys[i] += [tuple(recorded.calls), tuple(map(repr, recorded.numbers)), recorded.kept]
    found: dict[tuple, Kind] = {}
    for i, key in enumerate(keys):
        found.setdefault(tuple(key), Kind([], key[0])).members.append(i)
    return list(found.values()), keeps_lists(run.copy.optimizer)


def _make_steps(loop: Loop, tensors: list[Tensor], kinds: list[Kind], chosen: list[int],
                report: Report | None, forks: bool, shares: bool) -> Recorder | None:
    """Makes all steps with the chosen parameters, among which is the first one of each kind.

    `shares`: after some steps, kinds that differ in extents only share the steps of one of them. None
    if the steps of that one do something new later.
    """
    run = Run(loop, tensors, chosen, forks)
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


def _follow(kinds: list[Kind], tensors: list[Tensor]) -> None:
    """Finds the kinds of one group and of as many dims whose steps were the same but for extents."""
    leaders: dict[Any, Kind] = {}
    for kind in kinds:
        key = (kind.group, tensors[kind.first].dim(), tuple(kind.of_step), repr(kind.numbers),
               tuple(tuple(call[1] for call in x.calls) for x in kind.structures))
        leader = leaders.setdefault(key, kind)
        kind.leader = None if leader is kind else leader
