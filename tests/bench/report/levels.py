"""scripts/bench levels: which bits each determinism level keeps when the devices change (Figure 9
of the paper)."""

import json
import subprocess

import chart
import runner

# The devices of the elastic run in each stage. The fixed run stays on those of the first stage.
STAGES = {"avx512": ("cpu-avx512:4", "cpu-avx512:2", "cpu-avx2:2", "cpu-avx512:3"),
          "avx2": ("cpu-avx2:4", "cpu-avx2:2", "cpu-avx2:3")}
LEVELS = ("D0", "D1", "D2")


def train(esctl, job, level, stages, steps):
    """Returns the digest and the last loss after the stages of `steps` global steps each."""
    text = ",".join(f"{devices}@{steps}" for devices in stages)
    done = subprocess.run([esctl, "run", job, "--level", level, "--stages", text, "--json",
                           "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        raise runner.BenchError(f"{level}, {text}: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    return result["params_digest"] + result["state_digest"], result["loss_last"]


def measure(esctl, args, level, devices):
    """Returns one result per stage: the elastic run up to its end, beside the fixed run with
    equally many steps."""
    results = []
    for last in range(1, len(devices) + 1):
        runner.progress(f"{level}: to the end of stage {last}, {devices[last - 1]}")
        elastic = train(esctl, args.job, level, devices[:last], args.steps)
        fixed = train(esctl, args.job, level, devices[:1], args.steps * last)
        results.append({"level": level, "stage": last, "devices": devices[last - 1],
                        "equal": elastic[0] == fixed[0],
                        "loss_difference": abs(elastic[1] - fixed[1])})
    return results


def table(results):
    rows = ["| level | stage | devices | bits of the fixed run | difference of the loss |",
            "|---|---|---|---|---|"]
    for r in results:
        rows.append(f"| {r['level']} | {r['stage']} | {r['devices']} "
                    f"| {'equal' if r['equal'] else 'differ'} | {r['loss_difference']:.2e} |")
    return "\n".join(rows)


def svg(results, devices):
    series = {level: [r["loss_difference"] for r in results if r["level"] == level]
              for level in LEVELS}
    stages = [f"stage {i + 1}: {d}" for i, d in enumerate(devices)]
    return chart.bars("|loss - loss of the fixed run| at the end of each stage", stages, series,
                      form="{:.1e}")


def main(args):
    (esctl, _) = runner.build_programs()
    devices = STAGES.get(runner.kernel_class())
    if devices is None:
        raise runner.BenchError("the scalar class has no vendor kernels: all levels are equal there")
    results = [r for level in LEVELS for r in measure(esctl, args, level, devices)]
    print(table(results))
    runner.write_results(args, results, svg(results, devices))


def add_arguments(parser):
    parser.add_argument("--job", default="configs/jobs/resnet18_demo.toml")
    parser.add_argument("--steps", type=int, default=5, help="global steps of a stage (default 5)")
