"""scripts/bench models: compares bits and loss of every model at its published size with several
placements."""

import glob
import json
import os
import subprocess
import time

import chart
import runner

# The wider and the narrower class of a mix.
CLASSES = {"avx512": ("cpu-avx512", "cpu-avx2"), "avx2": ("cpu-avx2", "cpu-scalar")}


def placements(steps):
    """Name -> stages. All of them have `steps` global steps of four ESTs."""
    wide, narrow = CLASSES[runner.kernel_class()]
    first, second = steps // 3, steps // 3
    return {
        "one device": f"{wide}:1@{steps}",
        "two classes": f"{wide}:1+{narrow}:1@{steps}",
        "four devices": f"{wide}:2+{narrow}:2@{steps}",
        "live 4 > 2 > 3": f"{wide}:4@{first},{wide}:1+{narrow}:1@{second},"
                          f"{wide}:2+{narrow}:1@{steps - first - second}",
    }


def train(esctl, job, stages):
    started = time.monotonic()
    done = subprocess.run([esctl, "run", job, "--level", "D2", "--stages", stages, "--json",
                           "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        raise runner.BenchError(f"{job}, {stages}: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    result["wall_s"] = time.monotonic() - started
    return result


def verify(esctl, job, steps):
    """Returns one result per placement; `equal` compares with the first one."""
    results, reference = [], None
    for name, stages in placements(steps).items():
        runner.progress(f"{os.path.basename(job)}: {name} ({stages})")
        run = train(esctl, job, stages)
        digest = (run["params_digest"], run["state_digest"])
        reference = reference or digest
        results.append({
            "job": os.path.basename(job)[:-len(".toml")], "placement": name, "stages": stages,
            "params_digest": digest[0], "state_digest": digest[1], "equal": digest == reference,
            "loss_first": run["loss_first"], "loss_last": run["loss_last"],
            "peak_rss_mib": run["peak_rss_mib"], "wall_s": round(run["wall_s"], 1)})
    return results


def table(results):
    rows = ["| job | placement | bits | loss, first > last | MiB of a worker | s |",
            "|---|---|---|---|---|---|"]
    for r in results:
        rows.append(f"| {r['job']} | {r['placement']} | {'equal' if r['equal'] else 'DIFFER'} "
                    f"| {r['loss_first']:.4f} > {r['loss_last']:.4f} | {r['peak_rss_mib']:.0f} "
                    f"| {r['wall_s']:.0f} |")
    return "\n".join(rows)


def main(args):
    (esctl, _) = runner.build_programs()
    if runner.kernel_class() not in CLASSES:
        raise runner.BenchError("needs a processor with two vector classes")
    jobs = args.jobs or sorted(glob.glob(os.path.join(runner.ROOT, "configs", "jobs",
                                                      "published_*.toml")))
    results = [r for job in jobs for r in verify(esctl, job, args.steps)]
    print(table(results))
    losses = {"first": [], "last": []}
    ones = [r for r in results if r["placement"] == "one device"]
    for r in ones:
        losses["first"].append(r["loss_first"])
        losses["last"].append(r["loss_last"])
    runner.write_results(args, results,
                         chart.bars("loss of the first and of the last step",
                                    [r["job"] for r in ones], losses))
    if not all(r["equal"] for r in results):
        raise runner.BenchError("placements differ in their bits")


def add_arguments(parser):
    parser.add_argument("jobs", nargs="*", help="job files; by default configs/jobs/published_*")
    parser.add_argument("--steps", type=int, default=6, help="global steps of a run (default 6)")
