#!/usr/bin/env python3
"""Optimizers that are captured as programs, beside torch."""
import unittest

import numpy as np
import support  # noqa: F401  sets the path of the package

from easyscale.program import (FORMAT_WITH_UPDATES, Node, Numbers, Output, Parameter, Phase,
                               Program, Update, Value)


class Files(unittest.TestCase):
    def test_updates_are_the_same_after_a_file(self):
        values = [Value("f32", []) for _ in range(4)]
        update = Program(values=values, parameters=[
            Parameter("parameter", 0, trainable=False), Parameter("gradient", 1, trainable=False),
            Parameter("number.0", 2, trainable=False)],
            nodes=[Node("mul", [1, 2], [3])], outputs=[Output("parameter", 3)])
        program = Program(format=FORMAT_WITH_UPDATES, numbers=[
            Numbers("lr", np.array([0.5, 0.1], np.float32))],
            updates=[Update(["bias"], [update], [Phase(0, 0)])])
        again = Program.from_json(program.to_json())
        self.assertEqual(again.updates, program.updates)
        self.assertEqual(again.numbers[0].values.tolist(), program.numbers[0].values.tolist())
        self.assertNotIn("updates", Program().to_json())


if __name__ == "__main__":
    unittest.main()
