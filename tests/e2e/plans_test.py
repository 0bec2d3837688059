#!/usr/bin/env python3
"""esctl plans: how a job could use the devices of a live cluster, and what is known about their
speed."""
import harness
from harness import EXIT_NOT_FOUND
from jobs import ANY_LENGTH, job_text


class Plans(harness.EndToEndTest):
    def measured_plans(self, daemon, job):
        """The plans once the speeds of the running one are measured."""
        def probe():
            plans = daemon.json("plans", job)
            runs = [p for p in plans["plans"] if p["runs"]]
            return plans if runs and runs[0]["measured"] and plans["pace_seconds"] else None
        return harness.wait_until(f"{job}: its speed is measured", probe)

    def test_plans_of_a_running_job_and_of_the_next_one_of_its_model(self):
        fast, other = self.fast_class(), self.other_class()
        daemon = self.start_daemon(devices="+".join(sorted([f"{fast}:2", f"{other}:1"])))
        spec = {"max_p": 4, "steps": 1_000_000, **ANY_LENGTH}
        file = self.write_job(job_text(self.word, changes=spec))
        job = daemon.submit(file)
        plans = self.measured_plans(daemon, job)
        self.assertEqual(plans["job"], job)
        self.assertTrue(plans["complete"])
        for plan in plans["plans"]:
            places = sum(p["devices"] * p["ests_per_device"] for p in plan["parts"])
            self.assertGreaterEqual(places, 4, plan)
            self.assertAlmostEqual(plan["local_steps_per_second"] * plan["seconds_per_step"], 4)
            self.assertGreaterEqual(plan["waste"], -1e-9)
        steps = [plan["seconds_per_step"] for plan in plans["plans"]]
        self.assertEqual(steps, sorted(steps), "the fastest plan comes first")
        self.assertEqual(sum(plan["runs"] for plan in plans["plans"]), 1)
        self.assertIn({fast}, [{p["device_type"] for p in plan["parts"]}
                               for plan in plans["plans"]])
        text = daemon.esctl("plans", job, "--top", 1).out
        self.assertRegex(text, r"(?m)^1 +\S+:\d")
        self.assertIn("runs now", text)
        daemon.esctl("cancel", job)
        daemon.wait_for_state(job, "cancelled")

        # The measured speeds are used for the next job of this model and batch size.
        again = daemon.submit(file)
        measured = {s["device_type"] for s in plans["speeds"] if s["measured"]}
        known = {s["device_type"] for s in daemon.json("plans", again)["speeds"] if s["measured"]}
        self.assertLessEqual(measured, known)
        daemon.esctl("cancel", again)
        self.assertIn("no-such-job", daemon.esctl("plans", "no-such-job", code=EXIT_NOT_FOUND).err)
        daemon.stop()


if __name__ == "__main__":
    harness.main()
