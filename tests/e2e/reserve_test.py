#!/usr/bin/env python3
"""Reservations give a queue its devices for a time, also after the head was killed; queues of a
higher tier take devices from those of a lower one; jobs lie in one rack, and leave a node that is
drained."""
import datetime
import signal
import time

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000


class Reserve(harness.EndToEndTest):
    def start_head(self, queues, devices, *options):
        path = self.directory / "queues.toml"
        path.write_text(queues)
        return self.start_daemon(devices=devices, options=["--queues", path, *options])

    def submit(self, head, name, queue, devices):
        spec = {"max_p": devices, "resources.min_devices": devices, "steps": ENDLESS,
                "resources.queue": queue, **ANY_LENGTH}
        return head.submit(self.write_job(job_text(f"{self.word}{name}", changes=spec),
                                          f"{name}.toml"))

    def wait_for_devices(self, head, job, count):
        return head.wait_for(job, f"has {count} devices", lambda d: len(d["workers"]) == count)

    def restart(self, head, queues, devices):
        """A new head in the directories of a killed one."""
        head.running.stop(signal.SIGKILL)
        directory = self.directory / "head"
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--listen", f"ipc://{directory}/head.sock", "--node", "head",
                             "--devices", devices, "--queues", self.directory / "queues.toml")
        return harness.Daemon(self, running)

    def test_a_reservation_holds_over_a_restart_and_ends_by_itself(self):
        device = self.fast_class()
        queues = "[queue.batch]\n[queue.owls]\nweight = 0\ntenants = [\"owls\"]\n"
        head = self.start_head(queues, f"{device}:2")
        batch = self.submit(head, "batch", "batch", 2)
        self.wait_for_devices(head, batch, 2)
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=45)
        answer = head.json("reserve", "--name", "r", "--type", device, "--count", 1, "--tenant",
                           "owls", "--from", "10s", "--until", until.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.assertEqual((answer["reservation"], answer["count"]), ("r", 1))
        [claim] = head.json("claims")["claims"]
        self.assertEqual((claim["queue"], claim["count"], claim["devices"]), ("owls", 1, 0))
        # The next head knows it, and from its begin the queue comes before those that borrow.
        head = self.restart(head, queues, f"{device}:2")
        [again] = head.json("claims")["claims"]
        self.assertEqual((again["from"], again["until"]), (claim["from"], claim["until"]))
        spec = {"max_p": 1, "steps": ENDLESS, "resources.tenant": "owls", **ANY_LENGTH}
        owl = head.submit(self.write_job(job_text(f"{self.word}owl", changes=spec), "owl.toml"))
        self.wait_for_devices(head, owl, 1)
        self.assertIn("1 of its guarantee", head.esctl("queues").out)
        self.assertRegex(head.esctl("claims").out, r"r +\S+ +1 +- +\S+Z +\S+Z +owls")
        # At its end the guarantee is gone. The job that needs both devices gets them back.
        harness.wait_until("the reservation ends", lambda: not head.json("claims")["claims"])
        self.assertGreaterEqual(time.time(), int(until.timestamp()))
        self.wait_for_devices(head, batch, 2)
        head.stop()

    def test_what_cannot_be_reserved_is_refused(self):
        device = self.fast_class()
        head = self.start_head(f"[queue.a]\nguarantee = {{ {device} = 1 }}\n", f"{device}:2")

        def reserve(*words, code):
            return head.esctl("reserve", "--name", "r", "--type", device, *words, code=code).err
        self.assertIn("give --for or --until", reserve("--count", 1, code=EXIT_USAGE))
        self.assertIn("--until 2020-01-01: the reservation would end before it begins",
                      reserve("--count", 1, "--until", "2020-01-01", code=EXIT_USAGE))
        self.assertIn("--for soon: allowed are a duration",
                      reserve("--count", 1, "--for", "soon", code=EXIT_USAGE))
        self.assertIn("the cluster has 2", reserve("--count", 3, "--for", "1h", code=EXIT_REFUSED))
        self.assertIn("queues are guaranteed 1",
                      reserve("--count", 2, "--for", "1h", "--queue", "a", code=EXIT_REFUSED))
        self.assertIn("there is no such queue; allowed: a",
                      reserve("--count", 1, "--for", "1h", "--queue", "b", code=EXIT_USAGE))
        self.assertIn("count = 0", reserve("--count", 0, "--for", "1h", code=EXIT_USAGE))
        # For a load outside of EasyScale, and released before it has begun.
        reserve("--count", 2, "--from", "1h", "--for", "1h", code=0)
        self.assertIn("other claims have 2",
                      head.esctl("claim", "--name", "s", "--type", device, "--count", 1,
                                 code=EXIT_REFUSED).err)
        head.esctl("release", "r")
        head.esctl("release", "r", code=EXIT_NOT_FOUND)
        head.stop()

    def test_a_queue_of_a_higher_tier_suspends_jobs_of_a_lower_one(self):
        device = self.fast_class()
        head = self.start_head("[queue.batch]\n[queue.service]\ntier = 1\n", f"{device}:2",
                               "--policy", "fifo-backfill")
        batch = self.submit(head, "batch", "batch", 2)
        self.wait_for_devices(head, batch, 2)
        service = self.submit(head, "service", "service", 2)
        self.wait_for_devices(head, service, 2)
        self.assertEqual(head.describe(batch)["state"], "queued")
        self.assertIn("queue service is of tier 1", head.esctl("queues").out)
        head.esctl("cancel", service)
        taken = self.wait_for_devices(head, batch, 2)
        self.assertEqual(len(taken["workers"]), 2)
        head.stop()

    def test_the_devices_of_a_job_lie_in_one_rack(self):
        device = self.fast_class()
        head = self.start_daemon(devices=f"{device}:1", options=["--rack", "r1"])
        nodes = [self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", name,
                            "--devices", f"{device}:1", "--rack", rack, "--run-dir",
                            self.directory / name)
                 for name, rack in (("b", "r2"), ("c", "r2"))]
        for node in nodes:
            node.wait_for_line("^ready ", stream="out")
        self.assertRegex(head.esctl("nodes").out, r"b +alive .* r2")
        spec = {"max_p": 2, "resources.min_devices": 2, "steps": ENDLESS, **ANY_LENGTH}
        job = head.submit(self.write_job(job_text(self.word, changes=spec)))
        used = head.wait_for(job, "has two devices", lambda d: len(d["workers"]) == 2)
        self.assertEqual({w["node"] for w in used["workers"]}, {"b", "c"})
        # A node that will be gone is given to no job, and one that shall be empty has none.
        self.assertIn("no such node", head.esctl("drain", "x", code=EXIT_NOT_FOUND).err)
        self.assertIn("need not leave", head.esctl("drain", "b", "--cancel", code=EXIT_REFUSED).err)
        self.assertEqual(head.json("drain", "b", "--in", 3600), {"node": "b", "seconds": 3600})
        self.assertIn("node b will be gone at", head.esctl("nodes").out)
        self.assertEqual(len(head.describe(job)["workers"]), 2)
        head.esctl("drain", "b")
        moved = head.wait_for(job, "has left node b", lambda d: len(d["workers"]) == 2 and "b" not in
                              {w["node"] for w in d["workers"]})
        self.assertEqual({w["node"] for w in moved["workers"]}, {"head", "c"})
        states = {node["name"]: (node["alive"], node["draining"])
                  for node in head.json("nodes")["nodes"]}
        self.assertEqual(states["b"], (True, True))
        # The next head knows it.
        head.running.stop(signal.SIGKILL)
        directory = self.directory / "head"
        head = harness.Daemon(self, self.start(
            harness.easyscaled_program, "--head", "--state", directory / "state", "--listen",
            f"ipc://{directory}/head.sock", "--node", "head", "--devices", f"{device}:1",
            "--rack", "r1"))
        head.wait_for(job, "has two devices again", lambda d: len(d["workers"]) == 2 and "b" not in
                      {w["node"] for w in d["workers"]})
        head.esctl("drain", "b", "--cancel")
        self.assertNotIn("draining", head.esctl("nodes").out)
        head.esctl("cancel", job)
        head.stop()
        wrong = self.start(harness.easyscaled_program, "--head", "--rack", "a b")
        self.assertEqual(wrong.wait().code, EXIT_USAGE)
        self.assertIn("a b: allowed are 1 to 64 letters", wrong.err)


if __name__ == "__main__":
    harness.main()
