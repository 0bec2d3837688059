"""From a module to the neutral graph by torch.export. The only place that knows its versions."""
from __future__ import annotations

import operator
import re
import traceback
from typing import Any

import torch
from torch import nn

from .errors import KEPT, TRAINED, CaptureError, DataDependent, ExportFailed, StateChanged
from .graph import Graph, Meta, Node, Ref, meta_of
from .lines import line_of, line_of_node
from .recurrent_calls import REAL_NAMES
from .regions import MARK
from .schema import named_arguments
from .rewrites import SORTED_MAX
from .sites import draws

DATA_DEPENDENT = ("GuardOnDataDependent", "DataDependentOutput", "data-dependent",
                  "Could not guard", "Could not extract specialized integer")
# These give a tensor other axes and write none of its elements, so they are views of it.
TURNS = {"aten.transpose_.default": "aten.transpose.int", "aten.t_.default": "aten.t.default",
         "aten.swapaxes_.default": "aten.swapaxes.default",
         "aten.swapdims_.default": "aten.swapdims.default",
         "aten.unsqueeze_.default": "aten.unsqueeze.default",
         "aten.squeeze_.default": "aten.squeeze.default", "aten.squeeze_.dim": "aten.squeeze.dim",
         "aten.squeeze_.dims": "aten.squeeze.dims"}
IGNORED = {"aten._assert_async.msg", "aten._assert_tensor_metadata.default",
           "aten._assert_scalar.default", "aten.sym_constrain_range_for_size.default",
           "aten.sym_constrain_range.default", "profiler._record_function_enter_new.default"}


def read(step: nn.Module, arguments: list[torch.Tensor], names: list[str]) -> Graph:
    """The graph of `step(*arguments)` with static shapes; `names` are those of the arguments."""
    try:
        program = torch.export.export(step, tuple(arguments), strict=False)
    except CaptureError:
        raise
    except Exception as error:  # torch has no common class for what it raises here
        raise _explain(error) from error
    return _Reader(program, names).graph


def _explain(error: Exception) -> CaptureError:
    line = line_of(error)
    text = f"{type(error).__name__}: {error}"
    if any(f.name == "_detect_attribute_assignment" for f in traceback.extract_tb(
            (error.__cause__ or error).__traceback__)):
        return StateChanged(f"the forward pass changes attributes of its modules: {error}")
    if any(mark in text for mark in DATA_DEPENDENT):
        return DataDependent(
            f"the forward pass at {line} branches on the content of a tensor, or has a shape that "
            "depends on it; use torch.where or a fixed shape instead")
    if "a leaf Variable that requires grad" in text:  # older versions refuse it themselves
        return StateChanged(f"the forward pass changes a parameter ({line}); {TRAINED}")
    if "torch._C.Generator" in text:
        return ExportFailed(f"the forward pass at {line} draws with a torch.Generator of its own, which "
                            "cannot be captured; leave it out, and the engine draws the numbers")
    return ExportFailed(f"the forward pass cannot be traced at {line}: {text.splitlines()[0]}")


