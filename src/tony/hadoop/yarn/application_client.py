"""The client of the ResourceManager: submit, watch, kill; nodes, queues, labels, resources, tokens.

Results are wire records, unwrapped; their times are in milliseconds, memory in MiB. Every call here is safe to repeat
when a response is lost, and the proxy does so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from tony.dataclass import dataclass
from tony.hadoop import ids
from tony.hadoop.failover import FailoverProxy
from tony.hadoop.ipc.errors import ApplicationNotFoundError, HadoopError, IpcProtocolError
from tony.hadoop.remote_text import shown
from tony.hadoop.tokens.credentials import from_message, to_message
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire import application_client as wire
from tony.hadoop.wire.reports import (
    ApplicationReport,
    ApplicationState,
    ApplicationSubmissionContext,
    AttemptReport,
    ClusterMetrics,
    ContainerReport,
    NodeLabel,
    QueueAcl,
    QueueInfo,
    TimeoutExpiry,
    TimeoutType,
)
from tony.hadoop.wire.rpc import CancelDelegationTokenRequest, GetDelegationTokenRequest, RenewDelegationTokenRequest
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    ContainerId,
    NodeId,
    NodeReport,
    NodeState,
    Priority,
    Resource,
    ResourceTypeInfo,
    SignalCommand,
)
from tony.retry import Backoff

if TYPE_CHECKING:
    from datetime import datetime

#: States before the scheduler has accepted an application.
UNDECIDED: Final = frozenset((ApplicationState.NEW, ApplicationState.NEW_SAVING, ApplicationState.SUBMITTED))
#: Final states.
ENDED: Final = frozenset((ApplicationState.FINISHED, ApplicationState.FAILED, ApplicationState.KILLED))
#: Seconds between polls: at first, and after a long wait.
_BACKOFF: Final = Backoff(first=0.02, factor=1.25, most=0.05)
_LATER: Final = 0.2
_LONG: Final = 2.0


class ApplicationRejected(HadoopError):  # noqa: N818 - a noun reads better where it is raised
    """The ResourceManager rejected a submitted application before any of it ran.

    Attributes:
        report: application report with the diagnostics.
    """

    def __init__(self, message: str, report: ApplicationReport) -> None:
        self.report = report
        super().__init__(message)


class NotDoneInTime(HadoopError):  # noqa: N818
    """The ResourceManager responds, but an operation did not complete in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """A new application id to submit with.

    Attributes:
        id: application id.
        maximum: maximum resource of one container.
    """

    id: ApplicationId
    maximum: Resource


