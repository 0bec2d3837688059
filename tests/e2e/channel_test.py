#!/usr/bin/env python3
"""Devices that are joined by channels: gradients go directly from one to the other, with the same
bits.

Devices of the type cuda-host stand in for GPUs, and sockets for NCCL."""
import ctypes
import os
import re
import signal
import socket
from pathlib import Path

import harness
from harness import digests
from jobs import ANY_LENGTH, job_text

CUDA = "cuda-host"
PIDFD_GETFD = 438  # The system call.
STEPS = 60
ENDLESS = 1_000_000


def channel_sockets(pid):
    """Duplicates the sockets of that process's channels into this process."""
    inodes = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()
              if line.split()[-1].startswith("@es-channel-")}
    sockets = []
    pidfd = os.pidfd_open(pid)
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        link = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        if link and link.group(1) in inodes:
            copy = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, int(entry.name), 0)
            if copy < 0:
                raise OSError(ctypes.get_errno(), "pidfd_getfd")
            sockets.append(socket.socket(fileno=copy))
    os.close(pidfd)
    return sockets


class Channels(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": STEPS, "max_p": 6, **ANY_LENGTH}))

    def head(self):
        return self.start_daemon(devices=f"{CUDA}:3+{self.fast}:1")

    def assert_bits_of_cpu(self, end):
        fixed = self.run_job(self.job_file, "--devices", f"{self.fast}:1")
        self.assertEqual(digests(end), digests(fixed))

    def worker_logs(self):
        return "".join(path.read_text() for path in self.directory.rglob("worker-*.log"))

    def joined(self):
        """The pairs of workers in which the first one sent gradients to the second one by a
        channel."""
        return set(re.findall(
            r"worker (\d+) .*: gradients to worker (\d+) are sent through memory of",
            self.worker_logs()))

    def wait_for_steps(self, head, job, workers):
        return head.wait_for(
            job, f"{workers} workers report steps",
            lambda d: d["state"] == "running" and d["steps"] >= 5
            and len(d["workers"]) == workers and all(w["pid"] > 0 for w in d["workers"]))

    def test_a_placement_that_changes_while_it_trains(self):
        head = self.head()
        stages = (f"{CUDA}:2@15,{CUDA}:3@15,{CUDA}:2+{self.fast}:1@15,{CUDA}:1@5,"
                  f"{CUDA}:3@{STEPS - 50}")
        job = head.submit(self.job_file, "--stages", stages)
        end = head.wait_for_state(job, "finished")
        pairs = self.joined()
        self.assertEqual(re.findall("channel: .*", self.worker_logs()), [])
        self.assertTrue(any((b, a) in pairs for a, b in pairs), f"not in both directions: {pairs}")
        self.assert_bits_of_cpu(end)
        head.stop()

    def die_at(self, point):
        token = self.directory / "token"
        token.write_text("")
        self.environment.update(ES_KILL_POINT=point, ES_KILL_TOKEN=str(token))
        head = self.head()
        del self.environment["ES_KILL_POINT"]
        job = head.submit(self.job_file, "--stages", f"{CUDA}:3@{STEPS}")
        end = head.wait_for_state(job, "finished")
        self.assertFalse(token.exists(), f"no process reached {point}")
        # On a busy machine its silence may be seen before the end of its process.
        self.assertRegex(head.esctl("logs", job).out, "Killed|is silent")
        self.assert_bits_of_cpu(end)
        head.stop()

    def test_a_worker_that_dies_in_the_middle_of_a_transfer(self):
        self.die_at("channel.piece:9")

    # These points are reached only by gradients that do not pass through host memory.
    def test_a_worker_that_dies_in_the_middle_of_a_transfer_in_device_memory(self):
        self.die_at("channel.direct:40")

    def test_a_worker_that_dies_with_a_sum_in_device_memory(self):
        self.die_at("reduce.on_device:20")

    def train_with_three(self, head):
        """A job that does not end before it is disturbed, and its description."""
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, "max_p": 6, **ANY_LENGTH}))
        job = head.submit(self.job_file, "--stages", f"{CUDA}:3@{ENDLESS}")
        return job, self.wait_for_steps(head, job, 3)

    def assert_goes_on(self, head, job, steps):
        head.wait_for(job, "goes on", lambda d: d["state"] == "running"
                      and d["steps"] > steps + STEPS and len(d["workers"]) == 3)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def disturb(self, number):
        head = self.head()
        job, details = self.train_with_three(head)
        os.kill(details["workers"][1]["pid"], number)
        self.assert_goes_on(head, job, details["steps"])
        self.assertTrue(self.joined())
        head.stop()

    def test_a_channel_that_breaks_between_workers_that_live(self):
        head = self.head()
        job, details = self.train_with_three(head)
        pid = details["workers"][1]["pid"]
        for channel in harness.wait_until("a channel", lambda: channel_sockets(pid)):
            channel.shutdown(socket.SHUT_RDWR)
            channel.close()
        self.assert_goes_on(head, job, head.describe(job)["steps"])
        head.stop()

    def test_a_worker_that_is_killed(self):
        self.disturb(signal.SIGKILL)

    def test_a_worker_that_freezes(self):
        self.disturb(signal.SIGSTOP)


class LostDevice(harness.EndToEndTest):
    def test_its_worker_ends_the_job_continues_and_the_device_is_offered_again(self):
        fast = self.fast_class()
        job_file = self.write_job(job_text(self.word, changes={"steps": STEPS, **ANY_LENGTH}))
        self.environment["ES_LOSE_DEVICE"] = f"head/{CUDA}:0:7"
        # The end of the process is told, and not the silence of its link, which a busy head may see
        # first.
        head = self.start_daemon(devices=f"{CUDA}:1+{fast}:1", options=[
            "--heartbeat", "100000", "--dead-after", "200000"])
        del self.environment["ES_LOSE_DEVICE"]
        both = "+".join(sorted([f"{CUDA}:1", f"{fast}:1"]))
        job = head.submit(job_file, "--stages", f"{both}@{STEPS}")
        end = head.wait_for_state(job, "finished")
        self.assertEqual(digests(end), digests(self.run_job(job_file, "--devices", f"{fast}:1")))
        log = head.esctl("logs", job).out
        self.assertIn("the device is lost: ES_LOSE_DEVICE requests it", log)
        # The next process begins with a working device.
        short = self.write_job(job_text(self.word, changes={"steps": 5}), "short.toml")
        head.wait_for_state(head.submit(short, "--stages", f"{CUDA}:1@5"), "finished")
        head.stop()


if __name__ == "__main__":
    harness.main()
