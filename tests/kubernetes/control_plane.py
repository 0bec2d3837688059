"""A real control plane of Kubernetes on this machine, in one directory: etcd, kube-apiserver,
kube-controller-manager and kube-scheduler, which scripts/setup_kubernetes has built.

No part of it needs root, a container or a configuration of the machine. All of it listens on the
loopback address. Its pods run where a test kubelet takes them (kubelet.py).
"""
import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ADMIN = "admin-token"
# A node that does not answer is unknown after so long.
NODE_GRACE_S = 8


def programs():
    return Path(subprocess.run([ROOT / "scripts/setup_kubernetes", "--where"], check=True,
                               text=True, capture_output=True).stdout.strip())


def skip_without_control_plane():
    if not (programs() / "kube-scheduler").exists():
        raise unittest.SkipTest("no control plane; scripts/setup_kubernetes builds it")


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


class Api:
    """Requests with JSON, by a token."""

    def __init__(self, url, ca_file, token):
        self.url, self.token = url, token
        self.context = ssl.create_default_context(cafile=str(ca_file))

    def request(self, method, path, content=None, kind="application/json", timeout_s=30):
        request = urllib.request.Request(
            self.url + path, method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind,
                     "Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode(errors="replace")) from None

    def get(self, path):
        return self.request("GET", path)

    def merge(self, path, patch):
        return self.request("PATCH", path, patch, "application/merge-patch+json")


class ControlPlane:
    """REQUIRES: skip_without_control_plane() returned. `directory` is new."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700)
        self.programs = programs()
        self.processes = {}
        self.etcd_port, self.peer_port, self.port = (harness.free_port() for _ in range(3))
        self.url = f"https://127.0.0.1:{self.port}"
        self._write_files()
        self.start_etcd()
        self.start_api_server()
        self._write_kubeconfig()
        self.api = Api(self.url, self.ca_file, ADMIN)
        kubeconfig = ["--kubeconfig", self.directory / "kubeconfig"]
        self._start("kube-controller-manager", *kubeconfig, "--leader-elect=false", "--port=0",
                    "--secure-port=0", "--use-service-account-credentials=false",
                    "--service-account-private-key-file", self.directory / "account.key",
                    "--root-ca-file", self.ca_file,
                    f"--node-monitor-grace-period={NODE_GRACE_S}s", "--node-monitor-period=1s",
                    "--controllers=*,-nodeipam,-route,-service,-cloud-node-lifecycle")
        self._start("kube-scheduler", *kubeconfig, "--leader-elect=false", "--port=0",
                    "--secure-port=0")

    @property
    def ca_file(self):
        return self.directory / "pki/apiserver.crt"

    def _write_files(self):
        key = self.directory / "account.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout",
                        "-out", self.directory / "account.pub"], check=True, capture_output=True)
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{ADMIN},admin,admin,"system:masters"\n')

    def _write_kubeconfig(self):
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                  "clusters": [{"name": "test", "cluster": {
                      "server": self.url, "certificate-authority": str(self.ca_file)}}],
                  "users": [{"name": "admin", "user": {"token": ADMIN}}],
                  "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}]}
        (self.directory / "kubeconfig").write_text(json.dumps(config))

    def _start(self, name, *words):
        with open(self.directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(word) for word in (self.programs / name, *words)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, cwd=self.directory)

    def start_etcd(self):
        listen, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, self.peer_port))
        self._start("etcd", "--name", "test", "--data-dir", self.directory / "etcd",
                    "--listen-client-urls", listen, "--advertise-client-urls", listen,
                    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                    "--initial-cluster", f"test={peer}", "--unsafe-no-fsync")

    def start_api_server(self):
        account = "https://easyscale.test"
        self._start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
                    "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                    f"--secure-port={self.port}", "--cert-dir", self.directory / "pki",
                    "--token-auth-file", self.directory / "tokens.csv",
                    "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
                    f"--service-account-issuer={account}",
                    f"--api-audiences={account}",
                    "--service-account-key-file", self.directory / "account.pub",
                    "--service-account-signing-key-file", self.directory / "account.key",
                    "--disable-admission-plugins=ServiceAccount", "--profiling=false")
        harness.wait_until("the API server is ready", self._is_ready, state=self.logs)

    def compact(self):
        """Cuts the history of etcd, so that no watch can go on from an old version."""
        endpoint = f"http://127.0.0.1:{self.etcd_port}"
        environment = {"ETCDCTL_API": "3", "PATH": os.environ["PATH"]}
        etcdctl = [self.programs / "etcdctl", "--endpoints", endpoint]
        status = json.loads(subprocess.run(
            [*etcdctl, "endpoint", "status", "-w", "json"], check=True, env=environment,
            capture_output=True).stdout)
        revision = status[0]["Status"]["header"]["revision"]
        subprocess.run([*etcdctl, "compact", str(revision)], check=True, env=environment,
                       capture_output=True)

    def _is_ready(self):
        if self.processes["kube-apiserver"].poll() is not None:
            raise AssertionError(f"the API server has ended\n{self.logs()}")
        return self.serves()

    def serves(self):
        try:
            with urllib.request.urlopen(
                    urllib.request.Request(self.url + "/readyz",
                                           headers={"Authorization": f"Bearer {ADMIN}"}),
                    context=ssl.create_default_context(cafile=str(self.ca_file)), timeout=5) as answer:
                return answer.status == 200
        except (OSError, ssl.SSLError):
            return False

    def end(self, name, number=signal.SIGTERM):
        process = self.processes[name]
        process.send_signal(number)
        process.wait(harness.DEADLINE_S)

    def stop(self):
        for name in reversed(list(self.processes)):
            if self.processes[name].poll() is None:
                self.end(name, signal.SIGKILL)

    def logs(self):
        return "\n".join(f"--- {path.name}\n" + path.read_text(errors="replace")[-2000:]
                         for path in sorted(self.directory.glob("*.log")))

    # --- commands of a user

    def run(self, program, *words, content=None, check=True, timeout_s=120):
        environment = {"KUBECONFIG": str(self.directory / "kubeconfig"), "PATH": os.environ["PATH"],
                       "HOME": str(self.directory)}
        ended = subprocess.run([str(word) for word in (self.programs / program, *words)],
                               env=environment, text=True, capture_output=True, timeout=timeout_s,
                               input=content)
        if check and ended.returncode != 0:
            raise AssertionError(f"{program} {words}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended

    def kubectl(self, *words, content=None, check=True):
        ended = self.run("kubectl", *words, content=content, check=check)
        return ended.stdout if check else ended

    def helm(self, *words, check=True):
        return self.run("helm", *words, check=check)

    def apply(self, *objects):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        return self.kubectl("apply", "--validate=false", "-f", "-", content=text)

    def account_token(self, name_space, account):
        """A token of a service account, as a kubelet asks for one."""
        answer = self.api.request(
            "POST", f"/api/v1/namespaces/{name_space}/serviceaccounts/{account}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
             "spec": {"expirationSeconds": 3600}})
        return answer["status"]["token"]


def secret_files(secret):
    """The files of a Secret, as bytes by key."""
    return {key: base64.b64decode(value) for key, value in secret.get("data", {}).items()}
