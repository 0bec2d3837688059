#!/usr/bin/env python3
"""Tests scripts/gpu_check: its time limits, the order of its measurements, and the rows that it
writes.

  gpu_check_test.py SCRIPTS_DIR"""
import importlib.machinery
import importlib.util
import io
import sys
import time
import types
import unittest
from contextlib import redirect_stdout

sys.dont_write_bytecode = True
SCRIPTS = sys.argv.pop(1)
sys.path.insert(0, SCRIPTS)
import gpu_check_speed as speed  # noqa: E402
from gpu_check_programs import Wrong  # noqa: E402


def script():
    loader = importlib.machinery.SourceFileLoader("gpu_check", f"{SCRIPTS}/gpu_check")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


gpu_check = script()


class GpuCheckTest(unittest.TestCase):
    def test_all_parts_fit_into_ten_minutes(self):
        self.assertEqual(set(gpu_check.LIMITS), set(gpu_check.PARTS))
        self.assertLessEqual(sum(gpu_check.LIMITS.values()), gpu_check.TOTAL)
        self.assertLess(gpu_check.TOTAL, 600)

    def test_a_part_has_no_more_time_than_is_left_of_all(self):
        bench = types.SimpleNamespace(end=0)
        ends = []
        gpu_check.PARTS["a"] = ("kernels", lambda b: iter(ends.append(b.end) or ["done"]))
        for left in (1000, 10):
            end = time.monotonic() + left
            with redirect_stdout(io.StringIO()):
                gpu_check.Report(None, end).run(bench, "a")
        self.assertLessEqual(ends[1], end)
        self.assertGreater(ends[0], end)

    def test_d2_of_all_workloads_is_measured_before_the_libraries_levels(self):
        order = speed.order_of_levels(speed.WORKLOADS)
        count = len(speed.WORKLOADS)
        self.assertEqual([name for _, name in order],
                         ["D2"] * count + ["D1"] * count + ["D1 TF32"] * count)
        for first in range(0, 3 * count, count):
            self.assertEqual([w for w, _ in order[first:first + count]], speed.WORKLOADS)

    def test_steps_that_record_graphs_are_not_measured(self):
        words = speed.steps(types.SimpleNamespace(device="cuda-host", quick=True))
        self.assertEqual(words[words.index("--warm") + 1], 4)

    def test_whole_steps_are_of_workloads_that_there_are(self):
        self.assertLessEqual(set(speed.WHOLE), set(speed.WORKLOADS))

    def test_digests_are_compared(self):
        same = speed.same_digests("bert", ["ab", "ab"], "gpu", "cpu")
        self.assertNotIsInstance(same, Wrong)
        self.assertIn("ab", same)
        other = speed.same_digests("bert", ["ab", "cd"], "gpu", "cpu")
        self.assertIsInstance(other, Wrong)
        self.assertEqual(other, "bert after a step at D2: ab on gpu, cd on cpu")

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
        self.assertEqual([tool for tool, *_ in gpu_check.CHECKERS],
                         ["memcheck", "synccheck", "initcheck", "racecheck"])
        for line in ["========= Invalid __global__ read of size 4 bytes",
                     "========= Uninitialized __global__ memory read of size 4 bytes",
                     "========= Error: Race reported between Write access and Read access",
                     "========= Barrier error detected. Divergent thread(s) in block"]:
            self.assertTrue(gpu_check.FOUND.search(line), line)
        self.assertFalse(gpu_check.FOUND.search("========= ERROR SUMMARY: 0 errors"))


if __name__ == "__main__":
    unittest.main()
