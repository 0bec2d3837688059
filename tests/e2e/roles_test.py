#!/usr/bin/env python3
"""Who may do what on the connections of esctl and of nodes: roles, tenants and keys of a head that
is reached by TCP, and its audit log."""
import json
import shutil

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, wait_until
from jobs import job_text

LISTEN = "tcp://127.0.0.1:*"
ENDLESS = 1_000_000
ROLES = ["view", "submit", "operate", "admin"]
# The messages of clients, with the role that each needs (docs/OPERATIONS.md). Shutdown, which would
# end the head, is tried by itself.
REQUESTS = {60: "submit", 61: "view", 62: "view", 63: "submit", 64: "submit", 65: "submit", 66: "view",
            67: "view", 69: "view", 70: "operate", 71: "submit", 72: "submit", 73: "view",
            74: "operate", 75: "operate", 76: "submit", 77: "operate", 78: "operate", 79: "submit"}
SHUTDOWN = 68
REFUSAL = 87
# The messages of workers and nodes, and the answers of a head (proto/message_type.h).
OTHERS = [*range(1, 8), *range(10, 34), 40, 41, *range(43, 54), *range(80, 91)]
NODE_HELLO = 40


class Keyed(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.door_client = harness.esctl_program.parents[2] / "tests/e2e/door_client"
        self.keys = self.directory / "keys"
        self.esctl("keygen", self.keys)
        self.fast = self.fast_class()

    def start_head(self, name="head"):
        place = self.directory / name
        place.mkdir(mode=0o700)
        self.state = place / "state"
        running = self.start(harness.easyscaled_program, "--head", "--state", self.state, "--listen",
                             LISTEN, "--node", "first", "--devices", f"{self.fast}:2", "--keys",
                             self.keys)
        return harness.Daemon(self, running, ["--keys", self.keys])

    def make_key(self, name, role, tenant=None):
        """A client's key directory, as its owner gets it."""
        options = ["--tenant", tenant] if tenant else []
        self.esctl("keygen", "--client", name, "--role", role, *options, self.keys)
        return self.keys / "clients" / name

    def make_old_key(self, name):
        """A key of the release before there were roles, which nodes and clients of a machine use."""
        directory = self.make_key(name, "view")
        authorized = self.keys / "authorized" / f"{name}.pub"
        authorized.write_text("".join(line for line in authorized.read_text().splitlines(True)
                                      if not line.startswith("role")))
        return directory

    def admit(self, head, directory):
        """Waits until the head has read the key."""
        wait_until("the key is admitted", lambda: self.as_client(head, directory, "ps").code == 0)

    def as_client(self, head, directory, *words):
        return self.start_esctl(*words, "--head", head.endpoint, "--keys", directory).wait()

    def knock(self, head, directory, peer, use, types, job="absent", code=0):
        ended = self.start(self.door_client, head.endpoint, directory, peer, use, job,
                           *types).wait()
        self.assertEqual(ended.code, code, str(ended))
        answers = {}
        for line in ended.out.splitlines():
            words = line.split(" ", 3)
            answers[words[0]] = [int(words[1]), *words[2:]] if words[0].isdigit() else words
        return answers

    def submit(self, head, directory, **changes):
        text = job_text(self.word, changes={"steps": ENDLESS, **changes})
        ended = self.as_client(head, directory, "submit", self.write_job(text), "--json")
        self.assertEqual(ended.code, 0, str(ended))
        return ended.json["job"]

    def audit(self):
        return [json.loads(line) for line in (self.state / "audit.log").read_text().splitlines()]


class Roles(Keyed):
    def test_every_request_with_every_role(self):
        directories = {role: self.make_key(f"the-{role}", role) for role in ROLES}
        head = self.start_head()
        for number, role in enumerate(ROLES):
            answers = self.knock(head, directories[role], f"client/{role}", "client",
                                 [*REQUESTS, *OTHERS])
            for request, needed in REQUESTS.items():
                kind, *refusal = answers[str(request)]
                with self.subTest(role=role, request=request):
                    if number < ROLES.index(needed):
                        self.assertEqual(kind, REFUSAL)
                        self.assertEqual(refusal[1], f"needs the role {needed}; the-{role} has the "
                                                     f"role {role}")
                    else:
                        self.assertNotIn("needs the role", " ".join(refusal))
            for request in OTHERS:
                with self.subTest(role=role, other=request):
                    kind, _, text = answers[str(request)]
                    self.assertEqual(kind, REFUSAL)
                    self.assertIn("is no key of a node", text)
            if role != "admin":
                answer = self.knock(head, directories[role], f"client/{role}", "client", [SHUTDOWN])
                self.assertIn("needs the role admin", answer[str(SHUTDOWN)][2])
        self.assertEqual({n["name"] for n in head.json("nodes")["nodes"]}, {"first"})
        self.knock(head, directories["admin"], "client/last", "client", [SHUTDOWN])
        self.assertEqual(head.running.wait().code, 0)

    def test_the_key_of_a_node_cannot_act_as_a_client_nor_the_other_way_round(self):
        self.esctl("keygen", "--node", "second", self.keys)
        node_keys, client = self.keys / "nodes/second", self.make_key("boss", "admin")
        head = self.start_head()
        for directory, use, peers in ((node_keys, "node", ["client/1"]),
                                      (client, "client", ["node/second", "worker/1", "http"])):
            for peer in peers:
                with self.subTest(use=use, peer=peer):
                    answer = self.knock(head, directory, peer, use, [61], code=EXIT_REFUSED)
                    self.assertEqual(answer, {"turned": ["turned", "away"]})
        answers = self.knock(head, node_keys, "node/other", "node", [*REQUESTS, SHUTDOWN])
        for request, (kind, _, text) in answers.items():
            with self.subTest(request=request):
                self.assertEqual(kind, REFUSAL)
                self.assertIn("cannot act as a client", text)
        # With its directory alone the node joins and computes.
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.other_class()}:1", "--run-dir",
                          self.directory / "n2", "--keys", node_keys)
        node.wait_for_line("^ready ", stream="out")
        job = head.submit(self.write_job(job_text(self.word, changes={"steps": ENDLESS,
                                                                      "level": "D2"})),
                          "--stages", f"{self.fast}:1+{self.other_class()}:1@{ENDLESS}")
        head.wait_for_step(job, 3)
        head.esctl("cancel", job)
        head.stop()

    def test_a_key_without_a_role_is_a_node_and_an_operator(self):
        old = self.make_old_key("machine")
        head = self.start_head()
        answers = self.knock(head, old, "client/old", "client", [*REQUESTS, SHUTDOWN])
        self.assertIn("needs the role admin; machine has the role operate",
                      answers.pop(str(SHUTDOWN))[2])
        self.assertNotIn("needs the role", str(answers))
        server = self.keys / "server.key"
        shutil.copy(server, old)
        shutil.copytree(self.keys / "authorized", old / "authorized")
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.fast}:1", "--run-dir", self.directory / "n2",
                          "--keys", old)
        node.wait_for_line("^ready ", stream="out")
        head.stop()

    def test_a_tenant_sees_and_changes_only_its_own_jobs(self):
        ours = self.make_key("ours", "submit", "vision")
        theirs = self.make_key("theirs", "operate", "speech")
        head = self.start_head()
        job = self.submit(head, ours)
        self.assertEqual(head.describe(job)["tenant"], "vision")
        head.wait_for_step(job, 1)
        about_jobs = [number for number in REQUESTS if number not in (60, 61, 67, 70, 74, 75)]
        real = self.knock(head, theirs, "client/theirs", "client", about_jobs, job)
        absent = self.knock(head, theirs, "client/theirs", "client", about_jobs, "absent")
        for number in about_jobs:
            with self.subTest(request=number):
                kind, _, text = real[str(number)]
                self.assertEqual(kind, REFUSAL)
                # The answer is that to a job that does not exist.
                self.assertEqual(text.replace(job, "absent"), absent[str(number)][2])
        self.assertEqual(self.as_client(head, theirs, "ps", "--json").json["jobs"], [])
        self.assertEqual([j["job"] for j in self.as_client(head, ours, "ps", "--json").json["jobs"]],
                         [job])
        self.assertNotIn(job, self.as_client(head, theirs, "nodes", "--json").out)
        self.assertIn("(another tenant)", self.as_client(head, theirs, "nodes", "--json").out)
        self.assertIn(job, self.as_client(head, ours, "nodes", "--json").out)
        text = job_text(self.word, changes={"resources.tenant": "speech"})
        ended = self.as_client(head, ours, "submit", self.write_job(text, "foreign.toml"))
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertIn("submits for the tenant vision only", ended.err)
        self.assertEqual(self.as_client(head, ours, "cancel", job).code, 0)
        head.stop()

    def test_keys_come_and_go_while_the_head_runs(self):
        head = self.start_head()
        alice = self.make_key("alice", "submit", "vision")
        self.assertEqual(alice.stat().st_mode & 0o777, 0o700)
        self.assertEqual(sorted(p.name for p in alice.iterdir()), ["client.key", "server.pub"])
        self.admit(head, alice)
        listed = self.esctl("keys", "ls", "--keys", self.keys, "--json").json["keys"]
        self.assertEqual([(k["name"], k["role"], k["tenant"]) for k in listed],
                         [("admin", "admin", None), ("alice", "submit", "vision"),
                          ("self", "node", None)])
        self.assertEqual(self.as_client(head, alice, "claim", "--type", self.fast, "--count", "1",
                                        "--name", "c").code, EXIT_REFUSED)
        # Another role for the same key.
        file = self.keys / "authorized/alice.pub"
        changed = file.read_text().replace("role = submit", "role = operate")
        part = self.keys / "authorized/alice.part"
        part.write_text(changed)
        part.rename(file)
        wait_until("the new role", lambda: self.as_client(
            head, alice, "claim", "--type", self.fast, "--count", "1", "--name", "c").code == 0)
        # A new key under a new name, then the end of the old one.
        newer = self.make_key("alice2", "submit", "vision")
        self.admit(head, newer)
        self.esctl("keys", "revoke", "alice", "--keys", self.keys)
        wait_until("the end of the key",
                   lambda: self.as_client(head, alice, "ps").code == EXIT_REFUSED)
        self.assertEqual(self.as_client(head, newer, "ps").code, 0)
        head.esctl("release", "c")
        head.stop()
        changes = [(line["method"], line["path"]) for line in self.audit()
                   if line["method"].endswith("Key")]
        self.assertEqual(changes, [("AuthorizeKey", "alice submit vision"),
                                   ("ChangeKey", "alice operate vision"),
                                   ("AuthorizeKey", "alice2 submit vision"),
                                   ("RevokeKey", "alice operate vision")])

    def test_the_audit_log_has_who_what_from_where_and_the_result(self):
        alice = self.make_key("alice", "submit", "vision")
        head = self.start_head()
        job = self.submit(head, alice)
        self.as_client(head, alice, "ps")
        self.as_client(head, alice, "cancel", "absent")
        self.as_client(head, alice, "release", "web")
        head.esctl("cancel", job)
        head.esctl("claim", "--type", self.fast, "--count", "1", "--name", "web")
        lines = [(l["who"], l["role"], l["from"], l["method"], l["path"], l["status"])
                 for l in self.audit()]
        self.assertEqual(lines, [
            ("alice", "submit", "127.0.0.1", "SubmitJob", job, 200),
            ("alice", "submit", "127.0.0.1", "CancelJob", "absent", 404),
            ("alice", "submit", "127.0.0.1", "ReleaseClaim", "web", 403),
            ("admin", "admin", "127.0.0.1", "CancelJob", job, 200),
            ("admin", "admin", "127.0.0.1", "ClaimDevices", "web", 200)])
        head.stop()

    def test_wrong_words_about_keys(self):
        for words, code in ((["keygen", "--client", "a/b", "--role", "view", self.keys], EXIT_USAGE),
                            (["keygen", "--client", "a", "--role", "root", self.keys], EXIT_USAGE),
                            (["keygen", "--client", "a", self.keys], EXIT_USAGE),
                            (["keygen", "--role", "view", self.keys], EXIT_USAGE),
                            (["keygen", "--client", "a", "--node", "b", self.keys], EXIT_USAGE),
                            (["keygen", "--client", "a", "--role", "view", "--tenant", "x y",
                              self.keys], EXIT_USAGE),
                            (["keygen", "--client", "admin", "--role", "view", self.keys],
                             EXIT_REFUSED),
                            (["keys", "revoke", "nobody", "--keys", self.keys], EXIT_NOT_FOUND),
                            (["keys", "revoke", "../server", "--keys", self.keys], EXIT_USAGE)):
            with self.subTest(words=words):
                before = sorted(str(p) for p in self.keys.rglob("*"))
                self.esctl(*words, code=code)
                self.assertEqual(sorted(str(p) for p in self.keys.rglob("*")), before)
        self.assertTrue((self.keys / "server.pub").exists())
        head = self.start_head()
        (self.keys / "authorized/odd.pub").write_text(
            (self.keys / "server.pub").read_text() + "role = root\n")
        head.running.wait_for_line(r"is not changed: .*odd\.pub: role \"root\": allowed are view, "
                                   "submit, operate, admin, node")
        (self.keys / "authorized/odd.pub").unlink()
        head.stop()


if __name__ == "__main__":
    harness.main()
