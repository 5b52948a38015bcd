"""The control group of a container: a memory limit that the kernel enforces, all processes in it, and its usage.

Both versions, depending on what is mounted and on this process's own group:

- v1: `<controller's mount>/<own group>/tony/<name>`, one folder per controller (memory, cpu).
- v2: the same below the own group if it may delegate the memory controller (only a group without processes of its own
  may, or the root), else below the next group above that has been delegated to this user.

Where neither is permitted `create` returns nothing and the caller measures instead. All functions take the folders
that `create` returned and do nothing for none.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tony.linux.kernel_files import parse_number, read_number, read_text, read_words, try_write
from tony.linux.process import send

_PARENT = "tony"
_MAX_TRIES = 20


def create(name: str, memory: int | None, cpu_shares: int | None, root: Path = Path("/")) -> tuple[str, ...]:
    """Create a group for one container's program.

    Args:
        name: of one folder; slashes become dashes.
        memory: bytes, swap included; None for no limit.
        cpu_shares: weight against other groups as in v1's `cpu.shares`: 1024 for one core; None for the default.
        root: where /proc and the mount points are; another one in tests.

    Returns:
        The group's folders. Empty if no memory limit can be set here.
    """
    name = name.replace("/", "-").replace("..", "-")
    for controllers, group in _list_own_groups(root):
        if "memory" in controllers:
            return _create_v1(name, memory, cpu_shares, root)
        if not controllers and (made := _create_v2(name, memory, cpu_shares, group, root)):
            return made
    return ()


def enter(folders: Sequence[str], pid: int) -> None:
    """Move a process into the group; 0 means the caller, as a child does between fork and exec.

    Raises:
        OSError: not permitted, or the group does not exist.
    """
    for folder in folders:
        descriptor = os.open(f"{folder}/cgroup.procs", os.O_WRONLY)
        try:
            os.write(descriptor, b"%d" % pid)
        finally:
            os.close(descriptor)


def processes(folders: Sequence[str]) -> list[int]:
    """Return the pids of the group's members, including those of groups below it. Zombies are not members."""
    found: dict[int, None] = {}
    for folder in folders:
        for path, _, _ in os.walk(folder):
            pids = map(parse_number, read_text(f"{path}/cgroup.procs").split())
            found.update((pid, None) for pid in pids if pid is not None)
    return list(found)


def kill(folders: Sequence[str]) -> list[int]:
    """Kill (SIGKILL) every member but this process, and return their pids. Repeat it until there is none.

    Atomically where the kernel can (v2), else as soon as they are found: members that fork and exit constantly have
    other pids by the time that all processes of the machine have been read.
    """
    found = processes(folders)
    own = os.getpid()
    if own not in found and any(found and try_write(f"{folder}/cgroup.kill", "1") for folder in folders):
        return found
    return [pid for pid in found if pid != own and send(pid, signal.SIGKILL)]


def remove(folders: Sequence[str], timeout: float = 2.0) -> bool:
    """Remove the group, with groups that a program made below it. May be called twice.

    Returns:
        False if something is still in it after `timeout` seconds.
    """

    deadline = time.monotonic() + timeout
    left = [folder for folder in folders if not _remove(Path(folder))]
    while left and time.monotonic() < deadline:
        time.sleep(0.01)  # dead processes leave the group a moment later
        left = [folder for folder in left if not _remove(Path(folder))]
    return not left


def list_own_folders(controller: str = "cpu", root: Path = Path("/")) -> tuple[str, ...]:
    """Return the folders of this process's own groups, and of those above: their limits apply to programs, too."""
    found: dict[str, None] = {}
    for controllers, path in _list_own_groups(root):
        if controllers and controller not in controllers:
            continue
        mount = _mount("cgroup", controller, root) if controllers else _mount("cgroup2", None, root)
        folder = mount and mount / path.lstrip("/")
        while mount and folder and folder != mount and mount in folder.parents:
            found[str(folder)] = None
            folder = folder.parent
        if mount:
            found[str(mount)] = None  # in a container this may be a group with a limit as well
    return tuple(found)


def _create_v1(name: str, memory: int | None, cpu_shares: int | None, root: Path) -> tuple[str, ...]:
    made = []
    settings = {
        # The memory limit comes first: the limit with swap may never be lower.
        "memory": [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)],
        "cpu": [("cpu.shares", cpu_shares)],
    }
    for controller, values in settings.items():
        above = _find_own_v1(controller, root)
        folder = above and _make(above / _PARENT, name)
        required = controller == "memory"
        good = folder and all(
            value is None or try_write(f"{folder}/{file}", str(value)) or "memsw" in file for file, value in values
        )
        if good:
            made.append(str(folder))
        elif required:
            remove([str(folder)] if folder else [])
            return ()
        elif folder:
            remove([str(folder)])
    return tuple(made)


def _create_v2(name: str, memory: int | None, cpu_shares: int | None, group: str, root: Path) -> tuple[str, ...]:
    mount = _mount("cgroup2", None, root)
    above = mount and _delegates_memory(mount, mount / group.lstrip("/"))
    if not above:
        return ()
    parent = above / _PARENT
    folder = _make(parent, name, lambda: _delegate(parent))
    if folder is None:
        return ()
    if memory is not None and not try_write(f"{folder}/memory.max", str(memory)):
        remove([str(folder)])
        return ()
    if memory is not None:
        try_write(f"{folder}/memory.swap.max", "0")
    if cpu_shares is not None:
        # The kernel's own translation: 2..262144 shares are weights of 1..10000.
        weight = 1 + (min(max(cpu_shares, 2), 262144) - 2) * 9999 // 262142
        try_write(f"{folder}/cpu.weight", str(weight))
    return (str(folder),)


