#!/usr/bin/env python3
"""Every ONNX operator computes what the reference implementation of ONNX computes."""
import unittest

import numpy as np
import onnx_support as support
import torch
from easyscale.onnx import from_onnx
from easyscale.onnx.reference import evaluate
from easyscale.onnx.table import CONVERSIONS
from easyscale.tracing import errors
from onnx_support import TensorProto, node, normal
from torch import nn

IMAGE, ROWS = (2, 6, 6), (4, 6)


class One:
    """A graph of one operator on z = x * w, whose other inputs are initializers.

    The loss is one of z, because some operators have no gradient.
    """

    def __init__(self, operator, *others, shape=ROWS, opset=17, **attributes):
        self.operator, self.others, self.shape = operator, others, shape
        self.opset, self.attributes = opset, attributes

    def model(self):
        names = [f"other{i}" if other is not None else "-" for i, other in enumerate(self.others)]
        nodes = [node("Mul", "x w", "z"),
                 node(self.operator, " ".join(["z", *names]), "y", **self.attributes)]
        weights = {"w": normal(*self.shape, seed=2)} | {
            f"other{i}": other for i, other in enumerate(self.others) if other is not None}
        return support.model(nodes, {"x": ("n", *self.shape)}, weights, "y z",
                             self.opset)


def ints(*numbers):
    return np.array(numbers, np.int64)


def floats(*numbers):
    return np.array(numbers, np.float32)


def scalar(number):
    return np.array(number, np.float32)


UNARY = ["Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", "Exp", "Sin", "Cos", "Tan", "Erf",
         "Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Reciprocal", "Softsign", "Identity",
         "GlobalAveragePool", "GlobalMaxPool", "Selu", "Atan", "Asinh", "Sinh", "Cosh"]
