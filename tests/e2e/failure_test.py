#!/usr/bin/env python3
"""Errors of users: one line that names the error and what is allowed, and nothing is started."""
import gzip
import shutil
import struct

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from jobs import job_text


class Refusals(harness.EndToEndTest):
    def assert_one_error(self, words, code, *fragments):
        ended = self.start_esctl(*words).wait()
        self.assertEqual(ended.code, code, str(ended))
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
        for fragment in fragments:
            self.assertIn(str(fragment), ended.err, str(ended))
        self.assert_nothing_left()

    def run_words(self, job, *options):
        return ["run", job, "--quiet", *options]


class JobFiles(Refusals):
    BAD = [  # The change, and fragments of the error.
        ({"max_p": 0}, ["max_p = 0", "1 to 1024"]),
        ({"max_p": 5000}, ["max_p = 5000", "1 to 1024"]),
        ({"batch_size": -1}, ["batch_size = -1", "whole number"]),
        ({"seed": 1.5}, ["seed = 1.5", "whole number"]),
        ({"level": "D7"}, ['level = "D7"', "D0, D1, D2, auto"]),
        ({"auto_cost": -1.0}, ["auto_cost = -1:", "0 to 100\n"]),
        ({"steps": 0}, ["steps = 0", "at least 1"]),
        ({"name": "no spaces"}, ['name = "no spaces"', "letters"]),
        ({"max_pp": 4}, ["unknown key max_pp", "line", "max_p"]),
        ({"model.name": "vgg"}, ['model.name = "vgg"', "small_cnn, resnet18"]),
        ({"model.size": "huge"}, ['model.size = "huge"', "published, tiny"]),
        ({"model.dropout": 1.0}, ["model.dropout = 1:", "below 1"]),
        ({"model.name": "bert"}, ["data.crop_padding = 2", "question answering"]),
        ({"model.classes": 1}, ["model.classes = 1", "2 to"]),
        ({"data.kind": "jpeg"}, ['data.kind = "jpeg"', "idx, cifar10, image_folder, webdataset, synthetic"]),
        ({"data.kind": "squad"}, ['data.kind = "squad"', "classification"]),
        ({"data.height": 0}, ["data.height = 0", "1 to"]),
        ({"data.flip": "yes"}, ["data.flip = ", "true or false"]),
        ({"optimizer.learning_rate": "fast"}, ["optimizer.learning_rate = ", "a number"]),
        ({"optimizer.momentum": 1.5}, ["optimizer.momentum = 1.5:", "0 to 1\n"]),
        ({"optimizer.kind": "lamb"}, ['optimizer.kind = "lamb"', "sgd, adam, adamw"]),
        ({"optimizer.clip_norm": -1.0}, ["optimizer.clip_norm = -1:", "0 (no clipping) to 1000000000\n"]),
        ({"schedule.kind": "square"}, ['schedule.kind = "square"',
                                       "constant, step, cosine, linear"]),
        ({"schedule.kind": "linear", "schedule.warmup_steps": 60},
         ["schedule.warmup_steps = 60", "less than steps = 60"]),
        ({"resources.threads": 0}, ["resources.threads = 0", "1 to 256"]),
        ({"resources.min_devices": 9}, ["resources.min_devices = 9", "1 to 4"]),
        ({"stages": "cpu-avx2:1@0"}, ["cpu-avx2:1@0", "STEPS"]),
        ({"stages": "cpu-avx2@5"}, ["cpu-avx2", "TYPE:COUNT"]),
        ({"level": "D1", "stages": "cpu-avx2:1+cpu-scalar:1@60"}, ["stages", "D1", "D2"]),
        ({"batch_size": 401}, ["batch_size", "401", "400"]),
    ]

    def test_each_bad_field_is_named_with_what_is_allowed(self):
        for change, fragments in self.BAD:
            with self.subTest(str(change)):
                job = self.write_job(job_text(self.word, changes=change))
                self.assert_one_error(self.run_words(job), EXIT_USAGE, *fragments)

    def test_what_is_no_toml_is_shown_by_line(self):
        job = self.write_job("name = \"x\"\nmax_p = = 4\n")
        self.assert_one_error(self.run_words(job), EXIT_USAGE, job, "line 2")

    def test_a_file_that_is_not_there(self):
        job = self.directory / "nowhere.toml"
        self.assert_one_error(self.run_words(job), EXIT_NOT_FOUND, job)


