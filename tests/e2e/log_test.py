#!/usr/bin/env python3
"""The logs of daemons and workers: their two forms, their levels, and what an operator finds there."""
import json
import re
import subprocess
from datetime import datetime

import harness
from harness import EXIT_USAGE
from jobs import ANY_LENGTH, job_text

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (debug  |info   |warning|error  ) "
                  r"((?:(?:worker|job|node|peer) \S+ ?)+|easyscaled): (.*)")
LINE_OF_JOB = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) "
                         r"(info   |warning|error  ) (.*)")
ENDLESS = 1_000_000
KEYS = ["ts", "level", "msg", "job", "worker", "node", "peer"]


class Logs(harness.EndToEndTest):
    def head(self, *options, name="head"):
        return self.start_daemon(name, devices=f"{self.fast_class()}:2", options=options)

    def train(self, head, **changes):
        """A short job from its admission to the last line of its log, and its description."""
        file = self.write_job(job_text(self.word, changes={"steps": 10, "max_p": 2, **changes}))
        job = head.submit(file)
        details = head.wait_for_state(job, "finished")
        head.whole_log(job)
        return details

    def worker_logs(self, name="head"):
        return [path.read_text() for path in sorted(self.directory.glob(f"{name}/**/worker-*.log"))]

    def assert_line_of_json(self, line):
        entry = json.loads(line)
        self.assertEqual(list(entry), [key for key in KEYS if key in entry], line)
        datetime.strptime(entry["ts"], "%Y-%m-%dT%H:%M:%S.%fZ")
        self.assertIn(entry["level"], ("debug", "info", "warning", "error"))
        return entry

    def test_every_line_of_a_job_s_life_is_an_object_with_its_ids(self):
        head = self.head("--log-format", "json", "--log-level", "debug")
        job = self.train(head)["job"]
        log_of_job = head.esctl("logs", job).out
        head.esctl("claim", "--name", "web", "--type", self.fast_class(), "--count", 1)
        ended = head.stop()
        entries = [self.assert_line_of_json(line) for line in ended.err.splitlines()]
        of_job = [entry["msg"] for entry in entries if entry.get("job") == job]
        self.assertEqual(of_job[0], "the job is admitted")
        self.assertEqual(of_job[-1], "the job has ended: finished")
        for said in log_of_job.splitlines():  # the log of the job is a part of it
            self.assertIn(LINE_OF_JOB.fullmatch(said)[3], of_job)
        started = [entry for entry in entries if "process is started" in entry["msg"]]
        workers = {entry["worker"] for entry in started}
        self.assertEqual(len(workers), 2)
        self.assertEqual({(entry["job"], entry["node"]) for entry in started}, {(job, "head")})
        logs = self.worker_logs()
        of_workers = [self.assert_line_of_json(line) for log in logs for line in log.splitlines()]
        self.assertEqual({entry["worker"] for entry in of_workers}, workers)
        self.assertEqual({(entry["job"], entry["node"]) for entry in of_workers}, {(job, "head")})

    def test_text_is_the_default_and_says_the_same(self):
        head = self.head()
        job = self.train(head)["job"]
        ended = head.stop()
        lines = ended.err.splitlines()
        for line in [*lines, *"".join(self.worker_logs()).splitlines()]:
            self.assertRegex(line, LINE)
        self.assertRegex(ended.err, rf" info    job {job}: the job is admitted\n")
        self.assertRegex(ended.err, rf" info    worker \d+ job {job} node head: the process is")
        self.assertNotIn(" debug ", ended.err)
        self.assertEqual(ended.out, f"ready {head.endpoint}\n")

    def test_a_level_leaves_out_what_is_below_it(self):
        head = self.head("--log-level", "warning")
        self.train(head)
        self.assertEqual(head.stop().err, "")
        self.assertEqual("".join(self.worker_logs()), "")

    def test_a_configuration_file_sets_them_too(self):
        config = self.directory / "config.toml"
        config.write_text('log-level = "error"\nlog-format = "json"\n')
        head = self.head("--config", config)
        self.train(head)
        self.assertEqual(head.stop().err, "")

    def test_another_level_or_format_is_refused(self):
        for option, value, allowed in (("--log-level", "loud", "debug, info, warning, error"),
                                       ("--log-format", "xml", "text, json")):
            ended = self.start(harness.easyscaled_program, "--head", option, value).wait()
            self.assertEqual(ended.code, EXIT_USAGE, str(ended))
            self.assertIn(f'{option}: "{value}": allowed are {allowed}', ended.err)

    def test_an_error_that_ends_the_daemon_is_its_last_line(self):
        head = self.head()
        again = self.start(harness.easyscaled_program, "--head", "--state",
                           self.directory / "head/state", "--listen",
                           f"ipc://{self.directory}/head/other.sock", "--log-format", "json").wait()
        self.assertNotEqual(again.code, 0)
        entry = self.assert_line_of_json(again.err)
        self.assertEqual(entry["level"], "error")
        self.assertIn("state/db", entry["msg"])
        head.stop()

    def test_a_worker_s_last_words_are_its_errors_in_every_form(self):
        seen = []
        for form in ("text", "json"):
            name = f"in-{form}"
            # The end of the process is told, and not the silence of its link, which a busy head may
            # see first.
            head = self.head("--log-format", form, "--heartbeat", "100000", "--dead-after",
                             "200000", name=name)
            job = head.submit(self.write_job(job_text(
                self.word, changes={"steps": 1_000_000, "max_p": 2, **ANY_LENGTH})))
            running = head.wait_for(job, "workers", lambda d: d["state"] == "running" and all(
                worker["pid"] > 0 for worker in d["workers"]))
            victim = running["workers"][0]["pid"]
            subprocess.run(["kill", "-ABRT", str(victim)], check=True)
            text = harness.wait_until("the loss is told", lambda: re.search(
                r"was ended by signal 6 \(SIGABRT, Aborted\).*", head.esctl("logs", job).out))
            seen.append(text[0])
            head.esctl("cancel", job)
            head.stop()
        self.assertEqual(seen, ["was ended by signal 6 (SIGABRT, Aborted)"] * 2)  # and no lines of its log


    def test_the_log_of_a_job_is_shown_from_a_time_on_by_text_and_by_level(self):
        head = self.head()
        job = self.train(head, eval_every=5)["job"]
        lines = [LINE_OF_JOB.fullmatch(line) for line in head.esctl("logs", job).out.splitlines()]
        times = [line[1] for line in lines]
        self.assertEqual(times, sorted(times))
        later = [line[0] for line in lines if line[1] >= times[-1]]
        self.assertEqual(head.esctl("logs", job, "--since", times[-1]).out.splitlines(), later)
        self.assertEqual(head.esctl("logs", job, "--since", "1d").out.splitlines(),
                         [line[0] for line in lines])
        evaluated = head.esctl("logs", job, "--grep", "evaluation of").out.splitlines()
        self.assertEqual(evaluated, [line[0] for line in lines if "evaluation of" in line[3]])
        self.assertEqual(len(evaluated), 2)
        self.assertEqual(head.esctl("logs", job, "--level", "warning").out, "")
        objects = [json.loads(line) for line in head.esctl("logs", job, "--json").out.splitlines()]
        self.assertEqual([(o["ts"], o["level"], o["line"]) for o in objects],
                         [(line[1], line[2].strip(), line[3]) for line in lines])

    def test_a_loss_is_a_warning_and_the_log_outlives_the_head(self):
        head = self.head()
        job = head.submit(self.write_job(job_text(
            self.word, changes={"steps": 1_000_000, "max_p": 2, **ANY_LENGTH})))
        running = head.wait_for(job, "workers", lambda d: d["state"] == "running" and all(
            worker["pid"] > 0 for worker in d["workers"]))
        subprocess.run(["kill", "-KILL", str(running["workers"][0]["pid"])], check=True)
        # On a busy machine the silence of the worker may be seen before the end of its process.
        lost = harness.wait_until("the loss", lambda: head.esctl(
            "logs", job, "--level", "warning", "--grep", "worker ").out,
            state=lambda: head.esctl("logs", job).out)
        self.assertRegex(lost, "was ended by signal 9|is silent")
        head.stop()
        again = self.start_again(head)
        self.assertTrue(again.esctl("logs", job, "--level", "warning").out.startswith(lost))
        again.esctl("cancel", job)
        again.stop()

    def test_the_log_of_a_worker_is_followed_until_it_ends(self):
        head = self.head()
        job = head.submit(self.write_job(job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH})))
        worker = str(head.wait_for(job, "a worker", lambda d: d["workers"])["workers"][0]["incarnation"])
        follower = self.start_esctl("logs", job, "--worker", worker, "--follow", "--head", head.endpoint)
        follower.wait_for_line(f" worker {worker} job {job} node head: begins", "out")
        with next(self.directory.glob(f"head/**/worker-{worker}.log")).open("a") as file:
            file.write("one more line\nno end")
        follower.wait_for_line("one more line\n", "out")
        head.esctl("cancel", job)
        followed = follower.wait()
        self.assertEqual(followed.code, 0, str(followed))
        self.assertTrue(followed.out.endswith("one more line\nno end\n"), followed.out)
        # The job has no worker now.
        refused = head.esctl("logs", job, "--worker", worker, code=EXIT_USAGE)
        self.assertIn("--node names the node of one that has ended", refused.err)
        again = head.esctl("logs", job, "--worker", worker, "--node", "head")
        self.assertEqual(again.out, followed.out)
        head.stop()

    def start_again(self, head):
        return harness.Daemon(self, self.start(*head.running.words))

    def test_a_log_file_is_replaced_when_it_is_full_and_some_older_ones_are_kept(self):
        file = self.directory / "easyscaled.log"
        head = self.head("--log-file", file, "--log-level", "debug", "--log-file-mib", "1",
                         "--log-files", "2")
        job = self.train(head)["job"]
        ended = head.stop()
        self.assertEqual(ended.err, "")  # errors only
        for line in file.read_text().splitlines():
            self.assertRegex(line, LINE)
        self.assertIn(f"job {job}: the job is admitted", file.read_text())
        file.write_text(file.read_text() + "x" * (1 << 20))  # full
        self.start_again(head).stop()
        self.assertIn("the job is admitted", (self.directory / "easyscaled.1.log").read_text())
        self.assertLess(file.stat().st_size, 1 << 20)
        self.assertIn("has admitted this node", file.read_text())

    def test_a_log_file_that_cannot_be_opened_is_refused(self):
        ended = self.start(harness.easyscaled_program, "--head", "--state", self.directory / "state",
                           "--log-file", self.directory).wait()
        self.assertEqual(ended.code, harness.EXIT_FAILURE, str(ended))
        self.assertIn(f"the log file {self.directory} cannot be opened", ended.err)

    def test_only_some_logs_of_workers_that_ended_are_kept(self):
        head = self.head("--worker-logs", "2")
        for _ in range(2):
            self.train(head)
        harness.wait_until("two logs", lambda: len(self.worker_logs()) == 2)
        kept = sorted(int(path.stem.split("-")[1]) for path in self.directory.glob("**/worker-*.log"))
        # Workers count from 2. The second job has one worker if a device was not free yet.
        self.assertIn(kept, ([3, 4], [4, 5]))
        head.stop()


class PrivateRun(harness.EndToEndTest):
    def test_a_run_shows_none_of_it_and_keeps_it_with_its_files(self):
        job = self.write_job(job_text(self.word, changes={"steps": 10}))
        ended = self.esctl("run", job, "--quiet", "--keep", self.directory / "kept")
        self.assertEqual(ended.err, "")
        log = (self.directory / "kept/easyscaled.log").read_text()
        for line in log.splitlines():
            self.assertRegex(line, LINE)
        self.assertIn("the job has ended: finished", log)


if __name__ == "__main__":
    harness.main()
