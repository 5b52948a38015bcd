"""The order in which roles start, as the job says it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tony.config.keys import Key
from tony.config.sheet import Sheet
from tony.model.states import AfterCondition


def conditions(sheet: Sheet, role: str) -> Iterator[tuple[Key, int, str, AfterCondition]]:
    """What a role waits for, in the author's order: where that is said, the other role, what must be true of it."""
    place = ("roles", role, "after")
    for number, name in enumerate(sheet.value(place) or ()):
        yield place, number, name, AfterCondition.SUCCEEDED
    for word, names in sheet.below(place).items():
        for number, name in enumerate(names):
            yield (*place, word), number, name, AfterCondition(word)


def cycles(waits_for: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Rings of roles that wait for each other, each once, beginning with its first role in the job's order.

    Roles that do not exist are passed over. A role that is in several rings may be told in one of them only.
    """
    order = {name: number for number, name in enumerate(waits_for)}
    done: set[str] = set()
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
                rings.append((*ring[first:], *ring[:first]))
            name = _next_role(stack, path, waits_for)
    return rings


def _next_role(
    stack: list[tuple[str, Iterator[str]]], path: list[str], known: Mapping[str, Collection[str]]
) -> str | None:
    while stack:
        for name in stack[-1][1]:
            if name in known:
                return name
        stack.pop()
        path.pop()
    return None
