"""Compares two runs of a job bit for bit, at every step."""
import re
from dataclasses import dataclass

from cluster import ChaosError


@dataclass
class Outcome:
    job: str
    params_digest: str
    state_digest: str
    lines: list  # One entry of the ledger for each step: losses and digest.

    @staticmethod
    def of(cluster, job, details):
        lines = ledger_lines(cluster, job)
        if len(lines) != details["steps_total"]:
            raise ChaosError(f"{job}: the ledger has {len(lines)} lines, the job "
                             f"{details['steps_total']} steps")
        return Outcome(job, details["params_digest"], details["state_digest"], lines)


# Version, digest of the parameters, bits of the losses, check (store/ledger/ledger_file.h).
_LINE = re.compile(r"^(\d+) ([0-9a-f]{32}|-)((?: [0-9a-f]{8})+) #[0-9a-f]{16}$", re.MULTILINE)


def ledger_lines(cluster, job):
    path = cluster.directory / f"{job}.ledger"
    answer = cluster.esctl("ledger", job, "--out", path)
    if not answer.ok:
        raise ChaosError(str(answer))
    return read_ledger(path.read_text())


def read_ledger(text):
    return [(int(version), digest, losses.split())
            for version, digest, losses in _LINE.findall(text)]


def differences(reference, outcome):
    """Returns the differences as a text; empty when the two runs are identical."""
    found = []
    for what in ("params_digest", "state_digest"):
        wanted, got = getattr(reference, what), getattr(outcome, what)
        if wanted != got:
            found.append(f"{outcome.job}: {what} is {got}, undisturbed {wanted}")
    if len(reference.lines) != len(outcome.lines):
        found.append(f"{outcome.job}: {len(outcome.lines)} steps, undisturbed "
                     f"{len(reference.lines)}")
    for wanted, got in zip(reference.lines, outcome.lines):
        if wanted != got:
            found.append(f"{outcome.job}: ledger: {got}, undisturbed {wanted}")
            break
    return found


def checkpoint_differences(reference, checkpoints):
    """Compares checkpoints, as esctl describes them, with the ledger of the undisturbed run."""
    digests = {version: digest for version, digest, _ in reference.lines}
    return [f"{c['path']}: version {c['version']} has params {c['params_digest']}, undisturbed "
            f"{digests.get(c['version'])}" for c in checkpoints
            if digests.get(c["version"]) != c["params_digest"]]


_LOST = re.compile(r"steps to compute again: (\d+)$", re.MULTILINE)


def lost_steps(cluster, job):
    """Returns the steps that were computed more than once, by the log of the job."""
    return sum(int(count) for count in _LOST.findall(cluster.job_log(job)))
