#!/usr/bin/env python3
"""`esctl trace` and `esctl profile` on real processes: one time line over all of them, and where
their time goes."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import unittest
import urllib.parse
import xml.dom.minidom
from collections import defaultdict

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from http_client import HttpClient
from jobs import job_text

ENDLESS = 1_000_000
STEPS = 6
# A clock that is 1,000 s ahead of the others of this machine.
OTHER_CLOCK = ["unshare", "--pid", "--time", "--monotonic", "1000", "--fork", "--kill-child",
               "--mount-proc"]


def can_have_other_clock():
    return shutil.which("unshare") and subprocess.run(
        [*OTHER_CLOCK, "true"], stderr=subprocess.DEVNULL).returncode == 0


class Timeline:
    """A trace as its file says it. Times are microseconds."""

    def __init__(self, path):
        data = json.loads(path.read_text())
        self.about = data["otherData"]
        self.steps = range(self.about["first_step"], self.about["end_step"])
        self.spans, self.arrows, self.lanes, self.processes = [], defaultdict(dict), {}, {}
        for event in data["traceEvents"]:
            if event["ph"] == "X":
                self.spans.append(event)
            elif event["ph"] in "sf":
                self.arrows[event["id"]][event["ph"]] = event
            elif event["ph"] == "M" and event["name"] == "thread_name":
                self.lanes[event["pid"], event["tid"]] = event["args"]["name"]
            elif event["ph"] == "M" and event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]

    def workers(self):
        return [p["pid"] for p in self.about["processes"] if p["name"] != "head"]

    def of(self, pid, lane=None, **args):
        return [s for s in self.spans if s["pid"] == pid
                and (lane is None or self.lanes[s["pid"], s["tid"]] == lane)
                and all(s["args"].get(k) == v for k, v in args.items())]


class Trace(harness.EndToEndTest):
    def submit(self, head, stages, **changes):
        text = job_text(self.word, changes={"steps": ENDLESS, "schedule.kind": "constant",
                                            "schedule.warmup_steps": None, **changes})
        job = head.submit(self.write_job(text), "--stages", f"{stages}@{ENDLESS}")
        head.wait_for_step(job, 2)
        return job

    def trace(self, head, job, *options, name="trace.json", code=0):
        path = self.directory / name
        self.summary = head.esctl("trace", job, "--out", path, "--json", *options, code=code)
        return Timeline(path) if code == 0 else None

    def start_trace(self, head, job, *options):
        """`esctl trace` that has begun to trace the job."""
        def begun():
            tracing = self.start_esctl("trace", job, *options, "--head", head.endpoint)
            harness.wait_until(
                "a second trace is refused", lambda: tracing.process.poll() is not None
                or "being traced already" in self.start_esctl(
                    "profile", job, "--steps", 1, "--head", head.endpoint).wait().err)
            # It has ended if the profile came first.
            return tracing if tracing.process.poll() is None else None
        return harness.wait_until("a trace has begun", begun)

    def check(self, line, ranks):
        """What holds for every whole trace of a job with these ranks on each worker."""
        workers = line.workers()
        self.assertEqual(len(workers), len(ranks))
        # Every process has its tracks.
        self.assertEqual(line.processes[1], "head")
        self.assertTrue(line.of(1, "commits in the ledger"))
        for pid in workers:
            self.assertRegex(line.processes[pid], r"^worker \d+ on \S+/cpu-\S+:\d+$")
            for lane in ("steps", "device", "loader 0"):
                self.assertTrue(line.of(pid, lane), (line.processes[pid], lane))
        # On a track, a span begins after the one before has ended, or lies in it.
        tracks = defaultdict(list)
        for span in line.spans:
            self.assertGreaterEqual(span["dur"], 0)
            tracks[span["pid"], span["tid"]].append(span)
        slack = 0.0015  # two roundings of the file
        for track, spans in tracks.items():
            open_until = []
            for span in sorted(spans, key=lambda s: (s["ts"], -s["dur"])):
                begin, end = span["ts"], span["ts"] + span["dur"]
                while open_until and open_until[-1] <= begin + slack:
                    open_until.pop()
                if open_until:
                    self.assertLessEqual(end, open_until[-1] + slack, (line.lanes[track], span))
                open_until.append(end)
        # Every traced step has its slices, with operators of both passes, on the worker that has
        # the rank; and it is committed afterwards.
        seen = defaultdict(set)
        for pid in workers:
            for step in line.steps:
                slices = [s for s in line.of(pid, "device", step=step) if s["cat"] == "slice"]
                self.assertTrue(slices, (line.processes[pid], step))
                seen[step].update(s["args"]["est"] for s in slices)
                operators = [s for s in line.of(pid, "device", step=step) if s["cat"] == "operator"]
                self.assertEqual({s["args"]["pass"] for s in operators}, {"forward", "backward"})
                self.assertEqual(len(operators) % len(slices), 0)
                for one in slices:
                    inside = [o for o in operators if one["ts"] <= o["ts"] + slack and
                              o["ts"] + o["dur"] <= one["ts"] + one["dur"] + slack]
                    self.assertEqual(len(inside), len(operators) // len(slices))
                whole = {s["name"]: s for s in line.of(pid, "steps", step=step)}
                self.assertEqual(set(whole), {f"step {step}", "local steps", "wait for gradients",
                                              "commit"})
                last = max(s["ts"] + s["dur"] for s in slices)
                self.assertGreaterEqual(whole["commit"]["ts"] + slack, last)
                (ledger,) = line.of(1, "commits in the ledger", step=step)
                self.assertGreaterEqual(ledger["ts"] + ledger["dur"], last)
        for step in line.steps:
            self.assertEqual(seen[step], set(range(sum(ranks))))
        # The steps of a worker follow each other.
        for pid in workers:
            begins = [s["ts"] for s in sorted(line.of(pid, "steps"), key=lambda s: s["args"]["step"])
                      if s["name"].startswith("step ")]
            self.assertEqual(begins, sorted(begins))
            self.assertEqual(len(begins), len(line.steps))
        # A gradient arrives after it was sent, on the time line of all clocks.
        error = sum(p["clock_error_us"] for p in line.about["processes"])
        arrows = [a for a in line.arrows.values() if len(a) == 2]
        if len(workers) > 1:
            self.assertTrue(arrows)
        for arrow in arrows:
            self.assertNotEqual(arrow["s"]["pid"], arrow["f"]["pid"])
            self.assertLessEqual(arrow["s"]["ts"], arrow["f"]["ts"] + error + slack)

    def test_all_processes_are_on_one_time_line_and_no_bit_changes(self):
        head = self.start_daemon(devices=f"{self.fast_class()}:1+{self.other_class()}:1")
        stages = f"{self.fast_class()}:1+{self.other_class()}:1"
        job = self.submit(head, stages)
        line = self.trace(head, job, "--steps", STEPS)
        self.assertEqual(len(line.steps), STEPS)
        self.assertEqual(len(line.workers()), 2)
        self.check(line, [2, 2])
        for process in line.about["processes"]:
            self.assertIsNone(process["missing"])
            self.assertEqual(process["dropped_spans"], 0)
            self.assertTrue(process["same_clock"])
        self.assertIsNone(line.about["note"])
        pids = {w["pid"] for w in head.describe(job)["workers"]}
        self.assertEqual({p["system_pid"] for p in line.about["processes"][1:]}, pids)
        # A second trace of the same workers is as whole as the first.
        again = self.trace(head, job, "--steps", 2, name="again.json")
        self.check(again, [2, 2])
        self.assertGreater(again.steps[0], line.steps[-1])
        head.esctl("profile", job, "--steps", 2)
        taken = head.json("checkpoint", job)
        head.esctl("cancel", job)
        self.assert_bits_of_fixed_run(self.directory / "job.toml", taken, self.fast_class())

    def test_a_profile_accounts_for_the_time_of_slices(self):
        head = self.start_daemon(devices=f"{self.fast_class()}:2")
        job = self.submit(head, f"{self.fast_class()}:2", **{"model.name": "resnet18",
                                                             "model.width": 16})
        drawing = self.directory / "profile.svg"
        profile = head.json("profile", job, "--steps", 4, "--svg", drawing)
        self.assertEqual(profile["end_step"] - profile["first_step"], 4)
        self.assertEqual(profile["missing"], [])
        (device,) = profile["devices"]
        self.assertEqual(device["device_type"], self.fast_class())
        self.assertEqual(device["local_steps"], 16)
        seconds = device["seconds"]
        shares = sum(kind["share"] for kind in device["kinds"])
        self.assertAlmostEqual(shares, seconds["operators"] / seconds["local_steps"], places=6)
        self.assertGreater(shares, 0.5)
        self.assertLessEqual(shares, 1.0)
        self.assertAlmostEqual(shares + seconds["between_operators"] / seconds["local_steps"], 1.0,
                               places=6)
        self.assertAlmostEqual(sum(op["share"] for op in device["operators"]), shares, places=6)
        self.assertGreater(device["peak_gflops"], 0)
        products = [op for op in device["kinds"] if op["flops"] > 0]
        self.assertTrue(products)
        for op in device["kinds"]:
            self.assertEqual(op["of_peak"] is not None, op["flops"] > 0)
        for op in products:
            self.assertGreater(op["of_peak"], 0)
        for worker in profile["memory"]:
            parts = {part["name"]: part for part in worker["parts"]}
            self.assertEqual(parts["parameters"]["lifetime"], "job")
            for name in ("optimizer state", "mini-batches", "activations and their gradients"):
                self.assertGreater(parts[name]["bytes"], 0)
        xml.dom.minidom.parse(str(drawing))
        text = head.esctl("profile", job, "--steps", 2, "--top", 3).out
        for word in ("MS PER LOCAL STEP", "between operators", "OF PEAK", "optimizer state",
                     "--top 0 shows all"):
            self.assertIn(word, text)
        head.esctl("cancel", job)

    def test_a_worker_that_dies_is_named_and_its_spans_until_then_are_there(self):
        head = self.start_daemon(devices=f"{self.fast_class()}:2")
        job = self.submit(head, f"{self.fast_class()}:2", batch_size=64)
        path = self.directory / "trace.json"
        tracing = self.start_trace(head, job, "--steps", 600, "--out", path, "--json")
        begun = head.describe(job)["steps"]
        victim = head.wait_for(
            job, "traced steps", lambda d: d["steps"] >= begun + 40 and len(d["workers"]) == 2
            and all(w["pid"] for w in d["workers"]))["workers"][1]
        os.kill(victim["pid"], signal.SIGKILL)
        ended = tracing.wait()
        self.assertEqual(ended.code, 0, str(ended))
        line = Timeline(path)
        (dead,) = [p for p in line.about["processes"] if p["missing"]]
        self.assertIn("signal 9", dead["missing"])
        self.assertEqual(dead["name"].split()[1], str(victim["incarnation"]))
        self.assertIn("spans are missing", line.processes[dead["pid"]])
        self.assertTrue(line.of(dead["pid"], "device"))
        # The round, and the worker that took its place.
        self.assertTrue(line.of(1, "rounds"))
        self.assertEqual(len(line.workers()), 3)
        for pid in line.workers():
            self.assertTrue(line.of(pid, "device"), line.processes[pid])
        head.esctl("cancel", job)

    def test_what_is_dropped_is_told(self):
        head = self.start_daemon(devices=f"{self.fast_class()}:1")
        job = self.submit(head, f"{self.fast_class()}:1", max_p=16, batch_size=1)
        line = self.trace(head, job, "--steps", 1000)
        (worker,) = [p for p in line.about["processes"] if p["name"] != "head"]
        self.assertGreater(worker["dropped_spans"], 0)
        # The spans of the steps before the first one count too.
        self.assertTrue(150_000 < len(line.of(worker["pid"])) <= 200_000)
        self.assertIn("spans dropped", line.processes[worker["pid"]])
        head.esctl("cancel", job)

    def test_bad_requests_have_clear_errors(self):
        head = self.start_daemon(devices=f"{self.fast_class()}:1")
        job = self.submit(head, f"{self.fast_class()}:1")
        path = self.directory / "t.json"

        def refused(code, *words, says):
            self.assertIn(says, head.esctl(*words, code=code).err)

        refused(EXIT_NOT_FOUND, "trace", "absent", "--out", path, says="there is no such job")
        refused(EXIT_USAGE, "trace", job, "--steps", 1001, "--out", path, says="--steps")
        refused(EXIT_USAGE, "profile", job, "--steps", 0, says="--steps")
        refused(EXIT_NOT_FOUND, "trace", job, "--out", self.directory / "no/t.json",
                says="there is no directory")
        path.write_text("")
        refused(EXIT_REFUSED, "trace", job, "--out", path, says="exists: allowed is a new file")
        # One trace at a time; a client that goes away ends its trace.
        first = self.start_trace(head, job, "--steps", 1000, "--out", self.directory / "1.json")
        first.process.kill()
        first.wait()
        harness.wait_until("a trace is accepted again",
                           lambda: self.start_esctl("profile", job, "--steps", 1, "--head",
                                                    head.endpoint).wait().code == 0)
        head.esctl("pause", job)
        refused(EXIT_REFUSED, "trace", job, "--out", self.directory / "2.json",
                says="the job is paused")
        waiting = self.start_esctl("trace", job, "--steps", 2, "--wait", "--out",
                                   self.directory / "2.json", "--head", head.endpoint)
        head.esctl("resume", job)
        self.assertEqual(waiting.wait().code, 0)
        self.check(Timeline(self.directory / "2.json"), [4])
        head.esctl("cancel", job)
        refused(EXIT_REFUSED, "trace", job, "--out", self.directory / "3.json",
                says="the job has ended")

    def test_a_run_with_its_own_daemon_is_traced_from_its_first_step(self):
        path = self.directory / "run.json"
        job = self.write_job(job_text(self.word, changes={"steps": 400}))
        with_trace = self.run_job(job, "--devices", f"{self.fast_class()}:2", "--trace", path,
                                  "--trace-steps", 12)
        line = Timeline(path)
        self.assertEqual(line.steps, range(0, 12))
        self.check(line, [2, 2])
        self.assertEqual(harness.digests(with_trace),
                         harness.digests(self.run_job(job, "--devices", f"{self.fast_class()}:1")))
        self.assertIn("exists", self.esctl("run", job, "--trace", path, code=EXIT_REFUSED).err)

    def test_a_trace_that_reaches_the_end_of_the_job_has_all_spans_of_all_workers(self):
        path = self.directory / "end.json"
        job = self.write_job(job_text(self.word, changes={"steps": 30}))
        self.run_job(job, "--devices", f"{self.fast_class()}:2", "--trace", path,
                     "--trace-steps", 30)
        line = Timeline(path)
        self.assertEqual(line.steps, range(0, 30))
        self.assertEqual([p["missing"] for p in line.about["processes"]], [None] * 3)
        self.check(line, [2, 2])

    def start_head_with_http(self, devices):
        tokens = self.directory / "tokens"
        token = self.esctl("token", "add", "user", "--role", "submit", "--file", tokens,
                           "--json").json["token"]
        head = self.start_daemon("head", f"{self.fast_class()}:{devices}",
                                 ["--http", "127.0.0.1:0", "--http-tokens", tokens])
        base = head.running.wait_for_line(r"serves (http://127\.0\.0\.1:\d+)").group(1)
        return head, HttpClient(base, token)

    def test_the_http_service_gives_the_same(self):
        head, client = self.start_head_with_http(2)
        job = self.submit(head, f"{self.fast_class()}:2")
        path = self.directory / "http.json"
        answer = client.get(f"/api/v1/jobs/{job}/trace?steps=3")
        self.assertEqual(answer.status, 200)
        path.write_text(answer.text)
        line = Timeline(path)
        self.assertEqual(len(line.steps), 3)
        self.check(line, [2, 2])
        profile = client.get(f"/api/v1/jobs/{job}/profile?steps=2")
        self.assertEqual(profile.json["devices"][0]["device_type"], self.fast_class())
        self.assertEqual(client.get(f"/api/v1/jobs/{job}/trace?steps=0").status, 400)
        self.assertEqual(client.get(f"/api/v1/jobs/{job}/trace?steps=1001").status, 400)
        self.assertEqual(client.get("/api/v1/jobs/absent/trace").status, 404)
        head.esctl("cancel", job)
        self.assertEqual(client.get(f"/api/v1/jobs/{job}/profile").status, 409)

    def test_a_trace_ends_when_its_http_client_leaves(self):
        head, client = self.start_head_with_http(1)
        # The service sees within 5 s that the client has left. A thousand steps on these images take
        # many times as long.
        job = self.submit(head, f"{self.fast_class()}:1",
                          **{"batch_size": 64, "data.height": 48, "data.width": 48})
        trace = f"/api/v1/jobs/{job}/trace"
        first = self.first_step(client.get(f"{trace}?steps=1"))
        address = urllib.parse.urlsplit(client.base)

        def begin_and_leave():
            with socket.create_connection((address.hostname, address.port)) as leaver:
                leaver.sendall(f"GET {trace}?steps=1000 HTTP/1.1\r\nHost: localhost\r\n"
                               f"Authorization: Bearer {client.token}\r\n\r\n".encode())
                while client.get(f"{trace}?steps=1").status == 200:
                    if select.select([leaver], [], [], 0)[0]:
                        return False  # It was refused, because the other trace came first.
                return True

        harness.wait_until("a trace of a client that leaves", begin_and_leave)
        while (answer := client.get(f"{trace}?steps=1")).status == 409:
            pass
        self.assertLess(self.first_step(answer), first + 1000)

    def first_step(self, answer):
        self.assertEqual(answer.status, 200)
        return answer.json["otherData"]["first_step"]

    @unittest.skipUnless(can_have_other_clock(), "may not make time namespaces here")
    def test_the_clock_of_another_machine_is_aligned(self):
        directory = self.directory / "head"
        directory.mkdir()
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", "tcp://127.0.0.1:*", "--node", "first", "--devices",
                             f"{self.fast_class()}:1", "--insecure-loopback")
        head = harness.Daemon(self, running, ["--insecure-loopback"])
        node = self.start(*OTHER_CLOCK, harness.easyscaled_program, "--join", head.endpoint,
                          "--node", "second", "--devices", f"{self.fast_class()}:1", "--run-dir",
                          self.directory / "second", "--insecure-loopback")
        node.wait_for_line("^ready ", stream="out")
        job = self.submit(head, f"{self.fast_class()}:2")
        line = self.trace(head, job, "--steps", STEPS)
        (ahead,) = [p for p in line.about["processes"] if not p["same_clock"]]
        self.assertIn("second/", ahead["name"])
        self.assertGreater(ahead["clock_error_us"], 0)
        # The truth is known here: the clocks differ by 1,000 s exactly.
        self.assertLessEqual(abs(ahead["clock_ahead_us"] - 1e9), ahead["clock_error_us"] + 0.001)
        self.check(line, [2, 2])
        head.esctl("cancel", job)
        node.stop(signal.SIGKILL)


if __name__ == "__main__":
    harness.main()
