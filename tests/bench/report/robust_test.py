#!/usr/bin/env python3
"""The generated families of scripts/figures robust: one seed gives one load, which fits its cluster."""
import csv
import random
import tempfile
import unittest
from pathlib import Path

import robust
from robust_loads import FAMILIES


class Families(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = Path(self.directory.name)

    def load(self, name, seed):
        return FAMILIES[name](random.Random(f"{name}-{seed}"), 0.25)

    def test_one_seed_gives_one_load_and_another_seed_another(self):
        for name in FAMILIES:
            texts = []
            for seed in (1, 1, 2):
                self.load(name, seed).write(self.path)
                texts.append((self.path / "trace.csv").read_text())
            self.assertEqual(texts[0], texts[1], name)
            self.assertNotEqual(texts[0], texts[2], name)

    def test_every_job_has_a_speed_on_a_type_that_it_may_use(self):
        for name in FAMILIES:
            load = self.load(name, 1)
            load.write(self.path)
            with open(self.path / "trace.csv") as file:
                for row in csv.DictReader(file):
                    self.assertIn(row["gpu_type"], load.cluster, name)
                    self.assertIn(row["gpu_type"], load.steps[row["model"]], name)
                    self.assertGreater(float(row["samples_total"]), 0)

    def test_the_quick_loads_are_loads(self):
        self.assertLessEqual({"width-1", "type-bound", "bursty"} & set(robust.QUICK["loads"]),
                             set(FAMILIES))


if __name__ == "__main__":
    unittest.main()
