"""Runs of `esctl sim`, and the tables that it writes."""

import csv
import json
import os
import subprocess

import runner


class Simulator:
    """Runs esctl with the arguments that all runs on one trace share."""

    def __init__(self, args, trace, cluster, *options):
        (self._esctl,) = runner.build_paths([os.path.join("actors", "esctl", "esctl")])
        self._words = ["--trace", trace, "--cluster", cluster, "--seed", str(args.seed), *options]

    def run(self, out, *words):
        """Returns the report of one policy. Its tables are in `out`."""
        return self._report([*words, "--out", out])

    def compare(self, out, *words):
        """Returns the reports of several policies."""
        return self._report(["compare", *words, "--out", out])["policies"]

    def _report(self, words):
        runner.progress("esctl sim " + " ".join(map(str, words)))
        done = subprocess.run([self._esctl, "sim", *map(str, words), *self._words, "--json"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise runner.BenchError(done.stderr.strip()[-2000:])
        return json.loads(done.stdout)


def allocation(out):
    """Rows of allocation.csv: {"time_s", "claimed", "held", "computing"}, devices of all types."""
    with open(os.path.join(out, "allocation.csv")) as file:
        for row in csv.DictReader(file):
            total = {kind: sum(float(v) for k, v in row.items() if k.startswith(kind + "_"))
                     for kind in ("held", "computing")}
            yield {"time_s": float(row["time_s"]), "claimed": float(row["claimed_devices"]),
                   **total}


def pick(report, *names):
    """Some values of a report, rounded. Values that depend on the machine are left out."""
    return {n: round(report[n], 2) if isinstance(report[n], float) else report[n] for n in names}


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
