"""The neutral form of a model file (proto/base/model_program.h explains every field).

A Program says what a model and its loss compute: values in single assignment, nodes in the order of
execution, and shapes of which one extent may be a multiple of the number of samples. It is plain
data; nothing here needs torch.
"""
from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .allowed import Allowed

FORMAT = 1
FORMAT_WITH_STATES = 2
FORMAT_WITH_LONGS = 3  # of programs with values i64, or with kinds of LONG_KINDS
FORMAT_WITH_UPDATES = 4  # of models with the updates of a captured optimizer
FORMAT_WITH_PROGRAMS = 5  # of models with further programs
FORMAT_WITH_REDUCTIONS = 6  # of models with numbers of lowered learning rates
LONG_KINDS = {"floor_div", "remainder", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right",
              "narrow"}
NO_VALUE = -1  # an optional input that a node does not have
STATE = "state."  # before the names of states in programs of updates
EVALUATED = "evaluated"  # the state that evaluations use in place of the parameter
NUMBER = "number."  # before the numbers of Program.numbers there
ZERO_LOSS = "zero_loss"  # the kind that is a term of the loss which is always 0

Attribute = bool | int | float | str | list[int] | list[float]
Json = dict[str, Any]

FP32 = np.dtype("<f4")
ARRAY_TYPE: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"), "i32": np.dtype("<i4"), "bool": np.dtype("<i4"), "i64": np.dtype("<i8")}


@dataclass(frozen=True)
class Dim:
    """One extent: `size`, or `size` times the number of samples in the mini-batch."""

    size: int
    per_batch: bool = False

    def at(self, batch: int) -> int:
        """The extent for a mini-batch of `batch` samples.

        >>> Dim(2, per_batch=True).at(8), Dim(2).at(8)
        (16, 2)
        """
        return self.size * batch if self.per_batch else self.size


@dataclass
class Value:
    """A tensor: `type` is "f32", "i32", "bool" or "i64", and `dims` is empty for a number."""

    type: str
    dims: list[Dim]

    def shape(self, batch: int) -> tuple[int, ...]:
        """The extents for a mini-batch of `batch` samples."""
        return tuple(dim.at(batch) for dim in self.dims)


@dataclass
class Input:
    """A field of a sample; integers are in [low, high].

    `allowed` says more about integers, by their places. It is known after a capture only; files have
    the ends of it.
    """

    name: str
    value: int
    low: int = 0
    high: int = 0
    allowed: Allowed | None = field(default=None, compare=False)


@dataclass
class Init:
    """Every element begins as `constant` + uniform(-`bound`, `bound`)."""

    constant: float = 0.0
    bound: float = 0.0


@dataclass
class Parameter:
    """A tensor of the state dict that nodes read; `aliases` are the other names of tied weights.
    Without `init` its initial value comes from a file of weights."""

    name: str
    value: int
    aliases: list[str] = field(default_factory=list)
    trainable: bool = True
    init: Init | None = None


@dataclass
class Statistic:
    """A running mean or variance of a batch norm, with `size` elements."""

    name: str
    size: int
    is_variance: bool = False


@dataclass
class State:
    """A tensor that a step writes and that every EST keeps for its next step; `value` is its content at
    the beginning of a step, and a node set_state gives it the next one."""

    name: str
    dtype: str  # in the state dict, as in safetensors
    value: int


@dataclass
class Buffer:
    """An entry of the state dict that training does not change."""

    name: str
    dtype: str  # as in safetensors
    shape: list[int]
    data: bytes  # little-endian, row-major


@dataclass
class Constant:
    """A value that is never trained; `array` has the type of ARRAY_TYPE and the value's shape."""

    name: str
    value: int
    array: np.ndarray


@dataclass
class Node:
    """An operator; `name` is the path of its module and `source` the user's line."""

    kind: str
    inputs: list[int]
    outputs: list[int]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    name: str = ""
    source: str = ""
    version: int = 1
    region: int = 0  # not 0: computed again in the backward pass, with the others of this number


@dataclass
class Output:
    """A named value that an evaluation returns."""

    name: str
    value: int


@dataclass
class Numbers:
    """What an optimizer computes of the number of the step alone: `values` are fp32, one for each
    global step of the job. The one at index n is that of the step which begins from version n. Those for a
    rate that evaluations have lowered once, twice, ... `reductions` times follow."""

    name: str
    values: np.ndarray
    reductions: int = 0

    def lowered(self, times: int) -> Numbers:
        """Those for the rate that was lowered so often."""
        rows = self.values.reshape(self.reductions + 1, -1)
        return Numbers(self.name, rows[min(times, self.reductions)])


