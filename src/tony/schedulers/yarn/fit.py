"""Whether a cluster can ever give what a job asks for, with the arithmetic. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tony.dataclass import dataclass
from tony.errors import Problem
from tony.hadoop.wire.records import Resource
from tony.model.job import JobSpec
from tony.schedulers.yarn.contexts import capability, master_capability
from tony.schedulers.yarn.settings import YarnSettings

MEMORY, CORES = "memory-mb", "vcores"
_KEYS = {MEMORY: "memory", CORES: "vcores", "yarn.io/gpu": "gpus"}
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that runs.

    Attributes:
        has: amount of everything, by YARN's names.
    """

    host: str
    has: Mapping[str, int]
    labels: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The job's queue.

    Attributes:
        labels: node labels that it may use; `*` for all.
        label: of its containers that name none; empty for no label.
        children: queues below; jobs go to queues without any.
    """

    running: bool
    labels: Collection[str] = ()
    label: str = ""
    children: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a cluster has.

    Attributes:
        maximum: the most that one container may have, by YARN's names.
        types: names of all resources that it counts.
        labels: names of all node labels.
        shared_labels: those whose nodes also take what names no label.
        queue: None if there is none of the name.
        queues: names of all queues that take jobs.
    """

    maximum: Mapping[str, int]
    types: Collection[str]
    labels: Collection[str]
    shared_labels: Collection[str]
    nodes: Sequence[Node]
    queue: Queue | None
    queues: Sequence[str]


def misfits(spec: JobSpec, settings: YarnSettings, offer: Offer) -> list[Problem]:
    """What of a job this cluster can never give, even when nothing else runs."""
    problems = _queue_problems(settings, offer)
    usual = settings.node_label or (offer.queue.label if offer.queue else "")
    label: str | None = settings.am_node_label or usual
    problems += _container("scheduler.yarn.am", "the application master", master_capability(settings), label, offer)
    for name, role in spec.effective_roles.items():
        if role.instances:
            wanted, label = capability(role.resources), role.node_label or settings.node_label
            where = label if role.spread else label or usual
            problems += _container(f"roles.{name}", f"a task of {name}", wanted, where, offer)
            if label and role.spread:
                message = (
                    f"YARN spreads tasks over nodes without a label only, and {name} wants {label}. Leave one out."
                )
                problems.append(Problem(key=f"roles.{name}.spread", value="true", message=message))
    return problems


def _queue_problems(settings: YarnSettings, offer: Offer) -> list[Problem]:
    queue, key = offer.queue, "scheduler.yarn.queue"
    if queue is None:
        message = f"there is no such queue; the cluster has {_some(offer.queues)}."
    elif not queue.running:
        message = "the queue is stopped and takes no jobs. Ask who runs the cluster, or name another."
    elif queue.children:
        message = f"the queue has queues below it and takes no jobs itself; name one of {_some(queue.children)}."
    else:
        return []
    return [Problem(key=key, value=settings.queue, message=message)]


def _container(place: str, what: str, wanted: Resource, label: str | None, offer: Offer) -> list[Problem]:
    amounts = {name: amount for name, amount in wanted.amounts().items() if amount}
    problems = [
        Problem(
            key=_key(place, name),
            value=str(amounts[name]),
            message=f"the cluster counts no {name}; it counts {_some(sorted(offer.types))}.",
        )
        for name in amounts
        if name not in (MEMORY, CORES) and name not in offer.types
    ]
    if problems:
        return problems
    if label and (message := _label_problem(label, offer)):
        return [Problem(key=_key(place, "label"), value=label, message=message)]
    for name, amount in amounts.items():
        most = offer.maximum.get(name)
        if most is not None and amount > most:
            message = f"{what} asks for {_amount(name, amount)}; no container of this cluster may have more than "
            problems.append(
                Problem(
                    key=_key(place, name),
                    value=_amount(name, amount),
                    message=f"{message}{_amount(name, most)} ({_limit(name)}).",
                )
            )
    return problems or _no_node(place, what, amounts, label, offer)


def _label_problem(label: str, offer: Offer) -> str:
    """Why no container of the job can have this label; empty if one can."""
    if label not in offer.labels:
        known = f"it has {_some(sorted(offer.labels))}" if offer.labels else "it has none"
        return f"the cluster has no such node label; {known}."
    queue = offer.queue
    if queue is None or not {"*", label}.isdisjoint(queue.labels):
        return ""
    may = sorted(each for each in queue.labels if each)
    known = f"it may use {_some(may)}" if may else "it may use none"
    return f"the queue may not use this node label; {known}. Name another queue, or ask who runs the cluster."


def _no_node(place: str, what: str, amounts: Mapping[str, int], label: str | None, offer: Offer) -> list[Problem]:
    nodes = [node for node in offer.nodes if _takes(node, label, offer)]
    if not nodes or any(all(node.has.get(name, 0) >= amount for name, amount in amounts.items()) for node in nodes):
        return []  # a cluster without nodes is one that waits for them
    having = f" with the label {label}" if label else " without a label" if len(nodes) < len(offer.nodes) else ""
    for name, amount in amounts.items():
        largest = max(node.has.get(name, 0) for node in nodes)
        if amount > largest:
            message = (
                f"{what} asks for {_amount(name, amount)}, and {_largest(len(nodes))}{having} has "
                f"{_amount(name, largest)}. Ask for less."
            )
            return [Problem(key=_key(place, name), value=_amount(name, amount), message=message)]
    wanted = ", ".join(_amount(name, amount) for name, amount in amounts.items())
    none = f"none of {len(nodes)} nodes{having} has all of that"
    if len(nodes) == 1:
        none = f"the only node{having} has not all of that"
    message = f"{what} asks for {wanted} together, and {none}. Ask for less."
    return [Problem(key=_key(place, MEMORY), value=_amount(MEMORY, amounts[MEMORY]), message=message)]


def _takes(node: Node, label: str | None, offer: Offer) -> bool:
    """Whether it is there for a container with this label, or with none."""
    return label in node.labels if label else set(node.labels) <= set(offer.shared_labels)


def _largest(nodes: int) -> str:
    return "the only node" if nodes == 1 else f"the largest of {nodes} nodes"


def _key(place: str, name: str) -> str:
    if place.startswith("scheduler"):
        return {MEMORY: f"{place}_memory", CORES: f"{place}_vcores"}.get(name, f"{place}_node_label")
    if name == "label":
        return f"{place}.node_label"
    return f"{place}.{_KEYS[name]}" if name in _KEYS else f"{place}.resources.{name}"


def _amount(name: str, amount: int) -> str:
    if name == MEMORY:
        return f"{amount}m"
    return f"{amount} {name}"


def _limit(name: str) -> str:
    known = {MEMORY: "yarn.scheduler.maximum-allocation-mb", CORES: "yarn.scheduler.maximum-allocation-vcores"}
    return known.get(name, f"yarn.resource-types.{name}.maximum-allocation")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
