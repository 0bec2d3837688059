#!/usr/bin/env python3
"""The programs of a cluster are exchanged machine by machine under a running job. The new ones have
the same protocol number; here they are the same programs at another place."""
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from jobs import ANY_LENGTH, job_text  # noqa: E402

WIRE = ["--insecure-loopback"]


class Rolling(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.new = self.directory / "new"
        self.new.mkdir()
        shutil.copy(harness.easyscaled_program, self.new / "easyscaled")

    def start_head(self, program, listen):
        return harness.Daemon(self, self.start(
            program, "--head", "--state", self.directory / "state", "--listen", listen, "--node",
            "head", "--devices", "none", *WIRE), WIRE)

    def start_node(self, program, head, name):
        node = self.start(program, "--join", head.endpoint, "--node", name, "--devices",
                          f"{self.fast}:1", "--run-dir", self.directory / name, *WIRE)
        node.wait_for_line("^ready ", stream="out")
        return node

    def trains_on_both(self, head, job, after=0):
        return head.wait_for(
            job, "trains on both nodes", lambda d: d["state"] == "running" and d["steps"] > after
            and {w["node"] for w in d["workers"]} == {"a", "b"}
            and all(w["pid"] for w in d["workers"]))

    def stop(self, running):
        ended = running.stop(signal.SIGTERM)
        self.assertEqual(ended.code, 0, str(ended))

    def test_nodes_and_head_are_exchanged_under_a_running_job(self):
        old, new = harness.easyscaled_program, self.new / "easyscaled"
        head = self.start_head(old, f"tcp://127.0.0.1:{harness.free_port()}")
        nodes = {name: self.start_node(old, head, name) for name in ("a", "b")}
        job_file = self.write_job(job_text(self.word, "resnet18", changes={"steps": 1_000_000,
                                                                          **ANY_LENGTH}))
        job = head.submit(job_file)
        head.esctl("scale", job, f"{self.fast}:1")
        head.wait_for(job, "trains", lambda d: d["steps"] > 0)
        # By itself the job might find that the second device does not make it faster.
        head.esctl("scale", job, f"{self.fast}:2")
        seen = self.trains_on_both(head, job)
        for name in nodes:
            self.stop(nodes[name])
            nodes[name] = self.start_node(new, head, name)
            seen = self.trains_on_both(head, job, seen["steps"])
        self.stop(head.running)
        head = self.start_head(new, head.endpoint)
        self.trains_on_both(head, job, seen["steps"])
        self.assertNotIn("exited", head.esctl("logs", job).out)  # No step was lost.
        lines = harness.command_lines().values()
        self.assertFalse([line for line in lines if str(self.directory) in line
                          and line.startswith(f"{old} ")])
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)


if __name__ == "__main__":
    harness.main()
