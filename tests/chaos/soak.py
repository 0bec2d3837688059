"""The main program of scripts/soak: a service with many jobs, and faults all the time.

A head and three nodes get jobs of several models, and faults at random times. At the end every
accepted job must be over: finished with the bits of the same job on one fixed device, or cancelled
because it was asked for. The last line is `jobs N, faults M, identical yes|no`; exit status 0 means
that and that nothing is left behind. docs/reference/testing.md explains more."""
import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

import faults as fault_kinds  # noqa: E402
import processes  # noqa: E402
import soak_plan  # noqa: E402
from cluster import ALL_CLASSES, ChaosError, Cluster, make_directory, wait_until  # noqa: E402
from disturbed import Disturbed  # noqa: E402
from plan import device_sets  # noqa: E402
from run import classes_of  # noqa: E402
from watch import OVER  # noqa: E402

END_S = 900      # Seconds from the last fault to the end of the last job.
IDLE_S = 60      # Seconds from the end of the last job to the end of its workers.
REPORT_S = 30    # Seconds between two lines about the jobs.
ANSWER_S = 60    # Seconds in which a head that is away comes back.


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="chooses jobs and faults (default 1)")
    parser.add_argument("--seconds", type=float, default=900,
                        help="in which jobs and faults come (default 900)")
    parser.add_argument("--jobs", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--faults", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="build directory")
    return parser.parse_args()


def say(line):
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def nodes_for(classes):
    """A head and three nodes, with devices of the two fastest classes of this machine. With the
    slowest one a few jobs would take all the time."""
    fast, slow = ([c for c in ALL_CLASSES if c in classes] * 2)[:2]
    mixed = "+".join(sorted([f"{fast}:1", f"{slow}:1"])) if fast != slow else f"{fast}:2"
    return {"head": f"{slow}:1", "a": mixed, "b": f"{fast}:2", "c": f"{slow}:1"}


def fixed_digests(programs, kind, file, device):
    """The digests of a job of this kind on one device without faults."""
    ended = subprocess.run([programs[0], "run", file, "--devices", device, "--quiet", "--json"],
                           capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise ChaosError(f"the fixed run of {kind} failed: {ended.stderr.strip()[-500:]}")
    summary = json.loads(ended.stdout)
    return summary["params_digest"], summary["state_digest"]


class Soak(Disturbed):
    """`files`: kind of job -> its file. `plan`: what comes when (soak_plan.plan)."""

    def __init__(self, programs, nodes, files):
        super().__init__(Cluster(programs, nodes))
        self.files = files
        self.job = None           # The job that the next fault hits.
        self.device_sets = device_sets(nodes, soak_plan.MAX_P_LEAST)
        self.live = []            # Jobs that were not over when the head answered last.
        self.kinds = {}           # Accepted job -> its kind.
        self.refused = 0          # Submissions that a head that was away did not accept.
        self.cancelled = set()    # Jobs of which a cancel was accepted.
        self.faults = {}          # "kind variant" -> how many were injected.

    # --- what comes

    def submit(self, arrival):
        answer = self.cluster.esctl("submit", self.files[arrival.kind])
        if answer.ok:
            self.kinds[answer.json["job"]] = arrival.kind
        else:
            self.refused += 1

    def inject(self, fault):
        self.check_daemons()
        jobs = self.jobs()
        if jobs:  # Otherwise the head is away, and the jobs are those of before.
            self.live = sorted(job["job"] for job in jobs if job["state"] not in OVER)
        if not self.live:
            return
        self.job = self.live[int(fault.picks[-1] * len(self.live))]
        if fault_kinds.inject(self, fault) is not None:
            self.faults[fault.text()] = self.faults.get(fault.text(), 0) + 1

    def jobs(self):
        """All jobs by the head; none while it is away."""
        answer = self.cluster.esctl("ps", deadline_s=10)
        return answer.json["jobs"] if answer.ok else []

    def wait_for_workers(self):
        """The workers that a fault can hit now."""
        return self.cluster.workers()

    def run(self, events):
        begin = report = time.monotonic()
        for at, event in events:
            while (left := begin + at - time.monotonic()) > 0:
                processes.nap(min(left, 1))
            if isinstance(event, soak_plan.Arrival):
                self.submit(event)
            else:
                self.inject(event)
            if time.monotonic() > report + REPORT_S:
                report = time.monotonic()
                self.report()

    def report(self):
        counts = {}
        for job in self.jobs():
            counts[job["state"]] = counts.get(job["state"], 0) + 1
        say(f"faults {sum(self.faults.values())}; jobs: "
            + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))

    # --- the end

    def finish(self):
        """Undoes all faults, and waits until all jobs are over."""
        self.agenda.wait_until_empty()
        wait_until("the head answers", self.jobs, ANSWER_S)
        for job in self.jobs():
            if job["state"] == "paused":  # The head was away when the job should be resumed.
                self.cluster.ask("resume", job["job"])
        left = len(self.jobs())
        end = time.monotonic() + END_S
        while left and time.monotonic() < end:
            self.check_daemons()
            try:
                wait_until("a job ends", lambda: self.unfinished() < left, REPORT_S)
            except ChaosError:
                self.report()
            left = self.unfinished()

    def unfinished(self):
        return sum(job["state"] not in OVER for job in self.jobs())

    def ends(self):
        """All jobs that the head knows, as soak_plan.wrong reads them."""
        return {job["job"]: self.cluster.ask("describe", job["job"]) for job in self.jobs()}

    def stop(self):
        wait_until("all workers end", lambda: not self.cluster.workers(), IDLE_S)
        return self.cluster.stop()


def drive(soak, args, fixed, events):
    """Returns what is wrong, as texts."""
    try:
        soak.cluster.start()
        soak.run(events)
        say("the last fault has been injected")
        soak.finish()
        wrong = soak_plan.wrong(soak.ends(), soak.kinds, soak.cancelled, fixed)
        if wrong:
            print(soak.cluster.dump(), flush=True)
        return wrong + soak.stop()
    except (ChaosError, OSError, KeyError, ValueError) as error:
        if not isinstance(error, ChaosError):
            traceback.print_exc()
        print(soak.cluster.dump(), flush=True)
        return [str(error)]
    finally:
        soak.close()


def main():
    args = arguments()
    # Also when the run was started in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    build = args.build.resolve()  # Commands run in other directories.
    programs = (build / "actors/esctl/esctl", build / "actors/easyscaled/easyscaled")
    directory = make_directory()
    try:
        nodes = nodes_for(classes_of(programs))
        files = soak_plan.write_jobs(directory, ROOT)
        device = nodes["b"].partition("+")[0]
        fixed = {kind: fixed_digests(programs, kind, file, device)
                 for kind, file in files.items()}
        say(f"seed {args.seed}; fixed runs of {len(fixed)} kinds of jobs are done")
        soak = Soak(programs, nodes, files)
        wrong = drive(soak, args, fixed,
                      soak_plan.plan(args.seed, args.seconds, args.jobs, args.faults, list(files)))
    except ChaosError as error:
        sys.exit(f"scripts/soak: {error}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for line in wrong:
        say(f"WRONG: {line}")
    result = {"seed": args.seed, "jobs": len(soak.kinds), "refused": soak.refused,
              "cancelled": len(soak.cancelled), "faults": soak.faults, "wrong": wrong}
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    print(", ".join(f"{text} {count}" for text, count in sorted(soak.faults.items())))
    print(f"jobs {len(soak.kinds)}, faults {sum(soak.faults.values())}, identical "
          f"{'no' if wrong else 'yes'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
