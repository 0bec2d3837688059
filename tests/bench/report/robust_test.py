#!/usr/bin/env python3
"""The generated families of scripts/figures robust: one seed gives one load, which fits its cluster."""
import argparse
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


class Choice(unittest.TestCase):
    def test_policies_are_chosen_by_name_and_keep_their_order(self):
        parse = robust.names_in(("a", "b", "c"))
        self.assertEqual(parse("c,a"), ("a", "c"))
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "unknown: d; allowed: a, b, c"):
            parse("a,d")


class Runs(unittest.TestCase):
    def test_a_second_call_makes_only_the_missing_runs(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "runs.jsonl"
            keys = robust.planned(["a"], (0,), ("elastic-srtf", "srtf"))
            self.assertEqual(len(keys), 2 * (1 + len(robust.KNOWLEDGE)))
            robust.Runs(path).add(keys[0], {"avg_jct_s": 1})
            robust.Runs(path).add(keys[1], None)
            again = robust.Runs(path)
            self.assertEqual(again.results, {keys[0]: {"avg_jct_s": 1}, keys[1]: None})

    def test_ratios_are_those_to_the_best_policy_and_to_exact_knowledge(self):
        keys = robust.planned(["a", "f@1", "f@2"], (robust.KNOWLEDGE_COST_S,), ("elastic-srtf", "srtf", "las"))
        results = {}
        for load, cost_s, knowledge, policy in keys:
            jct = {"elastic-srtf": 10, "srtf": 20, "las": 40}[policy]
            jct *= 1 if knowledge == robust.EXACT else 2
            results[load, cost_s, knowledge, policy] = {
                "avg_jct_s": jct, "makespan_s": 100, "avg_jct_bound_s": 5, "makespan_bound_s": 50,
                "rescales": 1, "worst_rho": 1, "unfinished": 0, "history_hash": ""}
        results["a", robust.KNOWLEDGE_COST_S, robust.EXACT, "las"] = None  # took too long
        rows = robust.rows_of(results, keys)
        ours = [r for r in rows if r["policy"] == "elastic-srtf"]
        self.assertEqual({r["avg_jct_s_over_best"] for r in ours}, {1})
        self.assertEqual({r["avg_jct_s_over_best"] for r in rows if r["policy"] == "srtf"}, {2})
        self.assertEqual(ours[0]["avg_jct_s_over_bound"], 2)
        self.assertEqual({r["avg_jct_s_over_exact"] for r in ours if r["knowledge"] != robust.EXACT},
                         {2})
        exact = [r for r in rows if r["knowledge"] == robust.EXACT]
        self.assertIn("2.000 | 2.000 | 0 of 3", robust.summary_table(exact, ("srtf",)))
        for origin in ("traces", "even seeds", "odd seeds"):
            self.assertIn(f"{origin} | 1.000 | 1.000 | 1 of 1", robust.origin_table(exact))
        table = robust.load_table(exact, (robust.KNOWLEDGE_COST_S,))
        self.assertIn("| f | 1.000 / 1.000 | 1 |", table)
        self.assertIn("2.000 / 1.000, 1.000", robust.knowledge_table(rows, ("elastic-srtf",)))
        self.assertIn("<svg", robust.svg(exact, "avg_jct_s", "JCT", (robust.KNOWLEDGE_COST_S,)))


if __name__ == "__main__":
    unittest.main()
