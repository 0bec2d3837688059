#!/usr/bin/env python3
"""A node freezes for longer than --dead-after and continues: its workers are fenced off, the node
is used again, and no bit changes."""
import os
import signal

import harness
from jobs import ANY_LENGTH, job_text

LISTEN = "tcp://127.0.0.1:*"
ENDLESS = 1_000_000


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # It was ended while it was frozen.


class FrozenNode(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.other = self.other_class()
        self.both = "+".join(sorted([f"{self.fast}:1", f"{self.other}:2"]))
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))

    def start_head(self):
        directory = self.directory / "head"
        directory.mkdir()
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", LISTEN, "--node", "first", "--devices", f"{self.fast}:1",
                             "--insecure-loopback")
        return harness.Daemon(self, running, ["--insecure-loopback"])

    def start_node(self, head):
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.other}:2", "--run-dir", self.directory / "second",
                          "--insecure-loopback")
        self.addCleanup(lambda: node.process.poll() is None and os.kill(node.pid, signal.SIGCONT))
        node.wait_for_line("^ready ", stream="out")
        return node

    def alive(self, head):
        return {node["name"]: node["alive"] for node in head.json("nodes")["nodes"]}

    def trains_on(self, head, job, nodes, after=0):
        return head.wait_for(
            job, f"trains on {nodes}", lambda d: d["state"] == "running" and d["steps"] > after
            and sorted(w["node"] for w in d["workers"]) == nodes
            and all(w["pid"] for w in d["workers"]))

    def freeze_and_wake(self, head, job, node, workers_first):
        before = self.trains_on(head, job, ["first", "second", "second"])
        stale = [w["pid"] for w in before["workers"] if w["node"] == "second"]
        signal_all([node.pid, *stale], signal.SIGSTOP)
        alone = self.trains_on(head, job, ["first"], before["steps"])
        harness.wait_until("the node is missed",
                           lambda: self.alive(head) == {"first": True, "second": False})
        order = [*stale, node.pid] if workers_first else [node.pid, *stale]
        signal_all(order, signal.SIGCONT)
        harness.wait_until("the stale workers are gone",
                           lambda: not set(stale) & set(harness.command_lines()))
        harness.wait_until("the node is back", lambda: self.alive(head)["second"])
        head.esctl("scale", job, self.both)
        after = self.trains_on(head, job, ["first", "second", "second"], alone["steps"])
        survivor = [w["pid"] for w in before["workers"] if w["node"] == "first"]
        self.assertLessEqual(set(survivor), {w["pid"] for w in after["workers"]})

    def test_it_wakes_into_a_job_that_has_gone_on(self):
        head = self.start_head()
        node = self.start_node(head)
        job = head.submit(self.job_file)
        for workers_first in (True, False):
            with self.subTest(workers_first=workers_first):
                head.esctl("scale", job, self.both)
                self.freeze_and_wake(head, job, node, workers_first)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        self.assertEqual(node.stop(signal.SIGTERM).code, 0)
        head.stop()
        self.assert_nothing_left()
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)


if __name__ == "__main__":
    harness.main()
