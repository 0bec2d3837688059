#!/usr/bin/env python3
"""The HTTP service of a head: who may do what, jobs, events, curves, metrics, and bad requests."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import unittest
import urllib.parse

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, wait_until
from http_client import HttpClient, job_path
from jobs import job_text

ROLES = ["view", "submit", "operate", "admin"]
ENDLESS = 1_000_000
OVER = ("finished", "failed", "cancelled")


class Http(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.fast = self.fast_class()
        self.tokens_file = self.directory / "tokens"

    def add_token(self, name, role, tenant=None):
        options = ["--tenant", tenant] if tenant else []
        return self.esctl("token", "add", name, "--role", role, *options, "--file",
                          self.tokens_file, "--json").json["token"]

    def start_head(self, *options, name="head", access=None, devices=2, certificate=None):
        access = access or ["--http-tokens", self.tokens_file]
        head = self.start_daemon(name, f"{self.fast}:{devices}",
                                 ["--http", "127.0.0.1:0", *access, *options])
        found = head.running.wait_for_line(r"serves (https?)://127\.0\.0\.1:(\d+)")
        host = "localhost" if certificate else "127.0.0.1"
        self.base = f"{found.group(1)}://{host}:{found.group(2)}"
        return head

    def client(self, token="", **options):
        return HttpClient(self.base, token, **options)

    def job(self, word, **changes):
        return job_text(f"{word}-{self.word}", changes={"steps": 20, **changes})

    def submit(self, client, text, status=201):
        answer = client.post("/api/v1/jobs", {"spec_toml": text})
        self.assertEqual(answer.status, status, str(answer))
        return answer.json["job"] if status == 201 else answer.json["error"]

    def wait_for_end(self, client, job):
        return wait_until("the end of the job", lambda: (
            lambda d: d if d["state"] in OVER else None)(client.get(job_path(job)).json))


class Access(Http):
    def test_every_request_with_every_role(self):
        tokens = {role: self.add_token(f"the-{role}", role) for role in ROLES}
        self.start_head()
        description = self.client().get("/api/v1/openapi.json").json
        bodies = {"/api/v1/claims/{claim}": {"type": self.fast, "count": 1},
                  "/api/v1/devices/clear": {"node": "head", "type": self.fast, "index": 0}}
        tried = 0
        for path, methods in description["paths"].items():
            for method, operation in methods.items():
                if method == "parameters":
                    continue
                where = re.sub(r"{(\w+)}", "none", path.replace("{job}", "absent").replace(
                    "{file}", "style.css"))
                match = re.fullmatch(r"Needs the role (\w+)\.", operation["description"])
                if path == "/api/v1/shutdown":
                    continue  # The last test of this file ends its head.
                body = bodies.get(path, {}) if method in ("post", "put") else None
                if match is None:
                    self.assertEqual(self.client().ask(method.upper(), where, body).status, 200)
                    continue
                for token in ("", "wrong", tokens["view"][:-1]):
                    answer = self.client(token).ask(method.upper(), where, body)
                    self.assertEqual(answer.status, 401, f"{method} {path}: {answer}")
                    self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
                needed = ROLES.index(match.group(1))
                for number, role in enumerate(ROLES):
                    answer = self.client(tokens[role]).ask(method.upper(), where, body)
                    with self.subTest(method=method, path=path, role=role):
                        if number < needed:
                            self.assertEqual(answer.status, 403, str(answer))
                            self.assertIn(match.group(1), answer.json["error"])
                        else:
                            self.assertNotIn(answer.status, (401, 403, 405, 500, 503), str(answer))
                    tried += 1
        self.assertGreater(tried, 60)

    def test_a_tenant_sees_and_changes_only_its_own_jobs(self):
        ours = self.add_token("ours", "submit", "vision")
        theirs = self.add_token("theirs", "submit", "speech")
        boss = self.add_token("boss", "view")
        self.start_head()
        us, them, all_of_them = self.client(ours), self.client(theirs), self.client(boss)
        job = self.submit(us, self.job("own", steps=ENDLESS))
        self.assertEqual(us.get(job_path(job)).json["tenant"], "vision")
        for rest in ("", "/log", "/curve", "/ledger", "/plans", "/events"):
            self.assertEqual(them.get(job_path(job, rest)).status, 404, rest)
        for action in ("pause", "resume", "cancel", "scale", "budget", "checkpoint"):
            self.assertEqual(them.post(job_path(job, f"/{action}")).status, 404, action)
        self.assertEqual(them.ask("DELETE", job_path(job)).status, 404)
        self.assertEqual(them.get("/api/v1/jobs").json["total"], 0)
        for path in ("/metrics", "/api/v1/nodes", "/api/v1/claims"):
            self.assertNotIn(job, them.get(path).text, path)
        wait_until("a device of the job", lambda: job in us.get("/api/v1/nodes").text)
        self.assertNotIn(job, them.get("/api/v1/nodes").text)
        self.assertEqual(all_of_them.get("/api/v1/jobs").json["jobs"][0]["job"], job)
        # The same request id of two tenants makes two jobs.
        request = {"spec_toml": self.job("same"), "request_id": "1"}
        first, again, other = (c.post("/api/v1/jobs", request).json["job"] for c in (us, us, them))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        text = self.job("foreign", **{"resources.tenant": "speech"})
        self.assertIn("vision", self.submit(us, text, status=409))
        self.assertEqual(us.post(job_path(job, "/cancel")).status, 200)
        self.assertEqual(self.wait_for_end(us, job)["state"], "cancelled")

    def test_tokens_come_and_go_while_the_head_runs(self):
        self.add_token("first", "view")
        self.start_head()
        later = self.add_token("later", "view")
        wait_until("the new token", lambda: self.client(later).get("/api/v1/identity").status == 200)
        self.esctl("token", "revoke", "later", "--file", self.tokens_file)
        wait_until("the end of the token",
                   lambda: self.client(later).get("/api/v1/identity").status == 401)
        names = [t["name"] for t in self.esctl("token", "ls", "--file", self.tokens_file,
                                               "--json").json["tokens"]]
        self.assertEqual(names, ["first"])
        self.esctl("token", "revoke", "later", "--file", self.tokens_file, code=EXIT_NOT_FOUND)
        self.esctl("token", "add", "first", "--role", "view", "--file", self.tokens_file,
                   code=EXIT_REFUSED)
        self.esctl("token", "add", "x", "--role", "root", "--file", self.tokens_file,
                   code=EXIT_USAGE)
        self.assertEqual(self.tokens_file.stat().st_mode & 0o777, 0o600)

    def test_the_audit_log_has_who_what_from_where_and_the_result(self):
        token = self.add_token("alice", "submit")
        self.start_head()
        client = self.client(token)
        client.get("/api/v1/jobs")
        client.post(job_path("absent", "/cancel"))
        client.post("/api/v1/shutdown")
        lines = [json.loads(line) for line in
                 (self.directory / "head/state/audit.log").read_text().splitlines()]
        self.assertEqual([(l["who"], l["role"], l["from"], l["method"], l["path"], l["status"])
                          for l in lines],
                         [("alice", "submit", "127.0.0.1", "POST", "/api/v1/jobs/absent/cancel", 404),
                          ("alice", "submit", "127.0.0.1", "POST", "/api/v1/shutdown", 403)])

    def test_paths_are_confined_although_the_head_has_a_local_socket(self):
        token = self.add_token("alice", "submit")
        self.start_head()
        secret = self.directory / "secret"
        secret.write_text("a b c\n")
        text = self.job("paths", **{"data.kind": "idx", "data.path": str(secret)})
        error = self.submit(self.client(token), text, status=409)
        self.assertIn("--data-root", error)

    def test_without_tokens_only_this_machine_is_served(self):
        self.start_head(access=["--http-no-tokens"])
        client = self.client()
        self.assertEqual(client.get("/api/v1/identity").json["role"], "view")
        # A page of another site reaches this address under its own name.
        port = int(self.base.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: evil.example\r\n"
                        b"Connection: close\r\n\r\n")
            self.assertIn(b" 403 ", raw.makefile("rb").readline())
        # Nothing can be changed, and no job be made slower.
        for method, path in [("POST", "/api/v1/shutdown"), ("POST", "/api/v1/jobs"),
                             ("DELETE", job_path("absent")), ("PUT", "/api/v1/claims/a"),
                             ("GET", job_path("absent", "/trace"))]:
            answer = client.ask(method, path, {} if method in ("POST", "PUT") else None)
            self.assertEqual(answer.status, 403, f"{method} {path}: {answer}")
            self.assertIn("--http-no-tokens", answer.json["error"])

    def assert_foreign_pages_may_not_act(self, client):
        """`client` may operate the head."""
        for headers in [{"Origin": "http://evil.example"},
                        {"Origin": "http://evil.example", "Referer": "http://evil.example/",
                         "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
                        {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}]:
            for method, path in [("POST", "/api/v1/shutdown"), ("GET", "/api/v1/jobs"),
                                 ("POST", job_path("absent", "/cancel"))]:
                answer = client.ask(method, path, {} if method == "POST" else None, headers=headers)
                self.assertEqual(answer.status, 403, f"{headers} {path}: {answer}")
        # What a form can send; a body is not needed.
        for body in (b"spec_toml=x", b""):
            for kind in ("text/plain", "application/x-www-form-urlencoded"):
                answer = client.ask("POST", job_path("absent", "/cancel"), body, content_type=kind)
                self.assertEqual(answer.status, 415, str(answer))
        # A question whether a page of another site may send something.
        asked = client.ask("OPTIONS", "/api/v1/jobs", headers={
            "Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual(asked.status, 405)
        self.assertIsNone(asked.headers["Access-Control-Allow-Origin"])
        # The own page and programs act.
        own = {"Origin": self.base, "Sec-Fetch-Site": "same-origin"}
        for headers in (own, {"Origin": self.base}, {}):
            answer = client.post(job_path("absent", "/cancel"), headers=headers)
            self.assertEqual(answer.status, 404, str(answer))
        self.assertEqual(client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status, 200)

    def test_without_tokens_a_page_of_another_site_may_not_act(self):
        head = self.start_head(access=["--http-no-tokens=operate"])
        client = self.client()
        self.assertEqual(client.get("/api/v1/identity").json["role"], "operate")
        self.assert_foreign_pages_may_not_act(client)
        job = self.submit(client, self.job("open"))
        self.assertEqual(self.wait_for_end(client, job)["state"], "finished")
        # A client without a token does not end the head.
        self.assertEqual(client.post("/api/v1/shutdown").status, 403)
        self.assertIsNone(head.running.process.poll())

    def test_with_tokens_a_page_of_another_site_may_not_act(self):
        token = self.add_token("root", "operate")
        self.start_head()
        self.assert_foreign_pages_may_not_act(self.client(token))

    def test_head_is_get_without_a_body(self):
        token = self.add_token("alice", "submit")
        head = self.start_head()
        client = self.client(token)
        job = head.submit(self.write_job(self.job("head", steps=ENDLESS)))
        for path in ("/", "/metrics", "/api/v1/jobs", job_path(job), job_path(job, "/trace"),
                     job_path(job, "/events")):
            answer = client.ask("HEAD", path)
            self.assertEqual((answer.status, answer.body), (200, b""), path)
        self.assertEqual(client.ask("HEAD", job_path("absent")).status, 404)
        self.assertEqual(self.client().ask("HEAD", "/api/v1/jobs").status, 401)
        self.assertEqual(client.ask("HEAD", job_path(job, "/cancel")).status, 405)

    def test_options_that_would_open_the_head(self):
        state = ["--head", "--state", self.directory / "s", "--listen",
                 f"ipc://{self.directory}/s.sock"]
        for words, text in [
                (["--http", "0.0.0.0:0", "--http-no-tokens"], "loopback"),
                (["--http", "0.0.0.0:0"], "--http-cert"),
                (["--http", "localhost"], "ADDRESS:PORT"),
                (["--http", "127.0.0.1:99999"], "ADDRESS:PORT"),
                (["--http-tokens", "x"], "--http"),
                (["--http", "127.0.0.1:0", "--http-no-tokens=admin"], "view and operate"),
                (["--http", "127.0.0.1:0", "--http-cert", "x"], "--http-key")]:
            ended = self.start(harness.easyscaled_program, *state, *words).wait()
            self.assertEqual(ended.code, EXIT_USAGE, str(ended))
            self.assertIn(text, ended.err)
        ended = self.start(harness.easyscaled_program, *state, "--http", "127.0.0.1:0").wait()
        self.assertEqual(ended.code, EXIT_NOT_FOUND, str(ended))
        self.assertIn("esctl token add", ended.err)
        self.assertIn(str(self.directory / "s/tokens"), ended.err)
        self.assertNotIn("ready", ended.out)

    def test_files_that_other_users_may_read_or_change(self):
        state = self.directory / "s"
        token = self.esctl("token", "add", "me", "--role", "admin", "--state", state).out.strip()
        words = ["--head", "--state", state, "--listen", f"ipc://{self.directory}/k/head.sock",
                 "--devices", f"{self.fast}:1", "--http", "127.0.0.1:0"]
        certificate, key = self.directory / "cert.pem", self.directory / "key.pem"
        certificate.write_text("x")
        key.write_text("x")
        key.chmod(0o644)
        ended = self.start(harness.easyscaled_program, *words, "--http-cert", certificate,
                           "--http-key", key).wait()
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertIn(f"{key}: other users may read it; set mode 0600", ended.err)
        (state / "tokens").chmod(0o666)
        ended = self.start(harness.easyscaled_program, *words).wait()
        self.assertEqual(ended.code, EXIT_REFUSED, str(ended))
        self.assertIn("tokens: other users may change it", ended.err)
        (state / "tokens").chmod(0o600)
        # A directory is mended, which is said once.
        state.chmod(0o755)
        running = self.start(harness.easyscaled_program, *words)
        running.wait_for_line(f"{state}: other users could enter it; it has mode 0700 now")
        self.base = running.wait_for_line(r"serves (http://127\.0\.0\.1:\d+)").group(1)
        self.assertEqual(state.stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.client(token).get("/api/v1/identity").json["name"], "me")

    def test_the_first_commands_of_a_user(self):
        # There is no state directory yet, neither for the token nor for the head.
        token = self.esctl("token", "add", "me", "--role", "admin").out.strip()
        sockets = self.directory / "sockets"
        sockets.mkdir(mode=0o700)
        running = self.start(harness.easyscaled_program, "--head", "--http", "127.0.0.1:0",
                             "--listen", f"ipc://{sockets}/head.sock", "--devices",
                             f"{self.fast}:1")
        self.base = running.wait_for_line(r"serves (http://127\.0\.0\.1:\d+)").group(1)
        self.assertEqual(self.client(token).get("/api/v1/identity").json["name"], "me")

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl to make a certificate")
    def test_tls(self):
        certificate, key = self.directory / "cert.pem", self.directory / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        token = self.add_token("alice", "view")
        self.start_head("--http-cert", certificate, "--http-key", key, certificate=certificate)
        self.assertTrue(self.base.startswith("https"))
        client = self.client(token, certificate=str(certificate))
        self.assertEqual(client.get("/api/v1/jobs").json["total"], 0)


class Jobs(Http):
    def setUp(self):
        super().setUp()
        self.token = self.add_token("root", "admin")

    def test_a_job_by_http_has_the_bits_of_the_command_line(self):
        self.start_head()
        client = self.client(self.token)
        text = self.job("bits", eval_every=10)
        answer = client.post("/api/v1/jobs", {"spec_toml": text, "request_id": "once"})
        self.assertEqual(answer.status, 201, str(answer))
        job = answer.json["job"]
        self.assertEqual(answer.headers["Location"], f"/api/v1/jobs/{job}")
        again = client.post("/api/v1/jobs", {"spec_toml": text, "request_id": "once"})
        self.assertEqual(again.json["job"], job)
        done = self.wait_for_end(client, job)
        self.assertEqual((done["state"], done["steps"]), ("finished", 20))
        alone = self.run_job(self.write_job(text))
        self.assertEqual((done["params_digest"], done["state_digest"]),
                         (alone["params_digest"], alone["state_digest"]))
        curve = client.get(job_path(job, "/curve")).json
        self.assertEqual([p[0] for p in curve["points"]], list(range(1, 21)))
        ledger = client.get(job_path(job, "/ledger?begin=5&end=8")).json
        self.assertEqual([line["version"] for line in ledger["lines"]], [5, 6, 7])
        for line in ledger["lines"]:
            mean = sum(line["losses"]) / len(line["losses"])
            self.assertAlmostEqual(curve["points"][line["version"] - 1][2], mean, places=12)
        self.assertIn("evaluation of version 10", client.get(job_path(job, "/log")).text)
        listed = client.get(f"/api/v1/jobs?state=finished&search=bits&limit=5").json
        self.assertEqual([j["job"] for j in listed["jobs"]], [job])

    def test_the_log_of_one_worker_is_read_through_the_head(self):
        self.start_head()
        client = self.client(self.token)
        one, two = (self.submit(client, self.job(name, steps=ENDLESS)) for name in ("one", "two"))
        # The second job has its worker when the first one has given up a device.
        other, mine = (wait_until("a worker", lambda job=job: client.get(
            job_path(job)).json["workers"])[0] for job in (two, one))
        worker, node = mine["incarnation"], mine["node"]
        lines = wait_until("lines", lambda: client.get(
            job_path(one, f"/log?worker={worker}")).text).splitlines()
        for line in lines:
            self.assertRegex(line, f"^[0-9T:.-]+Z [a-z]+ +worker {worker} job {one} ")
        self.assertEqual(client.get(job_path(one, f"/log?worker={worker}&grep=nothing")).text, "")
        first = client.get(job_path(one, f"/log?worker={worker}"))
        begin = first.headers["Log-End"]
        self.assertEqual((first.headers["Log-Complete"], int(begin)), ("false", len(first.text)))
        self.assertEqual(client.get(job_path(one, f"/log?worker={worker}&begin={begin}")).text, "")
        # The logs of other jobs, also of the same tenant, are read by their own paths.
        foreign = client.get(job_path(one, f"/log?worker={other['incarnation']}&node={node}"))
        self.assertEqual(foreign.status, 404)
        self.assertIn(f"the node {node} has no log of such a worker of this job", foreign.json["error"])
        self.assertEqual(client.get(job_path(one, f"/log?worker={worker}&node=away")).status, 404)
        client.post(job_path(one, "/cancel"))
        self.wait_for_end(client, one)
        wait_until("no worker", lambda: not client.get(job_path(one)).json["workers"])
        ended = client.get(job_path(one, f"/log?worker={worker}"))
        self.assertEqual(ended.status, 400)
        self.assertIn("name its node (node=NAME)", ended.json["error"])
        kept = client.get(job_path(one, f"/log?worker={worker}&node={node}")).text.splitlines()
        self.assertEqual(kept[:len(lines)], lines)

    def test_a_job_that_is_over_is_removed(self):
        head = self.start_head()
        client = self.client(self.token)
        job = self.submit(client, self.job("gone", steps=ENDLESS))
        refused = client.ask("DELETE", job_path(job))
        self.assertEqual(refused.status, 409, str(refused))
        self.assertIn("allowed is a job that is over", refused.json["error"])
        wait_until("a step", lambda: client.get(job_path(job)).json["steps"] > 0)
        kept = client.post(job_path(job, "/checkpoint")).json["path"]
        client.post(job_path(job, "/cancel"))
        log = self.directory / f"head/state/logs/{job}.log"
        self.assertTrue(log.exists())
        removed = client.ask("DELETE", job_path(job))
        self.assertEqual(removed.status, 200, str(removed))
        # Its checkpoint stays, and is named.
        self.assertIn(kept, removed.json["note"])
        self.assertTrue(os.path.isdir(kept))
        self.assertFalse(log.exists())
        for rest in ("", "/log", "/ledger", "/curve", "/events"):
            self.assertEqual(client.get(job_path(job, rest)).status, 404, rest)
        self.assertEqual(client.get("/api/v1/jobs").json["total"], 0)
        # By the command line, several at once; what cannot be removed is named.
        jobs = [self.submit(client, self.job(f"short{number}")) for number in range(2)]
        for short in jobs:
            self.wait_for_end(client, short)
        ended = head.esctl("rm", jobs[0], "absent", jobs[1], code=EXIT_NOT_FOUND)
        self.assertIn("absent", ended.err)
        self.assertEqual(head.json("ps", "--all")["jobs"], [])

    def test_actions_and_events(self):
        self.start_head()
        client = self.client(self.token)
        job = self.submit(client, self.job("acts", steps=ENDLESS))
        seen, states, ended = [], set(), threading.Event()

        def follow():
            for name, data in client.events(job_path(job, "/events")):
                seen.append(name)
                if name == "job":
                    states.add(data["state"])
            ended.set()

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        wait_until("steps", lambda: client.get(job_path(job)).json["steps"] > 3)
        self.assertEqual(client.post(job_path(job, "/scale"), {"devices": f"{self.fast}:2"}).status,
                         200)
        wait_until("two devices",
                   lambda: client.get(job_path(job)).json["placement"] == f"{self.fast}:2")
        taken = client.post(job_path(job, "/checkpoint"))
        self.assertEqual(taken.status, 200, str(taken))
        self.assertEqual(client.post(job_path(job, "/pause")).status, 200)
        self.assertEqual(client.get(job_path(job)).json["state"], "paused")
        self.assertEqual(client.post(job_path(job, "/resume")).status, 200)
        wait_until("running again", lambda: client.get(job_path(job)).json["state"] == "running")
        self.assertEqual(client.get(job_path(job, "/plans")).status, 200)
        self.assertEqual(client.post(job_path(job, "/cancel")).status, 200)
        self.assertTrue(ended.wait(harness.DEADLINE_S))
        self.assertEqual(seen[-1], "end")
        self.assertIn("log", seen)
        self.assertLessEqual({"running", "paused", "cancelled"}, states)
        again = client.post(job_path(job, "/cancel"))
        self.assertEqual(again.status, 409, str(again))

    def test_claims_and_nodes(self):
        self.start_head()
        client = self.client(self.token)
        self.assertEqual(client.ask("PUT", "/api/v1/claims/serving",
                                    {"type": self.fast, "count": 1}).status, 200)
        claim = client.get("/api/v1/claims").json["claims"][0]
        self.assertEqual((claim["claim"], claim["type"], claim["count"]), ("serving", self.fast, 1))
        self.assertEqual(client.ask("DELETE", "/api/v1/claims/serving").status, 200)
        self.assertEqual(client.get("/api/v1/claims").json["claims"], [])
        self.assertEqual(client.ask("PUT", "/api/v1/claims/night",
                                    {"type": self.fast, "count": 1, "from": "2036-11-26T20:00",
                                     "until": "2036-11-27T06:00"}).status, 200)
        claim = client.get("/api/v1/claims").json["claims"][0]
        self.assertEqual((claim["from"], claim["until"], claim["begun"], claim["devices"]),
                         ("2036-11-26T20:00:00.000Z", "2036-11-27T06:00:00.000Z", False, 0))
        self.assertEqual(client.ask("DELETE", "/api/v1/claims/night").status, 200)
        answer = client.ask("PUT", "/api/v1/claims/night", {"type": self.fast, "count": 1,
                                                            "until": "soon"})
        self.assertEqual(answer.status, 400)
        self.assertIn("until = \"soon\": allowed is a time in UTC", answer.json["error"])
        node = client.get("/api/v1/nodes").json["nodes"][0]
        self.assertEqual(len(node["devices"]), 2)
        self.assertEqual((node["rack"], node["spot"], node["gone"]), (None, False, None))
        path = f"/api/v1/nodes/{node['name']}/drain"
        self.assertEqual(client.post(path, {}).status, 200)
        self.assertTrue(client.get("/api/v1/nodes").json["nodes"][0]["draining"])
        self.assertEqual(client.post(path, {"cancel": True}).status, 200)
        self.assertEqual(client.post(path, {"cancel": True}).status, 409)
        self.assertFalse(client.get("/api/v1/nodes").json["nodes"][0]["draining"])

    def test_the_page_and_the_description_name_all_states_of_jobs(self):
        self.start_head()
        client = self.client(self.token)
        answer = client.get("/api/v1/jobs?state=none")
        states = answer.json["error"].partition("allowed are ")[2].split(", ")
        self.assertEqual(states[0], "live")
        described = []

        def find(value):
            if isinstance(value, dict) and "queued" in value.get("enum", []):
                described.append(value["enum"])
            for part in value.values() if isinstance(value, dict) else \
                    value if isinstance(value, list) else []:
                find(part)

        find(client.get("/api/v1/openapi.json").json)
        self.assertEqual(described, [["", *states], states[1:], states[1:]])
        page = client.get("/web/jobs.js").text
        shown = re.search(r'\["", ("queued"[^]]*)\]', page).group(1)
        self.assertEqual(re.findall(r'"([^"]*)"', shown), states[1:])

    def test_bad_requests_name_what_is_allowed(self):
        self.start_head()
        client = self.client(self.token)
        for method, path, body, status, text in [
                ("GET", "/api/v1/nothing", None, 404, "no such path"),
                ("DELETE", "/api/v1/jobs", None, 405, "GET, HEAD, POST"),
                ("GET", "/api/v1/jobs?limit=-1", None, 400, "limit"),
                ("GET", "/api/v1/jobs?limit=1001", None, 400, "1000"),
                ("GET", "/api/v1/jobs?sort=up", None, 400, "sort"),
                ("GET", "/api/v1/jobs?state=runing", None, 400, "live, queued, starting, running"),
                ("POST", "/api/v1/jobs", b"{", 400, "JSON"),
                ("POST", "/api/v1/jobs", b"[1]", 400, "object"),
                ("POST", "/api/v1/jobs", {"spec": "x"}, 400, "spec_toml"),
                ("POST", "/api/v1/jobs", {"spec_toml": 3}, 400, "spec_toml"),
                ("POST", "/api/v1/jobs", {"spec_toml": "max_p = 0"}, 400, "max_p"),
                ("PUT", "/api/v1/claims/a%20b", {"type": self.fast, "count": 1}, 400, "claim"),
                ("PUT", "/api/v1/claims/a", {"type": self.fast, "count": -1}, 400, "count"),
                ("GET", job_path("absent"), None, 404, "absent"),
                ("GET", "/api/v1/jobs/%01%ff", None, 400, "control characters")]:
            with self.subTest(method=method, path=path, body=body):
                answer = client.ask(method, path, body)
                self.assertEqual(answer.status, status, str(answer))
                self.assertIn(text, answer.json["error"])
        big = client.post("/api/v1/jobs", {"spec_toml": "x" * (5 << 20)})
        self.assertEqual(big.status, 413)
        self.assertEqual(client.get("/api/v1/jobs").status, 200)

    def test_many_clients_that_go_away(self):
        head = self.start_head()
        client = self.client(self.token)
        job = self.submit(client, self.job("crowd", steps=ENDLESS))
        port = int(self.base.rpartition(":")[2])
        words = f"GET {job_path(job, '/events')} HTTP/1.1\r\nHost: x\r\n" \
                f"Authorization: Bearer {self.token}\r\n\r\n".encode()
        streams = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for stream in streams:
            stream.sendall(words)
        for stream in streams:
            self.assertIn(b" 200 ", stream.makefile("rb").readline())
            stream.close()
        self.assertEqual(client.get(job_path(job)).status, 200)
        # A head with open streams ends.
        rest = socket.create_connection(("127.0.0.1", port))
        rest.sendall(words)
        self.assertIn(b" 200 ", rest.makefile("rb").readline())
        self.assertEqual(client.post("/api/v1/shutdown").status, 200)
        self.assertEqual(head.running.wait().code, 0)
        rest.close()


class Metrics(Http):
    def test_metrics_follow_a_job(self):
        token = self.add_token("prometheus", "view")
        head = self.start_head()
        client = self.client(token)
        path = self.write_job(self.job("metrics", steps=ENDLESS))
        job = head.submit(path, "--stages", f"{self.fast}:2@{ENDLESS}")  # They never change.
        head.wait_for(job, "five steps", lambda d: d["steps"] >= 5)
        answer = client.get("/metrics")
        self.assertIn("version=0.0.4", answer.headers["Content-Type"])
        values = dict(re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", answer.text, re.MULTILINE))
        self.assertGreaterEqual(
            float(values[f'easyscale_job_steps_total{{job_id="{job}",tenant=""}}']), 5)
        self.assertEqual(float(values['easyscale_jobs{state="running"}']), 1)
        self.assertGreaterEqual(float(
            values[f'easyscale_devices{{type="{self.fast}",state="busy"}}']), 1)
        self.assertGreater(float(values["process_resident_memory_bytes"]), 1e6)
        head.esctl("cancel", job)
        wait_until("no series of a job that is over", lambda: job not in client.get("/metrics").text)

    def test_pauses_checkpoints_and_bytes_of_a_job(self):
        token = self.add_token("root", "admin")
        head = self.start_head()
        client = self.client(token)
        job = head.submit(self.write_job(self.job("history", steps=ENDLESS)), "--stages",
                          f"{self.fast}:2@{ENDLESS}")
        before = head.wait_for(job, "two processes", lambda d: d["steps"] >= 5
                               and len(d["workers"]) == 2 and all(w["pid"] for w in d["workers"]))

        def value(name, **labels):
            for line in client.get("/metrics").text.splitlines():
                if line.startswith(name + "{") and all(
                        f'{key}="{text}"' in line for key, text in {**labels, "job_id": job}.items()):
                    return float(line.split()[-1])
            return 0.0

        self.assertEqual(value("easyscale_job_recoveries_total"), 0)
        os.kill(before["workers"][0]["pid"], signal.SIGKILL)
        wait_until("a recovery", lambda: value("easyscale_job_recoveries_total") >= 1,
                   state=lambda: client.get("/metrics").text)
        self.assertGreaterEqual(value("easyscale_job_pauses_total", cause="worker_lost"), 1)
        self.assertGreater(value("easyscale_job_pause_seconds_total", cause="worker_lost"), 0)
        self.assertGreaterEqual(value("easyscale_job_retries_total", what="step"), 1)
        wait_until("bytes", lambda: value("easyscale_job_exchanged_bytes_total",
                                          path="shared_memory") > 0)
        self.assertEqual(value("easyscale_job_exchanged_bytes_total", path="gpu_channel"), 0)
        head.esctl("checkpoint", job, "--to", self.directory / "kept")
        # The list of jobs behind the metrics may be 0.3 s old.
        wait_until("a checkpoint", lambda: value("easyscale_job_checkpoints_total") == 1)
        self.assertGreater(value("easyscale_job_checkpoint_seconds_total"), 0)
        # This path is no directory.
        (self.directory / "file").write_text("x")
        head.esctl("checkpoint", job, "--to", self.directory / "file" / "x",
                   code=EXIT_NOT_FOUND)
        wait_until("a failure", lambda: value("easyscale_job_checkpoint_failures_total") == 1)
        self.assertGreater(int(re.search(r"easyscale_decision_duration_seconds_count (\d+)",
                                         client.get("/metrics").text).group(1)), 0)
        timeline = client.get(job_path(job, "/timeline")).json
        self.assertEqual(timeline["spans"][0]["cause"], None)
        self.assertEqual(timeline["spans"][1]["cause"], "worker_lost")
        self.assertEqual([len(span["devices"]) for span in timeline["spans"][:1]], [2])
        self.assertGreater(timeline["progress"][-1][1], 5)
        self.assertGreaterEqual(timeline["recoveries"], 1)
        self.assertEqual(timeline["checkpoints"]["written"], 1)
        wait_until("the utilisation", lambda: client.get("/api/v1/cluster").json["utilisation"])
        head.esctl("cancel", job)
        # What is known of the job outlives it.
        wait_until("the end", lambda: client.get(job_path(job)).json["state"] == "cancelled")
        self.assertGreaterEqual(
            client.get(job_path(job, "/timeline")).json["recoveries"], 1)

    def start_node(self, head, tokens=()):
        """A node with an endpoint for metrics; its address. Its tokens are beside its run directory,
        unless it is told otherwise."""
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.fast}:1", "--run-dir", self.directory / "n2",
                          "--http", "127.0.0.1:0", *tokens)
        found = node.wait_for_line(r"serves http://127\.0\.0\.1:(\d+)")
        node.wait_for_line("^ready ", stream="out")
        return f"127.0.0.1:{found.group(1)}"

    def test_a_node_has_metrics_and_nothing_else(self):
        token = self.add_token("prometheus", "view")
        head = self.start_head()
        address = self.start_node(head)
        node = HttpClient(f"http://{address}", token)
        job = head.submit(self.write_job(self.job("spread", steps=ENDLESS)), "--stages",
                          f"{self.fast}:3@{ENDLESS}")
        head.wait_for_step(job, 3)
        values = dict(re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", node.get("/metrics").text,
                                 re.MULTILINE))
        self.assertEqual(float(values["easyscale_node_workers"]), 1)
        self.assertGreater(float(values["easyscale_node_workers_resident_memory_bytes"]), 1e6)
        self.assertGreater(float(values['easyscale_messages_total{direction="received"}']), 0)
        self.assertGreater(float(values['easyscale_message_bytes_total{direction="sent"}']), 0)
        self.assertGreater(float(values["process_resident_memory_bytes"]), 1e6)
        self.assertNotIn(job, str(values))
        self.assertEqual(HttpClient(f"http://{address}").get("/metrics").status, 401)
        for path in ("/", "/api/v1/jobs", "/api/v1/openapi.json"):
            self.assertEqual(node.get(path).status, 404, path)
        self.assertEqual(node.post("/api/v1/shutdown").status, 404)
        text = self.client(token).get("/metrics").text
        name = f'easyscale_job_step_duration_seconds_count{{job_id="{job}",tenant=""}}'
        self.assertGreaterEqual(int(re.search(re.escape(name) + r" (\d+)", text).group(1)), 3)
        head.esctl("cancel", job)

    @unittest.skipUnless(shutil.which("promtool"), "needs promtool (Debian package prometheus)")
    def test_promtool_and_a_scrape_by_prometheus(self):
        token = self.add_token("prometheus", "view")
        head = self.start_head()
        node = self.start_node(head, ["--http-tokens", self.tokens_file])
        head.wait_for_step(head.submit(self.write_job(self.job("scraped", steps=ENDLESS))), 3)
        for client in (self.client(token), HttpClient(f"http://{node}", token)):
            checked = subprocess.run(["promtool", "check", "metrics"], capture_output=True,
                                     input=client.get("/metrics").body)
            self.assertEqual((checked.returncode, checked.stderr), (0, b""))
            served = client.get("/metrics", accept="application/openmetrics-text")
            self.assertTrue(served.headers["Content-Type"].startswith("application/openmetrics-text"))
            self.assertTrue(served.text.endswith("\n# EOF\n"))
        rules = harness.source_root / "configs/monitoring/easyscale.rules.yml"
        checked = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        port = harness.free_port()
        config = self.directory / "prometheus.yml"
        config.write_text(
            "scrape_configs:\n- job_name: easyscale\n  scrape_interval: 1s\n"
            f"  authorization: {{credentials: {token}}}\n  static_configs:\n"
            f"  - targets: ['{self.base.removeprefix('http://')}', '{node}']\n"
            f"rule_files: ['{rules}']\n")
        self.start("prometheus", f"--config.file={config}",
                   f"--storage.tsdb.path={self.directory}/tsdb",
                   f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")
        prometheus = HttpClient(f"http://127.0.0.1:{port}")

        def scraped(query):
            try:
                answer = prometheus.get(f"/api/v1/query?query={urllib.parse.quote(query)}")
            except OSError:
                return None  # It does not listen yet.
            found = answer.json.get("data", {}).get("result", []) if answer.status == 200 else []
            return found and float(found[0]["value"][1]) == 1

        wait_until("a scrape", lambda: scraped('easyscale_jobs{state="running"}'))
        wait_until("a scrape of the node", lambda: scraped(f'up{{instance="{node}"}}'))
        # Prometheus understands every question of the dashboard, and its metrics exist.
        served = self.client(token).get("/metrics").text
        dashboard = json.loads((harness.source_root / "configs/monitoring/grafana.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                asked = target["expr"].replace("$instance", ".*").replace("$tenant", ".*")
                answer = prometheus.get(f"/api/v1/query?query={urllib.parse.quote(asked)}")
                self.assertEqual(answer.status, 200, f"{asked}: {answer}")
                for name in re.findall(r"(?:easyscale|process)_[a-z_]+", asked):
                    family = re.sub(r"_(bucket|sum|count)$", "", name)
                    # A job without a pause has no series of them.
                    if "_pause" not in family:
                        self.assertIn(f"# TYPE {family} ", served, panel["title"])


if __name__ == "__main__":
    harness.main()
