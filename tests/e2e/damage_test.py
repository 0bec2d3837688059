#!/usr/bin/env python3
"""A damaged state directory: the head refuses it and names the file, and --recover continues."""
import os
import signal

import harness
from harness import EXIT_FAILURE
from jobs import ANY_LENGTH, job_text


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 8]))


class Damage(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.kind = self.fast_class()
        (self.directory / "head").mkdir(mode=0o700)
        self.state = self.directory / "head" / "state"

    def start_words(self, *options):
        return self.start(harness.easyscaled_program, "--head", "--state", self.state, "--listen",
                          f"ipc://{self.directory}/head/head.sock", "--node", "local",
                          "--devices", f"{self.kind}:1", *options)

    def start_head(self, *options):
        return harness.Daemon(self, self.start_words(*options))

    def job(self, name, **changes):
        text = job_text(f"{self.word}-{name}", changes={"max_p": 2, **ANY_LENGTH, **changes})
        return self.write_job(text, f"{name}.toml")

    def test_a_flipped_bit_is_refused_and_recovered_from(self):
        head = self.start_head()
        done = head.submit(self.job("done", steps=200))
        end = head.wait_for_state(done, "finished")
        head.esctl("claim", "--type", self.kind, "--count", "1", "--name", "serving")
        head.stop()
        head = self.start_head()  # The content of the log is in a table now.
        head.stop()
        table = max(self.state.glob("db/*.sst"), key=lambda path: path.stat().st_size)
        whole = table.read_bytes()
        flip(table, len(whole) // 2)
        refused = self.start_words().wait()
        self.assertEqual(refused.code, EXIT_FAILURE, str(refused))
        self.assertIn(table.name, refused.err)
        self.assertIn("--recover", refused.err)
        damaged = table.read_bytes()
        head = self.start_head("--recover")
        self.assertIn("dropped: ", head.running.err)
        self.assertIn("is kept as", head.running.err)
        kept = self.state / "db.damaged-1" / table.name
        self.assertEqual(kept.read_bytes(), damaged)
        lost = f'job "{done}"' in head.running.err and "its record is lost" in head.running.err
        jobs = head.json("ps")["jobs"]
        if lost:
            self.assertEqual(jobs, [])
        else:
            self.assertEqual([(j["job"], j["state"]) for j in jobs], [(done, "finished")])
            self.assertEqual(jobs[0]["params_digest"], end["params_digest"])
        head.esctl("submit", self.job("new", steps=20))
        head.stop()

    def test_a_job_continues_after_its_newest_lines_were_lost(self):
        head = self.start_head()
        file = self.job("running", steps=1_000_000)
        job = head.submit(file)
        head.wait_for_step(job, 100)
        head.esctl("checkpoint", job)
        before = head.wait_for_step(job, 150)
        head.running.stop(signal.SIGKILL)
        log = max(self.state.glob("db/*.log"), key=lambda path: path.stat().st_size)
        os.truncate(log, 64)
        refused = self.start_words().wait()
        self.assertEqual(refused.code, EXIT_FAILURE, str(refused))
        self.assertIn("SEAL", refused.err)
        head = self.start_head("--recover")
        self.assertIn("dropped: ", head.running.err)
        self.assertGreater(before["steps"], 0)
        again = head.submit(file)
        head.wait_for_step(again, 20)
        taken = head.json("checkpoint", again)
        head.esctl("cancel", again)
        self.assert_bits_of_fixed_run(file, taken, self.kind)
        head.stop()

    def test_what_is_whole_is_not_changed(self):
        head = self.start_head()
        job = head.submit(self.job("done", steps=20))
        head.wait_for_state(job, "finished")
        head.stop()
        head = self.start_head("--recover")
        self.assertIn("is undamaged: nothing was changed", head.running.err)
        self.assertEqual([j["job"] for j in head.json("ps")["jobs"]], [job])
        head.stop()


if __name__ == "__main__":
    harness.main()
