"""Complex parameters."""
import unittest

import capture_support as support
import easyscale as es
import numpy as np
import torch
from easyscale.tracing import capture, errors
from torch import nn
from torch_training import torch_losses


class Operator(nn.Module):
    """A Fourier layer with complex weights, as those of neural operators, beside a convolution."""

    def __init__(self, frozen=False):
        super().__init__()
        self.spectral = nn.Parameter(0.2 * torch.rand(2, 2, 3, dtype=torch.cfloat))
        self.turn = nn.Parameter(torch.randn((), dtype=torch.cfloat), requires_grad=not frozen)
        self.local = nn.Conv1d(2, 2, 1)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(len(x), 2, x.shape[2] // 2 + 1, dtype=torch.cfloat)
        out[:, :, :3] = torch.einsum("bix,iox->box", spectrum[:, :, :3], self.spectral) * self.turn
        return torch.fft.irfft(out, n=x.shape[2]) + torch.tanh(self.local(x))


def samples():
    torch.manual_seed(3)
    return torch.randn(16, 2, 8).numpy(), torch.randn(16, 2, 8).numpy()


FUNCTIONS = {
    "linear": lambda m, z: m.complex_layer(z), "addmm": lambda m, z: torch.addmm(m.turn, z, m.square),
    "product": lambda m, z: z * m.turn.conj(), "power": lambda m, z: z ** 3 * m.turn ** 0.5,
    "exponential": lambda m, z: torch.exp(m.turn) * z, "logarithm": lambda m, z: torch.log(z * m.turn),
    "difference": lambda m, z: 1 - z * m.turn, "choice": lambda m, z: torch.where(z.real > 0, z, m.turn),
    "running_sum": lambda m, z: torch.cumsum(z * m.turn, 1), "diagonal": lambda m, z: z @ torch.diag(m.turn),
    "convolution": lambda m, z: nn.functional.conv1d(
        z[:, None], m.square[:, None, :3], m.turn, padding=1).mean(1),
    "norm": lambda m, z: z * torch.linalg.vector_norm(m.square, dim=1),
}


class Complex(unittest.TestCase):
    def test_a_job_trains_them_as_torch_does(self):
        x, y = samples()
        for make in (lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
                     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)):
            torch.manual_seed(2)
            model, other = Operator(), Operator()
            other.load_state_dict(model.state_dict())
            job = es.Job(model, loss=nn.MSELoss(), data=es.data.arrays(x, y), batch_size=16, max_p=1,
                         steps=4, optimizer=make(model.parameters()))
            run = job.run(devices="cpu-scalar:1")
            optimizer = make(other.parameters())
            losses = torch_losses(other, optimizer, nn.MSELoss(), (x, y), 4)
            np.testing.assert_allclose([step.loss for step in run.history], losses, rtol=1e-5)
            run.load_into(model)
            for name, trained in model.named_parameters():
                torch.testing.assert_close(trained, dict(other.named_parameters())[name],
                                           rtol=1e-4, atol=1e-6)
            weights = {name: torch.from_numpy(array) for name, array in run.state_dict().items()}
            other.load_state_dict(weights)
            for name, trained in model.named_parameters():
                self.assertTrue(torch.equal(trained, dict(other.named_parameters())[name]), name)

    def test_a_frozen_one_stays(self):
        x, y = samples()
        model = Operator(frozen=True)
        before = model.turn.detach().clone()
        job = es.Job(model, loss=nn.MSELoss(), data=es.data.arrays(x, y), batch_size=4, max_p=2, steps=3,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        runs = [job.run(devices=devices) for devices in ("cpu-scalar:1", "cpu-scalar:2")]
        self.assertEqual(runs[0].params_digest, runs[1].params_digest)
        runs[0].load_into(model)
        self.assertTrue(torch.equal(model.turn, before))

    def test_operators(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                torch.manual_seed(2)
                model = support.Model(lambda m, x: torch.view_as_real(
                    function(m, torch.view_as_complex(m.layer(x).view(-1, 4, 2)))).flatten(1))
                model.turn = nn.Parameter(torch.randn(4, dtype=torch.cfloat))
                model.square = nn.Parameter(torch.randn(4, 4, dtype=torch.cfloat))
                model.complex_layer = nn.Linear(4, 4, dtype=torch.cfloat)
                capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_what_cannot_be_captured_is_named(self):
        model = support.Model(lambda m, x: torch.asin(m.layer(x) * m.turn).real)
        model.turn = nn.Parameter(torch.randn(8, dtype=torch.cfloat))
        with self.assertRaisesRegex(errors.UnsupportedOperators, "asin.default"):
            capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
        model.turn = nn.Parameter(torch.randn(8, dtype=torch.cdouble))
        with self.assertRaisesRegex(errors.UnsupportedType, "turn .*complex128"):
            capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))


if __name__ == "__main__":
    unittest.main()
