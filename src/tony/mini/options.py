"""What a person may say about a small cluster, and the grammar of it."""

from __future__ import annotations

import re

from tony.dataclass import dataclass
from tony.errors import UserError
from tony.mini.daemons import MOST_NODES, daemons

#: The release whose daemons are known to work here.
DEFAULT_HADOOP = "3.4.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopProperty:
    """One property of Hadoop's.

    Attributes:
        daemon: for this NodeManager or DataNode only, such as `nm1`; None for all.
    """

    key: str
    value: str
    daemon: str | None = None

    @classmethod
    def read(cls, text: str) -> HadoopProperty:
        """Reads `key=value` or `nm1:key=value`.

        Raises:
            UserError: it is neither.
        """
        found = re.fullmatch(r"(?:([nd][nm][1-9]\d{0,2}):)?([\w.@/-]+)=(.*)", text, re.DOTALL)
        if not found:
            raise UserError(f"--set {text!r}: write KEY=VALUE, or nm1:KEY=VALUE for one node.")
        return cls(key=found[2], value=found[3], daemon=found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A node label and the nodes, counted from 1, that have it: they take only requests that name the label."""

    name: str
    nodes: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Label:
        """Reads `gpu=nm2,nm3`.

        Raises:
            UserError: it is something else.
        """
        found = re.fullmatch(r"([A-Za-z0-9][\w-]*)=(nm[1-9]\d{0,2}(?:,nm[1-9]\d{0,2})*)", text, re.ASCII)
        if not found:
            raise UserError(f"--label {text!r}: write LABEL=nm1, or LABEL=nm1,nm2 for several nodes.")
        return cls(name=found[1], nodes=tuple(int(node[2:]) for node in found[2].split(",")))


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniOptions:
    """What a cluster is to be.

    Attributes:
        hadoop: the release.
        nodes: how many NodeManagers.
        datanodes: how many DataNodes.
        settings: properties that overrule ours.
        labels: node labels.
        path: PATH of the nodes, and so of containers; None for the interpreter of this program as `python3`, then
            the PATH of whoever starts the cluster.
    """

    hadoop: str = DEFAULT_HADOOP
    nodes: int = 3
    datanodes: int = 1
    settings: tuple[HadoopProperty, ...] = ()
    labels: tuple[Label, ...] = ()
    path: str | None = None

    def check(self) -> None:
        """Refuses what makes no sense.

        Raises:
            UserError: says what.
        """
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.hadoop, re.ASCII):
            raise UserError(f"--hadoop {self.hadoop}: write a release, such as {DEFAULT_HADOOP}.")
        for name, count in (("nodes", self.nodes), ("datanodes", self.datanodes)):
            if not 1 <= count <= MOST_NODES:
                raise UserError(f"--{name} {count}: from 1 to {MOST_NODES}.")
        named = [(f"--set {each.daemon}:{each.key}", each.daemon) for each in self.settings if each.daemon]
        named += [(f"--label {label.name}", f"nm{node}") for label in self.labels for node in label.nodes]
        known = {daemon.name for daemon in daemons(self.nodes, self.datanodes) if daemon.index}
        for where, name in named:
            if name not in known:
                raise UserError(f"{where}: there is no {name} in this cluster; see --nodes and --datanodes.")
        nodes = [node for label in self.labels for node in label.nodes]
        if len(nodes) != len(set(nodes)):
            raise UserError("--label: Hadoop allows one label for a node; one has several here.")
