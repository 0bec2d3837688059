"""Constructs whose gradient a tracer loses silently, and tied weights."""
import unittest
from unittest import mock

import capture_support as support
import torch
import torch.nn.functional as F
from easyscale.tracing import capture, check, errors
from torch import nn
from torch.utils.checkpoint import checkpoint


class Swish(torch.autograd.Function):
    """A custom function with its own gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        s = torch.sigmoid(x)
        return gradient * (s + x * s * (1 - s))


class Wrong(Swish):
    """Its gradient is not that of its forward."""

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


class Scaled(torch.autograd.Function):
    """Its gradient is that of its forward, but for 0.5 %."""

    @staticmethod
    def forward(ctx, x):
        return x * 3.0

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3.015


def amplifying(m, x):
    """Doubles a difference in every round, and begins with one: torch.addmm with factors, which a
    program computes in parts, rounds less often."""
    y = torch.sigmoid(torch.addmm(m.layer(x), x, x.T @ x, beta=0.3, alpha=0.7))
    for _ in range(20):
        y = 4 * y * (1 - y)
    return y


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.words(ids)).transpose(1, 2)


class FrozenNorm(nn.Module):
    """Its batch norm stays in evaluation, by a `train` of its own."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.norm.running_mean.fill_(0.5)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x):
        return self.norm(self.layer(x))


