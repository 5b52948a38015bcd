"""Settings of roles that have no effect on a job's scheduler. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tony.model.job_spec import JobSpec, Role
from tony.schedulers.capabilities import Capabilities, RoleSetting


def find_unsupported_settings(spec: JobSpec, capabilities: Capabilities) -> list[str]:
    """Return a sentence for each of them, but for images: without its image a program cannot run."""
    return [
        f"roles.{name}.{key} has no effect on the {spec.scheduler} scheduler{instead}"
        for name, role in spec.effective_roles.items()
        for setting, key, instead in _list_used_settings(role)
        if setting not in capabilities.honours
    ]


def _list_used_settings(role: Role) -> Iterator[tuple[RoleSetting, str, str]]:
    """Yield each setting of a role, with its key, and what to use instead."""
    for name in sorted(role.resources.others):
        instead = "; request GPUs with `gpus`" if name.rpartition("/")[2] in ("gpu", "gpus") else ""
        yield RoleSetting.RESOURCES, f"resources.{name}", instead
    if role.node_label:
        yield RoleSetting.NODE_LABEL, "node_label", ""
    if role.spread and role.instances > 1:
        yield RoleSetting.SPREAD, "spread", ""
