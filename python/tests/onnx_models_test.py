#!/usr/bin/env python3
"""Models that torch has exported compute, in both modes, what their modules compute.

They are exported in training: in evaluation the exporter folds batch norms and drops dropouts.
Files with recorded steps of PyTorch are not part of the repository: they lie in the folder
`vectors` of `ES_SHARED`, or of the folder `shared` beside the repository; without them their test
is skipped.
"""
import copy
import io
import json
import os
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx_support as support
import torch
from easyscale.interpret import Context, interpret
from easyscale.onnx import from_onnx
from torch import nn
from torch.nn import functional as F
from torch.onnx import TrainingMode

try:
    import torchvision
    import transformers
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    sys.exit(77)

SAMPLES = 4


class UNet(nn.Module):
    """Two levels with three ways of resizing, a batch norm and a group norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.nearest = nn.Upsample(scale_factor=2)
        self.smooth = nn.Upsample(scale_factor=2, mode="bilinear")
        self.transposed = nn.ConvTranspose2d(16, 16, 2, 2)
        self.up, self.last = nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(24, 4, 1)

    def forward(self, x):
        wide = self.first(x)
        deep = self.down(wide)
        up = self.up(torch.cat([wide, self.nearest(deep)], 1)) + F.mish(wide)
        return self.last(torch.cat([up, self.transposed(deep) + self.smooth(deep)], 1))


class Recurrent(nn.Module):
    """Layers in both directions, of each kind, with states that are given or 0."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.gru, self.rnn = nn.GRU(10, 6, bidirectional=True), nn.RNN(12, 6, batch_first=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        y, last = self.gru(y.transpose(0, 1) * c.sum())
        y, _ = self.rnn(y.transpose(0, 1), last[:1])
        return self.last(y[:, -1] + h[0].sum(1, keepdim=True))


class Places(nn.Module):
    """Writes into slices, the largest elements, and sums at computed places."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        y, out = self.first(x), torch.zeros_like(x)
        out[:, :-1, :2] = y[:, 1:, :2]
        out[:, :, 2:] = out[:, :, 2:] + y[:, :, 2:]
        out[:, 0, 3] = 1.0
        best, index = torch.topk(out.mean(-1), 3, dim=1)
        rows = out.gather(1, index[..., None].expand(-1, -1, 4)) * best[..., None]
        sums = torch.zeros_like(out).scatter_add(1, index[..., None].expand(-1, -1, 4), rows)
        return self.last(sums.mean(1) + rows[:, 0].sort(1, descending=True)[0])


class Sampled(nn.Module):
    """Samples between the pixels of an image."""

    def __init__(self):
        super().__init__()
        self.place, self.last = nn.Linear(6, 18), nn.Linear(9, 3)

    def forward(self, x, image):
        grid = torch.tanh(self.place(x)).view(-1, 3, 3, 2)
        return self.last(F.grid_sample(image, grid, padding_mode="border",
                                       align_corners=False).flatten(1))


class Logits(nn.Module):
    """A model of transformers with one positional argument for each input."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs))).logits


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert():
    config = transformers.BertConfig(vocab_size=50, max_position_embeddings=16, **SMALL)
    return Logits(transformers.BertForSequenceClassification(config),
                  ["input_ids", "attention_mask"])


def vit():
    config = transformers.ViTConfig(image_size=16, patch_size=4, num_labels=5, **SMALL)
    return Logits(transformers.ViTForImageClassification(config), ["pixel_values"])


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def mobilenet():
    return torchvision.models.mobilenet_v3_small(num_classes=10, dropout=0.0)


def resnet():
    return torchvision.models.resnet18(num_classes=10)


def words():
    mask = torch.ones(SAMPLES, 8, dtype=torch.int64)
    mask[:, 6:] = 0
    return torch.randint(0, 50, (SAMPLES, 8)), mask


def image(*shape):
    return (torch.randn(SAMPLES, *shape),)


