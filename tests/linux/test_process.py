"""Processes: found by family and by marker, killed until none is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.waiting import block_until
from tony.linux import process
from tony.linux.process import command_of, wait_channel

CHILD = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"


@pytest.fixture
def marker() -> Iterator[str]:
    text = f"TONY_TASK=test/{os.getpid()}/{os.urandom(4).hex()}"
    yield text
    process.sweep(text)


def start(marker: str, *command: str) -> subprocess.Popen[str]:
    key, _, value = marker.partition("=")
    return subprocess.Popen(
        command, env={**os.environ, key: value}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def test_marker_finds_daemons_and_sweep_ends_them(marker: str, tmp_path: Path) -> None:
    """A double-forked daemon in a session of its own carries its ancestor's marker and dies in the sweep."""
    daemon = f"cd / && (setsid bash -c 'echo $$ > {tmp_path}/pid; exec sleep 600' &) ; exec sleep 600"
    with start(marker, "bash", "-c", daemon) as child:
        block_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
        lost = int((tmp_path / "pid").read_text())
        block_until(lambda: {child.pid, lost} <= set(process.with_marker(marker)))
        assert process.sweep(marker) >= 2
        assert process.with_marker(marker) == []
        assert child.wait(10) == -signal.SIGKILL


def test_a_sweep_without_processes_returns_zero() -> None:
    assert process.sweep("TONY_TASK=test/no-such/task") == 0


def test_sweep_gives_up_after_its_timeout(marker: str) -> None:
    """What cannot be killed does not hold the sweep for ever."""
    assert process.kill_until_none(lambda: [1], timeout=0.05) == 1


def test_descendants_are_listed_parents_first(marker: str) -> None:
    """Children and grandchildren are found, our own process and zombies are not."""
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"
    with start(marker, sys.executable, "-c", nested) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = process.descendants(os.getpid())
        assert found.index(child.pid) < found.index(grandchild)
        assert os.getpid() not in found
        os.kill(grandchild, signal.SIGKILL)
        block_until(lambda: child.pid not in process.descendants(os.getpid()))  # a zombie until waited for
        child.wait()


@pytest.mark.skipif(process.list_own_children() is None, reason="a kernel without CONFIG_PROC_CHILDREN")
def test_own_children_are_listed_until_they_are_waited_for(marker: str) -> None:
    """Those of every thread, zombies too; grandchildren are not ours."""
    before = set(process.list_own_children() or ())
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"
    with start(marker, sys.executable, "-c", nested) as child, ThreadPoolExecutor(1) as thread:
        assert child.stdout is not None
        child.stdout.readline()
        other = thread.submit(subprocess.Popen, ["true"]).result()
        assert {*(process.list_own_children() or ())} - before == {child.pid, other.pid}
        block_until(lambda: not process.is_alive(other.pid))
        assert other.pid in (process.list_own_children() or ())
        other.wait()
        assert {*(process.list_own_children() or ())} - before == {child.pid}
        process.sweep(marker)
        child.wait()
    assert {*(process.list_own_children() or ())} <= before, "those left by others may end meanwhile"


