#!/usr/bin/env python3
"""A job trains on images in tar files without unpacking them: the same bits everywhere, also with a
model file, and one clear error for whatever is wrong."""
import array
import gzip
import io
import json
import os
import random as random_numbers
import tarfile

import harness
from data_test import png
from harness import EXIT_FAILURE, EXIT_NOT_FOUND, EXIT_USAGE, digests
from jobs import ANY_LENGTH, job_text
from model_files import CLASSES as MODEL_CLASSES
from model_files import SIDE as MODEL_SIDE
from model_files import (ENDLESS, ModelFileCase, read_safetensors, small_net, write_npy,
                         write_safetensors)

CLASSES, STEPS = 4, 20
FORMATS = (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)


def write_tar(file, members, form=tarfile.PAX_FORMAT):
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


class Shards(ModelFileCase):
    def setUp(self):
        super().setUp()
        random = harness.seeded_random("webdataset")
        self.samples = [(i % CLASSES, png([random.randbytes(36) for _ in range(12)]))
                        for i in range(90)]
        self.data = self.directory / "data"
        for i, form in enumerate(FORMATS):
            write_tar(self.data / f"train/{i}.tar", self.members(25 * i, 25 * i + 25), form)
        write_tar(self.data / "eval/0.tar", self.members(75, 90))

    def members(self, begin, end):
        """Three kinds of labels; some names are too long for the field of the name."""
        members = []
        for i in range(begin, end):
            label, image = self.samples[i]
            key = f"{('long' * 15 + '/') * 2 if i % 5 == 0 else ''}{i:05}"
            content = {"cls": f"{label}\n", "txt": f" {label}", "json": json.dumps({"label": label})}
            kind = ("cls", "txt", "json")[i % 3]
            members += [(f"{key}.png", image), (f"{key}.{kind}", content[kind].encode())]
        return members

    def job(self, **changes):
        fields = {"model.classes": CLASSES, "data.kind": "webdataset", "data.path": "data",
                  "data.random_resized_crop": True, "data.samples": None, "data.eval_samples": None,
                  "steps": STEPS, **{key.replace("__", "."): x for key, x in changes.items()}}
        return self.write_job(job_text(self.word, changes=fields))

    def model_job(self):
        """A job of a model file whose inputs have names of their own."""
        net = small_net(random_numbers.Random(3))
        net.json["inputs"][0]["name"], net.json["inputs"][1]["name"] = "pixel_values", "target"
        self.pack(net.json, self.directory / "net.esmodel")
        write_safetensors(self.directory / "weights.safetensors", net.weights)
        return self.write_model_job(
            {"name": f"captured-{self.word}", "max_p": 4, "batch_size": 4, "steps": STEPS, "seed": 5,
             "level": "D2"},
            f'\n[data]\nkind = "webdataset"\npath = "data"\nheight = {MODEL_SIDE}\n'
            f"width = {MODEL_SIDE}\nchannels = 1\nflip = true\n"
            '\n[optimizer]\nkind = "adamw"\nlearning_rate = 0.02\n')

    def placements(self):
        fast, other = self.fast_class(), self.other_class()
        return (f"{fast}:1@{STEPS}", f"{fast}:1+{other}:2@{STEPS}",
                f"{fast}:3@5,{other}:1@6,{fast}:2+{other}:1@{STEPS - 11}")


