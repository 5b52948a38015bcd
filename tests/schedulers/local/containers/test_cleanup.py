"""Whatever a container or a job leaves behind is found and ended, and nothing else is."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import block_until
from tony.linux import process
from tony.linux.process import environment_of
from tony.schedulers.local.containers import cleanup
from tony.schedulers.local.containers.container_recovery import (
    Launched,
    LaunchRecord,
    find_highest_container_number,
    read_launch_record,
    record_launch,
)

NOTHING = LaunchRecord()
ADOPTER = Path(__file__).with_name("dying_am.py")
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a sleeping process with these variables, in a session of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*argv: str, **env: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv or ("sleep", "600"), env={**os.environ, **env}, start_new_session=True)
        started.append(process)
        block_until(lambda: environment_of(process.pid))  # the kernel shows it only after the start
        return process

    yield run
    for each in started:
        each.kill()
        each.wait()


def job() -> str:
    return f"test-{uuid.uuid4()}"


def test_container_alone_is_ended(start: Start) -> None:
    """What belongs to one container dies; c-10 is not c-1."""
    name = job()
    program = start(TONY_TASK=f"{name}/c-1/nonce")
    neighbour = start(TONY_TASK=f"{name}/c-10/nonce")
    bystander = start(PWD=f"/somewhere/{name}/c-1/")
    assert cleanup.end_container(name, "c-1", ())
    assert not process.is_alive(program.pid)
    assert process.is_alive(neighbour.pid)
    assert process.is_alive(bystander.pid)


def test_whole_job_is_ended(start: Start) -> None:
    """Executors and programs of all containers, of this job only."""
    name = job()
    mine = [start(TONY_TASK=f"{name}/c-1/n"), start(TONY_EXECUTOR=f"{name}/c-1/"), start(TONY_TASK=f"{name}/c-2/n")]
    other = start(TONY_TASK=f"{name}x/c-1/n")
    assert cleanup.end_job(name, NOTHING)
    assert [process.is_alive(each.pid) for each in mine] == [False] * 3
    assert process.is_alive(other.pid)
    assert cleanup.end_job(name, NOTHING)


#: Waits until its parent is dead, takes a moment to do its work, and says that it is done.
HELPER = """
import os, sys, time
while os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
time.sleep(0.2)
open(sys.argv[2], "w").close()
"""
EXECUTOR = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]])
time.sleep(600)
"""


def test_watchdog_may_finish(start: Start, tmp_path: Path) -> None:
    """An executor's helper, which knows processes that cannot be found otherwise, is not killed with the executor."""
    name = job()
    start(sys.executable, "-c", EXECUTOR, HELPER, str(tmp_path / "done"), TONY_EXECUTOR=f"{name}/c-1/")
    deadline = time.monotonic() + 30
    while len(process.with_marker(f"TONY_EXECUTOR={name}/")) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cleanup.end_job(name, NOTHING)
    assert (tmp_path / "done").exists()


def test_a_launch_is_recorded_for_the_cleanup(tmp_path: Path, start: Start) -> None:
    """The record grows, and may be missing; a pid is recorded with its process's start time."""
    file = tmp_path / "remains"
    assert read_launch_record(file) == NOTHING
    record_launch(file, groups=("/a b", "/c"))
    executor = start()
    born = process.start_time(executor.pid)
    assert born
    held = Launched(container="c-1", role="w", pid=executor.pid, start=born, devices=("GPU-1", "0"), groups=("/a b",))
    record_launch(file, launched=held)
    found = read_launch_record(file)
    assert found == LaunchRecord(launched=(held,), groups=("/a b", "/c"))
    assert found.executors == {executor.pid: born}


@pytest.mark.parametrize("torn", ["laun", "launched", 'launched {"container":"c-1"', "group /sys/fs/cgroup/tony"])
def test_line_that_a_full_disk_cut_short_is_left_out(tmp_path: Path, torn: str) -> None:
    """It may name another job's resource, such as the parent of its control group; also when more is written after
    it."""
    file = tmp_path / "remains"
    record_launch(file, groups=("/a",))
    with file.open("a") as out:
        out.write(torn)
    assert read_launch_record(file) == LaunchRecord(groups=("/a",))
    held = Launched(container="c-2", role="w", pid=1, start=2)
    record_launch(file, launched=held, groups=("/b",))
    assert read_launch_record(file) == LaunchRecord(launched=(held,), groups=("/a", "/b"))


