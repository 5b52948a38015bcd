"""A process without any credential that keeps many connections to a TLS port, and replaces each closed one.

    python connection_flood.py PORT COUNT idle|half-open

In `half-open` each connection sends the first message of a TLS handshake, and nothing more. Prints `ready` once.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import ssl
import sys


def first_message() -> bytes:
    """Return what any TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    engine = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="tony-am")
    with contextlib.suppress(ssl.SSLWantReadError):
        engine.do_handshake()
    return outgoing.read()


def main() -> None:
    port, count, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    hello = first_message() if mode == "half-open" else b""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 50)
    poll = select.epoll()
    connections: dict[int, socket.socket] = {}
    is_ready = False
    while True:
        while len(connections) < count:
            made = socket.socket()
            made.setblocking(False)
            made.connect_ex(("127.0.0.1", port))
            connections[made.fileno()] = made
            poll.register(made, select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if hello else 0))
        if not is_ready:
            print("ready", flush=True)
            is_ready = True
        for descriptor, events in poll.poll(0.05):
            connection = connections[descriptor]
            if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                poll.unregister(descriptor)
                connections.pop(descriptor).close()
            elif events & select.EPOLLOUT:
                with contextlib.suppress(OSError):
                    connection.send(hello)
                poll.modify(descriptor, select.EPOLLRDHUP)
            else:
                poll.modify(descriptor, select.EPOLLRDHUP)


if __name__ == "__main__":
    main()