class Devices(Refusals):
    def test_options_that_cannot_be_met(self):
        fast = self.fast_class()
        job = self.write_job(job_text(self.word, changes={"max_p": 16, "batch_size": 1}))
        for options, code, fragments in [
                (["--stages", "cpu-neon:1@60"], EXIT_USAGE,
                 ['"cpu-neon"', "cpu-scalar, cpu-avx2, cpu-avx512"]),
                (["--stages", f"{fast}:9@60"], EXIT_REFUSED, [f"{fast}:9", f"{fast}:8"]),
                (["--stages", f"{fast}:17@60"], EXIT_USAGE, [f"{fast}:17", "max_p = 16"]),
                (["--devices", f"{fast}:0"], EXIT_USAGE, [f"{fast}:0", "COUNT from 1"]),
                (["--stages", f"{fast}:1@20", "--steps", "60"], EXIT_USAGE, ["60", "20"]),
                (["--level", "D5"], EXIT_USAGE, ['"D5"', "D0, D1, D2, auto"])]:
            with self.subTest(" ".join(options)):
                self.assert_one_error(self.run_words(job, *options), code, *fragments)

    def test_a_daemon_offers_only_what_the_machine_can_execute(self):
        for devices, fragments in [
                ("cpu-neon:1", ['"cpu-neon"', "cpu-scalar, cpu-avx2, cpu-avx512"]),
                ("cpu-avx2", ['"cpu-avx2"', "TYPE:COUNT"])]:
            ended = self.start(harness.easyscaled_program, "--head", "--state",
                               self.directory / "state", "--devices", devices).wait()
            self.assertEqual(ended.code, EXIT_USAGE, str(ended))
            self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
            for fragment in ["--devices", *fragments]:
                self.assertIn(fragment, ended.err)

    def test_wrong_usage_of_the_programs(self):
        for words in ([], ["fly"], ["run"], ["run", "a.toml", "--steps"], ["scale", "job"],
                      ["ps", "--nonsense"]):
            ended = self.start_esctl(*words).wait()
            self.assertEqual(ended.code, EXIT_USAGE, str(ended))
            self.assertNotEqual(ended.err, "")
        ended = self.start(harness.easyscaled_program).wait()
        self.assertEqual(ended.code, EXIT_USAGE, str(ended))


