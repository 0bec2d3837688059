#!/usr/bin/env python3
"""`easyscaled --otlp URL`: metrics for a collector of OpenTelemetry. The receiver of this test decodes
them with the messages of the package opentelemetry-proto. A collector that fails changes nothing."""
import http.server
import json
import math
import threading
import unittest

import web_environment

web_environment.enter()

import harness  # noqa: E402
from harness import EXIT_USAGE, wait_until  # noqa: E402
from jobs import job_text  # noqa: E402

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import \
        ExportMetricsServiceRequest
except ImportError:
    json_format = None

ENDLESS = 1_000_000


class Collector:
    """Receives OTLP over HTTP. `answer` is the status of its answers; None: it does not answer until
    `go_on` is set."""

    def __init__(self, test):
        self.requests, self.answer, self.go_on = [], 200, threading.Event()
        self.refused = 0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.answer is None:
                    collector.refused += 1
                    collector.go_on.wait()
                    return
                if collector.answer == 200:
                    collector.requests.append((self.path, dict(self.headers), body))
                else:
                    collector.refused += 1
                self.send_response(collector.answer)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)
        test.addCleanup(self.go_on.set)

    def newest(self):
        """The newest metrics by name, as the real decoder reads them, with their resource."""
        request = json_format.Parse(self.requests[-1][2].decode(), ExportMetricsServiceRequest())
        resource = request.resource_metrics[0]
        facts = {a.key: a.value.string_value for a in resource.resource.attributes}
        return facts, {m.name: m for m in resource.scope_metrics[0].metrics}

    def wait(self, what, probe):
        return wait_until(what, lambda: self.requests and probe(*self.newest()))


def points_of(metric, job=None):
    """The points of a metric, those of one job if it is named; none if nothing was sent of it yet."""
    if metric is None:
        return []
    data = getattr(metric, metric.WhichOneof("data"))
    return [p for p in data.data_points
            if job is None or ("job_id", job) in [(a.key, a.value.string_value) for a in p.attributes]]


class Options(harness.EndToEndTest):
    def test_bad_values_are_refused(self):
        self.environment["OTEL_EXPORTER_OTLP_HEADERS"] = "a=b"
        head = [harness.easyscaled_program, "--head", "--state", self.directory / "s"]
        for words, text in [(["--otlp", "127.0.0.1:4318"], "--otlp"),
                            (["--otlp", "http://user:secret@h"], "user name"),
                            (["--otlp", "http://h", "--otlp-interval", "0"], "--otlp-interval")]:
            ended = self.start(*head, *words).wait()
            self.assertEqual(ended.code, EXIT_USAGE, str(ended))
            self.assertIn(text, ended.err)
        self.environment["OTEL_EXPORTER_OTLP_HEADERS"] = "no value"
        ended = self.start(*head, "--otlp", "http://h").wait()
        self.assertEqual(ended.code, EXIT_USAGE, str(ended))
        self.assertIn("OTEL_EXPORTER_OTLP_HEADERS", ended.err)


@unittest.skipUnless(json_format, "opentelemetry-proto is not set up: scripts/setup_web")
class Otlp(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.collector = Collector(self)

    def submit(self, head, **changes):
        return head.submit(self.write_job(job_text(self.word, changes={"steps": ENDLESS, **changes})))

    def test_a_collector_gets_the_metrics_of_head_and_node(self):
        self.environment["OTEL_EXPORTER_OTLP_HEADERS"] = "api-key=a%20b,tenant=x"
        send = ["--otlp", self.collector.url, "--otlp-interval", "0.2"]
        head = self.start_daemon("head", f"{self.fast}:2", send)
        job = self.submit(head)
        self.collector.wait("steps of the job", lambda facts, metrics: any(
            p.as_double > 3 for p in points_of(metrics.get("easyscale_job_steps_total"), job)))
        facts, metrics = self.collector.newest()
        self.assertEqual(facts, {"service.name": "easyscale", "service.instance.id": "head"})
        path, headers, _ = self.collector.requests[-1]
        self.assertEqual(path, "/v1/metrics")
        self.assertEqual((headers["Content-Type"], headers["api-key"], headers["tenant"]),
                         ("application/json", "a b", "x"))
        steps = metrics["easyscale_job_steps_total"]
        self.assertTrue(steps.sum.is_monotonic)
        self.assertEqual(steps.sum.aggregation_temporality, 2)  # cumulative
        point = points_of(steps, job)[0]
        self.assertLess(point.start_time_unix_nano, point.time_unix_nano)
        times = metrics["easyscale_job_step_duration_seconds"]
        self.assertEqual(times.unit, "s")
        histogram = points_of(times, job)[0]
        self.assertEqual(sum(histogram.bucket_counts), histogram.count)
        self.assertEqual(len(histogram.bucket_counts), len(histogram.explicit_bounds) + 1)
        self.assertGreater(histogram.sum, 0)
        self.assertTrue(math.isfinite(points_of(metrics["easyscale_job_loss"], job)[0].as_double))
        decisions = points_of(metrics["easyscale_decision_duration_seconds"])[0]
        self.assertGreaterEqual(decisions.count, 1)
        # A node sends its own, which name no job.
        self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                   "--devices", f"{self.fast}:1", "--run-dir", self.directory / "n2",
                   *send).wait_for_line("^ready ", stream="out")

        def of_node():
            for _, _, body in list(self.collector.requests):
                text = json.loads(body)["resourceMetrics"][0]
                if text["resource"]["attributes"][1]["value"]["stringValue"] == "second":
                    return body.decode()
            return None

        text = wait_until("metrics of the node", of_node)
        json_format.Parse(text, ExportMetricsServiceRequest())
        self.assertIn("easyscale_node_workers", text)
        self.assertNotIn(job, text)

    def test_a_collector_that_fails_disturbs_nothing(self):
        self.collector.answer = 503
        head = self.start_daemon("head", f"{self.fast}:1",
                                 ["--otlp", self.collector.url + "/v1/metrics", "--otlp-interval",
                                  "0.1"])
        job = self.submit(head)
        wait_until("refusals", lambda: self.collector.refused > 3)
        head.wait_for_step(job, 5)
        self.collector.answer = None  # From now on it hangs.
        refused = self.collector.refused
        wait_until("a request that hangs", lambda: self.collector.refused > refused)
        steps = head.describe(job)["steps"]
        head.wait_for_step(job, steps + 20)
        self.collector.answer = 200
        self.collector.go_on.set()
        self.collector.wait("metrics", lambda facts, metrics: any(
            p.as_double > steps for p in points_of(metrics.get("easyscale_job_steps_total"), job)))
        head.running.wait_for_line("the collector takes metrics again")
        head.esctl("cancel", job)
        log = head.stop().err
        # One line for all failures of a series, and none at the level of an error.
        self.assertEqual(log.count("metrics are not sent to the collector"), 1, log)
        self.assertIn("status 503", log)


if __name__ == "__main__":
    harness.main()
