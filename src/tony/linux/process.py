"""Linux processes, beyond what Python offers: prctl, process trees, markers.

A *marker* is text in the environment of a process and so of everything it starts, however often that forks, starts
sessions of its own or loses its parent. It finds processes that a process tree does not: `/proc/<pid>/environ` is
readable by the same user, and a process has to clear its environment to lose the marker.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from tony.retry import Backoff

_PR_SET_PDEATHSIG = 1
_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
#: Between two searches for processes that are being killed.
KILL_BACKOFF = Backoff(first=0.001, most=0.05)
#: An exec replaces a program, then its arguments, then its environment: how often to look for these, and the pause.
_EXEC_LOOKS = 100
_EXEC_PAUSE_SECONDS = 0.001
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def set_child_subreaper() -> None:
    """Adopt orphaned descendants in place of init: no process escapes by losing its parent."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_not_dumpable() -> None:
    """Keep other processes of the same user from reading this process's memory, and prevent core files.

    Afterwards /proc/self belongs to root: without privileges a process cannot even read its own environ.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


@contextlib.contextmanager
def dumpable_for_a_moment() -> Iterator[None]:
    """Undo `set_not_dumpable` inside: to open own files in /proc, and for nothing that takes time."""
    before = _libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    _prctl(_PR_SET_DUMPABLE, 1)
    try:
        yield
    finally:
        _prctl(_PR_SET_DUMPABLE, int(before == 1))


def format_signal(number: int) -> str:
    """Return a name such as `SIGKILL`, also for real-time signals without a name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else f"signal {number}"


def set_parent_death_signal(signum: int) -> None:
    """Have the kernel signal this process when the *thread* that started it ends. Not inherited by children.

    It does not fire if the parent has already exited: compare `os.getppid()` afterwards.
    """
    _prctl(_PR_SET_PDEATHSIG, signum)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of its parent that started it ends; at once if it has."""
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)  # the parent died before the signal was set


def hear_signals() -> None:
    """Reset inherited signal settings: blocked signals, and an ignored SIGCHLD, which hides children's exit status.

    A parent, such as a server with its own signal threads, may need such settings; processes of tony do not.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot: unique together with the pid. None if it has exited."""
    found = _stat(pid)
    return None if found is None else found[1]


def is_alive(pid: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    found = _stat(pid)
    return found is not None and not found[2]


def name(pid: int) -> str:
    """Return a process's name as in `ps`, at most 15 characters; `?` if it has exited."""
    return _read(f"/proc/{pid}/comm", 64).strip() or "?"


def is_stopped(pid: int) -> bool:
    """Return True if a process is stopped (SIGSTOP, Ctrl-Z, a debugger)."""
    return _read(f"/proc/{pid}/stat", 1024).rpartition(")")[2].split()[:1] in (["T"], ["t"])


def descendants(pid: int) -> list[int]:
    """Return all running processes below `pid`, without itself, parents before children. Zombies are not listed."""
    families: dict[int, list[int]] = {}
    zombies = set()
    for each in _pids():
        found = _stat(each)
        if found is None:
            continue
        families.setdefault(found[0], []).append(each)
        if found[2]:
            zombies.add(each)
    result: list[int] = []
    todo = [pid]
    while todo:
        children = families.pop(todo.pop(), [])
        result += children
        todo += children
    return [each for each in result if each not in zombies]


