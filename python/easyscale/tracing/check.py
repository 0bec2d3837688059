"""Runs the captured program beside the module and compares loss, outputs and gradients.

Both are computed in fp32, in which they differ by rounding. A deep network may amplify rounding to
any size, so a difference counts only if it is there in double precision too.
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import nn

from ..interpret import Context, Undefined, interpret, next_states
from ..program import Program
from .errors import SelfCheckFailed, StateChanged, UndefinedResult
from .held import changed_where_held, functions
from .lines import calling_line, line_of_caller
from .packed import same_dropouts
from .patches import exchanged
from .python_state import Generators, numbers_of
from .same_draws import SameDraws, site_numbers
from .state import State, plain_name
from .step import Step

LOSS_ERROR = 1e-5      # relative
LOSS_SCALE = 0.1       # of a smaller loss, whose parts may cancel out as those of a Wasserstein loss
OUTPUT_ERROR = 1e-4    # of the largest magnitude
GRADIENT_ERROR = 1e-3  # of the gradient's norm
SMALL = 1e-5           # of the largest gradient's norm: below it a gradient is rounding only
# In double precision less is allowed, by this factor. Constants of the program stay rounded to fp32
# there, and so does what a module computes in fp32 by name.
DOUBLE = 0.1
MOVE = 1e-2  # how far weights are moved to find what is kept of them, as a part of them
ASIDE = 1e-6  # how far parameters are moved away from where a slope jumps, as a part of them

Tensors = dict[str, torch.Tensor]


class KeptStates:
    """The buffers and frozen parameters that training writes, with their contents of now."""

    def __init__(self, step: Step, names: Collection[str]):
        self._places = {}
        for path, module in step.named_modules():
            for owner in (module._buffers, module._parameters):
                for leaf, tensor in owner.items():
                    if (name := plain_name(f"{path}.{leaf}" if path else leaf)) in names:
                        self._places[name] = (owner, leaf, tensor, tensor.detach().clone())

    def restore(self, contents: Tensors | None = None) -> None:
        """Gives them their first contents, or these."""
        for name, (owner, leaf, tensor, content) in self._places.items():
            owner[leaf] = tensor if tensor._is_view() else tensor.detach_()
            tensor.data.copy_(content if contents is None else contents[name])

    def contents(self) -> Tensors:
        """Copies of their contents by name."""
        return {name: owner[leaf].detach().clone()
                for name, (owner, leaf, _, _) in self._places.items()}


def check_training(program: Program, step: Step, state: State, tensors: Tensors,
                   mirrored: set[int]) -> None:
    """Compares the loss, all gradients and what is written to buffers in training, with the same
    random draws. A model that writes buffers makes a second step."""
    states = KeptStates(step, {kept.name for kept in program.states})
    parameters = state.trainable()

    def compared(given: Tensors, floats: torch.dtype, factor: float) -> None:
        states.restore()
        kept = states.contents()
        for number, samples in enumerate((given, _reversed(given)) if kept else (given,)):
            place = " of a second step" if number else ""
            with SameDraws(mirrored=mirrored), same_dropouts(step.model, exchanged):
                loss = step(*_copies(samples))[0]
                after = states.contents()
                wanted = _filled(_gradients(loss, list(parameters.values())), parameters)
            states.restore(after)  # a checkpoint of torch has written them again
            context = Context(training=True, draw=site_numbers, floats=floats)
            values = _interpreted(program, state.tensors() | kept, samples, context)
            own_loss = values[program.loss]
            found = _filled(_gradients(own_loss, list(parameters.values())), parameters)
            compare("the loss" + place, own_loss, loss, factor * LOSS_ERROR, least=LOSS_SCALE)
            kept = next_states(program, values)
            _compare_states(kept, after, factor)
            if not number:
                _compare_gradients(list(parameters), found, wanted, factor)
    _decide(compared, state, tensors)


def _interpreted(program: Program, tensors: Tensors, samples: Tensors,
                 context: Context) -> list[torch.Tensor]:
    try:
        return interpret(program, tensors, samples, context)
    except Undefined as error:
        raise UndefinedResult(str(error)) from None


def _reversed(tensors: Tensors) -> Tensors:
    """The samples in another order."""
    return {name: x.flip(0) for name, x in tensors.items()}


def _compare_states(found: Tensors, wanted: Tensors, factor: float) -> None:
    for name, own in found.items():
        theirs = wanted[name]
        if theirs.is_floating_point():
            compare(f"the buffer {name} after a step", own, theirs, factor * OUTPUT_ERROR)
        elif not torch.equal(own.detach().to(theirs.dtype), theirs):
            raise SelfCheckFailed(f"the buffer {name} after a step has other values than that of the "
                                  "module")


def differs(loss: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether a loss is another one."""
    try:
        compare("", loss, wanted, LOSS_ERROR)
    except SelfCheckFailed:
        return True
    return False


