"""What another user of the same machine tries against the jobs of a user. Standard library only.

    python hostile_user.py PHASE WORDS...

`claim` posts a claim of 1 EiB in a ledger and keeps it. `spy` prints as JSON what it got: environments that it could
read, sockets to which it could send or connect, and what TCP ports answered.
"""

import errno
import fcntl
import json
import os
import signal
import socket
import sys

TICKET = "00000000000000000001-1-aaaaaaaa"


def claim(ledger: str) -> None:
    """Post a claim of more memory than any machine has, older than any other one."""
    descriptor = os.open(f"{ledger}/{TICKET}.claim", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    record = {"ticket": TICKET, "job": "x", "name": "hog", "memory": 1 << 60, "gpus": 0, "devices": []}
    os.write(descriptor, json.dumps(record).encode())
    print("ready", flush=True)
    signal.pause()


def readable_environments(canary: str) -> list[str]:
    """Return the processes whose environment can be read, and has a word in it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if canary.encode() in file.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def reachable_sockets(words: list[str]) -> list[str]:
    """Return the Unix sockets with one of these words in their address to which a byte can be sent."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
        rows = [line.split(None, 7) for line in table][1:]
    found = []
    for row in rows:
        address = row[7].strip() if len(row) > 7 else ""
        if not any(word in address for word in words):
            continue
        kind = socket.SOCK_DGRAM if int(row[4], 16) == 2 else socket.SOCK_STREAM
        with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as tried:
            try:
                tried.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
                for _ in range(10_000):
                    tried.send(b"p\t1\t")
                found.append(address)
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    found.append(address)
    return found


def answer_of(port: str) -> str:
    """Return what a TCP port answers to a request for a page; empty if it breaks the connection."""
    with socket.socket() as tried:
        tried.settimeout(30)
        try:
            tried.connect(("127.0.0.1", int(port)))
            tried.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:" + port.encode() + b"\r\n\r\n")
            return tried.recv(4096).decode("ascii", "replace")
        except OSError:
            return ""


if __name__ == "__main__":
    phase, *arguments = sys.argv[1:]
    if phase == "claim":
        claim(*arguments)
    else:
        canary, root, *ports = arguments
        print(
            json.dumps(
                {
                    "environments": readable_environments(canary),
                    "sockets": reachable_sockets([root, "tony"]),
                    "answers": [answer_of(port) for port in ports],
                }
            )
        )
