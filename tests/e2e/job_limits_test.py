#!/usr/bin/env python3
"""What a job demands for itself: it is not suspended, and ends when its time is used up."""
import re

import harness
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
LIMIT_S = 6  # The job must make a step in this time, in which its process also starts.


class JobLimits(harness.EndToEndTest):
    def job(self, name, **changes):
        spec = {"max_p": 2, "steps": ENDLESS, **ANY_LENGTH, **changes}
        return self.write_job(job_text(f"{self.word}{name}", changes=spec), f"{name}.toml")

    def test_at_its_limit_a_job_is_saved_and_can_be_continued(self):
        device = self.fast_class()
        head = self.start_daemon(devices=f"{device}:1")
        limited = self.job("limited", **{"resources.max_seconds": LIMIT_S})
        ended = head.submit(limited)
        head.wait_for_state(ended, "timed-out")
        details = head.describe(ended)
        self.assertEqual(details["error"],
                         f"its time limit of {LIMIT_S} s (resources.max_seconds) is used up")
        kept = re.search(r"its newest saved state is kept: version (\d+), (\S+)",
                         head.esctl("logs", ended).out)
        version, path = int(kept.group(1)), kept.group(2)
        self.assertGreater(version, 0)
        self.assertIn(ended, head.esctl("ps", "--state", "timed-out").out)
        text = head.esctl("explain", ended).out
        self.assertIn(f"because its time limit of {LIMIT_S} s", text)
        # The state has the bits of a run that was never interrupted, and goes on.
        self.esctl("checkpoint", "verify", path.rstrip(";"))
        unlimited = self.job("unlimited")
        continued = head.submit(unlimited, "--from", path.rstrip(";"))
        head.wait_for_step(continued, version + 5)
        taken = head.json("checkpoint", continued)
        self.assert_bits_of_fixed_run(unlimited, taken, device)
        head.esctl("cancel", continued)
        head.stop()

    def test_a_job_that_may_not_be_suspended_keeps_its_last_device(self):
        device = self.fast_class()
        head = self.start_daemon(devices=f"{device}:1")
        keeps = head.submit(self.job("keeps", **{"resources.suspendable": False}))
        head.wait_for_step(keeps, 3)
        urgent = head.submit(self.job("urgent", **{"resources.priority": 100}))
        head.wait_for(urgent, "what it waits for", lambda d: d["waiting_for"])
        head.esctl("claim", "--type", device, "--count", "1", "--name", "web")
        step = head.describe(keeps)["steps"]
        head.wait_for_step(keeps, step + 5)
        self.assertEqual(head.json("claims")["claims"][0]["devices"], 0)
        head.esctl("release", "web")
        head.esctl("cancel", keeps)
        head.wait_for_step(urgent, 1)
        head.esctl("cancel", urgent)
        head.stop()

    def test_usage_of_queues_outlives_the_head(self):
        device = self.fast_class()
        path = self.directory / "queues.toml"
        path.write_text("[queue.x]\n[queue.y]\n")
        options = ["--queues", path, "--share-half-life", "0.1"]
        head = self.start_daemon(devices=f"{device}:1", options=options)
        job = head.submit(self.job("x", **{"resources.queue": "x"}))

        def usage():
            return {q["queue"]: q["device_seconds"] for q in head.json("queues")["queues"]}
        used = harness.wait_until("queue x has used something", lambda: usage()["x"] or None)
        self.assertEqual(usage()["y"], 0)
        self.assertIn("queue x has used", head.esctl("queues").out)
        head.esctl("cancel", job)
        head.stop()
        endpoint = f"ipc://{self.directory}/head/head.sock"
        running = self.start(harness.easyscaled_program, "--head", "--state",
                             self.directory / "head" / "state", "--listen", endpoint, "--node",
                             "head", "--devices", f"{device}:1", "--policy", "fifo-gang", *options)
        running.wait_for_line("--share-half-life: policy fifo-gang suspends no running job")
        head = harness.Daemon(self, running)
        self.assertGreater(usage()["x"], used / 4)
        levels = {q["queue"]: q["level"] for q in head.json("queues")["queues"]}
        self.assertLess(levels["y"], levels["x"])
        head.stop()


if __name__ == "__main__":
    harness.main()
