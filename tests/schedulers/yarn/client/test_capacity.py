"""What a ResourceManager says becomes what a cluster has."""

import pytest

from tony.hadoop.wire.application_client import (
    NodeLabel,
    QueueConfiguration,
    QueueConfigurationEntry,
    QueueInfo,
    QueueState,
)
from tony.hadoop.wire.yarn_records import NodeId, NodeReport, NodeState, Resource, ResourceTypeInfo
from tony.schedulers.yarn.client.capacity import ClusterCapacity, ClusterNode, Queue, build_capacity

HALF = QueueConfiguration(absolute_max_capacity=0.5, effective_max_capacity=Resource(memory=6144, vcores=18))
ALL = QueueConfiguration(absolute_max_capacity=1.0, effective_max_capacity=Resource(memory=12288, vcores=36))
LEAF = QueueInfo(
    name="a",
    path="root.flex.a",
    state=QueueState.RUNNING,
    accessible_node_labels=("*",),
    configurations=(
        QueueConfigurationEntry(label="fast", configuration=ALL),
        QueueConfigurationEntry(label="", configuration=HALF),
    ),
)
ROOT = QueueInfo(
    name="root",
    scheduler_type="CapacityScheduler",
    children=(
        QueueInfo(name="default", path="root.default"),
        QueueInfo(name="flex", path="root.flex", children=(LEAF,)),
    ),
)


def report(host: str, state: NodeState, port: int = 1, labels: tuple[str, ...] = ()) -> NodeReport:
    node = NodeId(host=host, port=port)
    return NodeReport(id=node, state=state, capability=Resource(memory=4096, vcores=8), labels=labels)


def offered(
    name: str = "a", queue: QueueInfo | None = LEAF, root: QueueInfo | None = ROOT, nodes: tuple[NodeReport, ...] = ()
) -> ClusterCapacity:
    return build_capacity(
        maximum=Resource(memory=4096, vcores=8),
        types=[ResourceTypeInfo(name="memory-mb")],
        labels=[NodeLabel(name="fast"), NodeLabel(name="lent", exclusive=False)],
        nodes=nodes,
        name=name,
        queue=queue,
        root=root,
    )


def test_capacity_from_all_responses() -> None:
    """The limit is that of nodes without a label."""
    assert offered() == ClusterCapacity(
        maximum={"memory-mb": 4096, "vcores": 8},
        types=["memory-mb"],
        labels=["fast", "lent"],
        shared_labels=["lent"],
        nodes=[],
        queue=Queue(running=True, labels=("*",), path="root.flex.a", most_memory=6144, share=0.5),
        queues=["default", "a"],
    )


def test_a_scheduler_with_fewer_fields() -> None:
    """A missing limit means no limit; a queue without a state does not count as stopped."""
    assert offered(queue=QueueInfo(name="a")).queue == Queue(running=True, labels=(), path="a")
    nothing = QueueConfiguration(effective_max_capacity=Resource(memory=0), absolute_max_capacity=0.0)
    at_times = QueueInfo(name="a", configurations=(QueueConfigurationEntry(label="", configuration=nothing),))
    assert offered(queue=at_times).queue == Queue(running=True, labels=(), path="a")
    assert offered(root=None).queues == []


def test_nodes() -> None:
    """With their labels, and why they are away; what was started anew at another port is not."""
    has = {"memory-mb": 4096, "vcores": 8}
    states = {"u": NodeState.UNHEALTHY, "l": NodeState.LOST, "d": NodeState.DECOMMISSIONING, "s": NodeState.SHUTDOWN}
    away = [report(host, state, labels=("fast",)) for host, state in states.items()]
    nodes = offered(nodes=(report("r", NodeState.RUNNING), report("r", NodeState.LOST, port=2), *away)).nodes
    names = {"u": "unhealthy", "l": "lost", "d": "decommissioning", "s": "shutdown"}
    expected = [ClusterNode(host=host, has=has, labels=("fast",), away=name) for host, name in names.items()]
    assert nodes == [ClusterNode(host="r", has=has), *expected]


@pytest.mark.parametrize(
    ("name", "scheduler", "made_below", "whole_path"),
    [
        ("root.flex.ann", "CapacityScheduler", "root.flex", ""),
        ("root.flex.team.ann", "CapacityScheduler", "root.flex", ""),
        ("root.ann", "CapacityScheduler", "root", ""),
        ("root.nope.ann", "CapacityScheduler", "root", ""),
        ("flex.ann", "CapacityScheduler", "", "root.flex.ann"),
        ("flex.a", "CapacityScheduler", "", "root.flex.a"),
        ("flex.ann", "FairScheduler", "root.flex", ""),
        ("nope.ann", "CapacityScheduler", "", ""),
        ("nope.ann", "FairScheduler", "", ""),
        ("ann", "CapacityScheduler", "", ""),
        ("", "CapacityScheduler", "", ""),
        ("root.", "CapacityScheduler", "root", ""),
    ],
)
def test_a_queue_that_is_missing(name: str, scheduler: str, made_below: str, whole_path: str) -> None:
    """May be made if its path begins with one that there is."""
    root = QueueInfo(name="root", scheduler_type=scheduler, children=ROOT.children)
    found = offered(name, queue=None, root=root)
    assert (found.made_below, found.whole_path) == (made_below, whole_path)


def test_queue_paths_from_whole_names() -> None:
    """With some schedulers the queue names are whole paths."""
    grandchild = QueueInfo(name="root.users.b")
    for name in ("users", "root.users"):
        root = QueueInfo(name="root", children=(QueueInfo(name=name, children=(grandchild,)),))
        assert offered("root.users.b.ann", queue=None, root=root).made_below == "root.users.b"


def test_nothing_is_missing() -> None:
    """An existing queue need not be created, and nothing is reported of an unknown one."""
    for found in (offered("root.flex.a"), offered("root.flex.b", queue=None, root=None)):
        assert (found.made_below, found.whole_path) == ("", "")
