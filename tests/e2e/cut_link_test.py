#!/usr/bin/env python3
"""Two hosts cannot reach each other any more, and both reach the head: their job continues."""
import re
import signal
import sys
import unittest
from pathlib import Path

import harness
from jobs import ANY_LENGTH, job_text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
import network  # noqa: E402  (hosts as network namespaces)

ENDLESS = 1_000_000
HEAD, A, B = None, "a", "b"


@unittest.skipIf(network.why_not(), f"no hosts here: {network.why_not()}")
class CutLink(harness.EndToEndTest):
    def setUp(self):
        self.network = network.Network([A, B])
        self.addCleanup(self.network.close)  # After all processes have ended.
        super().setUp()
        self.fast = self.fast_class()
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH,
                                         "resources.device_types": [self.fast]}))
        self.keys = self.directory / "keys"
        self.esctl("keygen", self.keys)

    def start_esctl(self, *words):
        return self.start(*self.network.inside(HEAD, [harness.esctl_program, *words]))

    def start_on(self, host, *words):
        address = self.network.HUB_ADDRESS if host is HEAD else self.network.address(host)
        daemon = self.start(*self.network.inside(host, [
            harness.easyscaled_program, *words, "--run-dir", self.directory / (host or "head"),
            "--keys", self.keys, "--address", address]))
        daemon.wait_for_line("^ready ", stream="out")
        return daemon

    def start_cluster(self):
        """The nodes a and b have one device each; the type of the head's own does not fit the job."""
        running = self.start_on(
            HEAD, "--head", "--state", self.directory / "state", "--listen",
            f"tcp://{self.network.HUB_ADDRESS}:7070", "--node", "head", "--devices",
            f"{self.other_class()}:1")
        head = harness.Daemon(self, running, ["--keys", self.keys])
        return head, [self.start_on(host, "--join", head.endpoint, "--node", host, "--devices",
                                    f"{self.fast}:1") for host in (A, B)]

    def trains_on(self, head, job, count, after=0):
        return head.wait_for(
            job, f"trains on {count} of a and b", lambda d: d["state"] == "running"
            and d["steps"] > after and len(d["workers"]) == count
            and {w["node"] for w in d["workers"]} <= {A, B})

    def test_the_job_continues_and_uses_both_hosts_again_when_the_link_is_back(self):
        head, nodes = self.start_cluster()
        job = head.submit(self.job_file)
        head.esctl("scale", job, f"{self.fast}:2")
        self.trains_on(head, job, 2)
        self.network.cut_between(A, B)
        harness.wait_until("it is noticed", lambda: re.search(
            r"is taken out: worker \d+ waits in vain for worker \d+ again",
            head.esctl("logs", job).out))
        noticed = head.describe(job)
        during = head.wait_for(job, "continues", lambda d: d["steps"] > noticed["steps"] + 20)
        self.assertEqual({node["name"]: node["alive"] for node in head.json("nodes")["nodes"]},
                         {"head": True, A: True, B: True})
        self.network.mend_between(A, B)
        self.trains_on(head, job, 2, during["steps"])
        # The job keeps one of the two workers that are cut off from each other, and this one has
        # the state.
        self.assertNotIn("no worker holds the state of the job", head.esctl("logs", job).out)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        for node in nodes:
            self.assertEqual(node.stop(signal.SIGTERM).code, 0)
        head.stop()
        self.assert_nothing_left()
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def test_a_job_runs_on_one_host_if_there_never_was_a_link(self):
        self.network.cut_between(A, B)
        head, nodes = self.start_cluster()
        job = head.submit(self.job_file)
        head.wait_for(job, "trains on one host", lambda d: d["steps"] > 20
                      and len({w["node"] for w in d["workers"]} & {A, B}) == 1)
        self.assertEqual({n["name"]: n["cut_from"] for n in head.json("nodes")["nodes"]},
                         {"head": [], A: [B], B: [A]})
        self.assertIn("no link between the nodes a and b", head.esctl("nodes").out)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        for node in nodes:
            self.assertEqual(node.stop(signal.SIGTERM).code, 0)
        head.stop()
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)


if __name__ == "__main__":
    harness.main()
