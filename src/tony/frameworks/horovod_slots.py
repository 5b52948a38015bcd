"""Slots by host, in Horovod's order.

A host's slots are its processes, and ranks go host by host, the first host's first. So each rank has the same
neighbours as if Horovod itself had assigned it (`get_host_assignments` of its `runner/common/util/hosts`). *Local* is
among the processes of one host, *cross* among those of one local rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HorovodSlot:
    """One process's slot."""

    host: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def count_slots(tasks: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return host -> number of slots, hosts in the order in which tasks first name them.

    Args:
        tasks: host and number of processes of each task.
    """
    hosts: dict[str, int] = {}
    for host, processes in tasks:
        hosts[host] = hosts.get(host, 0) + processes
    return hosts


def slots_of(tasks: Sequence[tuple[str, int]], which: int) -> list[HorovodSlot]:
    """Return the slots of one task's processes. On its host they follow those of earlier tasks.

    Args:
        tasks: as for `count_slots`.
        which: the task's position among them.
    """
    hosts = count_slots(tasks)
    host, processes = tasks[which]
    first = sum(count for other, count in tasks[:which] if other == host)
    return [_slot(hosts, host, first + number) for number in range(processes)]


def _slot(hosts: Mapping[str, int], host: str, local_rank: int) -> HorovodSlot:
    names = list(hosts)
    before = names[: names.index(host)]
    return HorovodSlot(
        host=host,
        rank=sum(hosts[name] for name in before) + local_rank,
        size=sum(hosts.values()),
        local_rank=local_rank,
        local_size=hosts[host],
        cross_rank=sum(hosts[name] > local_rank for name in before),
        cross_size=sum(count > local_rank for count in hosts.values()),
    )
