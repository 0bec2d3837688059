#!/usr/bin/env python3
"""Serving jobs take devices and give them back. Training continues beside them with the same
bits."""
import re
import signal
import statistics

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
# The number of steps from the one that the head knows when it calls devices back to the last one on
# these devices: the step that is being computed, one before it whose report is on its way, and one
# after it whose sums had begun before the call arrived.
STEPS_OF_A_CHANGE = 3


def changes(follower):
    """[(step when a change of devices began, step with which the job continued)] so far."""
    seen = [(int(step), state) for step, state in
            re.findall(r"^step (\d+)/.*  (\w+)$", follower.err, re.MULTILINE)]
    begun, found = None, []
    for step, state in seen:
        if state == "rescaling" and begun is None:
            begun = step
        elif state == "running" and begun is not None:
            found.append((begun, step))
            begun = None
    return found


class Claim(harness.EndToEndTest):
    def owners(self, daemon):
        """The owner of each device: {"fast:0": "job-1", ...}; None if it is free."""
        return {f"{d['type']}:{d['index']}": d["job"]
                for node in daemon.json("nodes")["nodes"] for d in node["devices"]}

    def wait_for_owners(self, daemon, what, holds):
        def probe():
            owners = self.owners(daemon)
            return owners if holds(owners) else None
        return harness.wait_until(what, probe)

    def test_a_claim_takes_two_devices_of_three_jobs_and_gives_them_back(self):
        fast, other = self.fast_class(), self.other_class()
        # A job can use at most two devices, so three jobs share six with every policy. Steps take
        # longer than a message from the head to a worker.
        spec = {"max_p": 2, "steps": ENDLESS, "batch_size": 24, "data.height": 24,
                "data.width": 24, **ANY_LENGTH}
        files = [self.write_job(job_text(f"{self.word}{i}", changes={**spec, "seed": 20 + i}),
                                f"job{i}.toml") for i in range(3)]
        daemon = self.start_daemon(devices="+".join(sorted([f"{fast}:4", f"{other}:2"])))
        followers = [self.start_esctl("submit", file, "--follow", "--head", daemon.endpoint)
                     for file in files]
        jobs = [f.wait_for_line(r"^job (\S+)$").group(1) for f in followers]

        def all_train(owners):
            return set(owners.values()) == set(jobs)
        self.wait_for_owners(daemon, "three jobs have all six devices", all_train)
        for job in jobs:
            daemon.wait_for_step(job, 5)
        before = sum(len(changes(f)) for f in followers)

        answer = daemon.json("claim", "--type", fast, "--count", 2, "--name", "serving")
        self.assertEqual(answer, {"claim": "serving", "type": fast, "count": 2})

        def is_claimed(owners):
            claimed = [d for d, owner in owners.items() if owner == "claim:serving"]
            return len(claimed) == 2 and all(d.startswith(fast) for d in claimed)
        self.wait_for_owners(daemon, "the claim has two devices", is_claimed)
        self.assertEqual(daemon.json("claims")["claims"],
                         [{"claim": "serving", "type": fast, "count": 2, "devices": 2,
                           "from": None, "until": None, "queue": None, "begun": True,
                           "waits_for": []}])
        harness.wait_until("a job has continued with fewer devices",
                           lambda: sum(len(changes(f)) for f in followers) > before)
        for job in jobs:  # Jobs that keep a device continue, and no job fails.
            self.assertNotIn(daemon.describe(job)["state"], ("failed", "cancelled"))

        daemon.esctl("release", "serving")
        self.wait_for_owners(daemon, "jobs have all six devices again", all_train)
        ends = []
        for job, file in zip(jobs, files):
            step = daemon.describe(job)["steps"]
            daemon.wait_for(job, "continues", lambda d, step=step: d["steps"] > step + 3)
            # A scale-in at a step boundary loses no step.
            self.assertNotRegex(daemon.esctl("logs", job).out, "steps to compute again")
            ends.append((file, daemon.json("checkpoint", job)))
            daemon.esctl("cancel", job)
        for follower in followers:
            follower.wait()
        # For all of them together: a busy machine may deliver one call late, while the job steps
        # on.
        steps = [went_on - begun for f in followers for begun, went_on in changes(f)]
        self.assertLessEqual(statistics.median_low(steps), STEPS_OF_A_CHANGE, steps)
        self.assertEqual(daemon.json("claims")["claims"], [])
        for file, taken in ends:
            self.assert_bits_of_fixed_run(file, taken, fast)
        daemon.stop()

    def test_what_cannot_be_claimed_is_refused_and_changes_nothing(self):
        fast = self.fast_class()
        daemon = self.start_daemon(devices=f"{fast}:3", options=["--claim-quota", f"{fast}:2"])

        def claim(name, count, code, kind=fast):
            return daemon.esctl("claim", "--type", kind, "--count", count, "--name", name, code=code)
        self.assertIn("the cluster has 3", claim("a", 4, EXIT_REFUSED).err)
        self.assertIn("the quota of claims is 2", claim("a", 3, EXIT_REFUSED).err)
        self.assertIn("the cluster has 0", claim("a", 1, EXIT_REFUSED, kind="gpu").err)
        self.assertIn("count = 0", claim("a", 0, EXIT_USAGE).err)
        self.assertIn("claim name", claim("a b", 1, EXIT_USAGE).err)
        claim("a", 1, 0)
        self.assertIn("of this name already", claim("a", 1, EXIT_REFUSED).err)
        self.assertIn("other claims have 1", claim("b", 2, EXIT_REFUSED).err)
        self.assertIn("no such claim", daemon.esctl("release", "b", code=EXIT_NOT_FOUND).err)
        self.assertEqual(sorted(map(str, self.owners(daemon).values())),
                         ["None", "None", "claim:a"])
        daemon.stop()

    def test_a_claim_grows_and_shrinks(self):
        fast = self.fast_class()
        daemon = self.start_daemon(devices=f"{fast}:3", options=["--claim-quota", f"{fast}:2"])

        def resize(count, code=0):
            return daemon.esctl("claim", "--name", "web", "--count", count, code=code)

        def is_listed(count):
            self.assertEqual(daemon.json("claims")["claims"],
                             [{"claim": "web", "type": fast, "count": count, "devices": count,
                               "from": None, "until": None, "queue": None, "begun": True,
                               "waits_for": []}])
        self.assertIn("no such claim", resize(1, EXIT_NOT_FOUND).err)
        daemon.esctl("claim", "--type", fast, "--count", 1, "--name", "web")
        resize(2)
        is_listed(2)
        self.assertIn("the quota of claims is 2", resize(3, EXIT_REFUSED).err)
        is_listed(2)
        resize(1)
        is_listed(1)
        self.assertEqual(sorted(map(str, self.owners(daemon).values())),
                         ["None", "None", "claim:web"])
        # The devices that it takes are in the journal.
        daemon.running.stop(signal.SIGKILL)
        daemon = harness.Daemon(self, self.start(*daemon.running.words))
        self.wait_for_owners(daemon, "the claim is there again",
                             lambda owners: list(owners.values()).count("claim:web") == 1)
        is_listed(1)
        daemon.stop()

    def test_a_claim_outlives_the_head(self):
        fast = self.fast_class()
        daemon = self.start_daemon(devices=f"{fast}:2")
        daemon.esctl("claim", "--type", fast, "--count", 1, "--name", "serving")
        daemon.running.stop(signal.SIGKILL)
        daemon = harness.Daemon(self, self.start(*daemon.running.words))
        self.wait_for_owners(daemon, "the claim is there again",
                             lambda owners: "claim:serving" in owners.values())
        daemon.esctl("release", "serving")
        self.wait_for_owners(daemon, "no job and no claim has a device",
                             lambda owners: set(owners.values()) == {None})
        daemon.stop()


if __name__ == "__main__":
    harness.main()
