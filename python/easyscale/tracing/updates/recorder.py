"""Records the steps of an optimizer as calls of aten operators, one tape for each parameter.

The parameters and gradients are tensors without contents. What no such tensor influences is computed
for real: the number of the step, bias corrections, learning rates. Where such a number is an argument of
an operator on a tensor, the tape has a mark and the number is noted beside it, so that two steps that
differ in numbers only have one structure.
"""
from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..graph import Meta, meta_of
from ..schema import viewed_argument
from .copies import is_uniform
from .errors import ADVICE, OptimizerRefused, place
from .scalars import DECIDING, decides, number_of



class Key(str):
    """The name of an argument in a call, before its value."""


NUMBER = "#"
CONSTANT, UNIFORM = "constant", "uniform"  # in place of an operator: tensors that are no results
CHOICE = "choice"  # so too: a branch on the content of a tensor, and which one was taken
CHOICES_MAX = 16
FIRST = 1000  # the first value of a tape that is no input
PARAMETER, GRADIENT = 0, 1
# A value of a tape as an argument.
VALUES = [f"%{i}" for i in range(20_000)]
NUMERIC = {"number", "Tensor", "float", "Optional[number]", "Optional[Tensor]", "Optional[float]"}
LOW = {torch.bfloat16, torch.float16}
ITEM = "aten._local_scalar_dense.default"
DECIDED = {"aten.equal.default", "aten.is_nonzero.default", "aten.nonzero.default",
           "aten.masked_select.default", "aten.allclose.default"}
META, CPU = torch.device("meta"), torch.device("cpu")


@dataclass
class Structure:
    """What a step does with one parameter, without numbers. `calls` are tuples of an operator and its
    arguments in the order of its schema, and `kept` the values of what is kept, by their names."""

    calls: list[tuple]
    kept: tuple[tuple[str, int], ...]
    metas: list[list[Meta]] = field(default_factory=list)  # of the results of the calls
    inputs: dict[str, int] = field(default_factory=dict)
    input_metas: dict[int, Meta] = field(default_factory=dict)
    pools: list[Pool | None] = field(default_factory=list)
    choices: list[bool] = field(default_factory=list)
    marks: int = 0  # the numbers beside the calls
    # If the step branches on the content of a tensor: what it does on all paths.
    paths: list[Structure] = field(default_factory=list)

    def is_same(self, calls: list[tuple], kept: tuple) -> bool:
        return self.kept == kept and self.calls == calls


@dataclass
class Tape:
    """The calls of one parameter in the step that is recorded."""

    calls: list[tuple] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    results: list[tuple] = field(default_factory=list)
    count: int = FIRST
    names: dict[str, int] = field(default_factory=lambda: {"parameter": PARAMETER, "gradient": GRADIENT})
    expected: list[tuple] = field(default_factory=list)  # the calls that this step probably has
    pools: list[Any] = field(default_factory=list)       # results of these calls
    follows: bool = True  # all calls until now were the expected ones
    wanted: list[bool] = field(default_factory=list)   # the first branches that are to be taken
    choices: list[bool] = field(default_factory=list)  # those that were taken


@dataclass
class Recorded:
    """What a step does with one parameter; `paths` if it branches on the content of a tensor."""

    calls: list[tuple]
    numbers: list[float]
    kept: tuple[tuple[str, int], ...]
    paths: list[Structure] = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    """What an operator does with its arguments, by its schema."""

    name: str
    names: tuple[str, ...]
    numeric: tuple[bool, ...]
    written: int  # the place of the argument that is written; -1 for none
    special: bool  # it is not recorded as it is
    each: bool     # it takes lists of tensors, and does the same with each of them


@lru_cache(maxsize=None)
def rule_of(func: Any) -> Rule:
    """The rule of an operator."""
    arguments, name = func._schema.arguments, str(func)
    written = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    special = (is_random(func) or name in DECIDED or name == ITEM
               or any(arguments[i].kwarg_only for i in written))
    return Rule(name, tuple(a.name for a in arguments),
                tuple(str(a.type) in NUMERIC for a in arguments), written[0] if written else -1, special,
                name.startswith("aten._foreach_"))


def is_random(func: Any) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags


class Pool:
    """The results of a call in earlier steps. One that nothing else holds is used again in place of a new
    one, which spares the computation of its shape."""

    def __init__(self, results: tuple):
        self.held = [results[0]]

    def free(self) -> Tensor | None:
        """A result that nothing else holds; None if there is none."""
        for tensor in self.held:
            if sys.getrefcount(tensor) <= UNUSED:
                return tensor
        return None


UNUSED = 10**9
_pool = Pool((torch.empty(0),))
UNUSED = next(n for n in range(10) if (globals().update(UNUSED=n), _pool.free())[1] is not None)


