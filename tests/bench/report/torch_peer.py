"""The PyTorch peer of scripts/bench: the newest one, in the environment of scripts/setup_pytorch."""

import os
import subprocess

import runner

FOLDER = os.path.join(runner.ROOT, "tests", "bench", "pytorch")
FAIR_SHARE = 0.3  # of the fp32 peak, which a product of matrices of a useful library reaches
MODES = ("eager", "compile")


def python(given):
    """The interpreter of the peer. Error: it has no PyTorch 2."""
    setup = os.path.join(runner.ROOT, "scripts", "setup_pytorch")
    path = given or subprocess.run([setup, "--where"], capture_output=True, text=True,
                                   check=True).stdout.strip()
    done = subprocess.run([path, "-c", "import torch, torchvision, timm, transformers"],
                          capture_output=True, text=True) if os.path.exists(path) else None
    if done is None or done.returncode != 0:
        raise runner.BenchError(f"{path} has no torch, torchvision, timm and transformers: run "
                                "scripts/setup_pytorch, or name a Python with --python")
    return path


class Peer:
    """One workload in PyTorch, with the better one of its memory layouts, which the first round
    finds. The compiled programs of a mode are kept from round to round."""

    def __init__(self, program, workload, is_image, cores, cache):
        self.program, self.workload, self.cores, self.cache = program, workload, cores, cache
        self.layouts = ["contiguous", "channels_last"] if is_image else ["contiguous"]
        self.best = {}  # mode -> layout

    def run(self, mode, warm, steps):
        tries = {layout: self._run(mode, layout, warm, steps)
                 for layout in ([self.best[mode]] if mode in self.best else self.layouts)}
        self.best[mode] = min(tries, key=lambda layout: tries[layout]["ms"])
        return tries[self.best[mode]]

    def _run(self, mode, layout, warm, steps):
        return runner.run_json(
            [self.program, "step.py", self.workload, "--mode", mode, "--layout", layout,
             "--threads", str(len(self.cores)), "--warm", str(warm), "--steps", str(steps)],
            self.cores, cwd=FOLDER, variables={"TORCHINDUCTOR_CACHE_DIR": self.cache,
                                               "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
                                               "PYTHONDONTWRITEBYTECODE": "1"})


def refuse_slow(result, peak_gflops, cores):
    """Error: the matrix products of the peer are far from the peak of the processor."""
    share = result["product_gflops"] / (peak_gflops * len(cores))
    if share < FAIR_SHARE:
        raise runner.BenchError(f"this PyTorch is no fair peer: its products reach {share:.2f} of "
                                f"the fp32 peak: allowed is at least {FAIR_SHARE}")


def version(python):
    """That of the PyTorch of an interpreter."""
    done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


def description(result, mode="eager"):
    """What the peer is, for a report."""
    threads = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
    return (f"PyTorch {result['torch']} {mode} ({result['blas']}, {result['capability']}), "
            f"{threads}, products at {result['product_gflops']:.0f} GFLOP/s")
