#!/usr/bin/env python3
"""Reading ONNX files: weights, inputs, losses, jobs, and what is refused."""
import dataclasses
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import onnx_support as support
import torch
from easyscale.tracing import errors
from easyscale.tracing.lower import elementwise
from easyscale.onnx import from_onnx, to_onnx
from easyscale.onnx.evaluation import evaluation_of
from easyscale.onnx.errors import OnnxNotInstalled, OnnxRefused
from easyscale.program import Dim
from onnx_support import TensorProto, node, normal, onnx
from torch import nn

import easyscale as es

INT64 = TensorProto.INT64


def two_layers(opset=17, samples="n", **more):
    """A perceptron of two layers, 6 to 5 to 3."""
    nodes = [node("Gemm", "x first.weight first.bias", "a", transB=1), node("Relu", "a", "r"),
             node("Gemm", "r last.weight last.bias", "y", transB=1)]
    weights = {"first.weight": normal(5, 6), "first.bias": normal(5),
               "last.weight": normal(3, 5), "last.bias": normal(3)} | more
    return support.model(nodes, {"x": (samples, 6)}, weights, opset=opset)


def one(lines, weights, inputs=None, outputs="y", opset=17):
    """A model of lines as in support.graph, with any inputs."""
    return support.model([support.line_node(line) for line in lines], inputs or {"x": ("n", 6)},
                         weights, outputs, opset)


