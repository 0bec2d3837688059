"""A real MLflow server for tests (scripts/setup_web)."""
import json
import os
import signal
import struct
import subprocess
import urllib.error
import urllib.request

import environment
import harness

PROGRAM = environment.program("mlflow", "mlflow")
MISSING = "MLflow is not set up: scripts/setup_web"


class Mlflow:
    """A real server, which keeps its runs in a directory."""

    def __init__(self, directory, port):
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(directory / "mlflow.log", "ab")
        self.process = subprocess.Popen(
            [PROGRAM, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
             "--backend-store-uri", f"sqlite:///{directory}/mlflow.db",
             "--default-artifact-root", str(directory / "artifacts")],
            stdout=self.log, stderr=self.log, start_new_session=True)

    def answers(self):
        try:
            return urllib.request.urlopen(self.url + "/health", timeout=5).status == 200
        except (urllib.error.URLError, OSError):
            return False

    def post(self, method, **fields):
        request = urllib.request.Request(
            f"{self.url}/api/2.0/mlflow/{method}", json.dumps(fields).encode(),
            {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=harness.DEADLINE_S))

    def get(self, method, query):
        return json.load(urllib.request.urlopen(
            f"{self.url}/api/2.0/mlflow/{method}?{query}", timeout=harness.DEADLINE_S))

    def runs(self, experiment):
        found = self.get("experiments/get-by-name", f"experiment_name={experiment}")
        number = found["experiment"]["experiment_id"]
        return self.post("runs/search", experiment_ids=[number]).get("runs", [])

    def history(self, run, key):
        """The points of a curve: (step, value) in the order of the steps."""
        query = f"run_id={run['info']['run_id']}&metric_key={key}&max_results=25000"
        points = self.get("metrics/get-history", query).get("metrics", [])
        return sorted((int(p.get("step", 0)), p["value"]) for p in points)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # the server has processes of its own
        self.process.wait()
        self.log.close()


def start_mlflow(test, port):
    """A server that answers, until the test is over."""
    server = Mlflow(test.directory, port)
    test.addCleanup(server.stop)
    harness.wait_until("MLflow answers", server.answers, 2 * harness.DEADLINE_S)
    return server


def curve_of(lines):
    """The points that a tracker has of these lines of a ledger."""
    losses = [(line["step"], sum(line["losses"]) / len(line["losses"])) for line in lines]
    return [(step, struct.unpack("f", struct.pack("f", loss))[0]) for step, loss in losses]
