#!/usr/bin/env python3
"""Times training steps of PyTorch on the CPU: forward, backward, and SGD with momentum or AdamW.

  step.py WORKLOAD --mode eager|compile --layout contiguous|channels_last --precision fp32|bf16
          --recompute none|blocks --threads N --warm N --steps N

bf16 is torch.autocast, and blocks are the checkpoints of a model of transformers.

Prints one JSON object. Refuses an environment in which PyTorch is slower than a user would have it.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

import torch

OVERRIDES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_DEBUG_CPU_TYPE",
             "MKL_ENABLE_INSTRUCTIONS", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
SIDE, PRODUCTS = 384, 50  # of the products that show how fast the matrix library is


def refuse_crippled(threads):
    """Ends the program if PyTorch lacks what the wheel of its project has."""
    flags = set(open("/proc/cpuinfo").read().split())
    widest = "AVX512" if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags else "AVX2"
    found = torch.backends.cpu.get_cpu_capability()
    problems = [
        (int(torch.__version__.split(".")[0]) < 2, f"its version is {torch.__version__}"),
        (torch.version.debug, "it is a debug build"),
        (not torch.backends.mkl.is_available(), "it has no MKL"),
        (not torch.backends.mkldnn.is_available(), "it has no oneDNN"),
        (found != widest, f"it uses {found}, but the processor has {widest}"),
        (torch.get_num_threads() != threads, f"it has {torch.get_num_threads()} threads"),
        (len(os.sched_getaffinity(0)) < threads, "it may use fewer cores than threads"),
        *((name in os.environ, f"{name} is set") for name in OVERRIDES)]
    bad = [text for is_bad, text in problems if is_bad]
    if bad:
        sys.exit("step.py: this PyTorch is no fair peer: " + "; ".join(bad))


def product_gflops():
    """The speed of a product of two matrices, the best of some."""
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    times = []
    for _ in range(PRODUCTS):
        begin = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - begin)
    return 2e-9 * SIDE ** 3 / min(times)


def step_times(work, options):
    """The seconds and the processor seconds of every measured step, and the last loss."""
    torch.manual_seed(0)
    model, samples = work.make().train(), work.samples(work.batch)
    if options.layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        samples["input"] = samples["input"].contiguous(memory_format=torch.channels_last)
    if options.recompute == "blocks":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = (torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
                 if work.optimizer == "sgd" else torch.optim.AdamW(model.parameters(), lr=1e-4))
    compute = work.loss_of
    if options.precision == "bf16":
        compute = torch.autocast("cpu", torch.bfloat16)(compute)
    if options.mode == "compile":
        compute = torch.compile(compute)
    times, processor = [], []
    for _ in range(options.warm + options.steps):
        begin, begin_processor = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = compute(model, samples)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - begin_processor)
    return times[options.warm:], processor[options.warm:], float(loss.detach())


def compiled_graphs():
    """The number of graphs that torch.compile has compiled, and that of the places between them,
    which are executed by the interpreter."""
    from torch._dynamo.utils import counters
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload")
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--recompute", choices=("none", "blocks"), default="none")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    refuse_crippled(options.threads)
    from workloads import WORKLOADS
    work = WORKLOADS[options.workload]
    gflops = product_gflops()
    times, processor, loss = step_times(work, options)
    graphs, breaks = compiled_graphs() if options.mode == "compile" else (0, 0)
    if options.mode == "compile" and not graphs:
        sys.exit("step.py: torch.compile has compiled nothing")
    print(json.dumps({
        "ms": 1e3 * statistics.median(times), "min_ms": 1e3 * min(times), "loss": loss,
        "cpu_ms": 1e3 * statistics.median(processor), "min_cpu_ms": 1e3 * min(processor),
        "torch": torch.__version__, "blas": "MKL, oneDNN", "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(), "product_gflops": round(gflops, 1),
        "graphs": graphs, "graph_breaks": breaks,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
