#!/usr/bin/env python3
"""Measures the HTTP service of a head under load, beside the same head without load:

    tests/bench/http_load.py ESCTL EASYSCALED [--past JOBS] [--clients N] [--streams N] [--seconds S]
                             [--ps N] [--pairs N] [--batch N]

One job trains all the time, `--past` jobs are over: cancelled while a claim held all devices, so that
no process was started for them. `--clients` connections ask for the list of jobs once a second each,
and `--streams` follow the job. It prints the latencies of the answers, the steps per second of the job
before and during the load, and the resident memory of the head before, during and after it. `--ps`
processes of `esctl ps` are then started at once. There is no peer: the steps without load are what the
load is compared with.

`--pairs` compares them more exactly: the worker gets one core, and the head and all clients another one,
as if the clients were elsewhere. Then times with and without load alternate. A loop with the lowest
priority keeps the other core busy all the time, because the cores of a virtual machine may be two
threads of one core. `--batch` is the mini-batch of the job, and so the length of a step; `--pairs`
takes several."""
import argparse
import asyncio
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = """name = "{name}"
max_p = 1
batch_size = {batch}
steps = {steps}
level = "D2"
[model]
name = "mlp"
size = "tiny"
[data]
kind = "synthetic"
height = 8
width = 8
samples = {samples}
eval_samples = 8
"""


WINDOW_S = 5  # of --pairs


