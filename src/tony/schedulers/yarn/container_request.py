"""What YARN is asked for, for a task of each role. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tony.hadoop.yarn.request_table import ContainerRequest
from tony.model.job_spec import JobSpec
from tony.schedulers.yarn.placement_constraints import constraint_of, placed, tags_of
from tony.schedulers.yarn.settings import YarnSettings
from tony.schedulers.yarn.submission_context import capability

#: Lower is served first; one for all roles: the machine decides in which order they are asked for.
_PRIORITY = 1


def ask_of(spec: JobSpec, role: str, settings: YarnSettings, nodes: Mapping[str, str]) -> ContainerRequest:
    """What one container of a role is to be like.

    Args:
        nodes: host -> rack: any of them, as asking for `*` alone takes its time.
    """
    wanted = spec.effective_roles[role]
    resource = capability(wanted.resources)
    if role in placed(spec, settings):
        constraint = constraint_of(spec, role, settings)
        return ContainerRequest(
            resource=resource, priority=_PRIORITY, tags=tags_of(role, wanted), constraint=constraint
        )
    label = wanted.node_label or settings.node_label
    if label:
        return ContainerRequest(resource=resource, priority=_PRIORITY, label=label)
    racks = tuple(dict.fromkeys(rack for rack in nodes.values() if rack))
    return ContainerRequest(resource=resource, priority=_PRIORITY, hosts=tuple(nodes), racks=racks)
