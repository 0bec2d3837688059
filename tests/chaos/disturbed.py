"""A cluster whose daemons are taken down and come back: what every run with faults needs."""
import signal

import processes
from agenda import Agenda
from cluster import ChaosError


class Disturbed:
    def __init__(self, cluster):
        self.cluster = cluster
        self.agenda = Agenda()
        self.expects_down = set()  # Daemons that the agenda will start again.

    def take_down(self, name, seconds):
        """Kills a daemon, and starts it again later. Returns False when it is down already."""
        if name in self.expects_down:
            return False
        self.expects_down.add(name)
        self.cluster.daemons[name].kill()
        if name == self.cluster.names[0]:
            self.mend_state()  # A head does not start on a disk that fails.
        self.agenda.add(seconds, lambda: self.bring_back(name))
        return True

    def stop_down(self, name, seconds):
        """Sends a daemon SIGTERM, and starts it again after its end and this time. Returns False
        when it is down already."""
        if name in self.expects_down:
            return False
        self.expects_down.add(name)
        daemon = self.cluster.daemons[name]
        daemon.process.terminate()

        def back_after_its_end():
            if daemon.runs():
                self.agenda.add(processes.TICK_S, back_after_its_end)
                return
            code = daemon.process.returncode
            self.bring_back(name)
            # A daemon that has only just been started may not handle the signal yet.
            if code not in (0, -signal.SIGTERM):
                raise ChaosError(f"{name} ended with status {code} after SIGTERM")

        self.agenda.add(seconds, back_after_its_end)
        return True

    def bring_back(self, name):
        # The daemon is not awaited, because the head may be away too.
        self.cluster.daemons[name].start()
        self.expects_down.discard(name)

    def mend_state(self):
        self.cluster.switch.unlink(missing_ok=True)

    def check_daemons(self):
        for name, daemon in self.cluster.daemons.items():
            if not daemon.runs() and name not in self.expects_down:
                raise ChaosError(f"the daemon {name} has ended by itself, status "
                                 f"{daemon.process.returncode}")
        if self.agenda.errors:
            raise ChaosError(f"cannot undo a fault: {self.agenda.errors[0]}")

    def close(self):
        self.agenda.close()
        self.cluster.close()
