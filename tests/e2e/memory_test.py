#!/usr/bin/env python3
"""The memory of a worker does not grow with the number of its ESTs, except for the gradient
tree."""
import math

import harness
from jobs import job_text

ESTS = 8
MIB = 1024 * 1024


class Memory(harness.EndToEndTest):
    def job(self, max_p):
        return self.write_job(job_text(self.word, "resnet18", {
            "max_p": max_p, "batch_size": 8, "steps": 3, "model.width": 32,
            "data.height": 32, "data.width": 32, "data.samples": 256, "data.eval_samples": 8}))

    def peak_mib(self, max_p):
        summary = self.run_job(self.job(max_p), "--devices", self.fast_class() + ":1")
        return summary["peak_rss_mib"]

    def test_eight_ests_need_little_more_than_one(self):
        inspection = self.esctl("inspect", self.job(ESTS), "--json").json
        gradient_mib = inspection["classes"][0]["memory"]["gradient_slot_bytes"] / MIB
        one, eight = self.peak_mib(1), self.peak_mib(ESTS)
        allowed = 1.15 * one + int(math.log2(ESTS)) * gradient_mib
        print(f"peak memory of a worker: 1 EST {one:.1f} MiB, {ESTS} ESTs {eight:.1f} MiB; "
              f"a gradient {gradient_mib:.1f} MiB; allowed {allowed:.1f} MiB", flush=True)
        # The measurement is precise enough: a buffer for every EST would be visible.
        self.assertGreater(one + (ESTS - 1) * gradient_mib, allowed)
        self.assertLessEqual(eight, allowed)


if __name__ == "__main__":
    harness.main()
