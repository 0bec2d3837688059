#!/usr/bin/env python3
"""A cluster on a real control plane of Kubernetes (control_plane.py), whose pods a small kubelet runs
as processes (kubelet.py): helm installs the chart, jobs are objects, and every job ends with the bits
of a fixed run."""
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from control_plane import ApiError, ControlPlane, secret_files, skip_without_control_plane  # noqa: E402
from jobs import ANY_LENGTH, job_text  # noqa: E402
from kubelet import Kubelet, skip_without_containers  # noqa: E402
from lower import lower  # noqa: E402

HERE = Path(__file__).resolve().parent
ENDLESS = 1_000_000
SLOT = "easyscale.dev/slot"  # An extended resource; an agent needs one of them.
GROUP = "/apis/easyscale.dev/v1alpha1"


def camel(key):
    return re.sub(r"_(\w)", lambda found: found[1].upper(), key)


def job_object(name, toml, **spec):
    """The object of a job file."""
    table = {camel(key): {camel(k): v for k, v in value.items()} if isinstance(value, dict) else value
             for key, value in tomllib.loads(toml).items() if key != "name"}
    return {"apiVersion": "easyscale.dev/v1alpha1", "kind": "ElasticTrainingJob",
            "metadata": {"name": name}, "spec": {**table, **spec}}


