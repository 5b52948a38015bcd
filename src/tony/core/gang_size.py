"""With how many tasks a session starts, for the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tony.core.events import Gathered
from tony.model.cluster_spec import ClusterSpec
from tony.model.job_spec import JobSpec

#: Tasks that are named one by one.
_NAMED = 5


def gathered(spec: JobSpec, cluster: ClusterSpec) -> Gathered | None:
    """The event that says so; None if none of the published roles may have fewer tasks than it asks for."""
    elastic = [name for name in spec.elastic_roles if name in cluster.roles]
    if not elastic:
        return None
    return Gathered(
        session=cluster.session,
        tasks={name: len(cluster.roles[name]) for name in elastic},
        absent={name: cluster.absent[name] for name in elastic if name in cluster.absent},
    )


def sizes_text(tasks: Mapping[str, int], absent: Mapping[str, Sequence[int]]) -> str:
    """`3 of 4 tasks of worker (without worker:3)`."""
    return ", ".join(_one(role, count, absent.get(role, ())) for role, count in tasks.items())


def _one(role: str, count: int, absent: Sequence[int]) -> str:
    if not absent:
        return f"all {count} tasks of {role}"
    more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
    names = ", ".join(f"{role}:{index}" for index in absent[:_NAMED])
    return f"{count} of {count + len(absent)} tasks of {role} (without {names}{more})"
