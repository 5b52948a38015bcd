"""A main thread is parked if it sleeps or waits for a lock, and no thread may read input."""

from __future__ import annotations

import pytest

from tony.diagnosis.parked_threads import find_parked_thread
from tony.executor.program.stack_dump import format_waits

THREADING, SOCKET = "/usr/lib/python3.11/threading.py", "/usr/lib/python3.11/socket.py"
LOCK = "main thread in futex (8 waits before, 9 after); other threads in epoll_wait, poll without timeout, futex"
SLEEP = "main thread in sleep (8 waits before, 9 after)"
THREAD = '\nThread 1 (idle): "MainThread"'


def is_parked(process: str, called: str = "", others: str = "", child: str = "") -> bool:
    own = process + THREAD
    return find_parked_thread(own, [own, child] if child else [own], called.split(), others.split()) is not None


def test_one_that_sleeps_or_waits_for_a_lock_is_parked() -> None:
    assert is_parked("python x.py\n" + SLEEP)
    assert is_parked(SLEEP + "; other threads in epoll_wait, futex", others=THREADING)
    assert is_parked(LOCK, called=THREADING, others=THREADING)
    found = find_parked_thread(LOCK + THREAD, [LOCK + THREAD], [], [])
    assert found
    assert (found.waits_before, found.waits_after, found.is_native) == (8, 9, True)
    asleep = find_parked_thread(SLEEP, [SLEEP], [], [])
    assert asleep
    assert not asleep.is_native


def test_a_shell_that_waits_for_the_program_reads_nothing() -> None:
    assert is_parked(SLEEP, child="main thread in wait4 (1 waits before, 1 after)\nthread 7 (sh): sleeping")


def test_the_line_is_read_as_executors_write_it() -> None:
    line = format_waits(("futex", "epoll_wait, read a pipe"), 8, 9) + THREAD.lstrip()
    found = find_parked_thread(line, [line], [], [])
    assert found
    assert (found.waits_before, found.waits_after) == (8, 9)
    assert format_waits(("", ""), 8, 9) == ""


@pytest.mark.parametrize(
    ("process", "called", "others", "child"),
    [
        pytest.param("", "", "", "", id="nothing is known"),
        pytest.param("main thread in recvfrom (8 waits before, 9 after)", "", "", "", id="it reads"),
        pytest.param(SLEEP, "/site-packages/requests/a.py", "", "", id="a library"),
        pytest.param(
            SLEEP + "; other threads in recvfrom", "", "", "", id="it sleeps while a thread of a library reads"
        ),
        pytest.param(SLEEP, "", SOCKET, "", id="it sleeps while a thread of Python reads"),
        pytest.param(LOCK, "/site-packages/fsspec/asyn.py", "", "", id="a lock of a library"),
        pytest.param(LOCK, "", SOCKET, "", id="a thread of Python reads"),
        pytest.param(LOCK + ", recvfrom", "", "", "", id="a thread of a library reads"),
        pytest.param(LOCK, "", "", "main thread in read a file (1 waits before, 1 after)", id="a child reads"),
        pytest.param(SLEEP, "", "", "thread 7 (aws): sleeping", id="of a child nothing is known"),
        pytest.param(SLEEP, "", "", LOCK.replace("python", "aws"), id="a child that is not Python may read"),
    ],
)
def test_one_that_may_wait_for_input_is_not_parked(process: str, called: str, others: str, child: str) -> None:
    assert not is_parked(process, called, others, child)
