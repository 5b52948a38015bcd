"""The resources of a cluster: its nodes, its limits and the job's queue, from the ResourceManager's reports. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.hadoop.wire.application_client import NodeLabel, QueueInfo, QueueState
from tony.hadoop.wire.yarn_records import NodeReport, NodeState, Resource, ResourceTypeInfo

#: States of nodes that have not been removed for good: they may come back.
AWAY = (
    NodeState.UNHEALTHY,
    NodeState.LOST,
    NodeState.REBOOTED,
    NodeState.DECOMMISSIONING,
    NodeState.SHUTDOWN,
)
#: This scheduler does not find a queue by part of its path; others do.
_CAPACITY_SCHEDULER = "CapacityScheduler"
_ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node that is running, or may run again.

    Attributes:
        has: amount of each resource, by YARN's names.
        away: why it takes no containers now (`lost`); empty for one that is running.
    """

    host: str
    has: Mapping[str, int]
    labels: Collection[str] = ()
    away: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The job's queue.

    Attributes:
        labels: accessible node labels; `*` for all.
        label: default node label of its containers; empty for no label.
        children: queues below; jobs go to leaf queues.
        path: the full path.
        most_memory: its effective maximum capacity of nodes without a label, in MiB; None if not reported: some
            schedulers have queues whose share is 0 at times.
        share: the same as a fraction of all these nodes.
    """

    running: bool
    labels: Collection[str] = ()
    label: str = ""
    children: Sequence[str] = ()
    path: str = ""
    most_memory: int | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacity:
    """The resources and limits of a cluster.

    Attributes:
        maximum: the maximum allocation of one container, by YARN's names.
        types: names of all resource types.
        labels: names of all node labels.
        shared_labels: non-exclusive labels, whose nodes also take requests without a label.
        queue: None if there is none of the name.
        queues: names of all leaf queues.
        made_below: path of the queue below which the missing one may be created automatically; empty if none is
            missing, or it would not be created.
        whole_path: full path to use for the missing queue; empty if unknown.
    """

    maximum: Mapping[str, int]
    types: Collection[str]
    labels: Collection[str]
    shared_labels: Collection[str]
    nodes: Sequence[ClusterNode]
    queue: Queue | None
    queues: Sequence[str]
    made_below: str = ""
    whole_path: str = ""


def build_capacity(
    *,
    maximum: Resource,
    types: Sequence[ResourceTypeInfo],
    labels: Sequence[NodeLabel],
    nodes: Sequence[NodeReport],
    name: str,
    queue: QueueInfo | None,
    root: QueueInfo | None,
) -> ClusterCapacity:
    """Combine the ResourceManager's reports.

    Args:
        nodes: those that are running, and those that are `AWAY`.
        name: of the queue, as the job sets it.
        root: the root queue, with all queues below.
    """
    made_below, whole_path = ("", "") if queue or root is None else _find_queue_parent(name, root)
    return ClusterCapacity(
        maximum=maximum.amounts(),
        types=[type_.name for type_ in types],
        labels=[label.name or "" for label in labels],
        shared_labels=[label.name or "" for label in labels if not label.exclusive],
        nodes=_build_nodes(nodes),
        queue=_build_queue(queue) if queue else None,
        queues=_list_leaves(root) if root else [],
        made_below=made_below,
        whole_path=whole_path,
    )


def _build_nodes(reports: Sequence[NodeReport]) -> list[ClusterNode]:
    """Return the nodes. A host with a running node is not away: its NodeManager was restarted on another port."""
    running = {_format_host(report) for report in reports if report.state is NodeState.RUNNING}
    return [
        ClusterNode(
            host=_format_host(report),
            has=report.capability.amounts() if report.capability else {},
            labels=report.labels,
            away=report.state.name.lower() if report.state in AWAY and report.state else "",
        )
        for report in reports
        if report.state is NodeState.RUNNING or _format_host(report) not in running
    ]


def _format_host(report: NodeReport) -> str:
    return report.id.host or "" if report.id else ""


def _build_queue(info: QueueInfo) -> Queue:
    limits = next(
        (configuration.configuration for configuration in info.configurations if not configuration.label), None
    )
    most = limits.effective_max_capacity if limits else None
    return Queue(
        running=info.state in (None, QueueState.RUNNING),
        labels=info.accessible_node_labels,
        label=info.default_node_label_expression or "",
        children=tuple(child.name or "" for child in info.children),
        path=info.path or info.name or "",
        most_memory=(most.memory or None) if most else None,
        share=(limits.absolute_max_capacity if limits else None) or 0.0,
    )


def _find_queue_parent(name: str, root: QueueInfo) -> tuple[str, str]:
    """Return below which queue a missing one may be created, and the full path to use instead."""
    known = set(_iterate_paths(root, _ROOT))
    whole = name if name.startswith(f"{_ROOT}.") else f"{_ROOT}.{name}"
    above = whole.rpartition(".")[0]
    if whole == name:
        while above not in known:
            above = above.rpartition(".")[0]
        return above, ""
    if above == _ROOT or not {whole, above} & known:
        return "", ""
    return ("", whole) if root.scheduler_type == _CAPACITY_SCHEDULER else (above, "")


def _iterate_paths(info: QueueInfo, path: str) -> Iterator[str]:
    yield path
    for child in info.children:
        last = (child.name or "").rpartition(".")[2]  # some schedulers report the full path
        yield from _iterate_paths(child, child.path or f"{path}.{last}")


def _list_leaves(info: QueueInfo) -> list[str]:
    if not info.children:
        return [info.name or ""]
    return [name for child in info.children for name in _list_leaves(child)]