CASES = {name: One(name, shape=IMAGE) for name in UNARY} | {
    "Mish": One("Mish", opset=18), "Gelu": One("Gelu", opset=20),
    "Gelu tanh": One("Gelu", opset=20, approximate="tanh"),
    "Elu": One("Elu", alpha=0.7), "Celu": One("Celu", alpha=0.7), "LeakyRelu": One("LeakyRelu"),
    "ThresholdedRelu": One("ThresholdedRelu", alpha=0.3), "PRelu": One("PRelu", normal(6)),
    "HardSigmoid": One("HardSigmoid", alpha=0.3, beta=0.4),
    "HardSigmoid of torch": One("HardSigmoid", alpha=1 / 6),
    "Clip": One("Clip", scalar(-0.4), scalar(0.6)), "Clip below": One("Clip", scalar(0.1)),
    "Clip above": One("Clip", None, scalar(0.1)),
    "Add": One("Add", normal(6)), "Add number": One("Add", floats(2)),
    "Sub": One("Sub", normal(4, 1)), "Sub number": One("Sub", scalar(2)),
    "Mul": One("Mul", normal(6)), "Mul number": One("Mul", floats(2)),
    "Mul more axes": One("Mul", normal(1, 1, 1)), "Div": One("Div", normal(6) + 5),
    "Div number": One("Div", scalar(2)), "Pow": One("Pow", scalar(2)),
    "Pow 3": One("Pow", scalar(3)), "Max": One("Max", normal(6), normal(4, 1)),
    "Min": One("Min", normal(6)), "Sum": One("Sum", normal(6), normal(6)),
    "Mean": One("Mean", normal(6), normal(6)), "Dropout": One("Dropout", scalar(0.5)),
    "ReduceSum": One("ReduceSum", ints(1), keepdims=0),
    "ReduceSum nothing": One("ReduceSum", noop_with_empty_axes=1),
    "ReduceMean": One("ReduceMean", axes=[-1]),
    "ReduceMean 18": One("ReduceMean", ints(-1, 1), opset=18),
    "ReduceMax": One("ReduceMax", axes=[1], keepdims=0),
    "ReduceMax 20": One("ReduceMax", ints(2), opset=20), "ReduceMin": One("ReduceMin", axes=[2]),
    "ReduceProd": One("ReduceProd", axes=[2]), "ReduceL1": One("ReduceL1", axes=[2]),
    "ReduceL2": One("ReduceL2", axes=[1, 2]), "ReduceL2 18": One("ReduceL2", ints(2), opset=18),
    "ReduceSumSquare": One("ReduceSumSquare", axes=[2]),
    "ReduceLogSumExp": One("ReduceLogSumExp", axes=[2]),
    "CumSum": One("CumSum", np.array(2)),
    "CumSum behind": One("CumSum", np.array(1), exclusive=1, reverse=1),
    "Softmax": One("Softmax", axis=1), "LogSoftmax": One("LogSoftmax"),
    "LpNormalization": One("LpNormalization", axis=2),
    "MatMul": One("MatMul", normal(6, 5)), "MatMul vector": One("MatMul", normal(6)),
    "MatMul batched": One("MatMul", normal(4, 6, 3), shape=(4, 2, 6)),
    "Gemm": One("Gemm", normal(6, 5), normal(5), shape=(6,)),
    "Gemm transposed": One("Gemm", normal(5, 6), normal(1, 5), shape=(6,), transB=1),
    "Gemm scaled": One("Gemm", normal(6, 5), normal(5), shape=(6,), alpha=0.5, beta=2.0),
    "Gemm number": One("Gemm", normal(6, 5), normal(1), shape=(6,)),
    "Einsum": One("Einsum", normal(6, 5), equation="nij,jk->nik"),
    "Conv": One("Conv", normal(4, 2, 3, 3), normal(4), shape=IMAGE, pads=[1, 1, 1, 1]),
    "Conv groups": One("Conv", normal(4, 1, 3, 3), shape=IMAGE, group=2, strides=[2, 2]),
    "Conv one side": One("Conv", normal(4, 2, 3, 3), shape=IMAGE, pads=[0, 1, 2, 1]),
    "Conv same": One("Conv", normal(4, 2, 2, 2), shape=IMAGE, auto_pad="SAME_UPPER"),
    "Conv lower": One("Conv", normal(4, 2, 2, 2), shape=IMAGE, auto_pad="SAME_LOWER",
                      strides=[2, 2]),
    "Conv 1d": One("Conv", normal(4, 2, 3), shape=(2, 9), dilations=[2]),
    "ConvTranspose": One("ConvTranspose", normal(2, 4, 3, 3), normal(4), shape=IMAGE,
                         strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "ConvTranspose one side": One("ConvTranspose", normal(2, 4, 3, 3), shape=IMAGE,
                                  pads=[0, 1, 1, 0]),
    "BatchNormalization": One("BatchNormalization", normal(2), normal(2), normal(2),
                              normal(2) ** 2, shape=IMAGE),
    "InstanceNormalization": One("InstanceNormalization", normal(2), normal(2), shape=IMAGE),
    "LayerNormalization": One("LayerNormalization", normal(6), normal(6)),
    "LayerNormalization axes": One("LayerNormalization", normal(4, 6), axis=1),
    "LayerNormalization broadcast": One("LayerNormalization", normal(1), normal(1)),
    "MaxPool": One("MaxPool", shape=IMAGE, kernel_shape=[3, 3], strides=[2, 2],
                   pads=[1, 1, 1, 1]),
    "MaxPool ceil": One("MaxPool", shape=IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "AveragePool": One("AveragePool", shape=IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool one side": One("AveragePool", shape=IMAGE, kernel_shape=[2, 2],
                                pads=[0, 0, 1, 1], count_include_pad=1),
    "Resize nearest": One("Resize", None, floats(1, 1, 2, 2), shape=IMAGE, mode="nearest",
                          coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "Resize rounded": One("Resize", None, floats(1, 1, 3, 3), shape=IMAGE, mode="nearest"),
    "Resize linear": One("Resize", None, floats(1, 1, 2, 2), shape=IMAGE, mode="linear",
                         coordinate_transformation_mode="pytorch_half_pixel"),
    "Resize corners": One("Resize", None, floats(1, 1, 2, 2), shape=IMAGE, mode="linear",
                          coordinate_transformation_mode="align_corners"),
    "Resize cubic": One("Resize", None, floats(1, 1, 2, 2), shape=IMAGE, mode="cubic"),
    "Reshape": One("Reshape", ints(0, 3, -1)), "Flatten": One("Flatten", axis=2),
    "Reshape zero": One("Reshape", ints(-1, 24), allowzero=1),
    "Squeeze": One("Squeeze", ints(1), shape=(1, 4)), "Unsqueeze": One("Unsqueeze", ints(1, -1)),
    "Transpose": One("Transpose", perm=[0, 2, 1]),
    "Slice": One("Slice", ints(1, -1), ints(2**63 - 1, -5), ints(1, 2), ints(1, -2)),
    "Slice short": One("Slice", ints(0, 0, 1), ints(2**63 - 1, 9, -1)),
    "Pad": One("Pad", ints(0, 1, 0, 0, 0, 2), scalar(3)),
    "Pad axes": One("Pad", ints(1, 2), scalar(0.5), ints(2), opset=18),
    "Pad reflect": One("Pad", ints(0, 1, 0, 0, 0, 2), mode="reflect"),
    "Pad edge": One("Pad", ints(0, 1, 0, 0, 0, 2), mode="edge"),
    "Pad wrap": One("Pad", ints(0, 1, 0, 0, 0, 2), opset=19, mode="wrap"),
    "Expand": One("Expand", ints(1, 4, 6), shape=(1, 6)), "Tile": One("Tile", ints(1, 2, 3)),
    "DepthToSpace": One("DepthToSpace", shape=(8, 2, 2), blocksize=2),
    "DepthToSpace CRD": One("DepthToSpace", shape=(8, 2, 2), blocksize=2, mode="CRD"),
    "SpaceToDepth": One("SpaceToDepth", shape=(2, 4, 4), blocksize=2),
    "Gather": One("Gather", ints(3, -1, 0), axis=2),
    "Gather one": One("Gather", np.array(-1), axis=1),
    "Gather table": One("Gather", np.array([[1, 0], [2, 2]]), axis=1),
    "Trilu": One("Trilu", np.array(1)), "Trilu lower": One("Trilu", upper=0),
}

# Operators on logical values, integers or several computed values, or whose result is no output of an
# evaluation, as lines of support.graph.
GRAPHS = {
    "comparisons": ["Greater z zero a", "LessOrEqual z one b", "And a b c", "Less z one d",
                    "Not d e", "Or c e f", "GreaterOrEqual z zero g", "Xor f g h",
                    "Where h z neg y"],
    "Equal": ["ArgMax z a axis=1", "Equal a two b", "Where b z neg y"],
    "IsNaN": ["Log z a", "IsNaN a b", "Where b zero z y"],
    "ReduceSum all": ["ReduceSum z a", "Add z a y"],
    "ReduceLogSum": ["Abs z a", "ReduceLogSum a b", "Add z b y"],
    "ArgMax": ["ArgMax z a axis=2 keepdims=0", "Cast a y to=1"],
    "ArgMin": ["ArgMin z a axis=1", "Cast a y to=1"],
    "Cast": ["Cast z a to=7", "Cast a y to=1"],
    "Sqrt": ["Abs z a", "Sqrt a y"],
    "Pow computed": ["Abs z a", "Pow a z y"],
    "CastLike": ["Greater z zero a", "CastLike a z y"],
    "integers": ["ArgMax z a axis=1", "Add a two b", "Mul b two c", "Sub c two d",
                 "CastLike d z y"],
    "OneHot": ["ArgMax z a axis=1", "OneHot a four ends y"],
    "GatherElements": ["ArgMax z a axis=1", "GatherElements z a y axis=1"],
    "ScatterElements": ["ArgMax z a axis=1", "ReduceSum z axis1 b",
                        "ScatterElements z a b y axis=1"],
    "ScatterElements sum": ["ArgMax z a axis=1", "ReduceSum z axis1 b",
                            "ScatterElements z a b y axis=1 reduction='add'"],
    "GridSample": ["Tanh z a", "Reshape a places b", "Reshape z image c",
                   "GridSample c b d mode='linear' padding_mode='border'", "Reshape d flat y"],
    "inverse functions": ["Tanh z a", "Acos a b", "Asin a c", "Atanh a d", "Abs z e", "Add e one f",
                          "Acosh f g", "Sum b c d g y"],
    "Mod of integers": ["ArgMax z a axis=1", "Mod a two b", "CastLike b z y"],
    "Mod of numbers": ["Mod z lim y fmod=1"],
    "Gather computed": ["ArgMax z a axis=1", "Gather w a y"],
    "Shape": ["Shape z a", "Gather a first b", "ConstantOfShape a c", "Cast b d to=1", "Mul z d e",
              "Add e c y"],
    "Concat": ["Abs z a", "Concat z a y axis=2"],
    "Clip computed": ["Clip z zero lim y"],
}
WEIGHTS = {"w": normal(4, 6), "zero": scalar(0), "one": scalar(1), "neg": scalar(-2),
           "two": np.array(2), "four": np.array(4), "ends": floats(0, 1), "lim": scalar(0.5),
           "first": np.array(1), "axis1": ints(1), "places": ints(0, 3, 4, 2), "flat": ints(0, 12),
           "image": ints(0, 1, 4, 6)}


class Operators(unittest.TestCase):
    def compare(self, proto):
        """Converts without the check of its own, and compares three samples."""
        captured = from_onnx(proto, "mse", output="z", check=False)
        shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
        inputs = {"x": normal(3, *shape[1:], seed=7)}
        found = support.programs_outputs(captured, inputs)["y"]
        expected = support.references_outputs(proto, inputs)["y"]
        self.assertEqual(found.shape, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        return captured

    def test_single_operators(self):
        for name, case in CASES.items():
            with self.subTest(name):
                self.compare(case.model())

    def test_small_graphs(self):
        for name, lines in GRAPHS.items():
            with self.subTest(name):
                self.compare(support.graph(lines, WEIGHTS, ROWS))

    def test_recurrent_layers(self):
        for operator, gates, options in (
                ("LSTM", 4, {}), ("LSTM", 4, {"direction": "reverse"}),
                ("LSTM", 4, {"direction": "bidirectional"}), ("GRU", 3, {"linear_before_reset": 1}),
                ("RNN", 1, {"activations": ["Tanh"]})):
            directions = 2 if options.get("direction") == "bidirectional" else 1
            nodes = [node("Mul", "x w", "z"), node("Transpose", "z", "t", perm=[1, 0, 2]),
                     node(operator, "t wi wr wb", "a last", hidden_size=5, **options),
                     node("Reshape", "a shape", "b"), node("Transpose", "b", "y", perm=[1, 0, 2])]
            weights = {"w": normal(4, 6), "wi": normal(directions, gates * 5, 6, seed=3),
                       "wr": normal(directions, gates * 5, 5, seed=4),
                       "wb": normal(directions, gates * 10, seed=5),
                       "shape": ints(4, -1, 5 * directions)}
            if directions == 2:
                nodes[3:4] = [node("Transpose", "a", "c", perm=[0, 2, 1, 3]),
                              node("Reshape", "c shape", "b")]
            with self.subTest(operator, options=options):
                self.compare(support.model(nodes, {"x": ("n", 4, 6)}, weights, "y z", 17))

    def test_recurrent_layers_that_torch_does_not_have_are_refused(self):
        for operator, gates, reason, options in (
                ("LSTM", 4, "coupled gates", {"input_forget": 1}), ("GRU", 3, "linear_before_reset", {}),
                ("RNN", 1, "activations other than", {"activations": ["Softsign"]}),
                ("LSTM", 4, "a clip", {"clip": 3.0})):
            nodes = [node("Mul", "x w", "z"), node("Transpose", "z", "t", perm=[1, 0, 2]),
                     node(operator, "t wi wr wb", "y", hidden_size=5, **options)]
            weights = {"w": normal(4, 6), "wi": normal(1, gates * 5, 6), "wr": normal(1, gates * 5, 5),
                       "wb": normal(1, gates * 10)}
            with self.assertRaisesRegex(errors.UnsupportedOperators, reason):
                from_onnx(support.model(nodes, {"x": ("n", 4, 6)}, weights, "y z", 17), "mse", output="z")

    def test_the_largest_and_smallest_elements(self):
        for options in ({}, {"largest": 0, "axis": 1}):
            nodes = [node("Mul", "x w", "z"), node("TopK", "z two", "y places", **options)]
            self.compare(support.model(nodes, {"x": ("n", 4, 6)}, {"w": normal(4, 6), "two": ints(2)},
                                       "y z", 17))

    def test_split(self):
        for opset, others, attributes in ((13, "", {}), (17, "sizes", {}),
                                          (18, "", {"num_outputs": 2})):
            nodes = [node("Mul", "x w", "z"),
                     node("Split", f"z {others}", "a b", axis=1, **attributes),
                     node("Concat", "b a", "y", axis=1)]
            sizes = {"sizes": ints(1, 3)} if others else {}
            self.compare(support.model(nodes, {"x": ("n", 4, 6)}, {"w": normal(6)} | sizes, "y z",
                                       opset))

    def outputs_of(self, case, x):
        captured = from_onnx(case.model(), "mse", output="z", check=False)
        return torch.from_numpy(support.programs_outputs(captured, {"x": x.numpy()})["y"])

    def test_a_negative_padding_cuts_off(self):
        """The reference does not have it."""
        case, x = One("Pad", ints(0, -1, 0, 0, 0, -2)), torch.ones(3, *ROWS)
        expected = x * torch.from_numpy(normal(*ROWS, seed=2))
        self.assertTrue(torch.equal(self.outputs_of(case, x), expected[:, 1:, :-2]))

    def test_the_max_pool_of_the_check_is_that_of_torch(self):
        """The check has its own, because that of the reference is wrong with ceil_mode."""
        x = torch.randn(2, 3, 7, 9)
        for stride, padding, dilation, ceil in ((1, 0, 1, False), (2, 1, 1, True), (3, 1, 2, True),
                                                (2, 0, 2, False)):
            line = (f"MaxPool x y kernel_shape=[3,2] strides=[{stride},{stride}] ceil_mode={ceil:d} "
                    f"pads={[padding] * 4} dilations=[{dilation},{dilation}]").replace(", ", ",")
            proto = support.model([support.line_node(line)], {"x": ("n", 3, 7, 9)}, {})
            (found,) = evaluate(proto, {"x": x.numpy()})
            expected = nn.functional.max_pool2d(x, (3, 2), stride, padding, dilation, ceil)
            self.assertTrue(torch.equal(torch.from_numpy(found), expected), line)

    def test_a_max_pool_is_padded_on_each_side_as_it_says(self):
        """The reference mixes the sides up."""
        case = One("MaxPool", shape=IMAGE, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
        x = torch.ones(3, *IMAGE)
        scaled = x * torch.from_numpy(normal(*IMAGE, seed=2))
        padded = nn.functional.pad(scaled, (0, 1, 0, 1), value=-9.0)
        self.assertTrue(torch.equal(self.outputs_of(case, x),
                                    nn.functional.max_pool2d(padded, 2, 1)))

    def test_losses(self):
        labels = np.array([2, 0, 5])
        for operator in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
            for others in ([], ["weights"]):
                nodes = [node("Mul", "x w", "z"),
                         node(operator, " ".join(["z t", *others]), "loss", reduction="sum")]
                weights = {"w": normal(6), "weights": floats(1, 2, 3, 4, 5, 6)}
                proto = support.model(nodes, {"x": ("n", 6), "t": (TensorProto.INT64, ("n",))},
                                      {k: v for k, v in weights.items() if k == "w" or others},
                                      "loss z")
                captured = from_onnx(proto, "loss", frozen=others)
                inputs = {"x": normal(3, 6), "t": labels}
                expected = support.references_outputs(proto, inputs)["loss"]
                np.testing.assert_allclose(support.programs_loss(captured, inputs), expected,
                                           rtol=1e-5)

    def test_every_conversion_has_a_case(self):
        tested = {case.operator for case in CASES.values()} | {
            line.split()[0] for lines in GRAPHS.values() for line in lines} | {
            "Split", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "LSTM", "GRU", "RNN",
            "TopK", "ScatterND"}
        self.assertEqual(set(CONVERSIONS) - tested, set())


if __name__ == "__main__":
    unittest.main()
