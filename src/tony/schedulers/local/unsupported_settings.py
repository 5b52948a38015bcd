"""Settings of a job that have no effect on a single machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tony.model.job_spec import JobSpec, Role


def unsupported_settings(spec: JobSpec) -> list[str]:
    """Return a warning for each of them."""
    return [
        f"warning: roles.{name}.{key} has no effect on the local scheduler: {why}"
        for name, role in spec.effective_roles.items()
        for key, why in _of(role)
    ]


def _of(role: Role) -> Iterator[tuple[str, str]]:
    for name in sorted(role.resources.others):
        instead = "; request GPUs with `gpus`" if name.rpartition("/")[2] in ("gpu", "gpus") else ""
        yield f"resources.{name}", f"it manages memory and GPUs only{instead}"
    if role.node_label:
        yield "node_label", "it has one machine, without node labels"
    if role.spread and role.instances > 1:
        yield "spread", "all tasks run on this machine"
    if role.placement:
        yield "placement", "all tasks run on this machine"
    if role.placement_tags:
        yield "placement_tags", "it has no placement constraints"
    if role.mounts:
        yield "mounts", "tasks run directly on this machine, without a container image"
