#!/usr/bin/env python3
"""Parameters and state have the same bits on all devices and through all changes."""
import harness
from harness import digests
from jobs import job_text

# Four devices, two, one, changes in both directions, and numbers that are no powers of two.
PLACEMENTS = [
    "cpu-avx512:4@60",
    "cpu-avx2:2@60",
    "cpu-scalar:1@60",
    "cpu-avx512:1@20,cpu-avx2:3@20,cpu-avx2:2@20",
    "cpu-avx2:3@60",
    "cpu-avx2:1+cpu-avx512:2@60",
]


class SameBits(harness.EndToEndTest):
    def run_everywhere(self, model, max_p):
        text = job_text(self.word, model, {"max_p": max_p})
        job = self.write_job(text)
        found = {}
        for stages in PLACEMENTS:
            if not self.can_use(stages):
                continue
            summary = self.run_job(job, "--stages", stages)
            self.assertEqual(summary["steps"], 60)
            self.assertEqual([f"{s['placement']}@{s['steps']}" for s in summary["stages"]],
                             stages.split(","))
            self.assertNotEqual(summary["loss_first"], summary["loss_last"])
            found[stages] = digests(summary)
            self.assert_nothing_left()
        print(model, max_p, found, flush=True)
        self.assertEqual(len(set(found.values())), 1, found)
        return next(iter(found.values()))

    def test_small_cnn_with_4_ests(self):
        self.run_everywhere("small_cnn", 4)

    def test_small_cnn_with_5_ests(self):
        self.run_everywhere("small_cnn", 5)

    def test_resnet18_with_4_ests(self):
        self.run_everywhere("resnet18", 4)

    def test_resnet18_with_5_ests(self):
        self.run_everywhere("resnet18", 5)

    def test_a_change_of_devices_in_every_step(self):
        """Eight ESTs, all on one worker or on several, whose ranks and mini-batches change."""
        fast, other = self.fast_class(), self.other_class()
        job = self.write_job(job_text(self.word, changes={"max_p": 8, "steps": 40}))
        around = [f"{fast}:1", f"{other}:3", f"{fast}:5", f"{other}:1", f"{fast}:2"]
        stages = ",".join(f"{around[i % 5]}@1" for i in range(40))
        changing, fixed = (self.run_job(job, *options) for options in
                           (("--stages", stages), ("--devices", f"{fast}:1")))
        self.assertEqual(len(changing["stages"]), 40)  # No step had to be repeated.
        self.assertEqual(digests(changing), digests(fixed))

    def test_runs_of_one_name_at_the_same_time_do_not_meet(self):
        options = ("--json", "--quiet", "--devices", f"{self.fast_class()}:3")
        jobs, together = [], []
        for seed in (1, 2):
            text = job_text(self.word, changes={"seed": seed, "steps": 400})
            jobs.append(self.write_job(text, f"{seed}.toml"))
            together.append(self.start_esctl("run", jobs[-1], *options))
        for job, run in zip(jobs, together):
            ended = run.wait()
            self.assertEqual(ended.code, 0, str(ended))
            self.assertEqual(digests(ended.json), digests(self.run_job(job, *options[2:])))

    def test_what_decides_the_bits_changes_them(self):
        """The comparison above can fail: seed, number of ESTs and each feature change the bits."""
        changes = [{}, {"seed": 12}, {"max_p": 5}, {"steps": 59}, {"optimizer.momentum": 0.8},
                   {"optimizer.weight_decay": 0.0}, {"schedule.warmup_steps": 6},
                   {"data.flip": False}, {"data.crop_padding": 1}, {"precision": "bf16"},
                   {"arithmetic": "x15"}, {"arithmetic": "x22"}]
        found = []
        for change in changes:
            job = self.write_job(job_text(self.word, "small_cnn", change))
            found.append(digests(self.run_job(job, "--devices", self.fast_class() + ":1")))
        for part in range(2):
            self.assertEqual(len({pair[part] for pair in found}), len(changes), found)


if __name__ == "__main__":
    harness.main()