class Recorder(TorchDispatchMode):
    """Records what happens in it. `stand_ins` are used in place of the user's own tensors."""

    def __init__(self, count: int, stand_ins: dict[int, Tensor]):
        super().__init__()
        self.tapes = [Tape() for _ in range(count)]
        self.stand_ins = stand_ins
        self.known: dict[int, tuple[int, int, Tensor]] = {}  # id -> tape, value, the tensor
        self.shadows: dict[int, tuple[Tensor, Tensor]] = {}  # of real tensors: id -> itself, without contents
        self.constants: dict[str, Tensor] = {}
        self.lines: dict[str, str] = {}
        self.ignored = -1  # tapes of tensors that belong to no parameter of these

    def begin(self) -> None:
        """Begins a step."""
        self.known = {}
        for tape in self.tapes:
            tape.calls, tape.numbers, tape.results, tape.count = [], [], [], FIRST
            tape.follows, tape.choices = True, []

    def bind(self, owner: int, name: str, tensor: Tensor) -> None:
        """Gives a tensor that is there at the beginning of a step its name."""
        names = self.tapes[owner].names
        value = names.get(name)
        if value is None:
            value = names[name] = len(names)
        self.known[id(tensor)] = (owner, value, tensor)

    def kept(self, tensors: Iterable[tuple[str, Tensor]]) -> list[dict[str, tuple[int, Tensor]]]:
        """What is kept of these at the end of a step, for each tape: the value and the tensor by name."""
        found: list[dict[str, tuple[int, Tensor]]] = [{} for _ in self.tapes]
        for name, tensor in tensors:
            shadow = self.shadows.get(id(tensor))
            at = self.known.get(id(tensor if shadow is None else shadow[1]))
            if at is not None and at[0] >= 0 and at[1] != PARAMETER:
                entries, name_ = found[at[0]], name or "state"
                if all(entry[0] != at[1] or entry[1] is not at[2] for entry in entries.values()):
                    entries.setdefault(name_, (at[1], at[2]))
        return found

    def __enter__(self) -> Recorder:
        DECIDING.append(self._decided)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        DECIDING.pop()
        super().__exit__(*error)

    def _decided(self, tensor: Tensor) -> bool:
        """Which branch is taken: that which is wanted, or else that of true."""
        owner, value, _ = self.known[id(tensor)]
        if owner < 0:
            return True
        tape = self.tapes[owner]
        at = len(tape.choices)
        if at == CHOICES_MAX:
            raise OptimizerRefused(f"the step{place()} branches on the contents of tensors more than "
                                   f"{CHOICES_MAX} times, as a loop until something is small; {ADVICE}")
        choice = tape.wanted[at] if at < len(tape.wanted) else True
        tape.choices.append(choice)
        tape.calls.append((tape.count, CHOICE, VALUES[value], choice))
        tape.results.append(())
        tape.follows = False
        return choice

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if rule_of(func).each:
            with self:
                return _each(func, args, kwargs or {})
        owner = self._owner(args, None)
        if kwargs:
            owner = self._owner(kwargs.values(), owner)
        else:
            kwargs = {}
        if owner is not None:
            return self._recorded(func, owner, args, kwargs)
        if kwargs.get("device") == META:
            kwargs = {**kwargs, "device": CPU}
        if is_random(func):
            raise self._draws(func)
        return func(*args, **kwargs)

    def _owner(self, args: Iterable, owner: int | None) -> int | None:
        """The tape of the tensors in these arguments, if it is that of others too; None for none."""
        for arg in args:
            at = self.known.get(id(arg))
            if at is None:
                if isinstance(arg, Tensor):
                    tensor = self._own(arg)
                    if not tensor.is_meta:
                        continue
                    at = self.known.get(id(tensor))
                    if at is None:
                        raise OptimizerRefused(
                            f"the step{place()} reads a tensor of an earlier step that is kept in no "
                            "place which a capture sees: keep it in self.state[p], in an attribute "
                            "of the optimizer or in its groups")
                elif isinstance(arg, torch.SymFloat):
                    at = self.known[id(arg.node.content)]
                elif isinstance(arg, (list, tuple)) and arg and not isinstance(arg[0], (int, float)):
                    owner = self._owner(arg, owner)
                    continue
                else:
                    continue
            if owner is not None and owner != at[0]:
                raise OptimizerRefused(
                    f"the step{place()} computes with the tensors of several parameters, as a norm of all "
                    "gradients does; each parameter is updated by itself, so leave clipping to the job "
                    "(clip_norm) and keep other sums out")
            owner = at[0]
        return owner

    def _own(self, tensor: Tensor) -> Tensor:
        """The tensor without contents that stands for a tensor, or itself."""
        if tensor.is_meta:
            return tensor
        key = id(tensor)
        if key in self.stand_ins:
            stand_in = self.stand_ins[key]
            if id(stand_in) not in self.known:
                self.ignored -= 1
                self.known[id(stand_in)] = (self.ignored, PARAMETER, stand_in)
            return stand_in
        shadow = self.shadows.get(key)
        return tensor if shadow is None else shadow[1]

    def with_gradient(self, tensor: Tensor) -> Tensor:
        """The parameter without contents that stands for a tensor, with a gradient, or the tensor itself."""
        if tensor.is_meta or id(tensor) not in self.stand_ins:
            return tensor
        stand_in = self._own(tensor)
        owner = self.known[id(stand_in)][0]
        if owner < 0:
            stand_in.grad = torch.empty_like(stand_in) if stand_in.grad is None else stand_in.grad
            self.known.setdefault(id(stand_in.grad), (owner, GRADIENT, stand_in.grad))
        return stand_in

    def _recorded(self, func: Any, owner: int, args: tuple, kwargs: dict) -> Any:
        rule = rule_of(func)
        if rule.name not in self.lines:
            self.lines[rule.name] = place()
        if rule.special:
            return self._special(func, rule, args, kwargs)
        tape = self.tapes[owner] if owner >= 0 else Tape()
        call: list = [tape.count, func]
        given = [self._argument(arg, rule.numeric[i], i == rule.written, owner, tape, call)
                 for i, arg in enumerate(args)]
        named = {}
        for key in kwargs:
            i = rule.names.index(key)
            call.append(Key(key))
            named[key] = self._argument(kwargs[key], rule.numeric[i], i == rule.written, owner, tape, call)
        call[0] = first = tape.count
        at = len(tape.calls)
        expected = tape.expected
        done = tuple(call)
        tape.follows = tape.follows and at < len(expected) and expected[at] == done
        if tape.follows:
            if rule.written >= 0:
                tape.calls.append(done)
                tape.results.append((given[rule.written],))
                tape.count = first + 1
                return args[rule.written]
            pool = tape.pools[at]
            result = pool.free() if pool is not None else None
            if result is not None:
                self.known[id(result)] = (owner, first, result)
                tape.calls.append(done)
                tape.results.append((result,))
                tape.count = first + 1
                return result
        try:
            results = func(*given, **named)
        except NotImplementedError as error:
            if "nonzero" in str(error):  # the elements that a mask chooses
                raise decides() from error
            raise
        outputs = results if isinstance(results, (list, tuple)) else (results,)
        for result in outputs:
            if isinstance(result, Tensor):
                if not any(result is x for x in given):
                    self.known[id(result)] = (owner, tape.count, result)
                tape.count += 1
        if tape.follows and tape.pools[at] is not None:
            tape.pools[at].held.append(results)
        tape.calls.append(done)
        tape.results.append(outputs)
        return args[rule.written] if rule.written >= 0 else results

    def _special(self, func: Any, rule: Rule, args: tuple, kwargs: dict) -> Any:
        """What an operator is in other operators."""
        if is_random(func):
            raise self._draws(func)
        if rule.name in DECIDED:
            raise decides()
        with self:
            if rule.name == ITEM and args[0].dtype == torch.bool:
                return self._decided(self._own(args[0]))
            if rule.name == ITEM:
                if not args[0].is_floating_point():
                    raise decides()
                return number_of(args[0])
            return _into(func, args, kwargs)

    def expect(self, owner: int, structure: Structure) -> None:
        """Says what the next step of a tape probably is. Its results in the step that was recorded are
        used again in later ones."""
        tape = self.tapes[owner]
        tape.expected = structure.calls
        tape.pools = structure.pools

    def _argument(self, arg: Any, numeric: bool, written: bool, owner: int, tape: Tape,
                  call: list) -> Any:
        """An argument as the operator on tensors without contents takes it; notes it in `call`."""
        at = self.known.get(id(arg))
        if at is not None:
            call.append(VALUES[at[1]])
            return arg
        kind, numbers = type(arg), tape.numbers
        if isinstance(arg, Tensor):
            tensor = self._own(arg)
            if not tensor.is_meta:
                if not written and arg.numel() == 1 and arg.is_floating_point():
                    call.append(NUMBER)
                    numbers.append(arg.item())
                    return arg.detach().reshape(()) if arg.dim() else arg
                if not written and arg.numel() == 1 and numeric and arg.dim() == 0:
                    call.append(NUMBER)
                    numbers.append(arg.item())
                    return arg
                tensor = self._shadowed(arg, owner, tape)
            call.append(VALUES[self.known[id(tensor)][1]])
            return tensor
        if kind is float or (kind is int and numeric):
            call.append(NUMBER)
            numbers.append(arg)
            return arg
        if kind is torch.SymFloat:
            call.append(VALUES[self.known[id(arg.node.content)][1]])
            return 1.0
        if kind is list or kind is tuple:
            part: list = []
            given = [self._argument(x, False, False, owner, tape, part) for x in arg]
            call.append(tuple(part))
            return given
        if kind is torch.dtype and arg in LOW:
            call.append(torch.float32)
            return torch.float32
        if kind is torch.device:
            call.append(None)
            return META
        call.append(arg)
        return arg

    def _shadowed(self, real: Tensor, owner: int, tape: Tape) -> Tensor:
        """A tensor without contents that stands for a real one from here on. Its content is a constant, or
        one number everywhere."""
        content = real.detach()
        if content.dtype == torch.float32 and is_uniform(content):
            call: tuple = (tape.count, UNIFORM, tuple(content.shape), NUMBER)
            tape.numbers.append(content.reshape(-1)[0].item())
        else:
            key = hashlib.sha256(content.contiguous().reshape(-1).view(torch.uint8).numpy()).hexdigest()
            self.constants.setdefault(key, content.clone())
            call = (tape.count, CONSTANT, key)
        shadow = torch.empty(content.shape, dtype=content.dtype, device="meta")
        self.shadows[id(real)] = (real, shadow)
        self.known[id(shadow)] = (owner, tape.count, shadow)
        tape.calls.append(call)
        tape.results.append((shadow,))
        tape.count += 1
        return shadow

    def recorded(self, kept: list[dict[str, tuple[int, Tensor]]]) -> list[Recorded]:
        """What the step that was recorded does with each parameter."""
        return [Recorded(tape.calls, tape.numbers, tuple((name, value) for name, (value, _) in own.items()))
                for tape, own in zip(self.tapes, kept)]

    def _draws(self, func: Any) -> OptimizerRefused:
        return OptimizerRefused(f"the step{place()} draws random numbers ({func}); {ADVICE}")

    def finish(self, owner: int, kept: dict[str, tuple[int, Tensor]]) -> Structure:
        """The structure of the step that was recorded, with its metas."""
        tape = self.tapes[owner]
        return Structure(tape.calls, tuple((name, value) for name, (value, _) in kept.items()),
                         [[meta_of(x) for x in results if isinstance(x, Tensor)] for results in tape.results],
                         {name: value for name, value in tape.names.items()},
                         {value: meta_of(tensor) for at, value, tensor in self.known.values()
                          if at == owner and value < FIRST},
                         [Pool(results) if len(results) == 1 and not isinstance(call[1], str)
                          and viewed_argument(str(call[1])) is None else None
                          for call, results in zip(tape.calls, tape.results)],
                         list(tape.choices), len(tape.numbers))


