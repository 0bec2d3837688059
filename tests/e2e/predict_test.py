#!/usr/bin/env python3
"""A checkpoint is evaluated and makes predictions without a head: the same numbers as in training, on
every device, and one clear error for whatever is wrong."""
import array
import io
import json
import shutil
import struct
import zipfile

import harness
from export_test import CLASSES, EVAL, SIDE, Images
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from model_file_test import ModelFileTest
from model_files import CLASSES as LABELS, EVAL as SAMPLES, npy_bytes, read_safetensors, write_npy

PIXELS = SIDE * SIDE * 3


def write_npz(path, arrays, packing=zipfile.ZIP_DEFLATED):
    """`arrays`: name -> (kind, shape, bytes)."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, (kind, shape, content) in arrays.items():
            archive.writestr(name + ".npy", npy_bytes(kind, shape, content))
    return path


def read_npz(path):
    """Name -> (shape, fp32 values)."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = io.BytesIO(archive.read(name))
            prefix = content.read(10)
            header = eval(content.read(struct.unpack("<H", prefix[8:])[0]), {"__builtins__": {}})
            assert header["descr"] == "<f4" and not header["fortran_order"]
            values = array.array("f")
            values.frombytes(content.read())
            found[name.removesuffix(".npy")] = list(header["shape"]), values
    return found


