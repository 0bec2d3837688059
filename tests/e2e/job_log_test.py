#!/usr/bin/env python3
"""`[log]` in a job file: the head writes the curves of a job for TensorBoard and into a real MLflow
server, also across a restart of the head and while the server is away; `esctl run` does it itself."""
import unittest

import web_environment

web_environment.enter()

import harness  # noqa: E402
import mlflow_server  # noqa: E402
from harness import EXIT_REFUSED, EXIT_USAGE, wait_until  # noqa: E402
from http_client import HttpClient, job_path  # noqa: E402
from jobs import job_text  # noqa: E402

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None

ENDLESS = 1_000_000


def logged(word, log, **changes):
    """A job file with [log]."""
    lines = "".join(f'{key} = "{value}"\n' for key, value in log.items())
    return job_text(word, changes=changes) + f"\n[log]\n{lines}"


def points_in(directory):
    """train/loss and eval/loss by step, as TensorBoard reads them; empty without a file."""
    if not directory.is_dir():
        return {}, {}
    read = event_accumulator.EventAccumulator(str(directory), size_guidance={"scalars": 0})
    read.Reload()
    tags = read.Tags()["scalars"]
    return tuple({e.step: e.value for e in read.Scalars(tag)} if tag in tags else {}
                 for tag in ("train/loss", "eval/loss"))


class Refusals(harness.EndToEndTest):
    def test_bad_fields_are_named(self):
        for log, field in [({"mlflow": "ftp://x"}, "log.mlflow"),
                           ({"mlflow": "http://me:secret@x"}, "log.mlflow"),
                           ({"experiment": ""}, "log.experiment"),
                           ({"wandb": "x"}, "log")]:
            ended = self.esctl("run", self.write_job(logged(self.word, log)), code=EXIT_USAGE)
            self.assertIn(field, ended.err)

    def test_clients_from_the_network_are_confined(self):
        runs = self.directory / "runs"
        runs.mkdir()
        for number, (options, log, text) in enumerate([
                ([], {"mlflow": "http://127.0.0.1:1"}, "no server"),
                (["--mlflow", "http://127.0.0.1:2"], {"mlflow": "http://127.0.0.1:1"},
                 "http://127.0.0.1:2"),
                (["--mlflow", "http://127.0.0.1:1/"], {"mlflow": "http://127.0.0.1:1"}, None),
                ([], {"tensorboard": str(runs)}, "--checkpoint-root"),
                (["--checkpoint-root", str(runs)], {"tensorboard": str(runs / "a")}, None),
                (["--checkpoint-root", str(runs)], {"tensorboard": str(runs / ".." / "a")},
                 "--checkpoint-root")]):
            head = self.start_daemon(f"head{number}", self.fast_class() + ":1",
                                     ["--http", "127.0.0.1:0", "--http-no-tokens=operate", *options])
            base = head.running.wait_for_line(r"serves (http://127\.0\.0\.1:\d+)").group(1)
            answer = HttpClient(base).post(
                "/api/v1/jobs", {"spec_toml": logged(self.word, log, steps=3)})
            with self.subTest(options=options, log=log):
                self.assertEqual(answer.status, 201 if text is None else 409, str(answer))
                if text is not None:
                    self.assertIn(text, answer.json["error"])
            if text is None:
                # A server that is not there does not stop the job.
                job = answer.json["job"]
                wait_until("the end", lambda: HttpClient(base).get(
                    job_path(job)).json["state"] == "finished")
            head.running.process.kill()
            head.running.wait()


@unittest.skipUnless(event_accumulator, "TensorBoard is not set up: scripts/setup_web")
class InTensorBoard(harness.EndToEndTest):
    def start_head(self):
        directory = self.directory / "head"
        directory.mkdir(mode=0o700, exist_ok=True)
        return harness.Daemon(self, self.start(
            harness.easyscaled_program, "--head", "--state", directory / "state", "--listen",
            f"ipc://{directory}/head.sock", "--devices", self.fast_class() + ":2"))

    def means(self, head, job):
        lines = head.json("ledger", job)["lines"]
        return dict(mlflow_server.curve_of(lines))

    def test_a_submitted_job_is_written_across_a_restart_of_the_head(self):
        head = self.start_head()
        # The path is relative to the job file.
        job = head.submit(self.write_job(logged(self.word, {"tensorboard": "runs"}, steps=ENDLESS,
                                                eval_every=20)))
        where = self.directory / "runs" / job
        wait_until("points", lambda: len(points_in(where)[0]) > 5)
        head.running.process.kill()
        head.running.wait()
        head = self.start_head()
        before = len(points_in(where)[0])
        wait_until("more points", lambda: len(points_in(where)[0]) > before + 20)
        head.esctl("cancel", job)
        expected = self.means(head, job)
        evaluated = [e["version"] for e in head.describe(job)["evaluations"]]

        def whole():
            train, evaluations = points_in(where)
            return train == expected and sorted(evaluations) == evaluated

        wait_until("all points", whole,
                   state=lambda: f"{points_in(where)} of {expected} and {evaluated}")

    def test_run_writes_what_the_file_asks_for_and_an_option_counts_more(self):
        file = self.write_job(logged(self.word, {"tensorboard": "runs"}, steps=20))
        for options, place in [([], "runs"), (["--tensorboard", self.directory / "other"], "other")]:
            summary = self.run_job(file, *options)
            train, _ = points_in(self.directory / place / summary["job"])
            self.assertEqual(sorted(train), list(range(1, 21)))
        self.assertEqual(len(list((self.directory / "runs").iterdir())), 1)


@unittest.skipUnless(mlflow_server.PROGRAM, mlflow_server.MISSING)
class InMlflow(harness.EndToEndTest):
    def test_a_server_that_comes_late_has_everything_in_the_end(self):
        port = harness.free_port()
        head = self.start_daemon(devices=self.fast_class() + ":2")
        job = head.submit(self.write_job(logged(
            self.word, {"mlflow": f"http://127.0.0.1:{port}", "experiment": "late"}, steps=60,
            eval_every=20)))
        head.running.wait_for_line("the curves of the job are not written: MLflow at")
        head.wait_for_state(job, "finished")
        server = mlflow_server.start_mlflow(self, port)
        head.running.wait_for_line("the curves of the job are written again")

        def ended():
            runs = server.runs("late")
            return runs and runs[0]["info"]["status"] == "FINISHED" and runs[0]

        run = wait_until("the end of the run", ended)
        self.assertEqual(run["info"]["run_name"], job)
        self.assertEqual(server.history(run, "train/loss"),
                         mlflow_server.curve_of(head.json("ledger", job)["lines"]))
        self.assertEqual([step for step, _ in server.history(run, "eval/loss")], [20, 40, 60])
        self.assertEqual(head.stop().err.count("are not written"), 1)


if __name__ == "__main__":
    harness.main()
