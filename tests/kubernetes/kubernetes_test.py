#!/usr/bin/env python3
"""A cluster on a real control plane of Kubernetes (control_plane.py), whose pods a small kubelet runs
as processes (kubelet.py): helm installs the chart, jobs are objects, and every job ends with the bits
of a fixed run."""
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import urllib.request
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
OLD_IMAGE, NEW_IMAGE = "easyscale:test", "easyscale:new"
GROUP = "/apis/easyscale.dev/v1alpha1"


def camel(key):
    return re.sub(r"_(\w)", lambda found: found[1].upper(), key)


def job_object(name, toml, **spec):
    """The object of a job file."""
    table = {camel(key): {camel(k): v for k, v in value.items()} if isinstance(value, dict) else value
             for key, value in tomllib.loads(toml).items() if key != "name"}
    return {"apiVersion": "easyscale.dev/v1alpha1", "kind": "ElasticTrainingJob",
            "metadata": {"name": name}, "spec": {**table, **spec}}


def open_definition(group, version, kind, plural):
    """A custom resource that the machine of the tests lacks, with any content."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced",
                     "names": {"plural": plural, "kind": kind},
                     "versions": [{"name": version, "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": schema}}]}}


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
            {OLD_IMAGE: [str(harness.esctl_program.parent), str(harness.easyscaled_program.parent)]},
            environment)
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
        return {"image": OLD_IMAGE, "idleSeconds": 8,
                "checkpointClaim": "checkpoints",
                "agents": [self.group()], **changes}

    def group(self, **changes):
        return {"name": "a", "devices": f"{self.fast}:1", "min": 0, "max": 3, "graceSeconds": 25,
                "resources": {"requests": {SLOT: "1"}, "limits": {SLOT: "1"}}, **changes}

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

    def acting_controller(self):
        """The pod that has the Lease."""
        holder = self.plane.api.get(self.lease_path())["spec"]["holderIdentity"]
        return holder.rpartition(".")[0]

    def lease_path(self):
        return (f"/apis/coordination.k8s.io/v1/namespaces/{self.space}"
                "/leases/easyscale-controller")

    def start_training(self, devices, **spec):
        """The text of a job called `long` that trains without an end, when it has its devices."""
        toml = self.endless()
        self.submit("long", toml, devices=devices, **spec)
        self.wait_for("long", "trains",
                      lambda s: s.get("devices") == devices and s.get("step", 0) > 2)
        return toml

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

    @staticmethod
    def with_stages(toml, stages):
        return toml.replace("\nsteps = 60\n", f'\nstages = "{stages}"\n')

    def program(self, pod):
        """The program of a pod as this machine sees it; None: it does not run."""
        try:
            return Path(os.readlink(f"/proc/{self.pid(pod)}/exe"))
        except OSError:
            return None

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
        toml = self.start_training(1)
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

    def test_a_late_refusal_and_a_changed_field_are_conditions(self):
        self.helm("install", agents=[self.group(max=1)])
        toml = self.start_training(1)
        self.scale("long", 2)
        step = self.wait_for("long", "the head was asked", lambda s: s.get("demand", "").endswith(
            ":2") and self.condition("long", "Scaled").get("reason") == "Asked")["step"]
        # The head waits for a second device. Its answer comes when another request ends the wait.
        self.wait_for("long", "trains on", lambda s: s["step"] > step + 5)
        self.head().esctl("scale", self.status("long")["job"], f"{self.fast}:1")
        self.wait("the late answer is the condition", lambda: "a later scale request" in
                  self.condition("long", "Scaled").get("message", ""))
        self.assertEqual(self.condition("long", "Scaled")["status"], "False")
        self.scale("long", 1)
        self.wait("the condition ends",
                  lambda: self.condition("long", "Scaled")["status"] == "True")

        before = self.plane.api.get(self.job_path("long"))["spec"]
        self.plane.api.merge(self.job_path("long"),
                             {"spec": {"maxP": 3, "model": {"name": "small_cnn"}}})
        self.wait("the change is named",
                  lambda: self.condition("long", "Unchanged").get("status") == "False")
        message = self.condition("long", "Unchanged")["message"]
        self.assertIn("spec.maxP was 4 and is 3", message)
        self.assertIn('spec.model.name was "resnet18" and is "small_cnn"', message)
        self.wait("an event says so", lambda: "spec.maxP was 4 and is 3" in self.plane.kubectl(
            "get", "events", "-n", self.space))
        self.plane.api.merge(self.job_path("long"), {"spec": {
            "maxP": before["maxP"], "model": {"name": before["model"]["name"]}}})
        self.wait("it is put back",
                  lambda: self.condition("long", "Unchanged")["status"] == "True")
        self.assert_bits("long", toml)

    def test_more_than_there_is_waits_for_the_cluster_to_grow(self):
        self.helm("install", agents=[self.group(min=1)])
        cluster = f"{GROUP}/namespaces/{self.space}/easyscaleclusters/easyscale"
        self.wait("one agent has joined", lambda: self.plane.api.get(cluster).get(
            "status", {}).get("devices") == 1)
        toml = job_text(self.word)
        staged = self.with_stages(toml, f"{self.fast}:1@20,{self.fast}:2@40")
        fixed = self.run_job(self.write_job(toml), "--devices", f"{self.fast}:1")
        # One after the other: the devices that one asks for would be enough for the other.
        for name, text, spec in (("staged", staged, {}), ("many", toml, {"minDevices": 3})):
            self.submit(name, text, **spec)
            ended = self.wait_for(name, "finished", lambda s: s.get("phase") == "Finished")
            self.assertEqual(ended["digest"], fixed["params_digest"], name)
        self.assertEqual(self.head().describe(self.status("many")["job"])["stages"][0]["placement"],
                         f"{self.fast}:3")
        self.wait("idle agents are given back", lambda: len(self.pods("agent")) == 1)
        self.head().esctl("claim", "--type", self.fast, "--count", 3, "--name", "web")
        self.wait("the claim has its devices",
                  lambda: self.head().json("claims")["claims"][0]["devices"] == 3)
        self.head().esctl("release", "web")
        self.wait("they are given back", lambda: len(self.pods("agent")) == 1)

    def test_controller_is_killed_and_another_one_takes_over(self):
        self.helm("install", controller={"replicas": 2})
        toml = self.start_training(1)
        agent = next(iter(self.pods("agent")))
        before = self.workers(agent)
        holder = self.acting_controller()
        acting = [name for name in self.pods("controller")
                  if "this controller acts now" in self.kubelet.log_of(name)]
        self.assertEqual(acting, [holder], "two controllers act at once")
        os.kill(self.pid(holder), signal.SIGKILL)
        self.scale("long", 2)
        self.wait_for("long", "2 devices", lambda s: s.get("devices") == 2)
        now = self.plane.api.get(self.lease_path())["spec"]
        self.assertNotEqual(now["holderIdentity"].split(".")[0], "")
        self.assertEqual(now["leaseTransitions"], 1)
        self.assertEqual(self.workers(agent), before)
        self.assert_bits("long", toml)

    def test_of_two_controllers_a_frozen_one_does_not_act_any_more(self):
        self.helm("install", controller={"replicas": 2})
        toml = self.start_training(1)
        frozen = self.acting_controller()
        pid, before = self.pid(frozen), self.workers(next(iter(self.pods("agent"))))
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.scale("long", 2)
        self.wait_for("long", "2 devices", lambda s: s.get("devices") == 2)
        other = self.acting_controller()
        self.assertNotEqual(other, frozen)
        # It has the order for three devices before it can know that it does not act.
        self.scale("long", 3)
        os.kill(pid, signal.SIGCONT)
        self.wait("it sees that another one acts", lambda: "this controller does not act now"
                  in self.kubelet.log_of(frozen))
        self.wait_for("long", "3 devices", lambda s: s.get("devices") == 3)
        self.assertEqual(self.acting_controller(), other)
        self.assertEqual(self.plane.api.get(self.lease_path())["spec"]["leaseTransitions"], 1)
        self.assertEqual(self.kubelet.log_of(frozen).count("asks for the agent"), 1)
        self.assertEqual(self.kubelet.log_of(other).count("asks for the agent"), 2)
        self.assertEqual(len(self.pods("agent")), 3)
        self.assertLessEqual(before, set().union(*map(self.workers, self.pods("agent"))))
        self.assert_bits("long", toml)

    def test_controller_ended_before_it_wrote_the_id_of_a_job_that_is_deleted(self):
        self.helm("install")
        self.start_training(1)
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
        toml = self.start_training(1)
        status, head, controller = self.status("long"), self.head(), self.controller()
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

    def test_etcd_is_restarted_under_a_running_job(self):
        self.helm("install")
        toml = self.start_training(1)
        head, job = self.head(), self.status("long")["job"]
        controller = self.controller()
        pid, before = self.pid(controller), self.workers(next(iter(self.pods("agent"))))
        self.plane.end("etcd", signal.SIGKILL)
        head.wait_for_step(job, head.describe(job)["steps"] + 5)
        self.plane.start_etcd()
        self.wait("the API server serves again", self.plane.serves)
        self.scale("long", 2)
        self.wait_for("long", "2 devices", lambda s: s.get("devices") == 2)
        self.assertEqual(self.pid(controller), pid)
        self.assertLessEqual(before, set().union(*map(self.workers, self.pods("agent"))),
                             "an agent that stays was restarted")
        self.assert_bits("long", toml)

    def test_image_is_upgraded_under_a_running_job(self):
        self.helm("install")
        toml = self.start_training(2)
        stays = {name: self.workers(name) for name in self.pods("agent")}
        head = self.pid("easyscale-head-0")
        self.helm("upgrade", image=NEW_IMAGE)
        self.wait("the new head cannot start yet", lambda: not Path(f"/proc/{head}").exists())
        new = self.home / "new-image"
        new.mkdir()
        for program in (harness.esctl_program, harness.easyscaled_program):
            shutil.copy2(program, new)
        self.kubelet.images[NEW_IMAGE] = [str(new)]
        self.wait("head and controller are those of the new image", lambda: all(
            self.program(pod) and self.program(pod).is_relative_to(new)
            for pod in ("easyscale-head-0", *self.pods("controller"))))
        self.wait("the head has its job again",
                  lambda: self.condition("long", "Training").get("status") == "True")
        step = self.status("long")["step"]
        self.wait_for("long", "trains on", lambda s: s["step"] > step + 2)
        self.scale("long", 3)
        self.wait_for("long", "3 devices", lambda s: s.get("devices") == 3)
        self.assertEqual({name: self.workers(name) for name in stays}, stays,
                         "an agent that stays was restarted")
        added, = set(self.pods("agent")) - set(stays)
        self.assertTrue(self.program(added).is_relative_to(new))
        self.assert_bits("long", toml)

    def test_node_is_lost(self):
        self.helm("install",
                  head={"template": {"nodeSelector": {"kubernetes.io/hostname": "n0"}}})
        toml = self.start_training(3)
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
        toml = self.start_training(2)
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

    def make_http_secret(self):
        """What the HTTP service of the head needs. Returns a token."""
        files = self.directory / "http"
        files.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                        "-subj", "/CN=head", "-keyout", files / "tls.key", "-out", files / "tls.crt"],
                       check=True, capture_output=True)
        token = re.match("[0-9a-f]+", self.esctl(
            "token", "add", "prometheus", "--role", "view", "--file", files / "tokens").out)[0]
        self.plane.kubectl("create", "secret", "generic", "head-http", "-n", self.space,
                           f"--from-file={files}")
        return token

    def metrics(self, token):
        """What the head serves at /metrics; empty while it does not."""
        head = self.pods("head").get("easyscale-head-0", {"status": {}})
        address = head["status"].get("podIP")
        context = ssl.create_default_context(cafile=self.directory / "http/tls.crt")
        context.check_hostname = False
        request = urllib.request.Request(f"https://{address}:8443/metrics",
                                         headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def assert_monitor(self):
        """The server takes the ServiceMonitor, and what it selects is the pod of the head."""
        self.plane.apply(open_definition("monitoring.coreos.com", "v1", "ServiceMonitor",
                                         "servicemonitors"))
        self.wait("the definition serves", lambda: self.plane.kubectl(
            "get", "servicemonitors", "-n", self.space, check=False).returncode == 0)
        token = self.make_http_secret()
        place = {"name": "http", "mountPath": "/srv/http", "readOnly": True}
        volume = {"name": "http", "secret": {"secretName": "head-http", "defaultMode": 0o400}}
        self.helm("upgrade", head={
            "options": ["--http", "$(POD_IP):8443", "--http-tokens", "/srv/http/tokens",
                        "--http-cert", "/srv/http/tls.crt", "--http-key", "/srv/http/tls.key"],
            "volumeMounts": [place], "template": {"volumes": [volume]}}, serviceMonitor={
            "enabled": True, "port": 8443, "tokenSecret": {"name": "token", "key": "view"}})
        self.wait("the head serves metrics", lambda: "easyscale_nodes" in self.metrics(token))
        monitor = self.plane.api.get(
            f"/apis/monitoring.coreos.com/v1/namespaces/{self.space}/servicemonitors/easyscale")
        endpoint = monitor["spec"]["endpoints"][0]
        self.assertEqual(endpoint["authorization"]["credentials"], {"name": "token", "key": "view"})
        labels = monitor["spec"]["selector"]["matchLabels"]
        service = self.plane.api.get(
            f"/api/v1/namespaces/{self.space}/services/easyscale-metrics")
        self.assertEqual(service["metadata"]["labels"].items() & labels.items(), labels.items())
        self.assertEqual((service["spec"]["ports"][0]["name"], service["spec"]["ports"][0]["port"]),
                         (endpoint["port"], 8443))
        head = self.pods("head")["easyscale-head-0"]["metadata"]["labels"]
        self.assertEqual(head.items() & service["spec"]["selector"].items(),
                         service["spec"]["selector"].items())

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
        self.assert_monitor()
        self.plane.helm("uninstall", "es", "-n", self.space)
        self.wait("all pods are gone", lambda: not self.pods())
        self.plane.kubectl("get", "crd", "elastictrainingjobs.easyscale.dev")
        self.installed = False

    def test_tutorial(self):
        """Every command of docs/tutorials/kubernetes.md, with the image and the place of the test."""
        page = (harness.source_root / "docs/tutorials/kubernetes.md").read_text()
        digest = re.search(r"^    ([0-9a-f]{32})$", page, re.MULTILINE)[1]
        name, outputs = None, []
        for paragraph in page.split("\n\n"):
            file = re.match(r"`([\w.]+)`.*:$", paragraph)
            if not paragraph.startswith("    "):
                name = file and file[1]
                continue
            text = textwrap.dedent(paragraph)
            program = text.split()[0]
            if program in ("kubectl", "helm", "esctl"):
                name = None
                outputs += [self.run_documented(line) for line in text.splitlines()]
            elif name:
                with open(self.directory / name, "a") as file:
                    file.write(text.replace("registry.example.com/easyscale:0.1.0", OLD_IMAGE)
                               + "\n\n")
        self.assertEqual(sum(digest in output for output in outputs), 2, outputs)

    def run_documented(self, line):
        words = [self.space if word == "training" else
                 str(self.chart) if word == "configs/kubernetes" else
                 str(self.directory / word) if (self.directory / word).is_file() else word
                 for word in line.split()]
        if words[0] == "esctl":
            return self.esctl(*words[1:], deadline_s=4 * harness.DEADLINE_S).out
        if words[:2] == ["kubectl", "create"]:
            return ""  # The test has its namespace already.
        return self.plane.run(words[0], *words[1:], timeout_s=300).stdout


if __name__ == "__main__":
    harness.main()
