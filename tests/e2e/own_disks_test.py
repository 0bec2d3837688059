#!/usr/bin/env python3
"""Nodes that share no disk: a state that a job has saved on one of them is never given up for an
older one.

Every daemon has a mount namespace of its own. In it, its own directory is mounted at the path where
the head keeps its state and the job its checkpoints."""
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

import harness
from harness import EXIT_REFUSED, wait_until
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
MIDDLE = 100


def at_path(mount):
    """Words before DIRECTORY PATH PROGRAM ...: mounts the directory at the path in a mount namespace
    of its own, and executes the program there."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
            f'{mount} && shift 2 && exec "$@"', "sh"]


AT_PATH = at_path('mount --bind "$1" "$2"')
READ_ONLY_AT_PATH = at_path('mount --bind "$1" "$2" && mount -o remount,bind,ro "$2"')


def can_mount():
    return shutil.which("unshare") and subprocess.run(
        [*AT_PATH, "/tmp", "/mnt", "true"], capture_output=True).returncode == 0


@unittest.skipUnless(can_mount(), "may not make mount namespaces here")
class OwnDisks(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast, self.other = self.fast_class(), self.other_class()
        if self.fast == self.other:
            self.skipTest("two kernel classes are needed")
        self.disk = self.directory / "disk"
        self.disk.mkdir()
        self.write_endless()

    def write_endless(self, **changes):
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH, **changes}))

    def on_own_disk(self, name, *words, mount=AT_PATH):
        own = self.directory / f"disk-of-{name}"
        own.mkdir(exist_ok=True)
        return self.start(*mount, own, self.disk, harness.easyscaled_program, *words)

    def start_head(self, *options):
        endpoint = f"ipc://{self.directory}/head.sock"
        running = self.on_own_disk("first", "--head", "--state", self.disk / "state", "--listen",
                                   endpoint, "--node", "first", "--devices", f"{self.fast}:1",
                                   "--run-dir", self.directory / "run-first", *options)
        return harness.Daemon(self, running)

    def start_second(self, head, *options, mount=AT_PATH):
        node = self.on_own_disk("second", "--join", head.endpoint, "--node", "second", "--devices",
                                f"{self.other}:1", "--run-dir", self.directory / "run-second",
                                "--rescue", self.directory / "rescue-second", *options,
                                mount=mount)
        node.wait_for_line("^ready ", stream="out")
        return node

    def submit_on(self, head, device):
        job = head.submit(self.job_file)
        head.esctl("scale", job, f"{device}:1")
        return job

    def resumed_without_its_state(self):
        """A head and its job, which was saved on the second node. That node is stopped."""
        head = self.start_head()
        second = self.start_second(head)
        job = self.submit_on(head, self.other)
        self.wait_for_device(head, job, self.other)
        head.wait_for_step(job, MIDDLE)
        head.esctl("pause", job)
        second.stop(signal.SIGTERM)
        head.esctl("scale", job, f"{self.fast}:1")
        head.esctl("resume", job)
        return head, job

    def wait_for_device(self, head, job, device):
        return head.wait_for(job, f"{device} alone", lambda d: d["placement"] == f"{device}:1")

    def wait_for_reason(self, head, job, words):
        return head.wait_for(job, words, lambda d: words in (d["waiting_for"] or ""))

    def assert_trains_with_same_bits(self, head, job):
        steps = head.wait_for_state(job, "running")["steps"]
        head.wait_for_step(job, steps + 20)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def assert_same_bits(self, head, job):
        self.assert_trains_with_same_bits(head, job)
        self.assertNotIn("from version 0", head.esctl("logs", job).out)

    def test_a_paused_job_continues_elsewhere_from_where_it_was(self):
        head = self.start_head()
        self.start_second(head)
        shared = {n["name"]: n["checkpoints"] for n in wait_until(
            "both nodes have tried the directory",
            lambda: (lambda nodes: nodes if all(n["checkpoints"] for n in nodes) else None)(
                head.json("nodes")["nodes"]))}
        self.assertEqual(shared, {"first": "shared", "second": "own"})
        job = self.submit_on(head, self.fast)
        self.wait_for_device(head, job, self.fast)
        head.wait_for_step(job, MIDDLE)
        head.esctl("pause", job)
        paused = head.describe(job)["steps"]
        head.esctl("claim", "--name", "other", "--type", self.fast, "--count", 1)
        head.esctl("scale", job, f"{self.other}:1")
        head.esctl("resume", job)
        self.wait_for_device(head, job, self.other)
        self.assertGreaterEqual(head.describe(job)["steps"], paused)
        self.assert_same_bits(head, job)
        self.assertEqual(list((self.directory / "run-second").glob("*.state")), [])
        head.stop()

    def pause_and_move(self, head, job, device, other):
        """The job is paused on a device and continues on one of the other type."""
        head.esctl("scale", job, f"{device}:1")
        self.wait_for_device(head, job, device)
        head.wait_for_step(job, head.describe(job)["steps"] + 5)
        head.esctl("pause", job)
        paused = head.describe(job)
        head.esctl("claim", "--name", "serving", "--type", device, "--count", 1)
        head.esctl("scale", job, "auto")
        head.esctl("resume", job)
        self.wait_for_device(head, job, other)
        head.esctl("release", "serving")
        self.assertGreaterEqual(head.describe(job)["steps"], paused["steps"])
        return paused["checkpoint"]

    def assert_bits_so_far(self, head, job):
        taken = head.json("checkpoint", job)
        self.assertNotIn("continues from version", head.esctl("logs", job).out)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)
        return taken

    def test_states_outside_of_the_checkpoint_root_of_the_nodes_are_saved_and_handed_over(self):
        roots = self.directory / "roots"
        roots.mkdir()
        head = self.start_head("--checkpoint-root", roots)
        self.start_second(head, "--checkpoint-root", roots)
        job = head.submit(self.job_file)
        for devices in ((self.other, self.fast), (self.fast, self.other)):
            self.assertTrue(self.pause_and_move(head, job, *devices).startswith(
                str(self.disk / "state/checkpoints")))
        self.assert_bits_so_far(head, job)

    def test_a_node_that_cannot_write_the_directory_of_the_head_keeps_states_itself(self):
        head = self.start_head()
        self.start_second(head, mount=READ_ONLY_AT_PATH)
        rescue = self.directory / "rescue-second"
        job = head.submit(self.job_file)
        path = self.pause_and_move(head, job, self.other, self.fast)
        self.assertEqual(path, str(rescue / Path(path).name))
        self.assertIn("-suspended-", path)
        self.pause_and_move(head, job, self.fast, self.other)
        wait_until("the first state is removed", lambda: not Path(path).exists())
        head.esctl("scale", job, f"{self.other}:1")
        self.wait_for_device(head, job, self.other)
        taken = self.assert_bits_so_far(head, job)
        self.assertEqual(Path(taken["path"]).parent, rescue)

    def test_a_job_waits_for_the_node_that_has_its_state_and_says_so(self):
        head, job = self.resumed_without_its_state()
        waiting = self.wait_for_reason(head, job, "node second, which holds")
        self.assertEqual((waiting["state"], waiting["workers"]), ("queued", []))
        self.assertIn("node second", head.esctl("ps").out)
        small = self.write_job(job_text(self.word, changes={"steps": 5}), "small.toml")
        head.wait_for_state(head.submit(small), "finished")  # The devices are free for others.
        # A head that is started again still knows it.
        head.running.stop(signal.SIGTERM)
        head = self.start_head()
        self.wait_for_reason(head, job, "node second, which holds")
        self.start_second(head)
        self.assert_same_bits(head, job)
        head.stop()

    def test_the_user_may_give_up_what_will_not_come_back(self):
        head, job = self.resumed_without_its_state()
        self.wait_for_reason(head, job, "node second")
        answer = head.esctl("resume", job, "--accept-loss").out
        self.assertRegex(answer, r"gives up version \d+ \(.*on node second\)")
        self.assert_trains_with_same_bits(head, job)
        head.esctl("resume", job, "--accept-loss", code=EXIT_REFUSED)
        head.stop()

    def test_a_lost_node_takes_nothing_with_it(self):
        self.write_endless(**{"checkpoint.every_steps": 40,
                              "checkpoint.directory": str(self.disk / "series")})
        head = self.start_head()
        second = self.start_second(head)
        # So that no checkpoint is written on the head's node.
        head.esctl("claim", "--name", "serving", "--type", self.fast, "--count", 1)
        job = head.submit(self.job_file)
        self.wait_for_device(head, job, self.other)
        head.wait_for(job, "a checkpoint", lambda d: d["checkpoint"])
        second.stop(signal.SIGKILL)
        head.esctl("release", "serving")
        head.esctl("scale", job, f"{self.fast}:1")
        self.wait_for_reason(head, job, "node second, which holds")
        self.start_second(head)
        self.assert_same_bits(head, job)
        head.stop()

    def test_a_claim_suspends_a_job_and_it_continues_elsewhere(self):
        head = self.start_head()
        self.start_second(head)
        head.esctl("claim", "--name", "first", "--type", self.fast, "--count", 1)
        job = head.submit(self.job_file)
        self.wait_for_device(head, job, self.other)
        head.wait_for_step(job, MIDDLE)
        head.esctl("claim", "--name", "second", "--type", self.other, "--count", 1)
        head.wait_for_state(job, "queued")
        head.esctl("release", "first")
        self.wait_for_device(head, job, self.fast)
        self.assert_same_bits(head, job)
        head.stop()


class CannotBeSaved(harness.EndToEndTest):
    def test_a_claim_says_at_once_which_job_cannot_save_its_state(self):
        fast = self.fast_class()
        head = self.start_daemon(devices=f"{fast}:1", options=["--no-rescue"])
        job = head.submit(self.write_job(job_text(self.word, changes={"steps": 100_000})))
        head.wait_for_step(job, 3)
        checkpoints = self.directory / "head/state/checkpoints"
        checkpoints.rename(checkpoints.with_name("moved"))
        checkpoints.write_text("in the way")
        head.esctl("claim", "--name", "serving", "--type", fast, "--count", 1)

        def reason():
            claim = head.json("claims")["claims"][0]
            waits = claim["waits_for"]
            return claim if waits and waits[0]["reason"] else None

        claim = wait_until("the claim says why", reason)
        self.assertEqual(claim["devices"], 0)
        self.assertEqual((claim["waits_for"][0]["job"], claim["waits_for"][0]["devices"]), (job, 1))
        self.assertIn(str(checkpoints), claim["waits_for"][0]["reason"])
        text = head.esctl("claims").out
        self.assertIn(f"waits for 1 {fast} of job {job}, which cannot save its state: ", text)
        head.wait_for_step(job, head.describe(job)["steps"] + 3)  # The job trains on.
        checkpoints.unlink()  # It tries again.
        wait_until("the claim has its device",
                   lambda: head.json("claims")["claims"][0]["devices"] == 1)
        self.assertEqual(head.json("claims")["claims"][0]["waits_for"], [])
        head.esctl("cancel", job)
        head.stop()


if __name__ == "__main__":
    harness.main()