class Weights(unittest.TestCase):
    def names(self, captured):
        return {p.name: p.trainable for p in captured.program.parameters}

    def test_initializers_are_trained_under_their_names(self):
        captured = from_onnx(two_layers(), "cross_entropy")
        self.assertEqual(list(captured.weights),
                         ["first.weight", "first.bias", "last.weight", "last.bias"])
        np.testing.assert_array_equal(captured.weights["first.bias"], normal(5))
        self.assertEqual(support.kinds(captured), ["linear", "relu", "linear"])
        self.assertEqual(captured.program.nodes[0].name, "node_a")

    def test_frozen_weights(self):
        captured = from_onnx(two_layers(), "mse", frozen=["first.*"])
        self.assertEqual(self.names(captured), {"first.weight": False, "first.bias": False,
                                                "last.weight": True, "last.bias": True})
        with self.assertRaisesRegex(es.UsageError, "no parameter has a name like 'head.*'"):
            from_onnx(two_layers(), "mse", frozen=["head.*"])
        with self.assertRaisesRegex(errors.NoTrainableParameter, "no initializer"):
            from_onnx(two_layers(), "mse", frozen=["*"])

    def test_numbers_shapes_and_masks_are_constants(self):
        """An initializer that shapes are computed from, a number, and one that is not finite."""
        weights = {"w": normal(4, 4), "scale": np.array(2, np.float32), "factor": normal(1) * 0 + 2,
                   "mask": np.array([0, -np.inf, 0, -np.inf], np.float32), "unread": normal(2)}
        lines = ["Shape x s start=1", "Cast s f to=1", "Mul f factor g", "Cast g h to=7",
                 "ConstantOfShape h ones", "ReduceMax ones most keepdims=0", "MatMul x w a",
                 "Add a mask b", "Mul b scale c", "Softmax c d", "Add d most y"]
        captured = from_onnx(one(lines, weights, {"x": ("n", 4)}), "mse")
        self.assertEqual(self.names(captured), {"w": True})

    def test_a_weight_that_is_named_twice_stays_tied(self):
        lines = ["Identity first.weight last.weight", "Transpose last.weight t perm=[1,0]",
                 "Gemm x first.weight a", "MatMul a t y"]
        captured = from_onnx(one(lines, {"first.weight": normal(6, 5)}), "mse")
        (parameter,) = captured.program.parameters
        self.assertEqual((parameter.name, parameter.aliases), ("first.weight", ["last.weight"]))

    def test_weights_that_are_equal_because_they_are_new_are_not_tied(self):
        """Exporters name all biases of zeros once."""
        lines = ["Identity first.bias last.bias", "Add x first.bias a", "Relu a r",
                 "Add r last.bias y"]
        captured = from_onnx(one(lines, {"first.bias": normal(6) * 0}), "mse")
        self.assertEqual(self.names(captured), {"first.bias": True, "last.bias": True})

    def test_a_batch_norm_has_statistics_and_the_momentum_of_the_new_part(self):
        weights = {f"bn.{name}": np.abs(normal(6, seed=i)) for i, name in enumerate(
            ["weight", "bias", "running_mean", "running_var"])}
        line = " ".join(["BatchNormalization x", *weights, "y"])
        for training in ("", " training_mode=1"):
            captured = from_onnx(one([line + " momentum=0.7 epsilon=0.001" + training], weights),
                                 "mse")
            self.assertEqual([(s.name, s.size, s.is_variance) for s in captured.program.statistics],
                             [("bn.running_mean", 6, False), ("bn.running_var", 6, True)])
            attributes = captured.program.nodes[0].attributes
            self.assertEqual((attributes["momentum"], attributes["eps"]), (0.3, 0.001))
            self.assertEqual(set(captured.weights), set(weights))
            self.assertEqual(list(self.names(captured)), ["bn.weight", "bn.bias"])
            inputs = {"x": normal(8, 6)}
            values = support.programs_values(captured, inputs, training=True)
            y = values[captured.program.outputs[0].value]
            expected = nn.functional.batch_norm(
                torch.from_numpy(inputs["x"]), None, None, torch.from_numpy(weights["bn.weight"]),
                torch.from_numpy(weights["bn.bias"]), True, 0.0, 0.001)
            torch.testing.assert_close(y, expected)

    def test_a_dropout_has_its_ratio_in_both_modes(self):
        weights = {"w": normal(6), "ratio": np.array(0.3, np.float32)}
        for more in ([], ["on"]):
            lines = ["Mul x w a", " ".join(["Dropout a ratio", *more, "b"]), "Dropout b y"]
            given = weights | ({"on": np.array(True)} if more else {})
            captured = from_onnx(one(lines, given), "mse")
            self.assertEqual([n.attributes for n in captured.program.nodes[1:3]],
                             [{"p": 0.3, "site": 0}, {"p": 0.5, "site": 1}])

    def test_external_data(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "net.onnx"
            onnx.save_model(two_layers(), file, save_as_external_data=True, location="net.data",
                            size_threshold=0)
            captured = from_onnx(file, "mse")
            np.testing.assert_array_equal(captured.weights["last.bias"], normal(3))
            self.assertEqual(captured.program.name, "net")
            with self.assertRaisesRegex(OnnxRefused, "in another file"):
                from_onnx(file.read_bytes(), "mse")
            (Path(folder) / "net.data").unlink()
            with self.assertRaisesRegex(OnnxRefused, "net.onnx cannot be read.*net.data"):
                from_onnx(file, "mse")


class Samples(unittest.TestCase):
    def test_the_first_axis_is_the_sample(self):
        for samples in ("n", 0, 1, 4):  # some exporters write 0 for what is not known
            program = from_onnx(two_layers(samples=samples), "cross_entropy").program
            x, label = (program.values[field.value] for field in program.inputs)
            self.assertEqual(x.dims, [Dim(1, True), Dim(6)])
            self.assertEqual((label.type, label.dims), ("i32", [Dim(1, True)]))
            self.assertEqual(program.inputs[1].high, 2)

    def test_a_fixed_number_of_samples_may_be_in_shapes(self):
        lines = ["Mul x w a", "Reshape a flat b", "Expand b wide c", "Reshape c back y"]
        weights = {"w": normal(2, 3), "flat": np.array([4, -1]), "wide": np.array([4, 6]),
                   "back": np.array([4, 2, 3])}
        captured = from_onnx(one(lines, weights, {"x": (4, 2, 3)}), "mse")
        inputs = {"x": normal(7, 2, 3)}
        expected = inputs["x"] * weights["w"]
        np.testing.assert_array_equal(support.programs_outputs(captured, inputs)["y"], expected)

    def test_a_class_token_in_a_file_for_one_sample(self):
        lines = ["Mul x w a", "Concat token a y axis=1"]
        weights = {"w": normal(2, 3), "token": normal(1, 1, 3)}
        captured = from_onnx(one(lines, weights, {"x": (1, 2, 3)}), "mse")
        y = support.programs_outputs(captured, {"x": normal(7, 2, 3)})["y"]
        np.testing.assert_array_equal(y[:, 0], np.repeat(weights["token"][0], 7, 0))

    def test_other_symbolic_extents_are_given(self):
        proto = one(["Mul x w y"], {"w": normal(3)}, {"x": ("n", "length", 3)})
        with self.assertRaisesRegex(es.UsageError, r"\['n', 'length', 3\].*shapes=\{'x'"):
            from_onnx(proto, "mse")
        program = from_onnx(proto, "mse", shapes={"x": (5, 3)}).program
        self.assertEqual(program.values[0].dims, [Dim(1, True), Dim(5), Dim(3)])
        for shape in ((5, 4), (5,), (0, 3)):
            with self.assertRaisesRegex(es.UsageError, "allowed is what fits"):
                from_onnx(proto, "mse", shapes={"x": shape})
        with self.assertRaisesRegex(es.UsageError, "no input 'ids'; its inputs are x"):
            from_onnx(proto, "mse", shapes={"ids": (5,)})

    def test_ids_have_the_range_of_their_table(self):
        proto = one(["Gather table ids a", "ReduceMean a y axes=[1] keepdims=0"],
                    {"table": normal(9, 4)}, {"ids": (INT64, ("n", 5))})
        program = from_onnx(proto, "cross_entropy").program
        self.assertEqual((program.inputs[0].low, program.inputs[0].high), (0, 8))
        self.assertEqual(program.nodes[0].kind, "embedding")


class Losses(unittest.TestCase):
    INPUTS = {"x": normal(8, 6)}

    def loss(self, loss, target, **options):
        """The loss of a program, and that of torch on the outputs of the reference."""
        proto = two_layers()
        captured = from_onnx(proto, loss, **options)
        logits = torch.from_numpy(support.references_outputs(proto, self.INPUTS)["y"])
        found = support.programs_loss(captured, self.INPUTS | {"label": target.numpy()})
        return found, logits

    def test_names(self):
        labels, numbers = torch.arange(8) % 3, torch.rand(8, 3)
        functions = {"cross_entropy": (nn.CrossEntropyLoss(), labels),
                     "mse": (nn.MSELoss(), numbers),
                     "l1": (nn.L1Loss(), numbers), "smooth_l1": (nn.SmoothL1Loss(), numbers),
                     "huber": (nn.HuberLoss(), numbers),
                     "bce_with_logits": (nn.BCEWithLogitsLoss(), numbers),
                     "nll": (nn.NLLLoss(), labels)}
        for name, (function, target) in functions.items():
            with self.subTest(name):
                found, logits = self.loss(name, target)
                self.assertAlmostEqual(found, function(logits, target).item(), places=4)

    def test_modules_of_torch(self):
        labels = torch.arange(8) % 3
        loss = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 3.0]))
        found, logits = self.loss(loss, labels)
        self.assertAlmostEqual(found, loss(logits, labels).item(), places=4)
        buffers = from_onnx(two_layers(), loss).program.buffers
        self.assertEqual([buffer.name for buffer in buffers], ["loss.weight"])

    def test_functions_need_example_targets(self):
        def loss(outputs, targets):
            return (outputs[:, 0] - targets).square().mean()

        target = torch.rand(8)
        with self.assertRaisesRegex(es.UsageError, "give example_targets"):
            from_onnx(two_layers(), loss)
        found, logits = self.loss(loss, target, example_targets=target)
        self.assertAlmostEqual(found, loss(logits, target).item(), places=4)

    def test_an_output_that_is_the_loss(self):
        proto = one(["Mul x w z", "Sub z t d", "Mul d d s", "ReduceMean s loss keepdims=0"],
                    {"w": normal(6)}, {"x": ("n", 6), "t": ("n", 6)}, "loss z")
        captured = from_onnx(proto, "loss")
        self.assertEqual([field.name for field in captured.program.inputs], ["x", "t"])
        self.assertEqual([output.name for output in captured.program.outputs], ["z"])
        with self.assertRaisesRegex(errors.LossNotScalar, r"shape \[3, 6\]"):
            from_onnx(proto, "z")

    def test_a_target_with_the_name_of_an_input(self):
        proto = one(["Mul label w y"], {"w": normal(6)}, {"label": ("n", 6)})
        with self.assertRaisesRegex(es.UsageError, "input 'label', which is also the name of a ta"):
            from_onnx(proto, "mse")
        program = from_onnx(proto, lambda y, t: (y - t["goal"]).square().mean(),
                            example_targets={"goal": normal(3, 6)}).program
        self.assertEqual([field.name for field in program.inputs], ["label", "goal"])

    def test_several_outputs(self):
        proto = one(["Mul x w first", "Neg first second"], {"w": normal(6)}, outputs="first second")
        with self.assertRaisesRegex(es.UsageError, "first, second; name the one"):
            from_onnx(proto, "mse")
        with self.assertRaisesRegex(es.UsageError, "output = 'third': allowed are first, second"):
            from_onnx(proto, "mse", output="third")
        program = from_onnx(proto, "mse", output="second").program
        self.assertEqual([output.name for output in program.outputs], ["second", "first"])

        def both(outputs, targets):
            return (outputs["first"] * outputs["second"] + targets["size"]).mean()

        program = from_onnx(proto, both, example_targets={"size": torch.rand(4, 1)}).program
        self.assertEqual([field.name for field in program.inputs], ["x", "size"])

    def test_what_is_no_loss(self):
        for loss in ("f1", 3):
            with self.assertRaisesRegex(es.UsageError, "^loss .*allowed"):
                from_onnx(two_layers(), loss)
        with self.assertRaisesRegex(errors.CaptureError, "a loss with parameters"):
            from_onnx(two_layers(), nn.Bilinear(3, 3, 1))

    def test_a_loss_that_writes_a_buffer(self):
        class Counted(nn.MSELoss):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, outputs, targets):
                self.calls += 1
                return super().forward(outputs, targets)
        with self.assertRaisesRegex(errors.CaptureError, "the loss changes its buffer loss.calls"):
            from_onnx(two_layers(), Counted(), example_targets=np.zeros((4, 3), np.float32))


