#!/usr/bin/env python3
"""Images in folders and in tar files: their number, the job, and training."""
import io
import json
import struct
import tarfile
import tomllib
import unittest
import zlib
from unittest import mock

import numpy as np
import torch
from support import FakeProgramsCase, FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.data import image_samples

SIDE, CLASSES = 6, 3


def png(pixels):
    """The bytes of an image [height, width, 3]."""
    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content +
                struct.pack(">I", zlib.crc32(kind + content)))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def pixels_of(i):
    """An image whose brightness tells its class."""
    noise = np.random.default_rng(i).integers(0, 40, (SIDE, SIDE, 3))
    return (noise + 80 * (i % CLASSES)).astype(np.uint8)


def write_tar(file, members):
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


def samples(numbers):
    return [member for i in numbers for member in (
        (f"{i:03}.png", png(pixels_of(i))), (f"{i:03}.cls", str(i % CLASSES).encode()))]


def write_folder(folder, train, evaluation):
    for half, numbers in (("train", train), ("val", evaluation)):
        for i in numbers:
            file = folder / half / f"class{i % CLASSES}" / f"{i:03}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(pixels_of(i)))
    return folder


class Net(nn.Module):
    def __init__(self, classes=CLASSES):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, classes)

    def forward(self, pixel_values):
        return self.last(self.conv(pixel_values).relu().mean((2, 3)))


def make_job(data, **changes):
    torch.manual_seed(1)
    settings = {"loss": nn.CrossEntropyLoss(), "batch_size": 3, "max_p": 4, "steps": 12,
                "metrics": ["accuracy"], "optimizer": es.Optimizer("adamw", learning_rate=0.05)}
    return es.Job(changes.pop("model", None) or Net(), data=data, **(settings | changes))


