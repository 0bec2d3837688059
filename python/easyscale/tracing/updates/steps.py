"""Makes the steps of a copy of an optimizer, on all paths through branches on contents."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ...program import EVALUATED
from .copies import (Copy, Loop, copied_optimizer, copies_of, gradients_of, kept_tensors,
                     meta_parameter, optimizers)
from .errors import ADVICE, OptimizerRefused
from .recorder import CHOICE, Recorded, Recorder

PATHS_MAX = 16  # through the branches of a step


class Branches(Exception):
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


class Run:
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
            raise Branches
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
        self.copy.evaluated = {id(self.metas[i]): self.kept[place][EVALUATED][1]
                               for i, place in self.places.items()
                               if i in self.metas and EVALUATED in self.kept[place]}
        with gradients_of(recorder.with_gradient), recorder:
            self.copy.step()
        tensors = [*kept_tensors(self.copy.optimizer),
                   *((EVALUATED, tensor) for tensor in self.copy.evaluated.values())]
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
