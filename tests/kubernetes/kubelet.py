"""A small kubelet for tests: it runs the containers of pods that are bound to its nodes as processes.

A container is started with exactly the command, arguments and environment of the pod, in namespaces
of its own for mounts and processes, in which the volumes of the pod (emptyDir, Secret, ConfigMap,
hostPath, a claim whose volume is a hostPath, the token of the service account) are where the pod
wants them. Every pod has an address of its own in 127.0.0.0/8, and /etc/hosts stands for the DNS of
the cluster: it has the names of headless services. A pod that is deleted gets SIGTERM, and SIGKILL
after its grace. Readiness is that of the pod's probe (exec).

Not done: images (an image is a list of directories in which its programs are found), users, limits,
security contexts, network policies. Nodes have resources as given.
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from control_plane import ApiError, secret_files  # noqa: E402

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Mounts the volumes of a container and becomes its process, which has the id 1 there. Mount points
# lie in file systems of its own; those of the machine are not changed.
CONTAINER = r"""
hosts=$1 count=$2
shift 2
for top in /srv /run; do mount -t tmpfs none $top; done
mount --bind "$hosts" /etc/hosts
while [ $count -gt 0 ]; do
  mkdir -p "$2" && mount --bind "$1" "$2"
  shift 2
  count=$((count - 1))
