"""The small models of scripts/zoo, as users write them, are captured, or refused for a known reason.

`capture` compares loss, outputs and gradients with those of the module. A plain run takes every third
model of a field, and with ES_ALL_MODELS=1 all of them, which takes minutes.
"""
import os
import sys
import unittest
import warnings
from importlib.util import find_spec

import capture_support as support
import torch
from easyscale.tracing import capture, errors

sys.path.insert(0, str(support.Path(__file__).resolve().parents[2] / "tests/bench/zoo"))
import zoo_models
import zoo_users
from zoo_case import without_dropout

SEED = 0
REFUSED = {"momentum_queue": errors.BatchTraced, "annealed": errors.StateChanged,
           "deep_kernel": errors.BatchTraced}
EVERY = 1 if os.environ.get("ES_ALL_MODELS") == "1" else 3
NEEDS_TORCHVISION = {"detector"}  # for its loss


class Users(unittest.TestCase):
    def captured(self, entry):
        torch.manual_seed(SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of layers that torch calls old
            case = entry.make()
        without_dropout(case.model)
        return capture(case.model, case.loss, case.inputs, case.targets,
                       allow_functions=case.allow_functions)

    def check(self, entries):
        for entry in entries[::EVERY]:
            with self.subTest(entry.name, seed=SEED):
                if entry.name in NEEDS_TORCHVISION and not find_spec("torchvision"):
                    print(f"skipped: {entry.name}, because torchvision is not installed")
                elif entry.name in REFUSED:
                    with self.assertRaises(REFUSED[entry.name]):
                        self.captured(entry)
                else:
                    self.assertTrue(self.captured(entry).program.nodes)

    def test_one_model_of_each_usual_kind(self):
        self.check(zoo_users.entries())

    def test_the_models_of_every_field(self):
        for field in zoo_models.FIELDS:
            self.check(zoo_models.users_models(field))


if __name__ == "__main__":
    unittest.main()
