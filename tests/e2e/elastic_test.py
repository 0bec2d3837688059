#!/usr/bin/env python3
"""Jobs of a daemon grow and shrink while they run. Processes that stay are not restarted."""
import re

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, digests
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000


class Elastic(harness.EndToEndTest):
    def pids(self, details):
        return {worker["device"]: worker["pid"] for worker in details["workers"]}

    def settle(self, daemon, job, placement):
        """Waits until the job trains on exactly these devices. Returns its description."""
        step = daemon.describe(job)["steps"]
        details = daemon.wait_for(
            job, f"on {placement}",
            lambda d: d["placement"] == placement and d["state"] == "running"
            and d["steps"] > step
            # A worker reports its process id with its first step.
            and all(pid > 0 for pid in self.pids(d).values()))
        self.assertEqual(len(details["workers"]), len(self.pids(details)))
        # The ranks of the workers are [0, max_p), cut into contiguous ranges.
        ranges = sorted((w["rank_begin"], w["rank_end"]) for w in details["workers"])
        self.assertEqual([0] + [end for _, end in ranges],
                         [begin for begin, _ in ranges] + [details["max_p"]])
        return details

    def test_scaling_out_and_in_keeps_processes_and_bits(self):
        fast, other = self.fast_class(), self.other_class()
        # The decisions must not depend on measured speeds: the job takes all five devices.
        job_file = self.write_job(
            job_text(self.word, changes={"max_p": 5, "steps": ENDLESS, "resources.min_devices": 5,
                                         **ANY_LENGTH}))
        daemon = self.start_daemon(devices="+".join(sorted([f"{fast}:3", f"{other}:2"])))
        job = daemon.submit(job_file)
        placements = [f"{fast}:1", f"{fast}:3", "+".join(sorted([f"{fast}:2", f"{other}:2"])),
                      f"{fast}:2", f"{other}:1", f"{fast}:3"]
        before = {}
        for placement in placements:
            answer = daemon.json("scale", job, placement)
            self.assertEqual(answer, {"job": job, "devices": placement})
            now = self.pids(self.settle(daemon, job, placement))
            for device in set(before) & set(now):
                self.assertEqual(before[device], now[device], f"{device} at {placement}")
            for name in (fast, other):  # As many processes as possible stay.
                was, is_now = ({d for d in pids if d.startswith(name)} for pids in (before, now))
                self.assertEqual(len(was & is_now), min(len(was), len(is_now)), placement)
            self.assertTrue(set(now.values()) <= set(harness.command_lines()))
            before = now
        daemon.esctl("scale", job, "auto")
        if other == "cpu-scalar":
            # These devices are much slower. If they make the job slower, it continues without them.
            step = daemon.describe(job)["steps"]
            daemon.wait_for(job, "trains on by itself", lambda d: d["steps"] > step + 20
                            and d["placement"].startswith(f"{fast}:3"))
        else:
            self.settle(daemon, job, "+".join(sorted([f"{fast}:3", f"{other}:2"])))
        taken = daemon.json("checkpoint", job)
        daemon.esctl("cancel", job)
        end = daemon.describe(job)
        run_through = [stage["placement"] for stage in end["stages"]]
        for placement in placements:
            self.assertIn(placement, run_through)
        self.assertEqual(sum(stage["steps"] for stage in end["stages"]), end["steps"])
        self.assert_bits_of_fixed_run(job_file, taken, fast)
        self.assert_all_free(daemon)
        daemon.stop()

    def assert_all_free(self, daemon):
        """A short time later: a device is free when the worker of the ended job has ended."""
        harness.wait_until("all devices are free", lambda: all(
            d["job"] is None for node in daemon.json("nodes")["nodes"] for d in node["devices"]))

    def test_two_jobs_share_the_devices_and_keep_their_bits(self):
        fast = self.fast_class()
        first_file = self.write_job(job_text(self.word, changes={"steps": 1500}), "first.toml")
        second_file = self.write_job(
            job_text(self.word, "resnet18", {"steps": 60, "resources.min_devices": 1}),
            "second.toml")
        references = [digests(self.run_job(f, "--devices", f"{fast}:1"))
                      for f in (first_file, second_file)]
        daemon = self.start_daemon(devices=f"{fast}:4")
        jobs = [daemon.submit(first_file), daemon.submit(second_file)]
        listed = daemon.json("ps")["jobs"]
        self.assertEqual([job["job"] for job in listed], jobs)
        ends = [daemon.wait_for_state(job, "finished") for job in jobs]
        self.assertEqual([digests(end) for end in ends], references)
        self.assert_all_free(daemon)
        daemon.stop()

    def test_a_demand_that_the_cluster_cannot_meet_disturbs_no_job(self):
        fast = self.fast_class()
        daemon = self.start_daemon(devices=f"{fast}:3")
        job_file = self.write_job(job_text(self.word, changes={"steps": ENDLESS}))
        job = daemon.submit(job_file)
        daemon.esctl("scale", job, f"{fast}:2")
        before = self.settle(daemon, job, f"{fast}:2")
        too_many = daemon.esctl("submit", job_file, "--stages", f"{fast}:4@10", code=EXIT_REFUSED)
        self.assertIn(f"stages: needs {fast}:4, the cluster has {fast}:3", too_many.err)
        hungry = self.write_job(
            job_text(self.word, changes={"resources.min_devices": 4}), "hungry.toml")
        ended = daemon.esctl("submit", hungry, code=EXIT_REFUSED)
        self.assertIn("min_devices", ended.err)
        scaled = daemon.esctl("scale", job, f"{fast}:4", code=EXIT_REFUSED)
        self.assertIn(f"needs {fast}:4, the cluster has {fast}:3", scaled.err)
        daemon.esctl("scale", job, f"{fast}:5", code=EXIT_REFUSED)  # More than the number of ESTs.
        daemon.esctl("scale", job, f"{fast}", code=EXIT_USAGE)
        after = self.settle(daemon, job, f"{fast}:2")
        self.assertEqual(self.pids(before), self.pids(after))
        self.assertEqual([j["job"] for j in daemon.json("ps")["jobs"]], [job])
        daemon.esctl("cancel", job)
        self.assert_all_free(daemon)
        daemon.stop()

    def test_what_the_commands_show(self):
        fast = self.fast_class()
        daemon = self.start_daemon("n1", devices=f"{fast}:3")
        job_file = self.write_job(job_text(self.word, changes={"steps": ENDLESS}))
        job = daemon.submit(job_file, "--stages", f"{fast}:2@{ENDLESS}")
        self.assertRegex(job, rf"^small_cnn-{self.word}-1-[a-z2-9]{{8}}$")
        details = self.settle(daemon, job, f"{fast}:2")
        self.assertEqual((details["job"], details["level"], details["max_p"],
                          details["steps_total"]), (job, "D2", 4, ENDLESS))
        self.assertIn(f'name = "small_cnn-{self.word}"', details["spec_toml"])
        self.assertEqual({w["node"] for w in details["workers"]}, {"n1"})
        scaled = daemon.esctl("scale", job, f"{fast}:1", code=EXIT_REFUSED)
        self.assertIn("fixed stages", scaled.err)
        node, = daemon.json("nodes")["nodes"]
        self.assertEqual((node["name"], node["alive"]), ("n1", True))
        self.assertEqual([d["type"] for d in node["devices"]], [fast] * 3)
        self.assertEqual(sorted(str(d["job"]) for d in node["devices"]), ["None", job, job])
        self.assertRegex(daemon.esctl("ps").out, rf"{job} +running +\d+/{ENDLESS} ")
        harness.wait_until("the node has tried the directory of the checkpoints", lambda: re.search(
            rf"n1 +alive +{fast} +3 +2 +shared\n", daemon.esctl("nodes").out),
            state=lambda: daemon.esctl("nodes").out)
        self.assertRegex(daemon.esctl("describe", job).out, rf"devices +{fast}:2\n")
        self.assertRegex(daemon.esctl("logs", job).out, r"(?m)Z info    job is running$")

        following = self.start_esctl("logs", "-f", job, "--head", daemon.endpoint)
        following.wait_for_line("job is running", stream="out")
        self.assertEqual(daemon.json("cancel", job), {"job": job, "state": "cancelled"})
        followed = following.wait()
        self.assertEqual(followed.code, 0, str(followed))
        self.assertIn("cancelled", followed.out)
        for words in (["cancel", job], ["scale", job, f"{fast}:1"], ["checkpoint", job]):
            ended = daemon.esctl(*words, code=EXIT_REFUSED)
            self.assertIn("the job has ended", ended.err)
        self.assertEqual(daemon.describe(job)["state"], "cancelled")
        self.assert_all_free(daemon)
        daemon.stop()

    def test_an_unknown_job_is_not_found(self):
        daemon = self.start_daemon(devices=f"{self.fast_class()}:1")
        for words in (["describe", "nobody-7"], ["scale", "nobody-7", "cpu-avx2:1"],
                      ["cancel", "nobody-7"], ["checkpoint", "nobody-7"], ["logs", "nobody-7"],
                      ["inspect", "nobody-7"]):
            ended = daemon.esctl(*words, code=EXIT_NOT_FOUND)
            self.assertIn('"nobody-7"', ended.err)
            self.assertEqual(len(ended.err.splitlines()), 1, ended.err)
        error = daemon.esctl("describe", "nobody-7", "--json", code=EXIT_NOT_FOUND).json
        self.assertEqual(error["kind"], "not_found")
        daemon.stop()
        ended = daemon.esctl("ps", code=EXIT_NOT_FOUND)
        self.assertIn(f"no easyscaled answers at {daemon.endpoint}", ended.err)


if __name__ == "__main__":
    harness.main()