class Refusals(unittest.TestCase):
    def test_everything_that_is_missing_is_listed(self):
        lines = ["Mul x w a", "Hardmax a b", "Hardmax b c", "Div i j k", "NonZero c d", "Abs d e",
                 "Shape e s", "ConstantOfShape s f", "Add e f y"]
        proto = one(lines, {"w": normal(6), "one": np.array([1])},
                    {"x": ("n", 6), "i": (INT64, ("n",)), "j": (INT64, ("n",))})
        with self.assertRaises(errors.UnsupportedOperators) as caught:
            from_onnx(proto, "mse")
        self.assertEqual(str(caught.exception).splitlines()[1:], [
            "  Hardmax: there is no kind for it; 2 times, first in node_b",
            "  Div: a division of integers; once, in node_k",
            "  NonZero: there is no kind for it; once, in node_d"])

    def test_other_domains(self):
        proto = one(["Mul x w a", "Gelu a y"], {"w": normal(6)})
        proto.graph.node[1].domain = "com.microsoft"
        proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        with self.assertRaisesRegex(errors.UnsupportedOperators, "com.microsoft.Gelu: there is no"):
            from_onnx(proto, "mse")

    def test_opsets(self):
        for opset in support.OPSETS:
            from_onnx(two_layers(opset), "mse")
        for opset in (12, 21):
            with self.assertRaisesRegex(OnnxRefused, f"opset = {opset}: allowed is 13 to 20"):
                from_onnx(two_layers(opset), "mse")

    def test_other_precisions(self):
        half = {"first.bias": normal(5).astype(np.float16)}
        with self.assertRaisesRegex(errors.UnsupportedType, "first.bias has the type float16"):
            from_onnx(two_layers(**half), "mse")
        double = one(["Mul x w y"], {"w": normal(6)}, {"x": (TensorProto.DOUBLE, ("n", 6))})
        with self.assertRaisesRegex(OnnxRefused, "input x has the type float64"):
            from_onnx(double, "mse")

    def test_damaged_files(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "net.onnx"
            file.write_bytes(b"no model")
            with self.assertRaisesRegex(OnnxRefused, "net.onnx cannot be read"):
                from_onnx(file, "mse")
            with self.assertRaisesRegex(OnnxRefused, "none.onnx cannot be read"):
                from_onnx(Path(folder) / "none.onnx", "mse")
        proto = two_layers()
        proto.graph.node[0].input[0] = "nothing"
        with self.assertRaisesRegex(OnnxRefused, "no valid model"):
            from_onnx(proto, "mse")

    def test_a_shape_that_data_decide(self):
        proto = one(["Mul x w a", "Cast i b to=7", "Reshape a b y"], {"w": normal(6)},
                    {"x": ("n", 6), "i": (INT64, ("n",))})
        with self.assertRaisesRegex(errors.UnsupportedOperators,
                                    "Reshape: its shape is computed from data; once, in node_y"):
            from_onnx(proto, "mse")

    def test_a_batch_norm_over_all_ranks_is_refused_where_the_file_names_its_module(self):
        weights = {f"bn.{name}": np.abs(normal(6, seed=i)) for i, name in enumerate(
            ["weight", "bias", "running_mean", "running_var"])}
        proto = one([" ".join(["BatchNormalization x", *weights, "y"])], weights)
        for module, refused in (("BatchNorm1d", False), ("SyncBatchNorm", True)):
            proto.graph.node[0].metadata_props.add(
                key="pkg.torch.onnx.class_hierarchy",
                value=f"['torch.nn.modules.batchnorm.{module}', 'aten.batch_norm.default']")
            if refused:
                with self.assertRaisesRegex(errors.CaptureError, "SyncBatchNorm.*export BatchNorm"):
                    from_onnx(proto, "mse")
            else:
                from_onnx(proto, "mse")

    def test_a_loss_over_all_ranks_is_refused(self):
        def loss(outputs, targets):
            if torch.distributed.is_initialized():
                torch.distributed.all_reduce(outputs)
            return (outputs - targets).square().mean()
        proto = one(["Mul x w y"], {"w": normal(6)})
        with self.assertRaisesRegex(errors.CaptureError, "the collective allreduce"):
            from_onnx(proto, loss, example_targets=np.zeros((3, 6), np.float32))

    def test_a_number_of_samples_in_a_shape(self):
        for samples, text in (("n", r"cannot have the shape \[2, 9\]"), (3, "dynamic_axes")):
            proto = one(["Mul x w a", "Reshape a s y"], {"w": normal(6), "s": np.array([2, 9])},
                        {"x": (samples, 6)})
            with self.assertRaisesRegex(errors.UnsupportedOperators, text):
                from_onnx(proto, "mse")

    def test_a_loss_without_weights(self):
        proto = one(["Mul x w a", "Neg x y"], {"w": normal(6)}, outputs="y a")
        with self.assertRaisesRegex(errors.NoTrainableParameter, "takes part in the loss"):
            from_onnx(proto, "mse", output="y")

    def test_a_program_that_computes_something_else(self):
        """The check finds a wrong conversion and names the output."""
        proto = one(["Mul x w a", "Ceil a y"], {"w": normal(6)}, outputs="y a")
        with mock.patch.object(elementwise, "ceil", lambda b, x: b.emit("floor", x)):
            with self.assertRaisesRegex(errors.SelfCheckFailed,
                                        "output y differs from that of onnx.reference"):
                from_onnx(proto, "mse", output="a")
            from_onnx(proto, "mse", output="a", check=False)

    def test_a_loss_that_computes_something_else(self):
        proto = one(["Mul x w a", "Ceil a b", "ReduceMean b c keepdims=0",
                     "ReduceMean a d keepdims=0", "Add c d loss"], {"w": normal(6)}, outputs="loss")
        with mock.patch.object(elementwise, "ceil", lambda b, x: b.emit("floor", x)):
            with self.assertRaisesRegex(errors.SelfCheckFailed, "the output loss differs"):
                from_onnx(proto, "loss")

    def test_an_input_whose_name_is_no_name_of_a_file(self):
        proto = one(["Mul a/x w y"], {"w": normal(6)}, {"a/x": ("n", 6)})
        with self.assertRaisesRegex(OnnxRefused, "input a/x has a / in its name"):
            from_onnx(proto, "mse")

    def test_outputs_that_are_not_there(self):
        proto = one(["Mul x w a", "MaxPool a y kernel_shape=[2]", "Cast i b to=1", "Add y b c"],
                    {"w": normal(2, 6)}, {"x": ("n", 2, 6)}, outputs="c")
        proto.graph.node[1].output.append("i")
        with self.assertRaisesRegex(errors.UnsupportedOperators, "its other outputs are read"):
            from_onnx(proto, "mse")

    def test_the_reference_has_a_model_in_evaluation(self):
        weights = {f"s{i}": np.abs(normal(6, seed=i)) for i in range(4)} | {"on": np.array(True)}
        lines = ["BatchNormalization x s0 s1 s2 s3 a training_mode=1", "Dropout a - on y"]
        proto = one(lines, weights)
        proto.graph.node[0].output.extend(["mean", "var"])
        inputs = {"x": normal(4, 6)}
        found = support.references_outputs(evaluation_of(proto), inputs)["y"]
        expected = (inputs["x"] - weights["s2"]) / np.sqrt(weights["s3"] + 1e-5)
        np.testing.assert_allclose(found, expected * weights["s0"] + weights["s1"], rtol=1e-4)

    def test_without_the_package_onnx(self):
        code = ("import sys; sys.modules['onnx'] = None; import easyscale as es\n"
                "try: es.from_onnx('net.onnx', 'mse')\n"
                "except es.CaptureError as error: print(type(error).__name__, error)")
        result = subprocess.run([sys.executable, "-c", code], cwd=support.PACKAGE, check=True,
                                capture_output=True, text=True)
        self.assertIn(f"{OnnxNotInstalled.__name__} reading an ONNX file needs the package onnx: "
                      "pip install onnx", result.stdout)


class Trained:
    """Stands for a run with other weights than those of a captured model."""

    def __init__(self, captured):
        self.captured = dataclasses.replace(captured, weights={
            name: array * np.float32(1.5) for name, array in captured.weights.items()})
        self.more = {"bn.num_batches_tracked": np.array(3)}

    def state_dict(self):
        weights = self.captured.weights
        aliases = {alias: weights[parameter.name] for parameter in self.captured.program.parameters
                   for alias in parameter.aliases}
        return weights | aliases | self.more


class Written(unittest.TestCase):
    STATISTICS = {f"bn.{name}": np.abs(normal(6, seed=i)) for i, name in enumerate(
        ["weight", "bias", "running_mean", "running_var"])}
    NORM = " ".join(["BatchNormalization t", *STATISTICS, "c"]) + " training_mode=1"

    def test_trained_weights_are_written_for_inference(self):
        lines = ["Identity first.bias last.bias", "Identity table other", "Add x first.bias a",
                 "MatMul a table b", "MatMul b other t", self.NORM, "Dropout c - on d",
                 "Add d last.bias y"]
        weights = {"first.bias": normal(6) * 0 + 1, "table": normal(6, 6), "on": np.array(True)}
        proto = one(lines, weights | self.STATISTICS)
        run = Trained(from_onnx(proto, "mse"))
        with tempfile.TemporaryDirectory() as folder:
            to_onnx(run, proto, Path(folder) / "trained.onnx")
            written = onnx.load(Path(folder) / "trained.onnx")
        onnx.checker.check_model(written)
        inputs = {"x": normal(4, 6)}
        np.testing.assert_allclose(support.references_outputs(written, inputs)["y"],
                                   support.programs_outputs(run.captured, inputs)["y"], rtol=1e-4)
        self.assertEqual([tensor.name for tensor in written.graph.initializer
                          if tensor.name in ("last.bias", "other")], ["last.bias", "other"])

    def test_weights_of_another_file_are_refused(self):
        run = Trained(from_onnx(two_layers(), "mse"))
        for other, text in ((one(["Mul x w y"], {"w": normal(6)}), "no initializer 'first.weight'"),
                            (two_layers(**{"last.bias": normal(1)}), r"last.bias has the shape")):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "trained.onnx"
                with self.assertRaisesRegex(es.UsageError, text):
                    to_onnx(run, other, file)
                self.assertFalse(file.exists())


class Jobs(unittest.TestCase):
    X, Y = normal(16, 6), np.arange(16) % 3

    def job(self, captured=None, **changes):
        options = {"data": es.data.arrays(self.X, self.Y), "batch_size": 2, "max_p": 2, "steps": 2,
                   "optimizer": es.Optimizer("sgd", 0.1)}
        return es.Job(captured or from_onnx(two_layers(), "cross_entropy"), **(options | changes))

    def test_a_captured_model_becomes_a_job(self):
        for data in (es.data.arrays(self.X, self.Y), es.data.arrays(label=self.Y, x=self.X),
                     es.data.arrays(classes=self.Y, x=self.X)):
            job = self.job(data=data, metrics=["accuracy"])
            self.assertEqual(job.name, "small")
            self.assertIn('file = "model.esmodel"', job.toml())

    def test_a_capture_of_torch_is_a_model_too(self):
        captured = es.capture(nn.Linear(6, 3), nn.CrossEntropyLoss(), torch.randn(4, 6),
                              torch.arange(4) % 3)
        self.assertEqual(self.job(captured).name, "Linear")

    def refuses(self, text, **changes):
        with self.assertRaisesRegex(es.UsageError, text):
            self.job(**changes)

    def test_settings_that_do_not_fit(self):
        self.refuses("the captured model has a loss", loss=nn.MSELoss())
        self.refuses("optimizer SGD: allowed for a captured model is easyscale.Optimizer",
                     optimizer=torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1))
        self.refuses("data has 1 arrays: allowed are 2, the inputs x, label",
                     data=es.data.arrays(self.X))
        self.refuses("the model has no inputs a, b; its inputs are x, label",
                     data=es.data.arrays(a=self.X, b=self.Y))
        self.refuses(r"the input x has samples of the shape \(5,\): allowed is \(6,\)",
                     data=es.data.arrays(self.X[:, :5], self.Y))
        self.refuses("the input label has elements of the type float32, but the model takes i32",
                     data=es.data.arrays(self.X, self.X[:, 0]))
        self.refuses("the input x has elements of the type int64, but the model takes f32",
                     data=es.data.arrays(np.ones((16, 6), np.int64), self.Y))


if __name__ == "__main__":
    unittest.main()
