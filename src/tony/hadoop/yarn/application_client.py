"""The client of the ResourceManager: submit, watch, kill; nodes, queues, labels, resource types.

Results are wire records, unwrapped; their times are in milliseconds, memory in MiB. Every call here is safe to repeat
when a response is lost, and the proxy does so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tony.control_characters import escape_text
from tony.hadoop import ids
from tony.hadoop.errors import ApplicationNotFoundError, HadoopError, IpcProtocolError
from tony.hadoop.failover import FailoverProxy
from tony.hadoop.wire import application_client as wire
from tony.hadoop.wire.application_client import (
    ApplicationReport,
    ApplicationState,
    ApplicationSubmissionContext,
    NodeLabel,
    QueueInfo,
)
from tony.hadoop.wire.yarn_records import (
    ApplicationId,
    NodeReport,
    NodeState,
    Resource,
    ResourceTypeInfo,
)
from tony.retry import Backoff

#: States before the scheduler has accepted an application.
UNDECIDED: Final = frozenset((ApplicationState.NEW, ApplicationState.NEW_SAVING, ApplicationState.SUBMITTED))
#: Final states.
ENDED: Final = frozenset((ApplicationState.FINISHED, ApplicationState.FAILED, ApplicationState.KILLED))
#: Seconds between polls: at first, and after a long wait.
_BACKOFF: Final = Backoff(first=0.02, factor=1.25, most=0.05)
_LATER_PAUSE_SECONDS: Final = 0.2
_LONG_WAIT_SECONDS: Final = 2.0


class ApplicationRejectedError(HadoopError):
    """The ResourceManager rejected a submitted application before any of it ran.

    Attributes:
        report: application report with the diagnostics.
    """

    def __init__(self, message: str, report: ApplicationReport) -> None:
        self.report = report
        super().__init__(message)


class OperationTimeoutError(HadoopError):
    """The ResourceManager responds, but an operation did not complete in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """A new application id to submit with.

    Attributes:
        maximum: maximum resource of one container.
    """

    id: ApplicationId
    maximum: Resource


