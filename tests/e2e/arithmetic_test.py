#!/usr/bin/env python3
"""Exact products (arithmetic = "x15" and "x22") have the same bits on all devices, through live
changes, a worker that is killed, and a checkpoint."""
import re

import harness
from harness import EXIT_USAGE, digests

CUDA = "cuda-host"
STEPS = 12
ENDLESS = 1_000_000
EXACT = ["x15", "x22"]


class Arithmetic(harness.EndToEndTest):
    def job_file(self, arithmetic, steps=STEPS):
        """A GPT-2, whose products are linear layers and the layer before the loss. A step does not
        depend on the number of later steps."""
        text = (harness.source_root / "configs/jobs/tiny_gpt2.toml").read_text()
        text = re.sub(r'^name = "tiny_\S+"', f'name = "{arithmetic}-{self.word}"', text, count=1,
                      flags=re.MULTILINE)
        for key, value in (("steps", steps), ("batch_size", 2)):
            text = re.sub(rf"^{key} = \d+", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
        text = text[:text.index("[schedule]")] + '[schedule]\nkind = "step"\nstep_size = 50\ngamma = 0.9\n'
        return self.write_job(f'arithmetic = "{arithmetic}"\n{text}', f"{arithmetic}.toml")

    def head(self, name):
        return self.start_daemon(name, devices="+".join(
            [f"{CUDA}:1"] + [f"{kind}:2" for kind in sorted(self.classes())]))

    def train_everywhere(self, arithmetic):
        job_file = self.job_file(arithmetic)
        fast, other = self.fast_class(), self.other_class()
        all_types = "+".join(sorted([f"{CUDA}:1", f"{fast}:1", f"{other}:1", "cpu-scalar:1"]
                                    if other != "cpu-scalar" else [f"{CUDA}:1", "cpu-scalar:1"]))
        head = self.head("head")
        found = {}
        for stages in (f"{fast}:1@{STEPS}", f"{other}:2@{STEPS}", f"cpu-scalar:2@{STEPS}",
                       f"{CUDA}:1@{STEPS}", f"{all_types}@4,{fast}:2@4,{CUDA}:1@2,{other}:1@2"):
            job = head.submit(job_file, "--stages", stages)
            end = head.wait_for_state(job, "finished")
            self.assertEqual([f"{s['placement']}@{s['steps']}" for s in end["stages"]],
                             stages.split(","))
            found[stages] = digests(end)
        head.stop()
        print(arithmetic, found, flush=True)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_x15(self):
        self.train_everywhere("x15")

    def test_x22(self):
        self.train_everywhere("x22")

    def test_a_killed_worker_and_a_checkpoint_change_no_bit(self):
        fast, other = self.fast_class(), self.other_class()
        both = "+".join(sorted([f"{fast}:1", f"{other}:1"]))
        for arithmetic in EXACT:
            job_file = self.job_file(arithmetic, ENDLESS)
            head = self.head(arithmetic)
            job = head.submit(job_file, "--stages", f"{both}@{ENDLESS}")
            head.kill_one_of_two(job, fast, steps=5)
            directory = self.directory / f"checkpoint-{arithmetic}"
            taken = head.json("checkpoint", job, "--to", directory)
            head.esctl("cancel", job)
            head.stop()
            self.assert_bits_of_fixed_run(job_file, taken, fast)
            steps = taken["version"] + 3
            continued = self.run_job(job_file, "--from", directory, "--steps", steps, "--devices",
                                     f"{other}:2")
            fixed = self.run_job(job_file, "--steps", steps, "--devices", f"{fast}:1",
                                 deadline_s=4 * harness.DEADLINE_S)
            self.assertEqual(digests(continued), digests(fixed))
            refused = self.start_esctl("run", self.job_file("fp32", ENDLESS), "--quiet", "--from",
                                       directory, "--steps", steps).wait()
            self.assertEqual(refused.code, EXIT_USAGE, str(refused))
            self.assertIn("another arithmetic", refused.err)

    def test_it_decides_the_bits_and_only_named_ones_are_allowed(self):
        found = {arithmetic: digests(self.run_job(self.job_file(arithmetic), "--devices",
                                                  f"{self.fast_class()}:1"))
                 for arithmetic in ("fp32", *EXACT)}
        self.assertEqual(len(set(found.values())), 3, found)
        refused = self.start_esctl("run", self.job_file("x16")).wait()
        self.assertEqual(refused.code, EXIT_USAGE, str(refused))
        for fragment in ('arithmetic = "x16"', "fp32, x15, x22"):
            self.assertIn(fragment, refused.err)


if __name__ == "__main__":
    harness.main()
