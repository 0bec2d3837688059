"""The parts of scripts/gpu_check that measure speed: this engine, and PyTorch beside it."""
import json
import os
import re
import subprocess
import sys

from gpu_check_programs import HERE, Cut, Failed, Measured, TimeUp, Wrong, kill

PEER = "gpu_check_pytorch.py"
# What fills a GPU, in the sizes in which people train.
LARGE = ["gpt2_s1024_b8", "bert_base_s512_b32", "resnet50_224_b256", "llama_s1024_b8"]
# What is bound by launches, mostly.
SMALL = ["resnet50_224_b32", "bert_base_s384_b8", "resnet18_cifar32_b32", "resnet50_64_b8",
         "shufflenetv2_64_b32", "vgg19_64_b8", "swin_t_64_b4", "yolov3_96_b2", "neumf_b1024",
         "bert_base_s64_b4", "electra_small_s64_b4"]
QUICK = "neumf_b1024"
SHARED = "resnet18_cifar32_b32"
LIMIT = 60  # Seconds for one program.
LEVELS = {"D2": ["--level", "D2"], "D1 TF32": ["--level", "D1", "--tf32"],
          "D1": ["--level", "D1"], "D2 bf16": ["--level", "D2", "--precision", "bf16"],
          "D1 TF32 bf16": ["--level", "D1", "--tf32", "--precision", "bf16"]}
FP32_LEVELS = ["D2", "D1 TF32", "D1"]
PROFILED = ["D2", "D1 TF32"]
PROFILE_ROWS = 8
# The first step loads, the second runs operator by operator, and the third and the fourth record a
# graph for each of two input buffers.
WARM = 4
STEPS = 7
# PyTorch's variants that are compiled.
COMPILED = ["bf16", "tf32"]


def steps(bench):
    return ["--device", bench.device, "--warm", WARM, "--steps", 2 if bench.quick else STEPS]


def measure(bench, workload, *options):
    return json.loads(bench.output("train_bench", "--workload", workload, *options, *steps(bench),
                                   limit=LIMIT))


def each(pieces):
    """The rows of all pieces. One that fails does not end the others; without time the rest is left out, because
    what was measured is right."""
    try:
        for piece in pieces:
            try:
                yield from piece
            except Failed as failed:
                yield Wrong(str(failed))
    except TimeUp:
        yield Cut("the rest is not measured: there was no time left")


def large_steps(bench):
    """Level by level, because the first ones say the most; profiles last."""
    workloads = [QUICK] if bench.quick else LARGE
    yield from each([level(bench, workload, name) for name in LEVELS for workload in workloads]
                    + [profile(bench, workload, name) for workload in workloads for name in PROFILED])


def small_steps(bench):
    workloads = [QUICK] if bench.quick else SMALL
    yield from each(level(bench, workload, name) for name in FP32_LEVELS for workload in workloads)


def level(bench, workload, name):
    ran = measure(bench, workload, *LEVELS[name])
    mib = sum(ran[f"{part}_mib"] for part in ("params", "moments", "gradient", "arena", "workspace"))
    yield Measured(f"{workload} {name}: {ran['ms']:.3f} ms, {ran['samples_per_s']:.0f} samples/s, "
                   f"{ran['gflop'] / ran['ms']:.3f} Tflop/s, {mib:.0f} MiB, {ran['library'] or 'canonical kernels'}",
                   {**ran, "measured": name})


# The head of a table of operators, and one of its rows: ms, five numbers, what bounds it if that is known, name.
HEAD = re.compile(r"(?m)^ +ms .* operator$")
KIND = re.compile(r"(?m)^ *([\d.]+)(?: +[\d.]+){5}(?: +\w+| {8})  (\S.*)$")


def kinds_of(text):
    """(kind, ms) of the first table of a profile, which is that of kinds."""
    tables = HEAD.split(text)
    return [(kind, float(ms)) for ms, kind in KIND.findall(tables[1] if len(tables) > 1 else "")][:PROFILE_ROWS]


def profile(bench, workload, name):
    """The kinds of operators that take the most time, operator by operator without a graph."""
    words = [bench.programs["train_bench"], "--workload", workload, *LEVELS[name], "--device", bench.device,
             "--warm", 2, "--steps", 2, "--profile"]
    status, out, err = bench.run(words, LIMIT)
    kinds = kinds_of(err)
    if status != 0 or not kinds:
        raise Failed(f"profile of {workload} {name}: status {status}: {err[-300:]}")
    told = ", ".join(f"{kind} {ms:.2f}" for kind, ms in kinds)
    yield Measured(f"{workload} {name}, ms by operator: {told}",
                   {"workload": workload, "profile": name, "kinds": kinds})