# Name: the module, its inputs, the opsets, and some kinds that are joined. Attention can be
# exported from opset 14 on.
MODELS = {
    "mlp": (mlp, lambda: image(6), support.OPSETS, {"gelu", "layer_norm", "linear"}),
    "unet": (UNet, lambda: image(3, 8, 8), (13, 18), {"resize", "group_norm", "silu", "mish"}),
    "recurrent": (Recurrent, lambda: image(5, 4), (14, 20), {"lstm", "gru", "tanh"}),
    "places": (Places, lambda: image(5, 4), (16, 18), {"gather", "scatter_add"}),
    "sampled": (Sampled, lambda: (*image(6), *image(1, 5, 5)), (16, 20), {"gather"}),
    "bert": (bert, words, (14, 20), {"attention", "gelu", "layer_norm", "embedding"}),
    "vit": (vit, lambda: image(3, 16, 16), (14, 17), {"attention", "gelu", "layer_norm"}),
    "mobilenet": (mobilenet, lambda: image(3, 32, 32), (13, 17), {"hardswish", "batch_norm"}),
    "resnet": (resnet, lambda: image(3, 32, 32), (13, 16), {"batch_norm", "max_pool"}),
}


def export(module, inputs, opset, mode=TrainingMode.TRAINING):
    """The bytes of an ONNX file of a module; its inputs are x0, x1 and so on."""
    file, names = io.BytesIO(), [f"x{i}" for i in range(len(inputs))]
    torch.onnx.export(module, inputs, file, opset_version=opset, training=mode,
                      do_constant_folding=mode is not TrainingMode.TRAINING, input_names=names,
                      output_names=["y"], dynamic_axes={name: {0: "n"} for name in names},
                      dynamo=False)
    return file.getvalue()


def run(captured, tensors, inputs, training):
    """The output and the loss of a program, for labels that are all 1."""
    (_, *shape) = captured.program.values[captured.program.inputs[-1].value].shape(SAMPLES)
    given = {f"x{i}": x for i, x in enumerate(inputs)}
    given["label"] = torch.ones(SAMPLES, *shape, dtype=torch.int64)
    values = interpret(captured.program, tensors, given, Context(training=training))
    return values[captured.program.outputs[0].value], values[captured.program.loss]


class Exported(unittest.TestCase):
    def test_programs_compute_what_the_modules_compute(self):
        for name, (make, inputs, opsets, kinds) in MODELS.items():
            torch.manual_seed(support.SEED)
            module, given = make(), inputs()
            for opset in opsets:
                with self.subTest(name, opset=opset):
                    self.compare(module, given, from_onnx(export(module, given, opset),
                                                          "cross_entropy", check=False), kinds)

    def compare(self, module, inputs, captured, kinds):
        self.assertEqual(kinds - captured.program.kinds(), set())
        state = {key for key in module.state_dict() if not key.endswith("num_batches_tracked")}
        self.assertEqual(set(captured.weights), state)
        tensors = {key: torch.from_numpy(array).requires_grad_("running" not in key)
                   for key, array in captured.weights.items()}
        module = copy.deepcopy(module).eval()
        with torch.no_grad():
            torch.testing.assert_close(run(captured, tensors, inputs, False)[0], module(*inputs),
                                       rtol=1e-4, atol=1e-5)
        logits, loss = run(captured, tensors, inputs, True)
        expected = module.train()(*inputs)
        labels = torch.ones(SAMPLES, *expected.shape[2:], dtype=torch.int64)
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-4)
        F.cross_entropy(expected, labels).backward()
        loss.backward()
        for key, parameter in module.named_parameters():
            scale = max(parameter.grad.norm().item(), 1e-2)
            error = (tensors[key].grad - parameter.grad).norm().item()
            self.assertLess(error, 2e-3 * scale, key)

    def test_an_export_in_evaluation_has_folded_batch_norms(self):
        torch.manual_seed(support.SEED)
        module, inputs = UNet().eval(), image(3, 8, 8)
        captured = from_onnx(export(module, inputs, 17, TrainingMode.EVAL), "cross_entropy")
        self.assertNotIn("batch_norm", captured.program.kinds())
        tensors = {key: torch.from_numpy(array) for key, array in captured.weights.items()}
        with torch.no_grad():
            torch.testing.assert_close(run(captured, tensors, inputs, False)[0], module(*inputs),
                                       rtol=1e-4, atol=1e-5)

    def test_dropouts_of_attention(self):
        config = transformers.ViTConfig(image_size=16, patch_size=8, num_labels=5, **(
            SMALL | {"attention_probs_dropout_prob": 0.2, "hidden_dropout_prob": 0.1}))
        module = Logits(transformers.ViTForImageClassification(config), ["pixel_values"])
        captured = from_onnx(export(module.train(), image(3, 16, 16), 17), "cross_entropy")
        sites = [node.attributes["site"] for node in captured.program.nodes
                 if "site" in node.attributes]
        self.assertEqual(sites, list(range(7)))
        self.assertEqual([node.attributes["dropout"] for node in captured.program.nodes
                          if node.kind == "attention"], [0.2, 0.2])


