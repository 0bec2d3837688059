#!/usr/bin/env python3
"""A job that was stopped continues from its checkpoint, on other devices, with the same bits."""
import shutil
import signal

import harness
from harness import EXIT_REFUSED, digests
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
MIDDLE = 200  # A checkpoint is requested once this step is done.
FURTHER = 400  # The steps after the checkpoint.
STEPS = 2400  # Of a run that a signal stops.


class Resume(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.job = self.write_steps(ENDLESS)

    def write_steps(self, steps):
        return self.write_job(job_text(self.word, changes={"steps": steps, **ANY_LENGTH}))

    def reference(self):
        return digests(self.run_job(self.job, "--devices", self.fast_class() + ":2"))

    def checkpoint_in_the_middle(self, daemon, devices):
        """Runs the job, takes a checkpoint while it runs, cancels it. Returns the answer of
        esctl."""
        job = daemon.submit(self.job, "--stages", f"{devices}@{ENDLESS}")
        daemon.wait_for_step(job, MIDDLE)
        taken = daemon.json("checkpoint", job, "--to", self.directory / "checkpoint")
        daemon.esctl("cancel", job)
        end = daemon.describe(job)
        self.assertEqual(end["state"], "cancelled")
        self.assertTrue(MIDDLE <= taken["version"] <= end["steps"], (taken, end))
        self.assertEqual(end["workers"], [])
        return taken

    def resume_on_two_placements(self, daemon, version, first_devices, then_devices):
        """Submits a job from the checkpoint, which runs on two placements in turn."""
        self.job = self.write_steps(version + FURTHER)
        first = FURTHER // 4
        stages = f"{first_devices}@{first},{then_devices}@{FURTHER - first}"
        job = daemon.submit(self.job, "--from", self.directory / "checkpoint", "--stages", stages)
        end = daemon.wait_for_state(job, "finished")
        self.assertEqual([f"{s['placement']}@{s['steps']}" for s in end["stages"]],
                         stages.split(","))
        return digests(end)

    def test_on_more_devices_and_on_a_mix(self):
        fast, other = self.fast_class(), self.other_class()
        daemon = self.start_daemon()
        taken = self.checkpoint_in_the_middle(daemon, f"{fast}:1")
        mix = "+".join(sorted(f"{c}:{n}" for c, n in {fast: 2, "cpu-scalar": 1}.items()))
        self.assertEqual(self.resume_on_two_placements(
            daemon, taken["version"], mix, f"{other}:3"), self.reference())
        daemon.stop()

    def test_on_fewer_devices_of_another_type(self):
        fast, other = self.fast_class(), self.other_class()
        daemon = self.start_daemon()
        taken = self.checkpoint_in_the_middle(daemon, f"{fast}:3")
        self.assertEqual(self.resume_on_two_placements(
            daemon, taken["version"], f"{other}:2", f"{fast}:1"), self.reference())
        daemon.stop()

    def test_the_digests_of_a_checkpoint_are_those_of_a_run_of_that_many_steps(self):
        daemon = self.start_daemon()
        taken = self.checkpoint_in_the_middle(daemon, self.fast_class() + ":2")
        daemon.stop()
        short = self.run_job(self.job, "--steps", taken["version"], "--devices",
                             self.fast_class() + ":1")
        self.assertEqual(digests(taken), digests(short))

    def test_a_run_stopped_by_a_signal_writes_its_checkpoint(self):
        directory = self.directory / "checkpoint"
        self.job = self.write_job(job_text(self.word, changes={"steps": STEPS}))
        run = self.start_esctl("run", self.job, "--devices", self.fast_class() + ":2",
                               "--checkpoint", directory)
        run.wait_for_line(r"step [1-9]\d*/")
        ended = run.stop(signal.SIGINT)
        self.assertEqual(ended.code, 128 + signal.SIGINT, str(ended))
        self.assert_nothing_left()
        resumed = self.run_job(self.job, "--from", directory, "--devices",
                               self.fast_class() + ":3")
        self.assertEqual(digests(resumed), self.reference())


class OtherKernels(harness.EndToEndTest):
    """At level D1 a checkpoint continues with the kernels that computed it, or is refused."""

    def setUp(self):
        super().setUp()
        self.job = self.write_job(job_text(self.word, changes={"steps": 100_000, "level": "D1"}))
        fast, other = self.fast_class(), self.other_class()
        if fast == other or not self.inspected_vendor_operators():
            self.skipTest("two kernel classes, one with vendor kernels, are needed")
        self.fast, self.other = fast, other
        self.daemon = self.start_daemon()
        self.checkpoint = self.directory / "checkpoint"

    def inspected_vendor_operators(self):
        return self.esctl("inspect", self.job, "--json").json["d2"]["vendor_operators"]

    def take_checkpoint(self, devices):
        job = self.daemon.submit(self.job, "--stages", f"{devices}:1@100000")
        self.daemon.wait_for_step(job, 1)
        version = self.daemon.json("checkpoint", job, "--to", self.checkpoint)["version"]
        self.daemon.esctl("cancel", job)
        return version

    def submit_from_checkpoint(self, devices, steps=2, level="D1"):
        return self.daemon.submit(self.job, "--from", self.checkpoint, "--level", level,
                                  "--stages", f"{devices}@{steps}")

    def test_on_another_device_type_it_is_refused_at_once(self):
        self.take_checkpoint(self.fast)
        ended = self.start_esctl("submit", self.job, "--from", self.checkpoint, "--head",
                                 self.daemon.endpoint, "--stages", f"{self.other}:1@2").wait()
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
        for part in (str(self.checkpoint), self.fast, self.other, "oneDNN", "D1", "D2"):
            self.assertIn(part, ended.err)
        for devices, level in ((f"{self.fast}:2", "D1"), (f"{self.other}:1", "D2")):
            job = self.submit_from_checkpoint(devices, level=level)
            self.daemon.wait_for_state(job, "finished")
        self.daemon.stop()

    def test_on_vendor_kernels_after_none_the_job_fails_with_both_named(self):
        self.take_checkpoint("cpu-scalar")
        job = self.submit_from_checkpoint(f"{self.fast}:1")
        error = self.daemon.wait_for_state(job, "failed")["error"]
        for part in (str(self.checkpoint), "canonical", "oneDNN", self.fast, "D1", "D2"):
            self.assertIn(part, error)
        self.daemon.stop()


class DamagedCheckpoints(harness.EndToEndTest):
    """An error in a checkpoint is reported before anything starts."""

    def setUp(self):
        super().setUp()
        self.job = self.write_job(job_text(self.word, changes={"steps": ENDLESS}))
        self.daemon = self.start_daemon()
        running = self.daemon.submit(self.job, "--stages", f"{self.fast_class()}:1@{ENDLESS}")
        self.daemon.wait_for_step(running, 1)
        self.good = self.directory / "good"
        self.daemon.esctl("checkpoint", running, "--to", self.good)
        self.running = running

    def tearDown(self):
        self.daemon.esctl("cancel", self.running)
        self.daemon.stop()

    def assert_refused(self, checkpoint, job, *fragments):
        """`submit` and `run` both report the error in one line, and start nothing."""
        jobs_before = len(self.daemon.json("ps")["jobs"])
        workers_before = self.workers()
        for ended in (self.attempt("run", job, "--quiet", "--from", checkpoint),
                      self.attempt("submit", job, "--from", checkpoint,
                                   "--head", self.daemon.endpoint)):
            self.assertNotEqual(ended.code, 0, str(ended))
            self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
            for fragment in fragments:
                self.assertIn(fragment, ended.err, str(ended))
        self.assertEqual(len(self.daemon.json("ps")["jobs"]), jobs_before)
        self.assertEqual(self.workers(), workers_before)

    def attempt(self, *words):
        return self.start_esctl(*words).wait()

    def workers(self):
        return {pid for pid, line in harness.command_lines().items()
                if str(self.directory) in line and " worker " in line}

    def damaged(self, name, change):
        """A copy of the good checkpoint in which `change` was applied to the bytes of one file."""
        directory = self.directory / "damaged"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self.good, directory)
        path = directory / name
        path.write_bytes(change(path.read_bytes()))
        return directory, str(path)

    def test_a_truncated_file_is_named(self):
        for name in sorted(path.name for path in self.good.iterdir()):
            for cut in (lambda data: data[:-1], lambda data: data[:len(data) // 2],
                        lambda data: b""):
                with self.subTest(name):
                    directory, path = self.damaged(name, cut)
                    self.assert_refused(directory, self.job, path)

    def test_a_flipped_bit_is_found_and_its_file_named(self):
        random = harness.seeded_random("flipped bit")
        for name in sorted(path.name for path in self.good.iterdir()):
            for _ in range(3):
                position = random.randrange((self.good / name).stat().st_size)
                bit = random.randrange(8)

                def flip(data):
                    return (data[:position] + bytes([data[position] ^ (1 << bit)])
                            + data[position + 1:])

                with self.subTest(f"{name}: bit {bit} of byte {position}"):
                    directory, path = self.damaged(name, flip)
                    self.assert_refused(directory, self.job, path)

    def test_a_missing_file_is_named(self):
        for name in sorted(path.name for path in self.good.iterdir()):
            with self.subTest(name):
                directory, path = self.damaged(name, lambda data: data)
                (directory / name).unlink()
                self.assert_refused(directory, self.job, path)

    def test_a_checkpoint_that_is_not_there(self):
        self.assert_refused(self.directory / "nowhere", self.job, str(self.directory / "nowhere"))

    def test_a_checkpoint_of_another_job(self):
        for change, field in (({"model.name": "resnet18", "model.width": 16}, "model"),
                              ({"seed": 12}, "seed"), ({"max_p": 5}, "max_p"),
                              ({"optimizer.momentum": 0.8}, "optimizer"),
                              ({"data.flip": False}, "data")):
            with self.subTest(field):
                text = job_text(self.word, changes={"steps": ENDLESS, **change})
                other = self.write_job(text, "other.toml")
                self.assert_refused(self.good, other, str(self.good), field)

    def test_an_existing_directory_is_not_overwritten(self):
        before = {path.name: path.read_bytes() for path in self.good.iterdir()}
        ended = self.daemon.esctl("checkpoint", self.running, "--to", self.good, code=EXIT_REFUSED)
        self.assertIn(str(self.good), ended.err)
        self.assertEqual({path.name: path.read_bytes() for path in self.good.iterdir()}, before)
        step = self.daemon.describe(self.running)["steps"]
        self.daemon.wait_for_step(self.running, step + 1)  # It does not affect the job.


if __name__ == "__main__":
    harness.main()
