#!/usr/bin/env python3
"""The history of a run, its curve, the progress line and the text of a job file."""
import math
import tomllib
import unittest
import xml.etree.ElementTree as ElementTree

import support  # noqa: F401  sets the path of the package

import easyscale as es
from easyscale.history import loss_curve, records
from easyscale.job_text import stages_text, toml_text


def line(step, *losses):
    return {"step": step, "losses": list(losses), "params_digest": "ab"}


class History(unittest.TestCase):
    def test_a_step_has_its_mean_loss_speed_and_evaluation(self):
        evaluation = {"version": 2, "mean_loss": 3.0}
        found = records([line(1, 1.0, 2.0), line(2, 3.0), line(3, 4.0)], [evaluation],
                        [(2, 100.0), (2, 110.0)])
        self.assertEqual([r.loss for r in found], [1.5, 3.0, 4.0])
        self.assertEqual([r.samples_per_s for r in found], [100.0, 100.0, None])
        self.assertEqual([r.evaluation for r in found], [None, evaluation, None])

    def test_a_loss_that_is_not_finite_is_nan(self):
        self.assertTrue(math.isnan(records([line(1, None)], [], [])[0].loss))

    def test_the_curve_is_xml_with_one_point_a_step(self):
        found = records([line(i + 1, 1.0 / (i + 1)) for i in range(10)],
                        [{"version": 5, "mean_loss": 0.3}], [])
        text = loss_curve(found, "a < b")
        self.assertEqual(text.count("<circle"), 1)
        points = ElementTree.fromstring(text).find("{*}polyline").get("points").split()
        self.assertEqual(len(points), 10)

    def test_a_curve_of_nothing_and_of_one_step(self):
        ElementTree.fromstring(loss_curve([], "empty"))
        ElementTree.fromstring(loss_curve(records([line(1, 2.0)], [], []), "one"))

    def test_a_long_curve_is_thinned(self):
        found = records([line(i + 1, 1.0) for i in range(10000)], [], [])
        self.assertLess(len(loss_curve(found, "long")), 60000)


class Text(unittest.TestCase):
    def test_toml_is_read_back(self):
        tables = {"a": {"text": 'x"\\\n é', "number": 1e-8, "whole": 10**12, "flag": True},
                  "empty": {}}
        self.assertEqual(tomllib.loads(toml_text({"top": 1}, tables)),
                         {"top": 1, "a": tables["a"]})

    def test_the_last_stage_has_the_rest(self):
        self.assertEqual(stages_text("a:1@3,b:2", None, 10), "a:1@3,b:2@7")
        self.assertEqual(stages_text("a:1", None, 10), "a:1@10")
        self.assertEqual(stages_text("a:1@4, b:1@6", None, 10), "a:1@4,b:1@6")
        self.assertEqual(stages_text(None, "a:1", 10), "a:1@10")
        self.assertEqual(stages_text(None, None, 10), "")

    def test_stages_that_do_not_fit_are_refused(self):
        for stages in ("a:1@4,b:1@5", "a:1@10,b:1", "a:1@0,b:1", "a:1,b:1@3", "a:1@x,b:2", ",a:1"):
            with self.assertRaises(es.UsageError, msg=stages):
                stages_text(stages, None, 10)
        with self.assertRaises(es.UsageError):
            stages_text("a:1", "a:1", 10)


if __name__ == "__main__":
    unittest.main()
