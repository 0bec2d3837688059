#!/usr/bin/env python3
"""What each determinism level promises, and that the weaker levels promise no more than that."""
import harness
from harness import EXIT_REFUSED, digests
from jobs import ANY_LENGTH, job_text

STEPS = 12


class Levels(harness.EndToEndTest):
    def run_at(self, level, stages, model="resnet18"):
        changes = {"level": level, "steps": STEPS}
        job = self.write_job(job_text(self.word, model, changes))
        return self.run_job(job, "--stages", stages)

    def found(self, level, *placements):
        return [digests(self.run_at(level, stages)) for stages in placements]

    def test_d0_repeats_itself_on_the_same_devices_only(self):
        fast = self.fast_class()
        one, two, again, resized = self.found("D0", f"{fast}:1@12", f"{fast}:2@12", f"{fast}:2@12",
                                              f"{fast}:2@6,{fast}:1@6")
        self.assertEqual(two, again)
        self.assertEqual(len({one, two, resized}), 3)

    def test_d1_is_the_same_on_any_number_of_devices_of_a_type(self):
        fast = self.fast_class()
        found = self.found("D1", f"{fast}:1@12", f"{fast}:3@12", f"{fast}:4@6,{fast}:2@6")
        self.assertEqual(len(set(found)), 1, found)

    def test_auto_becomes_a_level_that_keeps_its_promise(self):
        """The level that auto becomes is measured, so another run may get another one. Its name
        tells it."""
        fast = self.fast_class()
        chosen = self.run_at("auto", f"{fast}:1@12")
        self.assertIn(chosen["level"], ("D1", "D2"))
        again = self.run_at(chosen["level"], f"{fast}:3@12")
        self.assertEqual(again["level"], chosen["level"])
        self.assertEqual(digests(chosen), digests(again))

    def test_below_d2_a_job_waits_for_its_type_rather_than_compute_other_bits(self):
        fast, other = self.fast_class(), self.other_class()
        if fast == other:
            self.skipTest("two kernel classes are needed")
        file = self.write_job(job_text(self.word, changes={"level": "D1", "steps": 1_000_000,
                                                           **ANY_LENGTH}))
        daemon = self.start_daemon(devices="+".join(sorted([f"{fast}:1", f"{other}:1"])))
        job = daemon.submit(file)
        began = daemon.wait_for_step(job, 5)["placement"].removesuffix(":1")
        free = other if began == fast else fast
        refused = daemon.esctl("scale", job, f"{free}:1", code=EXIT_REFUSED)
        self.assertIn(f"allowed are devices of {began}", refused.err)
        daemon.esctl("claim", "--name", "serving", "--type", began, "--count", 1)
        reason = f"at least 1 device of type {began}"
        waiting = daemon.wait_for(job, reason, lambda d: d["waiting_for"] == reason)
        self.assertEqual(waiting["state"], "queued")
        self.assertGreater(waiting["steps"], 0)
        daemon.esctl("release", "serving")
        daemon.wait_for_step(job, waiting["steps"] + 50)
        taken = daemon.json("checkpoint", job)
        daemon.esctl("cancel", job)
        self.assert_bits_of_fixed_run(file, taken, began)
        daemon.stop()

    def test_below_d2_a_checkpoint_is_continued_on_its_type(self):
        fast, other = self.fast_class(), self.other_class()
        if fast == other:
            self.skipTest("two kernel classes are needed")
        file = self.write_job(job_text(self.word, "resnet18",
                                       {"level": "D1", "steps": STEPS, **ANY_LENGTH}))
        whole = self.run_job(file, "--devices", f"{other}:1")
        half = self.directory / "half"
        self.run_job(file, "--stages", f"{other}:1@6", "--steps", 6, "--checkpoint", half)
        daemon = self.start_daemon(devices="+".join(sorted([f"{fast}:1", f"{other}:1"])))
        daemon.esctl("claim", "--name", "serving", "--type", other, "--count", 1)
        job = daemon.submit(file, "--from", half)
        # The other type is free, and could not load the checkpoint.
        daemon.wait_for(job, "waits", lambda d: d["state"] == "queued" and d["waiting_for"])
        daemon.esctl("release", "serving")
        finished = daemon.wait_for_state(job, "finished")
        self.assertEqual({stage["placement"] for stage in finished["stages"]}, {f"{other}:1"})
        self.assertEqual(digests(finished), digests(whole))
        daemon.stop()


if __name__ == "__main__":
    harness.main()
