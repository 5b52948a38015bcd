"""A user unknown to the machine: no entry in the password file, no rights, a home of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.lab import TONY, Lab

#: A free uid: Debian assigns none between its system users and 60000 but to people, who begin at 1000.
UID = 12345
#: In file systems of its own, puts the folder $1 alone in place of $2, open to all users; then runs the rest.
_OPEN = """set -e
exec 9<"$1"
mount -t tmpfs -o mode=755 none "$2"
mkdir -p "$1"
mount --no-canonicalize --bind /proc/self/fd/9 "$1"
exec 9<&-
shift 2
exec "$@"
"""


def become_other_user(lab: Lab, uid: int = UID) -> Lab:
    """Has every command of a lab run as that user, who owns the lab's folder from now on.

    Skips the test where that cannot be done.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed")
    become = (*_see_python(), "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    # Through a shell: what setpriv itself starts may lie where only its rights, which it gives up with that, lead.
    probe_command = [*become, "sh", "-c", '"$0" version', TONY]
    probe = subprocess.run(probe_command, cwd="/", capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"another user cannot run {TONY}: {probe.stderr.strip()[-200:]}")
    own(lab.root, uid)
    lab.prefix = become
    return lab


def _see_python() -> Sequence[str]:
    """The command prefix that lets a test run a Python below a closed home directory."""
    base = Path(sys.base_prefix).resolve()
    closed = next((above for above in reversed(base.parents) if not above.stat().st_mode & 0o001), None)
    return ("unshare", "--mount", "sh", "-c", _OPEN, "sh", str(base), str(closed)) if closed else ()


def own(folder: Path, uid: int = UID) -> None:
    """Gives a folder and all below it to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest.fixture
def other_user(lab: Lab) -> Lab:
    """A lab of a user that is unknown to the machine."""
    return become_other_user(lab)


@pytest.fixture
def person(lab: Lab) -> Lab:
    """A user without the rights of root, so that file permissions count."""
    return become_other_user(lab) if os.geteuid() == 0 else lab
