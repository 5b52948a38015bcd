"""A server program for jobs, and callers of it: what goes through a tunnel is what goes directly."""

from __future__ import annotations

import contextlib
import hashlib
import json
import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.lab import CEILING, Lab, until

#: Listens on its TB_PORT. `get N`: N bytes that are known, `put`: how many came until their end and their digest,
#: `echo`: the same, `deaf`: reads nothing.
SERVER = r"""
import hashlib, os, signal, socketserver, threading
BLOCK = bytes(range(256)) * 256

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        word, *rest = self.rfile.readline().split()
        if word == b"get":
            left = int(rest[0])
            while left > 0:
                self.wfile.write(BLOCK[:left])
                left -= len(BLOCK)
        elif word == b"put":
            count, digest = 0, hashlib.sha256()
            while data := self.rfile.read1(1 << 16):
                count += len(data)
                digest.update(data)
            self.wfile.write(f"{count} {digest.hexdigest()}".encode())
        elif word == b"echo":
            while data := self.rfile.read1(1 << 16):
                self.wfile.write(data)
        elif word == b"deaf":
            self.wfile.write(b"d")
            threading.Event().wait()
        elif word == b"exit":
            os._exit(int(rest[0]))

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 500

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server = Server(("127.0.0.1", int(os.environ["TB_PORT"])), Handler)
print("up", flush=True)
server.serve_forever()
"""
BLOCK = bytes(range(256)) * 256


def call(port: int, words: str) -> socket.socket:
    """A connection on which these words were said."""
    caller = socket.create_connection(("127.0.0.1", port), timeout=CEILING)
    caller.sendall(f"{words}\n".encode())
    return caller


def rest(caller: socket.socket) -> bytes:
    pieces = []
    while piece := caller.recv(1 << 18):
        pieces.append(piece)
    return b"".join(pieces)


def get(port: int, count: int) -> None:
    """Fetches so many bytes, and looks whether they are right."""
    with call(port, f"get {count}") as caller:
        data = rest(caller)
    assert len(data) == count
    assert data == (BLOCK * (count // len(BLOCK) + 1))[:count]


def put(port: int, count: int) -> None:
    """Sends so many bytes and their end, and has the server tell what it got."""
    data = (BLOCK[::-1] * (count // len(BLOCK) + 1))[:count]
    with call(port, "put") as caller:
        caller.sendall(data)
        caller.shutdown(socket.SHUT_WR)
        assert rest(caller).decode() == f"{count} {hashlib.sha256(data).hexdigest()}"


def echo(caller: socket.socket, data: bytes) -> None:
    """Says something on a connection on which `echo` was said, and hears it."""
    caller.sendall(data)
    got = b""
    while len(got) < len(data):
        piece = caller.recv(1 << 16)
        assert piece
        got += piece
    assert got == data


def end(port: int, code: int) -> None:
    """Has the server exit, and waits for the end of the connection, of whatever kind."""
    with call(port, f"exit {code}") as caller, contextlib.suppress(ConnectionResetError):
        assert rest(caller) == b""


@contextmanager
def proxied(lab: Lab, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`tony proxy`, and the port where it listens."""
    process = lab.follow("proxy", *arguments, "--json")
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], CEILING)[0], "it does not listen"
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    try:
        yield process, int(json.loads(line)["address"].rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


def wait_port(port: int) -> None:
    """Waits until the server answers through a port."""

    def answers() -> bool:
        try:
            with call(port, "get 1") as caller:
                return rest(caller) == b"\0"
        except OSError:
            return False

    until(answers, f"something answers at {port}")
