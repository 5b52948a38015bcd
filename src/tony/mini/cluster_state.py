"""The stored state of a cluster, written after every start of a daemon, so that it can always be stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tony.errors import RecordError
from tony.linux.process import is_alive, start_time
from tony.mini.daemons import MiniDaemon, list_daemons
from tony.mini.layout import ClusterLayout
from tony.mini.options import MiniOptions
from tony.model.codec import DecodeError, from_plain, to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, identified across reuse of its pid.

    Attributes:
        started: start time in clock ticks since boot.
    """

    pid: int
    started: int

    @property
    def living(self) -> bool:
        """Return True while it is running; a later process with the same pid does not count."""
        return start_time(self.pid) == self.started and is_alive(self.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The last known state of a cluster.

    Attributes:
        java: JAVA_HOME.
        jars: folder of Hadoop's jars.
        path: PATH of the nodes and of containers.
        ports: `nn.rpc`, `nm1.web`... -> port; fixed for the cluster's life.
        processes: daemon -> its last process, running or not.
        ready: whether it has been ready.
        others: daemons besides those of the options, such as `rm2`, in other kinds of clusters (tests).
    """

    options: MiniOptions
    java: str
    jars: str
    path: str
    ports: Mapping[str, int]
    processes: Mapping[str, Process] = field(default_factory=dict)
    ready: bool = False
    others: tuple[str, ...] = ()

    @property
    def daemons(self) -> tuple[MiniDaemon, ...]:
        """All daemons of the cluster, running or not."""
        return (*map(MiniDaemon, self.others), *list_daemons(self.options.nodes, self.options.datanodes))

    def find_running(self) -> dict[str, Process]:
        """Return the processes of running daemons."""
        return {name: process for name, process in self.processes.items() if process.living}

    def address(self, port: str) -> str:
        """Return `host:port` of a port such as `rm.web`."""
        return f"{MiniDaemon(port.partition('.')[0]).host}:{self.ports[port]}"

    def with_process(self, daemon: MiniDaemon, pid: int) -> ClusterState:
        """Return the state with a daemon just started as our child (so its pid is valid even if it has ended)."""
        process = Process(pid=pid, started=start_time(pid) or 0)
        return replace(self, processes={**self.processes, daemon.name: process})


def load(places: ClusterLayout) -> ClusterState | None:
    """Return the stored state; None if there is none.

    Raises:
        RecordError: it is damaged.
    """
    try:
        text = places.state.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return from_plain(ClusterState, json.loads(text))
    except (ValueError, DecodeError) as error:
        raise RecordError(f"{places.state} is damaged ({error}); stop the cluster with: tony mini stop") from error


def save(places: ClusterLayout, state: ClusterState) -> None:
    """Store the state atomically."""
    text = json.dumps(to_plain(state), indent=1)
    new = Path(f"{places.state}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(places.state)
