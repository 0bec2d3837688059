#!/usr/bin/env python3
"""The reason why no head answers is reported: no process, not reachable, wrong keys, frozen,
another version, another program."""
import http.server
import shutil
import signal
import socket
import struct
import subprocess
import threading
import unittest

import harness
from harness import EXIT_FAILURE, EXIT_NOT_FOUND, EXIT_REFUSED

LISTEN = "tcp://127.0.0.1:*"
NO_NETWORK = ["unshare", "--net"]
OTHER_PROTOCOL = 77


def can_leave_the_network():
    return (shutil.which("unshare") is not None
            and subprocess.run([*NO_NETWORK, "true"], stderr=subprocess.DEVNULL).returncode == 0)


def listener(backlog=8):
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(backlog)
    return server


def receive(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


def serve_another_version(server):
    """A ROUTER socket without keys, written by hand (ZMTP 3.0). It answers every beat with a
    goodbye of a later protocol."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        try:
            connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(54 + 1, b"\0"))
            receive(connection, 64)
            ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"ROUTER"
            connection.sendall(bytes([4, len(ready)]) + ready)
            for _ in range(2):  # Its READY, and its beat.
                _, size = receive(connection, 2)
                receive(connection, size)
            bye = b"ESGW\x02" + struct.pack("<H", OTHER_PROTOCOL) + b"Qhead"
            connection.sendall(bytes([0, len(bye)]) + bye)
            connection.recv(1)
        except OSError:
            pass
        connection.close()


class Connect(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.keys = self.directory / "keys"
        self.esctl("keygen", self.keys)

    def start_head(self, *wire, listen=LISTEN, name="head"):
        place = self.directory / name
        place.mkdir(mode=0o700)
        return harness.Daemon(self, self.start(
            harness.easyscaled_program, "--head", "--state", place / "state", "--listen", listen,
            "--node", "first", "--devices", "cpu-scalar:1", *wire), wire)

    def refused(self, endpoint, words, code, *wire):
        ended = self.esctl("ps", "--head", endpoint, *(wire or ["--insecure-loopback"]), code=code)
        self.assertIn(endpoint, ended.err)
        self.assertIn(words, ended.err)
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))

    def at(self, server):
        self.addCleanup(server.close)
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"

    # --- no process

    def test_a_port_at_which_no_process_listens(self):
        server = listener()
        endpoint = self.at(server)
        server.close()
        self.refused(endpoint, "no process listens there (Connection refused)", EXIT_NOT_FOUND)

    def test_a_socket_that_is_not_there(self):
        self.refused(f"ipc://{self.directory}/none.sock", "(No such file or directory)",
                     EXIT_NOT_FOUND)

    def test_a_socket_that_was_left_behind(self):
        path = self.directory / "stale.sock"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
        self.refused(f"ipc://{path}", "no process listens there (Connection refused)", EXIT_NOT_FOUND)

    def test_a_host_without_a_name(self):
        self.refused("tcp://no-such-host.invalid:7070", "the name of the host is unknown",
                     EXIT_NOT_FOUND, "--keys", self.keys)

    @unittest.skipUnless(can_leave_the_network(), "may not make network namespaces here")
    def test_a_host_without_a_way_to_it(self):
        ended = self.start(*NO_NETWORK, harness.esctl_program, "ps", "--head",
                           "tcp://192.0.2.1:7070", "--keys", self.keys).wait()
        self.assertEqual(ended.code, EXIT_NOT_FOUND, str(ended))
        self.assertIn("there is no route to that host", ended.err)

    def test_a_host_that_does_not_answer(self):
        server = listener(backlog=0)  # Once this queue is full, attempts are dropped.
        endpoint = self.at(server)
        queued = []
        for _ in range(3):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(server.getsockname())
            self.addCleanup(connection.close)
            queued.append(connection)
        self.refused(endpoint, "the host has not answered for", EXIT_NOT_FOUND)

    # --- another program

    def test_a_web_server(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                 http.server.SimpleHTTPRequestHandler)
        server.RequestHandlerClass.log_message = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.refused(f"tcp://127.0.0.1:{server.server_port}", "is not an easyscaled",
                     EXIT_NOT_FOUND)

    def test_a_listener_that_says_nothing(self):
        self.refused(self.at(listener()), "is connected, but has not answered for", EXIT_FAILURE)

    def test_a_head_of_another_release(self):
        server = listener()
        threading.Thread(target=serve_another_version, args=[server], daemon=True).start()
        self.refused(self.at(server), f"speaks protocol {OTHER_PROTOCOL}", EXIT_REFUSED)

    # --- keys

    def test_keys_that_do_not_fit(self):
        others, stranger = self.directory / "others", self.directory / "stranger"
        self.esctl("keygen", others)
        self.esctl("keygen", stranger)
        (stranger / "server.key").unlink()
        (stranger / "server.pub").write_bytes((self.keys / "server.pub").read_bytes())
        head = self.start_head("--keys", self.keys)
        for words, *wire in (("has another server key", "--keys", others),
                             ("does not accept the key of this machine", "--keys", stranger),
                             ("requires keys", "--insecure-loopback")):
            with self.subTest(words):
                self.refused(head.endpoint, words, EXIT_REFUSED, *wire)
        self.assertEqual(head.json("ps")["jobs"], [])
        head.stop()

    def test_keys_where_there_are_none(self):
        head = self.start_head("--insecure-loopback")
        self.refused(head.endpoint, "has no keys", EXIT_REFUSED, "--keys", self.keys)
        head.stop()

    # --- frozen

    def assert_frozen(self, head, *wire):
        head.running.process.send_signal(signal.SIGSTOP)
        self.addCleanup(head.running.process.send_signal, signal.SIGCONT)
        self.refused(head.endpoint, "is connected, but has not answered for 15 s: it may be stopped "
                     "or overloaded", EXIT_FAILURE, *wire)
        head.running.process.send_signal(signal.SIGCONT)
        self.assertEqual(head.json("ps")["jobs"], [])
        head.stop()

    def test_a_frozen_head(self):
        self.assert_frozen(self.start_head("--keys", self.keys), "--keys", self.keys)

    def test_a_frozen_head_behind_a_local_socket(self):
        self.assert_frozen(self.start_head(listen=f"ipc://{self.directory}/head/head.sock"))


if __name__ == "__main__":
    harness.main()
