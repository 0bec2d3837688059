#!/usr/bin/env python3
"""The programs, their errors and the client."""
import asyncio
import json
import os
import unittest
from unittest import mock

from support import FakeProgramsCase

import easyscale as es
from easyscale import programs


class Errors(FakeProgramsCase):
    def test_exit_codes_become_typed_errors_with_the_text(self):
        kinds = {1: es.FailedError, 2: es.UsageError, 3: es.NotFoundError, 4: es.RefusedError}
        for code, kind in kinds.items():
            self.refuse("describe", code, f"text {code}")
            with self.assertRaisesRegex(kind, f"^text {code}$") as caught:
                es.Client().describe("net-1")
            self.assertEqual(caught.exception.exit_code, code)

    def test_an_error_without_json_has_the_text_of_standard_error(self):
        self.prepare("ps", "", 2, "esctl: unknown option\n")
        with self.assertRaisesRegex(es.UsageError, "^unknown option$"):
            es.Client().jobs()

    def test_an_answer_that_is_no_json_is_a_failure(self):
        self.prepare("ps", "hello")
        with self.assertRaisesRegex(es.FailedError, "no JSON"):
            es.Client().jobs()

    def test_a_difference_is_an_answer(self):
        self.prepare("diff", json.dumps({"identical": False, "compared": 3}), 1)
        self.assertEqual(es.Client().diff("a", "b")["compared"], 3)

    def test_a_program_that_is_missing_is_named(self):
        with mock.patch.dict(os.environ, {"EASYSCALE_ESCTL": "/nowhere/esctl"}):
            with self.assertRaisesRegex(es.NotFoundError, "EASYSCALE_ESCTL = '/nowhere/esctl'"):
                es.Client().jobs()

    def test_the_programs_of_the_installation_are_found_before_path(self):
        installed = self.folder / "scripts" / "esctl"
        installed.parent.mkdir()
        (self.folder / "esctl").rename(installed)
        del os.environ["EASYSCALE_ESCTL"]
        with mock.patch.object(programs, "_script_folders", return_value=[installed.parent]):
            self.assertEqual(programs.find_esctl(), installed)
        path = {"PATH": str(self.folder / "none")}
        with (mock.patch.object(programs, "_script_folders", return_value=[self.folder]),
              mock.patch.dict(os.environ, path)):
            with self.assertRaisesRegex(es.NotFoundError, "name it in the environment variable"):
                programs.find_esctl()


class Commands(FakeProgramsCase):
    def setUp(self):
        super().setUp()
        self.client = es.Client("tcp://host:7", keys="keys")
        self.head = ["--head", "tcp://host:7", "--keys", "keys"]

    def assert_called(self, *words):
        self.assertEqual(self.calls()[-1], [*words, *self.head])

    def test_every_method_runs_its_command(self):
        self.client.scale("j", "cpu-avx2:2")
        self.assert_called("scale", "j", "cpu-avx2:2")
        self.client.pause("j")
        self.assert_called("pause", "j")
        self.client.resume("j", accept_loss=True)
        self.assert_called("resume", "j", "--accept-loss")
        self.client.checkpoint("j", to="/ck")
        self.assert_called("checkpoint", "j", "--to", "/ck")
        self.client.cancel("j")
        self.assert_called("cancel", "j")
        self.client.remove("j", "k")
        self.assert_called("rm", "j", "k")
        self.client.jobs()
        self.assert_called("ps", "--all")
        self.client.diff("a", "b", deep=True)
        self.assert_called("diff", "a", "b", "--deep")
        self.client.nodes(clear="n/cpu-avx2:0")
        self.assert_called("nodes", "--clear", "n/cpu-avx2:0")

    def test_ledger_asks_for_its_steps(self):
        self.assertEqual(self.client.ledger("j", first=1, last=2)[0]["step"], 1)
        self.assert_called("ledger", "j", "--from", "1", "--to", "2")

    def test_verify_needs_no_head(self):
        self.prepare("verify", json.dumps({"identical": True, "runs": []}))
        self.assertTrue(self.client.verify("job.toml", ["cpu-avx2:1", "cpu-avx2:2"], steps=3)
                        ["identical"])
        self.assertEqual(self.calls()[-1], ["verify", "job.toml", "--stages", "cpu-avx2:1",
                                            "--stages", "cpu-avx2:2", "--steps", "3", "--quiet"])

    def test_follow_ends_with_the_job(self):
        self.assertEqual([view["state"] for view in self.client.follow("j")], ["finished"])

    def follow(self, *answers, head=True):
        """The states that `follow` yields while the commands get these answers, without waiting.

        An answer is a state or an error; `head`: whether the head answers other commands.
        """
        left = list(answers)

        def ask(command, *words):
            if command == "nodes" and not head:
                raise es.FailedError("no answer")
            answer = left.pop(0) if command == "describe" else {"nodes": []}
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, dict) else {"state": answer}

        states = []
        with (mock.patch.object(self.client, "_ask", ask),
              mock.patch("easyscale.client.time.sleep", lambda seconds: None)):
            for view in self.client.follow("j"):
                states.append(view["state"])
        self.assertEqual(left, [])
        return states

    def test_follow_waits_for_a_head_that_is_away(self):
        away = [es.FailedError("is connected, but has not answered for 15 s"),
                es.NotFoundError("no process listens there")]
        self.assertEqual(self.follow("running", *away, "finished", head=False),
                         ["running", "finished"])

    def test_follow_ends_with_an_error_of_the_job(self):
        with self.assertRaisesRegex(es.NotFoundError, "no such job"):
            self.follow("running", es.NotFoundError("no such job"))
        # Nothing is known of a job that was never seen.
        with self.assertRaisesRegex(es.NotFoundError, "no process"):
            self.follow(es.NotFoundError("no process listens there"), head=False)
        with self.assertRaisesRegex(es.RefusedError, "key"):
            self.follow("running", es.RefusedError("key"), head=False)

    def test_follow_does_not_wait_for_ever(self):
        seconds = iter(range(0, 10_000, 100))
        with (mock.patch("easyscale.client.time.monotonic", lambda: next(seconds)),
              self.assertRaisesRegex(es.FailedError, "stopped")):
            self.follow("running", *[es.FailedError("stopped")] * 4, head=False)

    def test_follow_ends_with_a_daemon_of_its_own(self):
        def watch():
            raise es.FailedError("easyscaled has ended")
        self.client.watch = watch
        with self.assertRaisesRegex(es.FailedError, "easyscaled has ended"):
            self.follow("running", es.FailedError("no answer"), head=False)

    def test_follow_for_an_event_loop(self):
        async def states():
            return [view["state"] async for view in self.client.async_follow("j")]
        self.assertEqual(asyncio.run(states()), ["finished"])

    def test_logs_are_lines(self):
        self.prepare("logs", '{"line":"one"}\n{"line":"two"}\n')
        self.assertEqual(list(self.client.logs("j", follow=True)), ["one", "two"])
        self.assert_called("logs", "j", "--follow")
        list(self.client.logs("j", worker=17, node="first"))
        self.assert_called("logs", "j", "--worker", "17", "--node", "first")

    def test_logs_that_fail_raise_the_error(self):
        self.prepare("logs", '{\n  "error": "no such job",\n  "kind": "not_found"\n}\n', 3)
        with self.assertRaisesRegex(es.NotFoundError, "^no such job$"):
            list(self.client.logs("j"))


if __name__ == "__main__":
    unittest.main()
