"""A lock that says "I live", shared with forks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tony.linux import liveness_lock

#: Takes the lock and says whether it could; holds it until its input ends.
OTHER = """
import sys
from pathlib import Path
from tony.linux import liveness_lock
liveness_lock._MAX_TRIES = 2
print(liveness_lock.take(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def other(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def could_take(path: Path) -> bool:
    return other(path).communicate("")[0] == "True\n"


def test_a_lock_is_reentrant_and_exclusive(tmp_path: Path) -> None:
    """Its holder may take it twice; another process gets it only after the release."""
    path = tmp_path / "lock"
    assert liveness_lock.lock_owner(path) is None
    assert liveness_lock.take(path)
    assert liveness_lock.take(path)
    assert liveness_lock.lock_owner(path) == os.getpid()
    assert not could_take(path)
    liveness_lock.release_lock(path)
    liveness_lock.release_lock(path)
    assert liveness_lock.lock_owner(path) is None
    assert could_take(path)


def test_a_lock_of_another_process_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt fails after some tries."""
    monkeypatch.setattr(liveness_lock, "_MAX_TRIES", 2)
    holder = other(tmp_path / "lock")
    assert holder.stdout
    assert holder.stdout.readline() == "True\n"
    assert not liveness_lock.take(tmp_path / "lock")
    holder.communicate("")
    assert liveness_lock.take(tmp_path / "lock")
    liveness_lock.release_lock(tmp_path / "lock")


def test_it_lives_as_long_as_a_fork(tmp_path: Path) -> None:
    """A fork has it as well, knows who took it, and keeps it when that one has given it back."""
    path = tmp_path / "lock"
    assert liveness_lock.take(path)
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        right = liveness_lock.take(path) and liveness_lock.lock_owner(path) == os.getppid()
        os.close(theirs)
        os.read(ours, 1)
        os._exit(0 if right else 1)
    os.close(ours)
    liveness_lock.release_lock(path)
    assert not could_take(path)
    os.close(theirs)
    assert os.waitpid(pid, 0)[1] == 0
    assert could_take(path)
