#!/usr/bin/env python3
"""A real head and `esctl sim` serve the same arrivals in the same order.

Six jobs of one model arrive at a head with two devices. The test measures when each of them was
submitted, begins to train and ends, and the speed of a local step. `esctl sim` gets these times of
submission, this speed and the measured time of a start. The order in which jobs begin is a decision
of the policy and must be the same. Their completion times depend on what else the machine does; the
test prints both."""
import csv
import time

import harness
from jobs import ANY_LENGTH, job_text

UNIT_S = 1.5  # a job of length 1 trains for this time
# Name, length in units, and the length that the first job must have trained before it arrives. All
# arrive long before the second one ends.
JOBS = [("a", 30, 0), ("b", 10, 0), ("c", 2, 0.1), ("d", 1, 0.1), ("e", 3, 0.1), ("f", 6, 0.1)]


class Simulated(harness.EndToEndTest):
    def local_step_seconds(self, daemon):
        """Measured by a job of the same model, whose speed later jobs know."""
        spec = {"max_p": 1, "steps": 1_000_000, **ANY_LENGTH}
        job = daemon.submit(self.write_job(job_text(self.word, changes=spec), "first.toml"))

        def probe():
            plans = daemon.json("plans", job)
            measured = [s for s in plans["speeds"] if s["measured"]]
            return plans["pace_seconds"] if measured else None
        seconds = harness.wait_until("the speed is measured", probe)
        daemon.esctl("cancel", job)
        daemon.wait_for_state(job, "cancelled")
        return seconds

    def watch(self, daemon, step_s):
        """Submits the jobs, and returns for each the times of its submission, its first training
        and its end, and its number of steps."""
        seen, waiting, ids = {}, list(JOBS), {}
        began = time.monotonic()

        def submit(name, length):
            steps = max(1, round(length * UNIT_S / step_s))
            spec = {"max_p": 1, "steps": steps, **ANY_LENGTH}
            seen[name] = {"submit": time.monotonic() - began, "steps": steps}
            file = self.write_job(job_text(self.word + name, changes=spec), f"{name}.toml")
            ids[daemon.submit(file)] = name

        def probe():
            while waiting and waiting[0][2] <= progress:
                name, length, _ = waiting.pop(0)
                submit(name, length)
            return True

        def look():
            nonlocal progress
            now = time.monotonic() - began
            for job in daemon.json("ps")["jobs"]:
                name = ids.get(job["job"])
                if name is None:
                    continue
                if job["state"] in ("running", "rescaling", "finished"):
                    seen[name].setdefault("start", now)
                if job["state"] == "finished":
                    seen[name].setdefault("end", now)
                self.assertNotEqual(job["state"], "failed", job)
                if name == "a":
                    progress = job["steps"] * step_s / UNIT_S
            probe()
            return not waiting and all("end" in s for s in seen.values())

        progress = 0.0
        probe()
        harness.wait_until("all jobs end", look, deadline_s=10 * harness.DEADLINE_S)
        return seen

    def simulate(self, seen, step_s, start_s):
        """The same jobs in esctl sim: the rows of its jobs.csv by name."""
        trace, steps = self.directory / "trace.csv", self.directory / "steptimes.csv"
        with open(trace, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow("job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type"
                         .split(","))
            for name, job in seen.items():
                out.writerow([name, job["submit"], "m", 1, 1, job["steps"], 1, "gpu"])
        steps.write_text(f"model,gpu_type,seconds_per_local_step\nm,gpu,{step_s!r}\n")
        out = self.directory / "sim"
        self.esctl("sim", "--trace", trace, "--steptimes", steps, "--cluster", "gpu=2",
                   "--start-cost", start_s, "--scale-cost", 0.01, "--suspend-cost", 3,
                   "--out", out)
        with open(out / "jobs.csv", newline="") as file:
            return {row["job_id"]: row for row in csv.DictReader(file)}

    def test_six_arrivals_are_served_in_the_simulated_order(self):
        daemon = self.start_daemon(devices=f"{self.fast_class()}:2")
        seen = self.watch(daemon, self.local_step_seconds(daemon))
        daemon.stop()
        # What the steps took while the jobs ran, and what a start took: the shortest wait.
        step_s = (sum(job["end"] - job["start"] for job in seen.values()) /
                  sum(job["steps"] for job in seen.values()))
        start_s = min(job["start"] - job["submit"] for job in seen.values())
        rows = self.simulate(seen, step_s, start_s)
        simulated = sorted(rows, key=lambda name: float(rows[name]["first_step_s"]))
        live = sorted(seen, key=lambda name: seen[name]["start"])
        for name, job in seen.items():
            jct, by_sim = job["end"] - job["submit"], float(rows[name]["jct_s"])
            print(f"{name}: {jct:.2f} s, simulated {by_sim:.2f} s, {jct / by_sim - 1:+.1%}",
                  flush=True)
        self.assertEqual(live, ["a", "b", "d", "c", "e", "f"])
        self.assertEqual(simulated, live)
        self.assertEqual({row["rescales"] for row in rows.values()}, {"0"})


if __name__ == "__main__":
    harness.main()
