#!/usr/bin/env python3
"""Evaluations lower the learning rate, end a job and choose its best checkpoint: the same on every
placement, and after processes were killed in the middle of a decision."""
import os
import signal
from pathlib import Path

import harness
from harness import EXIT_USAGE, digests
from jobs import job_text

EVERY, STEPS = 4, 120
PLATEAU = {"eval_every": EVERY, "steps": STEPS, "schedule.kind": "plateau", "schedule.gamma": 0.5,
           "schedule.patience": 0, "schedule.threshold": 0.01, "schedule.cooldown": 1}
STOP = {"stop.metric": "loss", "stop.patience": 4, "stop.min_delta": 0.02}


class Decisions(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast, self.other = self.fast_class(), self.other_class()

    def job(self, name="job.toml", **changes):
        best = {"checkpoint.directory": str(self.directory / "kept"),
                "checkpoint.keep_best": "accuracy"}
        given = {**PLATEAU, **STOP, **best, **{key.replace("__", "."): value
                                               for key, value in changes.items()}}
        return self.write_job(job_text(self.word, changes=given), name)

    def fixed(self, **changes):
        """The end of the job on one device."""
        end = self.run_job(self.job("fixed.toml", **changes), "--devices", f"{self.fast}:1")
        made = end["decisions"]
        self.assertEqual(made["stopped_at"], end["steps"])
        self.assertLess(end["steps"], end["steps_total"])
        self.assertGreaterEqual(made["reductions"], 2)
        self.assertLessEqual(made["best"]["version"], end["steps"])
        return end

    def assert_same(self, end, fixed):
        self.assertEqual(end["state"], "finished")
        self.assertEqual(digests(end), digests(fixed))
        self.assertEqual(end["evaluations"], fixed["evaluations"])
        made, expected = end["decisions"], fixed["decisions"]
        for key in ("reductions", "reduced_at", "stopped_at"):
            self.assertEqual(made[key], expected[key], key)
        for key in ("metric", "value", "version"):
            self.assertEqual(made["best"][key], expected["best"][key], key)

    def assert_best_is_kept(self, end, **changes):
        """Its checkpoint has the bits of a run that ends there, and it is the only one."""
        best = end["decisions"]["best"]
        path = Path(best["checkpoint"])
        self.assertEqual([p.name for p in path.parent.iterdir()], [f"step-{best['version']}"])
        kept = self.esctl("checkpoint", "ls", path, "--json").json["checkpoints"][0]
        short = self.run_job(self.job("short.toml", **changes), "--steps", best["version"], "--devices",
                             f"{self.other}:1")
        self.assertEqual(kept["params_digest"], short["params_digest"])

    def test_they_do_not_depend_on_the_placement(self):
        fixed = self.fixed()
        self.assert_best_is_kept(fixed)
        stages = f"{self.fast}:2@7,{self.fast}:1+{self.other}:2@13,{self.other}:1@{STEPS - 20}"
        mixed = self.run_job(self.job(), "--stages", stages)
        self.assert_same(mixed, fixed)
        self.assert_best_is_kept(mixed)
        constant = self.run_job(self.job("constant.toml", schedule__kind="constant"), "--steps",
                                fixed["steps"], "--devices", f"{self.fast}:1")
        self.assertNotEqual(constant["params_digest"], fixed["params_digest"])

    def test_a_killed_worker_changes_no_decision(self):
        # It trains for a while, so that there is a worker to kill.
        longer = {"steps": 20000, "eval_every": 100}
        fixed = self.fixed(**longer)
        daemon = self.start_daemon(devices=f"{self.fast}:2")
        job = daemon.submit(self.job(**longer))
        daemon.esctl("scale", job, f"{self.fast}:2")
        running = daemon.wait_for(job, "trains on two", lambda d: d["steps"] >= 100 and len(
            d["workers"]) == 2 and all(w["pid"] for w in d["workers"]))
        os.kill(running["workers"][0]["pid"], signal.SIGKILL)
        end = daemon.wait_for_state(job, "finished")
        self.assert_same(end, fixed)
        self.assert_best_is_kept(end, **longer)
        daemon.stop()

    def test_a_job_that_continues_has_the_decisions_of_its_checkpoint(self):
        fixed = self.fixed()
        for version in (EVERY * 4, EVERY * 4 + 2):
            with self.subTest(version=version):
                kept = self.directory / f"kept-{version}"
                self.run_job(self.job("part.toml"), "--steps", version, "--checkpoint", kept,
                             "--devices", f"{self.fast}:2")
                end = self.run_job(self.job(), "--from", kept, "--devices",
                                   f"{self.other}:1+cpu-scalar:1")
                self.assertEqual(digests(end), digests(fixed))
                self.assertEqual(end["steps"], fixed["steps"])
                self.assertEqual(end["decisions"]["reductions"], fixed["decisions"]["reductions"])

    def test_a_decision_without_an_evaluation_or_a_known_metric_is_refused(self):
        for changes, text in (
                ({"eval_every": 0}, 'eval_every = 0: allowed is at least 1 with schedule.kind = "plateau"'),
                ({"schedule__metric": "bleu"},
                 'schedule.metric = "bleu": allowed is accuracy, top5, loss'),
                ({"stop__metric": "auc"}, 'stop.metric = "auc": allowed is accuracy, top5, loss'),
                ({"checkpoint__keep_best": "best"},
                 'checkpoint.keep_best = "best": allowed is accuracy, top5, loss'),
                ({"data__eval_samples": 0},
                 'schedule.metric = "loss": allowed is none, because the data have no evaluation')):
            with self.subTest(text=text):
                ended = self.esctl("run", self.job(**changes), "--devices", f"{self.fast}:1",
                                   code=EXIT_USAGE)
                self.assertIn(text, ended.err)
                self.assertEqual(ended.err.count("allowed"), 1, ended.err)


if __name__ == "__main__":
    harness.main()