def kernels(bench):
    """Products, convolutions and kernels that read memory, compared with the libraries if these
    have them."""
    options = ["--host"] if bench.device == "cuda-host" else []
    options += ["--quick"] if bench.quick else []
    for line in bench.output("device_kernels_bench", *options, limit=LIMIT).splitlines():
        case = json.loads(line)
        yield Measured(kernel_row(case), case)


def kernel_row(case):
    """A line of device_kernels_bench as a row."""
    share = f"{100 * case['of_peak']:.0f} %" if "of_peak" in case else ""
    if "gb_per_s" in case:
        peak = f" ({share} of the memory's peak)" if share else ""
        return f"{case['case']}: {case['ms']:.3f} ms, {case['gb_per_s']:.0f} GB/s{peak}"
    peak = f" ({share} of fp32 peak)" if share else ""
    beside = "no library" if case["library"] is None else (
        f"{case['ratio']:.2f} of the speed of {case['library']}")
    return f"{case['case']}: {case['ms']:.3f} ms, {case['tflops']:.3f} Tflop/s{peak}, {beside}"


def shared(bench):
    """Many ESTs of one worker, and many workers on the device."""
    workload = QUICK if bench.quick else SHARED
    yield from each([many_ests(bench, workload, ests) for ests in (1, 4, 16)]
                    + [many_processes(bench, workload, processes) for processes in (1, 2, 4)])


def many_ests(bench, workload, ests):
    ran = measure(bench, workload, "--ests", ests)
    mib = sum(ran[f"{part}_mib"] for part in ("params", "moments", "arena", "workspace"))
    yield (f"{workload}, {ests} ESTs: {ran['samples_per_s']:.0f} samples/s, {mib:.0f} MiB and "
           f"{ran['device_gradients_mib']:.0f} MiB of gradients on the device, "
           f"{ran['spilled_gradients_mib']:.0f} MiB spilled")


def many_processes(bench, workload, processes):
    running = [bench.start("train_bench", "--workload", workload, *steps(bench),
                           stdout=subprocess.PIPE) for _ in range(processes)]
    try:
        ran = [json.loads(p.communicate(timeout=bench.left())[0] or "null") for p in running]
    except subprocess.TimeoutExpired:
        raise TimeUp() from None
    finally:
        for process in running:
            kill(process)
    if None in ran:
        raise Failed(f"{workload}, {processes} processes share the device: one has failed")
    total = sum(each["samples_per_s"] for each in ran)
    yield f"{workload}, {processes} processes share the device: {total:.0f} samples/s"


def large_pytorch(bench):
    if bench.device != "cuda-host":
        names = [QUICK] if bench.quick else LARGE
        yield from each([eager(bench, names, 0.55), compiled(bench, names)])


def small_pytorch(bench):
    if bench.device != "cuda-host":
        yield from each([eager(bench, [QUICK] if bench.quick else SMALL, 1)])


def peer(bench, *words):
    """The command of PyTorch's side. It finds its libraries by itself."""
    peers = HERE / "peers" if bench.bundled else HERE.parent.parent / "shared/peers"
    return [sys.executable, HERE / PEER, peers, 2 if bench.quick else STEPS, *words]


def eager(bench, names, share):
    limit = max(1, share * bench.left() - 2)
    status, out, err = bench.run(peer(bench, "eager", *names), limit, dict(os.environ))
    for line in filter(lambda line: line.startswith("{"), out.splitlines()):
        yield peer_row(json.loads(line))
    if status != 0:
        why = "its time was up" if status is None else (err.strip() or f"status {status}").splitlines()[-1]
        yield Cut(f"PyTorch: {'the rest is ' if out else ''}not measured: {why}")


def compiled(bench, names):
    """All models are compiled at the same time, and then measured one after the other."""
    running = [(name, precision, bench.spawn(peer(bench, "compiled", name, precision), os.environ,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL))
               for precision in COMPILED for name in names]
    try:
        said = [bench.line(process) for _, _, process in running]
        for (name, precision, process), text in zip(running, said):
            if text == "compiled":
                print("go", file=process.stdin, flush=True)
                text = bench.line(process)
            found = json.loads(text or '{"why_not": "it ended"}')
            yield peer_row({"workload": name, "variant": f"{precision} compiled", **found})
            kill(process)
    finally:
        for *_, process in running:
            kill(process)


def peer_row(found):
    if "note" in found:
        return Measured(found["note"], found)
    what = f"PyTorch {found['workload']} {found['variant']}"
    if "why_not" in found:
        return Measured(f"{what}: not measured: {found['why_not']}", found)
    return Measured(f"{what}: {found['ms']:.3f} ms, {found['mib']:.0f} MiB", found)
