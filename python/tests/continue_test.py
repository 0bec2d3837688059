#!/usr/bin/env python3
"""Jobs that continue from a checkpoint, and curves in TensorBoard and MLflow, from Python."""
import socket
import unittest
from pathlib import Path

import torch
from support import FolderCase, programs_train_model_files
from torch import nn

import easyscale as es

SAMPLES, STEPS = 32, 6


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Continue(FolderCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2),
                                   nn.Linear(8, 1))
        self.x = torch.randn(SAMPLES, 4)

    def job(self, steps=STEPS, **options):
        return es.Job(self.model, loss=nn.MSELoss(), data=es.data.arrays(self.x, self.x[:, :1]),
                      batch_size=4, max_p=2, steps=steps,
                      optimizer=torch.optim.Adam(self.model.parameters(), lr=0.01), **options)

    def test_a_job_that_continues_has_the_bits_of_one_that_was_not_interrupted(self):
        whole = self.job(checkpoint_every=2).run(devices="cpu-avx2:1", progress=False)
        half = whole.checkpoint.parent / "step-2"
        self.assertTrue(half.is_dir())
        rest = self.job().run(stages="cpu-avx2:2@1,cpu-avx2:1", from_checkpoint=half,
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

    def test_tensorboard_has_an_event_file(self):
        run = self.job().run(devices="cpu-avx2:1", progress=False, tensorboard=self.folder / "runs")
        events = [*Path(self.folder / "runs" / run.id).iterdir()]
        self.assertEqual(len(events), 1)
        self.assertGreater(events[0].stat().st_size, STEPS * 20)

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
