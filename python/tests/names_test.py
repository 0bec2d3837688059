"""Functions of torch that a file imports by their names, as most users' files do, are exchanged at capture
like those that are called as torch.NAME."""
import functools
import types
import unittest

import capture_support as support
import torch
from easyscale.tracing import errors
from torch import manual_seed, quantile, unique, where
from torch.nn.functional import normalize


class Straight(torch.autograd.Function):
    """The sign, whose gradient is that of a copy."""

    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


straight = Straight.apply
FILE = """
import torch
from torch import unique

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x) * unique(torch.tensor([1, 1, 2])).numel()
"""


class Holder(torch.nn.Module):
    """Holds a function as an attribute."""

    def __init__(self, function):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.function = function

    def forward(self, x):
        return self.function(self.layer(x))


def capture(model):
    from easyscale.tracing import capture
    return capture(model, lambda outputs, targets: outputs.sin().mean(), torch.randn(4, 8), torch.zeros(4))


class Names(unittest.TestCase):
    def test_a_name_of_a_function_with_a_result_of_a_known_size(self):
        captured = support.capture_function(lambda m, x: m.layer(x) * unique(torch.tensor([1, 1, 2])).numel())
        self.assertIn("mul_scalar", support.kinds(captured))

    def test_a_name_of_a_function_that_python_does_not_define(self):
        def chosen(m, x):
            y = m.layer(x)
            places = where(y > 0)
            result = torch.zeros_like(y)
            result[places] = y[places]
            return result
        self.assertIn("where", support.kinds(support.capture_function(chosen)))

    def test_a_name_of_a_custom_function_is_refused_by_the_name_of_its_class(self):
        with self.assertRaisesRegex(errors.CustomFunction, "names_test.Straight|__main__.Straight"):
            support.capture_function(lambda m, x: straight(m.layer(x)))
        self.assertTrue(support.capture_function(lambda m, x: straight(m.layer(x)) + m.layer(x),
                                                 allow_functions=(Straight,), check=False))

    def test_a_name_of_the_seed_is_refused(self):
        with self.assertRaisesRegex(errors.CaptureError, "sets the seed"):
            support.capture_function(lambda m, x: m.layer(x) if manual_seed(1) else x)

    def test_an_attribute_a_part_of_a_function_and_a_variable_of_a_closure(self):
        median = quantile
        for function in (functools.partial(quantile, q=0.5, dim=1), lambda x: median(x, 0.5, dim=1),
                         lambda x, f=quantile: f(x, 0.5, dim=1)):
            captured = capture(Holder(function))
            self.assertEqual(support.kinds(captured), support.kinds(capture(Holder(
                lambda x: torch.quantile(x, 0.5, dim=1)))))

    def test_a_file_that_is_no_module_of_python(self):  # as torch.hub loads one
        module = types.ModuleType("loaded")
        exec(compile(FILE, "loaded.py", "exec"), vars(module))
        self.assertIn("mul_scalar", support.kinds(capture(module.Model())))

    def test_the_names_are_as_they_were_after_a_capture(self):
        holder = Holder(normalize)
        before = (unique, where, quantile, straight)
        capture(holder)
        self.assertEqual(before, (unique, where, quantile, straight))
        self.assertIs(holder.function, normalize)
        self.assertIs(normalize, torch.nn.functional.normalize)


if __name__ == "__main__":
    unittest.main()
