#!/usr/bin/env python3
"""Makes the files of a release for upgrade_test.py:

    make_fixture.py ESCTL EASYSCALED NAME      e.g. 0.1.0

It trains half of a small job, pauses it, and packs the head's state directory, a checkpoint and a
ledger file into NAME.tar.xz; NAME.json has the digests with which the job ends. The journal contains
absolute paths, so the test unpacks the files at the same place, PLACE. Run it before a format changes,
and keep the files of earlier releases.
"""
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PLACE = Path("/tmp/easyscale-upgrade-test")
DEVICES = "cpu-scalar:1"  # Every machine has it.
STEPS = 2000  # Enough to pause the job in the middle.
JOB = f"""\
name = "upgraded"
max_p = 2
batch_size = 4
steps = {STEPS}
seed = 7
level = "D2"
stages = "{DEVICES}@{STEPS}"

[model]
name = "small_cnn"

[data]
kind = "synthetic"
height = 8
width = 8
channels = 1
samples = 200
eval_samples = 20
crop_padding = 1
flip = true

[optimizer]
learning_rate = 0.05
momentum = 0.9

[schedule]
kind = "step"   # A step does not depend on the number of later ones.
step_size = 100
gamma = 0.9
"""


def head(easyscaled, directory):
    """A head at PLACE that is ready, and its endpoint."""
    endpoint = f"ipc://{directory}/head.sock"
    process = subprocess.Popen(
        [str(easyscaled), "--head", "--state", str(directory / "state"), "--listen", endpoint,
         "--node", "one", "--devices", DEVICES], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("ready "):
            return process, endpoint
    raise AssertionError(f"the head has ended with status {process.wait()}")


def main():
    esctl, easyscaled = (Path(argument).resolve() for argument in sys.argv[1:3])
    out = Path(__file__).resolve().parent / sys.argv[3]

    def run(*words):
        return subprocess.run([str(esctl), *map(str, words)], check=True, text=True,
                              capture_output=True).stdout
    PLACE.mkdir(mode=0o700)
    try:
        (PLACE / "job.toml").write_text(JOB)
        whole = json.loads(run("run", PLACE / "job.toml", "--json", "--quiet"))
        process, endpoint = head(easyscaled, PLACE)
        at = ("--head", endpoint)
        job = json.loads(run("submit", PLACE / "job.toml", "--json", *at))["job"]
        while json.loads(run("describe", job, "--json", *at))["steps"] == 0:
            pass
        run("pause", job, *at)
        paused = json.loads(run("describe", job, "--json", *at))
        assert 0 < paused["steps"] < STEPS, f"paused at step {paused['steps']}: run it again"
        run("ledger", job, "--out", PLACE / "job.ledger", *at)
        process.terminate()
        process.wait()
        run("run", PLACE / "job.toml", "--stages", f"{DEVICES}@{STEPS // 2}", "--quiet",
            "--checkpoint", PLACE / "half")
        with tarfile.open(f"{out}.tar.xz", "w:xz") as archive:
            for name in ("job.toml", "job.ledger", "half", "state"):
                archive.add(PLACE / name, name)
        Path(f"{out}.json").write_text(json.dumps(
            {"job": job, "paused_at": paused["steps"], "steps_after_checkpoint": STEPS // 2,
             "params_digest": whole["params_digest"], "state_digest": whole["state_digest"]},
            indent=2) + "\n")
    finally:
        shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
