#!/usr/bin/env python3
"""A job gives up all devices and gets devices again: on request, and because its node is about to
end."""
import signal

import harness
from harness import EXIT_REFUSED
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
MIDDLE = 150


class Pause(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))

    def workers(self):
        return [pid for pid, line in harness.command_lines().items()
                if str(self.directory) in line and " worker " in line]

    def assert_free(self, daemon):
        for node in daemon.json("nodes")["nodes"]:
            self.assertEqual({d["job"] for d in node["devices"]}, {None})

    def assert_continues(self, daemon, job, steps):
        """It makes further steps, with the bits of a job that was not paused."""
        daemon.wait_for_step(job, steps + 50)
        taken = daemon.json("checkpoint", job)
        daemon.esctl("cancel", job)
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def test_a_paused_job_holds_nothing_and_continues_with_the_same_bits(self):
        daemon = self.start_daemon(devices=f"{self.fast}:2")
        job = daemon.submit(self.job_file)
        daemon.wait_for_step(job, MIDDLE)
        self.assertEqual(daemon.json("pause", job), {"job": job, "state": "paused"})
        paused = daemon.describe(job)
        self.assertEqual((paused["state"], paused["workers"]), ("paused", []))
        self.assertTrue(paused["checkpoint"].startswith(str(self.directory / "head/state")), paused)
        self.assertEqual(self.workers(), [])
        self.assert_free(daemon)
        self.assertIn("paused", daemon.esctl("pause", job, code=EXIT_REFUSED).err)
        self.assertIn("paused", daemon.esctl("checkpoint", job, code=EXIT_REFUSED).err)
        # Others may use its devices.
        other = self.write_job(job_text(self.word, changes={"steps": 5}), "other.toml")
        daemon.wait_for_state(daemon.submit(other), "finished")
        self.assertEqual(daemon.describe(job)["steps"], paused["steps"])
        self.assertEqual(daemon.json("resume", job), {"job": job, "state": "queued"})
        self.assertIn("not paused", daemon.esctl("resume", job, code=EXIT_REFUSED).err)
        self.assert_continues(daemon, job, paused["steps"])
        daemon.stop()

    def test_a_paused_job_is_still_paused_after_a_restart_of_the_head(self):
        daemon = self.start_daemon(devices=f"{self.fast}:1")
        job = daemon.submit(self.job_file)
        daemon.wait_for_step(job, MIDDLE)
        daemon.esctl("pause", job)
        before = daemon.describe(job)
        daemon.running.stop(signal.SIGKILL)
        daemon = harness.Daemon(self, self.start(*daemon.running.words))
        after = daemon.describe(job)
        self.assertEqual({k: after[k] for k in ("state", "steps", "checkpoint", "params_digest")},
                         {k: before[k] for k in ("state", "steps", "checkpoint", "params_digest")})
        daemon.esctl("resume", job)
        self.assert_continues(daemon, job, before["steps"])
        daemon.stop()

    def test_a_paused_job_can_be_cancelled(self):
        daemon = self.start_daemon(devices=f"{self.fast}:1")
        job = daemon.submit(self.job_file)
        daemon.esctl("pause", job)
        daemon.esctl("cancel", job)
        self.assertEqual(daemon.describe(job)["state"], "cancelled")
        self.assertIn("has ended", daemon.esctl("resume", job, code=EXIT_REFUSED).err)
        daemon.stop()


if __name__ == "__main__":
    harness.main()
