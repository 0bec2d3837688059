#!/usr/bin/env python3
"""A real head and `esctl sim` make the same decisions about six arrivals (six_arrivals.py).

Each decision follows the end of a job and gives its device to another one, so the order of all
begins and ends shows the decisions one by one. A busy machine does not change it. How long the
jobs take there is printed and not judged; tests/bench/live_and_simulated.py measures it."""
import harness
from six_arrivals import SixArrivals

UNIT_STEPS = 300


class Simulated(SixArrivals):
    def test_six_arrivals_lead_to_the_simulated_decisions(self):
        live, simulated = self.compare(UNIT_STEPS, one_speed=True)
        # Two devices are free for the first two jobs, so both begin at once, in any order.
        both = {"begin a", "begin b"}
        served = [f"{word} {name}" for name in "dcef" for word in ("begin", "end")]
        for seen in (live, simulated):
            seen.remove("end a")  # no job waits any more, so it leads to no decision
            self.assertEqual(set(seen[:2]), both)
            self.assertEqual(seen[2:], ["end b", *served])


if __name__ == "__main__":
    harness.main()
