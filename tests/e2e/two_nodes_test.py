#!/usr/bin/env python3
"""A head and a node that joins it by TCP: one cluster with the same bits; without the keys, no
connection."""
import os
import signal

import harness
from harness import EXIT_REFUSED, digests
from jobs import ANY_LENGTH, job_text

LISTEN = "tcp://127.0.0.1:*"


class TwoNodes(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.other = self.other_class()
        self.both = "+".join(sorted([f"{self.fast}:2", f"{self.other}:1"]))

    def start_head(self, *wire):
        directory = self.directory / "head"
        directory.mkdir()
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", LISTEN, "--node", "first", "--devices", f"{self.fast}:2",
                             *wire)
        return harness.Daemon(self, running, wire)

    def start_node(self, head, name, *wire, devices=None):
        return self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", name,
                          "--devices", devices or f"{self.other}:1", "--run-dir",
                          self.directory / name, *wire)

    def processes(self, head, job):
        return [(w["incarnation"], w["pid"]) for w in head.describe(job)["workers"]]

    def nodes(self, head):
        return {node["name"]: node["alive"] for node in head.json("nodes")["nodes"]}

    def train_across(self, head):
        """A job that needs both nodes has the bits of one that runs on a single device."""
        node = self.start_node(head, "second", *head.wire)
        node.wait_for_line("^ready ", stream="out")
        self.assertEqual(self.nodes(head), {"first": True, "second": True})
        job_file = self.write_job(job_text(self.word, changes={"steps": 60}))
        stages = f"{self.both}@40,{self.other}:1@10,{self.fast}:1@10"
        job = head.submit(job_file, "--stages", stages)
        used = head.wait_for(job, "workers", lambda d: d["workers"] or d["state"] == "finished")
        if used["state"] != "finished":
            self.assertTrue({w["node"] for w in used["workers"]} <= {"first", "second"})
        end = head.wait_for_state(job, "finished")
        self.assertEqual([stage["placement"] for stage in end["stages"]],
                         [part.split("@")[0] for part in stages.split(",")])
        self.assertEqual(digests(end), digests(self.run_job(job_file, "--devices",
                                                            f"{self.fast}:1")))
        return node

    def stop_node(self, head, node):
        ended = node.stop(signal.SIGTERM)
        self.assertEqual(ended.code, 0, str(ended))
        harness.wait_until("the node is missed", lambda: not self.nodes(head)["second"])

    def test_over_the_loopback_without_keys(self):
        head = self.start_head("--insecure-loopback")
        self.stop_node(head, self.train_across(head))
        head.stop()

    def test_tcp_without_keys_is_refused_unless_asked_for(self):
        ended = self.start(harness.easyscaled_program, "--head", "--state",
                           self.directory / "state", "--listen", LISTEN).wait()
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertIn("keys", ended.err)

    def test_a_lost_node_costs_no_bits(self):
        head = self.start_head("--insecure-loopback")
        node = self.start_node(head, "second", *head.wire)
        node.wait_for_line("^ready ", stream="out")
        job_file = self.write_job(
            job_text(self.word, changes={"steps": 1_000_000, **ANY_LENGTH}))
        job = head.submit(job_file)
        head.esctl("scale", job, self.both)
        both = head.wait_for(
            job, "trains on both nodes", lambda d: d["state"] == "running" and d["steps"] > 0
            and {w["node"] for w in d["workers"]} == {"first", "second"})
        head.esctl("scale", job, "auto")
        node.stop(signal.SIGKILL)
        head.wait_for(job, "trains on the first node alone",
                      lambda d: d["state"] == "running" and d["steps"] > both["steps"]
                      and {w["node"] for w in d["workers"]} == {"first"})
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)

    def test_a_node_with_other_kernels_gets_no_part_in_a_job_below_d2(self):
        """The second node has the library of the first, but uses older instructions of it."""
        head = self.start_head("--insecure-loopback")
        job_file = self.write_job(job_text(
            self.word, "resnet18", {"level": "D1", "steps": 1_000_000, **ANY_LENGTH}))
        job = head.submit(job_file)
        head.wait_for_step(job, 1)
        self.environment["LD_PRELOAD"] = os.environ["ES_OTHER_KERNELS"]
        node = self.start_node(head, "second", *head.wire, devices=f"{self.fast}:1")
        del self.environment["LD_PRELOAD"]
        node.wait_for_line("^ready ", stream="out")
        head.esctl("scale", job, f"{self.fast}:3")
        refused = head.running.wait_for_line("computes with other kernels than")
        self.assertIn("it has 'operator conv1 (conv2d): jit:sse41' where they have", refused.string)
        refused_at = head.describe(job)["steps"]
        head.wait_for(job, "trains on without the second node", lambda d: d["steps"] > refused_at
                      and d["placement"] == f"{self.fast}:2")
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        self.stop_node(head, node)
        head.stop()
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)

    def test_with_keys_and_not_with_others(self):
        keys, others = self.directory / "keys", self.directory / "others"
        for directory in (keys, others):
            made = self.esctl("keygen", directory, "--json")
            self.assertNotIn("secret", made.out)
        head = self.start_head("--keys", keys)
        stranger = self.start_node(head, "stranger", "--keys", others)
        stranger.wait_for_line("handshake failed: with head")
        # A client that has the server's public key, and whose own key is not authorized.
        (others / "server.key").unlink()
        (others / "server.pub").write_bytes((keys / "server.pub").read_bytes())
        unknown = self.start_node(head, "unknown", "--keys", others)
        unknown.wait_for_line("the key of this process was refused: by head")
        head.running.wait_for_line("refused a connection, handshake failed")
        self.assertEqual(self.nodes(head), {"first": True})
        for wire in (["--keys", others], ["--insecure-loopback"]):
            ended = self.esctl("ps", "--head", head.endpoint, *wire, code=EXIT_REFUSED)
            self.assertIn(head.endpoint, ended.err)
        node = self.train_across(head)  # The unauthorized clients still try to connect.
        self.assertEqual(self.nodes(head), {"first": True, "second": True})
        for outsider in (stranger, unknown):
            self.assertNotIn("ready", outsider.out)
            self.assertEqual(outsider.stop(signal.SIGTERM).code, 0)
        self.stop_node(head, node)
        head.stop()

    def test_no_other_node_takes_the_name_of_the_heads_own_node(self):
        head = self.start_head("--insecure-loopback")
        steps = 1_000_000  # More than the test needs, on two devices.
        job = head.submit(self.write_job(job_text(self.word, changes={"steps": steps})),
                          "--stages", f"{self.fast}:2@{steps}")
        head.wait_for(job, "all workers tell their processes", lambda d: d["state"] == "running"
                      and d["workers"] and all(w["pid"] for w in d["workers"]))
        own = self.processes(head, job)
        thief = self.start_node(head, "first", "--insecure-loopback")
        thief.wait_for_line("its name is taken")
        head.wait_for_step(job, head.describe(job)["steps"] + 5)
        self.assertEqual(self.processes(head, job), own)
        self.assertNotIn("ready", thief.out)
        thief.stop(signal.SIGTERM)
        self.assertEqual(self.nodes(head), {"first": True})
        head.esctl("cancel", job)
        head.stop()

    def test_a_key_is_let_in_and_shut_out_while_the_head_runs(self):
        keys, others = self.directory / "keys", self.directory / "others"
        for directory in (keys, others):
            self.esctl("keygen", directory)
        (others / "server.key").unlink()
        (others / "server.pub").write_bytes((keys / "server.pub").read_bytes())
        head = self.start_head("--keys", keys)
        let_in = keys / "authorized/other.pub"
        let_in.write_bytes((others / "authorized/self.pub").read_bytes())
        node = self.start_node(head, "second", "--keys", others)
        node.wait_for_line("^ready ", stream="out")
        self.assertEqual(self.nodes(head), {"first": True, "second": True})
        broken = keys / "authorized/half-written.pub"
        broken.write_text("public = ")
        head.running.wait_for_line("the set of authorized keys is not changed: .*half-written")
        broken.unlink()
        let_in.unlink()
        node.wait_for_line("the key of this process was refused: by head")
        harness.wait_until("the node is away",
                           lambda: self.nodes(head) == {"first": True, "second": False})
        node.stop(signal.SIGKILL)
        head.stop()


if __name__ == "__main__":
    harness.main()
