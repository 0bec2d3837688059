#!/usr/bin/env python3
"""Weights in PyTorch's form: exported from a checkpoint, loaded by PyTorch, and imported by a
job."""
import json
import struct
import sys

import harness
import pytorch_environment
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, digests
from jobs import job_text
from model_files import read_safetensors

pytorch_environment.enter()
try:
    import numpy
    import torch
except ImportError:
    torch = None

SIDE, CHANNELS, CLASSES = 32, 3, 10
TRAIN, EVAL = 40, 30  # Records of each training file, and of the evaluation file.
WIDTH = 16
TOLERANCE = 1e-4


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, _, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def to_torch(tensors):
    return {name: torch.from_numpy(numpy.frombuffer(data, kind).reshape(shape).copy())
            for name, (_, shape, kind, data) in tensors.items()}


class Images(harness.EndToEndTest):
    """Runs of a ResNet18 on images in the form of CIFAR-10."""

    def setUp(self):
        super().setUp()
        self.data = self.directory / "cifar"
        self.data.mkdir()
        random = harness.seeded_random("images")
        for name, count in [*((f"data_batch_{i}.bin", TRAIN) for i in range(1, 6)),
                            ("test_batch.bin", EVAL)]:
            (self.data / name).write_bytes(b"".join(
                bytes([i % CLASSES]) + random.randbytes(SIDE * SIDE * CHANNELS)
                for i in range(count)))

    def job(self, name="job.toml", **changes):
        drop = {f"data.{key}": None
                for key in ("height", "width", "channels", "samples", "eval_samples")}
        return self.write_job(job_text(self.word, "resnet18", changes={
            "steps": 6, "max_p": 2, "batch_size": 4, "data.kind": "cifar10",
            "data.path": str(self.data), "model.width": WIDTH, **drop, **changes}), name)

    def trained(self):
        """The summary of a short run, and the checkpoint of its end."""
        job = self.job(**{"checkpoint.every_steps": 4,
                          "checkpoint.directory": str(self.directory / "series")})
        summary = self.run_job(job, "--devices", self.fast_class() + ":1")
        return summary, self.directory / "series" / summary["job"] / "step-6"


