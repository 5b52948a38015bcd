"""What runs in a home: written down after every start, so that a cluster can always be ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tony.dataclass import dataclass, field, replace
from tony.errors import RecordError
from tony.linux.process import is_alive, start_time
from tony.mini.daemons import MiniDaemon, daemons
from tony.mini.layout import Places
from tony.mini.options import MiniOptions
from tony.model.codec import DecodeError, from_plain, to_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, named for ever.

    Attributes:
        started: in clock ticks since boot.
    """

    pid: int
    started: int

    @property
    def living(self) -> bool:
        """Whether it is still there; a later process of the same pid is not it."""
        return start_time(self.pid) == self.started and is_alive(self.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster as it was last known.

    Attributes:
        options: what it was to be.
        java: the home of its Java.
        jars: the folder of its Java archives.
        path: PATH of the nodes and of containers.
        ports: `nn.rpc`, `nm1.web`... -> port; fixed for the cluster's life.
        processes: daemon -> its last process, living or not.
        ready: whether it once was.
        others: daemons beside those of the options, such as `rm2`: of whoever makes a cluster of another kind.
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
        """All that belong to it, running or not."""
        return (*map(MiniDaemon, self.others), *daemons(self.options.nodes, self.options.datanodes))

    def living(self) -> dict[str, Process]:
        """The daemons that run."""
        return {name: process for name, process in self.processes.items() if process.living}

    def address(self, port: str) -> str:
        """`host:port` of a port such as `rm.web`."""
        return f"{MiniDaemon(port.partition('.')[0]).host}:{self.ports[port]}"

    def with_process(self, daemon: MiniDaemon, pid: int) -> ClusterState:
        """With a daemon that was just started by us, so that it cannot be gone yet, not even if it has ended."""
        process = Process(pid=pid, started=start_time(pid) or 0)
        return replace(self, processes={**self.processes, daemon.name: process})


def load(places: Places) -> ClusterState | None:
    """What was last written; None if nothing is there.

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
        raise RecordError(f"{places.state} is damaged ({error}); end the cluster with: tony mini stop") from error


def save(places: Places, state: ClusterState) -> None:
    """Writes it whole or not at all."""
    text = json.dumps(to_plain(state), indent=1)
    new = Path(f"{places.state}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(places.state)
