#!/usr/bin/env python3
"""Groups of parameters: the same bits on all placements, and checkpoints of the same groups only."""
import harness
from harness import EXIT_USAGE, digests
from jobs import ANY_LENGTH, job_text

STEPS = 40
GROUPS = """
[[optimizer.groups]]
parameters = ["*.bias", "{second}"]
weight_decay = {decay}

[[optimizer.groups]]
parameters = ["*.weight"]
learning_rate_factor = 0.5
"""


class Groups(harness.EndToEndTest):
    def groups_job(self, second="fc*.bias", decay=0.0, groups=GROUPS, steps=STEPS, name="job.toml"):
        changes = {"steps": steps, "optimizer.weight_decay": 0.05, **ANY_LENGTH}
        text = job_text(self.word, changes=changes)
        return self.write_job(text + groups.format(second=second, decay=decay), name)

    def test_the_bits_depend_on_the_groups_and_not_on_the_placement(self):
        fast, other = self.fast_class(), self.other_class()
        job = self.groups_job()
        fixed = digests(self.run_job(job, "--devices", f"{other}:1"))
        changing = self.run_job(job, "--stages", f"{fast}:4@15,cpu-scalar:1@5,{fast}:2@20")
        self.assertEqual(digests(changing), fixed)
        for different in (self.groups_job(decay=0.05), self.groups_job(groups="")):
            self.assertNotEqual(digests(self.run_job(different, "--devices", f"{fast}:1")), fixed)

    def test_a_checkpoint_belongs_to_jobs_with_the_same_groups(self):
        devices = self.fast_class() + ":2"
        half, checkpoint = self.groups_job(steps=STEPS // 2), self.directory / "checkpoint"
        self.run_job(half, "--devices", devices, "--checkpoint", checkpoint)
        whole = self.groups_job(name="whole.toml")
        resumed = self.run_job(whole, "--from", checkpoint, "--devices", devices)
        self.assertEqual(digests(resumed), digests(self.run_job(whole, "--devices", devices)))
        other = self.groups_job(decay=0.1, name="other.toml")
        refused = self.esctl("run", other, "--from", checkpoint, "--devices", devices,
                             code=EXIT_USAGE)
        self.assertIn("belongs to a job with another optimizer.groups", refused.err)

    def test_a_name_that_no_parameter_has_is_refused(self):
        job = self.groups_job(second="fc.bais")
        refused = self.esctl("run", job, "--devices", self.fast_class() + ":1", code=EXIT_USAGE)
        self.assertIn('optimizer.groups[0].parameters = ["fc.bais"]: allowed is', refused.err)
        self.assertIn('a similar name is "fc', refused.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
