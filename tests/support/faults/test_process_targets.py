"""Which of this machine's processes a target is: exactly the intended one, or none."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.plan import MASTER, FillDisk, Kill, Stop, executor, program
from tests.support.faults.process_targets import NoTargetError, Victim, find, inject, undo
from tests.support.waiting import block_until
from tony.core.state import State
from tony.linux import process
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.states import TaskState

#: Plays an executor: one of ours by its command line, with a program below it.
EXECUTOR = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """An executor and its program."""
    argv = [sys.executable, "-c", f"{EXECUTOR}  # tony"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        program = int(running.stdout.readline())
        yield running.pid, program
        process.send(program, signal.SIGKILL)
        running.kill()


def state(executor: int, program: int, *, master: int = 0, host: str = "") -> State:
    """A job whose log has these pids."""
    made = State("job", JobSpec(command="true", roles={"worker": Role(instances=1)}))
    made.am_pid, made.am_host = master, host or socket.gethostname()
    task = made.tasks[TaskId("worker", 0)]
    task.state, task.container, task.executor_pid, task.pid = TaskState.RUNNING, "c-1", executor, program
    return made


def test_another_process_with_a_reused_pid_is_left_alone(family: tuple[int, int]) -> None:
    """A program is its executor's child and an executor one of tony's processes: any other process has reused the
    pid."""
    parent, child = family
    for target, around in (
        (program("worker:0"), state(parent, os.getppid())),
        (executor("worker:0"), state(child, child)),
        (MASTER, state(parent, child, master=parent, host="elsewhere")),
    ):
        with pytest.raises(NoTargetError):
            find(target, around)
    assert find(MASTER, state(parent, child, master=parent)).pid == parent


def test_ended_processes_are_no_target(family: tuple[int, int]) -> None:
    """Neither dead ones nor those of tasks that do not run."""
    around = state(*family)
    victim = find(program("worker:0"), around)
    around.tasks[TaskId("worker", 0)].state = TaskState.SUCCEEDED
    with pytest.raises(NoTargetError):
        find(program("worker:0"), around)
    inject(victim, Kill())
    block_until(lambda: not victim.is_alive)
    with pytest.raises(NoTargetError):
        inject(victim, Stop())
    undo(victim, Stop())
    undo(victim, FillDisk())


def test_another_process_of_the_same_pid_is_not_hit(family: tuple[int, int]) -> None:
    """Its start time says that it is another one."""
    pid, _ = family
    other = Victim(pid, (process.start_time(pid) or 0) + 1)
    with pytest.raises(NoTargetError):
        inject(other, Kill())
    assert process.is_alive(pid)


def test_a_disk_is_full_for_one_process(tmp_path: Path) -> None:
    """Its writes fail, ours do not; when it is over there is room again."""
    code = (
        "import sys\\n"
        "for line in sys.stdin:\\n"
        "    try:\\n"
        "        with open(sys.argv[1], 'ab', buffering=0) as out: out.write(b'x')\\n"
        "        print('written', flush=True)\\n"
        "    except OSError as error:\\n"
        "        print(error.strerror, flush=True)\\n"
    )
    argv = [sys.executable, "-c", code.replace("\\n", "\n"), str(tmp_path / "file")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as running:
        assert running.stdin is not None
        assert running.stdout is not None

        def write() -> str:
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write("write\n")
            return running.stdout.readline().strip()

        said = [write()]
        victim = Victim(running.pid, process.start_time(running.pid) or 0)
        limits = resource.prlimit(running.pid, resource.RLIMIT_FSIZE)
        inject(victim, FillDisk())
        said.append(write())
        undo(victim, FillDisk())
        said.append(write())
        assert said == ["written", "File too large", "written"]
        assert limits == resource.prlimit(running.pid, resource.RLIMIT_FSIZE)
        running.stdin.close()
