"""Build the container request of each role. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tony.hadoop.yarn.request_table import ContainerRequest
from tony.model.job_spec import JobSpec
from tony.schedulers.yarn.client.placement_constraints import constraint_of, placed, tags_of
from tony.schedulers.yarn.launch_contexts import capability
from tony.schedulers.yarn.settings import YarnSettings

#: Lower is served first; the same for all roles: the state machine decides their order.
_PRIORITY = 1


def build_container_request(
    spec: JobSpec, role: str, settings: YarnSettings, nodes: Mapping[str, str]
) -> ContainerRequest:
    """Return the request for one container of a role.

    Args:
        nodes: host -> rack, of all nodes: a request for `*` alone is served more slowly.
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