class Traps(unittest.TestCase):
    def test_a_custom_function_is_refused_by_name(self):
        with self.assertRaisesRegex(errors.CustomFunction, "Swish"):
            support.capture_function(lambda m, x: Swish.apply(m.layer(x)))

    def test_an_allowed_function_is_captured_by_its_forward(self):
        captured = support.capture_function(lambda m, x: Swish.apply(m.layer(x)),
                                            allow_functions=(Swish,))
        self.assertEqual(support.kinds(captured)[:3], ["linear", "sigmoid", "mul"])

    def test_the_self_check_finds_a_gradient_that_differs(self):
        with self.assertRaisesRegex(errors.SelfCheckFailed, "gradient of layer"):
            support.capture_function(lambda m, x: Wrong.apply(m.layer(x)),
                                     allow_functions=(Wrong,))

    def test_a_model_that_amplifies_rounding_is_compared_in_double_precision(self):
        with mock.patch.object(check, "_in_double", wraps=check._in_double) as in_double:
            support.capture_function(amplifying)
        self.assertEqual(in_double.call_count, 2)  # in training and in evaluation

    def test_what_was_compared_in_double_precision_is_in_fp32_again(self):
        model, loss = support.Model(amplifying), nn.MSELoss()
        model.register_buffer("table", torch.ones(8))
        x = torch.randn(support.SAMPLES, 8)
        loss(model(x), x).backward()
        before = {name: (p.clone(), p.grad.clone()) for name, p in model.named_parameters()}
        capture(model, loss, x, torch.zeros_like(x))
        for name, p in model.named_parameters():
            for tensor, known in zip((p, p.grad), before[name]):
                self.assertEqual(tensor.dtype, torch.float32)
                self.assertTrue(torch.equal(tensor, known), name)
        self.assertEqual(model.table.dtype, torch.float32)

    def test_a_small_fault_of_a_model_that_amplifies_rounding_is_found(self):
        with self.assertRaisesRegex(errors.SelfCheckFailed, "gradient of layer"):
            support.capture_function(lambda m, x: Scaled.apply(amplifying(m, x)),
                                     allow_functions=(Scaled,))

    def test_a_model_that_does_not_run_in_double_precision_is_judged_in_fp32(self):
        mask = torch.eye(8)
        with self.assertRaisesRegex(errors.SelfCheckFailed, "the loss differs"):
            support.capture_function(lambda m, x: amplifying(m, x @ mask))

    def test_both_forms_of_checkpoint_keep_their_gradient(self):
        for reentrant in (True, False):
            captured = support.capture_function(lambda m, x, r=reentrant: checkpoint(
                lambda y: F.dropout(torch.tanh(m.layer(y)), 0.3), m.layer(x), use_reentrant=r))
            self.assertEqual(support.kinds(captured)[:4], ["linear", "linear", "tanh", "dropout"])
            self.assertEqual([node.region for node in captured.program.nodes[:5]], [0, 1, 1, 1, 0])

    def test_every_checkpoint_is_a_region_and_inner_ones_belong_to_the_outer(self):
        def block(m, y):
            return torch.sin(checkpoint(m.layer, y, use_reentrant=False))

        def forward(m, x):
            y = checkpoint(block, m, m.layer(x), use_reentrant=False)
            return checkpoint(lambda z: torch.exp(z), y, use_reentrant=False).abs()
        captured = support.capture_function(forward)
        regions = [(node.kind, node.region) for node in captured.program.nodes[:5]]
        self.assertEqual(regions, [("linear", 0), ("linear", 1), ("sin", 1), ("exp", 2),
                                   ("abs", 0)])

    def test_a_checkpoint_that_loses_its_gradient_in_torch_is_refused(self):
        with self.assertRaisesRegex(errors.SelfCheckFailed, "gradient of layer"):
            support.capture_function(lambda m, x: checkpoint(m.layer, x, use_reentrant=True))

    def test_a_region_without_gradient_stops_it(self):
        def forward(m, x):
            with torch.no_grad():
                scale = m.layer(x).abs().amax()
            return m.layer(x) / scale
        self.assertIn("stop_gradient", support.kinds(support.capture_function(forward)))

    def test_detach_stops_the_gradient(self):
        captured = support.capture_function(lambda m, x: m.layer(x) * m.layer(x).detach())
        self.assertIn("stop_gradient", support.kinds(captured))

    def test_tied_weights_are_one_parameter_with_an_alias(self):
        captured = capture(Tied(), nn.CrossEntropyLoss(), torch.randint(0, 9, (4, 5)),
                           torch.randint(0, 9, (4, 5)))
        (parameter,) = captured.program.parameters
        self.assertEqual((parameter.name, parameter.aliases), ("words.weight", ["head.weight"]))
        self.assertEqual(list(captured.weights), ["words.weight"])

    def test_parameters_that_share_memory_are_refused(self):
        model = Tied()
        model.head.weight = nn.Parameter(model.words.weight.detach())
        with self.assertRaisesRegex(errors.CaptureError, "words.weight and head.weight share"):
            capture(model, nn.CrossEntropyLoss(), torch.randint(0, 9, (4, 5)),
                    torch.randint(0, 9, (4, 5)))

    def test_compiled_parts_are_captured_as_they_were_written(self):
        function = torch.compile(torch.sin)
        model = support.Model(lambda m, x: function(m.part(m.layer(x))))
        model.part = torch.compile(nn.Linear(8, 8))
        captured = capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
        self.assertEqual(support.kinds(captured)[:3], ["linear", "linear", "sin"])

    def test_integers_of_eight_bits_wrap(self):
        functions = {
            "sum": lambda x: x + 100, "product": lambda x: x * 3, "difference": lambda x: x - 100,
            "negative": lambda x: -x, "shift": lambda x: x << 1, "power": lambda x: x ** 3,
            "conversion": lambda x: (x.long() * 1000).to(x.dtype)}
        for dtype in (torch.uint8, torch.int8, torch.int16):
            x = torch.arange(-128, 128).repeat(2).view(-1, 8).to(dtype)
            scale = 100 if dtype == torch.int16 else 1
            for name, function in functions.items():
                with self.subTest(name, dtype=dtype):
                    capture(support.Model(lambda m, x, f=function: m.layer(f(x * scale).float() / 99)),
                            nn.MSELoss(), x, torch.randn(len(x), 8))

    def test_the_mode_of_a_module_is_the_one_that_train_gives_it(self):
        for prepare in (lambda m: m, nn.Module.train, lambda m: m.eval(), lambda m: m.train()):
            model = FrozenNorm()
            prepare(model)
            modes = [module.training for module in model.modules()]
            captured = capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
            self.assertEqual(captured.program.statistics, [])
            self.assertEqual([module.training for module in model.modules()], modes)

    def test_a_module_that_the_user_has_put_into_evaluation_stays_there(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.BatchNorm1d(8))
        model[1].eval()
        captured = capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))
        self.assertEqual({s.name.split(".")[0] for s in captured.program.statistics}, {"2"})

    def test_a_write_past_autograd_changes_the_content_and_not_the_gradient(self):
        def data(m, x):
            y = m.layer(x)
            y.data.masked_fill_(x > 0, -1e4)
            return torch.softmax(y, 1)

        def detached(m, x):
            y = m.layer(x) + 0
            y.detach()[:, 2:].clamp_(max=0.25)
            return y
        for forward in (data, detached):
            support.capture_function(forward)

    def test_the_data_of_a_tensor_is_content_without_a_gradient(self):
        captured = support.capture_function(lambda m, x: m.layer(x) * m.layer(x).sin().data)
        self.assertIn("stop_gradient", support.kinds(captured))

    def test_a_write_to_a_diagonal_changes_the_matrix(self):
        def forward(m, x):
            y = m.layer(x).view(-1, 2, 4) * 1
            y.diagonal(dim1=-2, dim2=-1).add_(x[:, :2])
            y.diagonal(1, 1, 2).mul_(3.0)
            y.diagonal(-1, -2, -1).fill_(0.5)
            return y
        support.capture_function(forward)

    def test_an_inplace_write_to_a_view_changes_its_base(self):
        def forward(m, x):
            y = m.layer(x)
            y[:, 2:4] *= 3.0
            y[:, 0] = 1.0
            y[:, 1].fill_(2.0)
            y[:, 5].zero_()
            return F.relu_(y)
        support.capture_function(forward)

    def test_a_view_sees_a_later_write_to_its_base(self):
        def forward(m, x):
            y = m.layer(x)
            part = y.view(-1, 2, 4)[:, 1]
            y.mul_(2.0)
            return part
        support.capture_function(forward)


if __name__ == "__main__":
    unittest.main()
