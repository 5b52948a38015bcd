"""Stopping programs: a chance to end in order, and then no escape."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tests.facts import mentions
from tests.support.waiting import block_until
from tony.linux import process
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol import executor_messages as msg

pytestmark = pytest.mark.slow

#: Forks twice, leads a session of its own, shuns SIGTERM; writes its pid into a file. `env -i` also loses the marker.
DAEMON = "(setsid {wrap} bash -c 'trap \"\" TERM; echo $$ > {name}; while true; do sleep 600; done' &)"


def started(master: Master, executor: Guest, *files: str) -> list[int]:
    """Has the program started; answers the pids that it wrote into files."""
    master.wait(msg.Ready)
    master.start()
    return [written(executor, name) for name in files]


def written(executor: Guest, name: str) -> int:
    """The number in a file of the working directory, once it is there."""
    path = Path(executor.context.container.work_folder) / name
    block_until(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def stopped(master: Master, grace: float) -> ExitStatus:
    """How the program ended after it was asked to."""
    master.send(msg.StopProgram(session=1, grace=grace, reason="enough"))
    status = master.wait(msg.ProgramExited).status
    assert status.reason is ExitReason.STOPPED
    return status


def test_program_gets_the_chance_to_end_in_order(master: Master, guest: Start) -> None:
    """SIGTERM reaches it; what it does then and its code are its own."""
    executor = guest("trap 'echo bye; exit 9' TERM; echo $$ > pid; sleep 600 & wait")
    started(master, executor, "pid")
    status = stopped(master, 30.0)
    assert (status.code, status.message) == (9, "stopped (enough)")
    assert executor.read("worker-0.s1.t1.out") == "bye\n"


def test_children_of_a_shell_get_the_grace_period_too(master: Master, guest: Start) -> None:
    """Bash dies of SIGTERM at once; the program that it runs may still clean up."""
    child = (
        "import signal, sys, time, os\n"
        "def end(*_):\n    time.sleep(0.3); print('in order'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    )
    executor = guest(f'{sys.executable} -c "$CHILD"; echo never', env={"CHILD": child})
    started(master, executor, "pid")
    status = stopped(master, 30.0)
    assert executor.read("worker-0.s1.t1.out") == "in order\n"
    assert status.signal == "SIGTERM"


def test_a_suspended_program_is_continued_to_stop(master: Master, guest: Start) -> None:
    """SIGSTOP, by hand or by a debugger, does not use up the grace period: SIGCONT follows SIGTERM at once."""
    executor = guest("trap 'echo bye; exit 9' TERM; echo $$ > pid; kill -STOP $$")
    (pid,) = started(master, executor, "pid")
    block_until(lambda: "\nState:\tT" in Path(f"/proc/{pid}/status").read_text())
    assert (stopped(master, 600.0).code, executor.read("worker-0.s1.t1.out")) == (9, "bye\n")


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(master: Master, guest: Start) -> None:
    """So is a daemon that does the same."""
    executor = guest(
        f"{DAEMON.format(wrap='', name='daemon')}; trap '' TERM; echo $$ > pid; while true; do sleep 600; done"
    )
    (daemon, _) = started(master, executor, "daemon", "pid")
    status = stopped(master, 0.3)
    assert not process.is_alive(daemon)
    assert status.signal == "SIGKILL"
    assert mentions(status.message, "0.3 s", "SIGTERM", "killed")
    assert executor.programs() == []


def test_shorter_grace_overtakes_a_longer_one(master: Master, guest: Start) -> None:
    """Who has lost patience need not wait for the first grace."""
    executor = guest("trap '' TERM; echo $$ > pid; while true; do sleep 600; done")
    started(master, executor, "pid")
    master.send(msg.StopProgram(session=1, grace=600.0))
    assert stopped(master, 0.0).signal == "SIGKILL"


def test_grandchildren_in_other_groups_get_sigterm(master: Master, guest: Start) -> None:
    """Not only the group of the first process."""
    nested = "trap 'echo term > heard; exit' TERM; echo $$ > nested; sleep 600 & wait"
    executor = guest("setsid bash -c \"$NESTED\" & trap 'wait; exit 0' TERM; wait", env={"NESTED": nested})
    started(master, executor, "nested")
    stopped(master, 30.0)
    assert (Path(executor.context.container.work_folder) / "heard").read_text() == "term\n"


def test_daemons_do_not_outlive_the_program(master: Master, guest: Start) -> None:
    """When the program has ended by itself, what it left behind is ended before the end is reported."""
    wraps = {"marked": "", "unmarked": "env -i"}
    daemons = " ".join(DAEMON.format(wrap=wrap, name=name) + "; " for name, wrap in wraps.items())
    executor = guest(f"{daemons} while [ ! -s marked ] || [ ! -s unmarked ]; do sleep 0.01; done; exit 0")
    pids = started(master, executor, *wraps)
    status = master.wait(msg.ProgramExited).status
    assert status.ok
    assert mentions(status.message, "code 0", "4 processes", "bash, sleep")
    assert [pid for pid in pids if process.is_alive(pid)] == []


def test_release_stops_the_program_and_reports_its_exit(master: Master, guest: Start) -> None:
    """No process is left, and no report is lost."""
    executor = guest("echo $$ > pid; exec sleep 600")
    (pid,) = started(master, executor, "pid")
    master.send(msg.ReleaseExecutor(grace=5.0))
    assert executor.wait() == 0
    assert master.wait(msg.ProgramExited).status.signal == "SIGTERM"
    assert not process.is_alive(pid)


def test_sigterm_to_the_executor_is_passed_on(master: Master, guest: Start) -> None:
    """As YARN's node manager sends it: the program is stopped, its end reported, the executor ends."""
    executor = guest("trap 'exit 11' TERM; echo $$ > pid; sleep 600 & wait")
    started(master, executor, "pid")
    os.kill(executor.pid, signal.SIGTERM)
    assert executor.wait() == 128 + signal.SIGTERM
    status = master.wait(msg.ProgramExited).status
    assert (status.code, status.message) == (11, "stopped (the executor received SIGTERM)")


def test_program_that_ended_before_the_stop_was_not_stopped(master: Master, guest: Start) -> None:
    """A stop that comes too late changes nothing about how it ended."""
    guest("exit 3")
    master.wait(msg.Ready)
    master.start()
    master.wait(msg.ProgramExited)
    master.send(msg.StopProgram(session=1, grace=1.0))
    master.send(msg.ReleaseExecutor())
    master.until(lambda: master.closed_count)
    (end,) = master.all(msg.ProgramExited)
    assert (end.status.reason, end.status.code) == (ExitReason.EXITED, 3)
