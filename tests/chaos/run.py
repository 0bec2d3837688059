"""One chaos run: a cluster, a job on it, faults, and the comparison with the undisturbed run."""
import time

import compare
import faults as fault_kinds
import processes
from cluster import ChaosError, Cluster, wait_until
from disturbed import Disturbed
from plan import device_sets
from watch import Resources, Watch

FAULT_S = 180  # Seconds from a fault to the next step.
END_S = 600   # Seconds from the last fault to the end of the job.
IDLE_S = 90   # Seconds from the end of the last job to the end of the cluster.


class Run(Disturbed):
    """`jobs`: job.Jobs. `reference`: an Outcome of the same job without faults."""

    def __init__(self, programs, nodes, jobs, reference, networked=False, environment=None,
                 say=print, own_disks=False, failing_disk=None):
        super().__init__(Cluster(
            programs, nodes, networked, environment, failing_disk=failing_disk,
            daemon_options=jobs.daemon_options, own_disks=[jobs.disk.path] if own_disks else []))
        self.jobs, self.reference, self.say = jobs, reference, say
        self.device_sets = device_sets(nodes, jobs.max_p)
        self.disk = jobs.disk
        self.job = self.watch = self.resources = None
        self.checkpoints = []   # Checkpoints that were written for the job.
        self.different = []     # Differences from the reference, as texts.
        self.wrong = []         # Other errors, as texts.
        self.faults = self.lost_steps = 0
        self.worst_pause = 0.0

    # --- begin and end

    def begin(self):
        self.cluster.start()
        warm_up = self.cluster.ask("submit", self.jobs.warm_up)["job"]
        wait_until("the warm-up job ends", lambda: self._has_ended(warm_up), FAULT_S)
        self._wait_for_idle()
        self.resources = Resources(self.cluster)
        self.begin_job()

    def begin_job(self):
        self.disk.clear()
        self.job = self.cluster.ask("submit", self.jobs.file)["job"]
        self.checkpoints = []
        self.watch = Watch(self.cluster, self.job, self.say)
        self.wait_for_progress(0)

    def _has_ended(self, job):
        details = self.cluster.describe(job)
        if details and details["state"] == "failed":
            raise ChaosError(f"{job} failed: {details['error']}")
        return details and details["state"] == "finished"

    def _wait_for_idle(self):
        logs = self.cluster.state / "logs"

        def is_idle():
            return not self.cluster.workers() and all(
                " job ended: " in log.read_text() for log in logs.glob("*.log"))

        wait_until("all workers end with their jobs", is_idle, IDLE_S)

    def end_job(self):
        """Waits for the end of the job, and compares."""
        wait_until(f"{self.job} ends", self.job_is_over, END_S)
        self._stop_watch()
        details = self.watch.latest
        if details["state"] != "finished":
            raise ChaosError(f"{self.job} is {details['state']}: {details['error']}")
        outcome = compare.Outcome.of(self.cluster, self.job, details)
        self.different += compare.differences(self.reference, outcome)
        self.different += compare.checkpoint_differences(self.reference, self.checkpoints)
        self.lost_steps += compare.lost_steps(self.cluster, self.job)
        if (self.disk.path / self.job).is_dir():
            verified = self.cluster.esctl_here("checkpoint", "verify", self.disk.path / self.job)
            self.wrong += [] if verified.ok else [str(verified)]

    def end(self):
        """Brings the cluster into good order again, and checks what it has kept."""
        self.agenda.wait_until_empty()
        self.mend_state()
        self._wait_for_idle()
        self.wrong += self._grown()
        self.wrong += self.cluster.stop()

    def _grown(self):
        """What has grown, and stays so: a daemon closes the connection of a client that has ended a
        moment later."""
        try:
            wait_until("nothing has grown", lambda: not self.resources.grown(), IDLE_S)
        except ChaosError:
            return self.resources.grown()
        return []

    def _stop_watch(self):
        self.watch.stop()
        self.worst_pause = max(self.worst_pause, self.watch.worst_pause)

    def close(self):
        if self.watch:
            self._stop_watch()
        super().close()

    # --- faults

    def job_is_over(self):
        self.check_daemons()
        return self.watch.over()

    def wait_for_progress(self, steps):
        """Waits until the job has made a step after these steps, or has ended."""
        wait_until(f"a step of {self.job} after step {steps}",
                   lambda: self.job_is_over() or self.watch.steps > steps, FAULT_S)

    def wait_for_workers(self):
        """The workers of the job; none when the job ends first."""
        wait_until("a worker runs", lambda: self.cluster.workers(self.job) or self.job_is_over(),
                   FAULT_S)
        return self.cluster.workers(self.job)

    def inject(self, fault):
        """Waits for the time of the fault, and injects it. A job that has ended is run once
        more."""
        if fault.wait_s is None:
            self.wait_for_progress(self.watch.steps)
        else:
            processes.nap(fault.wait_s)
        if self.watch.over():
            self.end_job()
            self.begin_job()
        begin, steps = time.monotonic(), self.watch.steps
        what = fault_kinds.inject(self, fault)
        self.faults += what is not None
        self.say(f"fault {fault.number}, step {steps}: {fault.text()}: "
                 f"{what or 'no process was hit'} ({time.monotonic() - begin:.1f} s)")


def classes_of(programs):
    """The kernel classes of this machine, as the programs find them."""
    cluster = Cluster(programs, {"probe": ""})
    try:
        cluster.start()
        devices = cluster.ask("nodes")["nodes"][0]["devices"]
        return {device["type"] for device in devices}
    finally:
        cluster.close()


def undisturbed(programs, jobs, devices):
    """The Outcome of a job without faults, on one device."""
    cluster = Cluster(programs, {"reference": devices}, daemon_options=jobs.daemon_options)
    try:
        cluster.start()
        job = cluster.ask("submit", jobs.file)["job"]
        watch = Watch(cluster, job)
        wait_until(f"the undisturbed {job} ends", watch.over, END_S)
        watch.stop()
        if watch.latest["state"] != "finished":
            raise ChaosError(f"the undisturbed job failed: {watch.latest['error']}")
        return compare.Outcome.of(cluster, job, watch.latest)
    finally:
        cluster.close()
