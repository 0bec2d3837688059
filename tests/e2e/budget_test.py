#!/usr/bin/env python3
"""What the devices of a job cost is counted, and a job does not spend more than its budget."""
import signal

import harness
from harness import EXIT_REFUSED
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
PRICE = 10  # of a device in a second
SAVING_S = 5  # A job is paused this time before its budget is used up.
BUDGET = PRICE * (SAVING_S + 7)  # The job makes steps in 7 s, in which its process also starts.


class Budget(harness.EndToEndTest):
    def test_a_job_is_saved_and_paused_when_its_budget_is_used_up_and_goes_on_with_a_higher_one(
            self):
        device = self.fast_class()
        options = ["--price", f"{device}={3600 * PRICE}"]
        head = self.start_daemon(devices=f"{device}:1", options=options)
        file = self.write_job(job_text(self.word, changes={
            "max_p": 2, "steps": ENDLESS, "resources.budget": BUDGET, **ANY_LENGTH}))
        job = head.submit(file)
        self.assertEqual(head.describe(job)["budget"], BUDGET)
        paused = head.wait_for(job, "is paused and holds nothing", lambda d:
                               d["state"] == "paused" and d["price_per_hour"] == 0)
        self.assertGreater(paused["spent"], BUDGET - PRICE * (SAVING_S + 1))
        self.assertIn(f"a higher budget: its budget of {BUDGET} is used up", paused["waiting_for"])
        self.assertIn(f"is saved and paused: its budget of {BUDGET}", head.esctl("logs", job).out)
        self.assertIn("esctl budget", head.esctl("explain", job).out)
        self.assertIn(f"{paused['spent']:.2f}", head.esctl("ps", "-o", "wide").out)
        self.assertIn(f"{paused['spent']:.2f} of a budget of {BUDGET}",
                      head.esctl("describe", job).out)
        # The next head knows it, and lets it spend no more.
        head.running.stop(signal.SIGKILL)
        head = harness.Daemon(self, self.start(*head.running.words))
        again = head.describe(job)
        self.assertEqual((again["state"], again["spent"], again["budget"]),
                         ("paused", paused["spent"], BUDGET))
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
