"""File descriptors: a queue that keeps open files beyond the process that opened them, and closing all others."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Collection

_ONE = b"."


class DescriptorQueue:
    """A queue of open files, with their locks, that a parent shares with its fork: a pair of sockets, empty at first.

    The kernel keeps a file that was sent and not yet received.
    """

    def __init__(self) -> None:
        self._inlet, self._outlet = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

    def close(self) -> None:
        """Close the queue, and the files in it unless another process has the queue open."""
        self._inlet.close()
        self._outlet.close()

    def put(self, descriptor: int) -> None:
        """Add an open file. The descriptor remains the caller's.

        Raises:
            OSError: the kernel refuses.
        """
        self._inlet.setblocking(False)
        socket.send_fds(self._inlet, [_ONE], [descriptor])

    def take_last(self) -> int | None:
        """Empty the queue; return a descriptor of the file added last, or None if there was none."""
        last: int | None = None
        self._outlet.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while found := socket.recv_fds(self._outlet, len(_ONE), 1)[1]:
                if last is not None:
                    os.close(last)
                last = found[0]
                os.set_inheritable(last, False)
        return last


def close_others(kept: Collection[int]) -> None:
    """Close all open files of this process except its standard streams and `kept`.

    As listed by the kernel: up to the limit (RLIMIT_NOFILE) there may be a thousand million descriptors.
    """
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # one was of the listing itself
                os.close(number)
