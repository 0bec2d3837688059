#!/usr/bin/env python3
"""What exporters write as several operators becomes one node that computes the same.

The outputs are compared with the reference implementation of ONNX, and the gradients with those of
the program whose operators are not joined.
"""
import unittest
from unittest import mock

import numpy as np
import onnx_support as support
import torch
from easyscale.interpret import Context, interpret
from easyscale.onnx import from_onnx
from easyscale.onnx.builder import OnnxBuilder
from onnx_support import normal

ROWS, IMAGE, HEADS = (4, 6), (4, 3, 3), (2, 5, 4)


def scalar(number):
    return np.array(number, np.float32)


CAUSAL = np.where(np.tril(np.ones((5, 5), bool)), 0, -np.inf).astype(np.float32)
WEIGHTS = {
    "eps": scalar(1e-3), "one": scalar(1), "half": scalar(0.5), "two": scalar(2),
    "three": scalar(3), "root2": scalar(2 ** 0.5), "rate": scalar((2 / np.pi) ** 0.5),
    "cube": scalar(0.044715), "other": scalar(0.3), "g": normal(6, seed=3), "b": normal(6, seed=4),
    "matrix": normal(6, 5, seed=5), "rows": normal(5, 6, seed=6), "b5": normal(5, seed=7),
    "groups": np.array([0, 2, -1]), "ones": np.ones(2, np.float32),
    "zeros": np.zeros(2, np.float32), "gc": normal(4, 1, 1, seed=8), "bc": normal(4, 1, 1, seed=9),
    "scale": scalar(0.5), "root": scalar(0.5 ** 0.5), "mask": normal(5, 5, seed=10),
    "causal": CAUSAL, "seen": CAUSAL == 0, "hidden": np.eye(5, k=2) > 0,
    "least": scalar(np.finfo(np.float32).min), "infinite": scalar(-np.inf), "low": scalar(-100),
    "ratio": scalar(0.25),
}
CENTRED = ["ReduceMean z m axes=[-1]", "Sub z m d", "Pow d two q", "ReduceMean q v axes=[-1]",
           "Add v eps e", "Sqrt e s"]
MEAN_SQUARE = ["Pow z two q", "ReduceMean q v axes=[-1]", "Add v eps e", "Sqrt e s"]
AFFINE = ["Mul n g a", "Add a b y"]
SCORES = ["Transpose z t perm=[0,1,3,2]", "MatMul z t a"]
INSTANCE = ["Shape z shape", "Reshape z groups r", "Constant c value_floats=[1.0,1.0]",
            "Constant f value_floats=[0.0,0.0]", "InstanceNormalization r c f i epsilon=0.001",
            "Reshape i shape n"]

