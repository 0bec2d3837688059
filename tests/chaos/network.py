"""Hosts of a cluster as network namespaces. A router joins them, and their links can be cut.

    hub: 10.77.0.1, forwards     a: 10.77.1.2 -- 10.77.1.1 of the hub     b: 10.77.2.2 -- 10.77.2.1

A direction of a link is cut by a wrong hardware address of the other end in the neighbour table:
frames are sent and no host receives them, without an error, as on a broken switch. It needs no
packet filter. The link between two hosts alone is cut by a route over such a neighbour."""
import os
import shutil
import subprocess

NOBODY = "02:00:00:00:de:ad"


class NetworkError(Exception):
    pass


def _ip(*words):
    ended = subprocess.run(["ip", *words], capture_output=True, text=True)
    if ended.returncode != 0:
        raise NetworkError(f"ip {' '.join(words)}: {ended.stderr.strip()}")
    return ended.stdout


def why_not():
    """Returns why this machine cannot have network namespaces; empty when it can."""
    if shutil.which("ip") is None:
        return "the program ip (package iproute2) is not here"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"es-probe-{os.getpid()}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except NetworkError as error:
        return str(error)
    return ""


class Network:
    """The hub and one namespace for each name. `close` removes all of them."""

    HUB_ADDRESS = "10.77.0.1"

    def __init__(self, names):
        self.prefix = f"es{os.getpid()}"
        self.hub = f"{self.prefix}-hub"
        self.numbers = {name: number for number, name in enumerate(names, 1)}
        self._made = []
        try:
            self._build()
        except NetworkError:
            self.close()
            raise

    def _build(self):
        self._add(self.hub)
        self._in(self.hub, "addr", "add", f"{self.HUB_ADDRESS}/32", "dev", "lo")
        subprocess.run(["ip", "netns", "exec", self.hub, "sh", "-c",
                        "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True)
        for name in self.numbers:
            self._add_host(name)

    def _add(self, namespace):
        _ip("netns", "add", namespace)
        self._made.append(namespace)
        self._in(namespace, "link", "set", "lo", "up")

    def _add_host(self, name):
        host, number = self.namespace(name), self.numbers[name]
        self._add(host)
        _ip("-n", self.hub, "link", "add", self._hub_end(name), "type", "veth", "peer", "name",
            "up0", "netns", host)
        self._in(self.hub, "addr", "add", f"10.77.{number}.1/24", "dev", self._hub_end(name))
        self._in(self.hub, "link", "set", self._hub_end(name), "up")
        self._in(host, "addr", "add", f"{self.address(name)}/24", "dev", "up0")
        self._in(host, "link", "set", "up0", "up")
        self._in(host, "route", "add", "default", "via", f"10.77.{number}.1")

    def _in(self, namespace, *words):
        return _ip("-n", namespace, *words)

    def namespace(self, name):
        return f"{self.prefix}-{name}"

    def _hub_end(self, name):
        return f"to-{name}"

    def address(self, name):
        return f"10.77.{self.numbers[name]}.2"

    def inside(self, name, words):
        """Returns the arguments of a command that runs on that host; on the hub for None."""
        return ["ip", "netns", "exec", self.hub if name is None else self.namespace(name), *words]

    # --- cutting

    def cut(self, name, to_hub, from_hub):
        """Cuts one or both directions of the link of the host."""
        number = self.numbers[name]
        if to_hub:
            self._in(self.namespace(name), "neigh", "replace", f"10.77.{number}.1", "lladdr",
                     NOBODY, "dev", "up0", "nud", "permanent")
        if from_hub:
            self._in(self.hub, "neigh", "replace", self.address(name), "lladdr", NOBODY, "dev",
                     self._hub_end(name), "nud", "permanent")

    def mend(self, name):
        number = self.numbers[name]
        for namespace, address, device in (
                (self.namespace(name), f"10.77.{number}.1", "up0"),
                (self.hub, self.address(name), self._hub_end(name))):
            subprocess.run(["ip", "-n", namespace, "neigh", "del", address, "dev", device],
                           capture_output=True)

    # The two hosts lose each other and keep the hub: each of them sends to the other one through a
    # neighbour that does not exist, instead of the hub.

    def cut_between(self, one, other):
        for here, there in ((one, other), (other, one)):
            nobody = f"10.77.{self.numbers[here]}.99"
            self._in(self.namespace(here), "neigh", "replace", nobody, "lladdr", NOBODY, "dev",
                     "up0", "nud", "permanent")
            self._in(self.namespace(here), "route", "replace", f"{self.address(there)}/32", "via",
                     nobody, "dev", "up0")

    def mend_between(self, one, other):
        for here, there in ((one, other), (other, one)):
            self._in(self.namespace(here), "route", "del", f"{self.address(there)}/32")

    def close(self):
        for namespace in reversed(self._made):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)
        self._made = []
