#!/usr/bin/env python3
"""How far the completion times of six jobs on a real head are from those of `esctl sim`.

  live_and_simulated.py ESCTL EASYSCALED SOURCE_ROOT

The simulator gets the times of submission, the duration of a step of each job and the cost of a
start as measured in the same run. Needs two idle cores. Prints the difference of each job, and the
largest one of each round."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from six_arrivals import SixArrivals  # noqa: E402

UNIT_STEPS = 100


class LiveAndSimulated(SixArrivals):
    def test_completion_times(self):
        self.compare(UNIT_STEPS)


if __name__ == "__main__":
    harness.main()
