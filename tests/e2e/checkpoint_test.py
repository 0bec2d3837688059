#!/usr/bin/env python3
"""A job's own series of checkpoints: they are written while it trains, kept, and used after a loss
of all workers; the disk is full, or a checkpoint is damaged."""
import errno
import os
import re
import signal
import subprocess
import unittest

import harness
from harness import EXIT_FAILURE, EXIT_NOT_FOUND, digests, wait_until
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000


class Series(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.series = self.directory / "series"

    def job(self, steps, every, keep=2, directory=None, **changes):
        return self.write_job(job_text(self.word, changes={
            "steps": steps, "checkpoint.every_steps": every, "checkpoint.keep": keep,
            "checkpoint.directory": str(directory or self.series), **changes}))

    def reference(self, steps):
        job = self.write_job(job_text(self.word, changes={"steps": steps}), "reference.toml")
        return digests(self.run_job(job, "--devices", self.fast_class() + ":2"))

    def submit(self, daemon, job, steps, devices=2):
        return daemon.submit(job, "--stages", f"{self.fast_class()}:{devices}@{steps}")

    def steps_left(self, job, count):
        """The versions of the series when this number is left. Nodes remove older ones after the
        job's record without them is on the disk."""
        def left():
            steps = self.steps_of(job)
            return steps if len(steps) <= count else None
        return harness.wait_until(f"{count} checkpoints of {job}", left)

    def steps_of(self, job):
        return sorted(int(path.name.removeprefix("step-")) for path in
                      (self.series / job).iterdir() if not path.name.startswith("."))

    def wait_for_checkpoint(self, daemon, job, count=1):
        """The description once this number of checkpoints of the series has been written."""
        seen = set()

        def enough(details):
            seen.add(details["checkpoint"])
            return len(seen - {None}) >= count
        return daemon.wait_for(job, f"{count} checkpoints", enough)

    def kill_workers(self, daemon, job, meanwhile=lambda newest: None):
        """Stops all workers, calls `meanwhile` with the path of the newest checkpoint, and kills
        the workers. REQUIRES: the head has a --dead-after that is longer than this may take."""
        pids = [worker["pid"] for worker in daemon.describe(job)["workers"]]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        meanwhile(self.path(daemon.describe(job)["checkpoint"]))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def path(self, text):
        return self.series.parent / text  # An absolute path stays unchanged.

    def flip_a_bit(self, checkpoint):
        data = checkpoint / "data"
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 4
        data.write_bytes(content)


class Writing(Series):
    def test_the_newest_stay_and_each_is_a_run_of_that_many_steps(self):
        daemon = self.start_daemon()
        job = self.submit(daemon, self.job(600, 50), 600)
        leftover = self.series / job / ".step-9.partial-999999999-0"
        leftover.mkdir(parents=True)
        end = daemon.wait_for_state(job, "finished")
        first, last = self.steps_left(job, 2)
        # A checkpoint that falls due during another one is left out. One that is requested when the
        # worker is past its version gets the present version.
        self.assertTrue(50 <= first < last, first)
        self.assertEqual(last, 600)
        self.assertFalse(leftover.exists())
        self.assertEqual(end["checkpoint"], str(self.series / job / "step-600"))
        self.assertIsNone(end["warning"])
        listed = daemon.json("checkpoint", "ls", job)["checkpoints"]
        self.assertEqual([entry["version"] for entry in listed], [first, last])
        self.assertEqual(digests(listed[1]), digests(end))
        self.esctl("checkpoint", "verify", self.series)
        daemon.stop()
        other = self.other_class()
        resumed = self.run_job(self.job(600, 0), "--from", self.series / job / f"step-{first}",
                               "--devices", other + ":3")
        self.assertEqual(digests(resumed), digests(end))
        self.assertEqual(digests(end), self.reference(600))

    def test_prune_and_verify(self):
        daemon = self.start_daemon()
        job = self.submit(daemon, self.job(400, 50, keep=9), 400)
        daemon.wait_for_state(job, "finished")
        daemon.stop()
        *older, damaged, last = self.steps_of(job)
        self.flip_a_bit(self.series / job / f"step-{damaged}")
        ended = self.esctl("checkpoint", "verify", self.series, code=EXIT_FAILURE)
        self.assertIn(f"step-{damaged}/data: damaged: section", ended.err)
        self.assertIn("block 0", ended.err)
        pruned = self.esctl("checkpoint", "prune", self.series, "--keep", "1", "--json",
                            code=EXIT_FAILURE).json
        self.assertEqual([entry["version"] for entry in pruned["removed"]], older)
        self.assertEqual(self.steps_of(job), [damaged, last])
        self.esctl("checkpoint", "verify", self.directory / "nowhere", code=EXIT_NOT_FOUND)


class Restart(Series):
    def start_job(self):
        """A head, and its job with two checkpoints."""
        daemon = self.start_daemon(options=["--dead-after", "100000"])
        job = self.submit(daemon, self.job(ENDLESS, 50, **ANY_LENGTH), ENDLESS)
        self.wait_for_checkpoint(daemon, job, 2)
        return daemon, job

    def wait_for_restart(self, daemon, job, warning=None):
        """The description of the job when it trains again, with this text in its warning."""
        wait_until("it continues", lambda: re.search(
            r"no worker holds the state of the job: it continues from version \d",
            daemon.esctl("logs", job).out), state=lambda: daemon.esctl("logs", job).out)
        step = daemon.wait_for_state(job, "running")["steps"]
        return daemon.wait_for(job, "trains again", lambda d: d["steps"] > step + 50 and (
            warning is None or warning in (d["warning"] or "")))

    def assert_bits(self, daemon, job):
        taken = daemon.json("checkpoint", job, "--to", self.directory / "taken")
        daemon.esctl("cancel", job)
        daemon.stop()
        self.assert_bits_of_fixed_run(
            self.job(ENDLESS, 0, **ANY_LENGTH), taken, self.fast_class())

    def test_all_workers_lost_continues_from_the_newest(self):
        daemon, job = self.start_job()
        self.kill_workers(daemon, job)
        again = self.wait_for_restart(daemon, job)
        self.assertRegex(daemon.esctl("logs", job).out, "it continues from version [1-9]")
        self.assertIsNone(again["warning"])
        self.assert_bits(daemon, job)

    def test_a_damaged_newest_is_left_for_the_one_before_it(self):
        daemon, job = self.start_job()
        damaged = []

        def damage(newest):
            self.flip_a_bit(newest)
            damaged.append(str(newest))
        self.kill_workers(daemon, job, damage)
        again = self.wait_for_restart(daemon, job, damaged[0] + "/data: damaged: section")
        self.assertRegex(again["warning"], r"the job continues from version [1-9]\d*, checkpoint")
        self.assertIn(" warning ", daemon.esctl("logs", job).out)
        self.assert_bits(daemon, job)

    def test_all_damaged_waits_for_a_decision_of_the_user(self):
        daemon, job = self.start_job()

        def damage(newest):
            for checkpoint in newest.parent.glob("step-*"):
                self.flip_a_bit(checkpoint)
        self.kill_workers(daemon, job, damage)
        waiting = daemon.wait_for(job, "a decision of the user", lambda d: "--accept-loss" in (
            d["waiting_for"] or ""))
        self.assertIn("/data: damaged: section", waiting["waiting_for"])
        self.assertEqual((waiting["state"], waiting["workers"]), ("queued", []))
        self.assertIn("the start of the job", daemon.esctl("resume", job, "--accept-loss").out)
        daemon.wait_for(job, "trains again", lambda d: d["state"] == "running" and d["workers"]
                        and all(w["pid"] for w in d["workers"]))
        self.assert_bits(daemon, job)


class FullDisk(Series):
    STEPS = 100_000

    def setUp(self):
        super().setUp()
        self.series.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", self.series],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            raise unittest.SkipTest("may not mount a tmpfs here: " + mounted.stderr.decode())
        self.addCleanup(subprocess.run, ["umount", "-l", self.series], check=True)
        self.ballast = self.series / "ballast"

    def fill(self):
        """Fills the disk as it is now. Space that a writer gives back is free until the next
        call."""
        with self.ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)

    def test_the_job_continues_and_says_so_and_the_last_good_one_stays(self):
        daemon = self.start_daemon()
        job = self.submit(daemon, self.job(self.STEPS, 10), self.STEPS)
        self.wait_for_checkpoint(daemon, job)

        def warned(details):
            self.fill()
            return details["warning"]
        full = daemon.wait_for(job, "the warning", warned)
        self.assertIn("No space left on device", full["warning"])
        self.assertEqual(full["state"], "running")
        good = full["checkpoint"]
        later = daemon.wait_for(job, "twenty more steps", lambda details: (
            self.fill(), details["steps"] >= full["steps"] + 20)[1])
        self.assertEqual(later["checkpoint"], good)
        self.esctl("checkpoint", "verify", good)
        self.ballast.unlink()
        again = daemon.wait_for(job, "no warning", lambda details: not details["warning"])
        self.assertNotEqual(again["checkpoint"], good)
        daemon.esctl("cancel", job)
        daemon.stop()
        self.esctl("checkpoint", "verify", self.series)


if __name__ == "__main__":
    harness.main()
