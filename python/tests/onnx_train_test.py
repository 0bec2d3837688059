#!/usr/bin/env python3
"""Trains ONNX files with the real programs, and compares the steps with those of PyTorch.

All samples are one global batch, so their order in it does not matter.
"""
import io
import unittest

import numpy as np
import onnx_support as support
import torch
from easyscale.onnx import from_onnx, to_onnx
from onnx_support import onnx
from support import FolderCase, programs_train_model_files
from torch import nn
from torch.onnx import TrainingMode
from torch_training import torch_losses

import easyscale as es

SAMPLES, STEPS = 32, 3


class Normed(nn.Sequential):
    """Convolutions with a batch norm."""

    def __init__(self):
        super().__init__(nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 3))


class Attentive(nn.Module):
    """Attention over the pixels, with a layer norm and GELU."""

    def __init__(self):
        super().__init__()
        self.inside, self.norm = nn.Linear(2, 24), nn.LayerNorm(8)
        self.hidden, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        pixels = self.inside(x.flatten(2).transpose(1, 2)).unflatten(2, (2, 12)).transpose(1, 2)
        seen = nn.functional.scaled_dot_product_attention(*pixels.split(4, 3))
        rows = self.norm(seen.transpose(1, 2).flatten(2))
        return self.last(nn.functional.gelu(self.hidden(rows)).mean(1))


def samples():
    """Images [SAMPLES, 2, 4, 4] and classes [SAMPLES] that depend on them."""
    x = support.normal(SAMPLES, 2, 4, 4)
    return x, x[:, 0, 0, :3].argmax(axis=1)


def exported(module):
    """The bytes of the ONNX file. The exporter runs the module, which changes its statistics."""
    file = io.BytesIO()
    torch.onnx.export(module, (torch.zeros(2, 2, 4, 4),), file, opset_version=17,
                      training=TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "n"}}, dynamo=False)
    return file.getvalue()


class Zeros(nn.Module):
    """Recurrent weights that only the state zero is multiplied with, a sum of no elements, and parameters
    that only integers and a shape are made of."""

    def __init__(self):
        super().__init__()
        self.W, self.R = nn.Parameter(torch.randn(1, 4, 3)), nn.Parameter(torch.randn(1, 4, 4))
        self.p, self.whole, self.shaped = (nn.Parameter(torch.randn(5)) for _ in range(3))
        self.v = nn.Parameter(torch.randn(4, 1))

    def forward(self, x):
        state = torch.tanh(x @ self.W[0].t() + torch.zeros(len(x), 4) @ self.R[0].t())
        return state @ self.v + self.p[:0].sum() + self.whole.int().sum()

    def file(self):
        """The bytes of an ONNX file with its nodes and weights."""
        nodes = [support.node("Unsqueeze", "x first", "steps"),
                 support.node("RNN", "steps W R", "all state", hidden_size=4),
                 support.node("Squeeze", "state first", "row"), support.node("MatMul", "row v", "made"),
                 support.node("Gather", "p none", "nothing"),
                 support.node("ReduceSum", "nothing", "sum", keepdims=0),
                 support.node("Cast", "whole", "integers", to=onnx.TensorProto.INT64),
                 support.node("Cast", "integers", "reals", to=onnx.TensorProto.FLOAT),
                 support.node("ReduceSum", "reals", "whole_sum", keepdims=0),
                 support.node("Shape", "shaped", "extents"),
                 support.node("ConstantOfShape", "extents", "zeros"),
                 support.node("ReduceSum", "zeros", "zero", keepdims=0),
                 support.node("Add", "made sum", "with_sum"),
                 support.node("Add", "with_sum whole_sum", "with_whole"),
                 support.node("Add", "with_whole zero", "y")]
        weights = {name: p.detach().numpy() for name, p in self.named_parameters()}
        settings = {"first": np.array([0]), "none": np.zeros(0, np.int64)}
        return support.model(nodes, {"x": ("n", 3)}, weights | settings).SerializeToString()


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def train(self, module, max_p, mix):
        """Runs a job on a mix of devices and on one; their bits must be equal."""
        self.source = exported(module)
        captured = from_onnx(self.source, "cross_entropy", name=type(module).__name__)
        for name, tensor in module.state_dict().items():
            tensor.copy_(torch.from_numpy(captured.weights.get(name, np.array(0))))
        job = es.Job(captured, data=es.data.arrays(*samples()), batch_size=SAMPLES // max_p,
                     max_p=max_p, steps=STEPS, metrics=["accuracy"],
                     eval_data=es.data.arrays(*samples()),
                     optimizer=es.Optimizer("sgd", 0.1, momentum=0.9))
        mixed, fixed = job.run(stages=mix), job.run(devices="cpu-avx2:1")
        self.assertEqual(mixed.params_digest, fixed.params_digest)
        self.assertEqual(mixed.state_digest, fixed.state_digest)
        return mixed

    def compare(self, module, max_p, mix):
        """Compares losses, weights and the evaluation with those of PyTorch."""
        run = self.train(module, max_p, mix)
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        losses = torch_losses(module, optimizer, nn.functional.cross_entropy, samples(), STEPS)
        np.testing.assert_allclose([record.loss for record in run.history], losses, rtol=1e-4)
        trained = type(module)()
        run.load_into(trained)
        for name, tensor in module.state_dict().items():
            np.testing.assert_allclose(trained.state_dict()[name], tensor, rtol=1e-3, atol=1e-5,
                                       err_msg=name)
        x, y = (torch.from_numpy(part) for part in samples())
        logits = trained.eval()(x).detach()
        correct = (logits.argmax(1) == y).float().mean().item()
        self.assertAlmostEqual(run.evaluations[-1]["accuracy"], correct, delta=1 / SAMPLES)
        to_onnx(run, self.source, self.folder / "trained.onnx")
        written = support.references_outputs(onnx.load(self.folder / "trained.onnx"),
                                             {"image": x.numpy()})
        np.testing.assert_allclose(written["logits"], logits, rtol=1e-3, atol=1e-5)

    def test_a_batch_norm(self):
        torch.manual_seed(support.SEED)
        self.compare(Normed(), 1, "cpu-avx2:1@1,cpu-scalar:1")

    def test_attention(self):
        torch.manual_seed(support.SEED)
        self.compare(Attentive(), 4, "cpu-avx2:2@2,cpu-scalar:1")

    def test_a_gradient_of_zeros_decays_a_weight_and_none_does_not(self):
        torch.manual_seed(support.SEED)
        model, x = Zeros(), support.normal(SAMPLES, 3)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        y = support.normal(SAMPLES, 1, seed=3)
        job = es.Job(from_onnx(model.file(), "mse"), data=es.data.arrays(x, y), batch_size=SAMPLES,
                     max_p=1, steps=STEPS, optimizer=es.Optimizer(
                         "adamw", learning_rate=0.1, weight_decay=0.5))
        state = job.run(devices="cpu-avx2:1", progress=False).state_dict()
        torch_losses(model, optimizer, nn.functional.mse_loss, (x, y), STEPS)
        moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
        self.assertEqual(moved, {"W", "R", "v", "p"})
        for name, tensor in model.state_dict().items():
            np.testing.assert_allclose(state[name], tensor, rtol=1e-3, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    unittest.main()