def loss_alone(step: Step, tensors: Tensors) -> torch.Tensor:
    """The loss of a forward pass, with the random numbers of the self-check."""
    with SameDraws(), same_dropouts(step.model, exchanged):
        return step(*_copies(tensors))[0].detach()


def _copies(tensors: Tensors) -> list[torch.Tensor]:
    """The arguments of a forward pass, which may write into them."""
    return [tensor.clone() for tensor in tensors.values()]


def check_no_state(step: Step, state: State, tensors: Tensors, others: Tensors,
                   wanted: torch.Tensor, statistics: Collection[str], states: Collection[str]) -> None:
    """Raises StateChanged if the forward pass changes a parameter, or a buffer that is none of the
    `statistics` and `states`, or what the next forward pass computes or may compute.

    `wanted` is the loss of other samples, `others`, with moved weights and without a forward pass
    before it. The program of a file begins every step with nothing but the parameters, statistics and
    states, so a model that keeps anything else for its next mini-batch would silently train without
    it. Here every pass begins with the first contents of the states.
    """
    kept, statistics = KeptStates(step, states), {*statistics, *states}
    generators = Generators()
    before = _contents(state, statistics)
    lines: dict[tuple[int, str], str] = {}
    with exchanged(nn.Module, "__setattr__", _noting(nn.Module.__setattr__, lines)):
        loss_alone(step, tensors)
    changed = [name for name, found in _contents(state, statistics).items() if found != before[name]]
    shapes = {name: shape for name, (shape, _) in _buffers(step, statistics).items()}
    kept.restore()
    # What the first pass alone replaces or counts does not matter, if the second one agrees.
    buffers, numbers = _buffers(step, statistics), numbers_of(step.roots())
    with moved_weights(state):
        loss = loss_alone(step, others)
    changed += [name for name, found in _buffers(step, statistics).items()
                if buffers.get(name, found) != found]
    if changed:
        raise StateChanged(_change_refused(step, changed[0], lines, state.tensors().get(changed[0]),
                                           shapes.get(changed[0])))
    if differs(loss, wanted):
        raise StateChanged(
            "a second forward pass has another loss than it has alone, because the model keeps "
            "something between its calls, of its samples or of weights that have changed since (an "
            "attribute, a list or a global variable); a captured model keeps only registered buffers "
            "(register_buffer)")
    kept.restore()
    loss_alone(step, tensors)
    after = numbers_of(step.roots())
    for name, value in numbers.items():
        if _is_another(value, after.get(name, value)):
            raise StateChanged(f"every forward pass changes {name}, now from {value!r} to "
                               f"{after[name]!r}; a captured model has no Python state")
    if used := generators.changed():
        raise StateChanged(f"the forward pass draws from a random generator of the class {used}; a "
                           "captured model would repeat one draw: use those of torch")