def _each(func: Any, args: tuple, kwargs: dict) -> Any:
    """An operator on lists of tensors, one by one."""
    name = func._schema.name.split("::")[1].removeprefix("_foreach_")
    lists = [arg for arg in args if isinstance(arg, (list, tuple))]
    count = len(lists[0])

    def at(arg: Any, i: int) -> Any:
        return arg[i] if isinstance(arg, (list, tuple)) and len(arg) == count else arg
    extra = [key for key in ("scalars", "scalar") if key in kwargs]
    results = []
    for i in range(count):
        given = [at(arg, i) for arg in args]
        named = {key: at(arg, i) for key, arg in kwargs.items()}
        for key in extra:
            given.append(named.pop(key))
        results.append(_single(name, given, named))
    return None if name.endswith("_") else results


def _single(name: str, given: list, named: dict) -> Any:
    plain = name.rstrip("_")
    if plain in ("addcmul", "addcdiv") and len(given) == 4:
        named["value"] = given.pop()
    if plain == "norm":
        return torch.linalg.vector_norm(given[0], given[1] if len(given) > 1 else 2)
    if plain in ("maximum", "minimum", "clamp_max", "clamp_min") and not isinstance(given[1], Tensor):
        plain = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(plain, plain)
    if plain in ("maximum", "minimum") and name.endswith("_"):
        return given[0].copy_(getattr(torch, plain)(*given))
    own = f"{plain}_" if name.endswith("_") else plain
    function: Callable = getattr(given[0], own) if hasattr(given[0], own) else getattr(torch, own)
    return function(*given[1:], **named) if hasattr(given[0], own) else function(*given, **named)


def _into(func: Any, args: tuple, kwargs: dict) -> Any:
    """An operator with the argument out."""
    given = {key: value for key, value in kwargs.items() if key != "out"}
    packet = getattr(torch.ops.aten, str(func).split(".")[1])
    wanted = [(a.name, str(a.type)) for a in func._schema.arguments if a.name != "out"]
    for overload in map(packet.__getattr__, packet.overloads()):
        if [(a.name, str(a.type)) for a in overload._schema.arguments] == wanted:
            return kwargs["out"].copy_(overload(*args, **given))
    raise OptimizerRefused(f"the step{place()} writes the result of {func} into a tensor; assign it")