class TrainedModelTest(Images):
    """A ResNet18 that was trained on images in the form of CIFAR-10."""

    def setUp(self):
        super().setUp()
        self.summary, self.checkpoint = self.trained()

    def records(self):
        """The labels and the pixels, [3,h,w], of the evaluation images."""
        content = (self.data / "test_batch.bin").read_bytes()
        records = [content[i:i + 1 + PIXELS] for i in range(0, len(content), 1 + PIXELS)]
        return [r[0] for r in records], [r[1:] for r in records]

    def images(self, name="images.npz", count=EVAL):
        pixels = b"".join(self.records()[1][:count])
        return write_npz(self.directory / name, {"image": ("|u1", [count, 3, SIDE, SIDE], pixels)})

    def predict(self, source, *options):
        out = self.directory / "out.npz"
        out.unlink(missing_ok=True)
        self.esctl("predict", self.checkpoint, source, "--out", out, *options)
        return read_npz(out), out.read_bytes()

    def test_the_evaluation_has_the_bits_of_the_training(self):
        expected = self.summary["eval"]
        for device in {self.fast_class(), self.other_class()}:
            for threads in (1, 3):
                found = self.esctl("eval", self.checkpoint, "--device", device, "--threads",
                                   threads, "--json").json
                self.assertEqual(found, expected, (device, threads))

    def test_predictions_give_the_accuracy_of_the_evaluation(self):
        labels, _ = self.records()
        outputs, _ = self.predict(self.images())
        shape, values = outputs["output"]
        self.assertEqual(shape, [EVAL, CLASSES])
        classes = [max(range(CLASSES), key=lambda c: values[i * CLASSES + c]) for i in range(EVAL)]
        hits = sum(found == label for found, label in zip(classes, labels))
        self.assertAlmostEqual(hits / EVAL, self.summary["eval"]["accuracy"], places=12)

    def test_predictions_do_not_depend_on_device_form_or_number_of_samples(self):
        outputs, content = self.predict(self.images(), "--device", self.fast_class())
        self.assertEqual(self.predict(self.images(), "--device", self.other_class())[1], content)
        folder = self.directory / "arrays"
        folder.mkdir()
        pixels = b"".join(self.records()[1])
        normal = array.array("f", ((p / 255 - 0.5) / 0.5 for p in pixels))
        write_npy(folder / "image.npy", "|u1", [EVAL, 3, SIDE, SIDE], pixels)
        self.assertEqual(self.predict(folder)[1], content)
        few, _ = self.predict(self.images("few.npz", 5))
        self.assertEqual(few["output"][1], outputs["output"][1][:5 * CLASSES])
        reals = write_npz(self.directory / "reals.npz",
                          {"image": ("<f4", [EVAL, 3, SIDE, SIDE], normal.tobytes())})
        for found, expected in zip(self.predict(reals)[0]["output"][1], outputs["output"][1]):
            self.assertAlmostEqual(found, expected, places=4)  # double precision, then rounded

    def test_exported_weights_say_how_their_images_were_normalised(self):
        file = self.directory / "weights.safetensors"
        self.esctl("export", self.checkpoint, file)
        metadata, _ = read_safetensors(file)
        self.assertEqual(json.loads(metadata["mean"]), [0.5, 0.5, 0.5])
        self.assertEqual(json.loads(metadata["std"]), [0.5, 0.5, 0.5])

    def test_bad_input_is_one_error(self):
        good = self.images()
        content = good.read_bytes()
        cut, text = self.directory / "cut.npz", self.directory / "text.npz"
        cut.write_bytes(content[:len(content) // 2])
        text.write_text("no archive")
        middle = bytearray(content)
        middle[len(content) // 2] ^= 0x55
        flipped = self.directory / "flipped.npz"
        flipped.write_bytes(bytes(middle))
        shape = [2, 3, SIDE, SIDE]
        cases = {
            "none.npz": (EXIT_NOT_FOUND, "no such file"),
            text.name: (EXIT_USAGE, "is no archive of NumPy arrays"),
            cut.name: (EXIT_USAGE, "is no archive of NumPy arrays"),
            flipped.name: (EXIT_USAGE, "flipped.npz[image]"),
        }
        arrays = {
            "other.npz": ({"picture": ("<f4", [1], b"1234")}, EXIT_NOT_FOUND, "needs the arrays image"),
            "side.npz": ({"image": ("|u1", [2, 3, 5, 5], bytes(150))}, EXIT_USAGE, "(samples, 3, 5, 5)"),
            "type.npz": ({"image": ("<i8", shape, bytes(16 * PIXELS))}, EXIT_USAGE, "i8"),
            "empty.npz": ({"image": ("|u1", [0, *shape[1:]], b"")}, EXIT_USAGE, "number of samples = 0"),
            "short.npz": ({"image": ("|u1", shape, bytes(7))}, EXIT_USAGE, "size in bytes"),
            "nan.npz": ({"image": ("<f4", shape, b"\xff" * 8 * PIXELS)}, EXIT_USAGE, "image"),
        }
        for name, (content, code, message) in arrays.items():
            write_npz(self.directory / name, content)
            cases[name] = code, message
        out = self.directory / "out.npz"
        for name, (code, message) in cases.items():
            ended = self.esctl("predict", self.checkpoint, self.directory / name, "--out", out,
                               code=code)
            self.assertIn(message, ended.err, name)
            self.assertFalse(out.exists(), name)
        out.write_text("mine")
        ended = self.esctl("predict", self.checkpoint, good, "--out", out, code=EXIT_REFUSED)
        self.assertIn("exists already", ended.err)
        self.assertEqual(out.read_text(), "mine")
        self.esctl("eval", self.directory / "nothing", code=EXIT_NOT_FOUND)
        self.esctl("eval", self.checkpoint, "--data", self.directory / "none", code=EXIT_NOT_FOUND)
        self.esctl("eval", self.checkpoint, "--device", "cpu-none", code=EXIT_USAGE)


class CapturedModel(ModelFileTest):
    def test_a_model_file_predicts_without_labels(self):
        checkpoint = self.directory / "checkpoint"
        summary = self.run_job(self.job(), "--devices", self.fast_class() + ":2", "--checkpoint",
                               checkpoint)
        self.assertEqual(self.esctl("eval", checkpoint, "--json").json, summary["eval"])
        # The directory also has the labels, which are not read.
        out = self.directory / "out.npz"
        self.esctl("predict", checkpoint, self.data / "eval", "--out", out)
        labels = (self.data / "eval/label.npy").read_bytes()
        outputs = read_npz(out)
        (shape, values), = outputs.values()
        self.assertEqual(shape[0], summary["eval"]["total"])
        classes = struct.unpack(f"<{shape[0]}q", labels[-8 * shape[0]:])
        hits = sum(max(range(shape[1]), key=lambda c: values[i * shape[1] + c]) == label
                   for i, label in enumerate(classes))
        self.assertAlmostEqual(hits / shape[0], summary["eval"]["accuracy"], places=12)
        alone = self.directory / "alone"
        alone.mkdir()
        shutil.copy(self.data / "eval/image.npy", alone)
        again = self.directory / "again.npz"
        self.esctl("predict", checkpoint, alone, "--out", again)
        self.assertEqual(again.read_bytes(), out.read_bytes())

    def test_an_output_with_an_extent_for_each_other_sample_of_the_mini_batch(self):
        logits = self.net.json["outputs"][0]["value"]
        turned = self.net.node("permute", [logits], [LABELS, "B"], order=[1, 0])
        pairs = self.net.node("matmul", [logits, turned], ["B", "B"])
        self.net.json["outputs"].append({"name": "pairs", "value": pairs})
        self.file.unlink()
        self.pack(self.net.json, self.file)
        checkpoint, out = self.directory / "checkpoint", self.directory / "out.npz"
        batch = 3  # The last mini-batch is not complete.
        self.run_job(self.job(batch_size=batch), "--devices", self.fast_class() + ":1",
                     "--checkpoint", checkpoint)
        self.esctl("predict", checkpoint, self.data / "eval", "--out", out)
        outputs = read_npz(out)
        shape, pairs = outputs["pairs"]
        self.assertEqual((shape, len(pairs)), ([SAMPLES, batch], SAMPLES * batch))
        logits = [outputs["logits"][1][i * LABELS:(i + 1) * LABELS] for i in range(SAMPLES)]
        for i, row in enumerate(logits):
            for j in range(batch):
                # The last sample fills the mini-batch.
                other = logits[min(i - i % batch + j, SAMPLES - 1)]
                self.assertAlmostEqual(pairs[i * batch + j],
                                       sum(a * b for a, b in zip(row, other)), places=3)

    def test_other_data_are_evaluated(self):
        checkpoint = self.directory / "checkpoint"
        self.run_job(self.job(), "--devices", self.fast_class() + ":1", "--checkpoint", checkpoint)
        other = self.directory / "other"
        shutil.copytree(self.data, other)
        shutil.rmtree(other / "eval")
        ended = self.esctl("eval", checkpoint, "--data", other, code=EXIT_USAGE)
        self.assertIn("no evaluation samples", ended.err)
        shutil.copytree(other / "train", other / "eval")
        found = self.esctl("eval", checkpoint, "--data", other, "--json").json
        self.assertEqual(found["total"], 160)


if __name__ == "__main__":
    harness.main()
