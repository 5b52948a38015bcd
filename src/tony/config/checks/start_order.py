"""The start order of roles: reads and checks their `after` settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from tony.config.table.converted_settings import ValueTable
from tony.config.table.layers import quote
from tony.config.table.settings_table import Key
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition
from tony.name_suggestions import describe_unknown

#: Roles at each end of a long cycle that are named.
_NAMED_ROLES = 5
#: Most cycles that are reported.
_MAX_CYCLES = 100


def iterate_conditions(values: ValueTable, role: str) -> Iterator[tuple[Key, int, str, AfterCondition]]:
    """Yield what a role waits for, in the order of the file: key, index, other role, condition."""
    place = ("roles", role, "after")
    for number, name in enumerate(values.value(place) or ()):
        yield place, number, name, AfterCondition.SUCCEEDED
    for word, names in values.list_children(place).items():
        for number, name in enumerate(names):
            yield (*place, word), number, name, AfterCondition(word)


def check_start_order(spec: JobSpec, values: ValueTable) -> None:
    """Report `after` settings with unknown roles, two conditions or a wrong kind of role, and cycles."""
    setup = spec.setup_roles
    for name in values.roles:
        seen: dict[str, str] = {}
        for key, number, other, condition in iterate_conditions(values, name):
            if other not in spec.effective_roles:
                values.add_error(
                    key, describe_unknown(f"role {quote(other)}", other, spec.effective_roles), item=number
                )
            elif seen.setdefault(other, condition.value) != condition.value:
                message = f"two conditions for {other}: {seen[other]} and {condition.value}. Choose one."
                values.add_error(key, message, item=number)
        for key, number, other, condition in iterate_conditions(values, name):
            if other in setup and name not in setup and condition is not AfterCondition.SUCCEEDED:
                message = f"{other} is a setup role: no other role starts before it has succeeded. Leave it out here."
                values.add_error(key, message, item=number)
            elif name in setup and other in spec.roles and other not in setup:
                message = f"{name} is a setup role, and {other} waits for it. It can wait for other setup roles only."
                values.add_error(key, message, item=number)
    for cycle in find_cycles({name: role.after for name, role in spec.roles.items()}):
        message = f"these roles wait for each other: {describe_cycle(cycle)}. None can ever start."
        values.add_error(("roles", cycle[0], "after"), message)


def find_predecessors(roles: Mapping[str, Role], role: str) -> set[str]:
    """Return the roles that a role waits for, directly and indirectly; itself only in a cycle."""
    found: set[str] = set()
    left = [role]
    while left:
        new = {name for name in roles[left.pop()].after if name in roles} - found
        found |= new
        left += new
    return found


def find_cycles(waits_for: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Return cycles of roles that wait for each other, each beginning with its first role in the job's order.

    Roles that do not exist are skipped. Each role is in at most one of the returned cycles: their number can grow
    exponentially.
    """
    order = {name: number for number, name in enumerate(waits_for)}
    graph = {name: [other for other in others if other in waits_for] for name, others in waits_for.items()}
    rings: list[tuple[str, ...]] = []
    while len(rings) < _MAX_CYCLES:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            ring = error.args[1][:0:-1]
            first = ring.index(min(ring, key=order.__getitem__))
            rings.append((*ring[first:], *ring[:first]))
            for name in ring:
                del graph[name]
        else:
            break
    return sorted(rings, key=lambda ring: order[ring[0]])


def describe_cycle(ring: tuple[str, ...]) -> str:
    """Return a cycle as text: `a -> b -> a`; the middle of a long one is left out."""
    if len(ring) <= 2 * _NAMED_ROLES:
        return " -> ".join((*ring, ring[0]))
    left_out = f"({len(ring) - 2 * _NAMED_ROLES} more)"
    return " -> ".join((*ring[:_NAMED_ROLES], left_out, *ring[-_NAMED_ROLES:], ring[0]))
