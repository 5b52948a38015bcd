"""Options of a small cluster, and their syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tony.errors import UserError
from tony.mini.daemons import MAX_NODES, list_daemons

#: Default release, tested with tony.
DEFAULT_HADOOP = "3.4.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopProperty:
    """One Hadoop property.

    Attributes:
        daemon: for this NodeManager or DataNode only, such as `nm1`; None for all.
    """

    key: str
    value: str
    daemon: str | None = None

    @classmethod
    def read(cls, text: str) -> HadoopProperty:
        """Parse `key=value` or `nm1:key=value`.

        Raises:
            UserError: it is neither.
        """
        found = re.fullmatch(r"(?:([nd][nm][1-9]\d{0,2}):)?([\w.@/-]+)=(.*)", text, re.DOTALL)
        if not found:
            raise UserError(f"--set {text!r}: write KEY=VALUE, or nm1:KEY=VALUE for one node")
        return cls(key=found[2], value=found[3], daemon=found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """An exclusive node label and its nodes, counted from 1, which accept only requests that name the label."""

    name: str
    nodes: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Label:
        """Parse `gpu=nm2,nm3`.

        Raises:
            UserError: it is something else.
        """
        found = re.fullmatch(r"([A-Za-z0-9][\w-]*)=(nm[1-9]\d{0,2}(?:,nm[1-9]\d{0,2})*)", text, re.ASCII)
        if not found:
            raise UserError(f"--label {text!r}: write LABEL=nm1, or LABEL=nm1,nm2 for several nodes")
        return cls(name=found[1], nodes=tuple(int(node[2:]) for node in found[2].split(",")))


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniOptions:
    """Options of a cluster.

    Attributes:
        hadoop: the release.
        nodes: number of NodeManagers.
        datanodes: number of DataNodes.
        settings: properties that override the defaults.
        labels: node labels.
        path: PATH of the nodes, and so of containers; None for this interpreter as `python3`, then the starting
            user's PATH.
    """

    hadoop: str = DEFAULT_HADOOP
    nodes: int = 3
    datanodes: int = 1
    settings: tuple[HadoopProperty, ...] = ()
    labels: tuple[Label, ...] = ()
    path: str | None = None

    def check(self) -> None:
        """Refuse invalid options.

        Raises:
            UserError: says which.
        """
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.hadoop, re.ASCII):
            raise UserError(f"--hadoop {self.hadoop}: expected a release such as {DEFAULT_HADOOP}")
        for name, count in (("nodes", self.nodes), ("datanodes", self.datanodes)):
            if not 1 <= count <= MAX_NODES:
                raise UserError(f"--{name} {count}: expected a number from 1 to {MAX_NODES}")
        named = [
            (f"--set {setting.daemon}:{setting.key}", setting.daemon) for setting in self.settings if setting.daemon
        ]
        named += [(f"--label {label.name}", f"nm{node}") for label in self.labels for node in label.nodes]
        known = {daemon.name for daemon in list_daemons(self.nodes, self.datanodes) if daemon.index}
        for where, name in named:
            if name not in known:
                raise UserError(f"{where}: this cluster has no {name}; see --nodes and --datanodes")
        nodes = [node for label in self.labels for node in label.nodes]
        if len(nodes) != len(set(nodes)):
            raise UserError("--label: Hadoop allows one label per node, but a node is listed under several")
