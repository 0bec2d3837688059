"""The program's state: names, statistics, buffers, modes, files."""
import importlib.util
import tempfile
import unittest
from pathlib import Path

import capture_support as support
import torch
from easyscale.tracing import capture
from easyscale.program import Dim, Program
from safetensors.numpy import load_file
from torch import nn


class Net(nn.Module):
    """A convolution with all sorts of state."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 2)
        self.register_buffer("offset", torch.arange(4.0))
        self.register_buffer("hidden", torch.ones(4), persistent=False)

    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image))).mean((2, 3))
        return {"logits": self.head(self.drop(x + self.offset * self.hidden)), "features": x}


def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs["logits"], labels)


def captured_net(model=None):
    return capture(model or Net(), loss, torch.randn(4, 3, 8, 8), torch.randint(0, 2, (4,)),
                   name="net")


class Caching(nn.Module):
    """Keeps a tensor that it has computed in a dict."""

    def __init__(self):
        super().__init__()
        self.bias, self.cache = nn.Parameter(torch.randn(5)), {}

    def forward(self, x):
        if self.training:
            return x + self.bias[[4, 3, 2, 1, 0]]
        if "bias" not in self.cache:
            self.cache["bias"] = self.bias[[4, 3, 2, 1, 0]]
        return x + self.cache["bias"]


class Shifted(nn.Module):
    """A decoder whose words are its labels, one place later; its states are [places, samples, 4]."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

    def forward(self, labels):
        before = nn.functional.pad(labels[:, :-1], (1, 0), value=2)
        states = self.words(before.masked_fill(before == -100, 1))
        logits = self.head(states)
        return {"loss": nn.functional.cross_entropy(logits.transpose(1, 2), labels),
                "states": states.transpose(0, 1), "logits": logits}


class State(unittest.TestCase):
    def test_labels_that_a_decoder_reads_are_words_or_what_it_replaces(self):
        (labels,) = capture(Shifted(), None, {"labels": torch.randint(0, 9, (4, 5))}).program.inputs
        self.assertEqual((labels.low, labels.high), (-100, 8))

    def test_an_output_without_the_samples_first_is_left_out(self):
        program = capture(Shifted(), None, {"labels": torch.randint(0, 9, (4, 5))}).program
        self.assertEqual([x.name for x in program.outputs], ["logits"])

    def test_names_and_extents(self):
        program = captured_net().program
        self.assertEqual([x.name for x in program.inputs], ["image", "label"])
        self.assertEqual([x.name for x in program.outputs], ["logits", "features"])
        image, label = (program.values[x.value] for x in program.inputs)
        self.assertEqual(image.dims, [Dim(1, True), Dim(3), Dim(8), Dim(8)])
        self.assertEqual((label.type, label.dims), ("i32", [Dim(1, True)]))
        self.assertEqual(program.inputs[1].high, 1)
        self.assertEqual(program.values[program.loss].dims, [])

    def test_statistics_and_buffers(self):
        captured = captured_net()
        self.assertEqual([(s.name, s.size, s.is_variance) for s in captured.program.statistics],
                         [("norm.running_mean", 4, False), ("norm.running_var", 4, True)])
        self.assertEqual({x.name for x in captured.program.buffers},
                         {"offset", "norm.num_batches_tracked"})
        self.assertEqual(set(captured.weights) | {x.name for x in captured.program.buffers},
                         set(Net().state_dict()))

    def test_a_module_is_left_as_it_was(self):
        model = Net()
        model.norm.eval()
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        captured_net(model)
        self.assertTrue(model.training and not model.norm.training)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, before[name]), name)

    def test_a_cache_of_tensors_is_emptied(self):
        model = Caching()
        capture(model, nn.MSELoss(), torch.randn(4, 5), torch.randn(4, 5))
        self.assertEqual(model.cache, {})

    def test_a_frozen_batch_norm_has_no_statistics(self):
        model = Net()
        model.norm.eval()
        program = captured_net(model).program
        self.assertEqual(program.statistics, [])
        self.assertNotIn("batch_norm", program.kinds())

    def test_frozen_parameters(self):
        model = Net()
        model.conv.requires_grad_(False)
        program = captured_net(model).program
        self.assertEqual([x.name for x in program.parameters if not x.trainable],
                         ["conv.weight", "conv.bias"])

    def test_a_dropout_is_in_the_program_of_training(self):
        (node,) = [n for n in captured_net().program.nodes if n.kind == "dropout"]
        self.assertEqual((node.attributes, node.name), ({"p": 0.5, "site": 0}, "drop"))
        self.assertRegex(node.source, r"state_test\.py:\d+")

    def test_the_lines_of_a_model_are_known_in_any_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "easyscale", "torch", "lib", "python3.11", "users_net.py")
            path.parent.mkdir(parents=True)
            path.write_text("from torch import nn\n\n\nclass UsersNet(nn.Linear):\n"
                            "    def forward(self, x):\n        return super().forward(x).tanh()\n")
            spec = importlib.util.spec_from_file_location("users_net", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            program = capture(module.UsersNet(4, 2), nn.MSELoss(), torch.randn(3, 4),
                              torch.randn(3, 2)).program
        (node,) = [n for n in program.nodes if n.kind == "tanh"]
        self.assertEqual(node.source, "users_net.py:6")

    def test_files(self):
        captured = captured_net()
        with tempfile.TemporaryDirectory() as folder:
            captured.save(folder)
            text = (Path(folder) / "model.json").read_text()
            weights = load_file(Path(folder) / "weights.safetensors")
        again = Program.from_json(text)
        self.assertEqual(again.to_json(), captured.program.to_json())
        self.assertEqual(set(weights), set(captured.weights))

    def test_two_captures_are_equal(self):
        model = Net()
        first, second = (captured_net(model).program.to_json() for _ in range(2))
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