@dataclass
class Phase:
    """From this step on, counted from 0, an update is the program of this index."""

    first_step: int
    program: int


@dataclass
class Update:
    """What a captured optimizer does with parameters of one shape, each by itself.

    Its `programs` have the parameters "parameter" (the content before the step), "gradient" (the mean
    of all ESTs, after the clipping of the job), "state.NAME" for every state and "number.K" for
    Program.numbers[K] of the model, in this order; and the outputs "parameter" and "state.NAME", the
    next contents. States begin as zeros, and all programs of an update have the same ones. `phases` says
    which program a step executes.
    """

    parameters: list[str]
    programs: list[Program]
    phases: list[Phase]

    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the states by their names."""
        first = self.programs[0]
        return {x.name.removeprefix(STATE): first.values[x.value].shape(1) for x in first.parameters
                if x.name.startswith(STATE)}


@dataclass
class Program:
    """A model with its loss; `loss` is the index of a value without dims.

    A captured optimizer is `updates`, of which exactly one names each trainable parameter, and the
    `numbers` that these read. `programs` are further ones of the same model, which share parameters,
    statistics and states with this one by name (proto/base/model_program.h): those of several losses, of
    which `every` says how often each, this one first, makes a step; or those of other lengths.
    """

    name: str = ""
    producer: str = ""
    format: int = FORMAT
    values: list[Value] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    statistics: list[Statistic] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    loss: int = NO_VALUE
    outputs: list[Output] = field(default_factory=list)
    numbers: list[Numbers] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    every: list[int] = field(default_factory=list)

    def kinds(self) -> set[str]:
        """The kinds of nodes that the program uses."""
        return {node.kind for node in self.nodes}

    def inputs_of_outputs(self) -> set[str]:
        """The names of the inputs on which an output depends; the others are targets."""
        needed = {output.value for output in self.outputs}
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
        return {x.name for x in self.inputs if x.value in needed}

    def reached(self) -> set[int]:
        """The values that the loss depends on by numbers: what is trained of the parameters."""
        reached = {self.loss}
        for node in reversed(self.nodes):
            real = node.kind == ZERO_LOSS or any(
                value in reached and self.values[value].type == "f32" for value in node.outputs)
            if real and node.kind != "stop_gradient":
                reached.update(node.inputs)
        return reached

    def zero_losses(self, values: Iterable[int]) -> None:
        """Adds terms of the loss that are 0 whatever these values are."""
        for value in values:
            self.values.append(Value("f32", []))
            self.nodes.append(Node(ZERO_LOSS, [value], [len(self.values) - 1]))

    def to_json(self) -> str:
        """The JSON form of proto/schema/model.capnp."""
        return json.dumps(self._tree())

    def _tree(self) -> Json:
        tree: Json = {
            "format": self.format, "producer": self.producer, "name": self.name,
            "values": [{"type": value.type, "dims": [
                {"size": dim.size, "perBatch": dim.per_batch} for dim in value.dims]}
                for value in self.values],
            "inputs": [{"name": x.name, "value": x.value, "low": x.low, "high": x.high}
                       for x in self.inputs],
            "parameters": [_parameter_json(x) for x in self.parameters],
            "statistics": [{"name": x.name, "size": x.size, "isVariance": x.is_variance}
                           for x in self.statistics],
            "buffers": [{"name": x.name, "dtype": x.dtype, "shape": x.shape,
                         "bytes": _base64(x.data)} for x in self.buffers],
            "constants": [{"name": x.name, "value": x.value, "words": _base64(x.array.tobytes())}
                          for x in self.constants],
            "nodes": [_node_json(node) for node in self.nodes],
            "loss": self.loss,
            "outputs": [{"name": x.name, "value": x.value} for x in self.outputs],
        }
        if self.states:
            tree["states"] = [vars(x) for x in self.states]
        if self.updates:
            tree["numbers"] = [{"name": x.name, "values": _base64(_fp32(x.values).tobytes())}
                               | ({"reductions": x.reductions} if x.reductions else {})
                               for x in self.numbers]
            tree["updates"] = [{
                "parameters": x.parameters, "programs": [program._tree() for program in x.programs],
                "phases": [{"firstStep": phase.first_step, "program": phase.program}
                           for phase in x.phases]} for x in self.updates]
        if self.programs:
            tree["programs"] = [program._tree() for program in self.programs]
        if self.every:
            tree["every"] = self.every
        return tree

    @staticmethod
    def from_json(text: str) -> Program:
        """The program that `to_json` has written."""
        return Program._from_tree(json.loads(text))

    @staticmethod
    def _from_tree(tree: Json) -> Program:
        values = [Value(x["type"], [Dim(int(dim["size"]), dim["perBatch"]) for dim in x["dims"]])
                  for x in tree["values"]]
        return Program(
            name=tree["name"], producer=tree["producer"], format=tree["format"], values=values,
            inputs=[Input(**x) for x in tree["inputs"]],
            parameters=[_parameter_from_json(x) for x in tree["parameters"]],
            statistics=[Statistic(x["name"], int(x["size"]), x["isVariance"])
                        for x in tree["statistics"]],
            states=[State(**x) for x in tree.get("states", [])],
            buffers=[Buffer(x["name"], x["dtype"], [int(n) for n in x["shape"]],
                            base64.b64decode(x["bytes"])) for x in tree["buffers"]],
            constants=[_constant_from_json(x, values[x["value"]]) for x in tree["constants"]],
            nodes=[_node_from_json(x) for x in tree["nodes"]],
            loss=tree["loss"], outputs=[Output(**x) for x in tree["outputs"]],
            numbers=[Numbers(x["name"], np.frombuffer(base64.b64decode(x["values"]), FP32),
                             x.get("reductions", 0))
                     for x in tree.get("numbers", [])],
            updates=[Update(x["parameters"], [Program._from_tree(y) for y in x["programs"]],
                            [Phase(int(y["firstStep"]), y["program"]) for y in x["phases"]])
                     for x in tree.get("updates", [])],
            programs=[Program._from_tree(x) for x in tree.get("programs", [])],
            every=tree.get("every", []))


def _fp32(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, FP32)


def _parameter_json(x: Parameter) -> Json:
    tree: Json = {"name": x.name, "aliases": x.aliases, "value": x.value, "trainable": x.trainable}
    if x.init is not None:
        tree["init"] = {"constant": x.init.constant, "bound": x.init.bound}
    return tree


def _parameter_from_json(tree: Json) -> Parameter:
    init = tree.pop("init", None)
    return Parameter(**tree, init=None if init is None else Init(**init))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _attribute_json(name: str, value: Attribute) -> Json:
    if isinstance(value, bool):
        return {"name": name, "flag": value}
    if isinstance(value, int):
        return {"name": name, "integer": value}
    if isinstance(value, float):
        return {"name": name, "number": _number_json(value)}
    if isinstance(value, str):
        return {"name": name, "text": value}
    if any(isinstance(x, float) for x in value):
        return {"name": name, "numbers": [_number_json(float(x)) for x in value]}
    return {"name": name, "integers": list(value)}


def _number_json(value: float) -> float | str:
    """JSON has no infinity; the codec of capnp writes it as a string."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


