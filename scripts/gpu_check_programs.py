"""Runs the programs of scripts/gpu_check with a time limit, and starts daemons."""
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = {"easyscaled": "actors/easyscaled/easyscaled", "esctl": "actors/esctl/esctl",
            "kernels_test": "tests/gpu/cuda/gpu_kernels_test",
            "device_test": "tests/gpu/cuda/gpu_cuda_device_test",
            "train_bench": "tests/bench/train_bench",
            "device_kernels_bench": "tests/bench/device_kernels_bench"}
# Besides the programs' own libraries: those of NVIDIA, from PyTorch's packages or from the toolkit.
TOOLKIT = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"]
VENDOR = ["libcublas.so", "libcudnn.so", "libnccl.so"]


class Failed(Exception):
    """A check that failed, as one line."""


class Wrong(str):
    """A row of a part that reports a failed check."""


class Cut(str):
    """A row that says what there was no time for."""


class Measured(str):
    """A row with the numbers that it tells."""

    def __new__(cls, text, data):
        row = super().__new__(cls, text)
        row.data = data
        return row


class TimeUp(Exception):
    """The time of the part is used up."""


def kill(process):
    """Ends the process and its children. A process that hangs in the driver is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


def has_compiler_libraries():
    """Whether this machine's C++ library is at least as new as the programs need (GCC 12)."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        return hasattr(library, "_ZSt21__glibcxx_assert_failPKciS0_S0_")
    except OSError:
        return False


class Bench:
    """Programs, the device under test, a scratch directory, and the remaining time of a part."""

    def __init__(self, build, device, quick, scratch):
        self.scratch, self.quick, self.device = Path(scratch), quick, device
        self.bundled = (HERE / "bin").is_dir()
        self.programs = {name: HERE / "bin" / name if self.bundled else Path(build) / path
                         for name, path in PROGRAMS.items()}
        missing = [str(path) for path in self.programs.values() if not path.exists()]
        if missing:
            sys.exit(f"gpu_check: there is no {missing[0]}: allowed is a bundle, or --build with a "
                     "directory where all is built")
        self.jobs = HERE / "jobs" if self.bundled else HERE.parent / "configs/jobs"
        self.captured = HERE / "captured"  # Models that the bundle has; a clone has none.
        self.folders = self.library_folders()
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(self.folders)}
        flags = Path("/proc/cpuinfo").read_text()
        self.cpu = "cpu-avx512" if "avx512bw" in flags else "cpu-avx2" if " avx2" in flags else "cpu-scalar"
        self.end = time.monotonic() + 60

    def library_folders(self):
        folders = []
        if self.bundled:
            folders += [] if has_compiler_libraries() else [HERE / "lib/compiler"]
            folders.append(HERE / "lib")
        folders += [path for root in sys.path for path in sorted(Path(root).glob("nvidia/*/lib"))]
        folders = [str(folder) for folder in folders + TOOLKIT if Path(folder).is_dir()]
        return folders + list(filter(None, [os.environ.get("LD_LIBRARY_PATH")]))

    def vendor_libraries(self):
        """The directories of the NVIDIA libraries that the programs load when they need them."""
        searched = [Path(folder) for folder in ":".join(self.folders).split(":")]
        ldconfig = "/sbin/ldconfig" if Path("/sbin/ldconfig").exists() else "ldconfig"
        known = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
        for name in VENDOR:
            beside = [path for folder in searched for path in sorted(folder.glob(name + ".*"))]
            system = [line.split("=> ")[1] for line in known.splitlines()
                      if line.strip().startswith(name + ".")]
            yield name, str(beside[0]) if beside else system[0] if system else None

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeUp()
        return left

    def start(self, name, *words, **options):
        return self.spawn([self.programs[name], *words], self.environment, **options)

    def spawn(self, words, environment, **options):
        return subprocess.Popen(list(map(str, words)), text=True, start_new_session=True,
                                env=environment, **options)

    def line(self, process):
        """The next line of its stdout; empty if it has ended. Nothing may be buffered."""
        ready, _, _ = select.select([process.stdout], [], [], self.left())
        if not ready:
            raise TimeUp()
        return process.stdout.readline().strip()

    def run(self, words, limit=None, environment=None):
        """Returns (status, stdout, stderr). The status is None when the time was used up."""
        texts = [tempfile.TemporaryFile("w+", dir=self.scratch, errors="replace") for _ in range(2)]
        limit = min(self.left(), limit or self.left())
        process = subprocess.Popen(list(map(str, words)), stdout=texts[0], stderr=texts[1],
                                   start_new_session=True, env=environment or self.environment)
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            kill(process)
        for text in texts:
            text.seek(0)
        return (status, *(text.read() for text in texts))

    def output(self, name, *words, limit=None, **environment):
        status, out, err = self.run([self.programs[name], *words], limit,
                                    {**self.environment, **environment})
        if status is None:
            self.left()
            raise Failed(f"{name} {' '.join(map(str, words))}: not done within {limit} s")
        if status != 0:
            end = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
            raise Failed(f"{name} {' '.join(map(str, words))}: {end}: {(err or out)[-600:].strip()}")
        return out


class Head:
    """A daemon with these devices, or with those that it finds, and an esctl for it."""

    def __init__(self, bench, devices=None, workers_per_gpu=2):
        self.bench = bench
        self.directory = Path(tempfile.mkdtemp(dir=bench.scratch))
        self.directory.chmod(0o700)
        self.endpoint = f"ipc://{self.directory}/head.sock"
        words = ["--head", "--state", self.directory / "state", "--listen", self.endpoint, "--node",
                 "here", "--workers-per-gpu", workers_per_gpu]
        words += ["--devices", devices] if devices else []
        with open(self.directory / "errors", "w") as errors:
            self.process = bench.start("easyscaled", *words, stdout=subprocess.PIPE, stderr=errors)
        try:
            is_ready = bench.line(self.process).startswith("ready")
        except TimeUp:
            is_ready = False
        if not is_ready:
            kill(self.process)
            raise Failed("easyscaled: " + ((self.directory / "errors").read_text()[-600:].strip()
                                           or "not ready in time"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill(self.process)  # Its workers end with it.

    def json(self, *words):
        return json.loads(self.bench.output("esctl", *words, "--head", self.endpoint, "--json"))

    def logs(self):
        return "".join(path.read_text(errors="replace")
                       for path in sorted(self.directory.rglob("worker-*.log")))

    def wait(self, job, holds):
        while True:
            details = self.json("describe", job)
            if details["state"] == "failed":
                raise Failed(f"{job}: {details['error']}")
            if holds(details):
                return details
            self.bench.left()
            time.sleep(0.05)

    def submit(self, file, stages, level):
        return self.json("submit", file, "--stages", stages, "--level", level)["job"]

    def digests(self, job):
        end = self.wait(job, lambda d: d["state"] == "finished")
        return end["params_digest"], end["state_digest"]

    def train(self, file, stages, level):
        return self.digests(self.submit(file, stages, level))
