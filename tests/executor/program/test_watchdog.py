"""The watchdog by itself: what it does when its pipe ends."""

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import block_until
from tony import clock
from tony.executor.program import progress_folder
from tony.executor.program.watchdog import Watchdog
from tony.isolated_interpreter import command
from tony.linux import process


@pytest.mark.parametrize("farewell", [b"bye\n", b""])
def test_the_control_group_is_removed_after_the_executor(tmp_path: Path, farewell: bytes) -> None:
    """The application master that made it may have been killed: no other process would remove it."""
    groups = [tmp_path / "memory" / "tony" / "c-1", tmp_path / "cpu" / "tony" / "c-1"]
    for group in groups:
        group.mkdir(parents=True)
    subprocess.run(
        command("tony.executor.program.watchdog", f"TONY_TASK={tmp_path}/c-1/", *map(str, groups)),
        input=farewell,
        check=True,
        timeout=60,
    )
    assert list(tmp_path.glob("*/tony")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a socket outside of the job directory")
@pytest.mark.parametrize(("farewell", "is_left"), [(b"bye\n", True), (b"", False)])
def test_the_progress_folder_of_a_killed_executor_is_removed(farewell: bytes, is_left: bool) -> None:
    """An executor that ends normally removes its own."""
    marker = f"TONY_TASK=test-{os.getpid()}/{secrets.token_hex(8)}"
    folder = progress_folder.build_path(marker)
    (folder / "inner").mkdir(parents=True)
    try:
        subprocess.run(command("tony.executor.program.watchdog", marker), input=farewell, check=True, timeout=60)
        assert folder.exists() is is_left
    finally:
        progress_folder.remove_folders(marker)
    assert not folder.exists()


class Kennel:
    """A watchdog of this process, and a program that it minds."""

    def __init__(self) -> None:
        self.marker = f"TONY_TASK=test-{os.getpid()}/{secrets.token_hex(8)}"
        self.dog = Watchdog(self.marker, ())
        self.dog.replace()
        self.programs: list[subprocess.Popen[bytes]] = []

    def program(self) -> subprocess.Popen[bytes]:
        name, _, value = self.marker.partition("=")
        started = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, name: value}
        )
        self.programs.append(started)
        return started

    def close(self) -> None:
        self.dog.dismiss()
        process.sweep(self.marker)
        for program in self.programs:
            program.wait()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.dog.pid, 0)


@pytest.fixture
def kennel() -> Iterator[Kennel]:
    made = Kennel()
    yield made
    made.close()


def test_a_stopped_executor_does_not_keep_its_program(kennel: Kennel) -> None:
    """Its lease has expired and it is silent but alive: it was stopped, and its program was not."""
    program = kennel.program()
    kennel.dog.renew_lease(clock.monotonic() + 0.1, timeout=0.1)
    assert program.wait(30) == -9


def test_a_machine_that_has_slept_has_time(kennel: Kennel) -> None:
    """The lease has ended when it wakes up; the executor is given time to renew it."""
    program = kennel.program()
    long_ago = clock.monotonic() / 2  # the machine may have begun within the hour
    kennel.dog.renew_lease(long_ago, timeout=60.0)
    other = Kennel()
    try:
        hasty = other.program()
        other.dog.renew_lease(long_ago, timeout=0.2)
        assert hasty.wait(30) == -9
    finally:
        other.close()
    assert program.poll() is None
    kennel.dog.renew_lease(clock.monotonic() + 3600, timeout=60.0)
    kennel.dog.renew_lease(clock.monotonic() - 1.0, timeout=0.0)
    assert program.wait(30) == -9


def test_the_next_watchdog_knows_the_lease(kennel: Kennel) -> None:
    """One that was killed is replaced, and what it knew is told again."""
    program = kennel.program()
    kennel.dog.renew_lease(clock.monotonic() + 2.0, timeout=0.0)
    os.kill(kennel.dog.pid, 9)
    os.waitpid(kennel.dog.pid, 0)
    kennel.dog.replace()
    block_until(lambda: program.poll() is not None)
    assert program.returncode == -9
