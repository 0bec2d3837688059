#!/usr/bin/env python3
"""`esctl curve`: the losses of a ledger as CSV and SVG, and as event files that TensorBoard reads."""
import csv
import io
import struct
import unittest
import xml.dom.minidom

import web_environment

web_environment.enter()

import harness  # noqa: E402
from harness import EXIT_NOT_FOUND, EXIT_REFUSED  # noqa: E402
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
        self.losses = {line["version"]: line["losses"] for line in lines}

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


if __name__ == "__main__":
    harness.main()