def children(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`, zombies included."""
    return [each for each in _pids() if (found := _stat(each)) is not None and found[0] == pid]


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; None if it has exited."""
    found = _stat(pid)
    return None if found is None else found[0]


def children_of(pid: int) -> list[int] | None:
    """Like `list_own_children`, for another process; None if it has exited, or the kernel does not list them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # kernels with CONFIG_PROC_CHILDREN
                found += map(int, file.read().split())
    except OSError:
        return None
    return found


def list_own_children() -> list[int] | None:
    """Return this process's children, including zombies and adopted ones; None where the kernel does not list them.

    The cost depends on their number, not on the machine's. Complete if the caller also waits for children: a child
    leaves the kernel's list when it is waited for, and a gap made during the read can hide the next one.
    """
    return children_of(os.getpid())


def list_below() -> list[int]:
    """Return all running processes below this one, parents before children: like `descendants`, but cheaper.

    One that starts, or loses its parent, at the same time may be missed.
    """
    todo = list_own_children()
    if todo is None:
        return descendants(os.getpid())
    found: list[int] = []
    while todo:
        found += todo
        todo = [
            child for pid in todo for child in children_of(pid) or ()
        ]  # children of one that just exited are adopted by now
    return [pid for pid in found if is_alive(pid)]


def with_marker(*markers: str) -> list[int]:
    """Return all other running processes whose environment has one of the texts, such as `TONY_TASK=<job id>/`."""
    texts = [marker.encode() for marker in markers]
    own = os.getpid()
    return [pid for pid in _pids() if pid != own and has_marker(pid, *texts)]


def has_marker(pid: int, *markers: bytes) -> bool:
    """Return True if a process's environment contains a text; False if it cannot be read."""
    environ = environment_of(pid)
    return any(marker in environ for marker in markers)


def environment_of(pid: int) -> bytes:
    """Return a process's environment at exec; empty if it cannot be read. Waits for the end of an exec."""
    has_arguments, looks = False, 0
    try:
        while not (environ := _read_file(f"/proc/{pid}/environ")) and not has_arguments and looks < _EXEC_LOOKS:
            os.readlink(f"/proc/{pid}/exe")  # fails if it has ended, or is a thread of the kernel
            has_arguments = _read_file(f"/proc/{pid}/cmdline") != b""
            time.sleep(0 if has_arguments else _EXEC_PAUSE_SECONDS)
            looks += 1
        return environ
    except OSError:
        return b""


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def send(pid: int, signum: int, still: Callable[[int], bool] = lambda pid: True) -> bool:
    """Signal a process if it is `still` the intended one, without a race with a new process of its pid.

    Returns:
        False if it has exited, is another one, or may not be signalled.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not still(pid):
            return False
        signal.pidfd_send_signal(handle, signum)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def sweep(marker: str, timeout: float = 10.0) -> int:
    """Kill (SIGKILL) everything whose environment contains `marker`, until none is left.

    Args:
        timeout: seconds after which to give up on processes that do not die (stuck in the kernel).

    Returns:
        How many were killed.
    """
    text = marker.encode()

    def kill() -> Collection[int]:
        found = with_marker(marker)
        return [pid for pid in found if send(pid, signal.SIGKILL, lambda pid: has_marker(pid, text))]

    return kill_until_none(kill, timeout)


def kill_until_none(kill: Callable[[], Collection[int]], timeout: float) -> int:
    """Call `kill` until it finds nothing twice in a row: a process that is just executing shows no environment.

    Args:
        kill: signals all that it finds and returns their pids.

    Returns:
        How many were killed.
    """
    deadline = time.monotonic() + timeout
    seen: set[int] = set()
    pauses = iter(KILL_BACKOFF)
    clean = 0
    while clean < 2:
        found = kill()
        seen.update(found)
        clean = 0 if found else clean + 1
        if time.monotonic() >= deadline:
            break
        if found or (clean < 2 and seen):
            time.sleep(next(pauses))
    return len(seen)


def memory_of(pids: Iterable[int]) -> int:
    """Return the memory of processes in bytes, shared pages counted for each (RSS): cheap, never too low."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as statm:
                total += int(statm.read().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            continue
    return total


def machine_oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot; 0 if it does not report that."""
    try:
        with open("/proc/vmstat", "rb") as vmstat:
            return next((int(line.split()[1]) for line in vmstat if line.startswith(b"oom_kill ")), 0)
    except (OSError, IndexError, ValueError):
        return 0


def read_own_peak() -> int:
    """Return this program's peak memory in bytes (VmHWM). `getrusage` includes the parent that it was forked from."""
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def measure_shared_memory(pids: Iterable[int]) -> int:
    """Return the memory of processes in bytes, shared pages divided among their users (PSS): fair, but slow."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
                total += next((int(line.split()[1]) for line in rollup if line.startswith(b"Pss:")), 0) * 1024
        except (OSError, ValueError):
            total += memory_of([pid])
    return total


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _stat(pid: int) -> tuple[int, int, bool] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return parse_stat(stat.read())
    except OSError:
        return None


def parse_stat(text: bytes) -> tuple[int, int, bool] | None:
    """Parse parent, start time, and whether it is a zombie from `/proc/<pid>/stat`; None if it is malformed.

    The command's name may contain blanks and brackets: split after it. A process whose first thread has ended looks
    like a zombie, but is none as long as it has other threads.
    """
    try:
        fields = text.rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    except (IndexError, ValueError):
        return None


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


#: Maximum threads of a process, and lines of the kernel stack of one.
_MAX_THREADS = 20
_MAX_STACK_LINES = 30
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for I/O",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended, not waited for",
    "I": "idle",
}


def wait_channel(pid: int) -> str:
    """Return state and wait channel of each thread, and, where permitted, the kernel stack; empty if it has exited."""
    try:
        threads = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
    except (OSError, ValueError):
        return ""
    found = [_thread(f"/proc/{pid}/task/{thread}", thread) for thread in threads[:_MAX_THREADS]]
    if len(threads) > _MAX_THREADS:
        found.append(f"and {len(threads) - _MAX_THREADS} more threads\n")
    return "".join(found)


def command_of(pid: int) -> str:
    """Return the command line of a process in one line; its name where there is none."""
    line = _read(f"/proc/{pid}/cmdline", 4096).replace("\0", " ").strip()
    return " ".join(line.split()) or f"[{name(pid)}]"


def _thread(folder: str, number: str) -> str:
    fields = _read(f"{folder}/stat", 1024).rpartition(")")[2].split()
    state = _STATES.get(fields[0], fields[0]) if fields else "exited"
    place = _read(f"{folder}/wchan", 200).strip()
    named = _read(f"{folder}/comm", 64).strip()
    where = f" in {place}" if place not in ("", "0") else ""
    stack = _read(f"{folder}/stack", 8192).splitlines()[:_MAX_STACK_LINES]
    return "".join([f"thread {number} ({named}): {state}{where}\n", *(f"    {line}\n" for line in stack)])


def _read(path: str, most: int) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
