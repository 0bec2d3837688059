#!/usr/bin/env python3
"""A node on which no process can start: jobs go on elsewhere, the node is set aside and shown, and it
serves again when it is repaired."""
import shutil
import signal

import harness
from jobs import ANY_LENGTH, job_text

LISTEN = "tcp://127.0.0.1:*"
ENDLESS = 1_000_000
QUICK = ["--heartbeat", "100", "--dead-after", "700"]


class BrokenNode(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))

    def start_head(self):
        running = self.start(harness.easyscaled_program, "--head", "--state",
                             self.directory / "state", "--listen", LISTEN, "--node", "first",
                             "--devices", f"{self.fast}:1", "--insecure-loopback", *QUICK)
        return harness.Daemon(self, running, ["--insecure-loopback"])

    def start_node(self, head, *options):
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.fast}:3", "--run-dir", self.directory / "second",
                          "--insecure-loopback", *QUICK, *options)
        node.wait_for_line("^ready ", stream="out")
        return node

    def set_aside(self, head):
        """The devices of the second node that are out of use until a time."""
        [second] = [n for n in head.json("nodes")["nodes"] if n["name"] == "second"]
        return [d for d in second["devices"] if d["suspect_until"]]

    def trains_on(self, head, job, nodes, after=0):
        return head.wait_for(
            job, f"trains on {nodes}", lambda d: d["state"] == "running" and d["steps"] > after
            and {w["node"] for w in d["workers"]} == nodes)

    def end(self, head, job, node):
        head.esctl("cancel", job)
        self.assertEqual(node.stop(signal.SIGTERM).code, 0)
        head.stop()
        self.assert_nothing_left()

    def test_a_running_job_goes_on_and_uses_the_node_when_it_is_repaired(self):
        head = self.start_head()
        job = head.submit(self.job_file)
        self.trains_on(head, job, {"first"})
        shutil.rmtree(self.directory / "second", ignore_errors=True)
        node = self.start_node(head)
        shutil.rmtree(self.directory / "second")
        harness.wait_until("the whole node is set aside", lambda: len(self.set_aside(head)) == 3)
        before = head.describe(job)
        after = self.trains_on(head, job, {"first"}, before["steps"])
        shown = head.esctl("nodes").out
        self.assertIn("set aside, tried again at ", shown)
        # A worker that was begun before the directory was away cannot read its file, a later one cannot write it.
        self.assertRegex(shown, "cannot be (written|read): No such file or directory")
        (self.directory / "second").mkdir(mode=0o700)
        head.esctl("nodes", "--clear", f"second/{self.fast}:0")
        self.trains_on(head, job, {"first", "second"}, after["steps"])
        self.assertEqual(self.set_aside(head), [])
        taken = head.json("checkpoint", job)
        self.end(head, job, node)
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

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