class Head:
    def __init__(self, esctl, easyscaled, directory):
        self.esctl_program, self.directory = esctl, directory
        self.endpoint = f"ipc://{directory}/s/head.sock"
        (directory / "s").mkdir(mode=0o700)
        environment = {**os.environ, "HOME": str(directory)}
        # The log goes into a file, because a head waits for the reader of a full pipe.
        log = directory / "log"
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [easyscaled, "--head", "--state", directory / "state", "--listen", self.endpoint,
                 "--devices", "cpu-avx2:2", "--http", "127.0.0.1:0", "--http-no-tokens=operate"],
                env=environment, stdout=subprocess.PIPE, stderr=out, text=True)
        for line in self.process.stdout:
            if line.startswith("ready"):
                break
        found = None
        while found is None:
            found = re.search(r"serves http://127\.0\.0\.1:(\d+)", log.read_text())
        self.port = int(found.group(1))

    def esctl(self, *words):
        done = subprocess.run([self.esctl_program, *words, "--head", self.endpoint, "--json"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def submit(self, name, steps, batch=4):
        path = self.directory / "job.toml"
        path.write_text(JOB.format(name=name, steps=steps, batch=batch, samples=16 * batch))
        return self.esctl("submit", path)["job"]

    def request(self, connection, method, path, body):
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            text = answer.read()
            assert answer.status in (200, 201), (method, path, answer.status, text)
            return json.loads(text)

    def make_past_jobs(self, count):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.request(connection, "PUT", "/api/v1/claims/all", {"type": "cpu-avx2", "count": 2})
        for number in range(count):
            spec = JOB.format(name=f"past{number}", steps=1, batch=4, samples=64)
            job = self.request(connection, "POST", "/api/v1/jobs", {"spec_toml": spec})["job"]
            self.request(connection, "POST", f"/api/v1/jobs/{job}/cancel", {})
            if number % 1000 == 999:
                print(f"{number + 1} jobs are over", file=sys.stderr, flush=True)
        self.request(connection, "DELETE", "/api/v1/claims/all", {})
        connection.close()

    def memory_mib(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024

    def steps_per_second(self, job, seconds):
        begin, start = self.esctl("describe", job)["steps"], time.monotonic()
        time.sleep(seconds)
        return (self.esctl("describe", job)["steps"] - begin) / (time.monotonic() - start)


async def poll(port, begin, end, latencies):
    """One client, which asks once a second and keeps its connection."""
    await asyncio.sleep(begin)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < end:
        start = time.monotonic()
        writer.write(b"GET /api/v1/jobs?limit=50 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0], head
        length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
        await reader.readexactly(length)
        latencies.append(time.monotonic() - start)
        await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - start)))
    writer.close()


async def follow(port, job, end, counts):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /api/v1/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    while time.monotonic() < end:
        try:
            part = await asyncio.wait_for(reader.read(65536), 1)
            counts[0] += part.count(b"event: job")
        except asyncio.TimeoutError:
            pass
    writer.close()


async def load(options, port, job):
    latencies, events = [], [0]
    end = time.monotonic() + options.seconds
    await asyncio.gather(
        *(poll(port, i / options.clients, end, latencies) for i in range(options.clients)),
        *(follow(port, job, end, events) for _ in range(options.streams)))
    return sorted(latencies), events[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("esctl")
    parser.add_argument("easyscaled")
    parser.add_argument("--past", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--ps", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--batch", type=int, nargs="+", default=[64])
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.port:  # The clients, in a process of their own.
        latencies, events = asyncio.run(load(options, options.port, options.job))
        print(json.dumps({"latencies": latencies, "events": events}))
        return
    with tempfile.TemporaryDirectory(prefix="es-") as name:
        head = Head(options.esctl, options.easyscaled, Path(name))
        try:
            measure(options, head)
        finally:
            head.process.terminate()
            head.process.wait()


def start_clients(options, head, job, seconds):
    return subprocess.Popen(
        [sys.executable, __file__, "-", "-", "--port", str(head.port), "--job", job, "--clients",
         str(options.clients), "--streams", str(options.streams), "--seconds", str(seconds)],
        stdout=subprocess.PIPE, text=True)


def move_to_core(pid, core):
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def compare_pairs(options, head, job, cores):
    """Steps per second with load and without it, in turns."""
    (worker,) = head.esctl("describe", job)["workers"]
    for pid, core in ((worker["pid"], cores[1]), (head.process.pid, cores[0]), (os.getpid(), cores[0])):
        move_to_core(pid, core)
    connection = http.client.HTTPConnection("127.0.0.1", head.port)

    def steps_and_time():
        connection.request("GET", f"/api/v1/jobs/{job}")
        return json.loads(connection.getresponse().read())["steps"], time.monotonic()

    def rate():
        steps, start = steps_and_time()
        time.sleep(WINDOW_S)
        more, end = steps_and_time()
        return (more - steps) / (end - start)

    busy = subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
    ratios, alone = [], rate()
    for _ in range(options.pairs):
        clients = start_clients(options, head, job, WINDOW_S + 3)
        time.sleep(2)  # Until all clients are connected and have asked.
        loaded = rate()
        clients.communicate()
        again = rate()
        ratios.append(2 * loaded / (alone + again))
        print(f"steps per second: {alone:.1f} alone, {loaded:.1f} under load, {again:.1f} alone: "
              f"{ratios[-1]:.4f}", flush=True)
        alone = again
    busy.kill()
    busy.wait()
    print(f"under load / alone: median {statistics.median(ratios):.4f} of {len(ratios)}, "
          f"{min(ratios):.4f} to {max(ratios):.4f}")


def start_job(head, batch):
    job = head.submit("running", 100_000_000, batch=batch)
    while head.esctl("describe", job)["steps"] < 10:
        time.sleep(0.1)
    return job


def measure(options, head):
    head.make_past_jobs(options.past)
    if options.pairs:
        cores = sorted(os.sched_getaffinity(0))
        for batch in options.batch:
            job = start_job(head, batch)
            compare_pairs(options, head, job, cores)
            head.esctl("cancel", job)
        return
    job = start_job(head, options.batch[0])
    before_mib, before = head.memory_mib(), head.steps_per_second(job, options.seconds / 2)
    clients = start_clients(options, head, job, options.seconds)
    during = head.steps_per_second(job, options.seconds * 0.8)
    during_mib = head.memory_mib()
    result = json.loads(clients.communicate()[0])
    after = head.steps_per_second(job, options.seconds / 2)
    latencies = result["latencies"]
    at = lambda share: 1000 * latencies[min(len(latencies) - 1, int(share * len(latencies)))]
    print(f"{options.past} past jobs, {options.clients} clients, {options.streams} streams")
    print(f"{len(latencies)} answers, {result['events']} events in {options.seconds:.0f} s")
    print(f"latency: median {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, largest {at(1.0):.1f} ms")
    print(f"steps per second: before {before:.1f}, during {during:.1f}, after {after:.1f}")
    print(f"memory of the head: before {before_mib:.1f} MiB, during {during_mib:.1f}, "
          f"after {head.memory_mib():.1f}")
    if options.ps:
        crowd(head, options.ps)


def crowd(head, count):
    """`count` processes of `esctl ps` at once."""
    before, start = head.memory_mib(), time.monotonic()
    words = [head.esctl_program, "ps", "--json", "--head", head.endpoint]
    asking = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(count)]
    assert all(process.wait() == 0 for process in asking)
    print(f"{count} `esctl ps` at once: {time.monotonic() - start:.2f} s; memory of the head: before "
          f"{before:.1f} MiB, after {head.memory_mib():.1f}")


if __name__ == "__main__":
    main()
