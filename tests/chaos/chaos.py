"""The main program of scripts/chaos: faults on a real job, whose bits must not change.

The last line is `faults N, identical yes|no, lost steps L, worst pause P s`. Exit status 0 means:
the bits are identical, nothing is left behind, file descriptors and memory did not grow, and
nothing hung. docs/reference/testing.md explains the kinds of faults."""
import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

import data_jobs  # noqa: E402
import job as chaos_job  # noqa: E402
import network  # noqa: E402
import points  # noqa: E402
from at_point import AtPoint  # noqa: E402
from cluster import ALL_CLASSES, ChaosError, make_directory, why_no_own_disks  # noqa: E402
from plan import KINDS, plan  # noqa: E402
from run import Run, classes_of, undisturbed  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="chooses the faults (default 1)")
    parser.add_argument("--faults", type=int, default=10, help="how many (default 10)")
    parser.add_argument("--kind", help=f"of {','.join(KINDS)} (default: all that can be done here)")
    parser.add_argument("--job", type=Path, help="job file (default: a small ResNet18)")
    parser.add_argument("--data", choices=data_jobs.KINDS,
                        help="a job on token files, or on a Python dataset, in place of --job")
    parser.add_argument("--steps", type=int, help="of the job (default: grows with --faults)")
    parser.add_argument("--own-disks", action="store_true",
                        help="nodes share no disk: what is saved on one is read through the head")
    parser.add_argument("--at", metavar="POINT", help="kill at this point instead, or at `all`")
    parser.add_argument("--times", type=int, default=1, help="kills at each point (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="build directory")
    parser.add_argument("--points", action="store_true", help="list the kill points and end")
    return parser, parser.parse_args()


def say(line):
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def kinds_of(parser, text, build):
    """The kinds to inject. Kinds that this machine cannot do are left out with a message."""
    wanted = text.split(",") if text else list(KINDS)
    unknown = [kind for kind in wanted if kind not in KINDS]
    if unknown:
        parser.error(f"--kind {unknown[0]}: allowed are {', '.join(KINDS)}")
    if "partition" in wanted and (why := network.why_not()):
        say(f"skipped: partition: {why}")
        wanted.remove("partition")
    if "state" in wanted and not failing_disk(build):
        say("skipped: state: build it first: ninja -C build tests/libes_failing_disk.so")
        wanted.remove("state")
    return wanted


def failing_disk(build):
    """The library that lets a disk fail (tests/support/failing_disk.cc), if it was built."""
    path = build.resolve() / "tests/libes_failing_disk.so"
    return path if path.exists() else None


def dataset_python():
    """An interpreter with numpy for the loader processes; None: there is none."""
    where = subprocess.run([ROOT / "scripts/setup_pytorch", "--where"], capture_output=True,
                           text=True, check=True).stdout.strip()
    for python in (os.environ.get("ES_PYTHON", where), sys.executable):
        try:
            ended = subprocess.run([python, "-c", "import numpy, safetensors"],
                                   capture_output=True, check=False)
        except OSError:
            continue
        if ended.returncode == 0:
            return Path(python)
    return None


def nodes_for(classes):
    """Three nodes with devices of all classes of this machine."""
    fast, middle, slow = ([c for c in ALL_CLASSES if c in classes] * 3)[:3]
    return {"head": f"{middle}:1", "a": f"{fast}:1+{slow}:1", "b": f"{fast}:1+{middle}:1"}


class Result:
    def __init__(self):
        self.faults = self.lost_steps = 0
        self.worst_pause = 0.0
        self.different, self.wrong = [], []
        self.completed = True

    def add(self, run):
        self.faults += run.faults
        self.lost_steps += run.lost_steps
        self.worst_pause = max(self.worst_pause, run.worst_pause)
        self.different += run.different
        self.wrong += run.wrong

    @property
    def identical(self):
        return self.completed and not self.different

    def line(self):
        return (f"faults {self.faults}, identical {'yes' if self.identical else 'no'}, "
                f"lost steps {self.lost_steps}, worst pause {self.worst_pause:.1f} s")

    def json(self, seed):
        return {"seed": seed, "faults": self.faults, "identical": self.identical,
                "lost_steps": self.lost_steps, "worst_pause_s": round(self.worst_pause, 3),
                "different": self.different, "wrong": self.wrong}


def drive(run, result, inject):
    """One run from its beginning to its end. Errors are printed and counted."""
    try:
        run.begin()
        inject(run)
        run.end_job()
        run.end()
    except (ChaosError, OSError, KeyError, ValueError) as error:
        result.completed = False
        run.wrong.append(str(error))
        if not isinstance(error, ChaosError):
            traceback.print_exc()
        print(run.cluster.dump(run.job), flush=True)
    finally:
        run.close()
        result.add(run)
        say(f"{run.job}: faults {run.faults}, lost steps {run.lost_steps}, worst pause "
            f"{run.worst_pause:.1f} s")
        for line in [*run.different, *run.wrong]:
            say(f"WRONG: {line}")


def seeded(args, kinds, programs, jobs, nodes, reference, result):
    run = Run(programs, nodes, jobs, reference, "partition" in kinds, say=say,
              failing_disk=failing_disk(args.build) if "state" in kinds else None,
              own_disks=args.own_disks)

    def inject(run):
        for fault in plan(args.seed, args.faults, kinds):
            run.inject(fault)

    drive(run, result, inject)


def at_points(args, programs, jobs, nodes, reference, result):
    names = list(points.POINTS) if args.at == "all" else args.at.split(",")
    for name in names:
        token = jobs.directory / f"token-{name}"
        run = Run(programs, nodes, jobs, reference, say=say,
                  environment=points.environment(name, token))
        at = AtPoint(run, name, token, jobs.side, args.seed)

        def inject(_, at=at):
            for number in range(1, args.times + 1):
                at.once(number)
            at.finish()

        drive(run, result, inject)


def main():
    parser, args = arguments()
    if args.points:
        print("\n".join(points.POINTS))
        return 0
    for name in (args.at or "all").split(","):
        if name != "all" and name not in points.POINTS:
            parser.error(f"--at {name}: see --points for what is allowed")
    kinds = kinds_of(parser, args.kind, args.build)
    args.source_root = ROOT
    args.python = dataset_python() if args.data == "python" else None
    if args.data == "python" and args.python is None:
        say("skipped: --data python: there is no interpreter with numpy; run scripts/setup_pytorch")
        return 77
    if args.own_disks and (why := why_no_own_disks()):
        say(f"skipped: --own-disks: {why}")
        return 77
    if not args.at and not kinds:
        return 77  # A run in which nothing could be tested here.
    # Also when the run was started in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    build = args.build.resolve()  # Commands run in other directories.
    programs = (build / "actors/esctl/esctl", build / "actors/easyscaled/easyscaled")
    directory = make_directory()
    result = Result()
    try:
        jobs = chaos_job.Jobs(directory, args)
        nodes = nodes_for(classes_of(programs))
        begin = time.monotonic()
        reference = undisturbed(programs, jobs, nodes["head"])
        say(f"undisturbed: {jobs.steps} steps in {time.monotonic() - begin:.1f} s, params "
            f"{reference.params_digest}, state {reference.state_digest}")
        if args.at:
            at_points(args, programs, jobs, nodes, reference, result)
        else:
            seeded(args, kinds, programs, jobs, nodes, reference, result)
    except ChaosError as error:
        sys.exit(f"scripts/chaos: {error}")
    finally:
        jobs.close()
    if args.json:
        args.json.write_text(json.dumps(result.json(args.seed), indent=2) + "\n")
    print(result.line(), flush=True)
    return 0 if result.identical and not result.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
