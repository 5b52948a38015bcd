"""An ephemeral cluster ends with the process that asked for it, however that ends. Its daemons are scripts that
sleep."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tony
from tests.mini.conftest import Machine
from tests.support.waiting import block_until
from tony import isolated_interpreter
from tony.errors import InfraError
from tony.linux.process import with_marker
from tony.mini.cluster import run_ephemeral_cluster
from tony.mini.daemons import MARKER
from tony.mini.options import MiniOptions

#: Starts one that never becomes ready.
_CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tony.cli import main, startup
from tony.mini.cluster import run_ephemeral_cluster
from tony.mini.options import MiniOptions

def run():
    with run_ephemeral_cluster(MiniOptions(nodes=1), os.environ, print) as cluster:
        raise AssertionError

main.main = run
startup.main()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_ephemeral_cluster_does_not_outlive_its_owner(machine: Machine, number: signal.Signals) -> None:
    """No daemon and no file, also when no process is left to stop them."""
    machine.fill_cache()
    machine.install_java()
    temp = machine.folder / "temp"
    temp.mkdir()
    source = str(Path(tony.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, source],
        env={**machine.environment, "TMPDIR": str(temp)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        block_until(lambda: list(temp.glob("tony-local-*/mini/state.json")))
        [folder] = temp.iterdir()
        marker = f"{MARKER}={folder / 'mini'}\0"
        block_until(lambda: with_marker(marker))
        os.kill(process.pid, number)
        process.wait(60)
        block_until(lambda: not with_marker(marker) and not list(temp.iterdir()))
    finally:
        process.kill()
        process.wait()


def test_its_guard_waits_while_the_owner_still_holds_the_lock(tmp_path: Path) -> None:
    """The kernel closes the files of a killed owner one after the other: the guard's input maybe first."""
    folder = tmp_path / "tony-local-1"
    folder.mkdir()
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    guard = subprocess.Popen(isolated_interpreter.command("tony.mini.cluster", str(folder)), stdin=subprocess.DEVNULL)
    try:
        block_until(lambda: guard.poll() is not None or has_open(guard.pid, folder))
        assert guard.poll() is None
    finally:
        os.close(lock)
        assert guard.wait(60) == 0
    assert not folder.exists()


def has_open(pid: int, folder: Path) -> bool:
    """A file that is closed meanwhile is none of interest."""
    return any(os.path.realpath(f"/proc/{pid}/fd/{name}") == str(folder) for name in os.listdir(f"/proc/{pid}/fd"))


def test_a_failed_start_leaves_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.fill_cache()
    machine.install_java(daemon="exit 1")
    temp = machine.folder / "temp"
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    with (
        pytest.raises(InfraError, match="died"),
        run_ephemeral_cluster(MiniOptions(nodes=1), machine.environment, print),
    ):
        raise AssertionError
    assert list(temp.iterdir()) == []
