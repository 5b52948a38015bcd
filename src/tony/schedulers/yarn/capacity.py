"""What a cluster has for a job: its nodes, its limits, the job's queue; out of what the ResourceManager says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tony.dataclass import dataclass
from tony.hadoop.wire.reports import NodeLabel, QueueInfo, QueueState
from tony.hadoop.wire.yarn_records import NodeReport, NodeState, Resource, ResourceTypeInfo

#: Nodes that nobody has taken out for good: they may come back.
AWAY = (
    NodeState.UNHEALTHY,
    NodeState.LOST,
    NodeState.REBOOTED,
    NodeState.DECOMMISSIONING,
    NodeState.SHUTDOWN,
)
#: Does not know a queue by half of its path; others do.
_CAPACITY_SCHEDULER = "CapacityScheduler"
_ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node that runs, or may run again.

    Attributes:
        has: amount of everything, by YARN's names.
        away: why it takes no containers now (`lost`); empty for one that runs.
    """

    host: str
    has: Mapping[str, int]
    labels: Collection[str] = ()
    away: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The job's queue.

    Attributes:
        labels: node labels that it may use; `*` for all.
        label: of its containers that name none; empty for no label.
        children: queues below; jobs go to queues without any.
        path: the whole of it.
        most_memory: the most that it may have now of the nodes without a label, in MiB; None if nobody
            says so: schedulers have queues that get nothing at times.
        share: the same as a part of one, of all these nodes.
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
    """What a cluster has.

    Attributes:
        maximum: the most that one container may have, by YARN's names.
        types: names of all resources that it counts.
        labels: names of all node labels.
        shared_labels: those whose nodes also take what names no label.
        queue: None if there is none of the name.
        queues: names of all queues that take jobs.
        made_below: path of the queue below which the missing one may be made when the job comes; empty if nothing
            is missing, or nobody would make it.
        whole_path: how the missing one must be called instead; empty if that is not known.
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


def offer(
    *,
    maximum: Resource,
    types: Sequence[ResourceTypeInfo],
    labels: Sequence[NodeLabel],
    nodes: Sequence[NodeReport],
    name: str,
    queue: QueueInfo | None,
    root: QueueInfo | None,
) -> ClusterCapacity:
    """Brings together what was asked for.

    Args:
        nodes: those that run, and those that are `AWAY`.
        name: of the queue, as the job says it.
        root: with all queues below.
    """
    made_below, whole_path = ("", "") if queue or root is None else _missing(name, root)
    return ClusterCapacity(
        maximum=maximum.amounts(),
        types=[each.name for each in types],
        labels=[label.name or "" for label in labels],
        shared_labels=[label.name or "" for label in labels if not label.exclusive],
        nodes=_nodes(nodes),
        queue=_queue(queue) if queue else None,
        queues=_leaves(root) if root else [],
        made_below=made_below,
        whole_path=whole_path,
    )


def _nodes(reports: Sequence[NodeReport]) -> list[ClusterNode]:
    """A host with a node that runs is not away: its node was started anew, at another port."""
    running = {_host(report) for report in reports if report.state is NodeState.RUNNING}
    return [
        ClusterNode(
            host=_host(report),
            has=report.capability.amounts() if report.capability else {},
            labels=report.labels,
            away=report.state.name.lower() if report.state in AWAY and report.state else "",
        )
        for report in reports
        if report.state is NodeState.RUNNING or _host(report) not in running
    ]


def _host(report: NodeReport) -> str:
    return report.id.host or "" if report.id else ""


def _queue(info: QueueInfo) -> Queue:
    limits = next((each.configuration for each in info.configurations if not each.label), None)
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


def _missing(name: str, root: QueueInfo) -> tuple[str, str]:
    """Below which queue one of the name may be made, and how it must be called instead."""
    known = set(_paths(root, _ROOT))
    whole = name if name.startswith(f"{_ROOT}.") else f"{_ROOT}.{name}"
    above = whole.rpartition(".")[0]
    if whole == name:
        while above not in known:
            above = above.rpartition(".")[0]
        return above, ""
    if above == _ROOT or not {whole, above} & known:
        return "", ""
    return ("", whole) if root.scheduler_type == _CAPACITY_SCHEDULER else (above, "")


def _paths(info: QueueInfo, path: str) -> Iterator[str]:
    yield path
    for child in info.children:
        last = (child.name or "").rpartition(".")[2]  # some schedulers have the whole path there
        yield from _paths(child, child.path or f"{path}.{last}")


def _leaves(info: QueueInfo) -> list[str]:
    if not info.children:
        return [info.name or ""]
    return [name for child in info.children for name in _leaves(child)]
