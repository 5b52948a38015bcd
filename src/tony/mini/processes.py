"""Start and stop daemons, leaving no process behind; the ends of their logs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tony.errors import InfraError
from tony.linux.files import read_tail
from tony.linux.process import has_marker, kill_until_none, send, with_marker
from tony.mini.cluster_state import ClusterState, Process
from tony.mini.daemons import MARKER, MiniDaemon, command
from tony.mini.layout import ClusterLayout

#: Variables that daemons inherit from the user's environment.
_INHERITED = ("HOME", "LANG", "LOGNAME", "TZ", "USER")
#: Lines of a log that an error shows, most of which are not from a stack trace.
_LINES = 12
#: Bytes of a log that are searched for them.
_TAIL = 65536
_PORT_IN_USE = re.compile(r"BindException|Address already in use|Port in use", re.IGNORECASE)
#: Our own children, so that they can be reaped. They usually outlive this process.
_children: list[subprocess.Popen[bytes]] = []


def environment(state: ClusterState, places: ClusterLayout, own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of daemons. Containers get `JAVA_HOME` and `HADOOP_CONF_DIR` from it, and the rest from
    yarn-site.xml.

    Args:
        own: the starting process's environment.
    """
    taken = {name: own[name] for name in _INHERITED if name in own}
    return {
        "LANG": "C.UTF-8",
        **taken,
        "PATH": state.path,
        "JAVA_HOME": state.java,
        "HADOOP_CONF_DIR": str(places.conf),
        MARKER: str(places.path),
    }


def spawn(line: list[str], variables: Mapping[str, str], folder: Path, log: Path) -> int:
    """Start a daemon in a session of its own; append its output to its log.

    Returns:
        Its pid.
    """
    with open(log, "ab") as file:
        child = subprocess.Popen(
            line,
            env=dict(variables),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    _children.append(child)
    return child.pid


def signal_one(process: Process, number: int) -> bool:
    """Send a signal to a process, never to a later one with its pid."""
    return send(process.pid, number, lambda pid: process.living)


def end(processes: Iterable[Process], timeout: float = 10.0) -> None:
    """Kill processes, and wait until they are gone."""
    killed = list(processes)
    for process in killed:
        signal_one(process, signal.SIGKILL)
    wait_for_end(killed, timeout)


def wait_for_end(processes: Collection[Process], timeout: float) -> bool:
    """Return True if all have ended in time."""
    deadline = time.monotonic() + timeout
    while left := any(process.living for process in processes):
        if time.monotonic() >= deadline:
            break
        time.sleep(0.005)
    _children[:] = [child for child in _children if child.poll() is None]
    return not left


def sweep(places: ClusterLayout, timeout: float = 10.0) -> int:
    """Kill all processes of a cluster, known by their environment or working directory, whatever its state file says.

    Returns:
        How many there were.
    """
    marker = f"{MARKER}={places.path}\0"
    text = marker.encode()

    def belongs(pid: int) -> bool:
        return has_marker(pid, text) or _works_in(pid, places.path)

    def kill() -> Collection[int]:
        found = {*_find_working_in(places.path), *with_marker(marker)}
        return [pid for pid in found if send(pid, signal.SIGKILL, belongs)]

    return kill_until_none(kill, timeout)


def _find_working_in(folder: Path) -> list[int]:
    own = os.getpid()
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own and _works_in(name, folder)
    ]


def _works_in(pid: int | str, folder: Path) -> bool:
    """Return True if a process's working directory is one that a node of the cluster made for a container."""
    try:
        place = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return place.startswith(f"{folder}/nm") and "/local/" in place


def format_name_node(state: ClusterState, places: ClusterLayout, variables: dict[str, str]) -> None:
    """Format the NameNode: create an empty file system.

    Raises:
        InfraError: Java or Hadoop failed; says how.
    """
    log = places.find_log("format")
    line = command(MiniDaemon("nn"), Path(state.java), Path(state.jars), places, "-format", "-nonInteractive")
    with open(log, "wb") as file:
        done = subprocess.run(
            line, env=variables, cwd=places.path, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
        )
    if done.returncode != 0:
        raise InfraError("\n".join([f"formatting the NameNode failed; see {log}:", *log_tail(log)]))


def log_tail(log: Path) -> list[str]:
    """Return the last informative lines of a log: stack traces without their frames."""
    try:
        text = read_tail(log, _TAIL).decode(errors="replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s+(at |\.\.\. \d+ more)", line)]
    # Hadoop's shutdown banner of asterisks has no further information.
    lines = [line for line in lines if not re.match(r"[/*]|SHUTDOWN_MSG", line) and "SHUTDOWN_MSG" not in line]
    return [line[:400] for line in lines[-_LINES:]]


def is_port_in_use(log: Path) -> bool:
    """Return True if a daemon died because its port was in use."""
    return any(_PORT_IN_USE.search(line) for line in log_tail(log))
