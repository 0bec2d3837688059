"""Integers have the widths of torch: random programs beside torch, and those that decide widths."""
import os
import random
import unittest

import capture_support as support
import numpy as np
import torch
import torch.nn.functional as F
from easyscale.interpret import Context, Undefined, interpret
from easyscale.tracing import capture, errors
from torch import nn

ROWS, COLUMNS = 12, 3
INT = (torch.int64, torch.int32, torch.uint8)


class Model(nn.Module):
    """A head on numbers that a function makes of the samples."""

    def __init__(self, function):
        super().__init__()
        self.function, self.layer = function, nn.Linear(COLUMNS, 1)

    def forward(self, x, i):
        return self.layer(self.function(x, i).float()).mean()


def captured(function, x, i, check=True):
    model = Model(function)
    return capture(model, None, (x, i), check=check, batch_size=4).program, model


def kinds(program, type_=None):
    return [node.kind for node in program.nodes
            if type_ in (None, program.values[node.outputs[0]].type)]


def samples(seed=1, large=False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, COLUMNS, generator=generator) * (2.0 ** 40 if large else 5)
    low, high = (-2 ** 31, 2 ** 31 - 1) if large else (-50, 50)
    return x, torch.randint(low, high, (ROWS, COLUMNS), generator=generator)