def _delegates_memory(mount: Path, own: Path) -> Path | None:
    """Return the lowest group, own or delegated one above it, whose children may have a memory limit."""
    group = own
    while group == mount or mount in group.parents:
        if (group == own or _is_delegated(group)) and _delegate(group):
            return group
        group = group.parent
    return None


def _is_delegated(group: Path) -> bool:
    """Return True if the manager of the groups has delegated this one to this user.

    Root may write anywhere, so for root only the manager's extended attribute counts.
    """
    if os.geteuid() != 0:
        return os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
    for mark in ("trusted.delegate", "user.delegate"):
        try:
            if os.getxattr(group, mark) == b"1":
                return True
        except OSError:
            continue
    return False


def _delegate(group: Path) -> bool:
    """Let a group's children have a memory limit (and a weight). Impossible for one that has processes itself."""
    if "memory" not in read_text(group / "cgroup.controllers").split():
        return False
    active = group / "cgroup.subtree_control"
    if "memory" not in read_text(active).split() and not try_write(active, "+memory"):
        return False
    if "cpu" not in read_text(active).split():
        try_write(active, "+cpu")
    return os.access(group, os.W_OK)


def _make(parent: Path, name: str, prepare: Callable[[], bool] = lambda: True) -> Path | None:
    for _ in range(_MAX_TRIES):
        try:
            parent.mkdir(exist_ok=True)
            if not prepare():
                return None
            (parent / name).mkdir(exist_ok=True)
            return parent / name
        except FileNotFoundError:
            continue  # another process removed the empty parent in between
        except OSError:
            return None
    return None


def _remove(folder: Path) -> bool:
    try:
        for path, _, _ in os.walk(folder, topdown=False):
            os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    try:
        folder.parent.rmdir()  # refused as long as another group is in it
    except OSError:
        pass
    return True


def _list_own_groups(root: Path) -> list[tuple[tuple[str, ...], str]]:
    """Return the own group per hierarchy: its controllers (none for v2) and path. v1 first: it has memory, if mixed."""
    groups = []
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if path.startswith("/") and "\0" not in path:
            groups.append((tuple(filter(None, controllers.split(","))), path))
    return sorted(groups, key=lambda group: not group[0])


def _find_own_v1(controller: str, root: Path) -> Path | None:
    mount = _mount("cgroup", controller, root)
    for controllers, path in _list_own_groups(root):
        if mount and controller in controllers:
            own = mount / path.lstrip("/")
            # In a container the path may be the host's, while the mount begins at the own group.
            return own if own.is_dir() else mount
    return None


def _mount(kind: str, controller: str | None, root: Path) -> Path | None:
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        found, _, options = (*after.split(" "), "", "")[:3]
        place = (*before.split(" "), "", "", "", "", "")[4]
        if found == kind and "\0" not in place and (controller is None or controller in options.split(",")):
            return root / place.lstrip("/")
    return None


# --- usage, as the kernel counts it -----------------------------------------------------------------------------------


def oom_kills(folders: Sequence[str]) -> int:
    """Return how many processes of the group the kernel has killed at its memory limit, since the group was created."""
    return _find_word(folders, ("memory.events", "memory.oom_control"), "oom_kill") or 0


def count_process_limit_hits(folders: Sequence[str], root: Path = Path("/")) -> int:
    """Return how often a limit of processes (pids.max) of the group, or of one that this process is in, was hit.

    Args:
        root: as for `create`.
    """
    every = dict.fromkeys((*folders, *list_own_folders("pids", root)))
    counts = (_find_word((folder,), ("pids.events",), "max") for folder in every)
    return max((count for count in counts if count is not None), default=0)


def times_full(folders: Sequence[str]) -> int | None:
    """Return how often the group's own limit, not one above it or the machine's, prevented an allocation.

    None where the kernel does not report it (v1: the failure counters do not advance in newer kernels).
    """
    return _find_word(folders, ("memory.events.local", "memory.events"), "oom")


def peak(folders: Sequence[str]) -> int | None:
    """Return the group's peak memory in bytes (since `reset_peak`); None where the kernel does not report it."""
    return _number(folders, "memory.peak", "memory.max_usage_in_bytes")


def reset_peak(folders: Sequence[str]) -> None:
    """Restart the measurement of `peak`, where the kernel can (v1): several programs may use a group in turn."""
    for folder in folders:
        try_write(f"{folder}/memory.max_usage_in_bytes", "0")


def memory_limit(folders: Sequence[str]) -> int | None:
    """Return the group's memory limit in bytes; None without one (v1 has a huge one instead)."""
    return _number(folders, "memory.max", "memory.limit_in_bytes")


def usage(folders: Sequence[str]) -> int | None:
    """Return the group's current memory in bytes; None where there is no group.

    Excludes file contents that the kernel caches only while the memory is not needed otherwise.
    """
    current = _number(folders, "memory.current", "memory.usage_in_bytes")
    if current is None:
        return None
    idle = _find_word(folders, ("memory.stat",), "total_inactive_file", "inactive_file")
    return max(0, current - (idle or 0))


def _number(folders: Sequence[str], *files: str) -> int | None:
    for folder in folders:
        for file in files:
            number = read_number(f"{folder}/{file}")
            if number is not None:
                return number
    return None


def _find_word(folders: Sequence[str], files: Sequence[str], *words: str) -> int | None:
    """Return the number after the first of the words that a file of the group contains; None if none does."""
    for folder in folders:
        for file in files:
            found = read_words(f"{folder}/{file}")
            number = next((number for word in words if (number := parse_number(found.get(word, ""))) is not None), None)
            if number is not None:
                return number
    return None
