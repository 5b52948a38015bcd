"""Which packages have changed: tests marked `on_change` run only when one of theirs has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Set
from pathlib import PurePosixPath

#: What every job on YARN, and on Kubernetes, depends on.
CLUSTER = ("hadoop", "schedulers", "schedulers/yarn", "mini")
KUBERNETES = ("kube", "schedulers", "schedulers/kubernetes", "mini", "mini/kubernetes")
#: What decides and carries out how a job continues after a failure.
RUNTIME = ("am", "core", "executor", "protocol", "rpc")
#: Commits that count as the change where `HEAD` is the commit of `origin/main`.
RECENT_COMMITS = 10


def find_changed_packages(root: os.PathLike[str]) -> frozenset[str] | None:
    """Find the packages of `src/tony`, folders of tests and top folders with a change, and each changed test file.

    Of `schedulers` and `mini` what is for one scheduler is a package of its own. Each file of `bench` counts alone.

    A change is what is not committed, and what was committed since `TEST_BASE` (environment), else since the merge
    base with `origin/main`, else, if that is `HEAD` itself, in the last ten commits.

    Returns:
        None if everything counts as changed: a shared file has changed, or git does not know.
    """
    paths = _list_changed_paths(root)
    if paths is None or any(map(_is_shared, paths)):
        return None
    return frozenset(map(name_changed_part, paths))


def is_due(test_path: str, packages: Iterable[str], changed: Set[str] | None) -> bool:
    """Return True if a test in this file, which depends on these packages, has to run."""
    path = PurePosixPath(test_path)
    return changed is None or not changed.isdisjoint({*packages, *map(str, (path, *path.parents))})


def _list_changed_paths(root: os.PathLike[str]) -> list[PurePosixPath] | None:
    def run_git(*arguments: str) -> list[str]:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    try:
        base = os.environ.get("TEST_BASE") or run_git("merge-base", "HEAD", "origin/main")[0]
        if [base] == run_git("rev-parse", "HEAD"):
            base = f"HEAD~{RECENT_COMMITS}"
        changed = run_git("diff", "--name-only", "--no-renames", base, "--")
        added = run_git("ls-files", "--others", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError):
        return None
    return [PurePosixPath(line) for line in (*changed, *added)]


def _is_shared(path: PurePosixPath) -> bool:
    """Return True for what every test may depend on."""
    return (
        path.match("pyproject.toml")
        or path.parts[0] == "requirements"
        or path.parent == PurePosixPath("src/tony")
        or (path.parent == PurePosixPath("tests") and not path.name.startswith("test_"))
        or path.parts[:2] == ("tests", "support")
        or path == PurePosixPath("tests/e2e/lab.py")
    )


def name_changed_part(path: PurePosixPath) -> str:
    """Return what has changed with a file, in the words of `on_change`."""
    if path.parts[:2] == ("src", "tony"):
        package, part = path.parts[2:4]
        is_apart = package in ("schedulers", "mini") and part in ("kubernetes", "yarn")
        return f"{package}/{part}" if is_apart else package
    if path.parts[0] == "bench":
        return str(path)
    if path.parts[0] == "tests":
        return str(path if path.name.startswith("test_") else path.parent)  # a helper: all tests next to and below it
    return path.parts[0]
