#!/usr/bin/env python3
"""A node whose daemon gets SIGTERM hands its workers over, and the bits stay the same."""
import os
import signal

import harness
from harness import EXIT_FAILURE
from jobs import ANY_LENGTH, job_text

LISTEN = "tcp://127.0.0.1:*"
ENDLESS = 1_000_000


class Drain(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.other = self.other_class()
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))

    def start_head(self):
        directory = self.directory / "head"
        directory.mkdir()
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", LISTEN, "--node", "first", "--devices", f"{self.fast}:1",
                             "--insecure-loopback")
        return harness.Daemon(self, running, ["--insecure-loopback"])

    def start_node(self, head, name, *options):
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", name,
                          "--devices", f"{self.other}:1", "--run-dir", self.directory / name,
                          "--insecure-loopback", *options)
        node.wait_for_line("^ready ", stream="out")
        return node

    def trains_on(self, head, job, nodes, after=0):
        return head.wait_for(
            job, f"trains on {nodes}", lambda d: d["state"] == "running" and d["steps"] > after
            and {w["node"] for w in d["workers"]} == set(nodes)
            # A worker tells it with its first step. So the change is over, also in the journal.
            and all(w["pid"] for w in d["workers"]))

    def assert_bits(self, head, job):
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def test_its_workers_are_handed_over_and_it_ends_in_good_order(self):
        head = self.start_head()
        node = self.start_node(head, "second")
        job = head.submit(self.job_file)
        head.esctl("scale", job, "+".join(sorted([f"{self.fast}:1", f"{self.other}:1"])))
        both = self.trains_on(head, job, ["first", "second"])
        staying = [w["pid"] for w in both["workers"] if w["node"] == "first"]
        ended = node.stop(signal.SIGTERM)
        self.assertEqual(ended.code, 0, str(ended))
        after = self.trains_on(head, job, ["first"], both["steps"])
        self.assertEqual([w["pid"] for w in after["workers"]], staying)
        self.assertNotIn("exited", head.esctl("logs", job).out)  # No step was lost on the way.
        # The node returns and is used again.
        self.start_node(head, "second")
        self.trains_on(head, job, ["first", "second"], after["steps"])
        self.assert_bits(head, job)

    def test_a_job_that_has_nothing_else_is_saved_and_continues_elsewhere(self):
        head = self.start_head()
        node = self.start_node(head, "second")
        job = head.submit(self.job_file)
        head.esctl("scale", job, f"{self.other}:1")
        only = self.trains_on(head, job, ["second"])
        ended = node.stop(signal.SIGTERM)
        self.assertEqual(ended.code, 0, str(ended))
        saved = head.wait_for_state(job, "queued")
        self.assertGreaterEqual(saved["steps"], only["steps"])
        self.assertIn(f"{self.other}:1", saved["waiting_for"])
        self.assertNotEqual(saved["checkpoint"], None)
        head.esctl("scale", job, "auto")
        self.trains_on(head, job, ["first"], saved["steps"])
        self.assert_bits(head, job)

    def test_a_job_that_evaluates_loses_no_step(self):
        """The evaluation takes longer than the grace. It is given up, and made elsewhere."""
        self.job_file = self.write_job(job_text(self.word, changes={
            "steps": 40, "eval_every": 20, "data.eval_samples": 2_000_000}))
        head = self.start_head()
        node = self.start_node(head, "second", "--grace", "60")
        head.esctl("claim", "--name", "first", "--type", self.fast, "--count", 1)
        job = head.submit(self.job_file)
        head.wait_for_step(job, 20)
        ended = node.stop(signal.SIGTERM)
        self.assertEqual(ended.code, 0, str(ended))
        saved = head.wait_for_state(job, "queued")
        self.assertEqual(saved["steps"], 20)
        self.assertRegex(saved["checkpoint"], "-suspended-")
        head.esctl("release", "first")
        on_first = head.wait_for(job, "evaluates on first", lambda d: d["state"] == "running"
                                 and [w["node"] for w in d["workers"]] == ["first"])
        self.assertEqual(on_first["steps"], 20)
        self.assertNotIn("continues from version 0", head.esctl("logs", job).out)
        head.esctl("cancel", job)
        head.stop()

    def test_it_ends_at_once_after_the_grace_or_a_second_signal(self):
        for name, options, signals in (("grace", ["--grace", "0"], 1), ("second", [], 2)):
            with self.subTest(name):
                node = self.start_head_with_frozen_worker(name, options)
                for _ in range(signals):
                    node.process.send_signal(signal.SIGTERM)
                    node.wait_for_line("hands over the workers of this node", stream="err")
                ended = node.wait()
                self.assertEqual(ended.code, EXIT_FAILURE, str(ended))
                self.assertIn("before all workers were handed over", ended.err)

    def start_head_with_frozen_worker(self, name, options):
        """A node whose worker cannot be handed over, because the head does not answer."""
        directory = self.directory / f"head-{name}"
        directory.mkdir()
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", LISTEN, "--node", "first", "--devices", f"{self.fast}:1",
                             "--insecure-loopback")
        head = harness.Daemon(self, running, ["--insecure-loopback"])
        node = self.start_node(head, f"node-{name}", *options)
        job = head.submit(self.job_file)
        head.esctl("scale", job, f"{self.other}:1")
        self.trains_on(head, job, [f"node-{name}"])
        os.kill(running.pid, signal.SIGSTOP)
        self.addCleanup(lambda: os.kill(running.pid, signal.SIGCONT))
        return node


if __name__ == "__main__":
    harness.main()
