#!/usr/bin/env python3
"""What the devices of a job cost is counted, and a job does not spend more than its budget."""
import signal

import harness
from harness import EXIT_REFUSED
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000


class Budget(harness.EndToEndTest):
    def test_a_job_is_saved_and_paused_when_its_budget_is_used_up_and_goes_on_with_a_higher_one(
            self):
        device = self.fast_class()
        # A device costs 10 in a second, and a job is paused 5 s before its budget is used up.
        options = ["--price", f"{device}=36000"]
        head = self.start_daemon(devices=f"{device}:1", options=options)
        file = self.write_job(job_text(self.word, changes={
            "max_p": 2, "steps": ENDLESS, "resources.budget": 80, **ANY_LENGTH}))
        job = head.submit(file)
        self.assertEqual(head.describe(job)["budget"], 80)
        paused = head.wait_for(job, "is paused and holds nothing", lambda d:
                               d["state"] == "paused" and d["price_per_hour"] == 0)
        self.assertGreater(paused["spent"], 30)
        self.assertIn("a higher budget: its budget of 80 is used up", paused["waiting_for"])
        self.assertIn("is saved and paused: its budget of 80", head.esctl("logs", job).out)
        self.assertIn("esctl budget", head.esctl("explain", job).out)
        self.assertIn(f"{paused['spent']:.2f}", head.esctl("ps", "-o", "wide").out)
        self.assertIn(f"{paused['spent']:.2f} of a budget of 80", head.esctl("describe", job).out)
        # The next head knows it, and lets it spend no more.
        head.running.stop(signal.SIGKILL)
        head = harness.Daemon(self, self.start(*head.running.words))
        again = head.describe(job)
        self.assertEqual((again["state"], again["spent"], again["budget"]),
                         ("paused", paused["spent"], 80))
        self.assertIn("is used up", head.esctl("resume", job, code=EXIT_REFUSED).err)
        self.assertIn("allowed is more", head.esctl("budget", job, "1", code=EXIT_REFUSED).err)
        self.assertEqual(head.json("budget", job, "1e6"), {"job": job, "budget": 1e6})
        head.wait_for_step(job, paused["steps"] + 5)
        running = head.wait_for(job, "its price", lambda d: d["price_per_hour"] == 36000)
        self.assertGreater(running["spent"], paused["spent"])
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(file, taken, device)


if __name__ == "__main__":
    harness.main()
