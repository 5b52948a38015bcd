"""What the threads of a process wait in, of real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.support.waiting import block_until
from tony.linux.thread_waits import count_switches, describe_waits


@pytest.fixture
def start() -> Iterator[Callable[[str], int]]:
    started: list[subprocess.Popen[bytes]] = []

    def start_program(code: str) -> int:
        started.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE))
        return started[-1].pid

    yield start_program
    for each in started:
        each.kill()
        each.communicate()


@pytest.mark.parametrize(
    ("code", "main", "others"),
    [
        ("import time; time.sleep(1000)", "sleep", ""),
        ("import select; select.select([], [], [], 1000)", "sleep", ""),
        ("import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()", "futex", ""),
        ("import sys; sys.stdin.read()", "read a pipe", ""),
        ("import socket; pair = socket.socketpair(); pair[0].recv(1)", "recvfrom", ""),
        ("import select; select.poll().poll()", "poll without timeout", ""),
        ("import select; select.epoll().poll()", "epoll_wait", ""),
        (
            "import threading, time; threading.Thread(target=time.sleep, args=[1000]).start()",
            "futex",
            "sleep",
        ),
    ],
)
def test_the_system_calls_of_threads_are_named(start: Callable[[str], int], code: str, main: str, others: str) -> None:
    pid = start(code)
    block_until(lambda: describe_waits(pid) == (main, others))
    assert count_switches(pid) > 0


def test_of_a_process_that_has_exited_nothing_is_known() -> None:
    assert describe_waits(2**22 + 1) == ("", "")
    assert count_switches(2**22 + 1) == -1
