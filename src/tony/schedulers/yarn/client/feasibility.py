"""Check that a cluster can ever satisfy a job's requests, with the arithmetic. Pure."""

from __future__ import annotations

from tony.errors import Problem
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode
from tony.schedulers.yarn.allocation.container_demand import (
    CORES,
    MEMORY,
    ContainerDemand,
    amount_text,
    amounts_text,
    container_demands,
    fits,
    format_names,
    nodes_for,
)
from tony.schedulers.yarn.client.capacity import ClusterCapacity
from tony.schedulers.yarn.client.queue_limits import is_queue_mapping_possible, most_memory, over_queue_limit
from tony.schedulers.yarn.settings import YarnSettings, read_role_settings

_KEYS = {MEMORY: "memory", CORES: "vcores", "yarn.io/gpu": "gpus"}


def unsatisfiable_requests(spec: JobSpec, settings: YarnSettings, capacity: ClusterCapacity) -> list[Problem]:
    """Return requests of a job that this cluster can never satisfy, even when it is idle."""
    problems = _queue_problems(settings, capacity)
    for demand in container_demands(spec, settings, capacity):
        # The same label for all containers is one error.
        problems += [problem for problem in _container(demand, capacity) if problem not in problems]
    return problems


def notices(spec: JobSpec, settings: YarnSettings, capacity: ClusterCapacity) -> list[str]:
    """Return warnings about requests that the cluster could satisfy, but not now, whichever jobs end."""
    found = []
    if capacity.queue is None and capacity.made_below:
        found.append(
            f"There is no queue {settings.queue} yet; the cluster has {format_names(capacity.queues)}. "
            f"The ResourceManager may create it automatically below {capacity.made_below}."
        )
    found += [
        f"roles.{name}.yarn.mounts has no effect without an image: set `image`, or `docker_image` in [scheduler.yarn]."
        for name, role in spec.effective_roles.items()
        if read_role_settings(role).mounts and not (role.image or settings.docker_image)
    ]
    for demand in container_demands(spec, settings, capacity):
        if notice := _away(demand, capacity) or _perhaps_never(demand, capacity) or _too_many(demand, spec, capacity):
            found.append(notice)
    return found


def _queue_problems(settings: YarnSettings, capacity: ClusterCapacity) -> list[Problem]:
    queue, key = capacity.queue, "scheduler.yarn.queue"
    if queue is None and capacity.made_below:
        return []
    if queue is None:
        hint = f" Use the full path: {capacity.whole_path}." if capacity.whole_path else ""
        message = f"unknown queue; the cluster has {format_names(capacity.queues)}.{hint}"
    elif not queue.running:
        message = "the queue is STOPPED. Use another queue, or ask the cluster's administrator to start it."
    elif queue.children:
        message = f"not a leaf queue, so it accepts no applications; use one of {format_names(queue.children)}."
    else:
        return []
    return [Problem(key=key, value=settings.queue, message=message)]


def _container(demand: ContainerDemand, capacity: ClusterCapacity) -> list[Problem]:
    problems = [
        Problem(
            key=_key(demand.place, name),
            value=str(demand.amounts[name]),
            message=f"the cluster has no resource type {name}; it has {format_names(sorted(capacity.types))}.",
        )
        for name in demand.amounts
        if name not in (MEMORY, CORES) and name not in capacity.types
    ]
    if problems:
        return problems
    if demand.label and (message := _label_problem(demand.label, capacity)):
        key = demand.label_from or _key(demand.place, "label")
        return [Problem(key=key, value=demand.label, message=message)]
    for name, amount in demand.amounts.items():
        most = capacity.maximum.get(name)
        if most is not None and amount > most:
            problems.append(_problem(demand, name, _over_the_most(demand, name, most, capacity)))
    return problems or _no_node(demand, capacity) or _over_queue(demand, capacity)


def _problem(demand: ContainerDemand, name: str, message: str) -> Problem:
    return Problem(key=_key(demand.place, name), value=amount_text(name, demand.amounts[name]), message=message)


def _label_problem(label: str, capacity: ClusterCapacity) -> str:
    """Return why no container of the job can have this label; empty if one can."""
    if label not in capacity.labels:
        known = f"has {format_names(sorted(capacity.labels))}" if capacity.labels else "has none"
        return f"unknown node label; the cluster {known}."
    queue = capacity.queue
    if queue is None or not {"*", label}.isdisjoint(queue.labels):
        return ""
    may = sorted(each for each in queue.labels if each)
    known = f"it can access {format_names(may)}" if may else "it can access none"
    hint = "Use another queue, or ask the cluster's administrator."
    return f"the queue has no access to this node label; {known}. {hint}"


def _over_the_most(demand: ContainerDemand, name: str, most: int, capacity: ClusterCapacity) -> str:
    """Describe a request over the limit. The ResourceManager caps it at the largest running node, too."""
    away = [f"{node.host} ({node.away})" for node in nodes_for(demand, capacity) if node.away and fits(node, demand)]
    why, hope = _limit(name), ""
    if away:
        why = f"{why}, or the size of the largest running node"
        hope = f" Submit again when one of these nodes is back: {format_names(away)}."
    wanted = amount_text(name, demand.amounts[name])
    return (
        f"{demand.what} requests {wanted}, but a container of this cluster can have at most {amount_text(name, most)} "
        f"({why}).{hope}"
    )


