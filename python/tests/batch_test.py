"""The number of samples in a captured model: as extents, in constants and as bounds of slices."""
import math
import unittest

import capture_support  # noqa: F401  (makes the package importable)
import torch
import torch.nn.functional as F
from easyscale.interpret import Context, interpret
from easyscale.tracing import capture, errors
from torch import nn

SEED = 4


class Pairs(nn.Module):
    """A loss over the samples of two inputs, from the outputs of one layer for both."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(8, 4), function

    def forward(self, a, b):
        return self.function(self.linear(torch.cat([a, b])), len(a))


def sim_clr(z, n):
    similarity = F.normalize(z, dim=1) @ F.normalize(z, dim=1).T
    similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    return F.cross_entropy(similarity, torch.cat([torch.arange(n) + n, torch.arange(n)]))


def halves(z, n):
    first, second = z.chunk(2)
    return ((first - second).square().mean() + (z[:n] * z[n:]).sin().mean()
            + z.view(2, n, -1)[1].cos().mean())


# Each is a function of (z [2 * samples, 4], samples).
BATCHES = {
    "eye and shifted labels": sim_clr, "halves": halves,
    "a covariance": lambda z, n: ((z[:n] - z[:n].mean(0)).T @ (z[n:] - z[n:].mean(0)) / (n - 1)
                                  ).square().sum() * (n + 1) + z.sum() * 3 / (n - 1),
    "pairs": lambda z, n: (z @ z.T).sum() / (n * (n - 1)) * n ** 2 + 2 * z.sum() * (n * (n - 1)),
    "the logarithm of their number": lambda z, n: (
        torch.logsumexp(z, (0, 1)).sin() - math.log(n) + torch.logsumexp(z[:, 0], 0)
        - torch.log(torch.tensor(float(n))) + math.log(4 * n)),
    "tril": lambda z, n: (z @ z.T * torch.ones(2 * n, 2 * n).tril()).mean(),
    "triu": lambda z, n: (z @ z.T)[:n, n:].masked_fill(
        torch.ones(n, n).triu(1).bool(), 0.0).mean(),
    "eye of numbers": lambda z, n: ((z[:n] @ z[n:].T) - torch.eye(n)).square().mean(),
    "sorted samples": lambda z, n: torch.logcumsumexp(
        z[:, 0][torch.argsort(z[:, 1], descending=True)], 0).mean(),
    "diagonals of pairs": lambda z, n: (
        torch.diag(z @ z.T, n).sin() + torch.diag(z @ z.T, -n).cos() + (z[:n] @ z[n:].T).diag()).mean(),
    "a part of the samples": lambda z, n: (z * torch.full((n, 1), 2 / n).repeat(2, 1)).sum(),
    "the first column as the label": lambda z, n: F.cross_entropy(
        z, torch.zeros(2 * n, dtype=torch.long)),
    "reversed numbers": lambda z, n: F.cross_entropy(
        z @ z[:n].T, torch.cat([torch.arange(n), torch.arange(n - 1, -1, -1)])),
    "rows of samples by their numbers": lambda z, n: z.view(n, 2, 4)[
        torch.arange(n).view(-1, 1).expand(n, 3), torch.tensor([[1, 0, 1]])].sin().mean(),
    "computed rows of samples by their numbers": lambda z, n: z.view(n, 2, 4)[
        torch.arange(n).view(-1, 1).expand(n, 3), (z[:n, :3] > 0).long()].sin().mean(),
    "numbers of samples and of columns": lambda z, n: z.flatten().index_add(
        0, (4 * torch.arange(2 * n)[:, None] + torch.tensor([3, 0, 0])).flatten(),
        z[:, :3].flatten()).square().mean(),
    "numbers that are no integers by type": lambda z, n: (
        z * (torch.arange(2 * n)[:, None] + torch.arange(4.0))).sin().mean(),
    "gradients of a mean": lambda z, n: torch.autograd.grad(
        z.square().mean(), z, create_graph=True)[0].exp().sum() * n,
    "weights and a bias of each sample": lambda z, n: F.conv2d(
        z.view(1, -1, 2, 2), z.view(-1, 1, 2, 2).sin(), z[:, 0], groups=2 * n).cos().mean(),
    "a number of the model that is the number of samples": lambda z, n: (
        F.kl_div(F.log_softmax(z[:n] / 3, 1), F.softmax(z[n:] / 5, 1), reduction="batchmean")
        + z.sum() / n),
}


class Batches(unittest.TestCase):
    def test_every_number_of_samples_gives_what_torch_gives(self):
        for name, function in BATCHES.items():
            with self.subTest(name, seed=SEED):
                torch.manual_seed(SEED)
                model = Pairs(function)
                program = capture(model, None, (torch.randn(4, 8), torch.randn(4, 8))).program
                for samples in (2, 6, 9):
                    inputs = {"a": torch.randn(samples, 8), "b": torch.randn(samples, 8)}
                    values = interpret(program, dict(model.named_parameters()), inputs,
                                       Context(training=True))
                    torch.testing.assert_close(values[program.loss], model(**inputs))

    def test_a_model_that_returns_its_loss_only_has_it_as_the_output_of_every_sample(self):
        torch.manual_seed(SEED)
        model = Pairs(halves)
        program = capture(model, None, (torch.randn(4, 8), torch.randn(4, 8))).program
        (output,) = program.outputs
        self.assertEqual((output.name, program.values[output.value].shape(6)), ("loss", (6,)))

    def test_another_matrix_of_samples_is_refused(self):
        with self.assertRaisesRegex(errors.BatchTraced, "depends on the number of samples"):
            capture(Pairs(lambda z, n: (z @ z.T * torch.ones(2 * n, 2 * n).triu(2)).mean()), None,
                    (torch.randn(4, 8), torch.randn(4, 8)))

    def test_a_slice_of_one_sample_less_is_refused(self):
        with self.assertRaisesRegex(errors.BatchTraced, "samples"):
            capture(Pairs(lambda z, n: z[:n - 1].mean()), None,
                    (torch.randn(4, 8), torch.randn(4, 8)))


if __name__ == "__main__":
    unittest.main()
