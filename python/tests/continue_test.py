#!/usr/bin/env python3
"""Jobs that continue from a checkpoint, and curves in TensorBoard and MLflow, from Python."""
import json
import socket
import struct
import subprocess
import sys
import unittest
from pathlib import Path

import torch
from support import HERE, FolderCase, programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.private_head import PrivateHead

sys.path.insert(0, str(HERE.parents[1] / "tests" / "e2e"))
import environment
import harness
import mlflow_server

SAMPLES, STEPS = 32, 6
WITH_TENSORBOARD = environment.program("python3", "web")
READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1])
read.Reload()
print(json.dumps({name: [(e.step, e.value) for e in read.Scalars(name)] for name in read.Tags()["scalars"]}))
"""


def fp32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def losses(run):
    """The curve that a tracker has of a run."""
    return [(record.step, fp32(record.loss)) for record in run.history]


def evaluations(run):
    return [(record.step, fp32(record.evaluation["mean_loss"])) for record in run.history
            if record.evaluation]


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Continue(FolderCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2),
                                   nn.Linear(8, 1))
        self.x = torch.randn(SAMPLES, 4)

    def job(self, steps=STEPS, rate=0.01, **options):
        data = es.data.arrays(self.x, self.x[:, :1])
        return es.Job(self.model, loss=nn.MSELoss(), data=data, eval_data=data, batch_size=4, max_p=2,
                      steps=steps, optimizer=torch.optim.Adam(self.model.parameters(), lr=rate), **options)

    def half(self):
        """A run whose last checkpoint is that of step 2. Only the last one of a job is certain: others
        are left out while the disk is busy."""
        return self.job(2).run(devices="cpu-avx2:1", progress=False)

    def test_a_job_that_continues_has_the_bits_of_one_that_was_not_interrupted(self):
        whole = self.job().run(devices="cpu-avx2:1", progress=False)
        half = self.half()
        rest = self.job().run(stages="cpu-avx2:2@1,cpu-avx2:1", from_checkpoint=half.checkpoint,
                              progress=False)
        self.assertEqual([record.step for record in rest.history], [3, 4, 5, 6])
        self.assertEqual((rest.params_digest, rest.state_digest),
                         (whole.params_digest, whole.state_digest))
        self.assertEqual([r.loss for r in rest.history], [r.loss for r in whole.history[2:]])

    def test_a_job_with_more_steps_continues_a_run(self):
        first = self.job(2).run(devices="cpu-avx2:1", progress=False)
        more = self.job().run(devices="cpu-avx2:1", progress=False, from_checkpoint=first)
        whole = self.job().run(devices="cpu-avx2:1", progress=False)
        self.assertEqual(more.params_digest, whole.params_digest)
        with self.assertRaisesRegex(es.UsageError, "is of step 2: allowed is one before step 2.* "
                                    "more steps"):
            self.job(2).run(from_checkpoint=first)
        for wrong, error, text in (
                (first.checkpoint.parent / "none", es.NotFoundError, "none"),
                (first.checkpoint.parent, es.NotFoundError, "folder of one checkpoint.*step-2"),
                (2, es.UsageError, "of the type int: allowed is a Run, or the path")):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(error, text):
                self.job().run(from_checkpoint=wrong)

    def test_a_head_continues_a_job(self):
        whole = self.job().run(devices="cpu-avx2:1", progress=False)
        half = self.half()
        with PrivateHead() as head:
            job = self.job(directory=self.folder / "job")
            remote = job.submit(head.endpoint, stages="cpu-avx2:2@1,cpu-avx2:1", from_checkpoint=half.checkpoint)
            rest = remote.wait()
            self.assertEqual([record.step for record in rest.history], [3, 4, 5, 6])
            self.assertEqual((rest.params_digest, rest.state_digest),
                             (whole.params_digest, whole.state_digest))
            with self.assertRaisesRegex(es.UsageError, "another optimizer.learning_rate"):
                self.job(directory=self.folder / "other", rate=0.1).submit(
                    head.endpoint, from_checkpoint=half.checkpoint)
            self.assertFalse((self.folder / "other").exists())

    @unittest.skipUnless(WITH_TENSORBOARD, "TensorBoard is not set up: scripts/setup_web")
    def test_tensorboard_reads_the_curves_of_a_run(self):
        run = self.job(eval_every=3).run(devices="cpu-avx2:1", progress=False,
                                         tensorboard=self.folder / "runs")
        read = subprocess.run([WITH_TENSORBOARD, "-c", READ_EVENTS, self.folder / "runs" / run.id],
                              capture_output=True, text=True, check=True)
        curves = {name: [tuple(point) for point in points]
                  for name, points in json.loads(read.stdout).items()}
        self.assertEqual(curves["train/loss"], losses(run))
        self.assertEqual(curves["eval/loss"], evaluations(run))

    @unittest.skipUnless(mlflow_server.PROGRAM, mlflow_server.MISSING)
    def test_mlflow_has_the_curves_of_a_run(self):
        server = mlflow_server.Mlflow(self.folder, harness.free_port())
        self.addCleanup(server.stop)
        harness.wait_until("MLflow answers", server.answers, 2 * harness.DEADLINE_S)
        run = self.job(eval_every=3).run(devices="cpu-avx2:1", progress=False, mlflow=server.url,
                                         experiment="faces")
        (tracked,) = server.runs("faces")
        self.assertEqual((tracked["info"]["run_name"], tracked["info"]["status"]), (run.id, "FINISHED"))
        fields = {p["key"]: p["value"] for p in tracked["data"]["params"]}
        self.assertEqual(fields["steps"], str(STEPS))
        self.assertEqual(server.history(tracked, "train/loss"), losses(run))
        self.assertEqual(server.history(tracked, "eval/loss"), evaluations(run))

    def test_a_tracker_that_does_not_answer_is_a_warning(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            server = f"http://127.0.0.1:{closed.getsockname()[1]}"
            with self.assertWarnsRegex(UserWarning, "curves of this run are not complete"):
                run = self.job().run(devices="cpu-avx2:1", progress=False, mlflow=server,
                                     experiment="faces")
        self.assertEqual(run.steps, STEPS)

    def test_a_wrong_argument_is_refused_before_anything_starts(self):
        job = self.job()
        for text, wrong in (("mlflow = 'server': allowed is the address", {"mlflow": "server"}),
                            ("experiment: allowed with mlflow", {"experiment": "faces"}),
                            ("tensorboard = 3: allowed is the path", {"tensorboard": 3})):
            with self.assertRaisesRegex(es.UsageError, text):
                job.run(**wrong)


if __name__ == "__main__":
    unittest.main()
