#!/usr/bin/env python3
"""A job trains a model of several programs on samples of several lengths: the same bits on CPUs and on
the program of the CUDA device, and one clear error for whatever is wrong."""
import json
import struct
import zipfile

import harness
from harness import EXIT_NOT_FOUND, EXIT_USAGE, digests
from model_files import (ENDLESS, ModelFileCase, Program, npy_bytes, write_npy, write_safetensors)

LENGTHS = (12, 7, 4)
WORDS, WIDTH, CLASSES = 20, 8, 3
TRAIN, EVAL, STEPS = 150, 30, 30
CUDA = "cuda-host"


def text_net(random, length):
    """The mean of the tokens' embeddings, with a class of the text."""
    net = Program("text_net")

    def weights(name, shape):
        count = shape[0] * shape[1]
        return net.parameter(name, shape, [random.uniform(-0.5, 0.5) for _ in range(count)])

    ids, label = net.input("ids", [length], "i32", WORDS - 1), net.input("label", [], "i32", CLASSES - 1)
    row = ["B", length, WIDTH]
    x = net.node("embedding", [weights("words.weight", [WORDS, WIDTH]), ids], row)
    x = net.node("tanh", [net.node("linear", [x, weights("mix.weight", [WIDTH, WIDTH]), -1], row)], row)
    x = net.node("mean", [x], ["B", WIDTH], axes=[1], keepdim=False)
    x = net.node("dropout", [x], ["B", WIDTH], p=0.1, site=0)
    logits = net.node("linear", [x, weights("head.weight", [CLASSES, WIDTH]), -1], ["B", CLASSES])
    net.json["loss"] = net.node("cross_entropy", [logits, label], [], ignore_index=-100,
                                label_smoothing=0.0, reduction="mean")
    net.json["outputs"].append({"name": "logits", "value": logits})
    return net


class LengthBucketsCase(ModelFileCase):
    def setUp(self):
        super().setUp()
        random = harness.seeded_random("length buckets")
        self.net = text_net(random, LENGTHS[0])
        self.net.json["programs"] = [text_net(random, length).json for length in LENGTHS[1:]]
        self.net.json["format"] = 5
        self.file = self.directory / "net.esmodel"
        self.pack(self.net.json, self.file)
        write_safetensors(self.directory / "weights.safetensors", self.net.weights)
        self.numbers = self.directory / "length_buckets"
        self.numbers.mkdir()
        for half, count in (("train", TRAIN), ("eval", EVAL)):
            self.write_half(random, half, count)

    def write_half(self, random, half, count):
        """Texts whose words are mostly those of their class; zeros are padding."""
        folder = self.directory / "data" / half
        folder.mkdir(parents=True)
        numbers = [random.choice((0, 1, 1, 2, 2, 2)) for _ in range(count)]
        labels = [random.randrange(CLASSES) for _ in range(count)]
        ids = []
        for number, label in zip(numbers, labels):
            length = LENGTHS[number] - random.randrange(2)
            ids += [1 + 6 * label + random.randrange(6) for _ in range(length)]
            ids += [0] * (LENGTHS[0] - length)
        write_npy(folder / "ids.npy", "<i4", [count, LENGTHS[0]], struct.pack(f"<{len(ids)}i", *ids))
        write_npy(folder / "label.npy", "<i4", [count], struct.pack(f"<{count}i", *labels))
        self.write_numbers(half, numbers)

    def write_numbers(self, half, numbers):
        write_npy(self.numbers / f"{half}.npy", "|u1", [len(numbers)], bytes(numbers))

    def job(self, name="job.toml", data="", **changes):
        keys = {"name": f"texts-{self.word}", "max_p": 3, "batch_size": 4, "steps": STEPS, "seed": 5,
                "level": "D2", "eval_every": 10, **changes}
        return self.write_model_job(keys, f"""
[data]
kind = "arrays"
path = "data"
length_buckets = "length_buckets"
{data}
[optimizer]
learning_rate = 0.5
momentum = 0.9
""", name)


