"""What the tests of ONNX share: small graphs, and their evaluation by the reference."""
import ast
import sys
import warnings
from pathlib import Path

import capture_support  # noqa: F401  sets the path of the package
import numpy as np
import torch

try:
    import onnx
except ImportError as error:
    print(f"skipped: the package onnx is not installed ({error})")
    sys.exit(77)
from easyscale.interpret import Context, interpret
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore", category=DeprecationWarning)
PACKAGE = Path(__file__).resolve().parent.parent
SEED = 11
print(f"seed {SEED}")
OPSETS = range(13, 21)


def normal(*shape, seed=SEED):
    """Normal fp32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def node(operator, inputs, outputs, **attributes):
    """A node; inputs and outputs are names with spaces between them, and - is one left out."""
    named = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(operator, named, outputs.split(), f"node_{outputs.split()[0]}",
                            **attributes)


def model(nodes, inputs, initializers, outputs="y", opset=17):
    """A model; `inputs` has shapes [samples, ...] by name, as fp32 or with the type in front."""
    fields = [helper.make_tensor_value_info(name, *_type_and_shape(shape))
              for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ())  # nothing reads the shape
               for name in outputs.split()]
    weights = [numpy_helper.from_array(np.asarray(array), name)
               for name, array in initializers.items()]
    graph = helper.make_graph(nodes, "small", fields, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def line_node(line):
    """The node of a line `OPERATOR INPUTS... OUTPUT ATTRIBUTE=VALUE...`."""
    operator, *words = line.split()
    names = [word for word in words if "=" not in word]
    given = [word.split("=") for word in words if "=" in word]
    attributes = {name: ast.literal_eval(value) for name, value in given}
    return node(operator, " ".join(names[:-1]), names[-1], **attributes)


def graph(lines, weights, shape, opset=17):
    """A model with the input x [samples, *shape], z = x * w, and one node for each line.

    The outputs are y, and z for a loss that does not depend on what is tested. `weights` are
    initializers by name, of which those are taken that the lines read.
    """
    read = {word for line in lines for word in line.split()} | {"w"}
    taken = {name: array for name, array in weights.items() if name in read}
    return model([node("Mul", "x w", "z"), *map(line_node, lines)], {"x": ("n", *shape)}, taken,
                 "y z", opset)


def _type_and_shape(shape):
    return shape if isinstance(shape[0], int) and isinstance(shape[1], tuple) else (
        TensorProto.FLOAT, shape)


def programs_values(captured, inputs, training=False):
    """All values of a captured program; targets that are not given are zero."""
    tensors = {name: torch.from_numpy(array) for name, array in captured.weights.items()}
    given = {name: torch.from_numpy(array) for name, array in inputs.items()}
    samples = len(next(iter(inputs.values())))
    for field in captured.program.inputs:
        value = captured.program.values[field.value]
        given.setdefault(field.name, torch.zeros(value.shape(samples)))
    return interpret(captured.program, tensors, given, Context(training=training))


def programs_outputs(captured, inputs):
    """The outputs of a captured program in evaluation, by name."""
    values = programs_values(captured, inputs)
    return {output.name: values[output.value].numpy() for output in captured.program.outputs}


def programs_loss(captured, inputs, training=False):
    """The loss of a captured program."""
    return programs_values(captured, inputs, training)[captured.program.loss].item()


def references_outputs(proto, inputs):
    """The outputs of a model by name, as the reference implementation of ONNX computes them."""
    names = [output.name for output in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, inputs)))


def kinds(captured):
    """The kinds of the nodes before the loss, in their order."""
    return [n.kind for n in captured.program.nodes][:-1]
