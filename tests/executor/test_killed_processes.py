"""Whichever process dies, nothing of the program is left, and the job continues where it can."""

import os
import signal

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tests.executor.program.test_stopping import DAEMON, started
from tests.support.waiting import block_until
from tony.linux import process
from tony.protocol import executor_messages as msg

pytestmark = pytest.mark.slow

#: A program with a child below a shell, a daemon, and one that has lost its marker.
CROWD = (
    f"{DAEMON.format(wrap='', name='daemon')}; {DAEMON.format(wrap='env -i', name='orphan')};"
    "echo $$ > shell; sleep 600; echo never"
)
CROWD_FILES = ("shell", "daemon", "orphan")


def all_gone(pids: list[int]) -> None:
    """Waits until none of them is alive."""
    block_until(lambda: not any(process.is_alive(pid) for pid in pids))


def crowd(master: Master, guest: Start) -> tuple[Guest, list[int]]:
    """An executor whose program has started everything there is."""
    executor = guest(CROWD)
    pids = started(master, executor, *CROWD_FILES)
    # Who carries no marker is pointed out to the watchdog when memory is measured: until then only we know of it.
    master.wait(msg.Heartbeat, lambda beat: beat.memory is not None)
    before = len(master.all(msg.Heartbeat))
    master.until(lambda: len(master.all(msg.Heartbeat)) > before + 8)
    return executor, pids


def test_killed_executor_takes_everything_with_it(master: Master, guest: Start) -> None:
    """SIGKILL to the executor: shell, child, daemon and a daemon without a marker die; so does the watchdog."""
    executor, pids = crowd(master, guest)
    watchdog = executor.watchdog()
    executor.process.kill()
    all_gone([*pids, watchdog])
    assert executor.programs() == []
    assert executor.process.stderr is not None
    assert b"the executor died; the watchdog killed" in executor.process.stderr.read()


def test_killed_watchdog_is_replaced(master: Master, guest: Start) -> None:
    """The program does not notice; the next watchdog knows all that the first one knew."""
    executor, pids = crowd(master, guest)
    first = executor.watchdog()
    os.kill(first, signal.SIGKILL)
    block_until(lambda: not process.is_alive(first) and "starting another one" in executor.log())
    second = executor.watchdog()
    assert all(process.is_alive(pid) for pid in pids)
    executor.process.kill()
    all_gone([*pids, second])


def test_replaced_watchdog_is_dismissed(master: Master, guest: Start) -> None:
    """In the end nothing is left of it either."""
    executor = guest()
    master.wait(msg.Ready)
    first = executor.watchdog()
    os.kill(first, signal.SIGKILL)
    block_until(lambda: not process.is_alive(first))
    second = executor.watchdog()
    master.send(msg.ReleaseExecutor())
    assert executor.wait() == 0
    all_gone([second])
