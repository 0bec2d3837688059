#!/usr/bin/env python3
"""What es.Job accepts the engine executes; what it does not execute is refused with its line."""
import re
import unittest

import capture_support as support
import numpy as np
import torch
import torch.nn.functional as F
from easyscale.interpret import KINDS
from support import HERE, programs_train_model_files
from torch import nn
from torch_training import torch_losses

import easyscale as es

SAMPLES, STEPS = 8, 3
FAR = 3.0  # of a sample that is not among the first and the last ones, which a capture looks at


def volume(m, x):
    return m.conv(x.view(-1, 1, 1, 2, 4)).flatten(1)[:, :8]


def pooled(m, x):
    y = m.layer(x)[:, None, :1]
    pools = F.max_pool1d(y, 2, 3, ceil_mode=True) + F.avg_pool1d(y, 2, 3, ceil_mode=True)
    return pools[:, 0] + x


# What the engine refused, or computed wrongly, after es.Job had accepted it.
EXECUTED = {
    "a volume of one depth with padding": volume,
    "a pool of windows that begin inside only": pooled,
    "a padding beside which nothing is left": lambda m, x: x + m.layer(
        F.pad(x, (-8, 8), value=0.5)),
}


def model_of(function):
    torch.manual_seed(1)
    model = support.Model(function)
    model.conv = nn.Conv3d(1, 2, (1, 2, 2), padding=(1, 0, 0))
    return model


def job_of(model, batch_size=SAMPLES):
    x = torch.randn(SAMPLES, 8, generator=torch.Generator().manual_seed(1))
    x[4, 0] = FAR
    trained = torch.optim.SGD(model.parameters(), lr=0.1)
    return es.Job(model, loss=nn.MSELoss(), data=es.data.arrays(x, x.sin()), batch_size=batch_size,
                  max_p=1, steps=STEPS, optimizer=trained), x, trained


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Engine(unittest.TestCase):
    def test_what_a_job_accepts_trains_as_in_pytorch(self):
        for name, function in EXECUTED.items():
            with self.subTest(name):
                model = model_of(function)
                job, x, trained = job_of(model)
                run = job.run(devices="cpu-avx2:1", progress=False)
                losses = torch_losses(model, trained, F.mse_loss, (x.numpy(), x.sin().numpy()),
                                      STEPS)
                np.testing.assert_allclose([r.loss for r in run.history], losses, rtol=1e-5)

    def test_what_the_engine_does_not_execute_is_refused_with_its_line(self):
        def many_axes(m, x):
            return m.layer(x.view(-1, 1, 1, 1, 1, 1, 1, 1, 8).sum((1, 2, 3, 4, 5, 6, 7)))
        with self.assertRaisesRegex(es.CaptureError, r"(?s)batch_size 8: .*a list of 9: allowed "
                                    r"are at most 8; this is reshape at engine_test.py:\d+"):
            job_of(model_of(many_axes))
        with self.assertRaisesRegex(es.CaptureError, r"(?s)batch_size 1: .*engine_test.py:\d+"):
            job_of(model_of(lambda m, x: m.layer(x) - x.var(0, keepdim=True)), batch_size=1)

    def test_a_step_that_names_no_row_ends_with_the_line_of_the_model(self):
        def later(m, x):
            return m.layer(x) + m.layer.weight[8 * (x[:, 0] == FAR).long()]
        with self.assertRaisesRegex(es.FailedError, r"not finite.* engine_test.py:\d+.* chooses "
                                    "rows by integers .*: one below 0 or beyond the last row"):
            job, _, _ = job_of(model_of(later))
            job.run(devices="cpu-avx2:1", progress=False)


class Kinds(unittest.TestCase):
    def test_the_check_at_capture_knows_the_kinds_of_the_engine(self):
        text = (HERE.parents[1] / "docs/reference/model-file.md").read_text()
        rows = re.findall(r"^\| (`.*?) \|", text.partition("## Kinds of nodes")[2], re.MULTILINE)
        documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
        # The first two are of built-in models; `wrap` stands for `narrow` until widths are known.
        self.assertEqual(documented ^ set(KINDS), {"image_linear", "yolo", "wrap"})


if __name__ == "__main__":
    unittest.main()
