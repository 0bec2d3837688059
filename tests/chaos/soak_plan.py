"""What a soak does and what must be true at its end. Nothing here examines the system."""
import random
import re
from dataclasses import dataclass

from plan import VARIANTS, fault_of, weighted

KINDS = ("kill", "stop", "head", "cancel", "scale")
KIND_WEIGHTS = (8, 2, 2, 1, 6)
# All kinds of jobs may have this many devices.
MAX_P_LEAST = 2

# Each kind of job is a shipped job with these changes. Together they have batch norms, dropout,
# all optimizers, evaluations, activations in bf16, a minimum of devices and periodic checkpoints.
_JOBS = {
    "cnn": ("tiny_resnet18", {"steps": 60, "eval_every": 20}, ""),
    "bf16": ("tiny_resnet18", {"steps": 40, "precision": '"bf16"'}, ""),
    "llama": ("tiny_llama", {"steps": 120}, ""),
    "gpt2": ("tiny_gpt2", {"steps": 60, "max_p": 3}, ""),
    "bert": ("tiny_bert", {"steps": 60}, "\n[resources]\nmin_devices = 2\n"),
    "neumf": ("tiny_neumf", {"steps": 200, "max_p": 2, "batch_size": 8}, ""),
    "short": ("tiny_neumf", {"steps": 10}, ""),
    "kept": ("tiny_shufflenetv2", {"steps": 40}, "\n[checkpoint]\nevery_steps = 10\ndirectory = \"{directory}\"\n"),
}


def write_jobs(directory, root):
    """Returns {kind: file}."""
    files = {}
    for kind, (shipped, changes, more) in _JOBS.items():
        top, tables = re.split(r"(?m)^(?=\[)", (root / f"configs/jobs/{shipped}.toml").read_text(), 1)
        for key, value in {"name": f'"{kind}"', **changes}.items():
            top = f"{key} = {value}\n" + re.sub(rf"(?m)^{key} = .*\n", "", top)
        files[kind] = directory / f"{kind}.toml"
        files[kind].write_text(top + tables + more.format(directory=directory / "checkpoints"))
    return files


@dataclass
class Arrival:
    number: int
    kind: str  # Of job.


def plan(seed, seconds, jobs, faults, kinds):
    """Returns (second, Arrival or Fault) in ascending order. `kinds`: of jobs."""
    rng = random.Random(f"soak {seed}")
    events = [(rng.uniform(0, seconds), Arrival(number, rng.choice(kinds)))
              for number in range(1, jobs + 1)]
    for number in range(1, faults + 1):
        kind = rng.choices(KINDS, KIND_WEIGHTS)[0]
        fault = fault_of(rng, number, kind, weighted(rng, VARIANTS[kind]))
        events.append((rng.uniform(0, seconds), fault))
    return sorted(events, key=lambda event: event[0])


def wrong(ends, kinds, cancelled, fixed):
    """Returns what is wrong at the end of a soak, as texts. `ends`: job -> its description, for
    all jobs of the head; `kinds`: accepted job -> kind; `fixed`: kind -> digests without faults."""
    found = [f"{job} was accepted and is not known" for job in sorted(set(kinds) - set(ends))]
    for job, details in sorted(ends.items()):
        state = details["state"]
        kind = kinds.get(job) or details["name"]  # The head took it, and its answer was lost.
        digests = (details.get("params_digest"), details.get("state_digest"))
        if state == "finished" and digests != fixed[kind]:
            found.append(f"{job}: digests {digests}, with fixed devices {fixed[kind]}")
        elif state == "cancelled" and job not in cancelled:
            found.append(f"{job} is cancelled, which nobody asked for")
        elif state not in ("finished", "cancelled"):
            found.append(f"{job} is {state} at step {details['steps']}: {details.get('error')}")
    return found
