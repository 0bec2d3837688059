#!/usr/bin/env python3
"""The cost of a suspect device: the steps since the last good checkpoint, and the device until it
is cleared, also after a restart of the head."""
import re
import signal

import harness
from harness import digests
from jobs import job_text

STEPS = 400
# Another device's EST is audited in this step, so the result of the first device is committed.
WRONG_FROM = 298
# There are enough steps for a checkpoint to be on the disk before the device computes wrongly.
JOB = {"steps": STEPS, "max_p": 4, "data.samples": 200, "data.eval_samples": 8,
       "data.height": 24, "data.width": 24, "schedule.kind": "constant", "schedule.warmup_steps": 0}
SMALL = {**JOB, "steps": 8, "data.height": 12, "data.width": 12}


class Suspect(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.device = self.fast_class()

    def job(self, changes, name="job.toml"):
        return self.write_job(job_text(self.word, changes=changes), name)

    def start_faulty(self, first_wrong_step):
        """A head with four devices, of which the first computes wrongly from this step on."""
        self.environment["ES_FAULT"] = (
            f"flip-gradient:head/{self.device}:0:{first_wrong_step}+:*")
        return self.start_daemon("head", f"{self.device}:4")

    def restart(self, head):
        head.running.stop(signal.SIGKILL)
        return harness.Daemon(self, self.start(*head.running.words))

    def test_the_job_goes_back_to_its_last_good_checkpoint(self):
        series = self.directory / "checkpoints"
        head = self.start_faulty(WRONG_FROM)
        job = head.submit(self.job({
            **JOB, "audit.every_steps": 1, "checkpoint.every_steps": 10, "checkpoint.keep": 20,
            "checkpoint.directory": str(series)}),
            "--stages", f"{self.device}:3@{STEPS}")
        end = head.wait_for_state(job, "finished")
        self.assertEqual(head.suspects(), [f"head/{self.device}:0"])
        log = head.esctl("logs", job).out
        back = [int(version) for version in re.findall(r"the job goes back to version (\d+)", log)]
        self.assertEqual(len(back), 1, log)
        self.assertIn(back[0], range(1, WRONG_FROM))
        self.assertEqual(head.json("checkpoint", "ls", job)["checkpoints"][-1]["version"], STEPS)
        self.esctl("checkpoint", "verify", series)
        head.stop()
        fixed = self.run_job(self.job(JOB, "plain.toml"), "--stages", f"{self.device}:1@{STEPS}")
        self.assertEqual(digests(end), digests(fixed))

    def test_it_stays_out_of_use_over_restarts_of_the_head_until_it_is_cleared(self):
        head = self.start_faulty(3)
        job = self.job({**SMALL, "audit.every_steps": 1})
        head.wait_for_state(head.submit(job, "--stages", f"{self.device}:3@8"), "finished")
        blamed = [f"head/{self.device}:0"]
        self.assertEqual(head.suspects(), blamed)
        del self.environment["ES_FAULT"]  # It was repaired, and the head does not know that.
        head = self.restart(head)
        self.assertEqual(head.suspects(), blamed)
        all_four = self.job({**SMALL, "stages": f"{self.device}:4@8", "steps": None}, "all.toml")
        refused = head.esctl("submit", all_four, code=harness.EXIT_REFUSED)
        self.assertIn(f"the cluster has {self.device}:3", refused.err)
        self.assertIn("suspect", head.esctl("nodes").out)
        head.esctl("nodes", "--clear", *blamed)
        self.assertEqual(head.suspects(), [])
        head = self.restart(head)
        self.assertEqual(head.suspects(), [])
        head.wait_for_state(head.submit(all_four), "finished")
        head.stop()


if __name__ == "__main__":
    harness.main()