class ApplicationClient:
    """A client of ApplicationClientProtocol, through a failover proxy.

    Args:
        proxy: the proxy of the ResourceManagers.
    """

    def __init__(self, proxy: FailoverProxy) -> None:
        self._proxy = proxy

    async def close(self) -> None:
        """Close the connections."""
        await self._proxy.close()

    async def __aenter__(self) -> ApplicationClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- one application

    async def request_new_application(self) -> NewApplication:
        """Return a new application id and the maximum container resource."""
        answer = await self._proxy.call(wire.GET_NEW_APPLICATION, wire.GetNewApplicationRequest())
        if answer.application_id is None:
            raise IpcProtocolError(f"{self._proxy.name}: the response to getNewApplication has no id")
        return NewApplication(id=answer.application_id, maximum=answer.maximum_capability or Resource())

    async def submit(self, context: ApplicationSubmissionContext, *, timeout: float = 60.0) -> ApplicationReport:
        """Submit an application, and wait until the scheduler has accepted it.

        If the ResourceManager fails over before it has stored the application, the same context is submitted again.

        Args:
            context: submission context, with an id from `request_new_application`.
            timeout: seconds within which the scheduler must accept it.

        Raises:
            ApplicationRejectedError: the queue does not exist, is not permitted, has too many applications, ...
            InvalidResourceRequestError: the AM is larger than the maximum container, or has an unknown label.
            OperationTimeoutError: the application is neither accepted nor rejected in time.
        """
        application = context.application_id
        if application is None:
            raise ValueError("the context has no application id; get one from new_application()")
        request = wire.SubmitApplicationRequest(context=context)
        await self._proxy.call(wire.SUBMIT_APPLICATION, request)
        watch = _Watch(timeout)
        while True:
            try:
                report = await self.report(application)
            except ApplicationNotFoundError:
                await self._proxy.call(wire.SUBMIT_APPLICATION, request)
            else:
                if report.state is not None and report.state not in UNDECIDED:
                    return _check_accepted(report)
            if not await watch.pause():
                raise OperationTimeoutError(
                    f"{ids.format_application(application)} was submitted, but the scheduler has not accepted it "
                    f"after {timeout:g} s. Is the ResourceManager's state store reachable, and is it overloaded?"
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
                f"{self._proxy.name}: the response has no report of {ids.format_application(application)}"
            )
        return answer.report

    async def list_applications(
        self, *, states: Collection[ApplicationState] = (), types: Collection[str] = ()
    ) -> tuple[ApplicationReport, ...]:
        """Return the applications in one of the states and of one of the types; an empty filter matches all."""
        request = wire.GetApplicationsRequest(states=tuple(states), types=tuple(types))
        return (await self._proxy.call(wire.GET_APPLICATIONS, request)).applications

    async def kill(self, application: ApplicationId, why: str = "", *, timeout: float = 60.0) -> None:
        """Kill an application, and wait until the ResourceManager confirms it. Containers may take longer to end.

        An application that has already ended is left unchanged.

        Raises:
            ApplicationNotFoundError: the ResourceManager does not know it.
            OperationTimeoutError: it is not killed in time.
        """
        request = wire.KillApplicationRequest(application_id=application, diagnostics=why or None)
        watch = _Watch(timeout)
        while not (await self._proxy.call(wire.FORCE_KILL_APPLICATION, request)).completed:
            if not await watch.pause():
                raise OperationTimeoutError(f"{ids.format_application(application)} is not killed after {timeout:g} s")

    # -- the cluster

    async def nodes(self, states: Collection[NodeState] = ()) -> tuple[NodeReport, ...]:
        """Return the nodes in these states (all nodes if empty), with rack, labels, capacity and usage."""
        return (await self._proxy.call(wire.GET_CLUSTER_NODES, wire.GetClusterNodesRequest(states=tuple(states)))).nodes

    async def list_resource_types(self) -> tuple[ResourceTypeInfo, ...]:
        """Return the cluster's resource types. Requests silently ignore any other type."""
        return (await self._proxy.call(wire.GET_RESOURCE_TYPES, wire.GetResourceTypesRequest())).types

    async def list_labels(self) -> tuple[NodeLabel, ...]:
        """Return the node labels of the cluster."""
        answer = await self._proxy.call(wire.GET_CLUSTER_NODE_LABELS, wire.GetClusterNodeLabelsRequest())
        return answer.labels or tuple(NodeLabel(name=name) for name in answer.old_labels)

    async def fetch_queue(self, name: str = "root", *, recursive: bool = True) -> QueueInfo | None:
        """Return a queue with its children; None if it does not exist.

        Args:
            name: path of the queue; for a leaf with a unique name the last part is enough.
            recursive: whether to include all descendants.
        """
        request = wire.GetQueueInfoRequest(queue=name, include_children=True, recursive=recursive)
        return (await self._proxy.call(wire.GET_QUEUE_INFO, request)).queue


class _Watch:
    """Growing pauses between polls, until a deadline."""

    def __init__(self, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._timeout = timeout
        self._pauses = iter(_BACKOFF)

    async def pause(self) -> bool:
        """Wait until the next poll; return False at once if the deadline has passed."""
        waited = self._loop.time() - self._start
        if waited >= self._timeout:
            return False
        await asyncio.sleep(_LATER_PAUSE_SECONDS if waited > _LONG_WAIT_SECONDS else next(self._pauses))
        return True


def _check_accepted(report: ApplicationReport) -> ApplicationReport:
    """Return the report, or raise ApplicationRejectedError if the application was rejected."""
    attempt = report.current_attempt
    if report.state is not ApplicationState.FAILED or (attempt is not None and (attempt.number or 0) > 0):
        return report
    diagnostics = escape_text(report.diagnostics).strip()
    name = ids.format_application(report.id or ApplicationId())
    raise ApplicationRejectedError(
        f"the ResourceManager rejected {name} in queue {report.queue!r}: {diagnostics}", report
    )