class _Reader:
    """Walks the nodes of an ExportedProgram once."""

    def __init__(self, program: Any, names: list[str]):
        self.graph = Graph()
        self.program = program
        self.sites = 0
        self.regions: dict[int, int] = {0: 0}  # numbers of marks -> 0, 1, 2, ...
        self.region = 0
        self.values: dict[Any, Any] = {}  # fx node -> Ref, constant or list of them
        self._read_inputs(names)
        results = self._read_nodes(program.graph_module, no_grad=False)
        self.graph.outputs = list(results)

    def _read_inputs(self, names: list[str]) -> None:
        kinds = torch.export.graph_signature.InputKind
        placeholders = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        remaining = iter(names)
        for node, spec in zip(placeholders, self.program.graph_signature.input_specs):
            value = self.graph.new_value(meta_of(node.meta["val"]))
            self.values[node] = Ref(value)
            if spec.kind == kinds.USER_INPUT:
                self.graph.inputs[next(remaining)] = value
            elif spec.kind == kinds.PARAMETER:
                self.graph.parameters[value] = spec.target
            elif spec.kind == kinds.BUFFER:
                self.graph.buffers[value] = spec.target
            elif spec.kind == kinds.CONSTANT_TENSOR:
                self.graph.constants[value] = self.program.constants[spec.target]
            else:
                line = next(filter(None, map(line_of_node, node.users)), "some line")
                raise ExportFailed(f"the forward pass at {line} uses an object that is no tensor, "
                                   "such as a torch.Generator of its own; leave it out, and the "
                                   "engine draws the numbers")

    def _read_nodes(self, module: nn.Module, no_grad: bool) -> list:
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._read_attribute(module, node)
            elif node.op == "call_function":
                self._read_call(module, node, no_grad)
            elif node.op == "output":
                return self._argument(node.args[0])
        raise AssertionError("a graph without an output node")

    def _read_attribute(self, module: nn.Module, node: Any) -> None:
        found = module
        for part in node.target.split("."):
            found = getattr(found, part)
        if isinstance(found, torch.Tensor):
            value = self.graph.new_value(meta_of(found))
            self.graph.constants[value] = found.detach()
            found = Ref(value)
        self.values[node] = found

    def _read_call(self, module: nn.Module, node: Any, no_grad: bool) -> None:
        target = str(node.target)
        if node.target is operator.getitem:
            self.values[node] = self._argument(node.args[0])[node.args[1]]
        elif target == "wrap_with_set_grad_enabled":
            self._inline_gradient_region(node, no_grad)
        elif target == "wrap_with_autocast":
            self._inline_autocast(node, no_grad)
        elif target in ("aten._enter_autocast.default", "_enter_autocast") or "autocast" in target:
            self._check_autocast(node)
        elif target == MARK:
            tensor, region = self._argument(node.args)
            self.region = self.regions.setdefault(region, len(self.regions))
            self.values[node] = tensor
        elif target not in IGNORED:
            self._read_operator(node, target, no_grad)

    def _inline_gradient_region(self, node: Any, no_grad: bool) -> None:
        enabled, body, *arguments = node.args
        if enabled and no_grad:
            raise ExportFailed("torch.enable_grad inside of torch.no_grad is not supported")
        results = self._inline(self._argument(body), arguments, no_grad or not enabled)
        if not enabled:
            results = [self._stop_gradient(result, node) for result in results]
        self.values[node] = results

    def _inline_autocast(self, node: Any, no_grad: bool) -> None:
        _, _, enabled, _, body, *arguments = node.args
        inner = self._argument(body)
        if enabled:
            raise _autocast_refused([node, *(x for x in inner.graph.nodes
                                             if x.op == "call_function")])
        self.values[node] = self._inline(inner, arguments, no_grad)

    def _check_autocast(self, node: Any) -> None:
        if "enter" in str(node.target) and len(node.args) > 2 and node.args[2]:
            nodes = list(node.graph.nodes)
            raise _autocast_refused(nodes[nodes.index(node):])

    def _inline(self, body: nn.Module, arguments: list, no_grad: bool) -> list:
        inner = [n for n in body.graph.nodes if n.op == "placeholder"]
        for placeholder, argument in zip(inner, arguments):
            self.values[placeholder] = self._argument(argument)
        return list(self._read_nodes(body, no_grad))

    def _stop_gradient(self, result: Any, node: Any) -> Any:
        if not isinstance(result, Ref):
            return result
        value = self.graph.new_value(self.graph.metas[result.id])
        self.graph.nodes.append(Node("aten.detach.default", {"self": result}, [value],
                                     _path(node), line_of_node(node), region=self.region))
        return Ref(value)

    def _read_operator(self, node: Any, target: str, no_grad: bool) -> None:
        if getattr(node.target, "__module__", "") in ("_operator", "math", "torch"):
            raise DataDependent(f"{line_of_node(node)} computes with a number that depends on the "
                                f"content of a tensor; {KEPT}")
        if not isinstance(node.target, torch._ops.OpOverload):
            raise ExportFailed(f"{target} at {line_of_node(node)} cannot be captured")
        target = REAL_NAMES.get(target) or TURNS.get(target, target)
        args = named_arguments(node.target, self._argument(node.args),
                               self._argument(node.kwargs))
        results = node.meta.get("val")
        single = not isinstance(results, (list, tuple))
        try:
            outputs = [self.graph.new_value(meta_of(x))
                       for x in ([results] if single else results)]
        except Exception as error:  # a symbolic extent has no number
            raise DataDependent(
                f"{target} at {line_of_node(node)} has a result whose shape depends on the content "
                "of a tensor; keep the shape, and use torch.where or multiply with a mask"
            ) from error
        site = -1
        if count := draws(target, args):
            site, self.sites = self.sites, self.sites + count
        if target == "aten.randperm.default" and args["n"] <= SORTED_MAX:
            target, args, site = self._permutation(node, args["n"], site)
        self.graph.nodes.append(Node(target, args, outputs, _path(node), line_of_node(node), site,
                                     self.region, no_grad))
        self.values[node] = Ref(outputs[0]) if single else [Ref(x) for x in outputs]

    def _permutation(self, node: Any, size: int, site: int) -> tuple[str, dict[str, Any], int]:
        """A random permutation is the order of random numbers: what takes its place."""
        numbers = self.graph.new_value(Meta((size,), torch.float32))
        self.graph.nodes.append(Node("aten.rand.default", {"size": [size]}, [numbers], _path(node),
                                     line_of_node(node), site, self.region))
        return "aten.argsort.stable", {"self": Ref(numbers), "stable": True, "dim": 0,
                                       "descending": False}, -1

    def _argument(self, tree: Any) -> Any:
        if isinstance(tree, torch.fx.Node):
            return self.values[tree]
        if isinstance(tree, (list, tuple)):
            return [self._argument(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._argument(item) for key, item in tree.items()}
        return tree


def _autocast_refused(nodes: list[Any]) -> ExportFailed:
    """`nodes` are the one that begins it and those inside of it, which know the lines of the user."""
    place = next(filter(None, map(line_of_node, nodes)), "some line of the forward pass")
    return ExportFailed(f"autocast at {place}: capture the model in fp32, and choose the "
                        "precision of the job instead")


def _path(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = list(stack.values())[-1][0] if stack else ""
    return re.sub(r"@\d+", "", path.removeprefix("model.") if path != "model" else "")