done
mount -t proc proc /proc
exec "$@"
"""


def container_words(hosts, mounts):
    """The begin of a command in a container with these mounts, (source, target)."""
    flags = [] if os.geteuid() == 0 else ["--map-root-user", "--map-auto"]
    return ["unshare", *flags, "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", CONTAINER,
            "container", hosts, len(mounts), *(word for mount in mounts for word in mount)]


def skip_without_containers():
    words = [str(word) for word in [*container_words("/etc/hosts", []), "true"]]
    if subprocess.run(words, capture_output=True).returncode != 0:
        raise unittest.SkipTest("this system gives no namespaces for mounts and processes")


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Container:
    """The process of a pod. `pid` is that which the machine sees."""

    def __init__(self, process, variables):
        self.process, self.variables = process, variables
        self.restarts = 0
        self.pid = None
        self.ready, self.probe_at = False, 0

    def find_pid(self):
        """The child of `unshare` is the process 1 of the container."""
        if self.pid is None:
            try:
                children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
                self.pid = int(children.read_text().split()[0])
            except (OSError, IndexError, ValueError):
                return None
        return self.pid

    def signal(self, number):
        pid = self.find_pid()
        if pid is not None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


class Kubelet:
    """`nodes`: name -> resources, such as {"cpu": "4"}. `images`: name -> directories with programs; a
    pod with another image does not start."""

    def __init__(self, plane, directory, nodes, images, environment):
        self.plane, self.api = plane, plane.api
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700)
        self.images, self.environment = images, environment
        self.containers = {}   # uid of the pod -> Container
        self.addresses = {}    # uid of the pod -> address
        self.ending = {}       # uid of the pod -> when it is killed
        self.silent = set()    # nodes that do not answer
        self.hosts = self.directory / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.problems = []
        self._stop = threading.Event()
        self._beaten = 0
        self.nodes = nodes
        for name in nodes:
            self._register(name)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # --- nodes

    def _register(self, name):
        self.api.request("POST", "/api/v1/nodes", {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        self._beat(name)

    def _beat(self, name):
        resources = {"cpu": "64", "memory": "64Gi", "pods": "50", **self.nodes[name]}
        self.api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "TestKubelet",
                            "lastHeartbeatTime": now(), "lastTransitionTime": now()}]}},
            "application/strategic-merge-patch+json")

    def lose(self, name):
        """The machine is gone: its processes end at once, and no kubelet reports it."""
        self.silent.add(name)
        for pod in self._pods():
            container = self.containers.get(pod["metadata"]["uid"])
            if pod["spec"].get("nodeName") == name and container:
                container.signal(signal.SIGKILL)

    def find_again(self, name):
        self.silent.discard(name)

    # --- pods

    def _pods(self):
        return self.api.get("/api/v1/pods")["items"]

    def _run(self):
        while not self._stop.wait(0.1):
            try:
                if time.monotonic() - self._beaten > 1:
                    self._beaten = time.monotonic()
                    for name in self.nodes:
                        if name not in self.silent:
                            self._beat(name)
                pods = self._pods()
                self._write_hosts(pods)
                for pod in pods:
                    node = pod["spec"].get("nodeName")
                    if node in self.nodes and node not in self.silent:
                        self._look_after(pod)
            except ApiError as error:
                if error.status not in (404, 409):
                    self.problems.append(str(error))
            except (OSError, subprocess.SubprocessError) as error:
                self.problems.append(str(error))  # The server is away, or a probe was too slow.

    def _write_hosts(self, pods):
        lines = ["127.0.0.1 localhost"]
        for service in self.api.get("/api/v1/services")["items"]:
            selector = service["spec"].get("selector")
            if service["spec"].get("clusterIP") != "None" or not selector:
                continue
            name, space = service["metadata"]["name"], service["metadata"]["namespace"]
            for pod in pods:
                labels = pod["metadata"].get("labels", {})
                address = self.addresses.get(pod["metadata"]["uid"])
                if (pod["metadata"]["namespace"] == space and address
                        and all(labels.get(key) == value for key, value in selector.items())):
                    lines.append(f"{address} {name}.{space}.svc {name}")
        text = "\n".join(lines) + "\n"
        if text != self.hosts.read_text():
            self.hosts.write_text(text)  # The same file: the containers have it mounted.

    def _look_after(self, pod):
        uid = pod["metadata"]["uid"]
        container = self.containers.get(uid)
        if pod["metadata"].get("deletionTimestamp"):
            self._end(pod, container)
        elif pod["status"].get("phase") in ("Succeeded", "Failed"):
            pass
        elif container is None:
            self._start(pod)
        else:
            self._report(pod, container)

    def _end(self, pod, container):
        uid = pod["metadata"]["uid"]
        if container and container.process.poll() is None:
            if uid not in self.ending:
                grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
                self.ending[uid] = time.monotonic() + grace
                container.signal(signal.SIGTERM)
            elif time.monotonic() > self.ending[uid]:
                container.signal(signal.SIGKILL)
            return
        self.containers.pop(uid, None)
        self.api.request("DELETE", self._path(pod), {"gracePeriodSeconds": 0})

    @staticmethod
    def _path(pod, rest=""):
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}{rest}"

    def _start(self, pod):
        uid = pod["metadata"]["uid"]
        if uid not in self.addresses:
            number = len(self.addresses) + 1
            self.addresses[uid] = f"127.1.{number // 250}.{number % 250 + 1}"
        address = self.addresses[uid]
        home = self.directory / uid
        home.mkdir(exist_ok=True)
        mounts = self._mounts(pod, home)
        if mounts is None:
            return  # A Secret or a volume is not there yet.
        box = pod["spec"]["containers"][0]
        if box["image"] not in self.images:
            return  # It cannot be pulled yet.
        variables = self._variables(pod, box, address)
        command = [self._expand(word, variables) for word in box["command"] + box.get("args", [])]
        words = container_words(self.hosts, mounts)
        log = self.directory / f"{pod['metadata']['name']}.log"
        with open(log, "ab") as out:
            process = subprocess.Popen([str(word) for word in [*words, *command]], env=variables,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True, cwd="/")
        before = self.containers.get(uid)
        container = self.containers[uid] = Container(process, variables)
        if before:
            container.restarts = before.restarts + 1
        self._report(pod, container)

    def _mounts(self, pod, home):
        """(directory on this machine, mount point) of each volume of the container."""
        places = {}
        for volume in pod["spec"].get("volumes", []):
            place = home / "volumes" / volume["name"]
            if "secret" in volume or "configMap" in volume:
                if not self._write_files(pod, volume, place):
                    return None
            elif "hostPath" in volume:
                place = Path(volume["hostPath"]["path"])
            elif "persistentVolumeClaim" in volume:
                place = self._claimed(pod, volume["persistentVolumeClaim"]["claimName"])
                if place is None:
                    return None
            else:
                place.mkdir(parents=True, exist_ok=True)
            places[volume["name"]] = place
        box = pod["spec"]["containers"][0]
        mounts = [(places[mount["name"]], mount["mountPath"]) for mount in box.get("volumeMounts", [])]
        if pod["spec"].get("automountServiceAccountToken", True) and pod["spec"].get("serviceAccountName"):
            mounts.append((self._account(pod, home), ACCOUNT))
        return mounts

    def _write_files(self, pod, volume, place):
        source = volume.get("secret") or volume["configMap"]
        kind = "secrets" if "secret" in volume else "configmaps"
        name = source.get("secretName") or source["name"]
        try:
            found = self.api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind}/{name}")
        except ApiError:
            return bool(source.get("optional"))
        files = (secret_files(found) if kind == "secrets"
                 else {key: text.encode() for key, text in found.get("data", {}).items()})
        items = source.get("items") or [{"key": key, "path": key} for key in files]
        for item in items:
            path = place / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_bytes(files[item["key"]])
                path.chmod(source.get("defaultMode", 0o644))
        return True

    def _claimed(self, pod, claim):
        space = pod["metadata"]["namespace"]
        volume = self.api.get(
            f"/api/v1/namespaces/{space}/persistentvolumeclaims/{claim}")["spec"].get("volumeName")
        if not volume:
            return None
        return Path(self.api.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["hostPath"]["path"])

    def _account(self, pod, home):
        place = home / "account"
        place.mkdir(exist_ok=True)
        space = pod["metadata"]["namespace"]
        (place / "token").write_text(
            self.plane.account_token(space, pod["spec"]["serviceAccountName"]))
        (place / "namespace").write_text(space)
        (place / "ca.crt").write_bytes(self.plane.ca_file.read_bytes())
        return place

    def _variables(self, pod, box, address):
        host, port = self.plane.url.removeprefix("https://").split(":")
        variables = {"PATH": ":".join([*self.images[box["image"]], "/usr/bin", "/bin"]),
                     "HOSTNAME": pod["metadata"]["name"], "KUBERNETES_SERVICE_HOST": host,
                     "KUBERNETES_SERVICE_PORT": port, **self.environment}
        known = {"metadata.name": pod["metadata"]["name"],
                 "metadata.namespace": pod["metadata"]["namespace"],
                 "spec.nodeName": pod["spec"]["nodeName"], "status.podIP": address}
        for variable in box.get("env", []):
            if "value" in variable:
                variables[variable["name"]] = self._expand(variable["value"], variables)
            else:
                variables[variable["name"]] = known[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        return variables

    @staticmethod
    def _expand(word, variables):
        return re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), word)

    def _report(self, pod, container):
        code = container.process.poll()
        policy = pod["spec"].get("restartPolicy", "Always")
        if code is not None and (policy == "Always" or (policy == "OnFailure" and code != 0)):
            self._start(pod)
            return
        phase = "Running" if code is None else "Succeeded" if code == 0 else "Failed"
        ready = code is None and self._is_ready(pod, container)
        state = ({"running": {"startedAt": now()}} if code is None
                 else {"terminated": {"exitCode": code, "finishedAt": now()}})
        before = pod["status"]
        same = (before.get("phase") == phase
                and before.get("containerStatuses", [{}])[0].get("restartCount") == container.restarts
                and any(c["type"] == "Ready" and c["status"] == str(ready)
                        for c in before.get("conditions", [])))
        if same:
            return
        conditions = [{"type": kind, "status": str(ready), "lastTransitionTime": now()}
                      for kind in ("Ready", "ContainersReady")]
        box = pod["spec"]["containers"][0]
        self.api.request("PATCH", self._path(pod, "/status"), {"status": {
            "phase": phase, "podIP": self.addresses[pod["metadata"]["uid"]],
            "hostIP": "127.0.0.1", "startTime": before.get("startTime", now()),
            "conditions": conditions,
            "containerStatuses": [{
                "name": box["name"], "ready": ready, "restartCount": container.restarts,
                "image": box["image"], "imageID": box["image"], "started": True,
                "state": state}]}}, "application/strategic-merge-patch+json")

    def _is_ready(self, pod, container):
        probe = pod["spec"]["containers"][0].get("readinessProbe")
        if not probe:
            return True
        if time.monotonic() < container.probe_at:
            return container.ready
        container.probe_at = time.monotonic() + probe.get("periodSeconds", 10)
        pid = container.find_pid()
        container.ready = pid is not None and subprocess.run(
            ["nsenter", "-t", str(pid), "-m", "-p", "--wd=/", *probe["exec"]["command"]],
            env=container.variables, capture_output=True,
            timeout=probe.get("timeoutSeconds", 1) + 5).returncode == 0
        return container.ready

    # --- for tests

    def pid_of(self, name, space="default"):
        """The process of a pod, as this machine sees it; None: it does not run."""
        try:
            pod = self.api.get(f"/api/v1/namespaces/{space}/pods/{name}")
        except ApiError:
            return None
        container = self.containers.get(pod["metadata"]["uid"])
        return container.find_pid() if container and container.process.poll() is None else None

    def log_of(self, name):
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self):
        return "\n".join(f"--- {path.name}\n" + path.read_text(errors="replace")[-3000:]
                         for path in sorted(self.directory.glob("*.log"))
                         ) + "\n".join(self.problems[-5:])

    def stop(self):
        self._stop.set()
        self._thread.join(60)
        for container in self.containers.values():
            if container.process.poll() is None:
                container.signal(signal.SIGTERM)
        end = time.monotonic() + 20
        for container in self.containers.values():
            try:
                container.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                container.signal(signal.SIGKILL)
                container.process.kill()
                container.process.wait()


