#!/usr/bin/env python3
"""The head's disk is full, cannot be written or is broken for some time: no request is accepted,
jobs train on, and later the state is the same as without the fault."""
import errno
import os
import shutil
import signal
import subprocess
import unittest

import harness
from harness import EXIT_REFUSED, wait_until
from jobs import ANY_LENGTH, job_text

STEPS = 1_000_000  # Longer than any time limit.
SHORT_STEPS = 3000  # Enough that a disk can fail before the end.
WARNING = "no request is accepted until it can be written"


class Tmpfs:
    """A small disk for the test."""

    def __init__(self, test, size):
        self.path = test.directory / "small"
        self.path.mkdir(mode=0o700)
        if os.geteuid() != 0 or not shutil.which("mount"):
            raise unittest.SkipTest("a disk of a known size is mounted by root only")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none",
                                  self.path], capture_output=True, text=True)
        if mounted.returncode != 0:
            raise unittest.SkipTest(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
        test.addCleanup(subprocess.run, ["umount", "-l", self.path], capture_output=True)

    def fill(self):
        with (self.path / "filler").open("ab", buffering=0) as filler:
            for piece in (1 << 20, 1 << 12, 1):
                try:
                    while filler.write(bytes(piece)):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self):
        (self.path / "filler").unlink()