class RandomProgram:
    """A function of samples that is made of random operators of integers."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, x, i):
        choose = random.Random(self.seed)
        small = x.clamp(-1e6, 1e6)
        values = [i, i.int(), (i % 256).to(torch.uint8), (small * 1e6).long(), small.int(), i > 3]
        for _ in range(choose.randint(2, 6)):
            values.append(self._next(choose, values))
        result = values[-1]
        return (result % 1009 if not result.is_floating_point() and result.dtype != torch.bool
                else result)

    def _next(self, choose, values):
        a, b = choose.choice(values), choose.choice(values)
        number = choose.choice([1, 2, 3, 7, 255, 73856093, -5, 2 ** 33 + 7])
        if a.dtype != torch.int64:
            number = abs(number) % 100 + 1
        whole, b = (t.long() if t.dtype == torch.bool else t for t in (a, b))
        return choose.choice([
            lambda: whole + b, lambda: whole - b, lambda: whole * b, lambda: whole * number,
            lambda: whole % number, lambda: whole // number, lambda: whole & b.to(whole.dtype),
            lambda: whole ^ number, lambda: whole | b.to(whole.dtype),
            lambda: whole << choose.randint(0, 7), lambda: whole >> choose.randint(0, 9),
            lambda: torch.where(b > 5, whole, whole.flip(1)), lambda: whole < b,
            lambda: whole == b, lambda: torch.maximum(whole, b.to(whole.dtype)),
            lambda: torch.minimum(whole, b.to(whole.dtype)), lambda: whole.long(),
            lambda: whole.int(), lambda: whole.to(torch.uint8), lambda: -whole.long(),
            lambda: whole.long().abs(), lambda: whole.cumsum(1),
            lambda: whole.sum(1, keepdim=True).expand(-1, COLUMNS),
            lambda: whole.amax(1, keepdim=True) + whole, lambda: whole ** 3,
            lambda: torch.fmod(whole, number), lambda: ~whole,
            lambda: (whole.long() // 3).float().clamp(-1e9, 1e9).long(),
            lambda: torch.div(whole, number, rounding_mode="trunc"),
            lambda: whole.gather(1, b.long() % COLUMNS),
            lambda: whole.argmax(1, keepdim=True) + whole])()


class RandomProgramsTest(unittest.TestCase):
    def test_a_program_of_integers_has_the_numbers_of_torch(self):
        first = int(os.environ.get("ES_SEED", "20261128"))
        compared = 0
        for seed in range(first, first + 40):
            function = RandomProgram(seed)
            x, i = samples(seed, large=seed % 3 == 0)
            with self.subTest(f"ES_SEED={seed}"):
                program, model = captured(function, x, i, check=False)
                values = interpret(program, dict(model.named_parameters()), {"x": x, "i": i},
                                   Context(training=True))
                wanted = function(x, i).float()
                product = next(node for node in program.nodes if node.kind == "linear")
                found = values[product.inputs[0]]
                self.assertTrue(torch.equal(found.reshape(wanted.shape), wanted),
                                (kinds(program), found, wanted))
                compared += 1
        self.assertGreater(compared, 30)


class WidthsTest(unittest.TestCase):
    def test_ordinary_integers_keep_32_bits_and_the_first_format(self):
        x, i = samples()
        for function in (lambda x, i: (i > 0).sum(1, keepdim=True).expand(-1, 3),
                         lambda x, i: (x > 0).cumsum(1),
                         lambda x, i: (torch.rand(3) * 1000).long() + 0 * x,
                         lambda x, i: torch.arange(3) + 0 * x,
                         lambda x, i: torch.where(i == 3, 0, i)):
            program, _ = captured(function, x, i)
            self.assertEqual(program.format, 1, kinds(program))
            self.assertEqual(kinds(program, "i64"), [])

    def test_what_may_leave_32_bits_has_64(self):
        x, i = samples(large=True)
        for function in (lambda x, i: (i * 73856093) % 1009, lambda x, i: (x * 1e4).long() % 11,
                         lambda x, i: (i + 1) // 5, lambda x, i: i.sum(1, keepdim=True) % 7 + 0 * i,
                         lambda x, i: (i ** 3) % 1009, lambda x, i: (-i) % 1009):
            program, _ = captured(function, x, i)
            self.assertEqual(program.format, 3)
            self.assertTrue(kinds(program, "i64"))

    def test_inputs_are_limited_by_the_tables_that_they_choose_rows_of_only(self):
        x, i = samples()
        program, _ = captured(lambda x, i: (i * 40503 + 17) % 100 + i * i, x, i)
        self.assertEqual((program.inputs[1].low, program.inputs[1].high), (-2 ** 31, 2 ** 31 - 1))

    def test_the_lowest_bits_alone_need_32(self):
        program, _ = captured(lambda x, i: (i[:, :1] * 73856093 ^ i * 19349663) & 63, *samples())
        self.assertEqual(kinds(program, "i64"), [])

    def test_the_check_has_the_widths_of_the_engine(self):
        x, i = samples(large=True)
        program, model = captured(lambda x, i: (i * 73856093) % 1009, x, i)
        for value in program.values:  # as if the engine had 32 bits only
            value.type = "i32" if value.type == "i64" else value.type
        program.nodes = [node for node in program.nodes]
        for node in program.nodes:
            if node.kind == "cast" and node.attributes["to"] == "i64":
                node.attributes["to"] = "i32"
        for constant in program.constants:
            constant.array = constant.array.astype(np.int32)
        values = interpret(program, dict(model.named_parameters()), {"x": x, "i": i},
                           Context(training=True))
        right = model(x, i)
        self.assertFalse(torch.allclose(values[program.loss], right, rtol=1e-4))


class NumbersTest(unittest.TestCase):
    def test_a_number_has_the_type_of_the_tensor_beside_it(self):
        x, i = samples()
        for function in (lambda x, i: (i % 256).to(torch.uint8) > 300,
                         lambda x, i: (i % 256).to(torch.uint8) % 1009,
                         lambda x, i: torch.maximum((i % 256).to(torch.uint8), torch.tensor(300)),
                         lambda x, i: i.int() % (2 ** 33 + 7), lambda x, i: i.int() < 2 ** 33):
            captured(function, x, i)  # whose check compares it with torch


class UndefinedTest(unittest.TestCase):
    """What torch does not define is refused by name."""

    def test_a_real_number_beyond_the_integers(self):
        x, i = samples()
        for function, part in ((lambda x, i: (x * 1e30).long() % 7, "no integer of 64 bits"),
                               (lambda x, i: (x * 1e12).int() % 7, "is not in"),
                               (lambda x, i: (x - 1e3).to(torch.uint8), "is not in"),
                               (lambda x, i: (x / 0).long() % 7, "no integer of 64 bits")):
            with self.assertRaisesRegex(errors.UndefinedResult,
                                        rf"integers_test.py:\d+\).*{part}.*clamp"):
                captured(function, x, i)

    def test_a_division_by_zero(self):
        with self.assertRaisesRegex(errors.CaptureError, "division of integers by 0"):
            captured(lambda x, i: i % 0, *samples(), check=False)

    def test_a_power_with_a_computed_exponent(self):
        with self.assertRaisesRegex(errors.UnsupportedOperators, "computed exponent"):
            captured(lambda x, i: i ** i.clamp(0, 3), *samples(), check=False)


if __name__ == "__main__":
    unittest.main()
