#!/usr/bin/env python3
"""elastic-srtf in `esctl sim` on generated loads: with --fairness 1 its worst rho is at most 5 %
above that of the fairest other policy, or at most 1, and jobs of one device take longer turns than
with max-min-fair; and jobs do not exchange devices without end where a change costs nothing."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ESCTL, ROOT = sys.argv[1], Path(sys.argv[3])
sys.path.insert(0, str(ROOT / "tests/bench/report"))
from robust_loads import FAMILIES  # noqa: E402

SEED = int(os.environ.get("ES_SEED", "20231112"))
LOADS = (("mixed", 1), ("bursty", 10), ("narrow", 10), ("width-1", 1))  # with seconds of a rescale
OTHERS = "max-min-fair,easyscale,srtf,las"
TOLERANCE = 1.05
DEADLINE_S = 120  # a run takes seconds, unless it never ends


def reports(directory, load, cost_s, words):
    trace, cluster, *options = load.write(directory)
    command = [ESCTL, "sim", *words, "--trace", trace, "--cluster", cluster, *options,
               "--rescale-cost", str(cost_s), "--start-cost", "20", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    return json.loads(done.stdout)


class FairEnd(unittest.TestCase):
    def test_worst_ratio_is_within_5_percent_of_the_fairest(self):
        print(f"seed {SEED}: replay with ES_SEED={SEED}", flush=True)
        for family, cost_s in LOADS:
            load = FAMILIES[family](random.Random(f"{family}-{SEED}"), 1)
            with tempfile.TemporaryDirectory() as directory:
                ours = reports(directory, load, cost_s,
                               ["--policy", "elastic-srtf", "--fairness", "1"])
                others = reports(directory, load, cost_s,
                                 ["compare", "--policies", OTHERS])["policies"]
            fairest = min(report["worst_rho"] for report in others)
            turns = next(r["rescales"] for r in others if r["policy"] == "max-min-fair")
            with self.subTest(family=family, cost_s=cost_s, seed=SEED):
                self.assertEqual(ours["unfinished"], 0)
                self.assertLessEqual(ours["worst_rho"], max(1.0, TOLERANCE * fairest))
                if family in ("narrow", "width-1"):
                    self.assertLess(ours["rescales"], turns / 5)

    def test_every_job_ends_where_a_change_costs_nothing(self):
        # Seeds with which two jobs once took two devices from each other for ever.
        for seed in (0, 1):
            load = FAMILIES["fixed"](random.Random(f"fixed-{seed}"), 1)
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as directory:
                ours = reports(directory, load, 0, ["--policy", "elastic-srtf"])
                self.assertEqual(ours["unfinished"], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
