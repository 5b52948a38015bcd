"""Application masters come up, or it is known why they did not."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.support.waiting import wait_until
from tony.errors import SchedulerError
from tony.linux import process
from tony.model.state_directory import JobFolder
from tony.schedulers.local.supervision import am_start
from tony.schedulers.local.supervision.am_start import build_master_command, start_master
from tony.testing.allocator_bench import TIMEOUT_SECONDS


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


def program(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", f"import os, sys, time\n{code}"]


COMES_UP = """
print("hello")
assert os.getsid(0) == os.getpid() and not sys.stdin.read()
open("am.json.new", "w").write(str(os.getpid()))
os.rename("am.json.new", "am.json")
os.close(int(sys.argv[1]))
time.sleep(600)
"""


def test_returns_when_it_lives(folder: JobFolder) -> None:
    """Detached, in the job's folder, its output in its log; and when it ends no zombie stays."""
    asyncio.run(start_master(folder, program(COMES_UP)))
    pid = int(folder.am.read_text())
    assert process.is_alive(pid)
    os.kill(pid, signal.SIGTERM)
    wait_reaped(pid)


def wait_reaped(pid: int) -> None:
    async def wait() -> None:
        await wait_until(lambda: process.start_time(pid) is None)

    asyncio.run(wait())


def test_a_job_that_is_over_at_once_has_been_started(folder: JobFolder) -> None:
    """The whole life of a master may be over before we look."""
    asyncio.run(start_master(folder, program("open('summary.json', 'w'); sys.exit(0)")))
    assert folder.summary.exists()


def test_a_failed_start_has_its_reason(folder: JobFolder) -> None:
    """Its exit code and the end of its log."""
    folder.am_log.write_text("".join(f"line {i}\n" for i in range(100)))
    with pytest.raises(SchedulerError) as caught:
        asyncio.run(start_master(folder, program("print('no secret, no job'); sys.exit(3)")))
    text = str(caught.value)
    assert mentions(text, "code 3", folder.job_id)
    assert text.endswith("line 99\n  no secret, no job")
    assert "line 89" not in text


def test_silent_death(folder: JobFolder) -> None:
    """A signal is named, and an empty log is said to be so."""
    with pytest.raises(SchedulerError, match="SIGKILL"):
        asyncio.run(start_master(folder, program("os.kill(os.getpid(), 9)")))


def test_an_am_that_never_starts_is_stopped(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of a failed start."""
    monkeypatch.setattr(am_start, "_START_SECONDS", 0.5)
    with pytest.raises(SchedulerError, match=r"did not start within 0\.5 s"):
        asyncio.run(start_master(folder, program("open('pid', 'w').write(str(os.getpid())); time.sleep(600)")))
    pid = folder.path / "pid"
    assert not pid.exists() or process.start_time(int(pid.read_text())) is None


async def test_cancelled_start_leaves_nothing(folder: JobFolder) -> None:
    starting = asyncio.ensure_future(
        start_master(folder, program("open('pid', 'w').write(str(os.getpid())); time.sleep(600)"))
    )
    pid = folder.path / "pid"
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (pid.exists() and pid.read_text()):
            await asyncio.sleep(0.005)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert process.start_time(int(pid.read_text())) is None


def test_program_that_is_not_there(folder: JobFolder) -> None:
    """An interpreter that has been removed, say."""
    with pytest.raises(SchedulerError, match=r"cannot be started: /no/such/program"):
        asyncio.run(start_master(folder, ["/no/such/program"]))


def test_the_real_one_explains_itself(folder: JobFolder) -> None:
    """A folder that is no job's ends the real master with its reason in the log."""
    with pytest.raises(SchedulerError, match="exited with exit code"):
        asyncio.run(start_master(folder))
    assert build_master_command(folder)[-1] == str(folder.path)
