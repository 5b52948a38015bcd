"""What the job's queue can ever hold. Pure."""

from __future__ import annotations

from tony.schedulers.yarn.capacity import ClusterCapacity
from tony.schedulers.yarn.demand_spec import MEMORY, ContainerDemand, amount_text, nodes_for


def is_queue_mapping_possible(offer: ClusterCapacity) -> bool:
    """Clusters may map users to queues, and then the one of this name stands for theirs."""
    return offer.queue is not None and offer.queue.path in ("default", "root.default")


def too_much(want: ContainerDemand, offer: ClusterCapacity) -> str:
    """Why its queue can never hold it; empty if it can, or if that is not certain.

    Memory only: whether the other amounts count is up to a setting that only the ResourceManager knows.
    """
    limit, queue = most_memory(want, offer), offer.queue
    if limit is None or queue is None or want.amounts.get(MEMORY, 0) <= limit:
        return ""
    whole = sum(node.has.get(MEMORY, 0) for node in nodes_for(want, offer))
    share = f", {round(100 * queue.share, 2):g} % by its maximum-capacity and those above it" if queue.share else ""
    return (
        f"{want.what} asks for {amount_text(MEMORY, want.amounts[MEMORY])}, and the queue {queue.path} may have "
        f"{amount_text(MEMORY, limit)} at most of {amount_text(MEMORY, whole)} in all{share}"
    )


def most_memory(want: ContainerDemand, offer: ClusterCapacity) -> int | None:
    """The most memory that its queue can have, even when every node is back; None if that is not certain.

    A label has limits of its own, and on nodes whose label is shared none counts for containers without one.
    """
    queue = offer.queue
    if queue is None or queue.most_memory is None or want.label or offer.shared_labels:
        return None
    nodes = nodes_for(want, offer)
    running = sum(node.has.get(MEMORY, 0) for node in nodes if not node.away)
    whole = sum(node.has.get(MEMORY, 0) for node in nodes)
    if not running:
        return None
    # A part of all grows as all does, an amount that is configured less. The part counts nodes that came just now.
    return max(-(-queue.most_memory * whole // running), int(queue.share * whole))