def _no_node(demand: ContainerDemand, capacity: ClusterCapacity) -> list[Problem]:
    nodes = nodes_for(demand, capacity)
    if all(node.away for node in nodes) or any(fits(node, demand) for node in nodes):
        return []  # a cluster without nodes may get some
    away = sum(1 for node in nodes if node.away)
    having = f" with the label {demand.label}" if demand.label else ""
    if not demand.label and len(nodes) < len(capacity.nodes):
        having = " without a label"
    having += f" ({away} of them unavailable)" if away else ""
    for name, amount in demand.amounts.items():
        largest = max(node.has.get(name, 0) for node in nodes)
        if amount > largest:
            message = (
                f"{demand.what} requests {amount_text(name, amount)}, but {_largest(len(nodes))}{having} has "
                f"{amount_text(name, largest)}. Request less."
            )
            return [_problem(demand, name, message)]
    none = f"none of {len(nodes)} nodes{having} is large enough"
    if len(nodes) == 1:
        none = f"the only node{having} is not large enough"
    message = f"{demand.what} requests {amounts_text(demand)} together, but {none}. Request less."
    return [_problem(demand, MEMORY, message)]


def _over_queue(demand: ContainerDemand, capacity: ClusterCapacity) -> list[Problem]:
    text = over_queue_limit(demand, capacity)
    if not text or is_queue_mapping_possible(capacity):
        return []
    return [_problem(demand, MEMORY, f"{text}. Request less, or use another queue.")]


def _away(demand: ContainerDemand, capacity: ClusterCapacity) -> str:
    """Return why it waits for unavailable nodes; empty if running nodes are enough, or none is."""
    nodes = nodes_for(demand, capacity)
    holding = [f"{node.host} ({node.away})" for node in nodes if node.away and fits(node, demand)]
    if holding and not any(fits(node, demand) for node in nodes if not node.away):
        return (
            f"Only nodes that are currently unavailable could run {demand.what} ({amounts_text(demand)}): "
            f"{format_names(holding)}. The job waits until one is back."
        )
    missing = [f"{node.host} ({node.away})" for node in nodes if node.away]
    queue, most = capacity.queue, most_memory(demand, capacity)
    now = queue.most_memory if queue and missing and most is not None else None
    if queue is None or most is None or now is None or not now < demand.amounts.get(MEMORY, 0) <= most:
        return ""
    return (
        f"The queue {queue.path} can use at most {amount_text(MEMORY, now)} now, but {demand.what} requests "
        f"{amount_text(MEMORY, demand.amounts[MEMORY])}. The job waits for unavailable nodes: {format_names(missing)}."
    )


def _perhaps_never(demand: ContainerDemand, capacity: ClusterCapacity) -> str:
    text = over_queue_limit(demand, capacity)
    if not text or not is_queue_mapping_possible(capacity):
        return ""
    return f"{text[0].upper()}{text[1:]}. It never starts unless the cluster maps your jobs to another queue."


def _too_many(demand: ContainerDemand, spec: JobSpec, capacity: ClusterCapacity) -> str:
    """Return a warning if the empty nodes cannot hold all tasks of a role at the same time; else empty.

    It is not an error, since nodes may join. vcores are ignored, as YARN may not count them.
    """
    name = demand.place.removeprefix("roles.")
    role = spec.effective_roles.get(name)
    amounts = {kind: amount for kind, amount in demand.amounts.items() if kind != CORES}
    if role is None or not amounts or spec.distributed_mode is not DistributedMode.GANG:
        return ""
    nodes = nodes_for(demand, capacity)
    most = sum(min(node.has.get(kind, 0) // amount for kind, amount in amounts.items()) for node in nodes)
    least = role.min_instances or role.instances
    if not 0 < most < least:
        return ""
    asked = ", ".join(amount_text(kind, amount) for kind, amount in amounts.items())
    how_many = f"{'All' if least == role.instances else 'At least'} {least} tasks of {name}"
    return (
        f"{how_many} start together ({asked} each), but the nodes can hold only {most} at the same time, even if idle. "
        "Unless nodes join, the job never starts. Request less, or fewer tasks."
    )


def _largest(nodes: int) -> str:
    return "the only node" if nodes == 1 else f"the largest of {nodes} nodes"


def _key(place: str, name: str) -> str:
    if place.startswith("scheduler"):
        return {MEMORY: f"{place}_memory", CORES: f"{place}_vcores"}.get(name, f"{place}_node_label")
    if name == "label":
        return f"{place}.node_label"
    return f"{place}.{_KEYS[name]}" if name in _KEYS else f"{place}.resources.{name}"


def _limit(name: str) -> str:
    known = {MEMORY: "yarn.scheduler.maximum-allocation-mb", CORES: "yarn.scheduler.maximum-allocation-vcores"}
    return known.get(name, f"yarn.resource-types.{name}.maximum-allocation")