class Datasets(Refusals):
    """A small dataset in IDX files, and the errors that it can have."""

    COUNTS = {"train": 200, "t10k": 40}
    SIDE = 12

    def setUp(self):
        super().setUp()
        self.data = self.directory / "data"
        self.data.mkdir()
        random = harness.seeded_random("images")
        for part, count in self.COUNTS.items():
            images = struct.pack(">IIII", 0x803, count, self.SIDE, self.SIDE)
            images += random.randbytes(count * self.SIDE * self.SIDE)
            labels = struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count))
            self.write(f"{part}-images-idx3-ubyte", images)
            self.write(f"{part}-labels-idx1-ubyte", labels)
        changes = {"data.kind": "idx", "data.path": str(self.data), "steps": 3,
                   **{f"data.{key}": None
                      for key in ("height", "width", "channels", "samples", "eval_samples")}}
        self.job = self.write_job(job_text(self.word, changes=changes))

    def write(self, name, content):
        (self.data / (name + ".gz")).write_bytes(gzip.compress(content))

    def read(self, name):
        return gzip.decompress((self.data / (name + ".gz")).read_bytes())

    def assert_data_error(self, code, *fragments):
        self.assert_one_error(self.run_words(self.job), code, *fragments)

    def test_the_good_one_trains(self):
        summary = self.run_job(self.job, "--devices", self.fast_class() + ":2")
        self.assertEqual(summary["eval"]["total"], self.COUNTS["t10k"])

    def test_no_directory(self):
        shutil.rmtree(self.data)
        self.assert_data_error(EXIT_NOT_FOUND, self.data)

    def test_a_missing_file(self):
        (self.data / "t10k-labels-idx1-ubyte.gz").unlink()
        self.assert_data_error(EXIT_NOT_FOUND, self.data / "t10k-labels-idx1-ubyte")

    def test_a_truncated_compressed_file(self):
        path = self.data / "train-images-idx3-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-9])
        self.assert_data_error(EXIT_USAGE, path)

    def test_less_in_the_file_than_its_header_says(self):
        name = "train-images-idx3-ubyte"
        self.write(name, self.read(name)[:-1])
        self.assert_data_error(EXIT_USAGE, self.data / (name + ".gz"))

    def test_another_kind_of_file(self):
        name = "train-labels-idx1-ubyte"
        self.write(name, b"\0\0\x0d\x01" + self.read(name)[4:])
        self.assert_data_error(EXIT_USAGE, self.data / (name + ".gz"), "magic")

    def test_a_label_that_is_no_class(self):
        name = "train-labels-idx1-ubyte"
        self.write(name, self.read(name)[:-1] + b"\x0a")
        self.assert_data_error(EXIT_USAGE, self.data / (name + ".gz"), "10")

    def test_images_and_labels_of_different_number(self):
        labels = struct.pack(">II", 0x801, 3) + b"\0\1\2"
        self.write("train-labels-idx1-ubyte", labels)
        self.assert_data_error(EXIT_USAGE, self.data, "200", "3")

    def test_a_daemon_refuses_it_too_and_continues(self):
        path = self.data / "train-images-idx3-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-9])
        daemon = self.start_daemon(devices=self.fast_class() + ":1")
        ended = daemon.esctl("submit", self.job, code=EXIT_USAGE)
        self.assertIn(str(path), ended.err)
        self.assertEqual(daemon.json("ps")["jobs"], [])
        good = self.write_job(job_text(self.word, changes={"steps": 3}), "good.toml")
        daemon.wait_for_state(daemon.submit(good), "finished")
        daemon.stop()


class OccupiedPlaces(Refusals):
    def second_daemon(self, state, endpoint):
        return self.start(harness.easyscaled_program, "--head", "--state", state, "--listen",
                          endpoint, "--devices", self.fast_class() + ":1").wait()

    def assert_first_is_well(self, daemon):
        job = self.write_job(job_text(self.word, changes={"steps": 3}))
        daemon.wait_for_state(daemon.submit(job), "finished")
        daemon.stop()

    def test_a_state_directory_belongs_to_one_daemon(self):
        daemon = self.start_daemon("first", devices=self.fast_class() + ":1")
        state = self.directory / "first/state"
        ended = self.second_daemon(state, f"ipc://{self.directory}/second.sock")
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
        self.assertIn(str(state), ended.err)
        self.assert_first_is_well(daemon)

    def test_an_endpoint_belongs_to_one_daemon(self):
        daemon = self.start_daemon("first", devices=self.fast_class() + ":1")
        ended = self.second_daemon(self.directory / "state", daemon.endpoint)
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
        self.assertIn(daemon.endpoint, ended.err)
        self.assert_first_is_well(daemon)

    def test_a_directory_that_is_kept_must_be_new(self):
        kept = self.directory / "kept"
        kept.mkdir()
        (kept / "something").write_text("of the user")
        job = self.write_job(job_text(self.word))
        self.assert_one_error(self.run_words(job, "--keep", kept), EXIT_REFUSED, kept)
        self.assertEqual((kept / "something").read_text(), "of the user")

    def test_no_daemon_program(self):
        self.environment["EASYSCALED"] = str(self.directory / "nothing")
        job = self.write_job(job_text(self.word))
        self.assert_one_error(self.run_words(job), EXIT_NOT_FOUND, self.directory / "nothing")


if __name__ == "__main__":
    harness.main()
