"""The start order of roles, from their `after` settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tony.config.table.converted_settings import ValueTable
from tony.config.table.settings_table import Key
from tony.model.job_spec import Role
from tony.model.setting_choices import AfterCondition

#: Roles at each end of a long cycle that are named.
_NAMED_ROLES = 5


def conditions(value_table: ValueTable, role: str) -> Iterator[tuple[Key, int, str, AfterCondition]]:
    """Yield what a role waits for, in the order of the file: key, index, other role, condition."""
    place = ("roles", role, "after")
    for number, name in enumerate(value_table.value(place) or ()):
        yield place, number, name, AfterCondition.SUCCEEDED
    for word, names in value_table.list_children(place).items():
        for number, name in enumerate(names):
            yield (*place, word), number, name, AfterCondition(word)


def find_predecessors(roles: Mapping[str, Role], role: str) -> set[str]:
    """Return the roles that a role waits for, directly and indirectly; itself only in a cycle."""
    found: set[str] = set()
    left = [role]
    while left:
        new = {name for name in roles[left.pop()].after if name in roles} - found
        found |= new
        left += new
    return found


def cycles(waits_for: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Return the cycles of roles that wait for each other, each beginning with its first role in the job's order.

    Roles that do not exist are skipped. Each role is in at most one of the returned cycles: their number can grow
    exponentially.
    """
    order = {name: number for number, name in enumerate(waits_for)}
    done: set[str] = set()
    reported: set[str] = set()
    rings = []
    for start in waits_for:
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = []
        name: str | None = start
        while name is not None or stack:
            if name is not None and name not in done:
                path.append(name)
                done.add(name)
                stack.append((name, iter(waits_for[name])))
            elif name is not None and name in path:
                ring = path[path.index(name) :]
                first = min(range(len(ring)), key=lambda i: order[ring[i]])
                if reported.isdisjoint(ring):
                    rings.append((*ring[first:], *ring[:first]))
                    reported.update(ring)
            name = _find_next_role(stack, path, waits_for)
    return rings


def describe_cycle(ring: tuple[str, ...]) -> str:
    """Return a cycle as text: `a -> b -> a`; the middle of a long one is left out."""
    if len(ring) <= 2 * _NAMED_ROLES:
        return " -> ".join((*ring, ring[0]))
    left_out = f"({len(ring) - 2 * _NAMED_ROLES} more)"
    return " -> ".join((*ring[:_NAMED_ROLES], left_out, *ring[-_NAMED_ROLES:], ring[0]))


def _find_next_role(
    stack: list[tuple[str, Iterator[str]]], path: list[str], known: Mapping[str, Collection[str]]
) -> str | None:
    while stack:
        for name in stack[-1][1]:
            if name in known:
                return name
        stack.pop()
        path.pop()
    return None
