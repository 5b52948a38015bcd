"""What a client asks of the ResourceManager: submit, watch, kill; nodes, queues, labels, resources, tokens.

Answers are the records of the wire, unwrapped; times in them are milliseconds, memory is MiB. Everything here may be
asked again when an answer got lost, and the proxy does so.
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

if TYPE_CHECKING:
    from datetime import datetime

#: Where an application is not yet one that the scheduler has taken.
UNDECIDED: Final = frozenset((ApplicationState.NEW, ApplicationState.NEW_SAVING, ApplicationState.SUBMITTED))
#: Where nothing will happen to it any more.
ENDED: Final = frozenset((ApplicationState.FINISHED, ApplicationState.FAILED, ApplicationState.KILLED))
#: Seconds between two looks at something that takes a moment: at first, later, and when it takes really long.
_FIRST, _SOON, _LATER = 0.02, 0.05, 0.2
_LONG: Final = 2.0


class ApplicationRejected(HadoopError):  # noqa: N818 - a noun reads better where it is raised
    """The ResourceManager took an application and threw it out before anything of it ran.

    Attributes:
        report: with the diagnostics.
    """

    def __init__(self, message: str, report: ApplicationReport) -> None:
        self.report = report
        super().__init__(message)


class NotDoneInTime(HadoopError):  # noqa: N818
    """The ResourceManager answers, but what was asked for does not get done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """An id to submit with.

    Attributes:
        id: of one's own.
        maximum: the most that one container of the cluster may have.
    """

    id: ApplicationId
    maximum: Resource


