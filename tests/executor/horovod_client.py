"""A fake of Horovod's own client of its rendezvous server: what its `http_store.cc` puts on the wire, byte for byte.

A connection for each request, IPv4, no announcement of its end, and no timeout: it reads until it has as many bytes as
`Content-Length`, in that very spelling, says. As a program it is a rank: it meets its peers in the three scopes that
Horovod uses, and prints the peers it found.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time


def ask(port: int, method: str, path: str, body: bytes = b"", host: str = "127.0.0.1") -> tuple[int, bytes]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(100)
        connection.connect((host, port))
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        said = b""
        while b"\r\n\r\n" not in said or len(said) < said.index(b"\r\n\r\n") + 4 + _length(said):
            piece = connection.recv(4096)
            if not piece:
                raise ConnectionError(f"no answer: {said!r}")
            said += piece
    head_said, _, body_said = said.partition(b"\r\n\r\n")
    return int(head_said.split()[1]), body_said


def _length(said: bytes) -> int:
    for line in said.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"Content-Length":
            return int(value)
    return 0


def wait_for(port: int, path: str, host: str = "127.0.0.1") -> bytes:
    """As `HTTPStore::wait`, and the value."""
    while True:
        status, body = ask(port, "GET", path, host=host)
        if status == 200:
            return body
        time.sleep(0.01)


def meet(circle: str, rank: int, size: int) -> list[str]:
    """As `Rendezvous` of its `gloo_context.cc`: return the values of all ranks, in order."""
    host, port = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    word = "{JOB_NAME}:{TASK_INDEX}".format(**os.environ).encode()
    ask(port, "PUT", f"/{circle}/{rank}", word, host=host)
    found = [wait_for(port, f"/{circle}/{peer}", host=host).decode() for peer in range(size)]
    # Gloo's barrier goes over its own connections; this one is made of the store.
    ask(port, "PUT", f"/{circle}-met/{rank}", host=host)
    for peer in range(size):
        wait_for(port, f"/{circle}-met/{peer}", host=host)
    ask(port, "DELETE", f"/{circle}/{rank}", host=host)
    return found


def main() -> None:
    at = {name: int(os.environ[f"HOROVOD_{name}"]) for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")}
    cross = int(os.environ["HOROVOD_CROSS_RANK"]), int(os.environ["HOROVOD_CROSS_SIZE"])
    say("global", meet("global", at["RANK"], at["SIZE"]))
    say("local", meet(f"local_{os.environ['HOROVOD_HOSTNAME']}", at["LOCAL_RANK"], at["LOCAL_SIZE"]))
    say("cross", meet(f"cross_{at['LOCAL_RANK']}", *cross))
    end_together(at["RANK"], at["SIZE"])


def end_together(rank: int, size: int) -> None:
    """As `hvd.shutdown`: rank 0, whose task has the store, ends once no rank needs it."""
    host, port = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    if rank == 0:
        for peer in range(1, size):
            wait_for(port, f"/ended/{peer}", host=host)
    else:
        with contextlib.suppress(ConnectionError):  # once it is stored, rank 0 may end, and the store with it
            ask(port, "PUT", f"/ended/{rank}", host=host)


def say(circle: str, met: list[str]) -> None:
    sys.stdout.write(" ".join([circle, *met]) + "\n")  # in one piece: processes of a task share their output


if __name__ == "__main__":
    main()
