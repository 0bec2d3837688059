"""Which faults a seed stands for. The same seed gives the same faults. Nothing here examines the
system."""
import random
from dataclasses import dataclass, field

KINDS = ("kill", "freeze", "scale", "partition", "head", "disk", "state")

# The time limit for a silent peer is 2.5 s: a freeze or a cut is shorter or longer than that.
SHORT_S = (0.2, 1.5)
LONG_S = (3.2, 6.0)
RESTART_S = (0.0, 2.0)
# Faults that happen while the job recovers from the one before. The others wait for progress.
IN_RECOVERY = 0.3
IN_RECOVERY_S = (0.0, 0.8)
# A job fails after ten losses without one step of progress, so some faults wait for progress.
IN_RECOVERY_RUN_MAX = 2

VARIANTS = {
    "kill": (("worker", 5), ("some", 2), ("all but one", 2), ("node", 2)),
    "freeze": (("worker", 5), ("node", 2), ("head", 1)),
    "scale": (("devices", 8), ("auto", 1), ("pause", 1)),
    "partition": (("full", 2), ("to the head", 1), ("from the head", 1), ("flapping", 1)),
    "head": (("kill", 1),),
    "disk": (("full", 2), ("no directory", 1), ("well", 1)),
    "state": (("full", 2), ("read-only", 1), ("broken", 1)),
    # Only in a soak, which has many jobs.
    "stop": (("node", 1),),
    "cancel": (("job", 1),),
}


@dataclass
class Fault:
    number: int
    kind: str
    variant: str
    # None: after a new step; otherwise this time after the fault before it, in seconds.
    wait_s: float | None
    # Duration of a freeze, a cut or a failing disk, or the time until a restart or a resume.
    seconds: float
    picks: list = field(default_factory=list)  # Numbers in [0, 1) that choose victims.

    def pick(self, things):
        """Chooses one item. A replay chooses the same one if the items are the same."""
        return things[int(self.picks[0] * len(things))]

    def pick_some(self, things):
        """Chooses at least one item, and at most all but one when there are several."""
        chosen = [t for t, p in zip(things, self.picks[1:]) if p < 0.5]
        return chosen[:max(1, len(things) - 1)] or [self.pick(things)]

    def text(self):
        return f"{self.kind} {self.variant}"


def weighted(rng, choices):
    names, weights = zip(*choices)
    return rng.choices(names, weights)[0]


def _seconds(rng, kind):
    if kind in ("kill", "head", "scale", "stop"):
        return rng.uniform(*RESTART_S)
    return rng.uniform(*(LONG_S if rng.random() < 0.6 else SHORT_S))


def fault_of(rng, number, kind, variant, wait_s=None):
    return Fault(number, kind, variant, wait_s, _seconds(rng, kind),
                 [rng.random() for _ in range(16)])


def plan(seed, count, kinds):
    """Returns the faults of a run. `kinds`: from KINDS."""
    rng = random.Random(f"chaos {seed}")
    faults, in_recovery = [], 0
    for number in range(1, count + 1):
        kind = rng.choice(list(kinds))
        variant = weighted(rng, VARIANTS[kind])
        early = rng.random() < IN_RECOVERY and number > 1 and in_recovery < IN_RECOVERY_RUN_MAX
        in_recovery = in_recovery + 1 if early else 0
        wait_s = rng.uniform(*IN_RECOVERY_S) if early else None
        faults.append(fault_of(rng, number, kind, variant, wait_s))
    return faults


def device_sets(nodes, workers_max):
    """Returns all sets of devices that the nodes can give, in the form of esctl scale."""
    counts = {}
    for devices in nodes.values():
        for part in devices.split("+"):
            kind, _, count = part.partition(":")
            counts[kind] = counts.get(kind, 0) + int(count)
    sets = [{}]
    for kind in sorted(counts):
        sets = [{**s, kind: n} for s in sets for n in range(counts[kind] + 1)]
    return ["+".join(f"{kind}:{n}" for kind, n in s.items() if n)
            for s in sets if 0 < sum(s.values()) <= workers_max]