class ApplicationClient:
    """ApplicationClientProtocol, through a proxy of the ResourceManagers.

    Args:
        proxy: whom to ask.
        token_service: what delegation tokens of these ResourceManagers have as their service.
    """

    def __init__(self, proxy: FailoverProxy, *, token_service: str = "") -> None:
        self._proxy = proxy
        self._token_service = token_service

    async def close(self) -> None:
        """Ends the connections."""
        await self._proxy.close()

    async def __aenter__(self) -> ApplicationClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- one application

    async def new_application(self) -> NewApplication:
        """An id, and what containers may be."""
        answer = await self._proxy.call(wire.GET_NEW_APPLICATION, wire.GetNewApplicationRequest())
        if answer.application_id is None:
            raise IpcProtocolError(f"{self._proxy.name}: an answer to getNewApplication without an id")
        return NewApplication(id=answer.application_id, maximum=answer.maximum_capability or Resource())

    async def submit(self, context: ApplicationSubmissionContext, *, patience: float = 60.0) -> ApplicationReport:
        """Submits, and waits until the scheduler has taken the application.

        A ResourceManager that failed over before it had stored the application does not know it: then the same
        context is submitted again.

        Args:
            context: with an id from `new_application`.
            patience: seconds until the scheduler must have taken it.

        Raises:
            ApplicationRejected: it was thrown out: no such queue, no right to use it, too many applications in it...
            InvalidResourceRequestError: its master is larger than any container may be, or has an unknown label.
            NotDoneInTime: it is still undecided.
        """
        application = context.application_id
        if application is None:
            raise ValueError("the context has no application id; new_application() gives one")
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
                    f"{ids.application_text(application)} was submitted, but after {patience:g} s the scheduler has "
                    "not taken it. Is the ResourceManager's state store reachable, and is it overloaded?"
                )

    async def report(self, application: ApplicationId) -> ApplicationReport:
        """How an application stands.

        Raises:
            ApplicationNotFoundError: the ResourceManager does not know it, or not any more.
        """
        request = wire.GetApplicationReportRequest(application_id=application)
        answer = await self._proxy.call(wire.GET_APPLICATION_REPORT, request)
        if answer.report is None:
            raise IpcProtocolError(
                f"{self._proxy.name}: no report of {ids.application_text(application)} in its answer"
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
        """The applications that fit everything given; what is empty does not choose.

        Args:
            tags: one of them is enough. They are compared exactly, and Java's clients submit them in lower case.
            limit: so many at most.
            started: from and to, milliseconds since 1970.
            finished: likewise.
            scope: whose.
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
        """Kills an application, and waits until the ResourceManager says that it is done. Containers may take longer.

        One that has ended stays as it is.

        Raises:
            ApplicationNotFoundError: the ResourceManager does not know it.
            NotDoneInTime: it is still not killed.
        """
        request = wire.KillApplicationRequest(application_id=application, diagnostics=why or None)
        watch = _Watch(patience)
        while not (await self._proxy.call(wire.FORCE_KILL_APPLICATION, request)).completed:
            if not await watch.pause():
                raise NotDoneInTime(f"{ids.application_text(application)} is not killed after {patience:g} s")

    async def move(self, application: ApplicationId, queue: str) -> None:
        """Moves an application to another queue."""
        request = wire.MoveApplicationRequest(application_id=application, target_queue=queue)
        await self._proxy.call(wire.MOVE_APPLICATION, request)

    async def set_priority(self, application: ApplicationId, priority: int) -> int:
        """Changes the priority (higher goes first), and tells what it has become: queues have limits."""
        request = wire.UpdateApplicationPriorityRequest(
            application_id=application, priority=Priority(priority=priority)
        )
        answer = await self._proxy.call(wire.UPDATE_APPLICATION_PRIORITY, request)
        return priority if answer.priority is None or answer.priority.priority is None else answer.priority.priority

    async def set_lifetime_end(self, application: ApplicationId, end: datetime) -> None:
        """Says when the ResourceManager shall kill an application that has a lifetime, or that had none so far."""
        from datetime import UTC  # here: a millisecond that most programs need not spend

        text = end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{end.microsecond // 1000:03}+0000"
        expiry = TimeoutExpiry(type=TimeoutType.LIFETIME, expire_time=text)
        request = wire.UpdateApplicationTimeoutsRequest(application_id=application, timeouts=(expiry,))
        await self._proxy.call(wire.UPDATE_APPLICATION_TIMEOUTS, request)

    # -- attempts and containers

    async def attempts(self, application: ApplicationId) -> tuple[AttemptReport, ...]:
        """All tries to run an application's master, first to last."""
        request = wire.GetApplicationAttemptsRequest(application_id=application)
        found = (await self._proxy.call(wire.GET_APPLICATION_ATTEMPTS, request)).attempts
        return tuple(sorted(found, key=lambda each: (each.id.number if each.id else None) or 0))

    async def attempt(self, attempt: ApplicationAttemptId) -> AttemptReport:
        """How a try stands.

        Raises:
            ApplicationAttemptNotFoundError: there is no such try.
        """
        request = wire.GetApplicationAttemptReportRequest(attempt_id=attempt)
        answer = await self._proxy.call(wire.GET_APPLICATION_ATTEMPT_REPORT, request)
        if answer.report is None:
            raise IpcProtocolError(f"{self._proxy.name}: no report of {ids.attempt_text(attempt)} in its answer")
        return answer.report

    async def fail_attempt(self, attempt: ApplicationAttemptId) -> None:
        """Ends a try, so that the next one starts if there may be one."""
        await self._proxy.call(wire.FAIL_APPLICATION_ATTEMPT, wire.FailApplicationAttemptRequest(attempt_id=attempt))

    async def containers(self, attempt: ApplicationAttemptId) -> tuple[ContainerReport, ...]:
        """The containers of a try. Without the history service: those that live, and only while the try does."""
        return (await self._proxy.call(wire.GET_CONTAINERS, wire.GetContainersRequest(attempt_id=attempt))).containers

    async def container(self, container: ContainerId) -> ContainerReport:
        """A container that lives.

        Raises:
            ContainerNotFoundError: it does not.
        """
        request = wire.GetContainerReportRequest(container_id=container)
        answer = await self._proxy.call(wire.GET_CONTAINER_REPORT, request)
        if answer.report is None:
            raise IpcProtocolError(f"{self._proxy.name}: no report of {ids.container_text(container)} in its answer")
        return answer.report

    async def signal(self, container: ContainerId, command: SignalCommand) -> None:
        """Has a container's node send its processes a signal, with the next heartbeat."""
        await self._proxy.call(
            wire.SIGNAL_CONTAINER, wire.SignalContainerRequest(container_id=container, command=command)
        )

    # -- the cluster

    async def nodes(self, states: Collection[NodeState] = ()) -> tuple[NodeReport, ...]:
        """The nodes in these states (all that there are if none is given), with rack, labels, size and use."""
        return (await self._proxy.call(wire.GET_CLUSTER_NODES, wire.GetClusterNodesRequest(states=tuple(states)))).nodes

    async def metrics(self) -> ClusterMetrics:
        """The nodes in numbers."""
        answer = await self._proxy.call(wire.GET_CLUSTER_METRICS, wire.GetClusterMetricsRequest())
        return answer.metrics or ClusterMetrics()

    async def resource_types(self) -> tuple[ResourceTypeInfo, ...]:
        """What the cluster counts. A type that is not among these is ignored in requests, without a word."""
        return (await self._proxy.call(wire.GET_RESOURCE_TYPES, wire.GetResourceTypesRequest())).types

    async def labels(self) -> tuple[NodeLabel, ...]:
        """The labels that nodes may have."""
        answer = await self._proxy.call(wire.GET_CLUSTER_NODE_LABELS, wire.GetClusterNodeLabelsRequest())
        return answer.labels or tuple(NodeLabel(name=name) for name in answer.old_labels)

    async def labels_of_nodes(self) -> dict[NodeId, tuple[str, ...]]:
        """Node -> its labels, for those that have one. A port of 0 means all nodes of the host."""
        found = (await self._proxy.call(wire.GET_NODE_TO_LABELS, wire.GetNodeToLabelsRequest())).nodes
        return {each.node: each.labels for each in found if each.node}

    async def nodes_of_labels(self, labels: Collection[str] = ()) -> dict[str, tuple[NodeId, ...]]:
        """Label -> its nodes; of all labels if none is given."""
        request = wire.GetLabelsToNodesRequest(labels=tuple(labels))
        found = (await self._proxy.call(wire.GET_LABELS_TO_NODES, request)).labels
        return {each.label: each.nodes for each in found if each.label}

    async def node_attributes(self) -> tuple[wire.NodeAttributeInfo, ...]:
        """The attributes that nodes have."""
        request = wire.GetClusterNodeAttributesRequest()
        return (await self._proxy.call(wire.GET_CLUSTER_NODE_ATTRIBUTES, request)).attributes

    async def queue(
        self, name: str = "root", *, children: bool = True, recursive: bool = True, applications: bool = False
    ) -> QueueInfo | None:
        """A queue, and those below it.

        Args:
            name: its path, or for a leaf that is alone of its name the last part of it.
            children: whether its children are told.
            recursive: and theirs.
            applications: whether the applications in each are told, too.

        Returns:
            None if there is no such queue.
        """
        request = wire.GetQueueInfoRequest(
            queue=name, include_applications=applications, include_children=children, recursive=recursive
        )
        return (await self._proxy.call(wire.GET_QUEUE_INFO, request)).queue

    async def queue_rights(self) -> dict[str, frozenset[QueueAcl]]:
        """Queue -> what the caller may do with it."""
        found = (await self._proxy.call(wire.GET_QUEUE_USER_ACLS, wire.GetQueueUserAclsRequest())).queues
        return {each.queue or "": frozenset(each.acls) for each in found}

    # -- tokens

    async def delegation_token(self, renewer: str) -> HadoopToken | None:
        """A token with which programs without a ticket may speak with the ResourceManager.

        Args:
            renewer: the short name or principal of who may renew it.

        Returns:
            None if this cluster gives none out.
        """
        answer = await self._proxy.call(wire.GET_DELEGATION_TOKEN, GetDelegationTokenRequest(renewer=renewer))
        if answer.token is None or not answer.token.identifier:
            return None
        return from_message(answer.token, service=self._token_service or None)

    async def renew_token(self, token: HadoopToken) -> int:
        """Renews a token (as the renewer), and tells its new end, in milliseconds since 1970."""
        request = RenewDelegationTokenRequest(token=to_message(token))
        return (await self._proxy.call(wire.RENEW_DELEGATION_TOKEN, request)).expiry_time

    async def cancel_token(self, token: HadoopToken) -> None:
        """Ends a token."""
        await self._proxy.call(wire.CANCEL_DELEGATION_TOKEN, CancelDelegationTokenRequest(token=to_message(token)))


class _Watch:
    """Pauses between looks, and the end of patience."""

    def __init__(self, patience: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._patience = patience
        self._next = _FIRST

    async def pause(self) -> bool:
        """Waits a moment; False, at once, when the time is up."""
        waited = self._loop.time() - self._start
        if waited >= self._patience:
            return False
        await asyncio.sleep(_LATER if waited > _LONG else self._next)
        self._next = min(_SOON, self._next * 1.25)
        return True


def _accepted(report: ApplicationReport) -> ApplicationReport:
    """The report, unless it is that of an application which never got anywhere."""
    attempt = report.current_attempt
    if report.state is not ApplicationState.FAILED or (attempt is not None and (attempt.number or 0) > 0):
        return report
    said = shown(report.diagnostics).strip()
    name = ids.application_text(report.id or ApplicationId())
    raise ApplicationRejected(f"the ResourceManager rejected {name} in queue {report.queue!r}: {said}", report)
