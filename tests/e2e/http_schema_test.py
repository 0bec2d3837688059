#!/usr/bin/env python3
"""The HTTP service beside its own description: schemathesis sends requests that openapi.json allows
and requests that it does not, and no answer may break the description or be a failure of the head."""
import importlib.util
import os
import subprocess
import sys
import unittest

import web_environment

web_environment.enter()

import harness  # noqa: E402
from http_client import HttpClient  # noqa: E402
from jobs import job_text  # noqa: E402

SEED = int(os.environ.get("ES_SEED", "20231112"))
EXAMPLES = os.environ.get("ES_SCHEMA_EXAMPLES", "20")


@unittest.skipUnless(importlib.util.find_spec("schemathesis"),
                     "schemathesis is not set up: scripts/setup_web")
class Schema(harness.EndToEndTest):
    def test_no_answer_breaks_the_description(self):
        tokens = self.directory / "tokens"
        token = self.esctl("token", "add", "root", "--role", "operate", "--file", tokens,
                           "--json").json["token"]
        head = self.start_daemon("head", self.fast_class() + ":2",
                                 ["--http", "127.0.0.1:0", "--http-tokens", tokens])
        base = head.running.wait_for_line(r"serves (http://127\.0\.0\.1:\d+)").group(1)
        head.submit(self.write_job(job_text(self.word, changes={"steps": 3})))
        print(f"seed {SEED}: replay with ES_SEED={SEED}", flush=True)
        tried = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{base}/api/v1/openapi.json",
             "--header", f"Authorization: Bearer {token}", "--max-examples", EXAMPLES,
             "--seed", str(SEED), "--checks", "all", "--exclude-checks",
             # A job file and a list of devices have a grammar that a schema cannot describe, so a
             # request that fits the schema may be refused.
             "positive_data_acceptance",
             "--exclude-path-regex", "/events$", "--no-color", "--phases", "examples,coverage,fuzzing"],
            cwd=self.directory, env={**self.environment, "PYTHONPATH": ""}, text=True,
            capture_output=True, timeout=harness.DEADLINE_S * 4)
        self.assertEqual(tried.returncode, 0, tried.stdout[-8000:] + tried.stderr[-2000:])
        self.assertEqual(HttpClient(base, token).get("/api/v1/jobs").status, 200)


if __name__ == "__main__":
    harness.main()