class Training(LengthBucketsCase):
    def test_the_bits_do_not_depend_on_the_devices(self):
        fast, other = self.fast_class(), self.other_class()
        job = self.job()
        alone = self.run_job(job, "--devices", f"{fast}:1")
        self.assertEqual(alone["eval"]["total"], EVAL)
        self.assertGreater(alone["eval"]["accuracy"], 0.7)
        head = self.start_daemon(devices=f"{CUDA}:2+{fast}:2+{other}:1+cpu-scalar:1")
        for stages in (f"{CUDA}:2@{STEPS}", f"cpu-scalar:1@{STEPS}",
                       f"{other}:1@11,{CUDA}:1@8,{CUDA}:1+{fast}:2@{STEPS - 19}"):
            end = head.wait_for_state(head.submit(job, "--stages", stages), "finished")
            self.assertEqual(digests(end), digests(alone), stages)
            self.assertEqual(end["eval"], alone["eval"])
        head.stop()

    def test_the_buckets_decide_the_bits(self):
        job, device = self.job(), f"{self.fast_class()}:1"
        before = digests(self.run_job(job, "--devices", device))
        self.write_numbers("train", [0, 1, 2, *[0] * (TRAIN - 3)])
        self.assertNotEqual(digests(self.run_job(job, "--devices", device)), before)

    def test_a_killed_worker_changes_no_bit(self):
        self.check_killed_worker(self.job(steps=ENDLESS, eval_every=0))

    def test_predictions_are_computed_at_the_length_of_their_arrays(self):
        series = self.directory / "series"
        job = self.job()
        job.write_text(job.read_text() + f'[checkpoint]\nevery_steps = 30\ndirectory = "{series}"\n')
        summary = self.run_job(job, "--devices", f"{self.fast_class()}:1")
        checkpoint = series / summary["job"] / f"step-{STEPS}"
        ids = struct.pack("<8i", *range(1, 9))
        source, out = self.directory / "in.npz", self.directory / "out.npz"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("ids.npy", npy_bytes("<i4", [2, LENGTHS[2]], ids))
        self.esctl("predict", checkpoint, source, "--out", out)
        with zipfile.ZipFile(out) as archive:
            self.assertIn(b"(2, 3, )", archive.read("logits.npy"))
        source.unlink()
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("ids.npy", npy_bytes("<i4", [1, 8], ids))
        ended = self.esctl("predict", checkpoint, source, "--out", self.directory / "no.npz",
                           code=EXIT_USAGE)
        self.assertIn("(samples, 12)", ended.err)
        evaluated = self.esctl("eval", checkpoint, "--device", self.other_class(), "--json").json
        self.assertEqual(evaluated, summary["eval"])

    def test_the_programs_are_shown(self):
        shown = self.esctl("models", "show", self.file).out
        for length in LENGTHS:
            self.assertIn(f"i32 [B,{length}]", shown)
        inspected = self.esctl("inspect", self.job(), "--json", "--no-d2").json
        self.assertEqual([fields[0]["shape"][0] for fields in inspected["samples_of_programs"]],
                         list(LENGTHS[1:]))
        self.assertIn("ids 7x1x1", self.esctl("inspect", self.file).out)


class BadInput(LengthBucketsCase):
    def test_numbers_that_do_not_fit(self):
        file = self.numbers / "train.npy"
        self.write_numbers("train", [0, 3, *[1] * (TRAIN - 2)])
        self.assert_one_error(self.job(), EXIT_USAGE, file, "element 1 = 3", "0 to 2")
        self.write_numbers("train", [0, 1, 2])
        self.assert_one_error(self.job(), EXIT_USAGE, file, "= 3", f"allowed is {TRAIN}")
        self.write_numbers("train", [0, 2] * (TRAIN // 2))
        self.assert_one_error(self.job(), EXIT_USAGE, "length bucket 1 has no training sample")
        file.unlink()
        self.assert_one_error(self.job(), EXIT_NOT_FOUND, file)

    def test_numbers_of_the_evaluation_that_do_not_fit(self):
        self.write_numbers("eval", [0])
        self.assert_one_error(self.job(), EXIT_USAGE, self.numbers / "eval.npy",
                              f"allowed is {EVAL}, the number of evaluation samples")

    def test_fields_that_exclude_each_other(self):
        self.assert_one_error(self.job(data='groups = "groups.npy"'), EXIT_USAGE,
                              "data.length_buckets = ", "data.weights or data.groups")
        job = self.job()
        job.write_text(job.read_text().replace("[optimizer]",
                                               '[lora]\nrank = 2\ntargets = ["mix"]\n[optimizer]'))
        self.assert_one_error(job, EXIT_USAGE, "lora.rank = 2", "several programs")

    def test_arrays_that_are_too_short_for_a_bucket(self):
        write_npy(self.directory / "data/train/ids.npy", "<i4", [TRAIN, 7], bytes(4 * 7 * TRAIN))
        self.assert_one_error(self.job(), EXIT_USAGE, "ids.npy", "(samples, 7)", "(samples, 12)")


if __name__ == "__main__":
    harness.main()
