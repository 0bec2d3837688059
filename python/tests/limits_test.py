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
from easyscale.interpret import Context, interpret
from easyscale.tracing import capture

SAMPLES = 4
NEAR = 1e-4   # relative, of each number
LEAST = 1e-5  # of the largest number of a gradient
TINY = 1.2e-38  # numbers below the normal ones have few digits, and torch often has 0 for them
SCALES = (1.0, 60.0, 300.0, 1e-4, 1e-20, 0.0)
# Where rounding is larger: 1 - p has few digits where a sigmoid p is almost 1, and the logarithms of
# probabilities in torch's backward pass of a CTC loss are thousands.
ROUNDED = {"BCELoss": 5e-2, "CTCLoss": 1e-3}
# Where torch has few digits in fp32, so that the result may be that of its fp64: it computes
# exp(x) - 1, and differences of what is almost equal.
EXACT = ("ELU", "CELU", "SELU", "log_ndtr", "sinc", "digamma of all", "small hypot")


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


def gradients(model, x, y):
    """Those of both parameters by torch."""
    model.zero_grad()
    model(x, y).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def far(name, own, theirs, least=TINY):
    """Where numbers are not those of torch; `least` is the error of a difference of numbers near 1."""
    allowed = NEAR * theirs.abs() + ROUNDED.get(name.split()[0], LEAST) * theirs.abs().max() + least
    return ~((own - theirs).abs() <= allowed)


def in_fp64(name, function, x, y):
    """The gradients of one case by torch in fp64, if torch has few digits in fp32."""
    if name not in EXACT and name.split()[0] not in EXACT:
        return None
    return gradients(Beside([function]).double(), x.double(), y.double())


def differences(names, found, wanted, exact=()):
    """What differs between two gradients [cases, WIDTH]; `exact` are those of fp64 or None."""
    texts = []
    for i, (name, own, theirs) in enumerate(zip(names, found, wanted)):
        wrong = far(name, own, theirs)
        if exact and exact[i] is not None:
            wrong &= far(name, own.double(), exact[i][0], 2.0 ** -53)
        for k in wrong.nonzero().flatten()[:1].tolist():
            texts.append(f"{name}: {own[k].item():.6g}, torch has {theirs[k].item():.6g}")
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
        wanted = gradients(model, x, y)
        exact = [in_fp64(case, function, x, y) for case, function in zip(names, model.functions)]
        job = es.Job(captured, loss=None, data=es.data.arrays(x=x.numpy(), y=y.numpy()),
                     batch_size=SAMPLES, max_p=1, steps=1,
                     optimizer=es.Optimizer("sgd", learning_rate=1.0))
        after = job.run(progress=False, devices="cpu-avx2:1").state_dict()
        for name in ("moves", "more"):
            found = differences(names, -torch.as_tensor(after[name]), wanted[name],
                                [case and case[name] for case in exact])
            self.assertEqual(found, [], name)

    def test_a_function_is_finite_where_that_of_torch_is(self):
        for name in cases.FUNCTIONS:
            model = Beside([cases.all_cases()[name]])
            x, y = samples(1.0)
            program = capture(model, None, {"x": x, "y": y}, check=False, batch_size=SAMPLES).program
            for scale in SCALES:
                with self.subTest(name, scale=scale):
                    x, y = samples(scale)
                    finite = [torch.isfinite(model(x, y)), *map(torch.isfinite, gradients(
                        model, x, y).values())]
                    model.zero_grad()
                    loss = interpret(program, dict(model.named_parameters()), {"x": x, "y": y},
                                     Context(training=True))[program.loss]
                    loss.backward()
                    found = [loss, *(p.grad for p in model.parameters())]
                    self.assertEqual(torch.isfinite(found[0]), finite[0])
                    for own, theirs in zip(found, finite):
                        self.assertTrue((torch.isfinite(own) | ~theirs).all())


if __name__ == "__main__":
    unittest.main()
