"""Every loss and activation of torch.nn, forward and backward, where its inputs are very large or small."""
import unittest
import warnings

import limits_cases as cases
import torch
import torch.nn.modules.activation
import torch.nn.modules.loss
from support import programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.tracing import capture

SAMPLES = 4
NEAR = 1e-4   # relative, of each number
LEAST = 1e-5  # of the largest number of a gradient
SCALES = (1.0, 60.0, 300.0, 1e-4)
# Where rounding is larger: 1 - p has few digits where a sigmoid p is almost 1, the logarithms of
# probabilities in torch's backward pass of a CTC loss are thousands, and torch computes exp(x) - 1.
ROUNDED = {"BCELoss": 5e-2} | dict.fromkeys(("CTCLoss", "ELU", "CELU", "SELU"), 1e-3)


class Beside(nn.Module):
    """The sum of all cases. Row i of `moves` begins as zero and is added to the factor 1 of the inputs of case
    i, and row i of `more` to its factors: after a step with the rate 1 both are minus their gradients."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions
        self.moves = nn.Parameter(torch.zeros(len(functions), cases.WIDTH))
        self.more = nn.Parameter(torch.zeros(len(functions), cases.WIDTH))
        self.register_buffer("factors", torch.linspace(0.5, 1.5, cases.WIDTH))

    def forward(self, x, y):
        return sum(function(x * (1 + self.moves[i]), y, self.factors + self.more[i])
                   for i, function in enumerate(self.functions))


def samples(scale):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, cases.WIDTH, generator=generator) * scale
    return x, torch.rand(SAMPLES, cases.WIDTH, generator=generator)


def is_finite(function, scale):
    """Whether torch computes a case with finite numbers."""
    alone = Beside([function])
    loss = alone(*samples(scale))
    loss.backward()
    return all(torch.isfinite(t).all() for t in (loss, alone.moves.grad, alone.more.grad))


def groups():
    """The cases by their names, for each set of scales with which they are finite."""
    found = {}
    for name, function in cases.all_cases().items():
        scales = tuple(scale for scale in SCALES if is_finite(function, scale))
        found.setdefault(scales, {})[name] = function
    return found


def differences(names, found, wanted):
    """What differs between two gradients [cases, WIDTH]."""
    texts = []
    for name, own, theirs in zip(names, found, wanted):
        allowed = NEAR * theirs.abs() + ROUNDED.get(name.split()[0], LEAST) * theirs.abs().max()
        for i in (~((own - theirs).abs() <= allowed)).nonzero().flatten()[:1].tolist():
            texts.append(f"{name}: {own[i].item():.6g}, torch has {theirs[i].item():.6g}")
    return texts


class Limits(unittest.TestCase):
    def test_every_loss_and_activation_of_torch_has_a_case(self):
        self.assertEqual(set(torch.nn.modules.loss.__all__), set(cases.LOSSES))
        self.assertEqual(set(torch.nn.modules.activation.__all__), set(cases.ACTIVATIONS))

    def test_a_difference_is_found(self):
        wanted = torch.tensor([[1.0, 1e-3], [1.0, 2.0]])
        self.assertEqual(differences(["a", "b"], wanted, wanted), [])
        for moved in (1.0002, torch.nan, torch.inf):
            found = wanted.clone()
            found[1, 0] = moved
            self.assertEqual(len(differences(["a", "b"], found, wanted)), 1, moved)

    @unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
    def test_each_has_the_loss_and_the_gradients_of_torch_and_no_job_ends(self):
        warnings.filterwarnings("ignore", "reduction: 'mean' divides")
        for scales, functions in groups().items():
            model = Beside(list(functions.values()))
            x, y = samples(1.0)
            captured = capture(model, None, {"x": x, "y": y}, check=False, batch_size=SAMPLES)
            for scale in scales:
                with self.subTest(scale=scale, cases=len(functions)):
                    self.compare(model, captured, list(functions), scale)

    def compare(self, model, captured, names, scale):
        x, y = samples(scale)
        model.zero_grad()
        model(x, y).backward()
        job = es.Job(captured, loss=None, data=es.data.arrays(x=x.numpy(), y=y.numpy()),
                     batch_size=SAMPLES, max_p=1, steps=1,
                     optimizer=es.Optimizer("sgd", learning_rate=1.0))
        after = job.run(progress=False, devices="cpu-avx2:1").state_dict()
        for name in ("moves", "more"):
            wanted = getattr(model, name).grad
            self.assertEqual(differences(names, -torch.as_tensor(after[name]), wanted), [], name)


if __name__ == "__main__":
    unittest.main()
