"""The parts of scripts/gpu_check that measure speed: this engine, and PyTorch beside it."""
import json
import os
import subprocess
import sys

from gpu_check_programs import HERE, Failed, TimeUp, Wrong, kill

PEER = "gpu_check_pytorch.py"
WORKLOADS = ["resnet50_224_b32", "bert_base_s384_b8", "resnet18_cifar32_b32", "resnet50_64_b8",
             "shufflenetv2_64_b32", "vgg19_64_b8", "swin_t_64_b4", "yolov3_96_b2", "neumf_b1024",
             "bert_base_s64_b4", "electra_small_s64_b4"]
QUICK = "neumf_b1024"
LIMIT = 60  # Seconds for one program.
LEVELS = {"D2": ["--level", "D2"], "D1": ["--level", "D1"], "D1 TF32": ["--level", "D1", "--tf32"]}
# The first step loads, the second runs operator by operator, and the third and the fourth record a
# graph for each of two input buffers.
WARM = 4
# Models whose parameters are compared with the CPU after a step, in full size.
WHOLE = ["resnet50_224_b32", "bert_base_s384_b8"]


def steps(bench):
    return ["--device", bench.device, "--warm", WARM, "--steps", 2 if bench.quick else 10]


def measure(bench, workload, *options):
    return json.loads(bench.output("train_bench", "--workload", workload, *options, *steps(bench),
                                   limit=LIMIT))


def whole_steps(bench):
    """One D2 step in published sizes. Compares the parameters afterwards on the device and on the
    CPU of this machine."""
    for workload in [QUICK] if bench.quick else WHOLE:
        yield from failing_alone(whole_step(bench, workload))


def whole_step(bench, workload):
    words = ["--workload", workload, "--level", "D2", "--warm", 0, "--steps", 1]
    digests = [json.loads(bench.output("train_bench", *words, *where))["params_digest"] for where in
               (["--device", bench.device], ["--device", bench.cpu, "--threads", os.cpu_count()])]
    yield same_digests(workload, digests, bench.device, bench.cpu)


def same_digests(workload, digests, device, cpu):
    if len(set(digests)) != 1:
        return Wrong(f"{workload} after a step at D2: {digests[0]} on {device}, {digests[1]} on {cpu}")
    return f"{workload}: after a step at D2 the parameters of {cpu}, digest {digests[0]}"


def order_of_levels(workloads):
    """The measurements in their order: D2, which only this engine has, comes before the levels with
    libraries."""
    return [(workload, name) for name in LEVELS for workload in workloads]


def speed(bench):
    shared_workload = QUICK if bench.quick else "resnet18_cifar32_b32"
    workloads = [QUICK] if bench.quick else WORKLOADS
    pieces = [kernels(bench)]
    for workload, name in order_of_levels(workloads):
        pieces.append(level(bench, workload, name))
        if name == "D2":
            pieces.append(cost_of_checks(bench, workload))
    pieces += [many_ests(bench, shared_workload, ests) for ests in (1, 2, 4, 8, 16)]
    pieces += [many_processes(bench, shared_workload, processes) for processes in (1, 2, 4)]
    try:
        for piece in pieces:
            yield from failing_alone(piece)
    except TimeUp:  # The measured values are right.
        yield "the rest is not measured: there was no time left"


def failing_alone(piece):
    try:
        yield from piece
    except Failed as failed:
        yield Wrong(str(failed))


def level(bench, workload, name):
    ran = bench.measured[workload, name] = measure(bench, workload, *LEVELS[name])
    yield (f"{workload} {name}: {ran['ms']:.3f} ms, {ran['samples_per_s']:.0f} samples/s, "
           f"{ran['gflop'] / ran['ms']:.3f} Tflop/s, {ran['library'] or 'canonical kernels'}")


def kernels(bench):
    """Products, convolutions and kernels that read memory, compared with the libraries if these
    have them."""
    options = ["--host"] if bench.device == "cuda-host" else []
    options += ["--quick"] if bench.quick else []
    for line in bench.output("device_kernels_bench", *options, limit=LIMIT).splitlines():
        case = json.loads(line)
        bench.measured[case["case"]] = case
        yield kernel_row(case)


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


def cost_of_checks(bench, workload):
    """The cost of the D2 check of every result by its bytes: from the cache, and from memory."""
    ran = bench.measured.get((workload, "D2"))
    rates = [case["gb_per_s"] for name, case in bench.measured.items()
             if str(name).startswith("find non-finite")]
    if ran and rates:
        most, least = (1e-6 * ran["results_mib"] * 2**20 / rate for rate in (min(rates), max(rates)))
        yield (f"{workload} D2: {ran['results_mib']:.0f} MiB of results looked through, by their bytes "
               f"{least:.3f} to {most:.3f} ms of {ran['ms']:.3f}")


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


def pytorch(bench):
    """Eager PyTorch on the same GPU, with deterministic algorithms."""
    if bench.device == "cuda-host":
        return
    peers = HERE / "peers" if bench.bundled else HERE.parent.parent / "shared/peers"
    words = [sys.executable, HERE / PEER, peers, 2 if bench.quick else 10]
    # It finds its libraries by itself. Its time ends before that of the part, so its results are
    # printed.
    status, out, err = bench.run([*words, *([QUICK] if bench.quick else WORKLOADS)],
                                 max(1, bench.left() - 2), dict(os.environ))
    for line in filter(lambda line: line.startswith("{"), out.splitlines()):
        found = json.loads(line)
        if "why_not" in found:
            yield f"{found['workload']}: not measured: {found['why_not']}"
        elif "ms" in found:
            yield (f"{found['workload']}: {found['ms']:.3f} ms, with TF32 {found['tf32_ms']:.3f} ms"
                   + beside(bench, found))
        else:
            yield found["note"]
    if status != 0:
        why = "its time was up" if status is None else (err.strip() or f"status {status}").splitlines()[-1]
        yield f"PyTorch: {'the rest is ' if out else ''}not measured: {why}"


def beside(bench, found):
    ratios = []
    for level, peer in (("D2", "ms"), ("D1", "ms"), ("D1 TF32", "tf32_ms")):
        ours = bench.measured.get((found["workload"], level))
        if ours:
            ratios.append(f"{level} {found[peer] / ours['ms']:.2f}")
    return f"; of its speed ours has at {', '.join(ratios)}" if ratios else ""