class ApplicationClient:
    """A client of ApplicationClientProtocol, through a failover proxy.

    Args:
        proxy: the proxy of the ResourceManagers.
        token_service: service name of these ResourceManagers' delegation tokens.
    """

    def __init__(self, proxy: FailoverProxy, *, token_service: str = "") -> None:
        self._proxy = proxy
        self._token_service = token_service

    async def close(self) -> None:
        """Close the connections."""
        await self._proxy.close()

    async def __aenter__(self) -> ApplicationClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- one application

    async def new_application(self) -> NewApplication:
        """Return a new application id and the maximum container resource."""
        answer = await self._proxy.call(wire.GET_NEW_APPLICATION, wire.GetNewApplicationRequest())
        if answer.application_id is None:
            raise IpcProtocolError(f"{self._proxy.name}: the response to getNewApplication has no id")
        return NewApplication(id=answer.application_id, maximum=answer.maximum_capability or Resource())

    async def submit(self, context: ApplicationSubmissionContext, *, patience: float = 60.0) -> ApplicationReport:
        """Submit an application, and wait until the scheduler has accepted it.

        If the ResourceManager fails over before it has stored the application, the same context is submitted again.

        Args:
            context: submission context, with an id from `new_application`.
            patience: seconds within which the scheduler must accept it.

        Raises:
            ApplicationRejected: the queue does not exist, is not permitted, has too many applications, ...
            InvalidResourceRequestError: the AM is larger than the maximum container, or has an unknown label.
            NotDoneInTime: the application is neither accepted nor rejected in time.
        """
        application = context.application_id
        if application is None:
            raise ValueError("the context has no application id; get one from new_application()")
        request = wire.SubmitApplicationRequest(context=context)
        await self._proxy.call(wire.SUBMIT_APPLICATION, request)
        watch = _Watch(patience)
        while True:
            try:
                report = await self.report(application)
            except ApplicationNotFoundError:
                await self._proxy.call(wire.SUBMIT_APPLICATION, request)
            else:
                if report.state is not None and report.state not in UNDECIDED:
                    return _accepted(report)
            if not await watch.pause():
                raise NotDoneInTime(
                    f"{ids.application_text(application)} was submitted, but the scheduler has not accepted it "
                    f"after {patience:g} s. Is the ResourceManager's state store reachable, and is it overloaded?"
                )

    async def report(self, application: ApplicationId) -> ApplicationReport:
        """Return the report of an application.

        Raises:
            ApplicationNotFoundError: the ResourceManager does not know it, or no longer.
        """
        request = wire.GetApplicationReportRequest(application_id=application)
        answer = await self._proxy.call(wire.GET_APPLICATION_REPORT, request)
        if answer.report is None:
            raise IpcProtocolError(
                f"{self._proxy.name}: the response has no report of {ids.application_text(application)}"
            )
        return answer.report

    async def applications(
        self,
        *,
        states: Collection[ApplicationState] = (),
        types: Collection[str] = (),
        users: Collection[str] = (),
        queues: Collection[str] = (),
        tags: Collection[str] = (),
        name: str | None = None,
        limit: int | None = None,
        started: tuple[int, int] | None = None,
        finished: tuple[int, int] | None = None,
        scope: wire.Scope = wire.Scope.ALL,
    ) -> tuple[ApplicationReport, ...]:
        """Return the applications that match all filters; an empty filter matches all.

        Args:
            tags: any of these tags, compared exactly; Java clients submit tags in lower case.
            limit: maximum number of applications.
            started: range of start times (from, to), milliseconds since 1970.
            finished: range of finish times, likewise.
            scope: ownership of the applications.
        """
        start_begin, start_end = started or (None, None)
        finish_begin, finish_end = finished or (None, None)
        request = wire.GetApplicationsRequest(
            states=tuple(states),
            types=tuple(types),
            users=tuple(users),
            queues=tuple(queues),
            tags=tuple(tags),
            name=name,
            limit=limit,
            start_begin=start_begin,
            start_end=start_end,
            finish_begin=finish_begin,
            finish_end=finish_end,
            scope=scope,
        )
        return (await self._proxy.call(wire.GET_APPLICATIONS, request)).applications

    async def kill(self, application: ApplicationId, why: str = "", *, patience: float = 60.0) -> None:
        """Kill an application, and wait until the ResourceManager confirms it. Containers may take longer to end.

        An application that has already ended is left unchanged.

        Raises:
            ApplicationNotFoundError: the ResourceManager does not know it.
            NotDoneInTime: it is not killed in time.
        """
        request = wire.KillApplicationRequest(application_id=application, diagnostics=why or None)
        watch = _Watch(patience)
        while not (await self._proxy.call(wire.FORCE_KILL_APPLICATION, request)).completed:
            if not await watch.pause():
                raise NotDoneInTime(f"{ids.application_text(application)} is not killed after {patience:g} s")

    async def move(self, application: ApplicationId, queue: str) -> None:
        """Move an application to another queue."""
        request = wire.MoveApplicationRequest(application_id=application, target_queue=queue)
        await self._proxy.call(wire.MOVE_APPLICATION, request)

    async def set_priority(self, application: ApplicationId, priority: int) -> int:
        """Set the priority (higher goes first), and return the effective one: queues limit it."""
        request = wire.UpdateApplicationPriorityRequest(
            application_id=application, priority=Priority(priority=priority)
        )
        answer = await self._proxy.call(wire.UPDATE_APPLICATION_PRIORITY, request)
        return priority if answer.priority is None or answer.priority.priority is None else answer.priority.priority

    async def set_lifetime_end(self, application: ApplicationId, end: datetime) -> None:
        """Set the time when the ResourceManager kills the application, whether or not it has a lifetime already."""
        from datetime import UTC  # imported here: it takes a millisecond that most programs need not spend

        text = end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{end.microsecond // 1000:03}+0000"
        expiry = TimeoutExpiry(type=TimeoutType.LIFETIME, expire_time=text)
        request = wire.UpdateApplicationTimeoutsRequest(application_id=application, timeouts=(expiry,))
        await self._proxy.call(wire.UPDATE_APPLICATION_TIMEOUTS, request)

    # -- attempts and containers

    async def attempts(self, application: ApplicationId) -> tuple[AttemptReport, ...]:
        """Return all attempts of an application, first to last."""
        request = wire.GetApplicationAttemptsRequest(application_id=application)
        found = (await self._proxy.call(wire.GET_APPLICATION_ATTEMPTS, request)).attempts
        return tuple(sorted(found, key=lambda each: (each.id.number if each.id else None) or 0))

    async def attempt(self, attempt: ApplicationAttemptId) -> AttemptReport:
        """Return the report of an application attempt.

        Raises:
            ApplicationAttemptNotFoundError: there is no such attempt.
        """
        request = wire.GetApplicationAttemptReportRequest(attempt_id=attempt)
        answer = await self._proxy.call(wire.GET_APPLICATION_ATTEMPT_REPORT, request)
        if answer.report is None:
            raise IpcProtocolError(f"{self._proxy.name}: the response has no report of {ids.attempt_text(attempt)}")
        return answer.report

    async def fail_attempt(self, attempt: ApplicationAttemptId) -> None:
        """End an attempt, so that the next one starts if attempts are left."""
        await self._proxy.call(wire.FAIL_APPLICATION_ATTEMPT, wire.FailApplicationAttemptRequest(attempt_id=attempt))

    async def containers(self, attempt: ApplicationAttemptId) -> tuple[ContainerReport, ...]:
        """Return the containers of an attempt; without the history service only live ones of a live attempt."""
        return (await self._proxy.call(wire.GET_CONTAINERS, wire.GetContainersRequest(attempt_id=attempt))).containers

    async def container(self, container: ContainerId) -> ContainerReport:
        """Return the report of a live container.

        Raises:
            ContainerNotFoundError: the container is not alive.
        """
        request = wire.GetContainerReportRequest(container_id=container)
        answer = await self._proxy.call(wire.GET_CONTAINER_REPORT, request)
        if answer.report is None:
            raise IpcProtocolError(f"{self._proxy.name}: the response has no report of {ids.container_text(container)}")
        return answer.report

    async def signal(self, container: ContainerId, command: SignalCommand) -> None:
        """Send a signal to a container's processes; the node learns of it with its next heartbeat."""
        await self._proxy.call(
            wire.SIGNAL_CONTAINER, wire.SignalContainerRequest(container_id=container, command=command)
        )

    # -- the cluster

    async def nodes(self, states: Collection[NodeState] = ()) -> tuple[NodeReport, ...]:
        """Return the nodes in these states (all nodes if empty), with rack, labels, capacity and usage."""
        return (await self._proxy.call(wire.GET_CLUSTER_NODES, wire.GetClusterNodesRequest(states=tuple(states)))).nodes

    async def metrics(self) -> ClusterMetrics:
        """Return counts of the cluster's nodes."""
        answer = await self._proxy.call(wire.GET_CLUSTER_METRICS, wire.GetClusterMetricsRequest())
        return answer.metrics or ClusterMetrics()

    async def resource_types(self) -> tuple[ResourceTypeInfo, ...]:
        """Return the cluster's resource types. Requests silently ignore any other type."""
        return (await self._proxy.call(wire.GET_RESOURCE_TYPES, wire.GetResourceTypesRequest())).types

    async def labels(self) -> tuple[NodeLabel, ...]:
        """Return the node labels of the cluster."""
        answer = await self._proxy.call(wire.GET_CLUSTER_NODE_LABELS, wire.GetClusterNodeLabelsRequest())
        return answer.labels or tuple(NodeLabel(name=name) for name in answer.old_labels)

    async def labels_of_nodes(self) -> dict[NodeId, tuple[str, ...]]:
        """Return the labels by node, for nodes that have any. Port 0 means all nodes of the host."""
        found = (await self._proxy.call(wire.GET_NODE_TO_LABELS, wire.GetNodeToLabelsRequest())).nodes
        return {each.node: each.labels for each in found if each.node}

    async def nodes_of_labels(self, labels: Collection[str] = ()) -> dict[str, tuple[NodeId, ...]]:
        """Return the nodes by label, for all labels if empty."""
        request = wire.GetLabelsToNodesRequest(labels=tuple(labels))
        found = (await self._proxy.call(wire.GET_LABELS_TO_NODES, request)).labels
        return {each.label: each.nodes for each in found if each.label}

    async def node_attributes(self) -> tuple[wire.NodeAttributeInfo, ...]:
        """Return the node attributes of the cluster."""
        request = wire.GetClusterNodeAttributesRequest()
        return (await self._proxy.call(wire.GET_CLUSTER_NODE_ATTRIBUTES, request)).attributes

    async def queue(
        self, name: str = "root", *, children: bool = True, recursive: bool = True, applications: bool = False
    ) -> QueueInfo | None:
        """Return a queue, and those below it.

        Args:
            name: path of the queue; for a leaf with a unique name the last part is enough.
            children: whether to include its children.
            recursive: whether to include all descendants.
            applications: whether to include the applications of each queue.

        Returns:
            the queue, or None if it does not exist.
        """
        request = wire.GetQueueInfoRequest(
            queue=name, include_applications=applications, include_children=children, recursive=recursive
        )
        return (await self._proxy.call(wire.GET_QUEUE_INFO, request)).queue

    async def queue_rights(self) -> dict[str, frozenset[QueueAcl]]:
        """Return the caller's permissions by queue."""
        found = (await self._proxy.call(wire.GET_QUEUE_USER_ACLS, wire.GetQueueUserAclsRequest())).queues
        return {each.queue or "": frozenset(each.acls) for each in found}

    # -- tokens

    async def delegation_token(self, renewer: str) -> HadoopToken | None:
        """Get a delegation token, with which programs without a Kerberos ticket can call the ResourceManager.

        Args:
            renewer: short name or principal of the user that may renew it.

        Returns:
            the token, or None if this cluster issues none.
        """
        answer = await self._proxy.call(wire.GET_DELEGATION_TOKEN, GetDelegationTokenRequest(renewer=renewer))
        if answer.token is None or not answer.token.identifier:
            return None
        return from_message(answer.token, service=self._token_service or None)

    async def renew_token(self, token: HadoopToken) -> int:
        """Renew a token (as the renewer); return its new expiry time in milliseconds since 1970."""
        request = RenewDelegationTokenRequest(token=to_message(token))
        return (await self._proxy.call(wire.RENEW_DELEGATION_TOKEN, request)).expiry_time

    async def cancel_token(self, token: HadoopToken) -> None:
        """Cancel a token."""
        await self._proxy.call(wire.CANCEL_DELEGATION_TOKEN, CancelDelegationTokenRequest(token=to_message(token)))


class _Watch:
    """Growing pauses between polls, until a deadline."""

    def __init__(self, patience: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._patience = patience
        self._pauses = iter(_BACKOFF)

    async def pause(self) -> bool:
        """Wait until the next poll; return False at once if the deadline has passed."""
        waited = self._loop.time() - self._start
        if waited >= self._patience:
            return False
        await asyncio.sleep(_LATER if waited > _LONG else next(self._pauses))
        return True


def _accepted(report: ApplicationReport) -> ApplicationReport:
    """Return the report, or raise ApplicationRejected if the application was rejected."""
    attempt = report.current_attempt
    if report.state is not ApplicationState.FAILED or (attempt is not None and (attempt.number or 0) > 0):
        return report
    said = shown(report.diagnostics).strip()
    name = ids.application_text(report.id or ApplicationId())
    raise ApplicationRejected(f"the ResourceManager rejected {name} in queue {report.queue!r}: {said}", report)
