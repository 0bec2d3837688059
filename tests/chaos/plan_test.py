#!/usr/bin/env python3
"""The pure parts of the chaos command."""
import re
import sys
import unittest

import plan
import points
import soak_plan
from compare import Outcome, differences, read_ledger
from plan import KINDS, device_sets


class Plans(unittest.TestCase):
    def test_a_seed_replays_its_faults(self):
        self.assertEqual(plan.plan(7, 50, KINDS), plan.plan(7, 50, KINDS))
        self.assertNotEqual(plan.plan(7, 50, KINDS), plan.plan(8, 50, KINDS))

    def test_a_longer_run_begins_like_a_shorter_one(self):
        self.assertEqual(plan.plan(3, 60, KINDS)[:20], plan.plan(3, 20, KINDS))

    def test_only_the_kinds_that_were_asked_for(self):
        faults = plan.plan(1, 200, ["kill", "head"])
        self.assertEqual({fault.kind for fault in faults}, {"kill", "head"})
        self.assertEqual({fault.kind for fault in plan.plan(1, 200, KINDS)}, set(KINDS))

    def test_progress_is_waited_for_often_enough(self):
        row = 0
        for fault in plan.plan(5, 1000, KINDS):
            row = row + 1 if fault.wait_s is not None else 0
            self.assertLessEqual(row, plan.IN_RECOVERY_RUN_MAX)

    def test_somebody_is_always_chosen_and_somebody_spared(self):
        for fault in plan.plan(9, 300, ["kill"]):
            for count in range(1, 6):
                chosen = fault.pick_some(list(range(count)))
                self.assertTrue(1 <= len(chosen) <= max(1, count - 1), (count, chosen))

    def test_device_sets(self):
        sets = device_sets({"n": "a:1+s:1", "o": "a:1"}, workers_max=2)
        self.assertEqual(sets, ["s:1", "a:1", "a:1+s:1", "a:2"])


class Soaks(unittest.TestCase):
    FIXED = {"cnn": ("aa", "bb")}
    GOOD = {"state": "finished", "name": "cnn", "steps": 9, "params_digest": "aa",
            "state_digest": "bb"}

    def wrong(self, kinds=None, cancelled=(), **changes):
        kinds = {"cnn-1": "cnn"} if kinds is None else kinds
        return soak_plan.wrong({"cnn-1": {**self.GOOD, **changes}}, kinds, cancelled, self.FIXED)

    def test_all_that_was_asked_for_comes_in_its_time(self):
        events = soak_plan.plan(3, 100, 20, 30, ["a", "b"])
        self.assertEqual(events, soak_plan.plan(3, 100, 20, 30, ["a", "b"]))
        self.assertEqual([at for at, _ in events], sorted(at for at, _ in events))
        arrivals = [event for _, event in events if isinstance(event, soak_plan.Arrival)]
        self.assertEqual((len(arrivals), len(events)), (20, 50))
        self.assertTrue(all(0 <= at <= 100 for at, _ in events))

    def test_a_job_with_the_bits_of_fixed_devices_is_right(self):
        self.assertEqual(self.wrong(), [])
        self.assertEqual(self.wrong(kinds={}), [])  # Its answer was lost.

    def test_one_other_digest_is_wrong(self):
        for digest in ("params_digest", "state_digest"):
            self.assertRegex(" ".join(self.wrong(**{digest: "ab"})), "cnn-1: digests .*ab")

    def test_what_is_not_over_lost_or_cancelled_by_itself_is_wrong(self):
        for state in ("queued", "running", "paused", "failed"):
            self.assertRegex(" ".join(self.wrong(state=state)), f"cnn-1 is {state} at step 9")
        self.assertEqual(len(self.wrong(state="cancelled")), 1)
        self.assertEqual(self.wrong(state="cancelled", cancelled={"cnn-1"}), [])
        self.assertRegex(" ".join(self.wrong(kinds={"cnn-1": "cnn", "cnn-2": "cnn"})),
                         "cnn-2 was accepted and is not known")


class Points(unittest.TestCase):
    def test_every_point_is_in_the_programs(self):
        """A point that the programs do not contain would never be reached."""
        texts = "".join(path.read_text() for folder in ("actors", "store", "proto")
                        for path in (source_root / folder).rglob("*.cc"))
        for name in points.POINTS:
            moment, _, message = name.partition(".")
            wanted = f'return "{message}"' if moment in ("send", "sent", "got") else (
                f'kill_point("{name}")')
            self.assertIn(wanted, texts, name)

    def test_every_named_place_of_the_programs_is_a_point(self):
        texts = "".join(path.read_text() for folder in ("actors", "store", "proto")
                        for path in (source_root / folder).rglob("*.cc"))
        named = set(re.findall(r'kill_point\("([^"]+)"\)', texts))
        self.assertEqual(named - set(points.POINTS), points.ELSEWHERE)


class Comparisons(unittest.TestCase):
    LINES = [{"version": 1, "losses": [1.5]}, {"version": 2, "losses": [1.25]}]

    def outcome(self, **changes):
        return Outcome(**{"job": "j", "params_digest": "p", "state_digest": "s",
                          "lines": self.LINES, **changes})

    def test_a_ledger_file_is_read(self):
        digest = "00112233445566778899aabbccddeeff"
        text = "".join(f"{line} #0123456789abcdef\n" for line in (
            "easyscale-ledger 3", "job j-1", "toml steps = 2", "losses 2",
            f"1 {digest} 3f800000 40000000", "2 - 3f000000 3e800000", "end 2"))
        self.assertEqual(read_ledger(text), [(1, digest, ["3f800000", "40000000"]),
                                             (2, "-", ["3f000000", "3e800000"])])

    def test_the_same(self):
        self.assertEqual(differences(self.outcome(), self.outcome(job="k")), [])

    def test_a_digest(self):
        found = differences(self.outcome(), self.outcome(state_digest="t"))
        self.assertEqual(found, ["j: state_digest is t, undisturbed s"])

    def test_one_loss(self):
        lines = [self.LINES[0], {"version": 2, "losses": [1.2500001]}]
        self.assertEqual(len(differences(self.outcome(), self.outcome(lines=lines))), 1)

    def test_a_missing_step(self):
        self.assertEqual(len(differences(self.outcome(), self.outcome(lines=self.LINES[:1]))), 1)


if __name__ == "__main__":
    from pathlib import Path
    source_root = Path(sys.argv.pop(1))
    unittest.main(verbosity=2)
