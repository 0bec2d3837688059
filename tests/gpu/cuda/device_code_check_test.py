#!/usr/bin/env python3
"""device_code_check.py and resources.py on texts; no toolkit needed.

  device_code_check_test.py KERNELS_DIR
"""
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import device_code_check  # noqa: E402

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Zone' for 'sm_80'
ptxas info    : Function properties for _Zone
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 95 registers, used 1 barriers, 8736 bytes smem
ptxas info    : Compiling entry function '_Ztwo' for 'sm_90'
ptxas info    : Function properties for _Ztwo
    56 bytes stack frame, 68 bytes spill stores, 148 bytes spill loads
ptxas info    : Used 128 registers, 56 bytes cumulative stack size
"""


class DeviceCodeCheckTest(unittest.TestCase):
    def test_report_is_read(self):
        one, two = resources.kernels(REPORT)
        self.assertEqual((one.name, one.arch, one.registers, one.spills, one.stack, one.shared),
                         ("_Zone", "sm_80", 95, 0, 0, 8736))
        self.assertEqual((two.name, two.arch, two.registers, two.spills, two.stack, two.shared),
                         ("_Ztwo", "sm_90", 128, 216, 56, 0))

    def test_summary_counts_spills(self):
        self.assertIn("216 bytes spilled", resources.summary(REPORT))
        self.assertEqual(resources.summary("ptxas info    : 0 bytes gmem"), "no kernels")

    def test_blocks_that_fill_a_multiprocessor_are_found(self):
        ptx = b""".visible .entry _Zone(\n\t.param .b8 _Zone_param_0[16]\n)\n.maxntid 256, 1, 1\n{\n}
.visible .entry _Ztwo(\n\t.param .b8 _Ztwo_param_0[16]\n)\n.maxntid 512, 1, 1\n{\n}\n"""
        threads = device_code_check.threads_of_blocks(ptx)
        self.assertEqual(threads, {"_Zone": 256, "_Ztwo": 512})
        [problem] = device_code_check.crowded(resources.kernels(REPORT), threads)
        self.assertIn("_Ztwo for sm_90: 128 registers of 512 threads", problem)

    def test_canonical_operations_are_allowed(self):
        ptx = b"\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n\tdiv.rn.f32 %f1, %f2, %f3;\n\tmad.lo.s32 %r1, %r2, %r3, %r4;\n"
        self.assertEqual(device_code_check.forbidden(ptx), [])

    def test_others_are_found(self):
        for name in ["ex2.approx.f32", "add.ftz.f32", "mad.rn.f32", "atom.global.add.f32",
                     "red.global.add.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"]:
            ptx = f"\tadd.f32 %f1, %f2, %f3;\n\t@%p1 {name} \t%f1, %f2;\n".encode()
            self.assertEqual(device_code_check.forbidden(ptx), [name])


if __name__ == "__main__":
    sys.path.insert(0, sys.argv.pop(1))
    import resources

    unittest.main()
