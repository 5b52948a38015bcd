"""Check that a cluster can ever satisfy a job's requests, with the arithmetic. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.errors import Problem
from tony.hadoop.wire.yarn_records import Resource
from tony.model.job_spec import JobSpec
from tony.model.setting_choices import DistributedMode
from tony.schedulers.yarn.client.capacity import ClusterCapacity, ClusterNode
from tony.schedulers.yarn.placement_constraints import find_placed
from tony.schedulers.yarn.resources import build_capability, build_master_capability
from tony.schedulers.yarn.settings import YarnSettings, read_role_settings
from tony.units import format_first, format_size

MEMORY = "memory-mb"
CORES = "vcores"
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDemand:
    """A container that the job requests.

    Attributes:
        place: prefix of its settings in the job file.
        what: description for messages.
        amounts: requested amounts by YARN's names, without zeros.
        label: required node label; empty for nodes without one.
        label_from: the setting with the label, if it is not one of `place`.
    """

    place: str
    what: str
    amounts: Mapping[str, int]
    label: str
    label_from: str = ""


def build_demands(spec: JobSpec, settings: YarnSettings, capacity: ClusterCapacity) -> Iterator[ContainerDemand]:
    """Yield one container of each kind: the application master's, and a task's of each role that has tasks."""
    usual = settings.node_label or (capacity.queue.label if capacity.queue else "")
    master = build_master_capability(settings)
    without_label = find_placed(spec, settings)
    of_job = "scheduler.yarn.node_label" if settings.node_label else ""
    label = settings.am_node_label or usual
    come_from = "" if settings.am_node_label else of_job
    yield _build_demand("scheduler.yarn.am", "the application master", master, label, come_from)
    for name, role in spec.effective_roles.items():
        if role.instances:
            label = role.node_label or settings.node_label or ("" if name in without_label else usual)
            come_from = "" if role.node_label else of_job
            yield _build_demand(
                f"roles.{name}", f"a task of {name}", build_capability(role.resources), label, come_from
            )


def _build_demand(place: str, what: str, resource: Resource, label: str | None, label_from: str) -> ContainerDemand:
    amounts = {name: amount for name, amount in resource.amounts().items() if amount}
    return ContainerDemand(place=place, what=what, amounts=amounts, label=label or "", label_from=label_from)


def find_nodes(demand: ContainerDemand, capacity: ClusterCapacity) -> list[ClusterNode]:
    """Return the nodes that accept such a container by label, regardless of size; includes nodes that are away."""
    return [node for node in capacity.nodes if _accepts_label(node, demand.label, capacity)]


def fits(node: ClusterNode, demand: ContainerDemand) -> bool:
    """Return True if the empty node is large enough for the container."""
    return all(node.has.get(name, 0) >= amount for name, amount in demand.amounts.items())


def count_suitable_nodes(spec: JobSpec, settings: YarnSettings, capacity: ClusterCapacity) -> dict[str, int]:
    """Map each role to the number of nodes large enough for its tasks. Skips roles with placement constraints."""
    kept = {f"roles.{name}": name for name in spec.effective_roles if name not in find_placed(spec, settings)}
    return {
        kept[demand.place]: sum(not node.away and fits(node, demand) for node in find_nodes(demand, capacity))
        for demand in build_demands(spec, settings, capacity)
        if demand.place in kept
    }


def _accepts_label(node: ClusterNode, label: str, capacity: ClusterCapacity) -> bool:
    """Return True if the node takes containers with this label, or without one if it is empty."""
    return label in node.labels if label else set(node.labels) <= set(capacity.shared_labels)


def format_amount(name: str, amount: int) -> str:
    """Format an amount: `4g`, `8 vcores`."""
    if name == MEMORY:
        return format_size(amount << 20)
    return f"{amount} {name}"


def format_amounts(demand: ContainerDemand) -> str:
    """Format all requested amounts."""
    return ", ".join(format_amount(name, amount) for name, amount in demand.amounts.items())


def format_names(names: Sequence[str]) -> str:
    """Join names with commas; long lists are cut."""
    return format_first(names, _SHOWN)


_KEYS = {MEMORY: "memory", CORES: "vcores", "yarn.io/gpu": "gpus"}


def find_unsatisfiable_requests(spec: JobSpec, settings: YarnSettings, capacity: ClusterCapacity) -> list[Problem]:
    """Return requests of a job that this cluster can never satisfy, even when it is idle."""
    problems = _find_queue_problems(settings, capacity)
    for demand in build_demands(spec, settings, capacity):
        # The same label for all containers is one error.
        problems += [problem for problem in _check_container(demand, capacity) if problem not in problems]
    return problems


def find_notices(spec: JobSpec, settings: YarnSettings, capacity: ClusterCapacity) -> list[str]:
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
    for demand in build_demands(spec, settings, capacity):
        if (
            notice := _explain_away(demand, capacity)
            or _warn_perhaps_never(demand, capacity)
            or _warn_too_many(demand, spec, capacity)
        ):
            found.append(notice)
    return found


def _find_queue_problems(settings: YarnSettings, capacity: ClusterCapacity) -> list[Problem]:
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


def _check_container(demand: ContainerDemand, capacity: ClusterCapacity) -> list[Problem]:
    problems = [
        Problem(
            key=_build_key(demand.place, name),
            value=str(demand.amounts[name]),
            message=f"the cluster has no resource type {name}; it has {format_names(sorted(capacity.types))}.",
        )
        for name in demand.amounts
        if name not in (MEMORY, CORES) and name not in capacity.types
    ]
    if problems:
        return problems
    if demand.label and (message := _explain_label_problem(demand.label, capacity)):
        key = demand.label_from or _build_key(demand.place, "label")
        return [Problem(key=key, value=demand.label, message=message)]
    for name, amount in demand.amounts.items():
        most = capacity.maximum.get(name)
        if most is not None and amount > most:
            problems.append(_build_problem(demand, name, _describe_excess(demand, name, most, capacity)))
    return problems or _find_no_node_problems(demand, capacity) or _find_queue_excess(demand, capacity)


def _build_problem(demand: ContainerDemand, name: str, message: str) -> Problem:
    return Problem(key=_build_key(demand.place, name), value=format_amount(name, demand.amounts[name]), message=message)


def _explain_label_problem(label: str, capacity: ClusterCapacity) -> str:
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


def _describe_excess(demand: ContainerDemand, name: str, most: int, capacity: ClusterCapacity) -> str:
    """Describe a request over the limit. The ResourceManager caps it at the largest running node, too."""
    away = [f"{node.host} ({node.away})" for node in find_nodes(demand, capacity) if node.away and fits(node, demand)]
    why, hope = _limit(name), ""
    if away:
        why = f"{why}, or the size of the largest running node"
        hope = f" Submit again when one of these nodes is back: {format_names(away)}."
    requested = format_amount(name, demand.amounts[name])
    return (
        f"{demand.what} requests {requested}, but a container of this cluster can have at most "
        f"{format_amount(name, most)} "
        f"({why}).{hope}"
    )


def _find_no_node_problems(demand: ContainerDemand, capacity: ClusterCapacity) -> list[Problem]:
    nodes = find_nodes(demand, capacity)
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
                f"{demand.what} requests {format_amount(name, amount)}, but {_describe_largest(len(nodes))}{having} "
                "has "
                f"{format_amount(name, largest)}. Request less."
            )
            return [_build_problem(demand, name, message)]
    none = f"none of {len(nodes)} nodes{having} is large enough"
    if len(nodes) == 1:
        none = f"the only node{having} is not large enough"
    message = f"{demand.what} requests {format_amounts(demand)} together, but {none}. Request less."
    return [_build_problem(demand, MEMORY, message)]


def _find_queue_excess(demand: ContainerDemand, capacity: ClusterCapacity) -> list[Problem]:
    text = explain_over_queue_limit(demand, capacity)
    if not text or is_queue_mapping_possible(capacity):
        return []
    return [_build_problem(demand, MEMORY, f"{text}. Request less, or use another queue.")]


def _explain_away(demand: ContainerDemand, capacity: ClusterCapacity) -> str:
    """Return why it waits for unavailable nodes; empty if running nodes are enough, or none is."""
    nodes = find_nodes(demand, capacity)
    holding = [f"{node.host} ({node.away})" for node in nodes if node.away and fits(node, demand)]
    if holding and not any(fits(node, demand) for node in nodes if not node.away):
        return (
            f"Only nodes that are currently unavailable could run {demand.what} ({format_amounts(demand)}): "
            f"{format_names(holding)}. The job waits until one is back."
        )
    missing = [f"{node.host} ({node.away})" for node in nodes if node.away]
    queue, most = capacity.queue, find_most_memory(demand, capacity)
    now = queue.most_memory if queue and missing and most is not None else None
    if queue is None or most is None or now is None or not now < demand.amounts.get(MEMORY, 0) <= most:
        return ""
    return (
        f"The queue {queue.path} can use at most {format_amount(MEMORY, now)} now, but {demand.what} requests "
        f"{format_amount(MEMORY, demand.amounts[MEMORY])}. The job waits for unavailable nodes: "
        f"{format_names(missing)}."
    )


def _warn_perhaps_never(demand: ContainerDemand, capacity: ClusterCapacity) -> str:
    text = explain_over_queue_limit(demand, capacity)
    if not text or not is_queue_mapping_possible(capacity):
        return ""
    return f"{text[0].upper()}{text[1:]}. It never starts unless the cluster maps your jobs to another queue."


def _warn_too_many(demand: ContainerDemand, spec: JobSpec, capacity: ClusterCapacity) -> str:
    """Return a warning if the empty nodes cannot hold all tasks of a role at the same time; else empty.

    It is not an error, since nodes may join. vcores are ignored, as YARN may not count them.
    """
    name = demand.place.removeprefix("roles.")
    role = spec.effective_roles.get(name)
    amounts = {kind: amount for kind, amount in demand.amounts.items() if kind != CORES}
    if role is None or not amounts or spec.distributed_mode is not DistributedMode.GANG:
        return ""
    nodes = find_nodes(demand, capacity)
    most = sum(min(node.has.get(kind, 0) // amount for kind, amount in amounts.items()) for node in nodes)
    least = role.min_instances or role.instances
    if not 0 < most < least:
        return ""
    amounts_text = ", ".join(format_amount(kind, amount) for kind, amount in amounts.items())
    how_many = f"{'All' if least == role.instances else 'At least'} {least} tasks of {name}"
    return (
        f"{how_many} start together ({amounts_text} each), but the nodes can hold only {most} at the same time, "
        "even if idle. Unless nodes join, the job never starts. Request less, or fewer tasks."
    )


def _describe_largest(nodes: int) -> str:
    return "the only node" if nodes == 1 else f"the largest of {nodes} nodes"


def _build_key(place: str, name: str) -> str:
    if place.startswith("scheduler"):
        return {MEMORY: f"{place}_memory", CORES: f"{place}_vcores"}.get(name, f"{place}_node_label")
    if name == "label":
        return f"{place}.node_label"
    return f"{place}.{_KEYS[name]}" if name in _KEYS else f"{place}.resources.{name}"


def _limit(name: str) -> str:
    known = {MEMORY: "yarn.scheduler.maximum-allocation-mb", CORES: "yarn.scheduler.maximum-allocation-vcores"}
    return known.get(name, f"yarn.resource-types.{name}.maximum-allocation")


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
