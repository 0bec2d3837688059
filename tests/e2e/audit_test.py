#!/usr/bin/env python3
"""Ledgers, their comparison, and audits that find a device which computes wrongly."""
import signal

import harness
from harness import digests
from jobs import job_text

STEPS = 8
SMALL = {"steps": STEPS, "max_p": 4, "data.samples": 200, "data.eval_samples": 8,
         "schedule.kind": "constant", "schedule.warmup_steps": 0}


class AuditTest(harness.EndToEndTest):
    def job(self, changes=None, name="job.toml"):
        return self.write_job(job_text(self.word, changes={**SMALL, **(changes or {})}), name)

    def audited(self, every_steps):
        return self.job({"audit.every_steps": every_steps}, "audited.toml")

    def train_with_fault(self, device_count, fault, every_steps, stages=False):
        """Trains the audited job on a head of its own with one faulty device. Returns both."""
        device = self.fast_class()
        self.environment["ES_FAULT"] = fault.format(device=device)
        head = self.start_daemon("head", f"{device}:{device_count}")
        job = head.submit(self.audited(every_steps),
                          *(["--stages", f"{device}:3@{STEPS}"] if stages else []))
        return head, head.wait_for_state(job, "finished")

    def reference(self):
        return self.run_job(self.job(), "--stages", f"{self.fast_class()}:1@{STEPS}")

    def assert_one_blamed(self, head, details, index):
        device = f"head/{self.fast_class()}:{index}"
        self.assertEqual(head.suspects(), [device])
        log = head.esctl("logs", details["job"]).out
        self.assertIn(f"audit: {device} computes wrongly", log)
        return log

    def test_an_audited_job_has_the_same_bits_on_one_device_and_on_three(self):
        audited, plain = self.audited(1), self.reference()
        for count in (1, 3):
            summary = self.run_job(audited, "--stages", f"{self.fast_class()}:{count}@{STEPS}")
            self.assertEqual(digests(summary), digests(plain))

    def test_one_flipped_bit_is_blamed_on_its_device_and_leaves_no_trace(self):
        expected = digests(self.reference())
        # The fourth device replaces the faulty one. Every second step is audited: step 2 is the
        # second audit, of rank 1.
        head, details = self.train_with_fault(4, "flip-gradient:head/{device}:0:2:1", every_steps=2,
                                              stages=True)
        self.assertEqual(digests(details), expected)
        log = self.assert_one_blamed(head, details, 0)
        self.assertIn("audit of step 2, EST 1: two devices got different gradients", log)
        head.stop()

    def test_a_device_that_goes_wrong_for_good_is_outvoted_and_the_job_goes_back(self):
        expected = digests(self.reference())
        head, details = self.train_with_fault(4, "flip-gradient:head/{device}:0:3+:*", every_steps=1,
                                              stages=True)
        self.assertEqual(digests(details), expected)
        log = self.assert_one_blamed(head, details, 0)
        self.assertIn("the job goes back to version 0", log)
        # It is given to no job until an operator clears it.
        refused = head.esctl("submit", self.job(), "--stages",
                             f"{self.fast_class()}:4@{STEPS}", code=harness.EXIT_REFUSED)
        self.assertIn(f"the cluster has {self.fast_class()}:3", refused.err)
        device = head.suspects()[0]
        head.esctl("nodes", "--clear", device)
        self.assertEqual(head.suspects(), [])
        head.esctl("nodes", "--clear", device, code=harness.EXIT_NOT_FOUND)
        head.stop()

    def test_a_head_that_dies_while_it_goes_back_leaves_no_trace_either(self):
        expected = digests(self.reference())
        device = self.fast_class()
        for point in ("rewind.before", "rewind.after"):
            with self.subTest(point):
                self.environment["ES_FAULT"] = f"flip-gradient:{point}/{device}:0:3+:*"
                self.environment["ES_KILL_POINT"] = point
                head = self.start_daemon(point, f"{device}:4")
                job = head.submit(self.audited(1), "--stages", f"{device}:3@{STEPS}")
                self.assertEqual(head.running.wait().code, -signal.SIGKILL)
                del self.environment["ES_KILL_POINT"]
                harness.wait_until("its workers have ended",
                                   lambda: not self.left_behind()["processes"])
                head = harness.Daemon(self, self.start(*head.running.words))
                self.assertEqual(digests(head.wait_for_state(job, "finished")), expected)
                self.assertEqual(head.suspects(), [f"{point}/{device}:0"])
                head.stop()

    def test_spoiled_checkpoints_of_the_series_do_not_stay(self):
        series = self.directory / "series"
        device = self.fast_class()
        self.environment["ES_FAULT"] = f"flip-gradient:head/{device}:0:3+:*"
        head = self.start_daemon("head", f"{device}:4")
        # Steps 0 and 6 are audited. When the fault is found, versions 4 and 6 are wrong.
        job = head.submit(self.job({"audit.every_steps": 6, "checkpoint.every_steps": 2,
                                    "checkpoint.keep": 100, "checkpoint.directory": str(series)}),
                          "--stages", f"{device}:3@{STEPS}")
        details = head.wait_for_state(job, "finished")
        log = head.esctl("logs", job).out
        self.assertIn("the job goes back to version", log)
        plain = self.job({"checkpoint.every_steps": 2, "checkpoint.keep": 100,
                          "checkpoint.directory": str(self.directory / "right")}, "plain.toml")
        right = head.submit(plain, "--stages", f"{device}:3@{STEPS}")
        self.assertEqual(digests(details), digests(head.wait_for_state(right, "finished")))
        known = {c["version"]: digests(c) for c in head.json("checkpoint", "ls", right)["checkpoints"]}
        found = head.json("checkpoint", "ls", job)["checkpoints"]
        for checkpoint in found:
            if checkpoint["version"] in known:
                self.assertEqual(digests(checkpoint), known[checkpoint["version"]], checkpoint)
        self.assertEqual(found[-1]["version"], STEPS)
        head.stop()

    def test_the_ledger_is_there_while_it_grows_and_after_the_end(self):
        head = self.start_daemon("head", f"{self.fast_class()}:2")
        job = head.submit(self.job())
        details = head.wait_for_state(job, "finished")
        lines = head.json("ledger", job)["lines"]
        self.assertEqual([line["step"] for line in lines], list(range(1, STEPS + 1)))
        self.assertEqual(lines[-1]["params_digest"], details["params_digest"])
        self.assertEqual({len(line["losses"]) for line in lines}, {4})
        part = head.json("ledger", job, "--from", "3", "--to", "4")["lines"]
        self.assertEqual(part, lines[2:4])
        path = self.directory / "run.ledger"
        head.esctl("ledger", job, "--out", path)
        again = head.submit(self.job())
        head.wait_for_state(again, "finished")
        self.assertIn("identical yes", head.esctl("diff", path, again).out)
        head.stop()
        self.assertIn("identical yes", self.esctl("diff", path, path).out)
        shown = self.esctl("ledger", path, "--json").json["lines"]
        self.assertEqual(shown, lines)

    def test_diff_names_the_first_different_step_and_operator(self):
        a, b = self.fast_class(), self.other_class()
        if a == b or not self.can_use(f"{a},{b}"):
            self.skipTest("this machine has one kernel class only")
        # The model is large enough for a vendor kernel to run a part of it at D1.
        job = self.write_job(job_text(self.word, "resnet18", {
            **SMALL, "steps": 2, "max_p": 2, "batch_size": 8, "level": "D1", "model.width": 32,
            "data.height": 32, "data.width": 32}), "vendor.toml")
        files = []
        for device in (a, b):
            keep = self.directory / f"{device}.ledger"
            head = self.start_daemon(device, f"{device}:2")
            run = head.submit(job, "--stages", f"{device}:2@2")
            head.wait_for_state(run, "finished")
            head.esctl("ledger", run, "--out", keep)
            head.stop()
            files.append(keep)
        found = self.esctl("diff", *files, "--deep", "--json", code=1).json
        self.assertFalse(found["identical"])
        self.assertTrue(found["deep"]["found"], found["deep"])
        self.assertRegex(found["deep"]["what"], r"EST 0: (output of|gradient of) .*\(")

    def test_verify_trains_under_several_placements(self):
        device = self.fast_class()
        ended = self.esctl("verify", self.job(), "--quiet", "--stages", f"{device}:3@4",
                           "--stages", f"cpu-scalar:1@2,{device}:2@2")
        self.assertTrue(ended.out.endswith("identical yes\n"), ended.out)
        self.assert_nothing_left()
        # At D0 the sum depends on the placement, because D0 does not promise more.
        ended = self.esctl("verify", self.job(), "--quiet", "--steps", "4", "--level", "D0",
                           "--stages", f"{device}:1", "--stages", f"{device}:2", code=1)
        self.assertTrue(ended.out.endswith("identical no\n"), ended.out)
        self.assertRegex(ended.out, r"step \d+: ")


if __name__ == "__main__":
    harness.main()
