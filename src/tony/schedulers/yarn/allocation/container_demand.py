"""The containers that a job requests, and the nodes that qualify for them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.hadoop.wire.yarn_records import Resource
from tony.model.job_spec import JobSpec
from tony.schedulers.yarn.client.capacity import ClusterCapacity, ClusterNode
from tony.schedulers.yarn.client.placement_constraints import find_placed
from tony.schedulers.yarn.launch_contexts import build_capability, build_master_capability
from tony.schedulers.yarn.settings import YarnSettings
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
