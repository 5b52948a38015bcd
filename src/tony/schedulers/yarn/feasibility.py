"""Whether a cluster can ever give what a job asks for, with the arithmetic. Pure."""

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
    """What of a job this cluster can never give, even when nothing else runs."""
    problems = _queue_problems(settings, offer)
    for want in container_demands(spec, settings, offer):
        # One label for all is one mistake.
        problems += [problem for problem in _container(want, offer) if problem not in problems]
    return problems


def notices(spec: JobSpec, settings: YarnSettings, offer: ClusterCapacity) -> list[str]:
    """What of a job that has no misfits this cluster cannot give now, whatever ends on it."""
    found = []
    if offer.queue is None and offer.made_below:
        found.append(
            f"There is no queue {settings.queue} yet; the cluster has {format_names(offer.queues)}. "
            f"The ResourceManager decides whether it makes one below {offer.made_below}."
        )
    found += [
        f"roles.{name}.mounts means nothing without an image: set `image`, or `docker_image` below [scheduler.yarn]."
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
        hint = f" Of a path, all is needed: {offer.whole_path}." if offer.whole_path else ""
        message = f"there is no such queue; the cluster has {format_names(offer.queues)}.{hint}"
    elif not queue.running:
        message = "the queue is stopped and takes no jobs. Ask who runs the cluster, or name another."
    elif queue.children:
        message = f"the queue has queues below it and takes no jobs itself; name one of {format_names(queue.children)}."
    else:
        return []
    return [Problem(key=key, value=settings.queue, message=message)]


def _container(want: ContainerDemand, offer: ClusterCapacity) -> list[Problem]:
    problems = [
        Problem(
            key=_key(want.place, name),
            value=str(want.amounts[name]),
            message=f"the cluster counts no {name}; it counts {format_names(sorted(offer.types))}.",
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
    """Why no container of the job can have this label; empty if one can."""
    if label not in offer.labels:
        known = f"it has {format_names(sorted(offer.labels))}" if offer.labels else "it has none"
        return f"the cluster has no such node label; {known}."
    queue = offer.queue
    if queue is None or not {"*", label}.isdisjoint(queue.labels):
        return ""
    may = sorted(each for each in queue.labels if each)
    known = f"it may use {format_names(may)}" if may else "it may use none"
    return f"the queue may not use this node label; {known}. Name another queue, or ask who runs the cluster."


def _over_the_most(want: ContainerDemand, name: str, most: int, offer: ClusterCapacity) -> str:
    """The ResourceManager refuses what no node that runs has, however much is configured."""
    away = [f"{node.host} ({node.away})" for node in nodes_for(want, offer) if node.away and holds(node, want)]
    why, hope = _limit(name), ""
    if away:
        why = f"{why}, or what the largest node that runs has"
        hope = f" Submit again when a node is back that is large enough: {format_names(away)}."
    wanted = amount_text(name, want.amounts[name])
    return (
        f"{want.what} asks for {wanted}; no container of this cluster may have more than {amount_text(name, most)} "
        f"({why}).{hope}"
    )


def _no_node(want: ContainerDemand, offer: ClusterCapacity) -> list[Problem]:
    nodes = nodes_for(want, offer)
    if all(node.away for node in nodes) or any(holds(node, want) for node in nodes):
        return []  # a cluster without nodes is one that waits for them
    away = sum(1 for node in nodes if node.away)
    having = f" with the label {want.label}" if want.label else ""
    if not want.label and len(nodes) < len(offer.nodes):
        having = " without a label"
    having += f" ({away} of them away now)" if away else ""
    for name, amount in want.amounts.items():
        largest = max(node.has.get(name, 0) for node in nodes)
        if amount > largest:
            message = (
                f"{want.what} asks for {amount_text(name, amount)}, and {_largest(len(nodes))}{having} has "
                f"{amount_text(name, largest)}. Ask for less."
            )
            return [_problem(want, name, message)]
    none = f"none of {len(nodes)} nodes{having} has all of that"
    if len(nodes) == 1:
        none = f"the only node{having} has not all of that"
    message = f"{want.what} asks for {amounts_text(want)} together, and {none}. Ask for less."
    return [_problem(want, MEMORY, message)]


def _over_queue(want: ContainerDemand, offer: ClusterCapacity) -> list[Problem]:
    said = too_much(want, offer)
    if not said or is_queue_mapping_possible(offer):
        return []
    return [_problem(want, MEMORY, f"{said}. Ask for less, or name another queue.")]


def _away(want: ContainerDemand, offer: ClusterCapacity) -> str:
    """Why it waits for nodes that are away; empty if those that run are enough, or nothing is."""
    nodes = nodes_for(want, offer)
    holding = [f"{node.host} ({node.away})" for node in nodes if node.away and holds(node, want)]
    if holding and not any(holds(node, want) for node in nodes if not node.away):
        return (
            f"Only nodes that are away now could hold {want.what} ({amounts_text(want)}): {format_names(holding)}. "
            "The job waits until one is back."
        )
    missing = [f"{node.host} ({node.away})" for node in nodes if node.away]
    queue, most = offer.queue, most_memory(want, offer)
    now = queue.most_memory if queue and missing and most is not None else None
    if queue is None or most is None or now is None or not now < want.amounts.get(MEMORY, 0) <= most:
        return ""
    return (
        f"The queue {queue.path} may have {amount_text(MEMORY, now)} now, and {want.what} asks for "
        f"{amount_text(MEMORY, want.amounts[MEMORY])}. The job waits for nodes that are away: {format_names(missing)}."
    )


def _perhaps_never(want: ContainerDemand, offer: ClusterCapacity) -> str:
    said = too_much(want, offer)
    if not said or not is_queue_mapping_possible(offer):
        return ""
    return f"{said[0].upper()}{said[1:]}. Unless the cluster puts your jobs into another queue, it never starts."


def _too_many(want: ContainerDemand, spec: JobSpec, offer: ClusterCapacity) -> str:
    """That the nodes do not hold all tasks of a role at one time; empty if they do, or need not.

    Told, not refused: nodes may join. Cores are not looked at, as YARN may not count them.
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
        f"{how_many} start together ({asked} each), and the nodes hold {most} at one time, were they empty. "
        "Unless nodes join, the job waits in vain. Ask for less, or for fewer tasks."
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
