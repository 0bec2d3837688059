#!/usr/bin/env python3
"""The program of the CUDA device on host memory, in real worker processes beside CPUs: the same
bits.

Devices of the type cuda-host stand in for GPUs. They exist only if a configuration names them."""
import json
import os
import signal

import harness
from harness import EXIT_REFUSED, digests
from jobs import ANY_LENGTH, job_text

CUDA = "cuda-host"
STEPS = 20
ENDLESS = 1_000_000


class CudaHost(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.both = "+".join(sorted([f"{CUDA}:1", f"{self.fast}:1"]))

    def head(self):
        return self.start_daemon(devices=f"{CUDA}:2+{self.fast}:2")

    def on_cpus(self, job_file, *options):
        return digests(self.run_job(job_file, *options, "--devices", f"{self.fast}:1"))

    def assert_bits(self, head, job, job_file):
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)

    def train_everywhere(self, model, changes=None):
        job_file = self.write_job(job_text(self.word, model, {"steps": STEPS} | (changes or {})))
        expected = self.on_cpus(job_file)
        head = self.head()
        half = STEPS // 2
        for stages in (f"{CUDA}:2@{STEPS}", f"{self.both}@{STEPS}",
                       f"{CUDA}:1@{half},{self.fast}:2@5,{self.both}@5"):
            job = head.submit(job_file, "--stages", stages)
            end = head.wait_for_state(job, "finished")
            self.assertEqual([f"{s['placement']}@{s['steps']}" for s in end["stages"]],
                             stages.split(","))
            self.assertEqual(digests(end), expected, stages)
        head.stop()

    def test_small_cnn(self):
        self.train_everywhere("small_cnn")

    def test_resnet18(self):
        self.train_everywhere("resnet18")

    def test_resnet18_at_bf16(self):
        self.train_everywhere("resnet18", {"precision": "bf16"})

    def test_a_worker_that_is_killed_changes_no_bit(self):
        job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))
        head = self.head()
        job = head.submit(job_file, "--stages", f"{self.both}@{ENDLESS}")
        head.kill_one_of_two(job, CUDA, STEPS)
        self.assert_bits(head, job, job_file)

    def test_operators_are_traced_if_they_are_asked_for_and_change_no_bit(self):
        job_file = self.write_job(job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))
        head = self.head()
        job = head.submit(job_file, "--stages", f"{CUDA}:2@{ENDLESS}")
        head.wait_for_step(job, 2)

        def spans(name, *options):
            path = self.directory / name
            head.esctl("trace", job, "--steps", 3, "--out", path, *options)
            data = json.loads(path.read_text())
            self.assertEqual([p["missing"] for p in data["otherData"]["processes"]], [None] * 3)
            return [e for e in data["traceEvents"] if e["ph"] == "X"]

        # A device that is not watched computes without waiting after each operator.
        plain = spans("plain.json")
        self.assertEqual(len([s for s in plain if s["cat"] == "slice"]), 3 * 4)
        self.assertEqual([s for s in plain if s["cat"] == "operator"], [])
        watched = spans("watched.json", "--gpu-operators")
        slices = [s for s in watched if s["cat"] == "slice"]
        operators = [s for s in watched if s["cat"] == "operator"]
        self.assertEqual(len(slices), 3 * 4)
        self.assertEqual({s["args"]["pass"] for s in operators}, {"forward", "backward"})
        slack = 0.0015  # two roundings of the file
        for one in slices:
            inside = [o for o in operators if o["pid"] == one["pid"] and one["ts"] <= o["ts"] + slack
                      and o["ts"] + o["dur"] <= one["ts"] + one["dur"] + slack]
            self.assertEqual(len(inside), len(operators) // len(slices))
        profile = head.json("profile", job, "--steps", 3)
        self.assertEqual(profile["missing"], [])
        [device] = profile["devices"]
        self.assertEqual((device["device_type"], device["local_steps"]), (CUDA, 3 * 4))
        self.assertGreater(sum(kind["share"] for kind in device["kinds"]), 0.5)
        for worker in profile["memory"]:
            names = {part["name"] for part in worker["parts"]}
            self.assertLessEqual({"parameters", "gradients in device memory",
                                  "activations and their gradients"}, names)
        # The device computes as before when no trace watches it.
        self.assertEqual([s for s in spans("after.json") if s["cat"] == "operator"], [])
        self.assert_bits(head, job, job_file)

    def test_it_is_offered_only_where_a_configuration_names_it(self):
        job_file = self.write_job(job_text(self.word))
        ended = self.start_esctl("run", job_file, "--devices", f"{CUDA}:1").wait()
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertIn(f"device type {CUDA} is not offered", ended.err)


if __name__ == "__main__":
    harness.main()
