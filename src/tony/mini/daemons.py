"""The daemons of a small cluster: their names, addresses, port names and Java command lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tony.errors import UserError
from tony.mini.layout import ClusterLayout

#: Address of daemons. Loopback only: a cluster without security runs programs for every client that can reach it.
HOST = "127.0.0.1"
#: Each node has an address of its own, so that requests for hosts are meaningful; all of 127.0.0.0/8 is loopback.
_NODE_NETWORK = "127.0.1"
#: Number of addresses for nodes.
MAX_NODES = 254
#: Variable in the environment of daemons and their descendants: the folder of their cluster.
MARKER = "TONY_MINI"

_PACKAGE = "org.apache.hadoop"
#: Packages that Hadoop accesses by reflection; opened on Java 17, as by Hadoop's own start scripts.
_OPENED = (
    "java.io",
    "java.lang",
    "java.lang.reflect",
    "java.math",
    "java.net",
    "java.text",
    "java.util",
    "java.util.concurrent",
    "java.util.zip",
    "sun.security.util",
    "sun.security.x509",
)
_EXPORTED = ("sun.net.dns", "sun.net.util")


class DaemonKind(Enum):
    """The kind of a daemon."""

    NAME_NODE = "nn"
    RESOURCE_MANAGER = "rm"
    DATA_NODE = "dn"
    NODE_MANAGER = "nm"


_MAIN = {
    DaemonKind.NAME_NODE: f"{_PACKAGE}.hdfs.server.namenode.NameNode",
    DaemonKind.RESOURCE_MANAGER: f"{_PACKAGE}.yarn.server.resourcemanager.ResourceManager",
    DaemonKind.DATA_NODE: f"{_PACKAGE}.hdfs.server.datanode.DataNode",
    DaemonKind.NODE_MANAGER: f"{_PACKAGE}.yarn.server.nodemanager.NodeManager",
}
_HEAP = {
    DaemonKind.NAME_NODE: "192m",
    DaemonKind.RESOURCE_MANAGER: "320m",
    DaemonKind.DATA_NODE: "160m",
    DaemonKind.NODE_MANAGER: "224m",
}
#: Ports of each kind; `web` serves web pages.
_PORTS = {
    DaemonKind.NAME_NODE: ("rpc", "web"),
    DaemonKind.RESOURCE_MANAGER: ("client", "scheduler", "tracker", "admin", "web"),
    DaemonKind.DATA_NODE: ("data", "ipc", "web"),
    DaemonKind.NODE_MANAGER: ("rpc", "localizer", "collector", "web"),
}


@dataclass(frozen=True, slots=True)
class MiniDaemon:
    """One process of the cluster.

    Attributes:
        name: `nn`, `rm`, `dn1`, `nm1`...
    """

    name: str

    @property
    def kind(self) -> DaemonKind:
        """The kind of the daemon, from its name."""
        return DaemonKind(self.name[:2])

    @property
    def index(self) -> int:
        """Number of a DataNode or NodeManager, from 1; 0 for the others."""
        return int(self.name[2:] or 0)

    @property
    def host(self) -> str:
        """The address it listens on."""
        return f"{_NODE_NETWORK}.{self.index}" if self.kind is DaemonKind.NODE_MANAGER else HOST

    @property
    def ports(self) -> tuple[str, ...]:
        """Names of its ports: `nm1.web`..."""
        return tuple(f"{self.name}.{port}" for port in _PORTS[self.kind])


def list_daemons(nodes: int, datanodes: int) -> tuple[MiniDaemon, ...]:
    """Return all daemons of a cluster, in start order."""
    names = ["nn", "rm", *(f"dn{n}" for n in range(1, datanodes + 1)), *(f"nm{n}" for n in range(1, nodes + 1))]
    return tuple(map(MiniDaemon, names))


def parse(text: str, nodes: int, datanodes: int, others: Iterable[MiniDaemon] = ()) -> MiniDaemon:
    """Parse a daemon's name; `dn` and `nm` are enough if there is only one.

    Args:
        others: further daemons of the cluster.

    Raises:
        UserError: there is none of that name.
    """
    known = (*list_daemons(nodes, datanodes), *others)
    only = {"dn": datanodes, "nm": nodes}.get(text)
    found = MiniDaemon(f"{text}1" if only == 1 else text)
    if found not in known:
        raise UserError(f"unknown daemon {text!r}; this cluster has {', '.join(daemon.name for daemon in known)}")
    return found


def command(daemon: MiniDaemon, java: Path, jars: Path, places: ClusterLayout, *arguments: str) -> list[str]:
    """Return the command line of a daemon.

    Args:
        java: JAVA_HOME.
        arguments: `-format` for a NameNode.
    """
    web = [places.web] if daemon.kind in (DaemonKind.NAME_NODE, DaemonKind.DATA_NODE) else []
    folders = [*web, places.find_own_conf(daemon.name), places.conf]
    return java_command(java, jars, folders, places, _HEAP[daemon.kind], _MAIN[daemon.kind], *arguments)


def tool_command(java: Path, jars: Path, places: ClusterLayout, main: str, *arguments: str) -> list[str]:
    """Return the command line of a Hadoop tool, such as `org.apache.hadoop.fs.FsShell`."""
    return java_command(java, jars, [places.conf], places, "128m", main, *arguments)


def java_command(
    java: Path, jars: Path, folders: list[Path], places: ClusterLayout, heap: str, main: str, *arguments: str
) -> list[str]:
    """Return a Java command line with the options that Hadoop needs, and few others."""
    return [
        str(java / "bin" / "java"),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",  # would leave a file in /tmp
        "-Xshare:auto",
        "-Djava.net.preferIPv4Stack=true",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={places.tmp}",
        f"-Djdk.net.hosts.file={places.hosts}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        *(f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in _EXPORTED),
        "-cp",
        ":".join([*map(str, folders), f"{jars}/*"]),
        main,
        *arguments,
    ]
