"""A user whom the machine does not know: no entry in the password file, no rights, a home of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.lab import TONY, Lab

#: Nobody has it: Debian gives out none between its system users and 60000 but to people, who begin at 1000.
UID = 12345


def become_stranger(lab: Lab, uid: int = UID) -> Lab:
    """Has every command of a lab run as that user, who owns the lab's folder from now on.

    Skips the test where that cannot be done.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed")
    become = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    probe = subprocess.run([*become, TONY, "version"], cwd="/", capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"another user cannot run {TONY}: {probe.stderr.strip()[-200:]}")
    own(lab.root, uid)
    lab.prefix = become
    return lab


def own(folder: Path, uid: int = UID) -> None:
    """Gives a folder and all below it to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest.fixture
def stranger(lab: Lab) -> Lab:
    """A lab of a user whom the machine does not know."""
    return become_stranger(lab)