def _noting(real: Callable, lines: dict[tuple[int, str], str]) -> Callable:
    """nn.Module.__setattr__, which notes where tensors are assigned."""
    def set_attribute(module: nn.Module, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            lines[id(module), name] = calling_line()
        real(module, name, value)
    return set_attribute


def _change_refused(step: Step, name: str, lines: dict[tuple[int, str], str],
                    before: torch.Tensor | None, after: torch.Size | None) -> str:
    places = [line for path, module in step.named_modules() for (owner, leaf), line in lines.items()
              if owner == id(module) and plain_name(f"{path}.{leaf}" if path else leaf) == name]
    begin = f"the forward pass changes {name}" + "".join(f" ({line})" for line in places if line)
    if before is not None and after is not None and before.shape != after:
        return (f"{begin} from the shape {list(before.shape)} to {list(after)}; a buffer keeps its "
                "shape, so the samples of a mini-batch are no axis of it: keep what does not "
                "depend on their number, such as a mean over them, or the rows "
                "self.kept[torch.arange(len(x))] of a buffer with more rows, or no buffer (a tensor that "
                "is made in the forward pass)")
    return (f"{begin}; parameters are changed by the optimizer only, and buffers in place or by "
            "assignments that keep their shape and type (register_buffer, float32, long or bool)")


@contextlib.contextmanager
def moved_weights(state: State) -> Iterator[None]:
    """Other weights in this block, as a step of the optimizer makes them."""
    generator = torch.Generator().manual_seed(1)
    tensors = [tied.tensor.data for tied in state.parameters.values() if tied.tensor.requires_grad]
    before = [tensor.clone() for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.mul_(1 + MOVE * torch.randn(tensor.shape, generator=generator))
        yield
    finally:
        for tensor, known in zip(tensors, before):
            tensor.copy_(known)


def _is_another(value: Any, after: Any) -> bool:
    """Whether a number or text has changed; a computed number may be rounded otherwise."""
    if isinstance(value, float) and isinstance(after, float):
        return not (math.isclose(value, after, rel_tol=1e-6) or math.isnan(value))
    return bool(value != after)


def _contents(state: State, statistics: Collection[str]) -> dict[str, tuple[int, int]]:
    """The address and the sum of the bytes of every parameter, and of what else may not change."""
    return {name: (tensor.data_ptr(), _sum(tensor.detach()))
            for name, tensor in state.tensors().items() if name not in statistics}


def _buffers(step: Step, statistics: Collection[str]) -> dict[str, tuple]:
    """The extents and the sum of the bytes of the buffers, which a forward pass may replace."""
    found = ((plain_name(name), tensor) for name, tensor in step.named_buffers())
    return {name: (tensor.shape, _sum(tensor.detach())) for name, tensor in found
            if name not in statistics}


def _sum(tensor: torch.Tensor) -> int:
    whole = tensor.dtype in (torch.float32, torch.int32)
    return int(tensor.contiguous().reshape(-1).view(torch.int32 if whole else torch.uint8).sum())


def _compare_gradients(names: list[str], found: list[torch.Tensor], wanted: list[torch.Tensor],
                       factor: float) -> None:
    largest = max((float(g.norm()) for g in wanted), default=0.0)
    for name, own, theirs in zip(names, found, wanted):
        error = float((own - theirs).norm())
        if not error <= factor * (GRADIENT_ERROR * float(theirs.norm()) + SMALL * largest):
            raise SelfCheckFailed(
                f"the gradient of {name} is {float(own.norm()):.6g} in norm, but the module has "
                f"{float(theirs.norm()):.6g} (difference {error:.3g}); a custom autograd.Function, "
                "a checkpoint or a torch.no_grad region may hide a part of it")


def check_evaluation(program: Program, step: Step, state: State, tensors: Tensors,
                     sites: dict[int, int]) -> None:
    """Compares the outputs in evaluation; `sites` are those of the module's draws that are used."""
    def compared(given: Tensors, floats: torch.dtype, factor: float) -> None:
        # The module may compute gradients itself.
        with torch.enable_grad():
            wanted = _evaluated(step, given, sites)
        context = Context(training=False, draw=site_numbers, floats=floats)
        with torch.no_grad():
            values = _interpreted(program, state.tensors(), given, context)
        for output in program.outputs:
            if output.name not in wanted or not wanted[output.name].dim():
                continue  # the loss of a model that has no other output
            compare(f"the output {output.name}", values[output.value], wanted[output.name],
                    factor * OUTPUT_ERROR)
    _decide(compared, state, tensors)
    _check_without_gradients(step, tensors, sites)


def _evaluated(step: Step, tensors: Tensors, sites: dict[int, int]) -> Tensors:
    """The outputs of the module in evaluation by name."""
    with SameDraws(site_of=lambda draw: sites.get(draw, draw)):
        outputs = step(*_copies(tensors))
    return dict(zip(step.outputs.names, outputs))


def _check_without_gradients(step: Step, tensors: Tensors, sites: dict[int, int]) -> None:
    """Raises StateChanged if the module asks whether gradients are computed, and has other outputs
    under torch.no_grad, where PyTorch usually evaluates."""
    asked: set[str] = set()
    real, before = torch.is_grad_enabled, functions()

    def noting() -> bool:
        asked.add(line_of_caller())
        return real()
    with exchanged(torch, "is_grad_enabled", noting), torch.enable_grad(), changed_where_held(
            step, before):
        wanted = _evaluated(step, tensors, sites)
    if not (lines := sorted(filter(None, asked))):
        return
    try:
        with torch.no_grad():
            without = _evaluated(step, tensors, sites)
    except RuntimeError:  # it computes gradients itself, so it is evaluated with them
        return
    for name, own in without.items():
        try:
            compare(f"the output {name}", own, wanted[name], OUTPUT_ERROR)
        except SelfCheckFailed:
            raise StateChanged(
                f"the output {name} of an evaluation is another one under torch.no_grad "
                f"(torch.is_grad_enabled at {', '.join(lines)}); ask self.training in place of it"
            ) from None


def _decide(compared: Callable[[Tensors, torch.dtype, float], None], state: State,
            tensors: Tensors) -> None:
    """Raises SelfCheckFailed if a comparison fails in fp32, and in double precision as well.

    A module that cannot be run in double precision is judged in fp32. Parameters may be so that a
    function is computed exactly where its slope jumps, for example `grid_sample` at the pixels
    themselves; there rounding decides about the gradient. So weights beside them must fail too.
    Parameters that are 0 stay 0: what a gradient is at 0 is no matter of rounding.
    """
    try:
        compared(tensors, torch.float32, 1.0)
        return
    except SelfCheckFailed as error:
        failed = error.with_traceback(None)  # which would keep the graph with its fp32 tensors
    doubled = {name: _doubled(tensor) for name, tensor in tensors.items()}
    with _in_double(state):
        try:
            compared(doubled, torch.float64, DOUBLE)
            return
        except SelfCheckFailed as error:
            failed = error.with_traceback(None)
        except Exception:  # torch has no common class for what it raises about types
            raise failed from None
        try:
            _move_aside(state)
            compared(doubled, torch.float64, DOUBLE)
        except SelfCheckFailed:
            raise failed from None


def _move_aside(state: State) -> None:
    """Multiplies every element of the parameters by 1 + ASIDE * n with normal numbers n."""
    generator = torch.Generator().manual_seed(1)
    for tied in state.parameters.values():
        tensor = tied.tensor.data
        tied.tensor.data = tensor * (1 + ASIDE * torch.randn(tensor.shape, generator=generator))


@contextlib.contextmanager
def _in_double(state: State) -> Iterator[None]:
    """Gives the parameters and buffers double precision; they stay the same objects."""
    tensors = state.originals()
    before = [(tensor.data, tensor.grad) for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
        tensor.data = _doubled(tensor.data)
    try:
        yield
    finally:
        for tensor, (data, gradient) in zip(tensors, before):
            tensor.grad = None
            tensor.data = data
            tensor.grad = gradient


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def has_gradients(step: Step, state: State, tensors: Tensors) -> set[str]:
    """The names of the parameters that get a gradient from torch, be it zero, and not None."""
    parameters = state.trainable()
    with SameDraws(), same_dropouts(step.model, exchanged):
        found = _gradients(step(*_copies(tensors))[0], list(parameters.values()))
    return {name for name, gradient in zip(parameters, found) if gradient is not None}


def _filled(found: list[torch.Tensor | None],
            parameters: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Gradients, with zeros where there is none."""
    return [torch.zeros_like(p) if gradient is None else gradient
            for gradient, p in zip(found, parameters.values())]


def _gradients(loss: torch.Tensor, parameters: list) -> list[torch.Tensor | None]:
    """The gradients of parameters, whose own `grad` stays as it is.

    Uses backward(), because a reentrant checkpoint does not allow autograd.grad.
    """
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        if loss.requires_grad:
            loss.backward()
        return [parameter.grad for parameter in parameters]
    finally:
        for parameter, gradient in zip(parameters, before):
            parameter.grad = gradient


def compare(what: str, own: torch.Tensor, theirs: torch.Tensor, allowed: float,
            reference: str = "the module", least: float = 1e-3) -> None:
    """Raises SelfCheckFailed if a value of the program is not that of the `reference`.

    `allowed` is the largest difference, as a part of the largest magnitude, or of `least` if that is
    more.
    """
    own, theirs = own.detach().double(), theirs.detach().double()
    if own.shape != theirs.shape:
        raise SelfCheckFailed(f"{what} has the shape {list(own.shape)}, but {reference} has "
                              f"{list(theirs.shape)}")
    same = (own == theirs) | (own.isnan() & theirs.isnan())
    error = torch.where(same, 0.0, (own - theirs).abs()).max() if own.numel() else torch.tensor(0.0)
    finite = theirs[theirs.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    if not float(error) <= allowed * max(scale, least):
        raise SelfCheckFailed(f"{what} differs from that of {reference} by {float(error):.3g}, "
                              f"where the largest magnitude is {scale:.3g}")