READ_ATTRIBUTE: dict[str, Callable[[Any], Attribute]] = {
    "flag": bool, "integer": int, "number": float, "text": str,
    "integers": lambda xs: [int(x) for x in xs], "numbers": lambda xs: [float(x) for x in xs]}


def _attribute_from_json(tree: Json) -> Attribute:
    (member,) = tree.keys() - {"name"}
    return READ_ATTRIBUTE[member](tree[member])


def _node_json(node: Node) -> Json:
    return {"kind": node.kind, "version": node.version, "name": node.name, "inputs": node.inputs,
            "outputs": node.outputs, "source": node.source, "region": node.region,
            "attributes": [_attribute_json(name, node.attributes[name])
                           for name in sorted(node.attributes)]}


def _node_from_json(tree: Json) -> Node:
    attributes = {x["name"]: _attribute_from_json(x) for x in tree["attributes"]}
    return Node(tree["kind"], tree["inputs"], tree["outputs"], attributes, tree["name"],
                tree["source"], tree["version"], tree["region"])


def _constant_from_json(tree: Json, value: Value) -> Constant:
    flat = np.frombuffer(base64.b64decode(tree["words"]), ARRAY_TYPE[value.type])
    return Constant(tree["name"], tree["value"], flat.reshape([dim.size for dim in value.dims]))
