#!/usr/bin/env python3
"""The head is killed or terminated, and started again: jobs continue, and accepted requests are
kept."""
import os
import signal
import time
from pathlib import Path

import harness
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000


class HeadRestart(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.other = self.other_class()
        self.listen = f"tcp://127.0.0.1:{harness.free_port()}"

    def start_head(self, *options):
        directory = self.directory / "head"
        directory.mkdir(exist_ok=True)
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", self.listen, "--node", "first", "--devices",
                             f"{self.fast}:1", "--insecure-loopback", *options)
        return harness.Daemon(self, running, ["--insecure-loopback"])

    def start_node(self, head, name):
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", name,
                          "--devices", f"{self.other}:2", "--run-dir", self.directory / name,
                          "--insecure-loopback")
        node.wait_for_line("^ready ", stream="out")
        return node

    def job(self, name, **changes):
        return self.write_job(job_text(self.word, changes={**ANY_LENGTH, **changes}), name)

    def test_running_jobs_keep_their_processes_and_their_bits(self):
        head = self.start_head()
        self.start_node(head, "second")
        job_file = self.job("job.toml", steps=ENDLESS)
        job = head.submit(job_file)
        head.esctl("scale", job, f"{self.other}:2")
        before = head.wait_for(
            job, "trains on the node", lambda d: d["state"] == "running" and d["steps"] > 20
            and {w["node"] for w in d["workers"]} == {"second"}
            and all(w["pid"] for w in d["workers"]) and len(d["workers"]) == 2)
        head.running.stop(signal.SIGKILL)
        head = self.start_head()
        after = head.wait_for(
            job, "trains again", lambda d: d["state"] == "running" and d["steps"] > before["steps"]
            and all(w["pid"] for w in d["workers"]) and len(d["workers"]) == 2)
        self.assertEqual({w["pid"] for w in after["workers"]},
                         {w["pid"] for w in before["workers"]})
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)

    def test_a_node_that_is_told_to_end_while_the_head_is_away_hands_its_workers_over(self):
        """The next head waits for the third node, and holds the second one back until then."""
        head = self.start_head()
        second, third = (self.start_node(head, name) for name in ("second", "third"))
        job_file = self.job("job.toml", steps=ENDLESS)
        job = head.submit(job_file)
        head.esctl("scale", job, f"{self.other}:4")
        before = head.wait_for(
            job, "trains on both nodes", lambda d: d["state"] == "running" and d["steps"] > 5
            and {w["node"] for w in d["workers"]} == {"second", "third"}
            and all(w["pid"] for w in d["workers"]))
        head.running.stop(signal.SIGKILL)
        os.kill(third.pid, signal.SIGSTOP)
        self.addCleanup(lambda: os.kill(third.pid, signal.SIGCONT))
        second.process.send_signal(signal.SIGTERM)
        second.wait_for_line("hands over the workers of this node")
        head = self.start_head()
        self.assertEqual(second.wait().code, 0)
        os.kill(third.pid, signal.SIGCONT)
        head.esctl("scale", job, "auto")
        head.wait_for(job, "trains on what is left", lambda d: d["state"] == "running"
                      and d["steps"] > before["steps"]
                      and {w["node"] for w in d["workers"]} <= {"first", "third"})
        self.assertNotIn("the node is about to end", head.esctl("logs", job).out)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)

    def test_finished_jobs_and_their_evaluations_are_shown(self):
        head = self.start_head()
        job_file = self.job("job.toml", steps=20, eval_every=5)
        done = head.submit(job_file)
        end = head.wait_for_state(done, "finished")
        log = head.whole_log(done)
        self.assertEqual(len(end["evaluations"]), 4)
        head.running.stop(signal.SIGKILL)
        head = self.start_head()
        self.assertEqual([j["job"] for j in head.json("ps")["jobs"]], [done])
        again = head.describe(done)
        for key in ("state", "steps", "params_digest", "state_digest", "evaluations", "loss_last",
                    "stages", "spec_toml"):
            self.assertEqual(again[key], end[key], key)
        self.assertEqual(head.esctl("logs", done).out, log)
        head.stop()

    def test_evaluations_made_before_are_kept_by_a_running_job(self):
        head = self.start_head()
        self.start_node(head, "second")
        job = head.submit(self.job("job.toml", steps=ENDLESS, eval_every=20))
        head.esctl("scale", job, f"{self.other}:1")
        before = head.wait_for(job, "two evaluations", lambda d: len(d["evaluations"]) >= 2)
        head.running.stop(signal.SIGKILL)
        head = self.start_head()
        newest = before["evaluations"][-1]["version"]
        after = head.wait_for(job, "one more", lambda d: d["evaluations"]
                              and d["evaluations"][-1]["version"] > newest)
        known = {e["version"]: e for e in after["evaluations"]}
        for evaluation in before["evaluations"]:
            self.assertEqual(known[evaluation["version"]], evaluation)
        self.assertEqual(list(known), list(range(20, max(known) + 1, 20)))
        head.esctl("cancel", job)
        head.stop()

    def test_a_decision_by_evaluations_outlives_a_head_that_is_killed_in_the_middle_of_it(self):
        decided = {"steps": 120, "eval_every": 4, "schedule.kind": "plateau", "schedule.gamma": 0.5,
                   "schedule.patience": 0, "stop.metric": "loss", "stop.patience": 4,
                   "stop.min_delta": 0.02, "checkpoint.keep_best": "accuracy",
                   "checkpoint.directory": str(self.directory / "kept")}
        root = ("--checkpoint-root", str(self.directory))
        fixed = self.run_job(self.job("fixed.toml", **decided), "--devices", f"{self.other}:1")
        self.assertEqual(fixed["decisions"]["stopped_at"], fixed["steps"])
        job_file = self.job("job.toml", **decided, **{"resources.device_types": [self.other]})
        for point in ("evaluation.before:2", "evaluation.after:2", "ledger.after:9", "journal.before:5",
                      "journal.after:5"):
            with self.subTest(point):
                self.environment["ES_KILL_POINT"] = point
                head = self.start_head(*root)
                del self.environment["ES_KILL_POINT"]
                node = self.start_node(head, "second")
                job = head.submit(job_file)
                self.assertEqual(head.running.wait().code, -signal.SIGKILL)
                head = self.start_head(*root)
                end = head.wait_for_state(job, "finished")
                self.assertEqual(harness.digests(end), harness.digests(fixed))
                self.assertEqual(end["evaluations"], fixed["evaluations"])
                for key in ("reductions", "reduced_at", "stopped_at"):
                    self.assertEqual(end["decisions"][key], fixed["decisions"][key], key)
                self.assertEqual(end["decisions"]["best"]["version"],
                                 fixed["decisions"]["best"]["version"])
                head.esctl("rm", job)
                node.stop(signal.SIGKILL)
                head.stop()

    def test_a_head_that_is_told_to_end_leaves_its_jobs_to_the_other_nodes(self):
        head = self.start_head()
        self.start_node(head, "second")
        job_file = self.job("job.toml", steps=ENDLESS)
        job = head.submit(job_file)
        head.esctl("scale", job, "+".join(sorted([f"{self.fast}:1", f"{self.other}:1"])))
        before = head.wait_for(
            job, "trains on both nodes", lambda d: d["state"] == "running" and d["steps"] > 20
            and {w["node"] for w in d["workers"]} == {"first", "second"}
            and all(w["pid"] for w in d["workers"]))
        staying, = [w["pid"] for w in before["workers"] if w["node"] == "second"]
        ended = head.running.stop(signal.SIGTERM)
        self.assertEqual(ended.code, 0, str(ended))
        self.wait_for_work(staying, 0.3)
        head = self.start_head()
        after = head.wait_for(
            job, "trains on both nodes again", lambda d: d["state"] == "running"
            and d["steps"] > before["steps"] and len(d["workers"]) == 2
            and all(w["pid"] for w in d["workers"]))
        self.assertIn(staying, [w["pid"] for w in after["workers"]])
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        head.stop()
        self.assert_bits_of_fixed_run(job_file, taken, self.fast)

    def test_evaluations_made_while_the_head_is_away_are_not_lost(self):
        head = self.start_head()
        self.start_node(head, "second")
        job_file = self.job("job.toml", steps=ENDLESS, eval_every=10)
        job = head.submit(job_file)
        head.esctl("scale", job, f"{self.other}:1")
        before = head.wait_for(
            job, "an evaluation, and training on the node", lambda d: d["evaluations"]
            and [w["node"] for w in d["workers"]] == ["second"] and d["workers"][0]["pid"])
        worker, = [w["pid"] for w in before["workers"]]
        head.running.stop(signal.SIGKILL)
        self.wait_for_work(worker, 1)  # time for several evaluations
        head = self.start_head()
        newest = before["evaluations"][-1]["version"]
        after = head.wait_for(job, "one more", lambda d: d["evaluations"]
                              and d["evaluations"][-1]["version"] > newest)
        head.esctl("cancel", job)
        head.stop()
        last = after["evaluations"][-1]["version"]
        self.assertEqual([e["version"] for e in after["evaluations"]],
                         list(range(10, last + 1, 10)))
        alone = self.run_job(job_file, "--steps", last, "--devices", f"{self.fast}:1")
        self.assertEqual(after["evaluations"], alone["evaluations"])

    def test_a_job_that_trains_on_without_a_head_pays_for_that_time(self):
        prices = ["--price", f"{self.other}=36000"]  # 10 in a second
        head = self.start_head(*prices)
        self.start_node(head, "second")
        job = head.submit(self.job("job.toml", steps=ENDLESS, **{"resources.budget": 1e9}))
        head.esctl("scale", job, f"{self.other}:1")
        before = head.wait_for(
            job, "trains on the node, at its price", lambda d: d["state"] == "running"
            and d["price_per_hour"] == 36000 and [w["node"] for w in d["workers"]] == ["second"]
            and d["workers"][0]["pid"])
        worker, = [w["pid"] for w in before["workers"]]
        head.running.stop(signal.SIGKILL)
        begin = time.monotonic()
        self.wait_for_work(worker, 2)
        away_s = time.monotonic() - begin
        head = self.start_head(*prices)
        harness.wait_until("the cost of the time without a head", lambda:
                           "without a head, which counts: it has spent"
                           in head.esctl("logs", job).out)
        self.assertGreaterEqual(head.describe(job)["spent"], before["spent"] + 10 * away_s)
        head.esctl("cancel", job)
        head.stop()

    def wait_for_work(self, pid, seconds):
        """Waits until this process has computed for this number of further seconds."""
        def used():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        begin = used()
        harness.wait_until("a worker that continues", lambda: used() > begin + seconds)

    def test_a_submission_is_neither_lost_nor_done_twice(self):
        for point in ("submit.before", "submit.journaled"):
            with self.subTest(point):
                self.environment["ES_KILL_POINT"] = point  # The head dies there.
                head = self.start_head()
                del self.environment["ES_KILL_POINT"]
                jobs_before = len(head.json("ps")["jobs"])
                submitting = self.start_esctl("submit", self.job("job.toml", steps=5), "--head",
                                              head.endpoint, *head.wire, "--json")
                self.assertEqual(head.running.wait().code, -signal.SIGKILL)
                submitting.wait_for_line("trying again")
                head = self.start_head()
                ended = submitting.wait()
                self.assertEqual(ended.code, 0, str(ended))
                jobs = [j["job"] for j in head.json("ps")["jobs"]]
                self.assertEqual(len(jobs), jobs_before + 1)
                self.assertEqual(jobs[-1], ended.json["job"])
                head.wait_for_state(jobs[-1], "finished")
                head.running.stop(signal.SIGKILL)
        head = self.start_head()
        self.assertEqual([j["state"] for j in head.json("ps")["jobs"]], ["finished"] * 2)
        head.stop()


if __name__ == "__main__":
    harness.main()