class Training(Shards):
    def test_the_bits_do_not_depend_on_the_devices(self):
        self.assertEqual(CLASSES, MODEL_CLASSES)
        for job in (self.job(), self.model_job()):
            found = {}
            for stages in self.placements():
                summary = self.run_job(job, "--stages", stages)
                found[stages] = (*digests(summary), json.dumps(summary["eval"]))
                self.assertEqual(summary["eval"]["total"], 15)
            self.assertEqual(len(set(found.values())), 1, found)

    def test_the_division_into_shards_changes_no_bit(self):
        device = ("--devices", self.fast_class() + ":1")
        before = self.run_job(self.job(), *device)
        write_tar(self.directory / "other.tar", self.members(0, 75))
        for i in range(3):
            (self.data / f"train/{i}.tar").unlink()
        (self.data / "train").rmdir()
        (self.data / "train.txt").write_text("../other.tar\n")
        after = self.run_job(self.job(), *device)
        self.assertEqual(digests(after), digests(before))

    def test_a_killed_worker_changes_no_bit(self):
        self.check_killed_worker(self.job(steps=ENDLESS, **ANY_LENGTH))

    def test_pixels_of_a_prediction_become_numbers_as_in_the_training(self):
        checkpoint, out = self.directory / "checkpoint", self.directory / "out.npz"
        self.run_job(self.model_job(), "--checkpoint", checkpoint, "--devices",
                     self.fast_class() + ":1")
        pixels = harness.seeded_random("pixels").randbytes(5 * MODEL_SIDE**2)
        numbers = array.array("f", list(pixels))
        for operation in (lambda x: x / 255, lambda x: x - 0.5, lambda x: x / 0.5):
            numbers = array.array("f", map(operation, numbers))  # each is rounded to fp32
        found = []
        for descr, content in (("|u1", pixels), ("<f4", numbers.tobytes())):
            folder = self.directory / descr[1:]
            folder.mkdir()
            write_npy(folder / "pixel_values.npy", descr, [5, 1, MODEL_SIDE, MODEL_SIDE], content)
            self.esctl("predict", checkpoint, folder, "--out", out)
            found.append(out.read_bytes())
            out.unlink()
        self.assertEqual(found[0], found[1])
        self.esctl("export", checkpoint, self.directory / "trained.safetensors")
        metadata, _ = read_safetensors(self.directory / "trained.safetensors")
        self.assertEqual(json.loads(metadata["mean"]), [0.5, 0.5, 0.5])

    def test_inspect_counts_the_samples(self):
        found = self.esctl("data", "inspect", self.data, "--json").json
        self.assertEqual(found, {
            "directory": str(self.data),
            "train": {"samples": 75, "shards": 3, "index_files": 0, "largest_label": CLASSES - 1},
            "eval": {"samples": 15, "shards": 1, "index_files": 0, "largest_label": CLASSES - 1}})
        self.assertIn("75 samples in 3 shards", self.esctl("data", "inspect", self.data).out)

    def test_index_files_change_no_bit_and_are_left_when_their_shards_change(self):
        device = ("--devices", self.fast_class() + ":1")
        before = self.run_job(self.job(), *device)
        written = self.esctl("data", "index", self.data, "--json").json
        self.assertEqual(written["train"]["index_files"], 3)
        self.assertEqual(len(list(self.data.glob("*/*.tar.index"))), 4)
        after = self.run_job(self.job(), *device)
        self.assertEqual(digests(after), digests(before))
        shard = self.data / "train/2.tar"
        write_tar(shard, self.members(50, 60))
        found = self.esctl("data", "inspect", self.data, "--json").json
        self.assertEqual(found["train"], {"samples": 60, "shards": 3, "index_files": 2,
                                          "largest_label": CLASSES - 1})
        self.assertIn("2 with index files", self.esctl("data", "inspect", self.data).out)
        self.assertNotEqual(digests(self.run_job(self.job(), *device)), digests(before))

    def test_a_job_reads_the_index_file_in_place_of_the_headers(self):
        """A header that no image needs is damaged behind the back of the index."""
        shard = self.data / "train/1.tar"
        content, times = bytearray(shard.read_bytes()), os.stat(shard)
        before = self.run_job(self.job())
        self.esctl("data", "index", self.data)
        with tarfile.open(shard) as tar:
            label = next(m for m in tar if m.name.endswith((".cls", ".txt", ".json"))
                         and m.offset > 2048)
        content[label.offset] ^= 1
        shard.write_bytes(content)
        os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual(digests(self.run_job(self.job())), digests(before))
        self.assertIn("checksum of the header",
                      self.esctl("data", "inspect", self.data, code=EXIT_USAGE).err)
        os.utime(shard)
        self.assert_one_error(self.job(), EXIT_USAGE, shard, "checksum of the header")


class BadInput(Shards):
    def test_shards_that_do_not_fit_are_refused_at_the_admission(self):
        shard = self.data / "train/1.tar"
        whole = shard.read_bytes()
        shard.write_bytes(whole[:9000])
        self.assert_one_error(self.job(), EXIT_USAGE, shard, "block ")
        write_tar(shard, [*self.members(0, 3), ("secret.png", b"x")])
        self.assert_one_error(self.job(), EXIT_USAGE, f"{shard}: block ", "labels of the sample = 0")
        self.assertIn('key "secret"', self.esctl("data", "inspect", self.data, code=EXIT_USAGE).err)
        shard.write_bytes(whole)
        self.assert_one_error(self.job(model__classes=3), EXIT_USAGE, "0.tar: block ",
                              "label is not as it must be: allowed is 0 to 2")
        self.assert_one_error(self.job(data__path="none"), EXIT_NOT_FOUND, "there are no shards")
        shard.write_bytes(gzip.compress(whole))
        self.assert_one_error(self.job(), EXIT_USAGE, shard, "compressed with gzip")
        shard.rename(self.data / "train/1.tar.gz")
        self.assert_one_error(self.job(), EXIT_USAGE, "train/1.tar.gz", "is compressed")
        self.assertIn("is compressed",
                      self.esctl("data", "inspect", self.data, code=EXIT_USAGE).err)

    def test_a_damaged_image_ends_the_job_with_its_place(self):
        shard = self.data / "train/1.tar"
        content = shard.read_bytes()
        at = content.index(b"IDAT") + 20
        shard.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1:])
        self.assert_one_error(self.job(steps=60), EXIT_FAILURE, f"{shard}: block ",
                              "damaged PNG image")


if __name__ == "__main__":
    harness.main()
