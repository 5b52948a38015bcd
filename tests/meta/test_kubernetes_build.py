"""The background build of Kubernetes is waited for with a limit, and ends with the run; here it builds nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import kubernetes_build
from tests.kubernetes_build import is_locked, wait_for_software
from tests.support.waiting import block_until
from tony.linux.process import is_alive

ROOT = Path(__file__).parents[2]
_START = """
import os, subprocess, sys
from pathlib import Path
from tests import kubernetes_build
from tony.errors import InfraError

def fetch(environment, notice):
    notice("building")
    {fetch}

kubernetes_build.find_missing = lambda environment: ()
kubernetes_build.find_software = lambda environment: None
kubernetes_build.fetch = fetch
kubernetes_build.start(int(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def can_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_build, "find_missing", lambda _: ())
    monkeypatch.setattr(kubernetes_build, "find_software", lambda _: None)


def build_environment(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder / "cache")}


def start(log: Path, fetch: str, process: int) -> None:
    """Start a build that runs a statement, for a process."""
    command = [sys.executable, "-c", _START.format(fetch=fetch), str(process), str(log)]
    subprocess.run(command, cwd=ROOT, check=True)


def test_a_build_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    start(log, "raise InfraError('go build failed: no space left on device')", os.getpid())
    with pytest.raises(
        AssertionError, match=r"could not be built; end of .*/build.log:\nbuilding\ngo build failed: no"
    ):
        wait_for_software(build_environment(tmp_path), log=log)


def test_a_build_ends_with_the_run(tmp_path: Path) -> None:
    """It is stopped, and what it has started as well."""
    log, child = tmp_path / "build.log", tmp_path / "child"
    parent = subprocess.Popen(["sleep", "600"])
    run = f"p = subprocess.Popen(['sleep', '600']); Path({str(child)!r}).write_text(str(p.pid)); p.wait(); "
    start(log, f"{run}raise InfraError(f'exit code {{p.returncode}}')", parent.pid)
    block_until(lambda: child.exists() and bool(child.read_text()))
    assert is_locked(log)
    parent.kill()
    parent.wait()
    block_until(lambda: not is_locked(log))
    assert not is_alive(int(child.read_text()))
    assert "The build is stopped: process" in log.read_text()


def test_a_build_of_another_process_is_waited_for_with_a_limit(tmp_path: Path) -> None:
    environment = build_environment(tmp_path)
    cache = tmp_path / "cache" / "tony" / "kubernetes"
    cache.mkdir(parents=True)
    with open(tmp_path / "build.log", "w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(AssertionError, match=r"is not built after 0 s; end of .*\n\(it is empty\)"):
            wait_for_software(environment, 0.1, Path(log.name))


def test_nothing_builds(tmp_path: Path) -> None:
    """Where no build was started, tests are skipped."""
    with pytest.raises(pytest.skip.Exception, match="has not been built: `make test` does"):
        wait_for_software(build_environment(tmp_path), log=tmp_path / "build.log")