class Kubernetes(harness.EndToEndTest):
    spaces = 0

    @classmethod
    def setUpClass(cls):
        skip_without_control_plane()
        skip_without_containers()
        cls.home = Path(tempfile.mkdtemp(prefix="kube-"))
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        cls.plane = ControlPlane(cls.home / "plane")
        cls.addClassCleanup(cls.plane.stop)
        environment = {name: value for name, value in os.environ.items()
                       if name in ("LD_LIBRARY_PATH", "LC_ALL")}
        if "ES_BREAK_BITS" in os.environ:
            environment.update(harness.one_flipped_bit(cls.home))
        cls.kubelet = Kubelet(
            cls.plane, cls.home / "kubelet", {"n0": {}, **{f"n{i}": {SLOT: "2"} for i in (1, 2, 3)}},
            [str(harness.esctl_program.parent), str(harness.easyscaled_program.parent)], environment)
        cls.addClassCleanup(cls.kubelet.stop)
        cls.chart = cls.home / "chart"
        cls.lowered = lower(harness.source_root / "configs/kubernetes", cls.chart)
        # helm installs them before anything else; here they must be there before the first watch.

    def setUp(self):
        super().setUp()
        self.environment.pop("ES_FAULT", None)  # Only a pod flips a bit; two flips would look equal.
        self.fast = self.fast_class()
        Kubernetes.spaces += 1
        self.space = f"test{Kubernetes.spaces}"
        self.plane.kubectl("create", "namespace", self.space)
        self.make_volumes()
        self.installed = False
        self.addCleanup(self.remove_all)

    def make_volume(self, name, claim, mode):
        """A volume for a claim, as a provisioner would make it."""
        place = self.home / f"{self.space}-{name}"
        place.mkdir(mode=0o700)
        self.plane.api.request("POST", "/api/v1/persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": f"{self.space}-{name}"},
            "spec": {"capacity": {"storage": "20Gi"}, "accessModes": [mode],
                     "hostPath": {"path": str(place)},
                     "claimRef": {"namespace": self.space, "name": claim}}})

    def make_volumes(self):
        self.make_volume("state", "state-easyscale-head-0", "ReadWriteOnce")
        self.make_volume("checkpoints", "checkpoints", "ReadWriteMany")
        self.plane.api.request(
            "POST", f"/api/v1/namespaces/{self.space}/persistentvolumeclaims",
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "checkpoints"},
             "spec": {"accessModes": ["ReadWriteMany"],
                      "resources": {"requests": {"storage": "20Gi"}}}})

    def remove_all(self):
        if self.installed:
            for job in self.plane.api.get(f"{GROUP}/namespaces/{self.space}/elastictrainingjobs")["items"]:
                self.plane.api.request("DELETE", self.job_path(job["metadata"]["name"]))
            self.wait("all jobs are deleted", lambda: not self.plane.api.get(
                f"{GROUP}/namespaces/{self.space}/elastictrainingjobs")["items"])
            self.plane.helm("uninstall", "es", "-n", self.space)
        self.plane.kubectl("delete", "namespace", self.space, "--wait=false")
        self.wait("no pod is left", lambda: not self.pods())

    def wait(self, what, probe):
        return harness.wait_until(what, probe, state=lambda: self.state())

    def state(self):
        objects = self.plane.kubectl("get", "pods,etj,esc,events", "-n", self.space, "-o", "wide",
                                     check=False)
        return f"{objects.stdout}{objects.stderr}\n{self.kubelet.logs()}"

    # --- the cluster

    def values(self, **changes):
        return {"image": "easyscale:test", "idleSeconds": 8,
                "checkpointClaim": "checkpoints",
                "agents": [{"name": "a", "devices": f"{self.fast}:1", "min": 0, "max": 3,
                            "graceSeconds": 25,
                            "resources": {"requests": {SLOT: "1"}, "limits": {SLOT: "1"}}}],
                **changes}

    def helm(self, command, **changes):
        path = self.directory / "values.json"
        path.write_text(json.dumps(self.values(**changes)))
        ended = self.plane.helm(command, "es", self.chart, "-n", self.space, "-f", path)
        self.installed = True
        return ended

    def pods(self, component=None):
        selector = f"?labelSelector=easyscale.dev/component={component}" if component else ""
        return {pod["metadata"]["name"]: pod for pod in self.plane.api.get(
            f"/api/v1/namespaces/{self.space}/pods{selector}")["items"]}

    def pid(self, pod):
        return self.kubelet.pid_of(pod, self.space)

    def controller(self):
        return next(iter(self.pods("controller")))

    def job_path(self, name):
        return f"{GROUP}/namespaces/{self.space}/elastictrainingjobs/{name}"

    def submit(self, name, toml, **spec):
        job = job_object(name, toml, **spec)
        self.plane.api.request("POST", f"{GROUP}/namespaces/{self.space}/elastictrainingjobs", job)

    def status(self, name):
        return self.plane.api.get(self.job_path(name)).get("status", {})

    def wait_for(self, name, what, holds):
        return self.wait(f"{name}: {what}", lambda: (
            lambda status: status if holds(status) else None)(self.status(name)))

    def condition(self, name, kind):
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), {})

    def scale(self, name, devices):
        self.plane.kubectl("scale", f"etj/{name}", f"--replicas={devices}", "-n", self.space)

    def head(self):
        """esctl with the keys of the cluster."""
        keys = self.directory / "client-keys"
        if not keys.exists():
            files = secret_files(self.plane.api.get(
                f"/api/v1/namespaces/{self.space}/secrets/easyscale-keys"))
            keys.mkdir(mode=0o700)
            for name in ("client.key", "server.pub"):
                (keys / name).touch(mode=0o600)
                (keys / name).write_bytes(files[name])
        pod = self.pods("head")["easyscale-head-0"]
        head = harness.Daemon.__new__(harness.Daemon)
        head.test, head.running = self, None
        head.endpoint = f"tcp://{pod['status']['podIP']}:7070"
        head.wire = ["--keys", str(keys)]
        return head

    def workers(self, agent):
        """The processes of an agent, as this machine sees them: its daemon and its workers."""
        daemon = self.pid(agent)
        found = {daemon}
        for pid in harness.command_lines():
            try:
                parent = int(re.search(r"PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
            except (OSError, TypeError):
                continue
            if parent == daemon:
                found.add(pid)
        return found

    def endless(self):
        return job_text(self.word, "resnet18",
                        changes={"steps": ENDLESS, "batch_size": 24, "max_p": 4, **ANY_LENGTH})

    def assert_bits(self, name, toml):
        """A checkpoint of the job has the bits of a fixed run of the same length."""
        taken = self.head().json("checkpoint", self.status(name)["job"])
        self.assert_bits_of_fixed_run(self.write_job(toml), taken, self.fast)

    # --- cases

    def test_applied_job_ends_with_the_bits_of_a_fixed_run(self):
        self.helm("install")
        toml = job_text(self.word)
        self.submit("first", toml, devices=2)
        ended = self.wait_for("first", "finished", lambda s: s.get("phase") == "Finished")
        fixed = self.run_job(self.write_job(toml), "--devices", f"{self.fast}:1")
        self.assertEqual(ended["digest"], fixed["params_digest"])
        self.assertEqual(ended["step"], 60)
        self.assertEqual(self.condition("first", "Accepted")["status"], "True")
        self.assertEqual(self.condition("first", "Complete")["status"], "True")
        lines = self.plane.kubectl("get", "etj", "-n", self.space).splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "PHASE", "DEVICES", "STEP", "LOSS", "AGE"])
        self.assertEqual(lines[1].split()[:4], ["first", "Finished", "0", "60"])
        self.wait("idle agents are given back", lambda: not self.pods("agent"))

    def test_scale_suspend_resume_delete(self):
        self.helm("install")
        toml = self.endless()
        self.submit("long", toml, devices=1)
        self.wait_for("long", "trains", lambda s: s.get("devices") == 1 and s.get("step", 0) > 2)
        agent = next(iter(self.pods("agent")))
        before = self.workers(agent)
        self.assertEqual(len(before), 2, before)
        self.scale("long", 3)
        self.wait_for("long", "3 devices", lambda s: s.get("devices") == 3)
        self.assertEqual(self.workers(agent), before, "an agent that stays was restarted")
        self.assertEqual(len(self.pods("agent")), 3)
        self.scale("long", 2)
        self.wait_for("long", "2 devices", lambda s: s.get("devices") == 2)
        self.wait("the idle agent is given back", lambda: len(self.pods("agent")) == 2)
        stays = {name: self.workers(name) for name in self.pods("agent")}
        step = self.status("long")["step"]
        self.wait_for("long", "trains on", lambda s: s["step"] > step + 2)
        self.assertEqual({name: self.workers(name) for name in self.pods("agent")}, stays)
        self.assert_bits("long", toml)

        self.plane.api.merge(self.job_path("long"), {"spec": {"suspend": True}})
        self.wait_for("long", "paused", lambda s: s["phase"] == "Paused" and s["devices"] == 0)
        self.wait("all agents are given back", lambda: not self.pods("agent"))
        step = self.status("long")["step"]
        self.plane.api.merge(self.job_path("long"), {"spec": {"suspend": False}})
        self.wait_for("long", "trains again",
                      lambda s: s.get("devices") == 2 and s["step"] > step + 2)
        self.assert_bits("long", toml)

        job = self.status("long")["job"]
        self.plane.kubectl("delete", "etj/long", "-n", self.space)  # Waits for the finalizer.
        self.assertEqual(self.head().describe(job)["state"], "cancelled")
        self.assertTrue(all(not device["job"] for node in self.head().json("nodes")["nodes"]
                            for device in node["devices"]))

    def test_refusals_are_conditions(self):
        self.helm("install")
        self.submit("bad", job_text(self.word, changes={"model.name": "no_such_model"}))
        self.wait_for("bad", "refused", lambda s: s.get("phase") == "Refused")
        accepted = self.condition("bad", "Accepted")
        self.assertEqual((accepted["status"], accepted["reason"]), ("False", "Refused"))
        self.assertIn("no_such_model", accepted["message"])
        with self.assertRaisesRegex(ApiError, "less than or equal to 1024"):
            self.submit("worse", job_text(self.word, changes={"max_p": 2000}))
        self.wait("an event says so", lambda: "no_such_model" in self.plane.kubectl(
            "get", "events", "-n", self.space))

    def test_controller_is_killed_and_another_one_takes_over(self):
        self.helm("install", controller={"replicas": 2})
        toml = self.endless()
        self.submit("long", toml, devices=1)
        self.wait_for("long", "trains", lambda s: s.get("devices") == 1 and s.get("step", 0) > 2)
        agent = next(iter(self.pods("agent")))
        before = self.workers(agent)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{self.space}/leases/easyscale-controller"
        holder = self.plane.api.get(lease)["spec"]["holderIdentity"].split(".")[0]
        acting = [name for name in self.pods("controller")
                  if "this controller acts now" in self.kubelet.log_of(name)]
        self.assertEqual(acting, [holder], "two controllers act at once")
        os.kill(self.pid(holder), signal.SIGKILL)
        self.scale("long", 2)
        self.wait_for("long", "2 devices", lambda s: s.get("devices") == 2)
        now = self.plane.api.get(lease)["spec"]
        self.assertNotEqual(now["holderIdentity"].split(".")[0], "")
        self.assertEqual(now["leaseTransitions"], 1)
        self.assertEqual(self.workers(agent), before)
        self.assert_bits("long", toml)

    def test_controller_ended_before_it_wrote_the_id_of_a_job_that_is_deleted(self):
        self.helm("install")
        self.submit("long", self.endless(), devices=1)
        self.wait_for("long", "trains", lambda s: s.get("devices") == 1 and s.get("step", 0) > 2)
        job, controller = self.status("long")["job"], self.pid(self.controller())
        # What a controller leaves that ends between the submission and the status.
        os.kill(controller, signal.SIGSTOP)
        self.plane.api.request("PATCH", self.job_path("long") + "/status", {"status": None},
                               "application/merge-patch+json")
        self.plane.kubectl("delete", "etj/long", "-n", self.space, "--wait=false")
        os.kill(controller, signal.SIGKILL)
        self.wait("the object is gone", lambda: not self.plane.api.get(
            f"{GROUP}/namespaces/{self.space}/elastictrainingjobs")["items"])
        self.assertEqual(self.head().describe(job)["state"], "cancelled")

    def test_jobs_train_on_while_the_api_server_is_away(self):
        self.helm("install")
        toml = self.endless()
        self.submit("long", toml, devices=1)
        status = self.wait_for("long", "trains",
                               lambda s: s.get("devices") == 1 and s.get("step", 0) > 2)
        head, controller = self.head(), self.controller()
        pid, before = self.pid(controller), self.workers(next(iter(self.pods("agent"))))
        lists = self.kubelet.log_of(controller).count("were listed")
        # Without the memory of its server, and with the history cut, the versions of the watches are
        # too old afterwards.
        os.kill(pid, signal.SIGSTOP)
        for number in range(20):
            self.plane.api.merge(self.job_path("long"),
                                 {"metadata": {"annotations": {"number": str(number)}}})
        self.plane.end("kube-apiserver", signal.SIGKILL)
        self.plane.compact()
        os.kill(pid, signal.SIGCONT)
        step = head.describe(status["job"])["steps"]
        head.wait_for_step(status["job"], step + 5)
        self.plane.start_api_server()
        self.scale("long", 2)
        self.wait_for("long", "2 devices", lambda s: s.get("devices") == 2)
        self.assertEqual(self.pid(controller), pid)
        self.assertGreater(self.kubelet.log_of(controller).count("were listed"), lists)
        agents = set().union(*(self.workers(name) for name in self.pods("agent")))
        self.assertLessEqual(before, agents, "an agent that stays was restarted")
        self.assert_bits("long", toml)

    def test_node_is_lost(self):
        self.helm("install",
                  head={"template": {"nodeSelector": {"kubernetes.io/hostname": "n0"}}})
        toml = self.endless()
        self.submit("long", toml, devices=3)
        self.wait_for("long", "trains", lambda s: s.get("devices") == 3 and s.get("step", 0) > 2)
        agents = self.pods("agent")
        controller_node = self.pods("controller")[self.controller()]["spec"]["nodeName"]
        # Three agents are on two nodes at least.
        lost = next(pod["spec"]["nodeName"] for pod in agents.values()
                    if pod["spec"]["nodeName"] != controller_node)
        gone = {name for name, pod in agents.items() if pod["spec"]["nodeName"] == lost}
        stays = {name: self.workers(name) for name in agents if name not in gone}
        self.kubelet.lose(lost)
        self.addCleanup(self.kubelet.find_again, lost)
        self.wait("its pods are being deleted and stay", lambda: all(
            pod["metadata"].get("deletionTimestamp")
            for name, pod in self.pods("agent").items() if name in gone))
        self.wait("others take their place", lambda: len(set(self.pods("agent")) - gone) == 3)
        self.assertLessEqual(gone, set(self.pods("agent")), "pods of a lost node were given up")
        self.wait_for("long", "3 devices again", lambda s: s.get("devices") == 3)
        self.assertEqual({name: self.workers(name) for name in stays}, stays)
        self.assert_bits("long", toml)
        self.kubelet.find_again(lost)

    def test_eviction_under_a_budget(self):
        self.helm("install", minAvailableAgents=2)
        toml = self.endless()
        self.submit("long", toml, devices=2)
        self.wait_for("long", "trains", lambda s: s.get("devices") == 2 and s.get("step", 0) > 2)
        first, second = sorted(self.pods("agent"))

        def evict():
            self.plane.api.request(
                "POST", f"/api/v1/namespaces/{self.space}/pods/{first}/eviction",
                {"apiVersion": "policy/v1beta1", "kind": "Eviction",
                 "metadata": {"name": first, "namespace": self.space}})
        budget = f"/apis/policy/v1beta1/namespaces/{self.space}/poddisruptionbudgets/easyscale-agents"
        self.wait("the budget is known",
                  lambda: self.plane.api.get(budget).get("status", {}).get("currentHealthy") == 2)
        with self.assertRaisesRegex(ApiError, "disruption budget"):
            evict()
        stays, leaves = self.workers(second), self.workers(first)
        self.helm("upgrade", minAvailableAgents=1)
        self.wait("the budget is known", lambda: self.plane.api.get(budget)
                  .get("status", {}).get("disruptionsAllowed") == 1)
        evict()
        self.wait("the agent has ended",
                  lambda: not any(Path(f"/proc/{pid}").exists() for pid in leaves))
        self.wait_for("long", "2 devices again", lambda s: s.get("devices") == 2)
        self.assertEqual(self.workers(second), stays)
        log = self.head().esctl("logs", self.status("long")["job"]).out
        self.assertNotIn("exited", log, "the worker was not handed over")
        self.assert_bits("long", toml)

    def test_chart_and_rights(self):
        self.assertEqual(set(self.lowered), {"definitions.yaml", "budget.yaml"})
        self.assertEqual(self.lowered["budget.yaml"], ["apiVersion: policy/v1"])
        rules = self.lowered["definitions.yaml"]
        self.assertEqual(rules[0], "x-kubernetes-validations:")
        for line in rules[1:]:
            self.assertRegex(line, r'^(-|rule: ".*"|message: ".*")$')
        self.plane.helm("lint", self.chart)
        bad = self.plane.helm("template", "es", self.chart, "--set", "idleSeconds=many", check=False)
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn("idleSeconds", bad.stderr)
        self.helm("install")
        rights = self.plane.kubectl(
            "auth", "can-i", "--list", "-n", self.space,
            f"--as=system:serviceaccount:{self.space}:easyscale-controller")
        listed = sorted(re.sub(r"\s+", " ", line).strip() for line in rights.splitlines()[1:]
                        if "selfsubject" not in line and not line.startswith(" "))
        expected = (HERE / "rights.txt").read_text().splitlines()
        self.assertEqual(listed, expected, "rights.txt lists what the controller may do")
        self.wait("the head is ready", lambda: self.pid("easyscale-head-0"))
        head = self.pid("easyscale-head-0")
        self.helm("upgrade", idleSeconds=2)
        self.plane.helm("rollback", "es", "1", "-n", self.space)
        self.assertEqual(self.pid("easyscale-head-0"), head)
        self.plane.helm("uninstall", "es", "-n", self.space)
        self.wait("all pods are gone", lambda: not self.pods())
        self.plane.kubectl("get", "crd", "elastictrainingjobs.easyscale.dev")
        self.installed = False


if __name__ == "__main__":
    harness.main()
