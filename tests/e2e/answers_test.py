#!/usr/bin/env python3
"""The output for people and for programs: the answer of every command as text and as JSON, from a
real head."""
import re

import harness
from harness import EXIT_REFUSED, EXIT_USAGE
from jobs import job_text

# Texts by their meaning, whatever characters they consist of.
TEXTS = re.compile(r"digest|hash|spec_toml|^version$|^job$|^name$|^placement|^stages$|^detail$|^error$")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


def numbers_as_text(value, key=""):
    """The places where a JSON value has a number in quotation marks."""
    if isinstance(value, dict):
        return [found for k, v in value.items() for found in numbers_as_text(v, k)]
    if isinstance(value, list):
        return [found for v in value for found in numbers_as_text(v, key)]
    wrong = isinstance(value, str) and NUMBER.fullmatch(value) and not TEXTS.search(key)
    return [f"{key} = {value!r}"] if wrong else []


class Answers(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.daemon = self.start_daemon(devices=f"{self.fast}:3")

    def submit(self, steps, name):
        return self.daemon.submit(self.write_job(job_text(name, changes={"steps": steps}),
                                                 f"{name}.toml"))

    def column(self, text, heading):
        """The cell of the first row under a heading."""
        lines = text.splitlines()
        row = next(i for i, line in enumerate(lines) if heading in line)
        begin = lines[row].index(heading)
        return lines[row + 1][begin:].split("  ")[0]

    def test_samples_per_second_are_those_of_now(self):
        job = self.submit(1_000_000, "rate")
        here = self.daemon.wait_for(job, "a rate", lambda d: d["samples_per_s"])
        self.assertGreater(here["samples_per_s"], 0)
        self.assertRegex(self.column(self.daemon.esctl("ps").out, "SAMPLES/S"), r"^\d+\.\d$")
        self.assertIn("samples/s now", self.daemon.esctl("describe", job).out)
        self.daemon.esctl("pause", job)
        paused = self.daemon.describe(job)
        self.assertIsNone(paused["samples_per_s"])
        self.assertGreater(paused["samples_per_s_mean"], 0)
        self.assertIsNone(self.daemon.json("ps")["jobs"][0]["samples_per_s"])
        self.assertEqual(self.column(self.daemon.esctl("ps").out, "SAMPLES/S"), "-")
        self.assertNotIn("samples/s now", self.daemon.esctl("describe", job).out)
        self.daemon.esctl("cancel", job)
        self.assertIsNone(self.daemon.describe(job)["samples_per_s"])
        self.daemon.stop()

    def test_scale_says_what_will_happen(self):
        job = self.submit(1_000_000, "scale")
        self.daemon.wait_for_step(job, 10)
        self.daemon.esctl("scale", job, f"{self.fast}:1")
        self.daemon.wait_for(job, "one device", lambda d: d["placement"] == f"{self.fast}:1")
        self.assertEqual(self.daemon.esctl("scale", job, f"{self.fast}:1").out,
                         f"job {job} stays on {self.fast}:1\n")
        said = self.daemon.esctl("scale", job, "auto").out
        self.assertRegex(said, rf"^the scheduler chooses the devices of job {job} from now on; it "
                               rf"stays on {self.fast}:\d until it is given others")
        self.daemon.esctl("pause", job)
        self.assertEqual(self.daemon.esctl("scale", job, f"{self.fast}:2").out,
                         f"job {job} is paused; once it is resumed, it continues on {self.fast}:2\n")
        self.daemon.esctl("cancel", job)
        self.daemon.stop()

    def test_ranks_are_named_by_the_first_and_the_last(self):
        job = self.submit(1_000_000, "ranks")
        self.daemon.esctl("scale", job, f"{self.fast}:1")
        here = self.daemon.wait_for(job, "one device", lambda d: len(d["workers"]) == 1)
        self.assertEqual([(w["rank_begin"], w["rank_end"]) for w in here["workers"]], [(0, 4)])
        self.assertEqual(self.column(self.daemon.esctl("describe", job).out, "RANKS"), "0 to 3")
        self.daemon.esctl("cancel", job)
        self.daemon.stop()

    def test_numbers_are_numbers_in_every_answer(self):
        file = self.write_job(job_text("types", changes={"steps": 30}), "types.toml")
        job = self.daemon.submit(file)
        self.daemon.wait_for_state(job, "finished")
        endless = self.submit(1_000_000, "endless")
        self.daemon.wait_for_step(endless, 5)
        taken = self.daemon.json("checkpoint", endless, "--to", self.directory / "taken")
        ledger = self.directory / "types.ledger"
        self.daemon.esctl("ledger", job, "--out", ledger)
        weights = self.directory / "w.safetensors"
        commands = [
            ("ps",), ("describe", job), ("describe", endless), ("plans", endless), ("nodes",),
            ("claim", "--type", self.fast, "--count", "1", "--name", "web"),
            ("claim", "--name", "web", "--count", "2"), ("claims",), ("release", "web"),
            ("reserve", "--name", "r", "--type", self.fast, "--count", "1", "--from", "1h", "--for",
             "1h"), ("release", "r"),
            ("queues",),
            ("ledger", job, "--from", "2", "--to", "3"), ("diff", job, ledger), ("inspect", job),
            ("scale", endless, f"{self.fast}:2"), ("pause", endless), ("resume", endless),
            ("budget", endless, "5"), ("cancel", endless),
        ]
        answers = [(words, self.daemon.json(*words)) for words in commands]
        answers += [(words, self.esctl(*words, "--json").json) for words in [
            ("export", self.directory / "taken", weights),
            ("checkpoint", "ls", self.directory), ("checkpoint", "verify", self.directory / "taken"),
            ("keygen", self.directory / "keys"),
            ("run", file, "--quiet", "--steps", "3"),
            ("verify", file, "--quiet", "--steps", "2", "--stages", f"{self.fast}:1", "--stages",
             f"{self.fast}:2"),
        ]]
        answers.append((("checkpoint",), taken))
        for words, answer in answers:
            with self.subTest(command=words):
                self.assertEqual(numbers_as_text(answer), [])
        by_command = {words[0]: answer for words, answer in answers}
        self.assertEqual(by_command["export"]["step"], taken["version"])
        self.daemon.stop()

    def test_an_error_says_what_is_wrong_and_its_exit_code_which_kind_it_is(self):
        self.daemon.stop()
        bogus = self.esctl("bogus", code=EXIT_USAGE)
        self.assertEqual(bogus.err, 'esctl: unknown command "bogus"; the nearest is logs (see esctl '
                                    "--help)\n")
        self.esctl("keygen", self.directory / "keys")
        again = self.esctl("keygen", self.directory / "keys", code=EXIT_REFUSED)
        self.assertIn("server.key exists, and a key is never overwritten", again.err)
        both = self.write_job(job_text("both", changes={"epochs": 2}), "both.toml")
        wrong = self.esctl("run", both, code=EXIT_USAGE)
        self.assertIn("epochs = 2: allowed is 0 beside steps = 60", wrong.err)
        started = self.start(harness.easyscaled_program, "--hed").wait()
        self.assertEqual(started.code, EXIT_USAGE)
        self.assertIn('easyscaled: unknown option "--hed"; the nearest is --head', started.err)
        config = self.directory / "config.toml"
        config.write_text('head = true\npolcy = "srtf"\n')
        started = self.start(harness.easyscaled_program, "--config", config).wait()
        self.assertEqual(started.code, EXIT_USAGE)
        self.assertIn('--config: unknown key "polcy"; the nearest is policy', started.err)


if __name__ == "__main__":
    harness.main()
