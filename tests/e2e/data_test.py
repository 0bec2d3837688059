#!/usr/bin/env python3
"""Samples that are read while the job runs: a damaged file stops the job with its name, and no step
is lost."""
import re
import struct
import zlib
from pathlib import Path

import harness
from harness import EXIT_FAILURE, digests
from jobs import job_text

SIDE = 12
CLASSES, IMAGES_OF_A_CLASS = 4, 30
STEPS = 20


def png(rows):
    """The bytes of an RGB image with rows of 3 * SIDE bytes."""
    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content +
                struct.pack(">I", zlib.crc32(kind + content)))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) +
            chunk(b"IEND", b""))


class ImageFolder(harness.EndToEndTest):
    KEPT = re.compile(r"the state after step (\d+) is kept in (\S+);")

    def setUp(self):
        super().setUp()
        random = harness.seeded_random("image folder")
        self.images = []
        for half, count in (("train", IMAGES_OF_A_CLASS), ("val", 4)):
            for label in range(CLASSES):
                directory = self.directory / "images" / half / f"class{label}"
                directory.mkdir(parents=True)
                for i in range(count):
                    path = directory / f"{i}.png"
                    path.write_bytes(png([random.randbytes(3 * SIDE) for _ in range(SIDE)]))
                    if half == "train":
                        self.images.append(path)
        random.shuffle(self.images)
        changes = {"model.classes": CLASSES, "data.kind": "image_folder", "data.path": "images",
                   "data.random_resized_crop": True, "data.samples": None,
                   "data.eval_samples": None, "steps": STEPS}
        self.job = self.write_job(job_text(self.word, changes=changes))
        self.devices = ["--devices", self.fast_class() + ":2"]

    def assert_fails(self, *options):
        """The error of a run that ends at a damaged file."""
        ended = self.start_esctl("run", self.job, "--quiet", "--json", *self.devices,
                                 *options).wait()
        self.assertEqual(ended.code, EXIT_FAILURE, str(ended))
        self.assertEqual(ended.json["state"], "failed")
        error = ended.json["error"]
        found = self.KEPT.search(error)
        self.assertIsNone(ended.json["checkpoint"])  # The one of the ended daemon is gone.
        self.assertEqual(ended.json["weights"],
                         found and {"path": found.group(2), "step": int(found.group(1))})
        self.assert_nothing_left()
        return error

    def kept(self, error):
        """The step and the directory in the error."""
        found = self.KEPT.search(error)
        self.assertIsNotNone(found, error)
        return int(found.group(1)), Path(found.group(2))

    def damage_an_image(self):
        """Truncates an image that the first step does not use. Returns its path, its content and
        the error."""
        for path in self.images:
            content = path.read_bytes()
            path.write_bytes(content[:len(content) // 2])
            error = self.assert_fails()
            self.assertIn(str(path), error)
            self.assertRegex(error, r"EST [0-3], step \d+: ")
            if ", step 0: " not in error:
                return path, content, error
            self.assertNotIn("is kept", error)  # There is nothing to keep.
            path.write_bytes(content)
        self.fail("every image is used in the first step")

    def test_a_job_continues_when_its_damaged_image_is_repaired(self):
        undisturbed = self.run_job(self.job, *self.devices)
        path, content, error = self.damage_an_image()
        step, directory = self.kept(error)
        self.assertEqual(re.search(r"EST \d, step (\d+): ", error).group(1), str(step))
        self.assertEqual(directory.parent.resolve(), self.directory.resolve())
        # The file is still damaged, and the state is the same.
        again = self.assert_fails("--from", directory)
        same_step, copy = self.kept(again)  # In the directory of that run.
        self.assertEqual(same_step, step)
        self.assertNotEqual(copy, directory)
        one, = self.esctl("checkpoint", "verify", directory, "--json").json["checkpoints"]
        other, = self.esctl("checkpoint", "verify", copy, "--json").json["checkpoints"]
        self.assertEqual(digests(one), digests(other))
        path.write_bytes(content)
        summary = self.run_job(self.job, *self.devices, "--from", directory)
        self.assertEqual(digests(summary), digests(undisturbed))

    def test_a_damaged_image_of_the_evaluation_loses_nothing_either(self):
        self.job.write_text(self.job.read_text().replace("\nsteps", "\neval_every = 5\nsteps", 1))
        undisturbed = self.run_job(self.job, *self.devices)
        path = self.directory / "images/val/class2/1.png"
        content = path.read_bytes()
        path.write_bytes(b"no image")
        error = self.assert_fails()
        self.assertIn(f"evaluation of step 5: {path}", error)
        step, directory = self.kept(error)
        self.assertEqual(step, 5)
        path.write_bytes(content)
        summary = self.run_job(self.job, *self.devices, "--from", directory)
        self.assertEqual(digests(summary), digests(undisturbed))

    def test_a_daemon_keeps_the_state_beside_its_own(self):
        path, _, _ = self.damage_an_image()
        daemon = self.start_daemon(devices=self.fast_class() + ":2")
        details = daemon.wait_for_state(daemon.submit(self.job), "failed")
        self.assertIn(str(path), details["error"])
        _, directory = self.kept(details["error"])
        self.assertEqual(directory.parent, self.directory / "head/state/rescue")
        self.assertTrue((directory / "manifest").is_file())
        good = self.write_job(job_text(self.word, changes={"steps": 3}), "good.toml")
        daemon.wait_for_state(daemon.submit(good), "finished")
        daemon.stop()

    def test_the_number_of_loaders_decides_no_bits(self):
        undisturbed = self.run_job(self.job, *self.devices)
        daemon = self.start_daemon(devices=self.fast_class() + ":2", options=["--loaders", "3"])
        end = daemon.wait_for_state(daemon.submit(self.job), "finished")
        self.assertEqual(digests(end), digests(undisturbed))
        daemon.stop()


class Divergence(harness.EndToEndTest):
    def test_a_value_that_is_not_finite_ends_the_job_with_operator_and_est(self):
        changes = {"optimizer.learning_rate": 1e6, "schedule.kind": "constant"}
        job = self.write_job(job_text(self.word, changes=changes))
        ended = self.start_esctl("run", job, "--quiet", "--devices",
                                 self.fast_class() + ":2").wait()
        self.assertEqual(ended.code, EXIT_FAILURE, str(ended))
        operator = r"(conv1|bn1|pool1|conv2|bn2|pool2|flatten|fc1|relu\S*|fc2|loss)\b"
        self.assertRegex(ended.err, rf"EST [0-3], step \d+: .*not finite.* {operator}")
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
