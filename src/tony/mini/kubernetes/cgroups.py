"""The control groups of a small Kubernetes, in every hierarchy of version 1, or in the one of version 2."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from tony.errors import StorageError

ROOT = Path("/sys/fs/cgroup")
#: What the kubelet wants; in version 2 the parent has to delegate them.
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
#: Processes outside the group that get as much of busy CPUs as all pods together, which would count as one.
_CPU_SHARE = 8
#: File -> the weight of one process in it: of version 1 and of version 2.
_CPU_WEIGHTS = {"cpu.shares": 1024, "cpu.weight": 100}
#: Seconds until the processes of a killed cluster have left its groups.
_REMOVE_SECONDS = 20.0


def list_hierarchies(root: Path = ROOT) -> Sequence[Path]:
    """Return the roots of all hierarchies; none if there are no control groups."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in sorted(root.glob("*")) if (path / "cgroup.procs").exists() and not path.is_symlink()]


def create_cgroup(name: str, root: Path = ROOT) -> None:
    """Create an empty group for a kubelet. Its pods get as much of busy CPUs as several processes outside of it."""
    if (root / "cgroup.controllers").exists():
        (root / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in _CONTROLLERS))
    for hierarchy in list_hierarchies(root):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # in version 1 a new group has none, and takes no process then
            if (hierarchy / file).exists():
                (group / file).write_text((hierarchy / file).read_text())
        for file, weight in _CPU_WEIGHTS.items():
            if (group / file).exists():
                (group / file).write_text(str(weight * _CPU_SHARE))


def remove_cgroups(name: str, root: Path = ROOT) -> None:
    """Remove the groups whose names begin so, and those below them, once their processes have ended.

    Raises:
        StorageError: there are still processes in one of them.
    """
    deadline = time.monotonic() + _REMOVE_SECONDS
    while left := [group for hierarchy in list_hierarchies(root) for group in hierarchy.glob(f"{name}*")]:
        for group in left:
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError as error:
                    if time.monotonic() >= deadline:
                        raise StorageError(f"cannot remove the control group {folder}: {error.strerror}") from error
        time.sleep(0.02)