class FullDisk(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.switch = self.directory / "switch"
        self.kind = self.fast_class()

    def start_head(self, state, preload=False, name="head"):
        directory = self.directory / name
        directory.mkdir(mode=0o700, exist_ok=True)
        words = [harness.easyscaled_program, "--head", "--state", state, "--listen",
                 f"ipc://{directory}/head.sock", "--node", "local", "--devices", f"{self.kind}:2",
                 "--run-dir", directory / "run", "--rescue", directory / "rescue"]
        if preload:
            words = ["env", f"LD_PRELOAD={os.environ['ES_FAILING_DISK']}",
                     f"ES_FAILING_DIR={state / 'db'}", f"ES_FAILING_SWITCH={self.switch}", *words]
        return harness.Daemon(self, self.start(*words))

    def job(self, name, **changes):
        text = job_text(f"{self.word}-{name}", changes={"steps": STEPS, "max_p": 2, "eval_every": 50,
                                                        **ANY_LENGTH, **changes})
        return self.write_job(text, f"{name}.toml")

    def train_on_both(self, head, job):
        """Waits until a round is over, also in the journal. One that began before the disk fails
        would wait for it, without steps; a job whose devices a user has chosen begins none."""
        head.esctl("scale", job, f"{self.kind}:2")
        head.wait_for(job, "trains on both", lambda d: d["state"] == "running" and d["steps"] > 20
                      and len(d["workers"]) == 2 and all(w["pid"] for w in d["workers"]))

    def refused(self, head, *words):
        ended = head.esctl(*words, code=EXIT_REFUSED)
        self.assertIn(WARNING, ended.err)

    def check_full(self, head, job, reason):
        """Checks from the time when the head has noticed: steps continue, every client gets the
        reason, no request is accepted."""
        seen = head.wait_for(job, "the warning", lambda d: WARNING in (d["warning"] or ""))
        self.assertIn(reason, seen["warning"])
        head.wait_for_step(job, seen["steps"] + 100)
        self.assertIn(reason, head.json("ps")["warning"])
        self.assertIn(reason, head.json("nodes")["warning"])
        self.assertIn(f"warning: ", head.esctl("ps").out)
        self.refused(head, "submit", self.job("late"))
        self.refused(head, "scale", job, f"{self.kind}:2")
        self.refused(head, "pause", job)
        self.refused(head, "cancel", job)
        self.refused(head, "checkpoint", job)
        self.refused(head, "claim", "--type", self.kind, "--count", "1", "--name", "serving")

    def check_well(self, head, job):
        """The head and its jobs continue without a command."""
        head.wait_for(job, "no warning", lambda d: not d["warning"])
        self.assertIsNone(head.json("ps")["warning"])

    def finish(self, head, job, file):
        """The bits are those of an undisturbed run, and the ledger has every step."""
        taken = head.json("checkpoint", job)
        ledger = self.directory / f"{job}.ledger"
        head.esctl("ledger", job, "--out", ledger)
        lines = [line for line in ledger.read_text().splitlines() if line[:1].isdigit()]
        self.assertEqual([int(line.split()[0]) for line in lines], list(range(1, len(lines) + 1)))
        self.assertGreaterEqual(len(lines), taken["version"])
        head.esctl("cancel", job)
        self.assert_bits_of_fixed_run(file, taken, self.kind)

    def submit_until_refused(self, head):
        """The blocks of existing files may have room for a few more records: requests that are
        accepted meanwhile are stored there, and exist later. Returns these jobs."""
        accepted = []
        file = self.job("filler")
        while len(accepted) < 1000:
            ended = self.start_esctl("submit", file, "--head", head.endpoint).wait()
            if ended.code == EXIT_REFUSED:
                return accepted
            self.assertEqual(ended.code, 0, str(ended))
            accepted.append(ended.out.split()[-1])
        self.fail("a head on a full disk accepts without end")

    def test_every_error_of_the_disk(self):
        state = self.directory / "state"
        head = self.start_head(state, preload=True)
        file = self.job("first")
        job = head.submit(file)
        for number in (errno.ENOSPC, errno.EROFS, errno.EIO):
            with self.subTest(error=os.strerror(number)):
                head.esctl("scale", job, f"{self.kind}:1")
                self.train_on_both(head, job)
                self.switch.write_text(str(number))
                self.check_full(head, job, os.strerror(number))
                self.switch.unlink()
                self.check_well(head, job)
        self.finish(head, job, file)
        head.stop()

    def test_a_worker_that_dies_meanwhile_is_replaced_later(self):
        state = self.directory / "state"
        head = self.start_head(state, preload=True)
        file = self.job("first")
        job = head.submit(file)
        before = head.wait_for(job, "trains", lambda d: d["steps"] > 20 and d["workers"]
                               and all(w["pid"] for w in d["workers"]))
        self.switch.write_text(str(errno.ENOSPC))
        head.wait_for(job, "the warning", lambda d: WARNING in (d["warning"] or ""))
        os.kill(before["workers"][0]["pid"], signal.SIGKILL)
        head.wait_for(job, "the loss is known", lambda d: d["state"] != "running")
        self.switch.unlink()
        head.wait_for(job, "trains again", lambda d: d["state"] == "running"
                      and d["steps"] > before["steps"] + 50)
        self.finish(head, job, file)
        head.stop()

    def test_a_job_ends_only_when_its_ledger_is_on_the_disk(self):
        state = self.directory / "state"
        head = self.start_head(state, preload=True)
        file = self.job("short", steps=SHORT_STEPS, eval_every=None)
        job = head.submit(file)
        head.wait_for_step(job, 20)
        self.switch.write_text(str(errno.ENOSPC))
        seen = head.wait_for(job, "its last step",
                             lambda d: d["steps"] == SHORT_STEPS or d["state"] == "finished")
        self.assertIn(WARNING, seen["warning"] or "")
        self.assertEqual(seen["state"], "running")
        follower = self.start_esctl("logs", job, "--follow", "--head", head.endpoint)
        self.switch.unlink()
        head.wait_for(job, "its end", lambda d: d["state"] == "finished")
        self.assertEqual(follower.wait().code, 0)
        ledger = self.directory / f"{job}.ledger"
        head.esctl("ledger", job, "--out", ledger)
        lines = [line for line in ledger.read_text().splitlines() if line[:1].isdigit()]
        self.assertEqual(len(lines), SHORT_STEPS)
        head.stop()

    def test_a_head_that_is_killed_on_a_full_disk_comes_back(self):
        state = self.directory / "state"
        head = self.start_head(state, preload=True)
        file = self.job("first")
        job = head.submit(file)
        head.wait_for_step(job, 20)
        head.esctl("checkpoint", job)
        self.switch.write_text(str(errno.ENOSPC))
        head.wait_for(job, "the warning", lambda d: WARNING in (d["warning"] or ""))
        head.running.stop(signal.SIGKILL)
        refused = self.start("env", f"LD_PRELOAD={os.environ['ES_FAILING_DISK']}",
                             f"ES_FAILING_DIR={state / 'db'}", f"ES_FAILING_SWITCH={self.switch}",
                             harness.easyscaled_program, "--head", "--state", state, "--listen",
                             f"ipc://{self.directory}/head/head.sock", "--node", "local",
                             "--devices", f"{self.kind}:1").wait()
        self.assertEqual(refused.code, harness.EXIT_FAILURE, str(refused))
        self.assertIn(os.strerror(errno.ENOSPC), refused.err)
        self.switch.unlink()
        head = self.start_head(state, preload=True)
        again = head.wait_for(job, "trains again", lambda d: d["state"] == "running"
                              and d["steps"] > 30)
        head.wait_for_step(job, again["steps"] + 20)
        self.finish(head, job, file)
        head.stop()

    def test_a_real_disk_that_is_filled_and_freed(self):
        # Smaller than the space that RocksDB reserves for its log, so that later records go into
        # this space.
        disk = Tmpfs(self, "24m")
        head = self.start_head(disk.path / "state")
        file = self.job("first")
        job = head.submit(file)
        self.train_on_both(head, job)
        for _ in range(2):
            disk.fill()
            try:
                accepted = self.submit_until_refused(head)
                self.check_full(head, job, os.strerror(errno.ENOSPC))
            finally:
                disk.free()
            self.check_well(head, job)
            for extra in accepted:
                head.esctl("cancel", extra)
        second_file = self.job("second")
        second = head.submit(second_file)
        head.esctl("scale", job, f"{self.kind}:1")
        head.wait_for_step(second, 20)
        log = wait_until("the log is complete", lambda: "can be written again" in (
            text := (disk.path / "state/logs" / f"{job}.log").read_text()) and text)
        self.assertIn("No space left on device", log)
        for name, text in ((job, file), (second, second_file)):
            self.finish(head, name, text)
        head.stop()


if __name__ == "__main__":
    harness.main()
