"""Six jobs arrive at a real head with two devices, and in `esctl sim` with what was measured.

Two long jobs take the devices. Four short ones arrive while these train, and wait until the second
one ends; so the policy decides in which order they are served. No job may be suspended, so no
decision weighs seconds against the cost of a suspension, and the second job is as long as all
submissions together on a machine of any speed.
"""
import csv
import time

import harness
from jobs import ANY_LENGTH, job_text

# Name and length in units, in the order of their arrivals.
LENGTHS = {"a": 60, "b": 30, "f": 6, "c": 2, "e": 3, "d": 1}


class SixArrivals(harness.EndToEndTest):
    def serve(self, unit_steps):
        """For each job: the times of its submission, of its first step and of its end, its number
        of steps, and the mean duration of a step. Seconds since the first submission."""
        daemon = self.start_daemon(devices=f"{self.fast_class()}:2")
        seen, ids, began = {}, {}, time.monotonic()
        for name, length in LENGTHS.items():
            spec = {"max_p": 1, "steps": length * unit_steps, "resources.suspendable": False,
                    **ANY_LENGTH}
            file = self.write_job(job_text(self.word + name, changes=spec), f"{name}.toml")
            seen[name] = {"submit": time.monotonic() - began, "steps": spec["steps"]}
            ids[daemon.submit(file)] = name
            if name == "b":  # both train before the others arrive
                harness.wait_until("two jobs train", lambda: self.look(daemon, ids, seen, began) and
                                   all("start" in job for job in seen.values()))
        harness.wait_until("all jobs end", lambda: self.look(daemon, ids, seen, began) and
                           all("end" in job for job in seen.values()),
                           deadline_s=10 * harness.DEADLINE_S)
        for job, name in ids.items():
            stages = daemon.describe(job)["stages"]
            self.assertEqual(len(stages), 1, stages)
            seen[name]["step_s"] = stages[0]["seconds"] / seen[name]["steps"]
        daemon.stop()
        return seen

    def look(self, daemon, ids, seen, began):
        now = time.monotonic() - began
        for job in daemon.json("ps")["jobs"]:
            times = seen[ids[job["job"]]]
            self.assertNotIn(job["state"], ("failed", "cancelled"), job)
            if job["steps"] > 0:
                times.setdefault("start", now)
            if job["state"] == "finished":
                times.setdefault("end", now)
        return True

    def simulate(self, seen):
        """The same jobs in esctl sim: the rows of its jobs.csv by name. The cost of a start is the
        median of those that were seen, from the moment at which a device was free."""
        free = {"a": seen["a"]["submit"], "b": seen["b"]["submit"]}
        ends = sorted(job["end"] for job in seen.values())
        for name in sorted(seen, key=lambda n: seen[n]["start"])[2:]:
            free[name] = ends.pop(0)
        starts = sorted(max(0.0, seen[name]["start"] - free[name]) for name in seen)
        trace, steps = self.directory / "trace.csv", self.directory / "steptimes.csv"
        with open(trace, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow("job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type,"
                         "suspendable".split(","))
            for name, job in seen.items():
                out.writerow([name, job["submit"], name, 1, 1, job["steps"], 1, "gpu", 0])
        steps.write_text("model,gpu_type,seconds_per_local_step\n" + "".join(
            f"{name},gpu,{job['step_s']!r}\n" for name, job in seen.items()), encoding="utf-8")
        out = self.directory / "sim"
        self.esctl("sim", "--trace", trace, "--steptimes", steps, "--cluster", "gpu=2",
                   "--start-cost", starts[len(starts) // 2], "--out", out)
        with open(out / "jobs.csv", newline="", encoding="utf-8") as file:
            return {row["job_id"]: row for row in csv.DictReader(file)}

    def compare(self, unit_steps):
        """Prints what each job took, live and simulated. Returns the two orders of service, and the
        largest difference of two completion times as a part of the simulated one."""
        seen = self.serve(unit_steps)
        rows = self.simulate(seen)
        worst = 0.0
        for name, job in seen.items():
            jct, simulated = job["end"] - job["submit"], float(rows[name]["jct_s"])
            worst = max(worst, abs(jct / simulated - 1))
            print(f"{name}: {job['steps']} steps of {1e3 * job['step_s']:.2f} ms, completed in "
                  f"{jct:.2f} s, simulated {simulated:.2f} s, {jct / simulated - 1:+.1%}",
                  flush=True)
        print(f"largest difference: {worst:.1%}", flush=True)
        return (sorted(seen, key=lambda name: seen[name]["start"]),
                sorted(rows, key=lambda name: float(rows[name]["first_step_s"])), worst)
