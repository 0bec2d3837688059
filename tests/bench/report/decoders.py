"""scripts/bench lm --part gpt2|llama: a language model of published size beside transformers."""

import json
import os
import tempfile

import chart
import runner
import torch_peer

FAMILIES = ("gpt2", "llama")
LENGTHS = (64, 256, 1024)  # tokens of a sequence; those of train_workloads.cc
BATCH = 2
VARIANTS = {"fp32": ("fp32", "none"), "bf16": ("bf16", "none"),
            "fp32+recompute": ("fp32", "blocks"), "bf16+recompute": ("bf16", "blocks")}
STEPS = {64: (1, 5), 256: (1, 3), 1024: (1, 2)}  # of a run: warm-up, measured
KEY = ("family", "cores", "tokens", "variant")


def words_of(variant):
    precision, recompute = VARIANTS[variant]
    return ["--precision", precision, "--recompute", recompute]


def ours(args, program, workload, variant, steps):
    return runner.run_json(
        [program, "--workload", workload, "--level", "D2", "--device",
         "cpu-" + runner.kernel_class(), "--warm", str(steps[0]), "--steps", str(steps[1]),
         "--threads", str(len(args.cores)), *words_of(variant)], args.cores)


def theirs(args, workload, variant, steps):
    return runner.run_json(
        [args.python, "step.py", workload, "--threads", str(len(args.cores)), "--warm",
         str(steps[0]), "--steps", str(steps[1]), *words_of(variant)],
        args.cores, cwd=torch_peer.FOLDER, variables={"PYTHONDONTWRITEBYTECODE": "1"})


def measure(args, program, tokens, variant):
    # The smallest time: what other programs do on the machine only adds to it.
    time, steps = "min_cpu_ms" if args.cpu_time else "min_ms", STEPS[tokens]
    if args.measured:
        steps = (1, args.measured)
    workload = f"{args.part_of_lm}_s{tokens}_b{BATCH}"
    found = {"ours": [], "torch": []}
    for number in range(args.rounds):
        for side in ("ours", "torch") if number % 2 == 0 else ("torch", "ours"):
            found[side].append(ours(args, program, workload, variant, steps) if side == "ours"
                               else theirs(args, workload, variant, steps))
    if not args.cpu_time:
        torch_peer.refuse_slow(found["torch"][0], args.peak_gflops, args.cores)
    result = {"family": args.part_of_lm, "cores": len(args.cores), "tokens": tokens,
              "variant": variant, "rounds": args.rounds, "time": time,
              "processor": runner.processor(),
              "peer": torch_peer.description(found["torch"][0])}
    for side, runs in found.items():
        result[side] = {"ms": min(r[time] for r in runs),
                        "spread": runner.spread([r[time] for r in runs]),
                        "mib": max(r["peak_rss_mib"] for r in runs)}
    for field in ("arena_mib", "workspace_mib", "params_mib", "moments_mib", "gradient_mib"):
        result["ours"][field] = found["ours"][0][field]
    return result


def exact(args):
    """One step beside transformers: losses and gradients."""
    esctl, _ = runner.build_programs()
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        return runner.run_json(
            [args.python, "lm_exact.py", args.part_of_lm, os.path.join(folder, "exact"), "--tokens",
             "64", "--threads", str(len(args.cores)), "--device", "cpu-" + runner.kernel_class()],
            args.cores, cwd=torch_peer.FOLDER,
            variables={"EASYSCALE_ESCTL": esctl, "PYTHONDONTWRITEBYTECODE": "1"})


def table(results):
    # The time of a step is that of the clock, or with --cpu-time that of the processor.
    rows = ["| model | cores | tokens | variant | ms | PyTorch, ms | speed-up | MiB | PyTorch, MiB "
            "| share of its memory | arena, MiB |", "|---" * 11 + "|"]
    for r in results:
        own, peer = r["ours"], r["torch"]
        rows.append(f"| {r['family']} | {r['cores']} | {BATCH} x {r['tokens']} | {r['variant']} "
                    f"| {own['ms']:.0f} | {peer['ms']:.0f} | {peer['ms'] / own['ms']:.2f} "
                    f"| {own['mib']:.0f} | {peer['mib']:.0f} | {own['mib'] / peer['mib']:.2f} "
                    f"| {own['arena_mib']:.0f} |")
    return "\n".join(rows)


