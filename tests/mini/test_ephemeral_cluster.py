"""An ephemeral cluster ends with the process that asked for it, however that ends. Its daemons are scripts that
sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tony
from tests.mini.conftest import Machine
from tests.support.waiting import block_until
from tony.errors import InfraError
from tony.linux.process import with_marker
from tony.mini.cluster import run_ephemeral_cluster
from tony.mini.daemons import MARKER
from tony.mini.options import MiniOptions

#: Starts one that never becomes ready.
_CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tony.mini.cluster import run_ephemeral_cluster
from tony.mini.options import MiniOptions
with run_ephemeral_cluster(MiniOptions(nodes=1), os.environ, print) as cluster:
    raise AssertionError
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
