#!/usr/bin/env python3
"""A node on which no process can start: jobs go on elsewhere, the node is set aside and shown, and it
serves again when it is repaired."""
import shutil
import signal
from pathlib import Path

import harness
from jobs import ANY_LENGTH, job_text

LISTEN = "tcp://127.0.0.1:*"
ENDLESS = 1_000_000
MEMORY = 40 << 20  # bytes: enough for the daemon of a node, too little for the step of a job


class BrokenNode(harness.EndToEndTest):
    def setUp(self):
        self.group = None
        self.addCleanup(self.remove_group)  # after the processes in it have ended
        super().setUp()
        self.fast = self.fast_class()
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))

    def start_head(self):
        running = self.start(harness.easyscaled_program, "--head", "--state",
                             self.directory / "state", "--listen", LISTEN, "--node", "first",
                             "--devices", f"{self.fast}:1", "--insecure-loopback")
        return harness.Daemon(self, running, ["--insecure-loopback"])

    def start_node(self, head, *options, within=()):
        node = self.start(*within, harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.fast}:3", "--run-dir", self.directory / "second",
                          "--insecure-loopback", *options)
        node.wait_for_line("^ready ", stream="out")
        return node

    def memory_group(self, limit):
        """A control group with this limit in bytes, for as long as the test runs."""
        for root, file in (("memory", "memory.limit_in_bytes"), (".", "memory.max")):
            try:
                group = Path("/sys/fs/cgroup") / root / self.word
                group.mkdir()
                self.group = group
                (group / file).write_text(str(limit))
                return group
            except OSError:
                self.remove_group()
        self.skipTest("this user may not limit the memory of a control group")

    def remove_group(self):
        if self.group is not None:
            harness.wait_until("the control group is empty",
                               lambda: not (self.group / "cgroup.procs").read_text())
            self.group.rmdir()
            self.group = None

    def set_aside(self, head):
        """The devices of the second node that are out of use until a time."""
        [second] = [n for n in head.json("nodes")["nodes"] if n["name"] == "second"]
        return [d for d in second["devices"] if d["suspect_until"]]

    def trains_on(self, head, job, nodes, after=0):
        return head.wait_for(
            job, f"trains on {nodes}", lambda d: d["state"] == "running" and d["steps"] > after
            and {w["node"] for w in d["workers"]} == nodes)

    def end(self, head, job, node, statuses=(0,)):
        head.esctl("cancel", job)
        self.assertIn(node.stop(signal.SIGTERM).code, statuses)
        head.stop()
        self.assert_nothing_left()

    def test_a_running_job_goes_on_and_uses_the_node_when_it_is_repaired(self):
        head = self.start_head()
        job = head.submit(self.job_file)
        self.trains_on(head, job, {"first"})
        # No worker may begin on the second node before its directory is away.
        head.esctl("scale", job, f"{self.fast}:1")
        node = self.start_node(head)
        shutil.rmtree(self.directory / "second")
        # By itself the job might find that more devices do not make it faster.
        scaling = self.start_esctl("scale", job, f"{self.fast}:4", "--head", head.endpoint,
                                   "--insecure-loopback")
        harness.wait_until("the whole node is set aside", lambda: len(self.set_aside(head)) == 3)
        before = head.describe(job)
        after = self.trains_on(head, job, {"first"}, before["steps"])
        shown = head.esctl("nodes").out
        self.assertIn("set aside, tried again at ", shown)
        self.assertIn("cannot be written: No such file or directory", shown)
        (self.directory / "second").mkdir(mode=0o700)
        head.esctl("nodes", "--clear", f"second/{self.fast}:0")
        self.trains_on(head, job, {"first", "second"}, after["steps"])
        self.assertEqual(scaling.wait().code, 0)
        self.assertEqual(self.set_aside(head), [])
        taken = head.json("checkpoint", job)
        self.end(head, job, node)
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def test_a_node_without_enough_memory_is_named_and_fails_no_job(self):
        """The kernel ends the processes of the second node, since a step needs more than it has."""
        group = self.memory_group(MEMORY)
        head = self.start_head()
        large = self.write_job(job_text(self.word, "resnet18", {"steps": ENDLESS, "batch_size": 64, **ANY_LENGTH}))
        job = head.submit(large)
        self.trains_on(head, job, {"first"})
        node = self.start_node(head, within=(
            "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"'))
        head.running.wait_for_line("worker .* on second/.*: out of memory: the kernel ended it")
        # Its first victim is a worker. While the memory of one is not yet free, it may end the daemon too.
        harness.wait_until("its devices are set aside, or the node is gone",
                           lambda: node.process.poll() is not None or self.set_aside(head))
        before = head.describe(job)["steps"]
        self.trains_on(head, job, {"first"}, before)
        taken = head.json("checkpoint", job)
        self.end(head, job, node, statuses=(0, -signal.SIGKILL))
        self.assert_bits_of_fixed_run(large, taken, self.fast)

    def test_a_wrong_address_fails_no_job(self):
        head = self.start_head()
        node = self.start_node(head, "--address", "::1")
        jobs = [head.submit(self.job_file) for _ in range(2)]
        harness.wait_until("the node is set aside", lambda: self.set_aside(head))
        for job in jobs:
            self.assertNotEqual(head.describe(job)["state"], "failed")
        head.esctl("cancel", jobs[1])
        self.end(head, jobs[0], node)


if __name__ == "__main__":
    harness.main()
