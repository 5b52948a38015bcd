"""The maximum capacity of the job's queue. Pure."""

from __future__ import annotations

from tony.schedulers.yarn.allocation.container_demand import MEMORY, ContainerDemand, find_nodes, format_amount
from tony.schedulers.yarn.client.capacity import ClusterCapacity


def is_queue_mapping_possible(capacity: ClusterCapacity) -> bool:
    """Return True if the cluster may map users to queues, so that this queue name stands for the user's queue."""
    return capacity.queue is not None and capacity.queue.path in ("default", "root.default")


def explain_over_queue_limit(demand: ContainerDemand, capacity: ClusterCapacity) -> str:
    """Return why the queue can never hold the container; empty if it can, or if that is uncertain.

    Memory only: whether other resources count depends on a setting that only the ResourceManager knows.
    """
    limit, queue = find_most_memory(demand, capacity), capacity.queue
    if limit is None or queue is None or demand.amounts.get(MEMORY, 0) <= limit:
        return ""
    whole = sum(node.has.get(MEMORY, 0) for node in find_nodes(demand, capacity))
    share = f", {round(100 * queue.share, 2):g} % by its maximum-capacity and its parents'" if queue.share else ""
    return (
        f"{demand.what} requests {format_amount(MEMORY, demand.amounts[MEMORY])}, but the queue {queue.path} can use "
        "at "
        f"most {format_amount(MEMORY, limit)} of {format_amount(MEMORY, whole)} in all{share}"
    )


def find_most_memory(demand: ContainerDemand, capacity: ClusterCapacity) -> int | None:
    """Return the most memory that the queue can ever have, with every node back; None if that is uncertain.

    A label has limits of its own, and no limit for containers without a label counts on nodes with a shared label.
    """
    queue = capacity.queue
    if queue is None or queue.most_memory is None or demand.label or capacity.shared_labels:
        return None
    nodes = find_nodes(demand, capacity)
    running = sum(node.has.get(MEMORY, 0) for node in nodes if not node.away)
    whole = sum(node.has.get(MEMORY, 0) for node in nodes)
    if not running:
        return None
    # A share grows with the cluster, an absolute limit less. The share includes nodes that have just joined.
    return max(-(-queue.most_memory * whole // running), int(queue.share * whole))
