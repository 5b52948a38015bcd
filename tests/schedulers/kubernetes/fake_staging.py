"""A receiver of objects on this machine, and connections to it as port-forward makes them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tony.kube.api_client import ApiClient
from tony.schedulers.kubernetes.staging_receiver import serve


class FakeStaging:
    """A folder in place of a claim.

    Attributes:
        folder: where the objects arrive.
        cuts: of the next connections, after how many bytes from the client they break.
        connections: those that were made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cuts: list[int] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    @contextmanager
    def serve(self) -> Iterator[FakeStaging]:
        def receive() -> None:
            with contextlib.suppress(OSError):
                serve(self._listener, self.folder)

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for each in (thread, *self._threads):
                each.join()
            for sock in self._sockets:
                sock.close()

    def connect(self, client: ApiClient, pod: str, port: int) -> socket.socket:
        self.connections += 1
        remote = socket.create_connection(self._listener.getsockname())
        if not self.cuts:
            return remote
        near, far = socket.socketpair()
        self._sockets += [far, remote]
        for arguments in ((far, remote, self.cuts.pop(0)), (remote, far, None)):
            self._threads.append(threading.Thread(target=_copy, args=arguments))
            self._threads[-1].start()
        return near


def _copy(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Copy until the end, or until there were too many bytes."""
    with contextlib.suppress(OSError):
        while (most is None or most > 0) and (data := source.recv(65536)):
            data = data[:most]
            target.sendall(data)
            most = None if most is None else most - len(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
