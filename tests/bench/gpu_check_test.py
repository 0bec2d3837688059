#!/usr/bin/env python3
"""Tests scripts/gpu_check: its time limits, the order of its measurements, and the rows that it
writes.

  gpu_check_test.py SCRIPTS_DIR"""
import importlib.machinery
import importlib.util
import io
import re
import sys
import time
import types
import unittest
import unittest.mock
from contextlib import redirect_stdout
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = sys.argv.pop(1)
sys.path.insert(0, SCRIPTS)
import gpu_check_bits as bits  # noqa: E402
import gpu_check_speed as speed  # noqa: E402
from gpu_check_programs import Cut, Failed, TimeUp, Wrong  # noqa: E402


def script():
    loader = importlib.machinery.SourceFileLoader("gpu_check", f"{SCRIPTS}/gpu_check")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


gpu_check = script()


class GpuCheckTest(unittest.TestCase):
    def report(self, part, seconds, left):
        """The part as it is reported when `left` seconds are left of all."""
        report = gpu_check.Report(None, time.monotonic() + left)
        with redirect_stdout(io.StringIO()), \
             unittest.mock.patch.dict(gpu_check.PARTS, {"tried": (part, seconds)}):
            report.run(types.SimpleNamespace(), "tried")
        return report.content

    def test_a_part_has_no_more_time_than_is_left_of_all(self):
        ends = []
        for left in (1000, 10):
            begin = time.monotonic()
            self.report(lambda bench: iter(ends.append(bench.end - begin) or ["done"]), 100, left)
        self.assertLess(ends[1], 11)
        self.assertGreater(ends[0], 99)

    def test_parts_of_a_quick_run_share_the_time_of_all(self):
        report = gpu_check.Report(None, time.monotonic() + 1000, quick=True)
        ends = []
        with redirect_stdout(io.StringIO()), unittest.mock.patch.dict(
                gpu_check.PARTS, {"tried": (lambda bench: iter(ends.append(bench.end) or ["done"]), 10)}):
            report.run(types.SimpleNamespace(), "tried")
        self.assertGreater(ends[0], time.monotonic() + 900)

    def test_a_part_that_fails_is_told_from_one_that_was_cut(self):
        def rows(last):
            yield "first"
            if isinstance(last, str):
                yield last
            else:
                raise last

        for last, left, state, passed in (
                ("second", 1000, "passed", True), (Wrong("other bits"), 1000, "failed", False),
                (Failed("no answer"), 1000, "failed", False), (ValueError("x"), 1000, "failed", False),
                (TimeUp(), 1000, "failed", False), (TimeUp(), 10, "cut", True),
                (Cut("the rest"), 1000, "cut", True)):
            with self.subTest(f"{last!r} with {left} s left"):
                content = self.report(lambda _, last=last: rows(last), 100, left)
                [part] = content["parts"]
                self.assertEqual((part["state"], content["passed"]), (state, passed))
                self.assertEqual(part["rows"][0], "first")
                self.assertEqual(content["cut"], ["tried"] if state == "cut" else [])

    def test_the_first_parts_compare_bits(self):
        self.assertEqual(list(gpu_check.PARTS)[:4], ["operators", "exact", "models", "whole-steps"])
        self.assertEqual(list(gpu_check.PARTS)[-1], "checkers")

    def test_a_bundle_has_every_script_that_its_scripts_import(self):
        for name in gpu_check.SCRIPTS:
            text = (Path(SCRIPTS) / name).read_text()
            for module in re.findall(r"(?m)^(?:import|from) (gpu_check_\w+)", text):
                self.assertIn(f"{module}.py", gpu_check.SCRIPTS)

    def test_what_was_not_measured_for_time_is_a_cut(self):
        def measured():
            yield "a"
            raise TimeUp()
        rows = list(speed.each([measured(), measured()]))
        self.assertEqual(rows[0], "a")
        self.assertIsInstance(rows[1], Cut)
        self.assertEqual(len(rows), 2)

    def test_a_level_is_measured_for_all_workloads_before_the_next_one(self):
        bench = types.SimpleNamespace(quick=False)
        asked = []
        with unittest.mock.patch.multiple(speed, level=lambda _, w, n: asked.append((n, w)) or [],
                                          profile=lambda *_: []):
            list(speed.large_steps(bench))
        self.assertEqual([name for name, _ in asked[::len(speed.LARGE)]], list(speed.LEVELS))
        self.assertEqual([w for _, w in asked[:len(speed.LARGE)]], speed.LARGE)

    def test_steps_that_record_graphs_are_not_measured(self):
        words = speed.steps(types.SimpleNamespace(device="cuda-host", quick=True))
        self.assertEqual(words[words.index("--warm") + 1], 4)

    def test_kinds_of_operators_are_read_from_a_profile(self):
        head = "      ms      %  runs  GFLOP/s    GB/s  floor   bound  operator\n"
        text = ("operators 12.1 ms of 14.2 ms per step\n" + head +
                "   8.125   57.2    49    310.0     1.0   0.00          linear data gradient\n"
                "   4.000   28.2    12      0.0   120.0   0.93  memory  layer norm\n" + head +
                "   2.000   14.1     1    310.0     1.0   0.00          a linear [2,3] > [2,4]\n")
        self.assertEqual(speed.kinds_of(text), [("linear data gradient", 8.125), ("layer norm", 4.0)])
        self.assertEqual(speed.kinds_of("no table"), [])

    def test_digests_are_compared(self):
        same = bits.same_digests("bert", ["ab", "ab"], "gpu", "cpu")
        self.assertNotIsInstance(same, Wrong)
        self.assertIn("ab", same)
        other = bits.same_digests("bert", ["ab", "cd"], "gpu", "cpu")
        self.assertIsInstance(other, Wrong)
        self.assertEqual(other, "bert after a step at D2: ab on gpu, cd on cpu")

    def test_other_bits_on_a_placement_are_found(self):
        head = types.SimpleNamespace(digests={"a": ("1", "2"), "b": ("1", "2"), "c": ("1", "3")}.get)
        self.assertEqual(bits.compare(head, "bert", "D2", [("cpu:1", "a"), ("gpu:1", "b")]),
                         "bert: D2 equal on cpu:1; gpu:1")
        wrong = bits.compare(head, "bert", "D2", [("cpu:1", "a"), ("gpu:1", "c")])
        self.assertIsInstance(wrong, Wrong)

    def test_settings_of_a_job_file_are_changed(self):
        text = 'name = "a"\nsteps = 60\n\n[data]\nlength = 32\n\n[[optimizer.groups]]\nlength = 1\n'
        self.assertEqual(bits.changed(text, "steps", 4), text.replace("steps = 60", "steps = 4")
                         .replace('name = "a"\nsteps = 4', 'steps = 4\nname = "a"'))
        self.assertIn("[data]\nlength = 8\n", bits.changed(text, "data.length", 8))
        self.assertIn("length = 1\n", bits.changed(text, "data.length", 8))
        self.assertTrue(bits.changed(text, "lora.targets", ["*q"]).endswith('[lora]\ntargets = ["*q"]\n'))
        self.assertIn("[lora]\nrank = 4\ntargets = [",
                      bits.changed(bits.changed(text, "lora.targets", ["*q"]), "lora.rank", 4))

    def test_results_become_tables(self):
        content = {"commit": "abc", "date": "2026-01-01", "device": "gpu", "cpu": "cpu", "gpu": {}, "cut": ["shared"],
                   "parts": [{"part": "models", "state": "passed", "seconds": 1, "rows": ["a"], "measured": []},
                             {"part": "steps", "state": "cut", "seconds": 2, "rows": ["b"], "measured": [
                                 {"workload": "bert", "measured": "D2", "ms": 2.0},
                                 {"workload": "bert", "variant": "fp32", "ms": 3.0, "mib": 1},
                                 {"case": "add", "ms": 1.5, "gb_per_s": 3000, "of_peak": 0.5}]}]}
        text = gpu_check.table(content)
        for line in ("Commit abc", "cut for time: shared", "* a", "| bert | 2.00 | - | - | - | - |",
                     "| bert | 3.00 | - | - | - | - | - | - | - |", "| add | 1.500 | 50 % of memory |  |"):
            self.assertIn(line, text)

    def test_rows_of_kernels(self):
        adam = {"case": "Adam 100", "ms": 0.5, "gb_per_s": 1234.4}
        self.assertEqual(speed.kernel_row(adam), "Adam 100: 0.500 ms, 1234 GB/s")
        self.assertEqual(speed.kernel_row({**adam, "of_peak": 0.255}),
                         "Adam 100: 0.500 ms, 1234 GB/s (26 % of the memory's peak)")
        gemm = {"case": "gemm", "ms": 2, "tflops": 3, "library": None}
        self.assertEqual(speed.kernel_row(gemm), "gemm: 2.000 ms, 3.000 Tflop/s, no library")
        self.assertEqual(
            speed.kernel_row({**gemm, "of_peak": 0.5, "library": "cublas", "ratio": 0.75}),
            "gemm: 2.000 ms, 3.000 Tflop/s (50 % of fp32 peak), 0.75 of the speed of cublas")

    def test_what_the_checkers_say_is_found(self):
        self.assertEqual([tool for tool, *_ in bits.CHECKERS],
                         ["memcheck", "synccheck", "initcheck", "racecheck"])
        for line in ["========= Invalid __global__ read of size 4 bytes",
                     "========= Uninitialized __global__ memory read of size 4 bytes",
                     "========= Error: Race reported between Write access and Read access",
                     "========= Barrier error detected. Divergent thread(s) in block"]:
            self.assertTrue(bits.FOUND.search(line), line)
        self.assertFalse(bits.FOUND.search("========= ERROR SUMMARY: 0 errors"))


if __name__ == "__main__":
    unittest.main()
