#!/usr/bin/env python3
"""Many clients that ask at the same time get one shared answer, so the memory of the head does not
grow by an answer for each client.

ES_CROWD=JOBS:CLIENTS sets the numbers (docs/reference/testing.md); 1001:200 is a larger run by
hand."""
import os
import re
from pathlib import Path

import harness
from jobs import job_text

JOBS, CLIENTS = (int(n) for n in os.environ.get("ES_CROWD", "400:150").split(":"))
# An answer for each client would take about 2 kB for each job.
GROWTH_MAX_BYTES = JOBS * CLIENTS * 500


class Crowd(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.raw_client = harness.esctl_program.parents[2] / "tests/e2e/raw_client"

    def ask(self, daemon, *words):
        ended = self.start(self.raw_client, daemon.endpoint, "-", *words).wait()
        self.assertEqual(ended.code, 0, str(ended))
        return ended.out

    def memory(self, daemon, what):
        status = Path(f"/proc/{daemon.running.pid}/status").read_text()
        return 1024 * int(re.search(rf"{what}:\s+(\d+)", status).group(1))

    def test_a_crowd_that_lists_the_jobs(self):
        daemon = self.start_daemon(devices=f"{self.fast_class()}:1")
        job = self.write_job(job_text(self.word, changes={"steps": 5}))
        blocker = daemon.submit(self.write_job(job_text(self.word, changes={"steps": 10 ** 6}),
                                               "blocker.toml"))
        daemon.wait_for_step(blocker, 1)
        self.ask(daemon, "many", job, JOBS)
        self.ask(daemon, "crowd", 1)
        before = self.memory(daemon, "VmRSS")
        seconds = float(self.ask(daemon, "crowd", CLIENTS))
        after, peak = self.memory(daemon, "VmRSS"), self.memory(daemon, "VmHWM")
        print(f"{CLIENTS} clients, {JOBS} jobs: {seconds:.2f} s, {before >> 20} MiB before, "
              f"{peak >> 20} at most, {after >> 20} after", flush=True)
        self.assertLess(peak - before, GROWTH_MAX_BYTES)
        self.assertEqual(len(daemon.json("ps")["jobs"]), JOBS + 1)
        daemon.running.process.kill()  # The cancellation of the jobs is not part of the test.
        daemon.running.wait()
        harness.wait_until("no process is left", lambda: not self.left_behind()["processes"])
        for leftover in Path("/dev/shm").glob(f"es.*{self.word}*"):
            leftover.unlink()


if __name__ == "__main__":
    harness.main()
