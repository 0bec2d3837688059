"""What cannot be captured is refused with the place and what to do."""
import itertools
import random
import unittest
from unittest import mock

import capture_support as support
import numpy as np
import torch
from easyscale.tracing import capture, errors
from easyscale.tracing.lower import LOWERINGS
from torch import nn


class Counter(support.Model):
    """Counts its calls in a Python attribute."""

    def __init__(self):
        super().__init__(None)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


class Recurrent(support.Model):
    """Keeps what it has computed for the next mini-batch, as `keep` says."""

    def __init__(self, keep):
        super().__init__(None)
        self.keep, self.kept, self.all = keep, None, []

    def forward(self, x):
        y = self.layer(x)
        before = self.kept if self.kept is not None else 0.0
        before = self.all[-1] if self.all else before
        self.keep(self, y.detach().mean(0))
        return y + before


def iter_of_numbers():
    number = 0
    while True:
        yield number
        number += 1


class Clock:
    """What is computed changes after a thousand calls."""

    all_calls = 0

    def __init__(self):
        self.calls = 0

    def factor(self):
        self.calls += 1
        return 1.0 if self.calls < 1000 else 0.5


CALLS = [0]


def counted_loss(outputs, targets):
    CALLS[0] += 1
    return outputs.square().mean() * (1.0 if CALLS[0] < 1000 else 0.5)


class CountedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, outputs, targets):
        self.calls += 1
        return outputs.square().mean() * (1.0 if self.calls < 1000 else 0.5)


def hooked(model):
    model.bias.register_hook(lambda gradient: 2 * gradient)
    return model


def filled(model, value):
    nn.init.constant_(model.weight, value)
    return model


