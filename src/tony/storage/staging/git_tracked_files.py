"""Finds the files of a folder that git tracks, which git never ignores, whatever its ignore files say."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

_GIT_TIMEOUT_SECONDS = 60.0
#: Variables that would make git read another repository than the folder's own.
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX")


class TrackedFiles:
    """The files below a folder that are in the index of its git repository. Runs git on the first lookup.

    Args:
        folder: the top of a repository, or a folder in it.
        prefix: path of that folder inside the folder that is staged, with a trailing slash; empty for the latter.

    Attributes:
        folder: as given.
        problem: why git failed; empty if it did not or was not needed.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self.problem = ""
        self.folder = folder
        self._prefix = prefix
        self._paths: frozenset[str] | None = None

    def __contains__(self, path: str) -> bool:
        """Return True for a tracked file, and for a folder that contains one."""
        if self._paths is None:
            self._paths = self._read_index()
        return path.removeprefix(self._prefix) in self._paths

    def _read_index(self) -> frozenset[str]:
        environment = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
        # A repository's own configuration may name a program to run as its file system monitor.
        command = ["git", "-c", "core.fsmonitor=false", "-C", os.fspath(self.folder), "ls-files", "-z", "--cached"]
        try:
            found = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GIT_TIMEOUT_SECONDS,
                check=True,
            )
        except FileNotFoundError:
            self.problem = "git is not installed"
        except subprocess.TimeoutExpired:
            self.problem = f"`git ls-files` did not exit within {_GIT_TIMEOUT_SECONDS:g} s"
        except subprocess.CalledProcessError as error:
            lines = error.stderr.decode(errors="replace").strip().splitlines()
            self.problem = lines[0] if lines else f"`git ls-files` failed with exit code {error.returncode}"
        except OSError as error:
            self.problem = f"git cannot be run: {error.strerror}"
        else:
            return _with_folders(os.fsdecode(found.stdout).split("\0"))
        return frozenset()


def is_in_repository(folder: Path) -> bool:
    """Return True if the folder, or one above it, is the top of a git repository, worktree or submodule."""
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))


def _with_folders(paths: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return frozenset(found)
