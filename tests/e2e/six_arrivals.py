"""Six jobs arrive at a real head with two devices, and in `esctl sim` with what was measured.

Two long jobs take the devices. Four short ones arrive while these train, and wait until the second
one ends; so the policy decides in which order they are served. The order does not depend on the
speed of the machine: no job may be suspended, so nothing is weighed against the cost of that; with
fairness 0 it does not count how long a job has waited; the first job is longer than all others
together, so none of them has to be early for the end of all; and the second one is longer than all
submissions together. The policy compares the times of two jobs in steps of 3 to 6 percent, and adds
at least a second for a start, so a unit is not much shorter than that. All times are those in the logs of the head.
"""
import csv
import re
import statistics
from datetime import datetime

import harness
from jobs import ANY_LENGTH, job_text

# Name and length in units, in the order of their arrivals.
LENGTHS = {"a": 60, "b": 30, "f": 6, "c": 2, "e": 3, "d": 1}
LOG_LINE = re.compile(r"^(\S+)Z \S* *job is (\w+)$", re.MULTILINE)


def events(jobs, begin, end):
    """The order in which jobs begin and end, as words like "begin a". Each decision of the policy
    gives a job the device of the one that has just ended, so this order shows all of them."""
    moments = [(float(job[begin]), f"begin {name}") for name, job in jobs.items()]
    moments += [(float(job[end]), f"end {name}") for name, job in jobs.items()]
    return [word for _, word in sorted(moments)]


class SixArrivals(harness.EndToEndTest):
    def serve(self, unit_steps):
        """For each job the seconds, since an origin of all jobs, of its submission, of the moment
        at which it was given a device, of its first step and of its end; its number of steps, and
        the mean seconds of a step."""
        daemon = self.start_daemon(devices=f"{self.fast_class()}:2", options=["--fairness", "0"])
        ids, seen = {}, {}
        for name, length in LENGTHS.items():
            spec = {"max_p": 4, "resources.max_devices": 1, "steps": length * unit_steps,
                    "resources.suspendable": False, **ANY_LENGTH}
            file = self.write_job(job_text(self.word + name, changes=spec), f"{name}.toml")
            ids[name] = daemon.submit(file)
            if name == "b":  # both train before the others arrive
                for first in "ab":
                    daemon.wait_for_step(ids[first], 1)
        harness.wait_until("all jobs end", lambda: all(
            job["state"] == "finished" for job in daemon.json("ps")["jobs"]),
            deadline_s=10 * harness.DEADLINE_S)
        for name, job in ids.items():
            details = daemon.describe(job)
            self.assertEqual(len(details["stages"]), 1, details["stages"])
            at = {state: datetime.fromisoformat(time).timestamp() for time, state in
                  LOG_LINE.findall(daemon.esctl("logs", job).out)}
            seen[name] = {
                "submit": details["submitted_unix_ms"] / 1e3, "given": at["starting"],
                "start": at["running"], "end": at["finished"], "steps": details["steps"],
                "step_s": details["stages"][0]["seconds"] / details["steps"]}
        daemon.stop()
        origin = seen["a"]["submit"]
        for job in seen.values():
            for moment in ("submit", "given", "start", "end"):
                job[moment] -= origin
        return seen

    def simulate(self, seen):
        """The same jobs in esctl sim: the rows of its jobs.csv by name. The cost of a start is the
        median of those that were measured, from the moment at which the device was free: that of
        the submission, or the end of the job before."""
        order = sorted(seen, key=lambda name: seen[name]["given"])
        free = [seen[name]["submit"] for name in order[:2]]
        free += sorted(job["end"] for job in seen.values())[:len(order) - 2]
        starts = sorted(seen[name]["start"] - at for name, at in zip(order, free))
        trace, steps = self.directory / "trace.csv", self.directory / "steptimes.csv"
        with open(trace, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow("job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type,"
                         "suspendable".split(","))
            for name, job in seen.items():
                out.writerow([name, max(0.0, job["submit"]), name, 1, 1, job["steps"], 1, "gpu", 0])
        steps.write_text("model,gpu_type,seconds_per_local_step\n" + "".join(
            f"{name},gpu,{job['step_s']!r}\n" for name, job in seen.items()), encoding="utf-8")
        out = self.directory / "sim"
        self.esctl("sim", "--trace", trace, "--steptimes", steps, "--cluster", "gpu=2",
                   "--fairness", 0, "--start-cost", starts[len(starts) // 2], "--out", out)
        with open(out / "jobs.csv", newline="", encoding="utf-8") as file:
            return {row["job_id"]: row for row in csv.DictReader(file)}

    def compare(self, unit_steps, one_speed=False):
        """Prints what each job took, live and simulated. Returns the two lists of events().

        one_speed: in the simulation all jobs, which have the same model, make steps of the same
        length. On a busy machine one may have been slowed so much that a longer one would end
        before it."""
        seen = self.serve(unit_steps)
        if one_speed:
            median = statistics.median(job["step_s"] for job in seen.values())
            seen = {name: {**job, "step_s": median} for name, job in seen.items()}
        rows = self.simulate(seen)
        worst = 0.0
        for name, job in seen.items():
            jct, simulated = job["end"] - job["submit"], float(rows[name]["jct_s"])
            worst = max(worst, abs(jct / simulated - 1))
            print(f"{name}: {job['steps']} steps of {1e3 * job['step_s']:.2f} ms, completed in "
                  f"{jct:.2f} s, simulated {simulated:.2f} s, {jct / simulated - 1:+.1%}",
                  flush=True)
        print(f"largest difference: {worst:.1%}", flush=True)
        return events(seen, "start", "end"), events(rows, "first_step_s", "end_s")
