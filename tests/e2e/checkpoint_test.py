#!/usr/bin/env python3
"""A job's own series of checkpoints: they are written while it trains, kept, and used after a loss
of all workers; the disk is full, or a checkpoint is damaged."""
import errno
import os
import signal
import subprocess
import unittest

import harness
from harness import EXIT_FAILURE, EXIT_NOT_FOUND, digests
from jobs import job_text


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
        the workers."""
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
        job = self.submit(daemon, self.job(170, 50), 170)
        leftover = self.series / job / ".step-9.partial-999999999-0"
        leftover.mkdir(parents=True)
        end = daemon.wait_for_state(job, "finished")
        first, last = self.steps_left(job, 2)
        # A checkpoint that falls due during another one is left out. One that is requested when the
        # worker is past its version gets the present version.
        self.assertTrue(50 <= first < last, first)
        self.assertEqual(last, 170)
        self.assertFalse(leftover.exists())
        self.assertEqual(end["checkpoint"], str(self.series / job / "step-170"))
        self.assertIsNone(end["warning"])
        listed = daemon.json("checkpoint", "ls", job)["checkpoints"]
        self.assertEqual([entry["version"] for entry in listed], [first, last])
        self.assertEqual(digests(listed[1]), digests(end))
        self.esctl("checkpoint", "verify", self.series)
        daemon.stop()
        other = self.other_class()
        resumed = self.run_job(self.job(170, 0), "--from", self.series / job / f"step-{first}",
                               "--devices", other + ":3")
        self.assertEqual(digests(resumed), digests(end))
        self.assertEqual(digests(end), self.reference(170))

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
    STEPS, EVERY = 1500, 50

    def test_all_workers_lost_continues_from_the_newest(self):
        daemon = self.start_daemon()
        job = self.submit(daemon, self.job(self.STEPS, self.EVERY), self.STEPS)
        self.wait_for_checkpoint(daemon, job, 2)
        self.kill_workers(daemon, job)
        end = daemon.wait_for_state(job, "finished")
        log = daemon.esctl("logs", job).out
        self.assertRegex(
            log, r"no worker holds the state of the job: it continues from version [1-9]")
        self.assertIsNone(end["warning"])
        daemon.stop()
        self.assertEqual(digests(end), self.reference(self.STEPS))

    def test_a_damaged_newest_is_left_for_the_one_before_it(self):
        daemon = self.start_daemon()
        job = self.submit(daemon, self.job(self.STEPS, self.EVERY), self.STEPS)
        self.wait_for_checkpoint(daemon, job, 2)
        damaged = []

        def damage(newest):
            self.flip_a_bit(newest)
            damaged.append(str(newest))
        self.kill_workers(daemon, job, damage)
        end = daemon.wait_for_state(job, "finished")
        self.assertIn(damaged[0] + "/data: damaged: section", end["warning"])
        self.assertRegex(end["warning"], r"the job continues from version [1-9]\d*, checkpoint")
        self.assertIn(" warning ", daemon.esctl("logs", job).out)
        daemon.stop()
        self.assertEqual(digests(end), self.reference(self.STEPS))

    def test_all_damaged_waits_for_a_decision_of_the_user(self):
        daemon = self.start_daemon()
        job = self.submit(daemon, self.job(self.STEPS, self.EVERY), self.STEPS)
        self.wait_for_checkpoint(daemon, job, 2)

        def damage(newest):
            for checkpoint in newest.parent.glob("step-*"):
                self.flip_a_bit(checkpoint)
        self.kill_workers(daemon, job, damage)
        waiting = daemon.wait_for(job, "a decision of the user", lambda d: "--accept-loss" in (
            d["waiting_for"] or ""))
        self.assertIn("/data: damaged: section", waiting["waiting_for"])
        self.assertEqual((waiting["state"], waiting["workers"]), ("queued", []))
        self.assertIn("the start of the job", daemon.esctl("resume", job, "--accept-loss").out)
        end = daemon.wait_for_state(job, "finished")
        daemon.stop()
        self.assertEqual(digests(end), self.reference(self.STEPS))


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
