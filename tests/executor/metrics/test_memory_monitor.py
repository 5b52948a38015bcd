"""Memory limits: kept by the kernel where it may, else measured and enforced; either way said in words."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Master
from tests.facts import mentions
from tests.support.waiting import block_until
from tony.executor.metrics.memory_monitor import MemoryMonitor
from tony.executor.program.process_tree import ProcessTree
from tony.linux import container_cgroup
from tony.model.program_exit import ExitReason
from tony.protocol import executor_messages as msg
from tony.protocol.remote_program_messages import RemoteProgramExited, StartRemoteProgram, encode_arguments
from tony.protocol.tunnel_messages import JoinTunnel

pytestmark = pytest.mark.slow

MIB = 1 << 20
EATER = "import time; x = [bytearray(b'x') * (1 << 20) for _ in range(256)]; time.sleep(600)"


@pytest.fixture
def group() -> Iterator[tuple[str, ...]]:
    """A real control group with a limit of 64 MiB."""
    folders = container_cgroup.create(f"test-{os.getpid()}-{os.urandom(3).hex()}", 64 * MIB, 512)
    if not folders:
        pytest.skip("no control group with a memory limit may be made here")
    yield folders
    container_cgroup.kill(folders)
    assert container_cgroup.remove(folders)


def test_a_program_above_its_limit_is_killed_and_classified(master: Master, guest: Start) -> None:
    """Without a control group the executor measures, kills everything, and says how much it was."""
    executor = guest((sys.executable, "-c", EATER), memory=100 * MIB)
    master.wait(msg.Ready)
    master.start()
    status = master.wait(msg.ProgramExited).status
    assert (status.reason, status.signal) == (ExitReason.MEMORY, "SIGKILL")
    assert status.message.startswith("ran out of memory (limit 100m): ")
    assert status.message.endswith(" used, killed by the executor")
    assert status.peak_memory is not None
    assert status.peak_memory > 100 * MIB
    assert executor.programs() == []


def test_measured_peak_of_a_modest_program(master: Master, guest: Start) -> None:
    """Also of one that has ended before the first look."""
    guest((sys.executable, "-S", "-c", "x = bytearray(b'x') * (64 << 20)"), memory=1 << 30)
    master.wait(msg.Ready)
    master.start()
    status = master.wait(msg.ProgramExited).status
    assert status.ok
    assert status.peak_memory is not None
    assert 64 * MIB < status.peak_memory < 128 * MIB


def test_shared_pages_count_once(master: Master, guest: Start) -> None:
    """Four children that share 64 MiB with their parent are no 320 MiB."""
    code = (
        "import os, time\nx = bytearray(b'x') * (64 << 20)\n"
        "for _ in range(4):\n    if os.fork() == 0: time.sleep(1.5); os._exit(0)\n"
        "for _ in range(4): os.wait()"
    )
    guest((sys.executable, "-S", "-c", code), memory=160 * MIB)
    master.wait(msg.Ready)
    master.start()
    status = master.wait(msg.ProgramExited).status
    assert status.ok, status


def test_kernel_kills_at_the_groups_limit(master: Master, guest: Start, group: tuple[str, ...]) -> None:
    """The verdict names limit and kernel, not a bare signal; the peak is never above the limit."""
    guest((sys.executable, "-c", EATER), memory=64 * MIB, cgroup=group)
    master.wait(msg.Ready)
    master.start()
    status = master.wait(msg.ProgramExited).status
    assert (status.reason, status.signal) == (ExitReason.MEMORY, "SIGKILL")
    assert status.message == "ran out of memory (limit 64m): 1 process killed by the kernel"
    assert status.peak_memory is not None
    assert 32 * MIB < status.peak_memory <= 64 * MIB


def test_killed_grandchild_is_the_reason_of_the_failure(master: Master, guest: Start, group: tuple[str, ...]) -> None:
    """The kernel kills a child below the shell, the shell fails: memory all the same, not exit code 137."""
    guest(f'{sys.executable} -c "{EATER}"; exit $?', memory=64 * MIB, cgroup=group)
    master.wait(msg.Ready)
    master.start()
    status = master.wait(msg.ProgramExited).status
    assert (status.reason, status.code) == (ExitReason.MEMORY, 137)
    assert status.message == "ran out of memory (limit 64m): 1 process killed by the kernel"


def test_program_that_gets_over_a_killed_child_succeeds_with_a_note(
    master: Master, guest: Start, group: tuple[str, ...]
) -> None:
    """It went on and ended well; that a child was killed is still said. The next try starts from nothing."""
    guest(
        f'if [ ! -e again ]; then touch again; {sys.executable} -c "{EATER}"; fi; exit 0', memory=64 * MIB, cgroup=group
    )
    master.wait(msg.Ready)
    master.start()
    status = master.wait(msg.ProgramExited).status
    assert status.ok
    assert mentions(status.message, "code 0", "64m", "1 process")
    master.start(try_=2)
    second = master.wait(msg.ProgramExited, lambda each: each.try_ == 2).status
    assert (second.ok, second.message) == (True, "")
    assert second.peak_memory is not None
    assert second.peak_memory < 32 * MIB


def test_group_holds_all_and_is_emptied(master: Master, guest: Start, group: tuple[str, ...]) -> None:
    """Even who has cleared its environment and left its session is in the group, and dies with the executor."""
    executor = guest("(setsid env -i sleep 600 &); sleep 600; echo", memory=64 * MIB, cgroup=group)
    master.wait(msg.Ready)
    master.start()
    master.wait(msg.ProgramStarted)
    master.until(lambda: len(container_cgroup.processes(group)) == 3)
    beat = master.wait(msg.Heartbeat, lambda each: each.memory is not None)
    assert beat.memory is not None
    assert 0 < beat.memory <= 64 * MIB
    executor.process.kill()
    master.until(lambda: not container_cgroup.processes(group))


@pytest.mark.parametrize(("before", "measured"), [("4096", False), (str(64 * MIB), True), (None, True)])
async def test_a_peak_of_the_kernel_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, measured: bool
) -> None:
    """Unless it keeps no peak, or only that of earlier task attempts, which it does not reset (v2)."""
    for name in ("_FIRST_SECONDS", "_INTERVAL_SECONDS", "_PAUSE_RATIO"):
        monkeypatch.setattr(f"tony.executor.metrics.memory_monitor.{name}", 0.0)
    if before is not None:
        (tmp_path / "memory.peak").write_text(before)
    (tmp_path / "memory.current").write_text("8192")
    meter = MemoryMonitor(MIB, ProcessTree("", [str(tmp_path)], lambda: ()), lambda pids: None)
    watching = asyncio.ensure_future(meter.watch())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not watching.done()
    (tmp_path / "memory.peak").unlink(missing_ok=True)
    assert meter.read_peak(0) == (8192 if measured else None)
    assert meter.read_usage() == 8192


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("is_full", "place"), [(True, "its container"), (False, "the machine")])
def test_without_a_group_the_limit_that_was_reached_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, version: int, is_full: bool, place: str
) -> None:
    """The kernel may have killed the program at the limit of the container, or because the machine was full."""
    kills, events = 3, tmp_path / ("memory.oom_control" if version == 1 else "memory.events")
    monkeypatch.setattr(container_cgroup, "list_own_folders", lambda controller: (str(tmp_path),))
    monkeypatch.setattr("tony.linux.process.machine_oom_kills", lambda: kills)
    if version == 1:
        (tmp_path / "memory.limit_in_bytes").write_text(str(192 * MIB))
        (tmp_path / "memory.max_usage_in_bytes").write_text(str((192 if is_full else 80) * MIB))
    events.write_text("oom_kill 0\n" if version == 1 else "oom 0\noom_kill 0\n")
    meter = MemoryMonitor(128 * MIB, ProcessTree("", [], lambda: ()), lambda pids: None)
    kills += 1
    events.write_text("oom_kill 1\n" if version == 1 else f"oom {int(is_full)}\noom_kill 1\n")
    text = meter.describe(170 * MIB, killed=True)
    assert text.startswith(f"ran out of memory: {place} had none left, and the kernel most likely killed this one")


@pytest.mark.parametrize(
    "argv", [(sys.executable, "-c", EATER), ("bash", "-c", '"$@"; exit 0', "-", sys.executable, "-c", EATER)]
)
def test_a_remote_program_that_was_killed_explains_nothing(
    master: Master, guest: Start, group: tuple[str, ...], tmp_path: Path, argv: tuple[str, ...]
) -> None:
    """It counts against the limit of the task, but the program's own failure has another reason."""
    gate = tmp_path / "gate"
    executor = guest(f"until test -e {gate}; do sleep 0.01; done; exit 3", memory=64 * MIB, cgroup=group)
    master.wait(msg.Ready)
    master.start()
    master.wait(msg.ProgramStarted)
    words = tuple(map(os.fsencode, argv))
    master.send(StartRemoteProgram(tunnel="a", argv=encode_arguments(words)))
    far = master.sender(master.wait(JoinTunnel))
    assert master.wait(RemoteProgramExited).code == (0 if argv[0] == "bash" else 137)
    master.call(far.abort)
    block_until(lambda: re.search(r"remote program \d+ ended", executor.log()))
    gate.touch()
    status = master.wait(msg.ProgramExited).status
    assert (status.reason, status.code) == (ExitReason.EXITED, 3)
    assert "memory" not in status.message