def exact_line(e):
    return (f"{e['family']}, {e['parameters']:,} parameters, {BATCH} x {e['tokens']} tokens: loss "
            f"{e['loss_ours']:.6f}, in PyTorch {e['loss_torch']:.6f} (difference "
            f"{abs(e['loss_ours'] - e['loss_torch']):.1e}); gradients differ by at most "
            f"{e['gradient_difference']:.1e} of the largest one of their parameter ({e['of']})")


def svg(results):
    labels = [f"{r['family']} {r['tokens']} x {r['cores']}" for r in results
              if r["variant"] == "fp32"]
    series = {variant: [next((r["torch"]["ms"] / r["ours"]["ms"] for r in results
                              if r["variant"] == variant
                              and f"{r['family']} {r['tokens']} x {r['cores']}" == label), None)
                        for label in labels] for variant in VARIANTS}
    return chart.bars("PyTorch step time / ours, by tokens of a sequence x cores", labels,
                      {k: v for k, v in series.items() if any(v)}, mark=1.0)


def earlier(args):
    """The results of the file, which this run adds to."""
    if not args.add or not args.json or not os.path.exists(args.json):
        return {"steps": [], "exact": []}
    with open(args.json) as file:
        return json.load(file)


def added(results, new, key):
    """The results with new ones in place of those with the same key."""
    keys = [tuple(n[k] for k in key) for n in new]
    return [r for r in results if tuple(r[k] for k in key) not in keys] + new


def main(args):
    args.cores = runner.cores(args.core, args.threads)
    args.python = torch_peer.python(args.python)
    lengths = [int(n) for n in args.lengths.split(",")]
    variants = args.variants.split(",") if args.variants else []
    runner.allowed("length", lengths, LENGTHS)
    runner.allowed("variant", variants, VARIANTS)
    (program,) = runner.build("train_bench")
    results = earlier(args)
    if args.exact:
        runner.progress("one step beside transformers ...")
        results["exact"] = added(results["exact"], [exact(args)], ("family", "tokens"))
    args.peak_gflops = runner.run_json([program, "--workload", "neumf_b1024", "--warm", "0",
                                        "--steps", "1", "--device",
                                        "cpu-" + runner.kernel_class()], args.core)["peak_gflops"]
    for tokens in lengths:
        for variant in variants:
            runner.progress(f"{args.part_of_lm}, {tokens} tokens, {variant} ...")
            new = measure(args, program, tokens, variant)
            results["steps"] = added(results["steps"], [new], KEY)
            runner.progress(table([new]).splitlines()[-1])
            if args.json:  # what is measured stays if a later run fails or is stopped
                runner.write_results(args, results, svg(results["steps"]))
    results["steps"].sort(key=lambda r: (r["family"], r["cores"], r["tokens"],
                                         list(VARIANTS).index(r["variant"])))
    peers = sorted({r["processor"] + "; " + r["peer"] for r in results["steps"]})
    print("\n".join(peers), table(results["steps"]), *map(exact_line, results["exact"]),
          sep="\n\n")
    runner.write_results(args, results, svg(results["steps"]))


def add_arguments(parser):
    parser.add_argument("--part", dest="part_of_lm", choices=("shakespeare", *FAMILIES),
                        default="shakespeare",
                        help="the small model on Shakespeare's plays (default), or the steps of a "
                             "model of published size beside transformers")
    sizes = parser.add_argument_group("options of --part gpt2 and llama")
    sizes.add_argument("--lengths", default=",".join(map(str, LENGTHS)),
                       help="tokens of a sequence (default %(default)s)")
    sizes.add_argument("--variants", default=",".join(VARIANTS), help="default: %(default)s")
    sizes.add_argument("--threads", type=int, default=1,
                       help="of both sides, each on a core of its own (default 1)")
    sizes.add_argument("--measured", type=int, metavar="N",
                       help="measured steps of a run (default: 5, 3 and 2 by the length)")
    sizes.add_argument("--cpu-time", action="store_true",
                       help="compare processor time, on a machine that has other work")
    sizes.add_argument("--exact", action="store_true",
                       help="compare loss and gradients of one step too")
    sizes.add_argument("--add", action="store_true",
                       help="add to the results in the file of --json, so that a measurement can "
                            "be made in parts")
