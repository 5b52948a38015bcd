"""The build of a small Kubernetes, next to the tests that do not need it; those that do run late, and wait for it.

    python -m tests.kubernetes_build PID

returns at once. It builds in the background, and gives up when the process PID, which is that of make, has ended:
nothing outlives the run, and the next one continues with what the compiler has cached.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import pytest

from tony.errors import TonyError
from tony.mini.kubernetes.software import fetch, find_missing, find_software
from tony.mini.software import cache_folder

#: Locked while the build of `make test` runs; stays if it fails.
LOG = Path(__file__).parents[1] / ".cache" / "kubernetes-build.log"
#: Seconds; it takes 460 of processor time.
TIMEOUT_SECONDS = 2400.0
_STOP_SECONDS = 20.0
_LINES = 12


def wait_for_software(environment: Mapping[str, str], timeout: float = TIMEOUT_SECONDS, log: Path = LOG) -> None:
    """Wait until Kubernetes has been built, by `make test` or by any process; skip the test where it cannot be.

    Raises:
        AssertionError: the build has failed, or did not end in time; with the end of its log.
    """
    if missing := find_missing(environment):
        pytest.skip(f"no real Kubernetes here, it needs: {'; '.join(missing)}")
    deadline = time.monotonic() + timeout
    while find_software(environment) is None:
        is_building = is_locked(log) or is_locked(cache_folder(environment, "kubernetes"))
        if find_software(environment) is not None:
            break
        if not is_building and not log.exists():
            pytest.skip("Kubernetes has not been built: `make test` does, or `tony mini start --kubernetes`")
        if not is_building or time.monotonic() > deadline:
            what = f"is not built after {timeout:.0f} s" if is_building else "could not be built"
            raise AssertionError(f"Kubernetes {what}; end of {log}:\n{read_end(log)}")
        time.sleep(0.5)


def is_locked(path: Path) -> bool:
    """Return True if a process has locked a file or folder."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def read_end(log: Path) -> str:
    """Return the last lines of a log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else ()
    return "\n".join(lines[-_LINES:]) or "(it is empty)"


def start(process: int, log: Path = LOG) -> None:
    """Build in the background if this machine can and nothing has been built; at most once at a time.

    Args:
        process: the build is stopped when this one has ended.
    """
    if find_software(os.environ) is not None or find_missing(os.environ):
        log.unlink(missing_ok=True)
        return
    log.parent.mkdir(exist_ok=True)
    with open(log, "ab") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        if os.fork() == 0:
            status = 1
            try:
                status = _build(process, log)
            finally:
                os._exit(status)


def _build(process: int, log: Path) -> int:
    """Build, in a session of its own; its log is locked until the last of its processes has ended."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(output, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the programs that it runs are stopped by it
    threading.Thread(target=_stop_after, args=(process,), daemon=True).start()
    if not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        subprocess.run(["apt-get", "-qq", "update"], check=False)  # if it fails, so does what needs the lists
    try:
        fetch(os.environ, lambda text: print(text, flush=True))
    except TonyError as error:
        print(error, flush=True)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    log.unlink()
    return 0


def _stop_after(process: int) -> None:
    """Stop what runs here when a process has ended, or after the time limit."""
    ended = f"process {process}, for which it ran, ended"
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process)
        if not select.select([handle], [], [], TIMEOUT_SECONDS)[0]:
            ended = f"it did not end within {TIMEOUT_SECONDS:.0f} s"
    print(f"The build is stopped: {ended}", flush=True)
    os.killpg(0, signal.SIGTERM)
    time.sleep(_STOP_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    start(int(sys.argv[1]))
