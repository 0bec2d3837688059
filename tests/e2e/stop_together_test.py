#!/usr/bin/env python3
"""A head and four nodes get SIGTERM at the same time, in any order, with a job and without one.
Each of them ends in good order, whatever messages the others still send to it.

ES_STOP_ROUNDS=N sets the number of rounds of each test; 100 takes some minutes."""
import os
import signal

import harness
from harness import EXIT_FAILURE
from jobs import ANY_LENGTH, job_text

ROUNDS = int(os.environ.get("ES_STOP_ROUNDS", "8"))
NODES = 4
ENDLESS = 1_000_000
GRACE_S = 3  # A node whose head has ended before it cannot hand its workers over.


class StopTogether(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.random = harness.seeded_random(self.id().rpartition(".")[2])
        self.job_file = self.write_job(
            job_text(self.word, changes={"steps": ENDLESS, **ANY_LENGTH}))

    def start_cluster(self, place, listen, wire):
        """A ready head and ready nodes, and the name of each in messages."""
        place.mkdir(mode=0o700)
        common = ["--devices", f"{self.fast}:1", "--grace", GRACE_S, *wire]
        head = harness.Daemon(
            self, self.start(harness.easyscaled_program, "--head", "--state", place / "state",
                             "--listen", listen, "--node", "head", *common), wire)
        nodes = {f"node {i}": self.start(harness.easyscaled_program, "--join", head.endpoint,
                                         "--node", f"n{i}", "--run-dir", place / f"n{i}", *common)
                 for i in range(NODES)}
        for node in nodes.values():
            node.wait_for_line("^ready ", stream="out")
        return head, {"head": head.running, **nodes}

    def train(self, head):
        placement = f"{self.fast}:{self.random.randint(1, 4)}"
        job = head.submit(self.job_file, "--stages", f"{placement}@{ENDLESS}")
        head.wait_for_step(job, 1)

    def assert_ends_well(self, what, process, with_job):
        ended = process.wait()
        if with_job and "the time of --grace is over" in ended.err:
            self.assertEqual(ended.code, EXIT_FAILURE, f"{what}: {ended}")
        else:
            self.assertEqual(ended.code, 0, f"{what}: {ended}")
        return ended.code

    def stop_cluster(self, processes, with_job):
        """Sends SIGTERM to all of them in random order. Sometimes the others get it when the first
        one has ended."""
        order = self.random.sample(sorted(processes), len(processes))
        together = self.random.choice([1, 2, len(order), len(order), len(order), len(order)])
        codes = {}
        for group in (order[:together], order[together:]):
            for what in group:
                processes[what].process.send_signal(signal.SIGTERM)
            for what in group:
                codes[what] = self.assert_ends_well(what, processes[what], with_job)
        return codes

    def stop_clusters(self, listen, wire):
        failures = 0
        for i in range(ROUNDS):
            with_job = self.random.randrange(4) == 0
            with self.subTest(round=i, with_job=with_job):
                place = self.directory / f"r{i}"
                head, processes = self.start_cluster(place, listen(place), wire)
                if with_job:
                    self.train(head)
                codes = self.stop_cluster(processes, with_job)
                failures += sum(code != 0 for code in codes.values())
                harness.wait_until("no process is left",
                                   lambda: not self.left_behind()["processes"])
        print(f"{ROUNDS} clusters of {NODES + 1} ended; {failures} nodes lost their head before "
              "they had handed their workers over, and reported it", flush=True)

    def test_over_tcp_with_keys(self):
        keys = self.directory / "keys"
        self.esctl("keygen", keys)
        self.stop_clusters(lambda place: "tcp://127.0.0.1:*", ["--keys", keys])

    def test_over_the_local_socket(self):
        self.stop_clusters(lambda place: f"ipc://{place}/head.sock", [])


if __name__ == "__main__":
    harness.main()