class Settings(FakeProgramsCase):
    def test_a_folder_of_images(self):
        write_folder(self.folder / "set", range(7), range(3))
        (self.folder / "set/train/class0/notes.txt").write_text("no image")
        data = es.data.images(self.folder / "set", (SIDE, 8), flip=True, normalise="imagenet")
        self.assertEqual(data.samples, 7)
        head = data.head(4)
        self.assertEqual(head[0].shape, (4, 3, SIDE, 8))
        self.assertEqual(head[0].dtype, np.float32)
        np.testing.assert_array_equal(head[1], [0, 1, 2, 0])
        table = tomllib.loads(make_job(data, steps=1, max_p=1).toml())["data"]
        self.assertEqual(table, {
            "kind": "image_folder", "path": str((self.folder / "set").resolve()), "height": SIDE,
            "width": 8, "channels": 3, "normalise": "imagenet", "crop_padding": 0, "flip": True,
            "random_resized_crop": False})

    def test_a_list_of_shards_becomes_files_of_the_job(self):
        train, evaluation = self.folder / "a.tar", self.folder / "b.tar"
        seen = []

        def inspect(arguments):
            place = self.folder.__class__(arguments[2])
            seen.append({x.name: x.read_text() for x in place.glob("*.txt")})
            return {"train": {"samples": 7, "shards": 1, "largest_label": 2}, "eval": None}
        with mock.patch.object(image_samples, "run_json", inspect):
            data = es.data.webdataset([train, str(train)], SIDE, eval_shards=[evaluation], channels=1)
        lists = {"train.txt": f"{train.resolve()}\n" * 2, "eval.txt": f"{evaluation.resolve()}\n"}
        self.assertEqual(seen, [lists])
        self.assertEqual(data.samples, 7)

        class Grey(Net):
            def forward(self, x):
                return super().forward(x.expand(-1, 3, -1, -1))
        job = make_job(data, steps=1, max_p=1, model=Grey(), directory=self.folder / "job")
        table = tomllib.loads(job.write().read_text())["data"]
        self.assertEqual((table["kind"], table["path"], table["channels"]), ("webdataset", "data", 1))
        self.assertEqual({x.name: x.read_text() for x in (self.folder / "job/data").iterdir()}, lists)

    def test_what_does_not_fit_is_refused(self):
        place = self.folder / "set"

        def refused(text, call):
            with self.assertRaisesRegex(es.UsageError, text):
                call()
        refused("train is no folder", lambda: es.data.images(place, 8))
        (place / "train/a").mkdir(parents=True)
        refused("train has no images: allowed is a folder with", lambda: es.data.images(place, 8))
        write_folder(place, range(3), [])
        refused("val is no folder", lambda: es.data.images(place, 8))
        write_folder(place, [], range(3))
        refused("size = 0: allowed are at least 1", lambda: es.data.images(place, 0))
        refused("channels = 2: allowed is 1 or 3", lambda: es.data.images(place, 8, channels=2))
        refused("normalise = 'all': allowed is half or imagenet",
                lambda: es.data.images(place, 8, normalise="all"))
        data = es.data.images(place, SIDE)
        refused("eval_data: allowed is none with images", lambda: make_job(data, max_p=1, eval_data=data))
        data.check_inputs(["x", "y"], {"x": 0, "y": 1})
        refused("the model has the inputs y, x: allowed are the image and then its class",
                lambda: data.check_inputs(["y", "x"], {"x": 0, "y": 1}))
        refused("shards is empty", lambda: es.data.webdataset([], SIDE))
        refused("eval_shards: allowed is none beside a folder",
                lambda: es.data.webdataset(place, SIDE, eval_shards=["a.tar"]))
        self.prepare("data", json.dumps({"train": {"tokens": 1}}))
        refused("has token files: allowed is a folder with train/", lambda: es.data.webdataset(place, 1))


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def run_of(self, data, stages, **changes):
        run = make_job(data, **changes).run(stages=stages, progress=False)
        return run.params_digest, run.state_digest, run.evaluations[-1]

    def test_folders_and_shards_give_the_same_bits_everywhere(self):
        fast, other = offered_types()
        train, evaluation = range(0, 60), range(60, 72)
        in_order = sorted(train, key=lambda i: i % CLASSES)  # as the folders of the classes
        folder = write_folder(self.folder / "images", train, evaluation)
        write_tar(self.folder / "set/train/0.tar", samples(in_order[:25]))
        write_tar(self.folder / "set/train/1.tar", samples(in_order[25:]))
        write_tar(self.folder / "set/eval/0.tar",
                  samples(sorted(evaluation, key=lambda i: i % CLASSES)))
        listed = sorted((self.folder / "set/train").iterdir())
        augmented = {"random_resized_crop": True, "flip": True}
        found = [self.run_of(es.data.images(folder, SIDE, **augmented), f"{fast}:1"),
                 self.run_of(es.data.webdataset(self.folder / "set", SIDE, **augmented),
                             f"{fast}:1+{other}:2"),
                 self.run_of(es.data.webdataset(listed, SIDE, eval_shards=[
                     self.folder / "set/eval/0.tar"], **augmented), f"{fast}:3@5,{other}:1")]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        self.assertEqual(found[0][2]["total"], 12)
        self.assertIn("accuracy", found[0][2])

    def test_a_damaged_shard_is_named_with_its_key(self):
        write_tar(self.folder / "train/0.tar", samples(range(4)) + [("dir/9.png", b"x")])
        with self.assertRaisesRegex(es.UsageError, r'train/0.tar: block \d+, key "dir/9": labels of the '
                                                   'sample = 0: allowed is a .cls'):
            es.data.webdataset(self.folder, SIDE)

    def test_a_class_that_the_model_does_not_have_is_refused(self):
        good, bad = samples(range(60)), [("x.png", png(pixels_of(0))), ("x.cls", b"3")]
        write_tar(self.folder / "train/0.tar", [*good, *bad])
        data = es.data.webdataset(self.folder, SIDE)
        self.assertEqual(data.head(4)[1].max(), 3)
        with self.assertRaisesRegex(es.UsageError, "Target 3 is out of bounds"):
            make_job(data)
        # A sample that the capture has not seen is found when the job is submitted.
        write_tar(self.folder / "train/0.tar", good)
        job = make_job(es.data.webdataset(self.folder, SIDE))
        write_tar(self.folder / "train/0.tar", [*good, *bad])
        with self.assertRaisesRegex(es.UsageError, "train/0.tar: block .*label is not as it must be: "
                                                   "allowed is 0 to 2"):
            job.run(devices=offered_types()[0] + ":1", progress=False)


if __name__ == "__main__":
    unittest.main()
