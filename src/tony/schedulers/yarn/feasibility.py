"""Whether a cluster can ever satisfy a job's requests, with the arithmetic. Pure."""

from __future__ import annotations

from tony.errors import Problem
from tony.model.job_spec import JobSpec
from tony.model.states import DistributedMode
from tony.schedulers.yarn.capacity import ClusterCapacity
from tony.schedulers.yarn.demand_spec import (
    CORES,
    MEMORY,
    ContainerDemand,
    amount_text,
    amounts_text,
    container_demands,
    format_names,
    holds,
    nodes_for,
)
from tony.schedulers.yarn.queue_capacity import is_queue_mapping_possible, most_memory, too_much
from tony.schedulers.yarn.settings import YarnSettings

_KEYS = {MEMORY: "memory", CORES: "vcores", "yarn.io/gpu": "gpus"}


def misfits(spec: JobSpec, settings: YarnSettings, offer: ClusterCapacity) -> list[Problem]:
    """Return requests of a job that this cluster can never satisfy, even when it is idle."""
    problems = _queue_problems(settings, offer)
    for want in container_demands(spec, settings, offer):
        # The same label for all containers is one error.
        problems += [problem for problem in _container(want, offer) if problem not in problems]
    return problems


def notices(spec: JobSpec, settings: YarnSettings, offer: ClusterCapacity) -> list[str]:
    """Return warnings about requests that the cluster could satisfy, but not now, whichever jobs end."""
    found = []
    if offer.queue is None and offer.made_below:
        found.append(
            f"There is no queue {settings.queue} yet; the cluster has {format_names(offer.queues)}. "
            f"The ResourceManager may create it automatically below {offer.made_below}."
        )
    found += [
        f"roles.{name}.mounts has no effect without an image: set `image`, or `docker_image` in [scheduler.yarn]."
        for name, role in spec.effective_roles.items()
        if role.mounts and not (role.image or settings.docker_image)
    ]
    for want in container_demands(spec, settings, offer):
        if told := _away(want, offer) or _perhaps_never(want, offer) or _too_many(want, spec, offer):
            found.append(told)
    return found


def _queue_problems(settings: YarnSettings, offer: ClusterCapacity) -> list[Problem]:
    queue, key = offer.queue, "scheduler.yarn.queue"
    if queue is None and offer.made_below:
        return []
    if queue is None:
        hint = f" Use the full path: {offer.whole_path}." if offer.whole_path else ""
        message = f"unknown queue; the cluster has {format_names(offer.queues)}.{hint}"
    elif not queue.running:
        message = "the queue is STOPPED. Use another queue, or ask the cluster's administrator to start it."
    elif queue.children:
        message = f"not a leaf queue, so it accepts no applications; use one of {format_names(queue.children)}."
    else:
        return []
    return [Problem(key=key, value=settings.queue, message=message)]


def _container(want: ContainerDemand, offer: ClusterCapacity) -> list[Problem]:
    problems = [
        Problem(
            key=_key(want.place, name),
            value=str(want.amounts[name]),
            message=f"the cluster has no resource type {name}; it has {format_names(sorted(offer.types))}.",
        )
        for name in want.amounts
        if name not in (MEMORY, CORES) and name not in offer.types
    ]
    if problems:
        return problems
    if want.label and (message := _label_problem(want.label, offer)):
        key = want.label_from or _key(want.place, "label")
        return [Problem(key=key, value=want.label, message=message)]
    for name, amount in want.amounts.items():
        most = offer.maximum.get(name)
        if most is not None and amount > most:
            problems.append(_problem(want, name, _over_the_most(want, name, most, offer)))
    return problems or _no_node(want, offer) or _over_queue(want, offer)


def _problem(want: ContainerDemand, name: str, message: str) -> Problem:
    return Problem(key=_key(want.place, name), value=amount_text(name, want.amounts[name]), message=message)


def _label_problem(label: str, offer: ClusterCapacity) -> str:
    """Return why no container of the job can have this label; empty if one can."""
    if label not in offer.labels:
        known = f"has {format_names(sorted(offer.labels))}" if offer.labels else "has none"
        return f"unknown node label; the cluster {known}."
    queue = offer.queue
    if queue is None or not {"*", label}.isdisjoint(queue.labels):
        return ""
    may = sorted(each for each in queue.labels if each)
    known = f"it can access {format_names(may)}" if may else "it can access none"
    hint = "Use another queue, or ask the cluster's administrator."
    return f"the queue has no access to this node label; {known}. {hint}"


