#!/usr/bin/env python3
"""Queues share a cluster: limits are kept, and borrowed devices go back to their queue."""
import harness
from harness import EXIT_REFUSED, EXIT_USAGE
from jobs import ANY_LENGTH, job_text

ENDLESS = 1_000_000


class Queues(harness.EndToEndTest):
    def head(self, text, devices, *options):
        path = self.directory / "queues.toml"
        path.write_text(text)
        return self.start_daemon(devices=devices, options=["--queues", path, *options])

    def submit(self, head, name, queue, **changes):
        # The steps are so long that more devices make them shorter, also by the measured times.
        spec = {"max_p": 4, "steps": ENDLESS, "batch_size": 24, "data.height": 24,
                "data.width": 24, "resources.queue": queue, **ANY_LENGTH, **changes}
        return head.submit(self.write_job(job_text(f"{self.word}{name}", changes=spec),
                                          f"{name}.toml"))

    def of(self, head, queue):
        """(devices, borrowed devices) of the only type of the queue."""
        entry = next(q for q in head.json("queues")["queues"] if q["queue"] == queue)
        return entry["types"][0]["used"], entry["types"][0]["borrowed"]

    def wait_for_use(self, head, queue, devices):
        harness.wait_until(f"queue {queue} has {devices} devices",
                           lambda: self.of(head, queue)[0] == devices,
                           state=lambda: head.esctl("queues").out)

    def test_limits_are_kept_and_borrowed_devices_go_back(self):
        device = self.fast_class()
        head = self.head(f"""
[queue.research]
[queue.vision]
parent = "research"
guarantee = {{ {device} = 1 }}
weight = 0
[queue.speech]
parent = "research"
guarantee = {{ {device} = 2 }}
borrow = {{ {device} = 0 }}
weight = 0
""", f"{device}:4")
        vision = self.submit(head, "vision", "vision")
        self.wait_for_use(head, "vision", 4)
        self.assertEqual(self.of(head, "vision"), (4, 3))
        # The queue speech gets its guarantee back, and no more.
        speech = self.submit(head, "speech", "speech")
        self.wait_for_use(head, "speech", 2)
        self.wait_for_use(head, "vision", 2)
        # With a lower priority it waits whatever the two jobs measure.
        waiting = self.submit(head, "second", "speech",
                              **{"resources.min_devices": 2, "resources.priority": -1})
        head.wait_for(waiting, "what it waits for", lambda d: d["waiting_for"])
        text = head.esctl("explain", waiting).out
        self.assertIn("It is in queue speech", text)
        self.assertIn(f"Limits are reached: 2 {device} for speech.", text)
        for job in (waiting, speech):
            head.esctl("cancel", job)
        # By itself the job would take them once that pays, which depends on its pauses so far.
        head.esctl("scale", vision, f"{device}:4")
        self.wait_for_use(head, "vision", 4)
        taken = head.json("checkpoint", vision)
        self.assert_bits_of_fixed_run(self.directory / "vision.toml", taken, device)
        head.esctl("cancel", vision)
        lines = head.esctl("queues").out.splitlines()
        self.assertRegex(lines[0], "QUEUE +WEIGHT +RUNNING +WAITING +TYPE +USED +GUARANTEE")
        self.assertEqual([line.split()[0] for line in lines[1:]], ["research", "speech", "vision"])
        head.stop()

    def test_wrong_queues_are_refused(self):
        device = self.fast_class()
        head = self.head(f"[queue.a]\n[queue.b]\nparent = \"a\"\ntenants = [\"x\"]\n"
                         f"borrow = {{ {device} = 1 }}\n[queue.default]\n", f"{device}:2")

        def refuse(code, queue, **changes):
            path = self.write_job(job_text(self.word, changes={"resources.queue": queue, **changes}))
            return head.esctl("submit", path, code=code).err
        self.assertIn("there is no such queue; allowed: b, default", refuse(EXIT_USAGE, "c"))
        self.assertIn("it has queues below it", refuse(EXIT_USAGE, "a"))
        self.assertIn("only jobs of these tenants may be in it: x", refuse(EXIT_REFUSED, "b"))
        head.stop()
        path = self.directory / "queues.toml"
        path.write_text("[queue.a]\nguarantee = 3\n")
        daemon = self.start(harness.easyscaled_program, "--head", "--queues", path)
        self.assertEqual(daemon.wait().code, EXIT_USAGE)
        self.assertIn("queue.a.guarantee = 3: allowed is a table of device types", daemon.err)


if __name__ == "__main__":
    harness.main()