@pytest.mark.parametrize("listed", [True, False])
def test_below_are_those_that_descend_from_us(marker: str, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parents before children, zombies left out; the same where the kernel does not list children."""
    if not listed:
        monkeypatch.setattr(process, "list_own_children", lambda: None)
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"
    with start(marker, sys.executable, "-c", nested) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = process.list_below()
        assert found.index(child.pid) < found.index(grandchild)
        assert {*found} == {*process.descendants(os.getpid())}
        os.kill(grandchild, signal.SIGKILL)
        block_until(lambda: child.pid not in process.list_below())
        child.wait()


def test_start_time_identifies_a_process() -> None:
    """A process has a start time, a pid that is gone has none."""
    assert process.start_time(os.getpid()) == process.start_time(os.getpid())
    child = subprocess.Popen(["true"])
    child.wait()
    assert process.start_time(child.pid) is None
    assert isinstance(process.start_time(1), int)


def test_send_spares_a_successor_of_the_pid() -> None:
    """A process that is not the one meant gets no signal; a gone one answers False."""
    with subprocess.Popen(["sleep", "600"]) as child:
        assert not process.send(child.pid, signal.SIGKILL, lambda pid: False)
        assert child.poll() is None
        assert process.send(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert not process.send(child.pid, signal.SIGKILL)


def test_memory_includes_touched_pages(marker: str) -> None:
    """64 MiB that were written are seen, by both measures."""
    code = "import time; x = bytearray(b'x') * (64 << 20); print('ready', flush=True); time.sleep(600)"
    with start(marker, sys.executable, "-c", code) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            twice = [child.pid, child.pid]
            # It still goes from the line that it printed to its sleep, over pages that it had not touched.
            block_until(lambda: process.memory_of(twice) == 2 * process.memory_of([child.pid]))
            rss, pss = process.memory_of([child.pid]), process.measure_shared_memory([child.pid])
            assert 64 << 20 < pss <= rss < 128 << 20
        finally:
            child.kill()
    assert process.memory_of([child.pid]) == 0


PRCTL = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from tony.linux import process
"""


def run_isolated(code: str) -> str:
    source = str(Path(process.__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", PRCTL + code, source], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_subreaper_inherits_orphans() -> None:
    """A grandchild whose parent ends becomes ours."""
    out = run_isolated("""
process.set_child_subreaper()
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
(orphan,) = process.descendants(os.getpid())
os.kill(orphan, signal.SIGKILL)
print(os.wait()[0] == orphan)
""")
    assert out == "True\n"


def test_parent_death_signal_ends_the_child() -> None:
    """A child that asked for it dies with its parent."""
    out = run_isolated("""
process.set_child_subreaper()
reading, writing = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        process.set_parent_death_signal(signal.SIGKILL)
        os.write(writing, b"x")
        time.sleep(600)
    os.read(reading, 1)
    os._exit(0)
os.wait()
print(os.waitstatus_to_exitcode(os.wait()[1]))
""")
    assert out == f"{-signal.SIGKILL}\n"


def test_not_dumpable_hides_memory() -> None:
    """Afterwards our files in /proc belong to root."""
    out = run_isolated("""
process.set_not_dumpable()
print(os.stat("/proc/self/environ").st_uid)
""")
    assert out == "0\n"


def test_own_peak_is_ours_alone() -> None:
    """What a large parent held when it forked us does not count."""
    ballast = bytearray(b"x") * (200 << 20)
    code = "from tony.linux.process import read_own_peak; print(read_own_peak())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 << 20 < int(done.stdout) < len(ballast)


def test_a_sleeping_process_shows_its_wait_channel() -> None:
    """State, name and, where that is known, the place; each thread a line of its own."""
    code = (
        "import threading, time\n"
        "for _ in range(30): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code + "print(1, flush=True)\ntime.sleep(600)"], stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        program.stdout.readline()
        lines = [line for line in wait_channel(program.pid).splitlines() if not line.startswith(" ")]
        program.kill()
    assert len(lines) == 21
    assert all(line.startswith("thread ") for line in lines[:20])
    assert sum("sleeping" in line for line in lines) >= 15
    assert lines[-1] == "and 11 more threads"


def test_a_process_that_is_gone_has_no_wait_channel() -> None:
    assert wait_channel((1 << 22) + 1) == ""
    assert command_of((1 << 22) + 1) == "[?]"


def test_a_command_line_is_one_line() -> None:
    code = "print(1, flush=True)\nimport time\n\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as program:
        assert program.stdout
        program.stdout.readline()
        said = command_of(program.pid)
        program.kill()
    assert said == f"{sys.executable} -S -c print(1, flush=True) import time time.sleep(600)"


def test_the_marker_of_a_process_that_has_just_been_started() -> None:
    """The kernel reports that an exec has succeeded before it shows the new environment."""
    for _ in range(50):
        with subprocess.Popen(["sleep", "60"], env={**os.environ, "MARK": "just-started"}) as started:
            try:
                assert process.has_marker(started.pid, b"MARK=just-started")
            finally:
                started.kill()
