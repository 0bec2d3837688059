#!/usr/bin/env python3
"""What must not change while the code is restructured: bits, decisions, and the form of all JSON.

recorded.json contains the digests of configs/jobs/tiny_*.toml at level D2, which are the same on
every machine, the history hashes of the simulator, and the keys of every JSON output. When one of
them changes on purpose, ES_RECORD=1 records all of them anew."""
import gzip
import json
import os
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
from harness import digests

ROOT = Path(__file__).resolve().parents[2]
RECORD_FILE = Path(__file__).resolve().parent / "recorded.json"
TRACES = ROOT.parent / "shared/traces"
STEPS = 40
POLICIES = ["easyscale", "elastic-srtf", "fifo-backfill", "fifo-gang", "fifo-serial", "las",
            "max-min-fair", "srtf"]
# They are recorded on the two shorter traces only.
RIVALS = ["easy-backfill", "gavel-ftf", "gavel-las", "sia", "themis", "tiresias"]
PHILLY_JOBS = 5000
SIMULATION_DEADLINE_S = 800  # The longest takes a minute of computing on an idle core.


def keys_of(value):
    """The form of a JSON value: objects by their keys, lists of objects by their first element."""
    if isinstance(value, dict):
        return {key: keys_of(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [keys_of(value[0])] if value and isinstance(value[0], dict) else []
    return ""


class Recorded(harness.EndToEndTest):
    maxDiff = None
    recorded = json.loads(RECORD_FILE.read_text()) if RECORD_FILE.exists() else {}

    def compare(self, part, found):
        if os.environ.get("ES_RECORD"):
            self.recorded[part] = found
            RECORD_FILE.write_text(json.dumps(self.recorded, indent=1, sort_keys=True) + "\n")
        self.assertEqual(found, self.recorded.get(part))

    def run_tiny(self, job, level, steps, stages):
        return self.esctl("run", job, "--steps", steps, "--level", level, "--stages", stages,
                          "--quiet", "--json").json

    def test_bits_of_the_tiny_jobs_at_d2(self):
        fast, other = self.fast_class(), self.other_class()
        mix = "+".join(sorted([f"{fast}:1", f"{other}:1"])) if other != fast else f"{fast}:2"
        placements = [f"{fast}:1@{STEPS}", f"{fast}:2@13,{mix}@14,{fast}:3@13",
                      f"{other}:4@13,{other}:1@27"]
        found = {}
        for job in sorted((ROOT / "configs/jobs").glob("tiny_*.toml")):
            results = {digests(self.run_tiny(job, "D2", STEPS, stages)) for stages in placements}
            self.assertEqual(len(results), 1, job.name)
            found[job.stem] = list(results.pop())
        self.compare("digests at D2", found)

    def test_bits_of_the_tiny_jobs_at_bf16(self):
        """models_test.py compares them on several devices."""
        found = {}
        for job in sorted((ROOT / "configs/jobs").glob("tiny_*.toml")):
            file = self.write_job('precision = "bf16"\n' + job.read_text(), job.name)
            run = self.run_tiny(file, "D2", STEPS, f"{self.fast_class()}:2@{STEPS}")
            found[job.stem] = list(digests(run))
        self.compare("digests at D2 and bf16", found)

    def test_bits_of_the_tiny_jobs_at_d1_do_not_depend_on_the_number_of_devices(self):
        """They depend on the processor and its library, so they cannot be recorded."""
        fast = self.fast_class()
        for job in sorted((ROOT / "configs/jobs").glob("tiny_*.toml")):
            results = {digests(self.run_tiny(job, "D1", 12, stages)) for stages in
                       (f"{fast}:1@12", f"{fast}:3@12", f"{fast}:4@6,{fast}:2@6")}
            self.assertEqual(len(results), 1, job.name)

    def simulate(self, trace, *options, policies=(*POLICIES, *RIVALS)):
        def history_hash(policy):
            return self.esctl("sim", "--trace", trace, "--policy", policy, *options, "--json",
                              deadline_s=SIMULATION_DEADLINE_S).json["history_hash"]

        # A simulation has one thread.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip(policies, pool.map(history_hash, policies)))

    @unittest.skipUnless(TRACES.is_dir(), f"the traces of {TRACES.name}/ are not here")
    def test_decisions_of_every_policy_on_published_traces(self):
        with gzip.open(TRACES / "philly.csv.gz", "rt") as whole:
            lines = [line for _, line in zip(range(PHILLY_JOBS + 1), whole)]
        philly = self.directory / "philly.csv"
        philly.write_text("".join(lines))
        nominal = ROOT / "configs/steptimes/pollux_nominal.csv"
        self.compare("history hashes", {
            "sc23": self.simulate(TRACES / "easyscale-sc23-jobs.csv", "--cluster",
                                  "v100=32,p100=16,t4=16", "--steptimes",
                                  TRACES / "easyscale-sc23-steptimes.csv"),
            "pollux": self.simulate(TRACES / "pollux-osdi21-workloads.csv", "--cluster", "gpu=64",
                                    "--steptimes", nominal),
            "philly": self.simulate(philly, "--cluster", "gpu=450", policies=POLICIES)})

    def test_the_form_of_json(self):
        job = ROOT / "configs/jobs/tiny_neumf.toml"
        ledger = [self.directory / f"{name}.ledger" for name in "ab"]
        daemon = self.start_daemon(devices=f"{self.fast_class()}:2")
        forms = {"submit": daemon.json("submit", job)}
        name = forms["submit"]["job"]
        daemon.wait_for_state(name, "finished")
        # Its processes end a little later.
        daemon.wait_for(name, "no workers", lambda d: not d["workers"])
        daemon.esctl("claim", "--name", "serving", "--type", self.fast_class(), "--count", 1)
        for file in ledger:
            daemon.esctl("ledger", name, "--out", file)
        for command in (["ps"], ["describe", name], ["nodes"], ["claims"], ["ledger", name]):
            forms[command[0]] = daemon.json(*command)
        daemon.esctl("release", "serving")
        forms["diff"] = self.esctl("diff", *ledger, "--json").json
        forms["inspect"] = self.esctl("inspect", job, "--json").json
        forms["fields"] = self.esctl("fields", "--json").json
        forms["verify"] = self.esctl(
            "verify", job, "--steps", 4, "--stages", f"{self.fast_class()}:1", "--stages",
            f"{self.fast_class()}:2", "--quiet", "--json").json
        forms["run"] = self.esctl("run", job, "--quiet", "--json").json | {"workers": []}
        self.compare("json", {command: keys_of(form) for command, form in forms.items()})
        daemon.stop()


if __name__ == "__main__":
    harness.main()