class Refusals(unittest.TestCase):
    def refused(self, error, text, function, **options):
        with self.assertRaisesRegex(error, text):
            support.capture_function(function, **options)

    def test_a_branch_on_data(self):
        def forward(m, x):
            y = m.layer(x)
            return y if y.sum() > 0 else -y
        self.refused(errors.DataDependent, r"refusals_test\.py:\d+ branches on the content",
                     forward)

    def test_a_model_that_keeps_something_for_the_next_mini_batch(self):
        for keep in (lambda m, y: setattr(m, "kept", y), lambda m, y: m.all.append(y)):
            model = Recurrent(keep)
            with self.assertRaisesRegex(errors.StateChanged, "keeps something between its calls"):
                capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
            self.assertEqual((model.kept, model.all), (None, []))

    def test_a_model_that_keeps_something_of_its_first_mini_batch(self):
        def forward(m, x):
            if m.kept is None:
                m.kept = x.mean(0)
            return m.layer(x - m.kept)
        model = support.Model(forward)
        model.kept = None
        with self.assertRaisesRegex(errors.StateChanged, "keeps something between its calls"):
            capture(model, nn.MSELoss(), torch.randn(8, 8), torch.randn(8, 8))

    def test_a_model_that_keeps_a_copy_of_its_weights(self):
        def forward(m, x):
            if "weight" not in m.tables:
                m.tables["weight"] = m.layer.weight.detach().clone()
            return m.layer(x) + x @ m.tables["weight"]
        model = support.Model(forward)
        model.tables = {}
        with self.assertRaisesRegex(errors.StateChanged, "of weights that have changed since"):
            capture(model, nn.MSELoss(), torch.randn(8, 8), torch.randn(8, 8))
        self.assertEqual(model.tables, {})

    def test_a_forward_pass_that_writes_into_its_argument_is_captured(self):
        captured = support.capture_function(lambda m, x: m.layer(x.mul_(2)))
        self.assertEqual(support.kinds(captured)[:2], ["mul_scalar", "linear"])

    def test_a_batch_norm_whose_result_only_evaluations_read(self):
        def forward(m, x):
            y = m.layer(x)
            z = m.norm(y)
            return y if m.training else z
        model = support.Model(forward)
        model.norm = nn.BatchNorm1d(8)
        captured = capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
        self.assertEqual([s.name for s in captured.program.statistics],
                         ["norm.running_mean", "norm.running_var"])
        model.forward = lambda x: (model.layer(x), model.norm(model.layer(x)))[0]
        capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_rule_of_the_capture_that_fails_is_not_blamed_on_the_model(self):
        def broken(*_, **__):
            raise AssertionError("another shape")

        def forward(m, x):
            return m.layer(x).relu()
        with mock.patch.dict(LOWERINGS, {"aten.relu.default": broken}):
            self.refused(errors.NotUnderstood, r"aten.relu.default in the model .refusals_test.py:\d+.: "
                         "the capture fails here, and not the model", forward)

    def test_autocast_with_its_place(self):
        def forward(m, x):
            with torch.autocast("cpu", torch.bfloat16):
                return m.layer(x)
        self.refused(errors.ExportFailed, r"autocast at refusals_test.py:\d+: .*precision", forward)

    def test_a_generator_of_torch(self):
        self.refused(errors.ExportFailed, "torch.Generator of its own",
                     lambda m, x: m.layer(x) + torch.randn(8, generator=torch.Generator()))

    def test_a_batch_norm_of_torchs_function_is_captured(self):
        model = support.Model(None)
        model.register_buffer("running_mean", torch.zeros(8))
        model.register_buffer("running_var", torch.ones(8))
        model.forward = lambda x: nn.functional.batch_norm(
            model.layer(x), model.running_mean, model.running_var, training=model.training)
        captured = capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
        self.assertEqual([s.name for s in captured.program.statistics],
                         ["running_mean", "running_var"])

    def test_a_counter_that_no_loss_shows_yet(self):
        def dictionary(m, x):
            m.counts["calls"] += 1
            return m.layer(x)

        clock = Clock()
        for forward, name in ((lambda m, x: m.layer(x) * m.clock.factor(), "model.clock.calls"),
                              (lambda m, x: m.layer(x) * clock.factor(), "clock.calls"),
                              (dictionary, r"model.counts\['calls'\]")):
            model = support.Model(forward)
            model.clock, model.counts = Clock(), {"calls": 0}
            with self.assertRaisesRegex(errors.StateChanged, f"every forward pass changes {name}"):
                capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_counter_that_is_a_tensor_an_array_or_an_iterator(self):
        def in_place(m, x):
            m.kept += 1
            return m.layer(x) * (m.kept < 1000)

        def by_class(m, x):
            Clock.all_calls += 1
            return m.layer(x) if Clock.all_calls < 1000 else x

        def iterator(m, x):
            return m.layer(x) if next(m.kept) < 1000 else x

        def listed(m, x):
            m.kept[0] += 1
            return m.layer(x) * float(m.kept[0] < 1000)
        cases = [(in_place, torch.zeros(())), (in_place, torch.zeros(1, dtype=torch.long)),
                 (by_class, Clock()), (iterator, itertools.count()),
                 (iterator, iter_of_numbers()), (listed, np.zeros(1))]
        for forward, kept in cases:
            model = support.Model(forward)
            model.kept = kept
            with self.subTest(forward.__name__, kept=kept), \
                    self.assertRaisesRegex(errors.StateChanged, "every forward pass changes"):
                capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_counter_of_a_loss(self):
        for loss, name in ((counted_loss, r"CALLS\[0\]"), (CountedLoss(), "calls of the loss")):
            with self.assertRaisesRegex(errors.StateChanged, name):
                support.capture_function(lambda m, x: m.layer(x), loss=loss)

    def test_a_draw_from_a_generator_of_the_model(self):
        for generator in (random.Random(1), np.random.default_rng(1), np.random.RandomState(1)):
            with self.assertRaisesRegex(errors.StateChanged, "draws from a random generator"):
                support.capture_function(
                    lambda m, x, g=generator: m.layer(x) if g.uniform(0, 1) < 2 else x)

    def test_a_seed_for_numbers_that_are_the_same_in_each_step(self):
        def forked(m, x):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                return m.layer(x + torch.rand(x.shape[1:]))

        def restored(m, x):
            state = torch.get_rng_state()
            torch.manual_seed(0)
            noise = torch.randn(x.shape)
            torch.set_rng_state(state)
            return m.layer(x + noise)
        for forward in (forked, restored):
            with self.assertRaisesRegex(errors.CaptureError, r"refusals_test.py:\d+.*torch.manual_seed"
                                        ".*register_buffer"):
                support.capture_function(forward)

    def test_what_is_logged_and_made_once_is_allowed(self):
        def forward(m, x):
            m.logged["mean"] = x.mean().item()
            if m.mask.numel() != 8:
                m.mask = torch.ones(8)
            m.tables.setdefault(x.shape[1], torch.arange(x.shape[1]))
            return m.layer(x * m.mask + m.tables[8])
        model = support.Model(forward)
        model.logged, model.tables = {}, {}
        model.register_buffer("mask", torch.ones(2))
        capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_hook_on_a_gradient(self):
        def forward(m, x):
            y = m.layer(x)
            y.register_hook(lambda gradient: gradient.clamp(-100, 100))
            return y
        self.refused(errors.CaptureError, "registers a hook on a gradient", forward)
        for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
            model = support.Model(lambda m, x: m.layer(x))
            getattr(model.layer, register)(lambda *arguments: None)
            with self.assertRaisesRegex(errors.CaptureError, "module layer has a backward hook"):
                capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_forward_pass_that_differs_for_the_batch_size_of_the_job(self):
        def branched(m, x):
            return m.layer(x) if len(x) < 20 else torch.tanh(m.layer(x))
        for forward in (branched, lambda m, x: m.layer(x) / min(len(x), 20),
                        lambda m, x: m.layer(x) * (2 if len(x) == 32 else 1)):
            support.capture_function(branched, batch_size=16)
            self.refused(errors.BatchTraced, "batch_size 8", lambda m, x: m.layer(x) / (len(x) // 2))
            self.refused(errors.BatchTraced, "32", forward, batch_size=32)

    def test_gradients_by_other_ways_than_autograd_grad(self):
        def of(m, x):
            return torch.tanh(m.layer(x)).sum()

        def backwards(m, x):
            x = x.detach().requires_grad_()
            of(m, x).backward(create_graph=True)
            return x.grad

        for text, forward in (
                (r"calls backward\(\).* torch.autograd.grad", backwards),
                ("grad, vjp or jacrev", lambda m, x: torch.func.grad(lambda y: of(m, y))(x)),
                ("grad, vjp or jacrev", lambda m, x: torch.func.vjp(m.layer, x)[1](x)[0]),
                ("jvp or jacfwd", lambda m, x: torch.func.jvp(m.layer, (x,), (x,))[1])):
            self.refused(errors.CaptureError, text, forward)

    def test_a_constant_that_is_equal_to_the_batch_size_is_allowed(self):
        def forward(m, x):
            rows = nn.functional.cross_entropy(m.layer(x) @ x.T, torch.arange(len(x)))
            columns = nn.functional.cross_entropy(x.T @ m.layer(x), torch.arange(8))
            return rows + columns + m.layer(x).sum() / len(x) / 8
        for size in (8, 16):
            support.capture_function(forward, loss=lambda outputs, targets: outputs, batch_size=size)

    def test_a_tensor_that_is_kept_and_not_read_is_allowed(self):
        def forward(m, x):
            m.seen = m.layer(x)
            return m.seen
        support.capture_function(forward)

    def test_a_forward_that_changes_a_parameter(self):
        def forward(m, x):
            m.layer.weight.data = nn.functional.normalize(m.layer.weight.data)
            return m.layer(x)
        self.refused(errors.StateChanged, "changes layer.weight", forward)

    def test_a_forward_that_would_change_a_parameter_later(self):
        def forward(m, x):
            m.layer.weight.data = m.layer.weight.data.clamp(-100, 100)
            return m.layer(x)
        self.refused(errors.StateChanged, "changes layer.weight", forward)

    def test_pools_that_are_undone_with_windows_that_overlap(self):
        def forward(m, x):
            y, places = nn.functional.max_pool1d(m.layer(x), 3, 1, return_indices=True)
            return nn.functional.max_unpool1d(y, places, 3, 1)
        self.refused(errors.CaptureError, "max_unpool1d of windows .3. with the strides .1.",
                     forward)

    def test_a_batch_norm_that_averages_all_mini_batches(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=None))
        with self.assertRaisesRegex(errors.CaptureError, "batch norm 1 has momentum=None"):
            capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_branch_on_a_random_number(self):
        def forward(m, x):
            return x if m.training and torch.rand(()) < 0.3 else m.layer(x)
        self.refused(errors.DataDependent, "branches on the content", forward)

    def test_random_numbers_that_the_engine_does_not_draw(self):
        draws = {
            "randperm": lambda: torch.randperm(4000)[:8], "poisson": lambda: torch.poisson(torch.ones(8)),
            "multinomial": lambda: torch.multinomial(torch.ones(8), 8),
            "_sample_dirichlet": lambda: torch.distributions.Beta(torch.ones(8), 1.0).sample(),
            "log_normal": lambda: torch.empty(8).log_normal_()}
        for name, draw in draws.items():
            self.refused(errors.UnsupportedOperators, f"aten.{name}",
                         lambda m, x, draw=draw: m.layer(x) * draw())

    def test_no_trainable_parameter(self):
        model = support.Model(lambda m, x: m.layer(x)).requires_grad_(False)
        with self.assertRaisesRegex(errors.NoTrainableParameter, "requires_grad=True"):
            capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_loss_without_any_parameter(self):
        self.refused(errors.NoTrainableParameter, "takes part in the loss", lambda m, x: x)

    def test_a_forward_without_gradients(self):
        def forward(m, x):
            with torch.no_grad():
                return m.layer(x)
        self.refused(errors.NoTrainableParameter, "no_grad", forward)

    def test_a_loss_that_is_no_number(self):
        self.refused(errors.LossNotScalar, r"shape \[3, 8\]", lambda m, x: m.layer(x),
                     loss=lambda outputs, targets: outputs)

    def test_a_batch_size_in_a_view(self):
        self.refused(errors.BatchTraced,
                     r"refusals_test\.py:\d+.* runs with 3 samples and not with 4, 8, 5, .*use -1",
                     lambda m, x: m.layer(x).view(3, 8))
        self.refused(errors.BatchTraced, "runs with 4 samples and not with 8, 3, 5,",
                     lambda m, x: m.layer(x).view(4, 8))

    def test_a_forward_that_fails_with_any_number_of_samples(self):
        self.refused(errors.ExportFailed, r"refusals_test\.py:\d+: RuntimeError.* fail on the example "
                                          "themselves, with RuntimeError",
                     lambda m, x: m.layer(x) @ torch.ones(3, 3))

    def test_a_branch_on_the_batch_size(self):
        self.refused(errors.BatchTraced, "3 and 5 samples",
                     lambda m, x: torch.relu(m.layer(x)) if len(x) == 3 else torch.tanh(m.layer(x)))

    def test_a_constant_that_depends_on_the_batch_size(self):
        self.refused(errors.BatchTraced, "depends on the number of samples",
                     lambda m, x: m.layer(x) * torch.linspace(0, 1, len(x))[:, None])

    def test_all_unsupported_operators_are_listed(self):
        def forward(m, x):
            y = m.layer(x)
            y = torch.special.bessel_j0(y) + torch.i0(y)
            return y + torch.i0(y)
        with self.assertRaises(errors.UnsupportedOperators) as raised:
            support.capture_function(forward)
        text = str(raised.exception)
        self.assertRegex(text, r"aten\.i0\.default: .*; 2 times, first in .*refusals_test\.py")
        self.assertIn("aten.special_bessel_j0.default", text)

    def test_an_unknown_write_of_complex_numbers(self):
        def forward(m, x):
            y = torch.view_as_complex(m.layer(x).view(-1, 4, 2)).clone()
            y.tan_()
            return torch.view_as_real(y)
        with self.assertRaisesRegex(errors.UnsupportedOperators, "tan_.*writes complex"):
            support.capture_function(forward)

    def test_a_changed_attribute(self):
        with self.assertRaisesRegex(errors.StateChanged, "calls"):
            capture(Counter(), nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_draw_from_pythons_generator(self):
        self.refused(errors.StateChanged, "random generator",
                     lambda m, x: m.layer(x) * random.random())

    def test_a_type_that_the_engine_does_not_have(self):
        model = support.Model(lambda m, x: m.layer(x)).double()
        with self.assertRaisesRegex(errors.UnsupportedType, "layer.weight"):
            capture(model, nn.MSELoss(), torch.randn(4, 8).double(), torch.randn(4, 8).double())

    def test_a_module_that_is_wrapped_or_cannot_begin(self):
        for model, text in (
                (torch.jit.script(nn.Linear(4, 3)), "TorchScript module: pass"),
                (torch.jit.trace(nn.Linear(4, 3), torch.randn(2, 4)), "TorchScript module: pass"),
                (torch.compile(nn.Linear(4, 3)), "torch.compile: pass .*_orig_mod"),
                (nn.Linear(4, 3, device="meta"), "weight is on the device meta"),
                (hooked(nn.Linear(4, 3)), "bias has a hook on its gradient"),
                (filled(nn.Linear(4, 3), torch.nan), "weight has an element that is not finite")):
            with self.assertRaisesRegex(errors.CaptureError, text):
                capture(model, nn.MSELoss(), torch.randn(8, 4), torch.randn(8, 3))

    def test_a_spectral_norm_in_evaluation_is_captured(self):
        model = nn.Sequential(nn.Linear(8, 8),
                              nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)))
        model[1].parametrizations.eval()
        capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_a_shape_that_depends_on_the_data(self):
        self.refused(errors.DataDependent, r"unique.* \w+\.py:\d+ .*shape",
                     lambda m, x: m.layer(x) * torch.unique(m.layer(x)).sum())

    def test_example_tensors_of_different_lengths(self):
        with self.assertRaisesRegex(errors.CaptureError, "same number"):
            capture(support.Model(lambda m, x: m.layer(x)), nn.MSELoss(), torch.randn(4, 8),
                    torch.randn(3, 8))


if __name__ == "__main__":
    unittest.main()
