#!/usr/bin/env python3
"""device_code_check.py, resources.py and machine_code.py on texts and instructions; no toolkit needed.

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


# Instructions as cuobjdump shows them, of sm_80 and sm_90: operands do not matter here.
MULTIPLY_ADD = bytes.fromhex("2372145f0c0000000004ff01001fe408")
IMMA = bytes.fromhex("3772a24c5c000000a204000000661f04")
IGMMA = bytes.fromhex("f179180c0000e001180070080000e20f")
LOAD = bytes.fromhex("8173200c04000000001d1e0c00a26e00")
OTHER = bytes.fromhex("027a0100000a0000000f000000e40f00")


def branch(by, new):
    """A branch over this number of instructions, from the next one on."""
    words = by * 4
    bits = 0x947
    if new:
        bits |= (words & 0xff) << 16
        words >>= 8
    return (bits | (words & (1 << 48) - 1) << 34).to_bytes(16, "little")


def instruction(operation, form, **fields):
    """Registers and sizes at their places: to, a, b and c, and the size of a load."""
    places = {"to": 16, "a": 24, "b": 32, "c": 64, "size": 73}
    return (operation | form << 9 | 7 << 12 | sum(value << places[name] for name, value in fields.items())
            ).to_bytes(16, "little")


def load(to, floats=1):
    return instruction(0x181, 4, to=to, a=2, size={1: 4, 2: 5, 4: 6}[floats])


def sum_of(to, a, b):
    return instruction(0x021, 1, to=to, a=a, b=b)


def multiply_add(to, a, b, c, constant=False):
    """`constant`: the bits of `b` are those of a constant, not of a register."""
    return instruction(0x023, 4 if constant else 1, to=to, a=a, b=b, c=c)


def loop(body, new):
    return OTHER + b"".join(body) + branch(-len(body) - 1, new) + OTHER


class DeviceCodeCheckTest(unittest.TestCase):
    def test_branches_are_read(self):
        # From sm_80: at 0x760, BRA 0x9d0; from sm_90: at 0x32a0, BRA 0x5970.
        old = bytes.fromhex("47090000600200000000800300ea0f00")
        self.assertEqual(machine_code.branch_distance(old, False), (0x9d0 - 0x770) // 16)
        new = bytes.fromhex("4709b000240000000000800300ec0f00")
        self.assertEqual(machine_code.branch_distance(new, True), (0x5970 - 0x32b0) // 16)
        for by in (-5000, -1, 0, 3000):
            for new in (False, True):
                self.assertEqual(machine_code.branch_distance(branch(by, new), new), by)

    def test_loops_of_products_are_found_with_their_loads(self):
        for arch in ("sm_75", "sm_90", "sm_120"):
            new = arch != "sm_75"
            early = loop([MULTIPLY_ADD] * 3 + [LOAD] * 2 + [MULTIPLY_ADD] * 5, new)
            others = loop([LOAD] * 4, new) + branch(2, new) + OTHER
            function = machine_code.Function("_Zproduct", arch, others + early)
            self.assertEqual(list(machine_code.product_loops(function)), [(8, [3, 3])])
            # Of nested loops the innermost one.
            inside = loop([LOAD] * 20 + [early], new).replace(branch(-22, new), branch(-34, new))
            function = machine_code.Function("_Zproduct", arch, inside)
            self.assertEqual(list(machine_code.product_loops(function)), [(8, [3, 3])])

    def test_late_loads_are_found(self):
        self.assertEqual(device_code_check.late_loads("k", [(100, [0, 60])]), [])
        self.assertEqual(device_code_check.late_loads("k", [(100, [10, 61]), (580, [578, 579])]),
                         ["k: a load after 61 of a loop's 100 multiply-adds",
                          "k: a load after 578 of a loop's 580 multiply-adds",
                          "k: a load after 579 of a loop's 580 multiply-adds"])
        self.assertEqual(device_code_check.late_loads("k", [(100, [10])]),
                         ["k: a loop without loads of both operands"])
        self.assertEqual(device_code_check.late_loads("k", []), ["k: no loop with multiply-adds"])

    def test_exact_products_are_on_tensor_cores(self):
        def function(name, arch, body):
            return machine_code.Function(f"_Z{name}2", arch, loop([OTHER] * 2, arch == "sm_90") +
                                         loop(body, arch == "sm_90"))

        def problems(*functions):
            return device_code_check.exact_products(functions, machine_code.tensor_loop,
                                                    machine_code.FMA, machine_code.INTEGER_PRODUCTS)
        tiles = function("10ExactTilesI", "sm_80", [IMMA, OTHER])
        groups = function("11ExactGroupsI", "sm_90", [IGMMA, OTHER])
        other_gpu = function("11ExactGroupsI", "sm_75", [OTHER])
        self.assertEqual(problems(tiles, groups, other_gpu), [])
        self.assertEqual(problems(groups), ["no machine code of 10ExactTilesI found in the objects"])
        self.assertEqual(problems(tiles, function("11ExactGroupsI", "sm_90", [OTHER])),
                         ["_Z11ExactGroupsI2 for sm_90: no loop with products on tensor cores"])
        self.assertEqual(problems(function("10ExactTilesI", "sm_75", [IMMA, MULTIPLY_ADD]), groups),
                         ["_Z10ExactTilesI2 for sm_75: a multiply-add of floats"])

    def test_only_integers_are_multiplied_on_tensor_cores(self):
        ptx = b"\n".join([b"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%r1};",
                          b"wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 {%r1};", b"wgmma.fence.sync.aligned ;"])
        self.assertEqual(device_code_check.forbidden(ptx), [])
        for bad in (b"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
                    b"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", b"wmma.mma.sync.f32"):
            self.assertEqual(device_code_check.forbidden(ptx + b"\n" + bad + b" {%f1};"), [bad.decode()])

    def test_serialised_products_are_found(self):
        line = "ptxas info    : (C7512) wgmma.mma_async instructions are serialized due to registers"
        self.assertEqual(device_code_check.serialised("a.txt", REPORT), [])
        self.assertEqual(device_code_check.serialised("a.txt", REPORT + line + "\n"), ["a.txt: " + line])

    def test_loads_that_are_used_one_after_the_other_are_counted(self):
        def run(*body):
            return machine_code.serial_loads(machine_code.Function("_Z", "sm_90", b"".join(body)))

        pairs = [load(4), OTHER, sum_of(0, 0, 4)] * 9
        self.assertEqual(run(*pairs), 9)
        # The second operand; the last operand of three; the third register of a wide load.
        self.assertEqual(run(load(4), sum_of(0, 4, 0)), 1)
        self.assertEqual(run(load(4), multiply_add(0, 1, 2, 4)), 1)
        self.assertEqual(run(load(4, floats=4), sum_of(0, 6, 0)), 1)
        # All loads in front; a sum of other registers; the result of a multiply-add with a constant.
        self.assertEqual(run(*[load(r) for r in range(4, 12)], *[sum_of(0, 0, r) for r in range(4, 12)]), 1)
        self.assertEqual(run(load(4), sum_of(4, 0, 1), load(5), sum_of(0, 0, 5)), 1)
        self.assertEqual(run(load(4), multiply_add(0, 1, 4, 2, constant=True)), 0)
        # A branch, and a load that is in flight beside the next one, end a row.
        self.assertEqual(run(*pairs[:9], branch(0, True), *pairs[:6]), 3)
        self.assertEqual(run(*pairs[:9], load(8), *pairs[:6]), 3)
        self.assertEqual(len(device_code_check.serial_loads("k", 8)), 1)
        self.assertEqual(device_code_check.serial_loads("k", 7), [])

    def test_machine_code_that_is_missing_is_found(self):
        report = REPORT.replace("_Zone", "_Z7ProductILi128E")
        kernels = resources.kernels(report)
        there = [machine_code.Function(k.name, k.arch, b"") for k in kernels]
        self.assertEqual(device_code_check.not_built(kernels, there), [])
        self.assertEqual(device_code_check.not_built(kernels, []),
                         ["_Z7ProductILi128E for sm_80: no machine code found in the objects",
                          "_Ztwo for sm_90: no machine code found in the objects"])

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
    import machine_code
    import resources

    unittest.main()
