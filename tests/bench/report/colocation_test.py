#!/usr/bin/env python3
"""The generated loads of Figure 16: one seed gives one load, and it fits the cluster."""
import csv
import random
import tempfile
import unittest
from pathlib import Path

import colocation
from colocation import DAY_S, DAYS, DEVICES, REPLICA

STEP_TIMES = "model,gpu_type,seconds_per_local_step\n" + "".join(
    f"{model},{kind},{seconds}\n" for model, seconds in (("bert", 0.5), ("swin", 0.2))
    for kind in DEVICES)


class Loads(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = Path(self.directory.name)
        (self.path / "steps.csv").write_text(STEP_TIMES)

    def write(self, seed):
        generator = random.Random(seed)
        idle = colocation.write_serving(self.path / "claims.csv", generator)
        colocation.write_training(self.path / "jobs.csv", self.path / "steps.csv", idle, generator)
        return idle

    def text(self):
        return [(self.path / name).read_text() for name in ("claims.csv", "jobs.csv")]

    def test_one_seed_gives_one_load(self):
        self.write(1)
        first = self.text()
        self.write(1)
        self.assertEqual(self.text(), first)
        self.write(2)
        self.assertNotEqual(self.text(), first)

    def test_claims_fit_the_cluster_and_leave_what_is_said(self):
        idle = self.write(1)
        held, total, last, left = {}, {kind: 0 for kind in DEVICES}, 0, 0
        with open(self.path / "claims.csv") as file:
            for row in [*csv.DictReader(file), {"time_s": DAYS * DAY_S}]:
                now = int(row["time_s"])
                left += max(0, now - max(last, DAY_S)) * sum(DEVICES[k] - total[k] for k in DEVICES)
                last = now
                if "name" not in row:
                    break
                self.assertEqual(row["name"] in held, row["count"] == "0", row)
                if row["count"] == "0":
                    total[held.pop(row["name"])] -= REPLICA
                else:
                    held[row["name"]] = row["type"]
                    total[row["type"]] += REPLICA
                self.assertLessEqual(total[row["type"]], DEVICES[row["type"]])
        self.assertEqual(left, idle)

    def test_training_comes_on_the_second_day(self):
        self.write(1)
        with open(self.path / "jobs.csv") as file:
            jobs = list(csv.DictReader(file))
        self.assertGreater(len(jobs), 50)
        for job in jobs:
            self.assertTrue(DAY_S <= float(job["submit_s"]) < DAYS * DAY_S)
            self.assertIn(job["gpu_type"], DEVICES)


if __name__ == "__main__":
    unittest.main()