class Export(Images):
    def exported(self, *options):
        summary, checkpoint = self.trained()
        file = self.directory / "weights.safetensors"
        self.esctl("export", checkpoint, file, *options)
        return summary, file

    def test_pytorch_loads_it_and_computes_what_we_compute(self):
        if torch is None:
            self.skipTest(pytorch_environment.MISSING)
        summary, file = self.exported()
        metadata, tensors = read_safetensors(file)
        self.assertEqual(metadata["params_digest"], summary["params_digest"])
        self.assertEqual((metadata["job"], metadata["version"]), (summary["name"], "6"))
        sys.path.insert(0, str(harness.source_root / "tests/gpu/models"))
        try:
            import make_reference  # noqa: PLC0415, the model as PyTorch has it
            from torchvision.models.resnet import BasicBlock
        except ImportError:
            self.skipTest(pytorch_environment.MISSING)
        model = make_reference.ResNet(BasicBlock, WIDTH, [2, 2, 2, 2], CLASSES, True)
        model.load_state_dict(to_torch(tensors), strict=True)
        model.eval()
        records = numpy.frombuffer((self.data / "test_batch.bin").read_bytes(), "u1")
        records = records.reshape(EVAL, 1 + SIDE * SIDE * CHANNELS)
        images = torch.from_numpy(records[:, 1:].astype("f4").reshape(EVAL, CHANNELS, SIDE, SIDE))
        with torch.no_grad():
            logits = model((images / 255 - 0.5) / 0.5)
        labels = torch.from_numpy(records[:, 0].astype("i8"))
        loss = torch.nn.functional.cross_entropy(logits, labels).item()
        self.assertLess(abs(loss - summary["eval"]["mean_loss"]), TOLERANCE)
        self.assertEqual(int((logits.argmax(1) == labels).sum()),
                         round(summary["eval"]["accuracy"] * EVAL))
        self.assertEqual(int(to_torch(tensors)["bn1.num_batches_tracked"]), 6)

    def test_what_was_exported_comes_back_with_every_bit(self):
        summary, file = self.exported("--optimizer", self.directory / "moments.safetensors")
        still = {"optimizer.learning_rate": 0.0, "optimizer.momentum": 0.0,
                 "optimizer.weight_decay": 0.0, "steps": 1}
        job = self.job("import.toml", **{"model.weights": file.name, "seed": 77, **still})
        again = self.run_job(job, "--devices", self.fast_class() + ":2")
        self.assertEqual(again["params_digest"], summary["params_digest"])
        fresh = self.job("fresh.toml", **{"seed": 77, **still})
        self.assertNotEqual(self.run_job(fresh)["params_digest"], summary["params_digest"])
        _, moments = read_safetensors(self.directory / "moments.safetensors")
        self.assertEqual(moments["momentum_buffer.conv1.weight"][1], [WIDTH, CHANNELS, 3, 3])

    def test_what_is_wrong_is_said(self):
        _, checkpoint = self.trained()
        file = self.directory / "weights.safetensors"
        self.esctl("export", checkpoint, file)
        self.assertIn(str(file), self.esctl("export", checkpoint, file, code=EXIT_REFUSED).err)
        self.esctl("export", self.directory / "nowhere", file, code=EXIT_NOT_FOUND)
        narrow = self.job("narrow.toml", **{"model.weights": str(file), "model.width": 8})
        ended = self.esctl("run", narrow, "--quiet", code=EXIT_USAGE)
        self.assertIn('"conv1.weight": shape = [16,3,3,3]: allowed is [8,3,3,3]', ended.err)
        missing = self.job("missing.toml", **{"model.weights": "nowhere.safetensors"})
        self.assertIn("nowhere.safetensors",
                      self.esctl("run", missing, "--quiet", code=EXIT_NOT_FOUND).err)

    def changed(self, name, **values):
        """A copy of exported weights in which all elements of some tensors have another value."""
        _, file = self.exported()
        _, tensors = read_safetensors(file)
        for tensor, value in values.items():
            dtype, shape, kind, data = tensors[tensor.replace("__", ".")]
            tensors[tensor.replace("__", ".")] = (dtype, shape, kind,
                                                  struct.pack("<f", value) * (len(data) // 4))
        path = self.directory / name
        write_safetensors(path, tensors)
        return path

    def test_a_variance_below_zero_is_refused_before_the_first_step(self):
        weights = self.changed("bad.safetensors", bn1__running_var=-1000.0)
        ended = self.esctl("run", self.job("bad.toml", **{"model.weights": str(weights)}),
                           "--quiet", code=EXIT_USAGE)
        self.assertIn(f'{weights}: tensor "bn1.running_var": element 0 = -1000: allowed is a finite '
                      "number of at least 0", ended.err)

    def test_an_evaluation_that_is_not_finite_is_named_and_is_no_number(self):
        # Training normalises with the statistics of the mini-batch, so only the evaluation
        # overflows.
        weights = self.changed("far.safetensors", bn1__running_mean=-3e38, bn1__running_var=0.0)
        job = self.job("far.toml", **{"model.weights": str(weights), "steps": 1, "level": "D2"})
        bits = []
        for device in (self.fast_class(), self.other_class(), "cpu-scalar"):
            summary = self.run_job(job, "--devices", device + ":1")
            self.assertEqual(summary["state"], "finished")
            bits.append(digests(summary))
            evaluation = summary["eval"]
            self.assertEqual((evaluation["accuracy"], evaluation["mean_loss"]), (None, None))
            self.assertTrue(evaluation["not_finite"])
        self.assertEqual(bits, bits[:1] * 3)
        ended = self.esctl("run", job, "--devices", "cpu-scalar:1")
        self.assertIn("accuracy not finite", (ended.out + ended.err).replace("  ", " "))

    def test_a_file_that_is_not_the_one_of_the_job_is_noticed(self):
        _, file = self.exported()
        job = self.job("pinned.toml", **{"model.weights": str(file),
                                         "model.weights_digest": "0123456789abcdef" * 2})
        ended = self.esctl("run", job, "--quiet", code=harness.EXIT_FAILURE)
        self.assertIn(str(file), ended.err)
        self.assertIn("allowed is 0123456789abcdef0123456789abcdef", ended.err)


if __name__ == "__main__":
    harness.main()
