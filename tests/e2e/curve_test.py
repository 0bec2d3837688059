#!/usr/bin/env python3
"""`esctl curve`: the losses of a ledger as CSV and SVG, and in TensorBoard and a real MLflow server."""
import csv
import io
import json
import struct
import unittest
import xml.dom.minidom

import web_environment

web_environment.enter()

import harness  # noqa: E402
import mlflow_server  # noqa: E402
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE  # noqa: E402
from jobs import job_text  # noqa: E402

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None

STEPS = 60


class Curve(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.head = self.start_daemon(devices=self.fast_class() + ":2")
        self.job = self.head.submit(self.write_job(
            job_text(self.word, changes={"steps": STEPS, "eval_every": 20})))
        self.head.wait_for_state(self.job, "finished")
        lines = self.head.json("ledger", self.job)["lines"]
        self.losses = {line["step"]: line["losses"] for line in lines}

    def as_fp32(self, value):
        return struct.unpack("f", struct.pack("f", value))[0]

    def test_a_table_has_the_losses_of_the_ledger(self):
        rows = list(csv.DictReader(io.StringIO(self.head.esctl("curve", self.job).out)))
        self.assertEqual([int(row["step"]) for row in rows], list(range(1, STEPS + 1)))
        for row in rows:
            losses = self.losses[int(row["step"])]
            self.assertAlmostEqual(float(row["loss_mean"]), sum(losses) / len(losses), places=6)
        joined = self.head.json("curve", self.job, "--points", 10)
        self.assertLessEqual(len(joined["points"]), 10)
        self.assertEqual(joined["points"][-1][0], STEPS)
        # A ledger file gives the same table without a head.
        file = self.directory / "ledger"
        self.head.esctl("ledger", self.job, "--out", file)
        self.assertEqual(self.esctl("curve", file).out, self.head.esctl("curve", self.job).out)

    def test_files_are_new_and_whole(self):
        table, chart = self.directory / "loss.csv", self.directory / "loss.svg"
        self.head.esctl("curve", self.job, "--csv", table, "--svg", chart)
        self.assertEqual(table.read_text(), self.head.esctl("curve", self.job).out)
        xml.dom.minidom.parse(str(chart))
        self.assertIn("evaluation", chart.read_text())
        self.head.esctl("curve", self.job, "--csv", table, code=EXIT_REFUSED)
        self.head.esctl("curve", "absent", code=EXIT_NOT_FOUND)

    @unittest.skipUnless(event_accumulator, "TensorBoard is not set up: scripts/setup_web")
    def test_tensorboard_reads_the_event_file(self):
        runs = self.directory / "runs"
        self.head.esctl("curve", self.job, "--tensorboard", runs)
        read = event_accumulator.EventAccumulator(str(runs / self.job))
        read.Reload()
        train = {e.step: e.value for e in read.Scalars("train/loss")}
        self.assertEqual(train, {step: self.as_fp32(sum(losses) / len(losses))
                                 for step, losses in self.losses.items()})
        evaluations = {e["version"]: e for e in self.head.describe(self.job)["evaluations"]}
        shown = {e.step: e.value for e in read.Scalars("eval/loss")}
        self.assertEqual(set(shown), set(evaluations))
        for step, value in shown.items():
            self.assertEqual(value, self.as_fp32(evaluations[step]["mean_loss"]))


@unittest.skipUnless(mlflow_server.PROGRAM, mlflow_server.MISSING)
class CurvesInMlflow(harness.EndToEndTest):
    def start_mlflow(self, port):
        return mlflow_server.start_mlflow(self, port)

    def test_a_run_of_mlflow_follows_a_job_and_survives_a_restart_of_the_server(self):
        port = harness.free_port()
        server = self.start_mlflow(port)
        head = self.start_daemon(devices=self.fast_class() + ":2")
        job = head.submit(self.write_job(
            job_text(self.word, changes={"steps": 400, "eval_every": 100})))
        options = ("curve", job, "--mlflow", server.url, "--experiment", "own")
        # What there is now, while the job trains on.
        head.esctl(*options)
        (run,) = server.runs("own")
        self.assertEqual(run["info"]["run_name"], job)
        fields = {p["key"]: p["value"] for p in run["data"]["params"]}
        self.assertEqual(fields["steps"], "400")
        # A server that is away: the command says so, and later nothing is missing or there twice.
        server.stop()
        away = head.esctl(*options, code=1)
        self.assertIn(f"MLflow at {server.url}", away.err)
        server = self.start_mlflow(port)
        head.esctl(*options, "--follow")
        self.assertEqual(head.describe(job)["state"], "finished")
        (run,) = server.runs("own")
        self.assertEqual(run["info"]["status"], "FINISHED")
        self.assertEqual(server.history(run, "train/loss"),
                         mlflow_server.curve_of(head.json("ledger", job)["lines"]))
        shown = [step for step, _ in server.history(run, "eval/loss")]
        self.assertEqual(shown, [100, 200, 300, 400])

    def test_a_run_with_its_own_daemon_writes_its_curves(self):
        server = self.start_mlflow(harness.free_port())
        kept = self.directory / "kept"
        file = self.write_job(job_text(self.word, changes={"steps": 30}))
        self.esctl("run", file, "--mlflow", server.url, "--keep", kept)
        (run,) = server.runs("easyscale")
        self.assertEqual(run["info"]["status"], "FINISHED")
        self.assertEqual([step for step, _ in server.history(run, "train/loss")],
                         list(range(1, 31)))

    def test_a_run_does_not_need_its_server(self):
        file = self.write_job(job_text(self.word, changes={"steps": 30}))
        url = f"http://127.0.0.1:{harness.free_port()}"
        plain = self.esctl("run", file, "--json")
        run = self.esctl("run", file, "--mlflow", url, "--json")
        self.assertIn("the curves of this run are not complete: MLflow at " + url, run.err)
        digest = json.loads(run.out)["params_digest"]
        self.assertEqual(digest, json.loads(plain.out)["params_digest"])
        bad = self.esctl("run", file, "--mlflow", "ftp://x", code=EXIT_USAGE)
        self.assertIn("--mlflow", bad.err)


if __name__ == "__main__":
    harness.main()
