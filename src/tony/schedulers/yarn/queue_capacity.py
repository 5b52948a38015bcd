"""The maximum capacity of the job's queue. Pure."""

from __future__ import annotations

from tony.schedulers.yarn.capacity import ClusterCapacity
from tony.schedulers.yarn.demand_spec import MEMORY, ContainerDemand, amount_text, nodes_for


def is_queue_mapping_possible(offer: ClusterCapacity) -> bool:
    """Return True if the cluster may map users to queues, so that this queue name stands for the user's queue."""
    return offer.queue is not None and offer.queue.path in ("default", "root.default")


def too_much(want: ContainerDemand, offer: ClusterCapacity) -> str:
    """Return why the queue can never hold the container; empty if it can, or if that is uncertain.

    Memory only: whether other resources count depends on a setting that only the ResourceManager knows.
    """
    limit, queue = most_memory(want, offer), offer.queue
    if limit is None or queue is None or want.amounts.get(MEMORY, 0) <= limit:
        return ""
    whole = sum(node.has.get(MEMORY, 0) for node in nodes_for(want, offer))
    share = f", {round(100 * queue.share, 2):g} % by its maximum-capacity and its parents'" if queue.share else ""
    return (
        f"{want.what} requests {amount_text(MEMORY, want.amounts[MEMORY])}, but the queue {queue.path} can use at most "
        f"{amount_text(MEMORY, limit)} of {amount_text(MEMORY, whole)} in all{share}"
    )


def most_memory(want: ContainerDemand, offer: ClusterCapacity) -> int | None:
    """Return the most memory that the queue can ever have, with every node back; None if that is uncertain.

    A label has limits of its own, and no limit for containers without a label counts on nodes with a shared label.
    """
    queue = offer.queue
    if queue is None or queue.most_memory is None or want.label or offer.shared_labels:
        return None
    nodes = nodes_for(want, offer)
    running = sum(node.has.get(MEMORY, 0) for node in nodes if not node.away)
    whole = sum(node.has.get(MEMORY, 0) for node in nodes)
    if not running:
        return None
    # A share grows with the cluster, an absolute limit less. The share includes nodes that have just joined.
    return max(-(-queue.most_memory * whole // running), int(queue.share * whole))
