"""The number of tasks with which a session starts, for the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.core.events import GangSizeSet
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.units import format_first

#: Maximum number of tasks listed by name.
_MAX_NAMED = 5


def build_gang_size_event(spec: JobSpec, cluster: ClusterSpec) -> GangSizeSet | None:
    """Return the event that records it; None if every published role has all of its tasks by definition."""
    elastic = [name for name in spec.elastic_roles if name in cluster.roles]
    if not elastic:
        return None
    return GangSizeSet(
        session=cluster.session,
        tasks={name: len(cluster.roles[name]) for name in elastic},
        absent={name: cluster.absent[name] for name in elastic if name in cluster.absent},
    )


def format_sizes(tasks: Mapping[str, int], absent: Mapping[str, Sequence[int]]) -> str:
    """Return a text such as `3 of 4 tasks of worker (without worker:3)`."""
    return ", ".join(_format_role(role, count, absent.get(role, ())) for role, count in tasks.items())


def _format_role(role: str, count: int, absent: Sequence[int]) -> str:
    if not absent:
        return f"all {count} tasks of {role}"
    names = format_first([f"{role}:{index}" for index in absent], _MAX_NAMED)
    return f"{count} of {count + len(absent)} tasks of {role} (without {names})"
