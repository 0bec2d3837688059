"""Jobs that `esctl run` trains on one device, and their time of a step."""

import json
import os
import subprocess

import runner
import torch_peer


def step_ms(esctl, job, level, cores, warm, steps):
    """Trains a job for warm and for measured steps. The stages have the same device, so no process
    is started between them. Returns the time of a measured step and the memory of the worker."""
    device = f"cpu-{runner.kernel_class()}:1"
    printed = runner.run_plain(
        [esctl, "run", job, "--level", level, "--stages", f"{device}@{warm},{device}@{steps}",
         "--json", "--quiet"], cores)
    run = json.loads(printed)
    return {"ms": 1e3 * run["stages"][-1]["seconds"] / steps, "peak_rss_mib": run["peak_rss_mib"]}


class CapturedJob:
    """A workload of pytorch/workloads.py, captured once."""

    def __init__(self, python, workload, folder, cores, warm, steps):
        (self.esctl, _) = runner.build_programs()
        self.cores, self.warm, self.steps = cores, warm, steps
        words = [python, "captured.py", workload, os.path.join(folder, workload),
                 "--steps", str(warm + steps), "--threads", str(len(cores))]
        done = subprocess.run(words, capture_output=True, text=True, cwd=torch_peer.FOLDER,
                              env={**os.environ, "EASYSCALE_ESCTL": self.esctl,
                                   "PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            raise runner.BenchError(f"{workload} was not captured:\n{done.stderr[-2000:]}")
        self.job = done.stdout.split()[-1]

    def run(self, level):
        return step_ms(self.esctl, self.job, level, self.cores, self.warm, self.steps)
