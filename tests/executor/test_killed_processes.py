"""Whichever process dies, nothing of the program is left, and the job continues where it can."""

import os
import signal
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tests.executor.program.test_stopping import DAEMON, started
from tests.support.waiting import block_until
from tony.linux import process
from tony.model.exit_status import ExitReason
from tony.protocol import executor_messages as msg
from tony.protocol.error_codes import Code

pytestmark = pytest.mark.slow

#: A program with a child below a shell, a daemon, and one that has lost its marker.
CROWD = (
    f"{DAEMON.format(wrap='', name='daemon')}; {DAEMON.format(wrap='env -i', name='stray')};"
    "echo $$ > shell; sleep 600; echo never"
)
CROWD_FILES = ("shell", "daemon", "stray")


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


def test_without_application_master_the_program_is_stopped(master: Master, guest: Start) -> None:
    """With a lease of zero: SIGTERM and its grace, then the executor ends and says why."""
    executor = guest("trap 'echo in order; exit' TERM; echo $$ > pid; sleep 600 & wait")
    started(master, executor, "pid")
    master.stop_listening()
    assert executor.wait() == 3
    assert executor.read("worker-0.s1.t1.out") == "in order\n"
    assert "lost contact with the application master" in executor.log().splitlines()[-1]
    assert executor.programs() == []


def test_the_lease_outlasts_an_am_restart(master: Master, guest: Start) -> None:
    """The next attempt finds the same executor and program; exits in between are reported once."""
    executor = guest("while [ ! -e go ]; do sleep 0.01; done; exit 5", lease=60.0)
    master.wait(msg.Ready)
    master.start()
    started_at = master.wait(msg.ProgramStarted)
    master.stop_listening()
    Path(f"/proc/{started_at.pid}/cwd/go").touch()
    block_until(lambda: "task attempt 1 ended: exit code 5" in executor.log())
    master.attempt = 2
    master.listen()
    end = master.wait(msg.ProgramExited)
    assert (end.status.reason, end.status.code, end.n) == (ExitReason.EXITED, 5, 3)
    assert end.ago > 0
    first, second = master.all(msg.Attach)
    assert (first.incarnation, first.highest_attempt) == (second.incarnation, 1)
    assert len(master.all(msg.ProgramStarted)) == 1
    master.send(msg.ReleaseExecutor())
    assert executor.wait() == 0


def test_refused_executor_stops_its_program(master: Master, guest: Start) -> None:
    """An application master that has another executor for the task says so: this one is not wanted."""
    executor = guest("echo $$ > pid; exec sleep 600")
    (pid,) = started(master, executor, "pid")
    connection = master.connection()
    master.call(connection.refuse, Code.STALE, "another one has this task")
    assert executor.wait() == 3
    assert not process.is_alive(pid)
    assert "another one has this task" in executor.log().splitlines()[-1]