def _over_the_most(want: ContainerDemand, name: str, most: int, offer: ClusterCapacity) -> str:
    """Describe a request over the limit. The ResourceManager caps it at the largest running node, too."""
    away = [f"{node.host} ({node.away})" for node in nodes_for(want, offer) if node.away and holds(node, want)]
    why, hope = _limit(name), ""
    if away:
        why = f"{why}, or the size of the largest running node"
        hope = f" Submit again when one of these nodes is back: {format_names(away)}."
    wanted = amount_text(name, want.amounts[name])
    return (
        f"{want.what} requests {wanted}, but a container of this cluster can have at most {amount_text(name, most)} "
        f"({why}).{hope}"
    )


def _no_node(want: ContainerDemand, offer: ClusterCapacity) -> list[Problem]:
    nodes = nodes_for(want, offer)
    if all(node.away for node in nodes) or any(holds(node, want) for node in nodes):
        return []  # a cluster without nodes may get some
    away = sum(1 for node in nodes if node.away)
    having = f" with the label {want.label}" if want.label else ""
    if not want.label and len(nodes) < len(offer.nodes):
        having = " without a label"
    having += f" ({away} of them unavailable)" if away else ""
    for name, amount in want.amounts.items():
        largest = max(node.has.get(name, 0) for node in nodes)
        if amount > largest:
            message = (
                f"{want.what} requests {amount_text(name, amount)}, but {_largest(len(nodes))}{having} has "
                f"{amount_text(name, largest)}. Request less."
            )
            return [_problem(want, name, message)]
    none = f"none of {len(nodes)} nodes{having} is large enough"
    if len(nodes) == 1:
        none = f"the only node{having} is not large enough"
    message = f"{want.what} requests {amounts_text(want)} together, but {none}. Request less."
    return [_problem(want, MEMORY, message)]


def _over_queue(want: ContainerDemand, offer: ClusterCapacity) -> list[Problem]:
    said = too_much(want, offer)
    if not said or is_queue_mapping_possible(offer):
        return []
    return [_problem(want, MEMORY, f"{said}. Request less, or use another queue.")]


def _away(want: ContainerDemand, offer: ClusterCapacity) -> str:
    """Return why it waits for unavailable nodes; empty if running nodes are enough, or none is."""
    nodes = nodes_for(want, offer)
    holding = [f"{node.host} ({node.away})" for node in nodes if node.away and holds(node, want)]
    if holding and not any(holds(node, want) for node in nodes if not node.away):
        return (
            f"Only nodes that are currently unavailable could run {want.what} ({amounts_text(want)}): "
            f"{format_names(holding)}. The job waits until one is back."
        )
    missing = [f"{node.host} ({node.away})" for node in nodes if node.away]
    queue, most = offer.queue, most_memory(want, offer)
    now = queue.most_memory if queue and missing and most is not None else None
    if queue is None or most is None or now is None or not now < want.amounts.get(MEMORY, 0) <= most:
        return ""
    return (
        f"The queue {queue.path} can use at most {amount_text(MEMORY, now)} now, but {want.what} requests "
        f"{amount_text(MEMORY, want.amounts[MEMORY])}. The job waits for unavailable nodes: {format_names(missing)}."
    )


def _perhaps_never(want: ContainerDemand, offer: ClusterCapacity) -> str:
    said = too_much(want, offer)
    if not said or not is_queue_mapping_possible(offer):
        return ""
    return f"{said[0].upper()}{said[1:]}. It never starts unless the cluster maps your jobs to another queue."


def _too_many(want: ContainerDemand, spec: JobSpec, offer: ClusterCapacity) -> str:
    """Return a warning if the empty nodes cannot hold all tasks of a role at the same time; else empty.

    It is not an error, since nodes may join. vcores are ignored, as YARN may not count them.
    """
    name = want.place.removeprefix("roles.")
    role = spec.effective_roles.get(name)
    amounts = {kind: amount for kind, amount in want.amounts.items() if kind != CORES}
    if role is None or not amounts or spec.distributed_mode is not DistributedMode.GANG:
        return ""
    nodes = nodes_for(want, offer)
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