# Name: shape of a sample, lines of support.graph, kinds of the nodes that are written.
PATTERNS = {
    "layer norm": (ROWS, [*CENTRED, "Div d s n", *AFFINE], ["mul", "layer_norm"]),
    "layer norm without bias": (ROWS, [*CENTRED, "Div d s n", "Mul g n y"], ["mul", "layer_norm"]),
    "layer norm by a reciprocal": (ROWS, [*CENTRED, "Reciprocal s k", "Mul d k n", *AFFINE],
                                   ["mul", "layer_norm"]),
    "layer norm with a product": (
        ROWS, [line.replace("Pow d two q", "Mul d d q") for line in CENTRED] + ["Div d s y"],
        ["mul", "layer_norm"]),
    "rms norm": (ROWS, [*MEAN_SQUARE, "Div z s n", "Mul n g y"], ["mul", "rms_norm"]),
    "rms norm by a reciprocal": (ROWS, [*MEAN_SQUARE, "Div one s k", "Mul z k n", "Mul g n y"],
                                 ["mul", "rms_norm"]),
    "gelu": (ROWS, ["Div z root2 a", "Erf a e", "Add e one f", "Mul z f p", "Mul p half y"],
             ["mul", "gelu"]),
    "gelu with the half before": (
        ROWS, ["Mul z root a", "Erf a e", "Add e one f", "Mul z half h", "Mul h f y"],
        ["mul", "gelu"]),
    "gelu by tanh": (
        ROWS, ["Pow z three c", "Mul c cube k", "Add z k s", "Mul s rate t", "Tanh t h",
               "Add h one f", "Mul half z g2", "Mul g2 f y"], ["mul", "gelu"]),
    "gelu by tanh with products": (
        ROWS, ["Mul z z a", "Mul a z c", "Mul c cube k", "Add k z s", "Mul s rate t", "Tanh t h",
               "Add h one f", "Mul z f p", "Mul p half y"], ["mul", "gelu"]),
    "silu": (ROWS, ["Sigmoid z s", "Mul s z y"], ["mul", "silu"]),
    "hardswish": (ROWS, ["HardSigmoid z s alpha=0.16666667", "Mul z s y"], ["mul", "hardswish"]),
    "mish": (ROWS, ["Softplus z s", "Tanh s t", "Mul z t y"], ["mul", "mish"]),
    "linear": (ROWS, ["Transpose rows t perm=[1,0]", "MatMul z t a", "Add b5 a y"],
               ["mul", "linear"]),
    "linear of a matrix": (ROWS, ["MatMul z matrix a", "Add a b5 y"],
                           ["mul", "permute", "linear"]),
    "group norm": (IMAGE, [*INSTANCE, "Mul n gc a", "Add a bc y"],
                   ["mul", "reshape", "reshape", "group_norm"]),
    "attention": (HEADS, [*SCORES, "Softmax a p2", "MatMul p2 z y"], ["mul", "attention"]),
    "attention with a scale": (HEADS, [*SCORES, "Div a two b2", "Softmax b2 p2", "MatMul p2 z y"],
                               ["mul", "attention"]),
    "attention with scales of both": (
        HEADS, ["Mul z root q", "Transpose z t perm=[0,1,3,2]", "Mul t root k", "MatMul q k a",
                "Add a mask s", "Softmax s p2", "MatMul p2 z y"], ["mul", "reshape", "attention"]),
    "causal attention": (HEADS, [*SCORES, "Mul a scale b2", "Add b2 causal s", "Softmax s p2",
                                 "MatMul p2 z y"], ["mul", "attention"]),
    "attention that selects": (
        HEADS, [*SCORES, "Where seen a least s", "Softmax s p2", "MatMul p2 z y"],
        ["mul", "attention"]),
    "attention that hides": (
        HEADS, [*SCORES, "Where hidden infinite a s", "Softmax s p2", "MatMul p2 z y"],
        ["mul", "attention"]),
    "attention with a dropout": (HEADS, [*SCORES, "Softmax a p2", "Dropout p2 ratio d",
                                         "MatMul d z y"], ["mul", "attention"]),
}
# The same with one thing that differs, so that nothing may be joined to the named kind.
OTHERS = {
    "a variance over another axis": (
        ROWS, [line.replace("q v axes=[-1]", "q v axes=[1]") for line in CENTRED] + ["Div d s y"],
        "layer_norm"),
    "a deviation of something else": (ROWS, [*MEAN_SQUARE, "Sub z b d", "Div d s y"], "layer_norm"),
    "another constant": (ROWS, ["Mul z other a", "Erf a e", "Add e one f", "Mul z f p",
                                "Mul p half y"], "gelu"),
    "a half that is missing": (ROWS, ["Div z root2 a", "Erf a e", "Add e one f", "Mul z f y"],
                               "gelu"),
    "another cube": (ROWS, ["Pow z three c", "Mul c other k", "Add z k s", "Mul s rate t",
                            "Tanh t h", "Add h one f", "Mul half z g2", "Mul g2 f y"], "gelu"),
    "the gate of another value": (ROWS, ["Abs z a", "Sigmoid a s", "Mul z s y"], "silu"),
    "a softmax over another axis": (HEADS, [*SCORES, "Softmax a p2 axis=2", "MatMul p2 z y"],
                                    "attention"),
    "a number that hides nothing": (
        HEADS, [*SCORES, "Where seen a low s", "Softmax s p2", "MatMul p2 z y"], "attention"),
    "a dropout that is read twice": (
        HEADS, [*SCORES, "Softmax a p2", "Dropout p2 ratio d", "MatMul d z o", "ReduceSum d s",
                "Add o s y"], "attention"),
}


