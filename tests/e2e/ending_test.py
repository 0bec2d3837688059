#!/usr/bin/env python3
"""No process of a run or a daemon stays after its end, however it ends. A daemon's jobs continue
later, and a killed worker changes no bits."""
import os
import shutil
import signal

import harness
from harness import EXIT_FAILURE, EXIT_REFUSED, digests, wait_until
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000
END_S = 30  # Seconds for a stop in good order. After a hang esctl would take its whole time limit.


class Ending(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.job = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))
        self.fast = self.fast_class()

    def processes(self):
        return self.left_behind()["processes"]

    def workers(self):
        return [pid for pid, line in self.processes().items() if " worker " in line]


class StoppedRuns(Ending):
    def assert_stops(self, run, number):
        ended = run.stop(number, END_S)
        self.assertEqual(ended.code, 128 + number, str(ended))
        self.assert_nothing_left()
        return ended

    def test_a_signal_while_it_trains(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                run = self.start_esctl("run", self.job, "--json", "--devices", f"{self.fast}:2")
                run.wait_for_line("  running$")
                wait_until("two workers", lambda: len(self.workers()) == 2)
                summary = self.assert_stops(run, number).json
                self.assertEqual(summary["state"], "cancelled")

    def test_a_signal_while_the_daemon_starts(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                run = self.start_esctl("run", self.job, "--devices", f"{self.fast}:2")
                wait_until("its directory", lambda: list(self.temporary.iterdir()))
                self.assert_stops(run, number)

    def test_a_signal_while_the_devices_change(self):
        # Every step has other devices than the one before, so the run is nearly always in a change.
        other = self.other_class()
        placements = [f"{self.fast}:1", f"{other}:3", f"{self.fast}:2", f"{other}:1"]
        stages = ",".join(f"{placements[i % 4]}@1" for i in range(400))
        random = harness.seeded_random("signal in a change")
        for number in (signal.SIGINT, signal.SIGTERM) * 3:
            with self.subTest(number):
                run = self.start_esctl("run", self.job, "--json", "--stages", stages)
                run.wait_for_line(harness.stage_from(random.randrange(2, 7)))
                summary = self.assert_stops(run, number).json
                self.assertEqual(summary["state"], "cancelled")

    def test_a_second_signal_ends_it_at_once(self):
        run = self.start_esctl("run", self.job, "--devices", f"{self.fast}:2")
        run.wait_for_line("  running$")
        run.process.send_signal(signal.SIGINT)
        run.wait_for_line("a second signal stops it at once")
        self.assert_stops(run, signal.SIGINT)

    def test_a_killed_run_takes_its_daemon_along(self):
        run = self.start_esctl("run", self.job, "--devices", f"{self.fast}:2")
        run.wait_for_line("  running$")
        wait_until("two workers", lambda: len(self.workers()) == 2)
        run.stop(signal.SIGKILL)
        wait_until("no process is left", lambda: not self.processes(), END_S)
        self.assertEqual(self.left_behind()["memory"], [])
        for directory in self.temporary.iterdir():
            shutil.rmtree(directory)  # No job could continue.

    def test_a_killed_daemon_is_an_error_of_the_run(self):
        run = self.start_esctl("run", self.job, "--devices", f"{self.fast}:2")
        run.wait_for_line("  running$")
        daemon, = [pid for pid, line in self.processes().items() if " --head " in line
                   and " worker " not in line]
        os.kill(daemon, signal.SIGKILL)
        ended = run.wait(END_S)
        self.assertEqual(ended.code, EXIT_FAILURE, str(ended))
        self.assertIn("esctl: easyscaled", ended.err)
        self.assert_nothing_left()


class StoppedDaemons(Ending):
    """A signal ends a head in good order, and its jobs continue when it is started again."""

    def assert_continues(self, number, middle, steps):
        job_file = self.write_job(job_text(self.word, changes={"steps": steps}), "finite.toml")
        daemon = self.start_daemon(f"head{number}", devices=f"{self.fast}:2")
        job = daemon.submit(job_file)
        daemon.wait_for_step(job, middle)
        ended = daemon.running.stop(number, END_S)
        self.assertEqual(ended.code, 0, str(ended))
        self.assert_nothing_left()
        again = harness.Daemon(self, self.start(*daemon.running.words))
        end = again.wait_for_state(job, "finished")
        log = again.esctl("logs", job).out
        # A repeated step would be reported.
        self.assertNotIn("no worker holds the state of the job", log)
        self.assertEqual(digests(end), digests(self.run_job(job_file, "--devices",
                                                            f"{self.fast}:1")))
        kept = self.directory / f"head{number}/state/checkpoints"
        self.assertEqual([path.name for path in kept.iterdir()], [".easyscale-probe"])
        again.stop()
        self.assert_nothing_left()

    def test_sigterm_with_a_running_job(self):
        self.assert_continues(signal.SIGTERM, 100, 1200)

    def test_ctrl_c_with_a_running_job(self):
        self.assert_continues(signal.SIGINT, 100, 1200)

    def test_a_second_signal_ends_it_at_once(self):
        daemon = self.start_daemon(devices=f"{self.fast}:1", options=["--dead-after", "100000"])
        job = daemon.submit(self.job)
        daemon.wait_for_step(job, 1)
        worker, = self.workers()
        os.kill(worker, signal.SIGSTOP)  # So it cannot be saved.
        daemon.running.process.send_signal(signal.SIGTERM)
        wait_until("no job is accepted", lambda: EXIT_REFUSED == self.start_esctl(
            "submit", self.job, "--head", daemon.endpoint).wait().code)
        ended = daemon.running.stop(signal.SIGTERM, END_S)
        self.assertEqual(ended.code, EXIT_FAILURE, str(ended))
        wait_until("no process is left", lambda: not self.processes(), END_S)

    def test_a_cancelled_job_does_not_come_back(self):
        daemon = self.start_daemon(devices=f"{self.fast}:1")
        job = daemon.submit(self.job)
        daemon.wait_for_step(job, 1)
        daemon.esctl("cancel", job)
        daemon.stop()
        again = harness.Daemon(self, self.start(*daemon.running.words))
        self.assertEqual([j["state"] for j in again.json("ps")["jobs"]], ["cancelled"])
        again.stop()


class KilledWorkers(Ending):
    def kill_and_check(self, kill_count):
        daemon = self.start_daemon(devices=f"{self.fast}:3")
        job = daemon.submit(self.job, "--stages", f"{self.fast}:3@{ENDLESS}")
        for _ in range(2):
            before = daemon.wait_for(
                job, "three workers", lambda d: d["state"] == "running" and d["steps"] > 0
                and len(d["workers"]) == 3 and all(w["pid"] for w in d["workers"]))
            killed = [worker["pid"] for worker in before["workers"][:kill_count]]
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            after = daemon.wait_for(
                job, "training continues with another process",
                lambda d: d["state"] == "running" and d["steps"] > before["steps"]
                and not {w["pid"] for w in d["workers"]} & {0, *killed})
            staying = {worker["pid"] for worker in before["workers"][kill_count:]}
            self.assertTrue(staying <= {worker["pid"] for worker in after["workers"]})
        taken = daemon.json("checkpoint", job)
        daemon.esctl("cancel", job)
        daemon.stop()
        self.assert_bits_of_fixed_run(self.job, taken, self.fast)

    def test_one_of_three(self):
        self.kill_and_check(1)

    def test_two_of_three(self):
        self.kill_and_check(2)


if __name__ == "__main__":
    harness.main()
