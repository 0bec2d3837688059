"""Kills at a named point, repeatedly in one job: the first process that reaches the point dies."""
import random
import signal
import threading
import time

from cluster import ChaosError, wait_until
from points import CHECKPOINT, CLAIM, NODE_BACK, POINTS, SCALE, SUBMIT, WORKER
from run import FAULT_S

RESTART_S = 0.3   # For a daemon that died at a point.
PROVOKE_S = 1.0   # Between two attempts to make a process reach the point.
NOT_FOUND = 3     # An exit code of esctl.


def name_of(job):
    """The name in an id of the form NAME-NUMBER-TAG."""
    return job.rsplit("-", 2)[0]


class AtPoint:
    """Arms the point of a run whose cluster has the environment of points.environment()."""

    def __init__(self, run, point, token, side_job, seed):
        self.run, self.point, self.token = run, point, token
        self.side_job = side_job  # number -> file of a small job with its own name
        self.rng = random.Random(f"{point} {seed}")
        self.attempts = 0
        self.submitted = {}  # name of a side job -> acknowledged id or None
        self.device_types = [s[:-2] for s in run.device_sets if "+" not in s and s.endswith(":1")]
        self.provoking = None  # A thread.
        # Name of a claim that is not known to be released -> whether it must exist.
        self.claims = {}

    def once(self, number):
        """One death at the point, and one step after it."""
        run = self.run
        if run.watch.over():
            run.end_job()
            run.begin_job()
        steps = run.watch.steps
        self.token.touch()
        died = self._provoke_until_dead()
        run.faults += 1
        run.say(f"fault {number}, step {steps}: {self.point}: {died} died")
        run.wait_for_progress(max(steps, run.watch.steps))

    def _provoke_until_dead(self):
        """Returns the process that died. Provokes on another thread, because a command may wait for
        the process that has just died."""
        died = set()
        end = time.monotonic() + FAULT_S
        while self.token.exists():
            if time.monotonic() > end:
                self.token.unlink(missing_ok=True)
                raise ChaosError(f"no process reached the point {self.point} in {FAULT_S} s")
            if self.run.watch.over() and not self._next_job():
                break
            if self.provoking is None or not self.provoking.is_alive():
                self.provoking = threading.Thread(target=self._provoke, daemon=True)
                self.provoking.start()
                self.provoking.join(PROVOKE_S)
            died |= self._restore()
        if POINTS[self.point][0] == WORKER:
            return ", ".join(sorted(died)) or "a worker"
        # The process has removed the token, and is about to end.
        wait_until("the process ends", lambda: died or died.update(self._restore()), FAULT_S)
        return ", ".join(sorted(died))

    def _next_job(self):
        """The job ended before a process died. It is compared while the point is disarmed, so that
        no process dies of the queries. Returns False if a process has died after all."""
        try:
            self.token.unlink()
        except FileNotFoundError:
            return False
        self.run.end_job()
        self.run.begin_job()
        self.token.touch()
        return True

    def _provoke(self):
        what, cluster = POINTS[self.point][1], self.run.cluster
        self.attempts += 1
        if what == SCALE:
            cluster.esctl("scale", self.run.job, self.rng.choice(self.run.device_sets))
        elif what == CHECKPOINT:
            directory = cluster.directory / f"checkpoint-{self.attempts}"
            cluster.esctl("checkpoint", self.run.job, "--to", directory)
        elif what == SUBMIT:
            self._submit()
        elif what == CLAIM:
            self._release_claims()
            self._claim()
            self._release_claims()
        elif what == NODE_BACK:
            self.run.take_down(self.rng.choice(cluster.names[1:]), RESTART_S)
            self.run.agenda.wait_until_empty()

    def _submit(self):
        name, file = self.side_job(self.attempts)
        answer = self.run.cluster.esctl("submit", file)
        self.submitted[name] = answer.json["job"] if answer.ok else None

    def _claim(self):
        name, kind = f"serving-{self.attempts}", self.rng.choice(self.device_types)
        self.claims[name] = False
        self.claims[name] = self.run.cluster.esctl("claim", "--type", kind, "--count", 1,
                                                   "--name", name).ok

    def _release_claims(self):
        """An acknowledged claim exists until its release is requested."""
        for name, must_be_there in sorted(self.claims.items()):
            self.claims[name] = False
            answer = self.run.cluster.esctl("release", name)
            if answer.ok or answer.code == NOT_FOUND:
                del self.claims[name]
            if must_be_there and answer.code == NOT_FOUND:
                self.run.wrong.append(f"claim {name} was acknowledged, and it is gone")

    def _restore(self):
        """Starts the daemons that died again, and returns their names."""
        died = set()
        for name, daemon in self.run.cluster.daemons.items():
            killed = daemon.process.poll() == -signal.SIGKILL
            if killed and name not in self.run.expects_down:
                died.add(name)
                self.run.take_down(name, RESTART_S)
        return died

    def finish(self):
        """Checks and clears what the commands left behind in the cluster."""
        if self.provoking is not None:
            self.provoking.join(FAULT_S)
        self._release_claims()
        self._check_submits()

    def _check_submits(self):
        """Every acknowledged job exists once, every other one at most once. All end well."""
        if not self.submitted:
            return
        jobs = wait_until("the side jobs end", self._ended_side_jobs, FAULT_S)
        for name, acknowledged in self.submitted.items():
            ids = [job for job in jobs if name_of(job) == name]
            if len(ids) > 1:
                self.run.wrong.append(f"{name} was submitted once and ran as {', '.join(ids)}")
            if acknowledged and ids != [acknowledged]:
                self.run.wrong.append(f"{acknowledged} was acknowledged, and there is {ids}")

    def _ended_side_jobs(self):
        """Returns {id: last log line} of all side jobs when all of them have ended. A restarted
        head does not list jobs that ended before, but it has their logs."""
        logs = (self.run.cluster.state / "logs").glob("*.log")
        texts = {log.stem: log.read_text() for log in logs
                 if name_of(log.stem) in self.submitted}
        missing = [a for a in self.submitted.values() if a and a not in texts]
        if missing or any("job ended: finished" not in text for text in texts.values()):
            return None
        return texts or {"": ""}
