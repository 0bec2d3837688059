#!/usr/bin/env python3
"""What a run leaves behind: its last completed step if a checkpoint is wanted, and an error if it
cannot be written. No file of one run is used or removed by another run."""
import os
import signal
import subprocess
import unittest

import harness
from harness import EXIT_FAILURE, EXIT_NOT_FOUND, digests
from jobs import ANY_LENGTH, job_text

LONG = 20_000  # With a line of progress every 1,000 steps.


class Kept(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.kept = self.directory / "kept"

    def job(self, steps, name="job.toml", **changes):
        return self.write_job(
            job_text(self.word, changes={"steps": steps, **ANY_LENGTH, **changes}), name)

    def checkpoints(self, place):
        return self.esctl("checkpoint", "ls", place, "--json").json["checkpoints"]

    def fixed(self, job, steps):
        return digests(self.run_job(job, "--steps", steps, "--devices", f"{self.fast}:1"))


class AtTheEnd(Kept):
    def test_a_run_that_is_stopped_saves_its_last_completed_step(self):
        job = self.job(LONG)
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                place = self.directory / f"kept{number}"
                run = self.start_esctl("run", job, "--json", "--devices", f"{self.fast}:2",
                                       "--checkpoint", place)
                run.wait_for_line(r"step [1-9]\d+/")
                ended = run.stop(number)
                self.assertEqual(ended.code, 128 + number, str(ended))
                self.assertEqual(ended.json["state"], "cancelled")
                one, = self.checkpoints(place)
                self.assertEqual(one["version"], ended.json["steps"])
                self.assertEqual(ended.json["weights"], {"path": str(place), "step": one["version"]})
                self.assertEqual(digests(one), self.fixed(job, one["version"]))
                self.assert_nothing_left()

    def test_in_the_middle_of_changes_of_its_devices(self):
        placements = [f"{self.fast}:1", f"{self.other_class()}:3", f"{self.fast}:2"]
        stages = ",".join(f"{placements[i % 3]}@1" for i in range(300))
        job = self.job(300)
        random = harness.seeded_random("stopped in a change")
        for attempt in range(3):
            place = self.directory / f"kept{attempt}"
            run = self.start_esctl("run", job, "--json", "--stages", stages, "--checkpoint", place)
            run.wait_for_line(harness.stage_from(random.randrange(2, 7)))
            ended = run.stop(signal.SIGINT)
            self.assertEqual(ended.code, 128 + signal.SIGINT, str(ended))
            one, = self.checkpoints(place)
            self.assertEqual(one["version"], ended.json["steps"])
            self.assertEqual(digests(one), self.fixed(job, one["version"]))

    def test_a_run_that_does_all_its_steps_leaves_its_last(self):
        end = self.run_job(self.job(40), "--checkpoint", self.kept, "--devices", f"{self.fast}:2")
        one, = self.checkpoints(self.kept)
        self.assertEqual(one["version"], 40)
        self.assertEqual(one["run"], end["job"])
        self.assertEqual(digests(one), digests(end))
        self.assertEqual(end["weights"], {"path": str(self.kept), "step": 40})
        self.esctl("export", self.kept, self.directory / "kept.safetensors")

    def test_a_run_says_where_its_weights_are(self):
        ended = self.esctl("run", self.job(5), "--devices", f"{self.fast}:1")
        self.assertIn("the weights of this run will not be kept; --checkpoint DIR keeps them", ended.err)
        self.assertIn("The weights are not kept.", ended.out)
        ended = self.esctl("run", self.job(5), "--devices", f"{self.fast}:1", "--checkpoint", "kept")
        self.assertNotIn("will not be kept", ended.err)
        self.assertIn(f"The weights of step 5 are in {self.kept}", ended.out)
        self.assertIn(f"esctl export {self.kept} FILE.safetensors", ended.out)

    def test_a_place_that_cannot_be_is_refused_before_anything_is_started(self):
        self.esctl("run", self.job(LONG), "--checkpoint", self.directory / "no/kept",
                   code=EXIT_NOT_FOUND)

    def test_a_second_signal_leaves_no_part_of_a_checkpoint(self):
        run = self.start_esctl("run", self.job(LONG), "--devices", f"{self.fast}:2",
                               "--checkpoint", self.kept)
        run.wait_for_line(r"step [1-9]\d*/")
        run.process.send_signal(signal.SIGINT)
        run.wait_for_line("a second signal stops it at once")
        ended = run.stop(signal.SIGINT)
        self.assertNotEqual(ended.code, 0, str(ended))
        self.assertEqual([path.name for path in self.directory.iterdir()
                          if path.name.startswith(".")], [])
        self.assert_nothing_left()


class FullDisk(Kept):
    def setUp(self):
        super().setUp()
        self.small = self.directory / "small"
        self.small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", self.small],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            raise unittest.SkipTest("may not mount a tmpfs here: " + mounted.stderr.decode())
        self.addCleanup(subprocess.run, ["umount", "-l", self.small], check=True)

    def assert_kept_elsewhere(self, ended, place):
        self.assertEqual(ended.code, EXIT_FAILURE, str(ended))
        self.assertIn("No space left on device", ended.err)
        one, = self.checkpoints(self.directory / ended.json["job"])
        self.assertEqual(one["version"], ended.json["steps"])
        self.assertEqual(ended.json["weights"]["path"], one["path"])
        self.assertFalse(place.exists())
        self.assertEqual(list(self.small.iterdir()), [])

    def test_the_last_step_goes_elsewhere_and_that_is_an_error(self):
        place = self.small / "kept"
        job = self.job(20)
        ended = self.esctl("run", job, "--json", "--devices", f"{self.fast}:1", "--checkpoint",
                           place, code=EXIT_FAILURE)
        self.assertEqual(ended.json["steps"], 20)
        self.assert_kept_elsewhere(ended, place)

    def test_so_does_the_step_at_which_it_is_stopped(self):
        place = self.small / "kept"
        run = self.start_esctl("run", self.job(LONG), "--json", "--devices", f"{self.fast}:2",
                               "--checkpoint", place)
        run.wait_for_line(r"step [1-9]\d*/")
        self.assert_kept_elsewhere(run.stop(signal.SIGINT), place)

    def test_a_series_without_its_last_checkpoint_is_an_error_too(self):
        job = self.job(20, **{"checkpoint.every_steps": 10, "checkpoint.keep": 2,
                              "checkpoint.directory": str(self.small)})
        ended = self.esctl("run", job, "--json", "--devices", f"{self.fast}:1", code=EXIT_FAILURE)
        self.assertEqual(ended.json["state"], "failed")
        self.assertIn("all 20 steps are done, but their result is not kept", ended.json["error"])
        self.assertIn("No space left on device", ended.json["error"])
        self.assertIsNone(ended.json["weights"])


class ManyRuns(Kept):
    def setUp(self):
        super().setUp()
        self.series = self.directory / "series"

    def run_series(self, steps, every):
        job = self.job(steps, **{"checkpoint.every_steps": every, "checkpoint.keep": 9,
                                 "checkpoint.directory": str(self.series)})
        return self.run_job(job, "--devices", f"{self.fast}:1")

    def test_runs_share_no_directory_and_the_newest_is_the_last_written(self):
        long, short = self.run_series(60, 20), self.run_series(20, 10)
        self.assertNotEqual(long["job"], short["job"])
        self.assertEqual({path.name for path in self.series.iterdir()}, {long["job"], short["job"]})
        self.assertEqual(short["weights"],
                         {"path": str(self.series / short["job"] / "step-20"), "step": 20})
        # As if both had written into one directory, which earlier versions allowed.
        mixed = self.directory / "mixed/job-1"
        mixed.mkdir(parents=True)
        for run in (long, short):
            for path in (self.series / run["job"]).iterdir():
                path.rename(mixed / f"{run['job']}-{path.name}")
        listed = self.checkpoints(mixed)
        self.assertEqual([one["run"] for one in listed[-2:]], [short["job"]] * 2)
        self.assertEqual(listed[-1]["version"], 20)
        (mixed / "latest").symlink_to(listed[0]["path"])
        words = ["checkpoint", "prune", self.directory / "mixed", "--keep", "1", "--json"]
        planned = self.esctl(*words, "--dry-run").json
        self.assertEqual(self.checkpoints(mixed), listed)
        pruned = self.esctl(*words).json
        self.assertEqual(planned["removed"], pruned["removed"])
        self.assertEqual(sorted((one["run"], one["version"]) for one in pruned["kept"]),
                         sorted([(long["job"], 60), (short["job"], 20)]))
        self.assertEqual(len(pruned["skipped"]), 1)
        self.assertTrue((mixed / "latest").is_symlink())

    def test_a_restarted_head_gives_new_ids_and_a_short_one_is_understood(self):
        daemon = self.start_daemon(devices=f"{self.fast}:1")
        first = daemon.submit(self.job(5))
        daemon.wait_for_state(first, "finished")
        daemon.stop()
        again = harness.Daemon(self, self.start(*daemon.running.words))
        second = again.submit(self.job(5))
        self.assertEqual(first.rpartition("-")[2], second.rpartition("-")[2])
        self.assertNotEqual(first, second)
        again.wait_for_state(second, "finished")
        short = second.rpartition("-")[0]
        self.assertEqual(again.describe(short)["job"], second)
        self.assertEqual(again.json("ledger", short)["job"], second)
        again.stop()
        other = self.start_daemon("other", devices=f"{self.fast}:1")
        self.assertNotEqual(other.submit(self.job(5)), first)
        other.stop()

    def test_verify_writes_no_checkpoint(self):
        job = self.job(4, **{"checkpoint.every_steps": 2, "checkpoint.keep": 2,
                             "checkpoint.directory": str(self.series)})
        before = sorted(os.listdir(self.directory))
        self.esctl("verify", job, "--steps", "4", "--stages", f"{self.fast}:1", "--stages",
                   f"{self.fast}:2")
        self.assertEqual(sorted(os.listdir(self.directory)), before)


if __name__ == "__main__":
    harness.main()