def gradients(captured, inputs):
    """The gradients of sum(sin(y)) by name of the parameter."""
    tensors = {name: torch.from_numpy(array).requires_grad_()
               for name, array in captured.weights.items()}
    given = {name: torch.from_numpy(array) for name, array in inputs.items()}
    values = interpret(captured.program, tensors, given | {"label": given["x"]},
                       Context(training=True))
    (y,) = [output.value for output in captured.program.outputs if output.name == "y"]
    values[y].sin().sum().backward()
    return {name: tensor.grad for name, tensor in tensors.items()}


class Patterns(unittest.TestCase):
    def convert(self, shape, lines):
        """The captured model, which agrees with the reference, and its inputs."""
        weights = WEIGHTS | {"w": normal(*shape, seed=2)}
        proto = support.graph(lines, weights, shape)
        captured = from_onnx(proto, "mse", output="z", check=False)
        inputs = {"x": normal(3, *shape, seed=7)}
        np.testing.assert_allclose(support.programs_outputs(captured, inputs)["y"],
                                   support.references_outputs(proto, inputs)["y"], rtol=1e-4,
                                   atol=1e-5)
        return proto, captured, inputs

    def test_patterns_are_joined(self):
        for name, (shape, lines, kinds) in PATTERNS.items():
            with self.subTest(name):
                proto, captured, inputs = self.convert(shape, lines)
                self.assertEqual(support.kinds(captured), kinds)
                with mock.patch.object(OnnxBuilder, "made", return_value=None):
                    apart = from_onnx(proto, "mse", output="z")
                self.assertGreater(len(support.kinds(apart)), len(kinds))
                if name == "attention with a dropout":
                    continue  # its draws are of other shapes
                expected = gradients(apart, inputs)
                for weight, gradient in gradients(captured, inputs).items():
                    torch.testing.assert_close(gradient, expected[weight], rtol=1e-3, atol=1e-5)

    def test_what_is_like_a_pattern_is_not_joined(self):
        for name, (shape, lines, kind) in OTHERS.items():
            with self.subTest(name):
                self.assertNotIn(kind, support.kinds(self.convert(shape, lines)[1]))

    def test_the_mask_of_causal_attention_is_an_attribute(self):
        for name, scale in (("causal attention", 0.5), ("attention that selects", 1.0)):
            node = self.convert(*PATTERNS[name][:2])[1].program.nodes[1]
            self.assertEqual((node.attributes["causal"], node.attributes["scale"]), (True, scale))

    def test_the_usual_scale_of_attention_has_no_rounding(self):
        lines = PATTERNS["attention with scales of both"][1]
        node = self.convert((2, 5, 4), lines)[1].program.nodes[-2]
        self.assertEqual((node.kind, node.attributes["scale"]), ("attention", 0.5))

    def test_the_dropout_of_attention_keeps_its_probability_and_site(self):
        shape, lines, _ = PATTERNS["attention with a dropout"]
        before = ["Dropout z ratio first_drop"]
        captured = self.convert(shape, [*before, *lines[:-1], "MatMul d first_drop y"])[1]
        sites = {node.kind: node.attributes["site"] for node in captured.program.nodes
                 if "site" in node.attributes}
        self.assertEqual(sites, {"dropout": 0, "attention": 1})


if __name__ == "__main__":
    unittest.main()
