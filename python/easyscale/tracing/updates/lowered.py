"""From the structure of a step to a program of an update."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...program import NUMBER as NUMBERED
from ...program import STATE, Constant, Dim, Node, Output, Parameter, Program, Value
from ..decompose import decompose
from ..errors import CaptureError, UnsupportedOperators
from ..functional import make_functional
from ..graph import Graph, Meta, Ref, remove_unused
from ..graph import Node as GraphNode
from ..lower.builder import Builder, Operand, Val
from ..merge import Lowering
from ..schema import named_arguments
from .errors import OptimizerRefused
from .numbers import replace_numbers
from .recorder import CHOICE, CONSTANT, NUMBER, UNIFORM, Key, Recorder, Structure

FILLED = {"zeros_like": 0, "ones_like": 1, "full_like": None, "empty_like": 0, "new_zeros": 0,
          "new_ones": 1, "new_full": None, "new_empty": 0, "zeros": 0, "ones": 1, "full": None,
          "empty": 0, "new_empty_strided": 0, "empty_strided": 0}
ELEMENTWISE = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt",
               "ge", "and", "or", "where"}
FOLDED = ELEMENTWISE | {"add_scalar", "mul_scalar", "pow_scalar", "sqrt", "rsqrt", "reciprocal", "neg",
                         "abs", "square", "sign", "exp", "log", "not", "cast", "clamp"}


class UpdateBuilder(Builder):
    """A builder without gradients, in which a constant of one number has no dims."""

    def emit(self, kind: str, *inputs: Operand | None, shape: tuple[int, ...] | None = None,
             **attributes: Any) -> Operand:
        if kind == "stop_gradient":
            return inputs[0]
        given = [_narrow(x) for x in inputs]
        if given and all(isinstance(x, torch.Tensor) for x in given):
            if kind in FOLDED and not any(x.dim() for x in given):
                one = super().emit(kind, *given, shape=shape, **attributes)
                return one.expand(torch.broadcast_shapes(*(x.shape for x in inputs)))
            if kind in ("reshape", "expand") and not given[0].dim():
                return given[0].expand(shape)
            return super().emit(kind, *inputs, shape=shape, **attributes)
        if kind in ELEMENTWISE:
            whole = torch.broadcast_shapes(*(tuple(x.shape) for x in inputs))
            if any(isinstance(x, Val) and x.shape == whole for x in given):
                if kind == "add" and (term := next((x for x in given if _is(x, 0)), None)) is not None:
                    return given[0] if term is given[1] else given[1]
                if kind == "mul" and (term := next((x for x in given if _is(x, 1)), None)) is not None:
                    return given[0] if term is given[1] else given[1]
                inputs = tuple(given)
        return super().emit(kind, *inputs, shape=shape, **attributes)

    def value(self, x: Any) -> Val:
        one = _narrow(x)
        if isinstance(one, torch.Tensor) and isinstance(x, torch.Tensor) and one.dim() < x.dim():
            ones = one.reshape((1,) * x.dim())
            whole = super().value(ones)
            return whole if tuple(x.shape) == whole.shape else super().emit(
                "expand", whole, shape=tuple(x.shape))
        return super().value(x)


def _narrow(x: Any) -> Any:
    """A constant of one number without its dims; all else as it is."""
    if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.numel() == 0:
        return x
    if any(x.stride(i) and x.shape[i] > 1 for i in range(x.dim())):
        flat = x.reshape(-1)
        if x.numel() < 2 or not bool((flat == flat[0]).all()):
            return x
    return x[(0,) * x.dim()]


def _is(x: Any, number: float) -> bool:
    return isinstance(x, torch.Tensor) and x.dim() == 0 and x.dtype != torch.bool and x.item() == number


@dataclass
class Lowered:
    """A step as values of a builder: what is read and what is kept, by name."""

    builder: UpdateBuilder
    inputs: dict[str, Val]
    numbers: dict[int, Val]
    outputs: dict[str, Val]

    def read(self, names: set[str]) -> set[str]:
        """The names of the inputs that these outputs depend on."""
        needed = self._needed(names)
        return {name for name, val in self.inputs.items() if val.id in needed}

    def _needed(self, names: set[str]) -> set[int]:
        needed = {self.outputs[name].id for name in names if name in self.outputs}
        for node in reversed(self.builder.nodes):
            if node.output in needed:
                needed.update(node.inputs)
        return needed

    def program(self, name: str, states: dict[str, Meta]) -> Program:
        """The program of an update with these states."""
        wanted = {"parameter", *states}
        needed = self._needed(wanted)
        program = Program(name=name)
        numbers: dict[int, int] = {}

        def add(type_: str, shape: tuple[int, ...], key: int | None = None) -> int:
            program.values.append(Value(type_, [Dim(size) for size in shape]))
            if key is not None:
                numbers[key] = len(program.values) - 1
            return len(program.values) - 1
        given: dict[str, int] = {}
        for input_ in ("parameter", "gradient", *states):
            val = self.inputs.get(input_)
            meta = states.get(input_)
            shape = val.shape if val is not None else meta.shape
            given[input_] = add("f32", shape, None if val is None else val.id)
            full = input_ if input_ in ("parameter", "gradient") else STATE + input_
            program.parameters.append(Parameter(full, given[input_], trainable=False))
        for number, val in sorted(self.numbers.items()):
            if val.id in needed:
                program.parameters.append(Parameter(f"number.{number}", add("f32", (), val.id),
                                                    trainable=False))
        for value, array in self.builder.constants.items():
            if value in needed:
                at = add(self.builder.values[value].type, array.shape, value)
                program.constants.append(Constant(f"constant{at}", at, array))
        for node in self.builder.nodes:
            if node.output in needed:
                val = self.builder.values[node.output]
                inputs = [-1 if i < 0 else numbers[i] for i in node.inputs]
                program.nodes.append(Node(node.kind, inputs, [add(val.type, val.shape, val.id)],
                                          node.attributes, node.path, node.source))
        program.outputs = [Output(
            out if out == "parameter" else STATE + out,
            numbers[self.outputs[out].id] if out in self.outputs else given[out])
            for out in ("parameter", *states)]
        return program


def lower(structure: Structure, numbers: list[Any], recorder: Recorder) -> Lowered:
    """Lowers a step. `numbers` are what stands at the marks: a Python number, or a Ref to the number of
    the model at that index."""
    lowered = Lowered(UpdateBuilder(), {}, {}, {})
    paths, rest = [], iter(numbers)
    for path in structure.paths or [structure]:
        marks = [next(rest) for _ in range(path.marks)]
        paths.append((path.choices, *_lower_path(path, marks, recorder, lowered)))
    lowered.outputs = {name: lowered.builder.value(x)
                       for name, x in _joined(lowered.builder, paths, 0).items()}
    return lowered


Path = tuple[list[bool], list[Operand], dict[str, Operand]]  # choices, conditions, what is kept


def _joined(builder: UpdateBuilder, paths: list[Path], depth: int) -> dict[str, Operand]:
    """What is kept, chosen by the conditions of the branches from this one on."""
    if len(paths) == 1:
        return paths[0][2]
    condition = paths[0][1][depth]
    yes, no = (_joined(builder, [path for path in paths if path[0][depth] == choice], depth + 1)
               for choice in (True, False))
    return {name: x if x is no[name] else builder.emit("where", condition, x, no[name])
            for name, x in yes.items()}


def _lower_path(structure: Structure, numbers: list[Any], recorder: Recorder,
                lowered: Lowered) -> tuple[list[Operand], dict[str, Operand]]:
    """Lowers one path of a step: the conditions of its branches and what is kept."""
    graph, by_number = _graph(structure, numbers, recorder)
    builder, metas = lowered.builder, graph.metas
    try:
        replace_numbers(graph)
        _fill(graph)
        decompose(graph)
        make_functional(graph, set(), set())
        remove_unused(graph)
        _fill(graph)
        remove_unused(graph)
        for name, value in graph.inputs.items():
            if name.startswith(NUMBERED):
                lowered.numbers.setdefault(int(name.removeprefix(NUMBERED)), builder.new_value((), "f32"))
            elif name not in lowered.inputs:
                lowered.inputs[name] = builder.new_value(metas[value].shape, "f32")
        named = lowered.inputs | {f"{NUMBERED}{k}": val for k, val in lowered.numbers.items()}
        results = Lowering(builder, graph, None, named, {}, {}).run()
        builder.node = None
    except UnsupportedOperators as error:
        first = error.missing[0]
        raise OptimizerRefused(f"{first.operator}: {first.reason}" + (
            f" ({first.source})" if first.source else "")) from error
    except OptimizerRefused:
        raise
    except CaptureError as error:
        raise OptimizerRefused(str(error)) from error
    names = ["parameter", *(name for name, _ in structure.kept)]
    kept = {name: builder.cast(x, "f32") for name, x in zip(names, results)}
    return results[len(names):], kept


def _graph(structure: Structure, numbers: list[Any],
           recorder: Recorder) -> tuple[Graph, dict[int, int]]:
    graph, values, by_number = Graph(), {}, {}
    marks, conditions = iter(numbers), []
    for name, value in structure.inputs.items():
        meta = structure.input_metas.get(value)
        if meta is not None:
            values[value] = graph.new_value(meta)
            graph.inputs[name] = values[value]

    def argument(arg: Any) -> Any:
        if arg is NUMBER or (isinstance(arg, str) and arg == NUMBER):
            found = next(marks)
            if not isinstance(found, Ref):
                return found
            if found.id not in by_number:
                by_number[found.id] = graph.new_value(Meta((), torch.float32))
                graph.inputs[f"{NUMBERED}{found.id}"] = by_number[found.id]
            return Ref(by_number[found.id])
        if isinstance(arg, str) and arg.startswith("%"):
            return Ref(values[int(arg[1:])])
        if isinstance(arg, tuple):
            return [argument(x) for x in arg]
        return arg
    for (first, func, *rest), metas in zip(structure.calls, structure.metas):
        outputs = []
        for i, meta in enumerate(metas):
            values[first + i] = graph.new_value(meta)
            outputs.append(values[first + i])
        if func == CONSTANT:
            graph.constants[outputs[0]] = recorder.constants[rest[0]]
            continue
        if func == CHOICE:
            conditions.append(argument(rest[0]))
            continue
        if func == UNIFORM:
            number = argument(rest[1])
            if isinstance(number, Ref):
                graph.nodes.append(GraphNode("aten.expand.default", {
                    "self": number, "size": list(rest[0]), "implicit": False}, outputs))
            else:
                graph.constants[outputs[0]] = torch.tensor(number).expand(rest[0])
            continue
        args, named, key = [], {}, None
        for arg in rest:
            if key is not None:
                named[key], key = argument(arg), None
            elif isinstance(arg, Key):
                key = str(arg)
            else:
                args.append(argument(arg))
        line = recorder.lines.get(str(func), "")
        node = GraphNode(str(func), named_arguments(func, tuple(args), named), outputs,
                         source=line.removeprefix(" at "))
        _give_dims(graph, node, func)
        graph.nodes.append(node)
    kept = [Ref(values[value]) for _, value in structure.kept]
    graph.outputs = [Ref(values[0]), *kept, *conditions]
    return graph, by_number


def _give_dims(graph: Graph, node: GraphNode, func: Any) -> None:
    """Numbers become tensors where no lowering takes a number: the values of an assignment."""
    if node.target.split(".")[1].rstrip("_") not in ("index_put", "copy", "slice_scatter", "cat", "stack"):
        return
    for a in func._schema.arguments:
        value = node.args.get(a.name)
        if str(a.type) == "Tensor" and isinstance(value, (int, float)):
            meta = Meta((), graph.metas[node.outputs[0]].dtype)
            at = graph.new_value(meta)
            graph.constants[at] = torch.tensor(value, dtype=meta.dtype)
            node.args[a.name] = Ref(at)


def _fill(graph: Graph) -> None:
    """Tensors of one number become constants that take no memory."""
    kept = []
    for node in graph.nodes:
        name = node.target.split(".")[1]
        if name in FILLED:
            number = node.args.get("fill_value", FILLED[name])
            if isinstance(number, Ref) and number.id in graph.constants:
                number = graph.constants[number.id].item()
            if not isinstance(number, Ref):
                meta = graph.metas[node.outputs[0]]
                graph.constants[node.outputs[0]] = torch.tensor(number, dtype=meta.dtype).expand(meta.shape)
                continue
        kept.append(node)
    graph.nodes = kept
