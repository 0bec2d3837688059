#!/usr/bin/env python3
"""A node that shares no memory with the head's node: a process namespace of its own represents a
host.

The model is larger than any message, so its gradients and its versions are sent in pieces."""
import shutil
import subprocess
import unittest

import harness
from harness import digests
from jobs import ANY_LENGTH, job_text

LISTEN = "tcp://127.0.0.1:*"
NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
# One of its weights is a bucket of 67 MB, and a version has twice 76 MB.
LARGE = {"model.name": "mlp", "model.width": 4096, "data.crop_padding": 0, "data.flip": False,
         "eval_every": None}
STEPS = 14


def can_make_namespaces():
    return shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"]).returncode == 0


@unittest.skipUnless(can_make_namespaces(), "may not make process namespaces here")
class OtherHost(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.other = self.other_class()
        self.job_file = self.write_job(job_text(self.word, changes={**LARGE, **ANY_LENGTH,
                                                                    "steps": STEPS}))

    def start_head(self, name="head"):
        directory = self.directory / name
        directory.mkdir()
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", LISTEN, "--node", "first", "--devices", f"{self.fast}:2",
                             "--insecure-loopback")
        return harness.Daemon(self, running, ["--insecure-loopback"])

    def start_node(self, head, name="second", device=None):
        node = self.start(*NAMESPACE, harness.easyscaled_program, "--join", head.endpoint, "--node",
                          name, "--devices", f"{device or self.other}:1", "--run-dir",
                          self.directory / name, "--insecure-loopback")
        # unshare passes no signal on to the first process of the namespace.
        self.addCleanup(subprocess.run, ["pkill", "-KILL", "-P", str(node.process.pid)])
        node.wait_for_line("^ready ", stream="out")
        return node

    def reference(self):
        return digests(self.run_job(self.job_file, "--devices", f"{self.fast}:1"))

    def test_sharded_state_is_divided_and_moves_across_hosts(self):
        self.job_file = self.write_job(
            self.job_file.read_text() + '\n[shard]\nstate = "on"\n[checkpoint]\nevery_steps = 5\n'
            f'directory = "{self.directory}/head/state/checkpoints/series"\n', "sharded.toml")
        head = self.start_head()
        self.start_node(head)
        all_three = "+".join(sorted([f"{self.fast}:2", f"{self.other}:1"]))
        job = head.submit(self.job_file, "--stages",
                          f"{all_three}@7,{self.fast}:2@3,{all_three}@2,{self.other}:1@2")
        end = head.wait_for_state(job, "finished")
        self.assertEqual(digests(end), self.reference())
        head.stop()

    def test_gradients_are_added_on_the_way_between_three_hosts(self):
        """Two workers share memory, and the two others do not: one of these adds what they have for
        the owners on the first node."""
        cases = [("off", self.other), ("on", self.other), ("off", "cuda-host")]
        for number, (state, other) in enumerate(cases):
            text = job_text(self.word, changes={**ANY_LENGTH, "max_p": 7, "steps": STEPS,
                                                "shard.state": state})
            job_file = self.write_job(text, f"three-{number}.toml")
            head = self.start_head(f"first-{number}")
            self.start_node(head, f"second-{number}", other)
            self.start_node(head, f"third-{number}", other)
            job = head.submit(job_file, "--stages",
                              "+".join(sorted([f"{self.fast}:2", f"{other}:2"])) + "@7,"
                              + "+".join(sorted([f"{self.fast}:1", f"{other}:2"])) + "@7")
            end = head.wait_for_state(job, "finished")
            reference = digests(self.run_job(job_file, "--devices", f"{self.fast}:1"))
            self.assertEqual(digests(end), reference, other)
            head.stop()

    def test_a_large_model_trains_and_moves_across_hosts(self):
        head = self.start_head()
        self.start_node(head)
        both = "+".join(sorted([f"{self.fast}:1", f"{self.other}:1"]))
        job = head.submit(self.job_file, "--stages",
                          f"{self.fast}:1@5,{both}@4,{self.other}:1@5")
        end = head.wait_for_state(job, "finished")
        self.assertEqual(digests(end), self.reference())
        print(f"pauses: {[round(s['rescale_seconds'], 2) for s in end['stages']]} s", flush=True)
        head.stop()

    def test_the_source_dies_while_a_version_is_on_its_way(self):
        token = self.directory / "token"
        token.write_text("")
        # The process that sends the ninth piece dies: the source of the joiner.
        self.environment.update(ES_KILL_POINT="send.BulkPart:9", ES_KILL_TOKEN=str(token))
        head = self.start_head()
        self.start_node(head)
        del self.environment["ES_KILL_POINT"]
        three = "+".join(sorted([f"{self.fast}:2", f"{self.other}:1"]))
        job = head.submit(self.job_file, "--stages", f"{self.fast}:2@5,{three}@9")
        end = head.wait_for_state(job, "finished")
        self.assertFalse(token.exists(), "no process died")
        # On a busy machine its silence may be seen before the end of its process.
        self.assertRegex(head.esctl("logs", job).out, "Killed|is silent")
        self.assertEqual(digests(end), self.reference())
        head.stop()


if __name__ == "__main__":
    harness.main()
