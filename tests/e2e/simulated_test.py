#!/usr/bin/env python3
"""A real head and `esctl sim` serve six arrivals in the same order (six_arrivals.py).

The order follows from decisions of the policy, and a busy machine does not change it. How long the
jobs take there is printed and not judged; tests/bench/live_and_simulated.py measures it."""
import harness
from six_arrivals import SixArrivals

UNIT_STEPS = 60


class Simulated(SixArrivals):
    def test_six_arrivals_are_served_in_the_simulated_order(self):
        live, simulated = self.compare(UNIT_STEPS, one_speed=True)
        self.assertEqual(set(live[:2]), {"a", "b"})
        self.assertEqual(live[2:], ["d", "c", "e", "f"])
        self.assertEqual(set(simulated[:2]), {"a", "b"})
        self.assertEqual(simulated[2:], live[2:])


if __name__ == "__main__":
    harness.main()
