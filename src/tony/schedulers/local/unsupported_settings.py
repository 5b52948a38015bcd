"""What a job asks for that means nothing on one machine: said, so that nobody waits for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tony.model.job_spec import JobSpec, Role


def unsupported_settings(spec: JobSpec) -> list[str]:
    """A sentence for each."""
    return [
        f"warning: roles.{name}.{key} means nothing on the local scheduler: {why}"
        for name, role in spec.effective_roles.items()
        for key, why in _of(role)
    ]


def _of(role: Role) -> Iterator[tuple[str, str]]:
    for name in sorted(role.resources.others):
        instead = "; ask for GPUs with `gpus`" if name.rpartition("/")[2] in ("gpu", "gpus") else ""
        yield f"resources.{name}", f"it counts memory and GPUs only{instead}"
    if role.node_label:
        yield "node_label", "there is only this machine, and it has no labels"
    if role.spread and role.instances > 1:
        yield "spread", "all tasks share this machine"
    if role.placement:
        yield "placement", "it places nothing, there is only this machine"
    if role.placement_tags:
        yield "placement_tags", "it has no placement constraints that could name them"
    if role.mounts:
        yield "mounts", "the tasks run on this machine as it is, in no container image"