def test_a_job_but_for_some_containers_is_ended(start: Start) -> None:
    """Those that a later application master takes over are spared, executor and program."""
    name = job()
    kept = [start(TONY_TASK=f"{name}/c-1/n"), start()]
    gone = [start(TONY_TASK=f"{name}/c-10/n"), start(TONY_EXECUTOR=f"{name}/c-2/"), start()]
    launched = []
    for container, each in (("c-1", kept[1]), ("c-3", gone[2])):
        born = process.start_time(each.pid)
        assert born
        launched.append(Launched(container=container, role="w", pid=each.pid, start=born))
    assert cleanup.end_job(name, LaunchRecord(launched=tuple(launched)), ["c-1"])
    assert [process.is_alive(each.pid) for each in kept] == [True, True]
    assert [process.is_alive(each.pid) for each in gone] == [False] * 3


def test_a_program_of_a_kept_container_that_is_just_being_executed_is_spared(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found by its environment, which the kernel shows empty a moment later."""
    name = job()
    program = start(TONY_TASK=f"{name}/c-1/n")
    monkeypatch.setattr(process, "with_marker", lambda *texts: [program.pid])
    monkeypatch.setattr(process, "environment_of", lambda pid: b"")
    assert cleanup.end_job(name, LaunchRecord(), ["c-1"])
    assert process.is_alive(program.pid)


def test_the_highest_number_of_a_container(tmp_path: Path) -> None:
    """Over all event logs, of AM attempts that have ended or not: no number is given twice."""
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b'{"container":"c-9"}\n{"container":"c-12"}\n')
    two.write_bytes(b'{"containers":["c-2","c-3"]}\n{"text":"c-99 "}')
    assert find_highest_container_number([one, two, tmp_path / "3"]) == 12
    assert find_highest_container_number([]) == 0


def test_noted_executors_are_ended_without_a_look_at_their_environment(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors hide it from all but root. All below them ends with them; a successor of a pid is spared."""
    monkeypatch.setattr(cleanup, "_WATCHDOG_SECONDS", 0.05)
    name = job()
    executor = start(sys.executable, "-c", "import os, time; os.fork(); time.sleep(600)")
    born = process.start_time(executor.pid)
    assert born
    while not process.descendants(executor.pid):
        time.sleep(0.01)
    (child,) = process.descendants(executor.pid)
    held = Launched(container="c-1", role="w", pid=executor.pid, start=born - 1)
    assert cleanup.end_job(name, LaunchRecord(launched=(held,)))
    assert process.is_alive(executor.pid)
    assert cleanup.end_job(name, LaunchRecord(launched=(replace(held, start=born),)))
    assert not process.is_alive(executor.pid)
    assert not process.is_alive(child)


@pytest.mark.parametrize("way", [(), ("unlisted",)])
def test_orphans_are_adopted_and_ended(tmp_path: Path, way: tuple[str, ...]) -> None:
    """Even what has no parent, environment, session or group of ours any longer ends with its executor."""
    argv = [sys.executable, str(ADOPTER), str(tmp_path), *way]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert result.stdout.splitlines() == ["its executor was killed by SIGKILL", "nothing lives"], result.stderr


#: Prints what is left while an executor, a helper and an orphan run. A process of its own: all its children count.
ALONE = """
import os, subprocess, sys
from tony.schedulers.local.containers.cleanup import is_nothing_left
helper = subprocess.Popen(["sleep", "600"])
executor = subprocess.Popen(["sleep", "600"], start_new_session=True)
os.mkdir("group")
print(is_nothing_left({executor.pid}, ["group"]), os.path.exists("group"))
orphan = subprocess.Popen(["true"], start_new_session=True)
os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
print(is_nothing_left({executor.pid}, ()))
orphan.wait()
print(is_nothing_left({executor.pid}, ()))
for each in (helper, executor):
    each.kill()
    each.wait()
"""


def test_nothing_is_left_without_child_processes(tmp_path: Path) -> None:
    """Executors and helpers in our own session do not count; all other children do, dead or alive."""
    if process.list_own_children() is None:
        assert not cleanup.is_nothing_left((), ())
        return
    argv = [sys.executable, "-c", ALONE]
    result = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.stdout.splitlines() == ["True False", "False", "True"], result.stderr