def span_loss(outputs, targets):
    """The mean of the losses of both ends of a span."""
    ends = [F.cross_entropy(outputs[end], targets[f"{end}_at"]) for end in ("start", "end")]
    return (ends[0] + ends[1]) / 2


SPAN = {f"{end}_at": np.zeros(2, np.int64) for end in ("start", "end")}
# File, record, arguments of from_onnx, and the recorded inputs by the names of the program.
VECTORS = [
    ("mlp_ce.op13", "mlp", {"loss": "loss"}, {"x": "x", "y": "y"}),
    ("resnet18_w16_cifar.op13", "resnet18_w16_cifar", {"loss": "cross_entropy"},
     {"x": "x", "label": "y"}),
    ("resnet18_w16_cifar.op17", "resnet18_w16_cifar", {"loss": "cross_entropy"},
     {"x": "x", "label": "y"}),
    ("neumf.op13", "neumf", {"loss": "bce_with_logits"},
     {"user": "user", "item": "item", "label": "label"}),
    ("tinybert_l2_d128.op13", "tinybert_l2_d128", {"loss": span_loss, "example_targets": SPAN},
     {"ids": "ids", "tt": "tt", "start_at": "start", "end_at": "end"}),
]
SHARED = Path(os.environ.get("ES_SHARED", Path(__file__).resolve().parents[3] / "shared"))


@unittest.skipUnless((SHARED / "vectors").is_dir(), f"{SHARED / 'vectors'} is not there")
class Vectors(unittest.TestCase):
    def test_the_first_step_is_that_which_was_recorded(self):
        for file, name, arguments, fields in VECTORS:
            with self.subTest(file):
                captured = from_onnx(SHARED / "vectors" / f"{file}.onnx", **arguments)
                recorded, losses = read_record(SHARED / "vectors" / name)
                inputs = {field: recorded[f"step0.{key}"] for field, key in fields.items()}
                self.compare(captured, inputs, recorded, losses[0])

    def compare(self, captured, inputs, recorded, loss):
        names = [parameter.name for parameter in captured.program.parameters]
        tensors = {name: torch.from_numpy(array) for name, array in captured.weights.items()}
        for name in names:
            self.assertTrue(torch.equal(tensors[name], recorded[plain(name)]), name)
            tensors[name].requires_grad_()
        values = interpret(captured.program, tensors, inputs, Context(training=True))
        found = values[captured.program.loss]
        self.assertAlmostEqual(found.item() / loss, 1, places=5)
        found.backward()
        for name in names:
            torch.testing.assert_close(tensors[name].grad, recorded[f"step0.grad.{plain(name)}"],
                                       rtol=1e-3, atol=1e-5)


def plain(name):
    """The recorded name of a parameter; one file was exported from a module that holds another."""
    return name.removeprefix("m.")


def read_record(stem):
    """The tensors of a record by name, and the losses of its steps."""
    info = json.loads(stem.with_suffix(".json").read_text())
    data = stem.with_suffix(".bin").read_bytes()
    types = {"f32": np.float32, "i64": np.int64}
    tensors = {}
    for entry in info["tensors"]:
        flat = np.frombuffer(data, types[entry["dtype"]], int(np.prod(entry["shape"])),
                             entry["offset"])
        tensors[entry["name"]] = torch.from_numpy(flat.reshape(entry["shape"]).copy())
    return tensors, info["loss_f64"]


if __name__ == "__main__":
    unittest.main()
