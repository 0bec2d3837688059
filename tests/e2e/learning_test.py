#!/usr/bin/env python3
"""The shipped job learns its task, and its evaluation does not depend on the devices."""
import re

import harness
from harness import digests
from jobs import shipped_job


class Learning(harness.EndToEndTest):
    def shipped(self, **changes):
        """configs/jobs/small_cnn.toml with other values of some top-level keys."""
        text, _ = shipped_job(harness.source_root)
        for key, value in {"name": f'"small_cnn-{self.word}"', **changes}.items():
            text, found = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, count=1,
                                  flags=re.MULTILINE)
            self.assertEqual(found, 1, key)
        return self.write_job(text)

    def test_the_shipped_job_passes_85_percent(self):
        best = [name for name in harness.ALL_CLASSES if name in self.classes()][-1]
        summary = self.run_job(self.shipped(), "--devices", f"{best}:2", deadline_s=600)
        steps = [evaluation["version"] for evaluation in summary["evaluations"]]
        self.assertEqual(steps, [468, 936, 1404])
        self.assertEqual({e["total"] for e in summary["evaluations"]}, {10_000})
        accuracies = [evaluation["accuracy"] for evaluation in summary["evaluations"]]
        print("test accuracy", accuracies, flush=True)
        self.assertGreater(accuracies[-1], 0.85)
        self.assertGreater(accuracies[-1], accuracies[0])
        self.assertLess(summary["loss_last"], summary["loss_first"])

    def test_evaluations_have_the_same_bits_everywhere(self):
        job = self.shipped(epochs=0, eval_every="20\nsteps = 60", level='"D2"')
        found = {}
        for stages in [f"{self.fast_class()}:1@60",
                       f"{self.other_class()}:1@30,{self.fast_class()}:3@30"]:
            summary = self.run_job(job, "--stages", stages)
            evaluations = [(e["version"], e["accuracy"], e["total"], e["mean_loss"])
                           for e in summary["evaluations"]]
            self.assertEqual([e[0] for e in evaluations], [20, 40, 60])
            self.assertEqual(len({e[3] for e in evaluations}), 3)  # It learns meanwhile.
            found[stages] = evaluations, digests(summary)
        first, second = found.values()
        self.assertEqual(first, second)


if __name__ == "__main__":
    harness.main()
