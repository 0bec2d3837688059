#!/usr/bin/env python3
"""A worker that is slowed down from outside is named, gives ESTs away, and changes no bit."""
import os
import signal
import threading

import harness
from harness import digests
from jobs import ANY_LENGTH, job_text

STEPS = 1_000_000  # More than the test needs; it ends at a checkpoint.


class Hog:
    """Takes 80 % of the time away from a process inside of the `with` statement."""

    def __init__(self, pid):
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.wait(0.01):
            os.kill(self._pid, signal.SIGSTOP)
            self._over.wait(0.04)
            os.kill(self._pid, signal.SIGCONT)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


class Stragglers(harness.EndToEndTest):
    def test_a_hogged_worker_is_named_and_relieved_and_the_bits_are_those_of_a_calm_run(self):
        fast = self.fast_class()
        job = self.write_job(job_text(
            self.word, changes={"max_p": 8, "steps": STEPS, "resources.min_devices": 2,
                                **ANY_LENGTH}))
        daemon = self.start_daemon(devices=f"{fast}:2")
        name = daemon.submit(job)
        details = daemon.wait_for(
            name, "two workers with known speeds",
            lambda d: len(d["workers"]) == 2 and all(
                (w["local_step_seconds"] or 0) > 0 for w in d["workers"]))
        for worker in details["workers"]:
            self.assertEqual(len(worker["est_seconds"]), worker["rank_end"] - worker["rank_begin"])
            self.assertGreater(worker["samples_per_second"], 0)
        victim = details["workers"][0]

        def seen(d):
            same = [w for w in d["workers"] if w["incarnation"] == victim["incarnation"]]
            return same[0] if same else None

        with Hog(victim["pid"]):
            daemon.wait_for(name, f"{victim['device']} is named",
                            lambda d: seen(d) and seen(d)["slowness"] > 1)
            daemon.wait_for(name, f"{victim['device']} gives ESTs away",
                            lambda d: seen(d) and seen(d)["rank_end"] - seen(d)["rank_begin"] < 4)
        taken = daemon.json("checkpoint", name, "--to", self.directory / "checkpoint")
        daemon.esctl("cancel", name)
        version = taken["version"]
        calm = self.run_job(job, "--steps", version, "--stages", f"{fast}:1@{version}")
        self.assertEqual(digests(taken), digests(calm))
        log = daemon.esctl("logs", name).out
        self.assertRegex(log, r"device \S+ is slow: ")
        self.assertIn("moves ESTs", log)
        daemon.stop()


if __name__ == "__main__":
    harness.main()
