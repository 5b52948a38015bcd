"""Outstanding container requests of each role, and their pending reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tony.core.events import Event, Queued, Unsatisfiable
from tony.hadoop.wire.application_master import RegisterResponse
from tony.hadoop.wire.proto import replace as change
from tony.hadoop.yarn.am_rm_client import MasterClient
from tony.hadoop.yarn.request_table import ContainerRequest
from tony.model.job_spec import JobSpec
from tony.schedulers.yarn.placement_constraints import build_constraint, find_placed, list_tags
from tony.schedulers.yarn.resources import build_capability, round_memory
from tony.schedulers.yarn.settings import YarnSettings

#: Seconds until missing containers are reported as pending: before, they are probably just being allocated.
_PENDING_AFTER_SECONDS = 2.0
#: Lower is served first; the same for all roles: the state machine decides their order.
_PRIORITY = 1
#: Text in the response of a ResourceManager that does not support placement constraints.
_NO_HANDLER = "cannot handle placement constraints"


class OutstandingRequests:
    """The container requests of a job.

    Args:
        asks: the request for one container of each role. A role's position is its allocation request id.
        placed: role with placement constraints -> the setting that requires them.
        queue: the job's queue, if the ResourceManager does not report it.
        count: returns the number of a role's containers.
        left_out: returns blacklisted hosts.
        emit: receives events.
    """

    def __init__(
        self,
        asks: Mapping[str, ContainerRequest],
        master: MasterClient,
        registration: RegisterResponse,
        *,
        placed: Mapping[str, str],
        queue: str,
        count: Callable[[str], int],
        left_out: Callable[[], Sequence[str]],
        emit: Callable[[Event], None],
    ) -> None:
        self._asks, self._roles, self._placed = dict(asks), tuple(asks), placed
        self._master, self._registration = master, registration
        self._queue = registration.queue or queue
        self._count, self._left_out, self._emit = count, left_out, emit
        self._total = dict.fromkeys(asks, 0)
        self._queued = ""
        #: Role -> why the ResourceManager rejects its requests for now.
        self._rejected: dict[str, str] = {}
        self._shortage: asyncio.TimerHandle | None = None

    def set(self, role: str, total: int) -> None:
        """Set the total of a role, existing containers included."""
        if total == self._total[role]:
            return
        self._total[role] = total
        if total and (missing := self._find_unknown_resources(role)):
            self._emit(Unsatisfiable(role=role, reason=f"the cluster has no resource type {missing}"))
            return
        self.request_missing(role)

    def set_memory(self, role: str, memory: int) -> None:
        """Set the bytes of each further container of a role, missing ones included."""
        ask = self._asks[role]
        self._asks[role] = replace(ask, resource=change(ask.resource, memory=round_memory(memory)))
        self.request_missing(role)

    def _find_unknown_resources(self, role: str) -> str:
        """Return requested resource types that YARN would silently ignore."""
        known = {type_.name for type_ in self._registration.resource_types}
        requested = self._asks[role].resource
        return ", ".join(other.name for other in requested.others if known and other.name not in known)

    def request_missing(self, role: str) -> None:
        """Request the missing containers. A container counts until its end has been reported."""
        missing = max(0, self._total[role] - self._count(role))
        self._master.want(self._roles.index(role), missing, self._asks[role])
        self.report_pending()

    def find_role(self, key: int) -> str | None:
        """Return the role of an allocation request id; None if there is none."""
        return self._roles[key] if 0 <= key < len(self._roles) else None

    def on_granted(self, role: str) -> None:
        """Note an allocated container of a role."""
        if not self._master.count_outstanding(self._roles.index(role)):
            self._rejected.pop(role, None)

    def on_refused(self, key: int, reason: str) -> None:
        """Report that a role's requests can never be satisfied."""
        role = self._roles[key]
        if _NO_HANDLER in reason and role in self._placed:
            reason = (
                f"this cluster has placement constraints disabled, but {self._placed[role]} needs them. Remove that "
                "setting, or ask the cluster's administrator to set "
                "yarn.resourcemanager.placement-constraints.handler to `scheduler` or `placement-processor`"
            )
        self._emit(Unsatisfiable(role=role, reason=reason))

    def on_rejected(self, key: int, reason: str) -> None:
        """Record that there is no suitable node now for the missing containers."""
        self._rejected[self._roles[key]] = reason

    def close(self) -> None:
        """Withdraw all requests, and stop reporting."""
        if self._shortage:
            self._shortage.cancel()
        for key, role in enumerate(self._roles):
            self._master.want(key, 0, self._asks[role])

    # --- pending requests -------------------------------------------------------------------------------------------

    def report_pending(self) -> None:
        """Report pending requests after a moment, and at once when none is left."""
        if self._master.count_outstanding() == 0:
            if self._shortage:
                self._shortage.cancel()
                self._shortage = None
            self._report_queued("")
        elif self._shortage is None:
            self._shortage = asyncio.get_running_loop().call_later(_PENDING_AFTER_SECONDS, self._report_shortage)

    def _report_shortage(self) -> None:
        self._shortage = None
        parts = []
        for key, role in enumerate(self._roles):
            missing = self._master.count_outstanding(key)
            if missing:
                parts.append(f"{missing} of {self._total[role]} containers of {role}")
        if parts:
            why = "".join(
                f"; no suitable node for {role} now ({rejection}), retrying"
                for role, rejection in self._rejected.items()
            )
            if hosts := self._left_out():
                why += f"; excluded hosts without a suitable Python: {', '.join(hosts)}"
            reason = f"waiting for YARN: {', '.join(parts)} pending in queue {self._queue}{why}"
            self._report_queued(reason)

    def _report_queued(self, reason: str) -> None:
        if reason != self._queued:
            self._queued = reason
            self._emit(Queued(reason=reason))


def build_container_request(
    spec: JobSpec, role: str, settings: YarnSettings, nodes: Mapping[str, str]
) -> ContainerRequest:
    """Return the request for one container of a role.

    Args:
        nodes: host -> rack, of all nodes: a request for `*` alone is served more slowly.
    """
    role_spec = spec.effective_roles[role]
    resource = build_capability(role_spec.resources)
    if role in find_placed(spec, settings):
        constraint = build_constraint(spec, role, settings)
        return ContainerRequest(
            resource=resource, priority=_PRIORITY, tags=list_tags(role, role_spec), constraint=constraint
        )
    label = role_spec.node_label or settings.node_label
    if label:
        return ContainerRequest(resource=resource, priority=_PRIORITY, label=label)
    racks = tuple(dict.fromkeys(rack for rack in nodes.values() if rack))
    return ContainerRequest(resource=resource, priority=_PRIORITY, hosts=tuple(nodes), racks=racks)
