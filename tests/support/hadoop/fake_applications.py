"""A fake of the ResourceManager's client protocol: application states, nodes, queues and labels.

    cluster = FakeApplications(queues=("default", "batch"))
    async with FakeIpcServer() as server:
        cluster.serve(server)

Several servers may serve one cluster, as a pair of ResourceManagers does. Each report of an unfinished
application advances it by one state.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.hadoop.ipc_server import FakeIpcServer, FakeRefusalError, Incoming
from tony.hadoop import ids
from tony.hadoop.wire import application_client as wire
from tony.hadoop.wire.application_client import (
    ApplicationReport,
    ApplicationState,
    ApplicationSubmissionContext,
    NodeLabel,
    QueueInfo,
    QueueState,
)
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    FinalStatus,
    NodeId,
    NodeReport,
    NodeState,
    Resource,
    ResourceTypeInfo,
)

_YARN = "org.apache.hadoop.yarn.exceptions."
_ENDED = (ApplicationState.FINISHED, ApplicationState.FAILED, ApplicationState.KILLED)


@dataclass(slots=True, kw_only=True)
class FakeApplication:
    """An application as the ResourceManager knows it.

    Attributes:
        context: of the last submission.
        user: that submitted it.
        state: its current state.
        coming: the states that the next reports will return.
        submissions: number of submissions.
    """

    context: ApplicationSubmissionContext
    user: str
    state: ApplicationState
    coming: list[ApplicationState] = field(default_factory=list)
    submissions: int = 1
    diagnostics: str = ""
    submitted_ms: int = 0
    attempt: ApplicationAttemptId | None = None


class FakeApplications:
    """The state that a cluster's ResourceManagers share.

    Args:
        queues: the leaf queues below root; a submission to another queue fails as in Hadoop.
        nodes: hosts of the nodes, all in one rack.
        labels: label -> hosts.
        maximum: the largest resources of one container.
        undecided: number of reports that show an application as unfinished.
        kill_takes: number of responses that report a kill as still in progress.
    """

    def __init__(
        self,
        *,
        queues: Iterable[str] = ("default",),
        nodes: Iterable[str] = ("node-1",),
        labels: dict[str, tuple[str, ...]] | None = None,
        resource_types: Iterable[ResourceTypeInfo] = (),
        maximum: Resource | None = None,
        undecided: int = 2,
        kill_takes: int = 1,
    ) -> None:
        self.queues = dict.fromkeys(queues, QueueState.RUNNING)
        self.labels = labels or {}
        self.maximum = maximum or Resource(memory=8192, vcores=8)
        known = (ResourceTypeInfo(name="memory-mb", units="Mi"), ResourceTypeInfo(name="vcores"))
        self.resource_types = (*known, *resource_types)
        self.undecided, self.kill_takes = undecided, kill_takes
        self.nodes = {host: self._node(host) for host in nodes}
        self.applications: dict[ApplicationId, FakeApplication] = {}
        self.started_ms = int(time.time() * 1000)
        self._last = 0
        self._kills: dict[ApplicationId, int] = {}

    def serve(self, server: FakeIpcServer) -> None:
        """Register the handlers with a server."""
        server.on(wire.GET_NEW_APPLICATION, self._new)
        server.on(wire.SUBMIT_APPLICATION, self._submit)
        server.on(wire.GET_APPLICATION_REPORT, self._report)
        server.on(wire.GET_APPLICATIONS, self._list)
        server.on(wire.FORCE_KILL_APPLICATION, self._kill)
        server.on(wire.GET_CLUSTER_NODES, self._cluster_nodes)
        server.on(wire.GET_QUEUE_INFO, self._queue)
        server.on(wire.GET_CLUSTER_NODE_LABELS, self._cluster_labels)
        server.on(wire.GET_RESOURCE_TYPES, lambda *_: wire.GetResourceTypesResponse(types=self.resource_types))

    # -- for tests

    def forget(self, application: ApplicationId) -> None:
        """Forget an application, as after a failover before it was stored."""
        del self.applications[application]

    def run(self, application: ApplicationId) -> None:
        """Start an AM attempt of an application."""
        found = self.applications[application]
        found.state, found.coming = ApplicationState.RUNNING, []
        number = ((found.attempt.number if found.attempt else None) or 0) + 1
        found.attempt = ApplicationAttemptId(application=application, number=number)

    def end(self, application: ApplicationId, state: ApplicationState, diagnostics: str = "") -> None:
        """End an application."""
        found = self.applications[application]
        found.state, found.coming, found.diagnostics = state, [], diagnostics

    # -- applications

    def _new(self, *_: object) -> wire.GetNewApplicationResponse:
        self._last += 1
        application = ApplicationId(number=self._last, cluster_timestamp=self.started_ms)
        return wire.GetNewApplicationResponse(application_id=application, maximum_capability=self.maximum)

    def _submit(self, request: wire.SubmitApplicationRequest, call: Incoming) -> wire.SubmitApplicationResponse:
        context = request.context
        if context is None or context.application_id is None:
            raise FakeRefusalError(f"{_YARN}YarnException", "no id")
        asked = (context.resource.memory if context.resource else 0) or 0
        if asked > (self.maximum.memory or 0):
            raise FakeRefusalError(f"{_YARN}InvalidResourceRequestException", f"Invalid resource request! {asked}")
        known = self.applications.get(context.application_id)
        if known is not None:
            known.submissions += 1
            return wire.SubmitApplicationResponse()
        made = FakeApplication(
            context=context,
            user=call.caller.user or "unknown",
            state=ApplicationState.NEW,
            submitted_ms=int(time.time() * 1000),
        )
        saving = [ApplicationState.NEW_SAVING, *([ApplicationState.SUBMITTED] * self.undecided)][: self.undecided]
        queue = (context.queue or "default").removeprefix("root.")
        name = ids.format_application(context.application_id)
        if self.queues.get(queue) is QueueState.RUNNING:
            made.coming = [*saving, ApplicationState.ACCEPTED]
        else:
            made.coming = [*saving, ApplicationState.FAILED]
            made.diagnostics = f"Application {name} submitted by user {made.user} to unknown queue: {context.queue}"
            if queue in self.queues:
                made.diagnostics = f"Queue root.{queue} is STOPPED. Cannot accept submission of application: {name}"
        self.applications[context.application_id] = made
        return wire.SubmitApplicationResponse()

    def _report(self, request: wire.GetApplicationReportRequest, _: Incoming) -> wire.GetApplicationReportResponse:
        found = self._found(request.application_id)
        if found.coming:
            found.state = found.coming.pop(0)
        return wire.GetApplicationReportResponse(report=self._told(found))

    def _found(self, application: ApplicationId | None) -> FakeApplication:
        found = self.applications.get(application or ApplicationId())
        if found is None:
            text = ids.format_application(application or ApplicationId())
            raise FakeRefusalError(
                f"{_YARN}ApplicationNotFoundException", f"Application with id '{text}' doesn't exist in RM."
            )
        return found

    def _told(self, app: FakeApplication) -> ApplicationReport:
        context = app.context
        final = {
            ApplicationState.FINISHED: FinalStatus.SUCCEEDED,
            ApplicationState.FAILED: FinalStatus.FAILED,
            ApplicationState.KILLED: FinalStatus.KILLED,
        }
        nothing_yet = ApplicationAttemptId(application=context.application_id, number=-1)
        return ApplicationReport(
            id=context.application_id,
            user=app.user,
            queue=context.queue or "default",
            name=context.name,
            host="node-1" if app.attempt else "N/A",
            rpc_port=-1,
            state=app.state,
            diagnostics=app.diagnostics,
            start_time=app.submitted_ms,
            finish_time=int(time.time() * 1000) if app.state in _ENDED else 0,
            final_status=final.get(app.state, FinalStatus.UNDEFINED),
            current_attempt=app.attempt or nothing_yet,
            application_type=context.application_type,
            tags=context.tags,
            launch_time=app.submitted_ms if app.attempt else 0,
        )

    def _list(self, request: wire.GetApplicationsRequest, _: Incoming) -> wire.GetApplicationsResponse:
        chosen = []
        for app in self.applications.values():
            told = self._told(app)
            if (not request.states or told.state in request.states) and (
                not request.types or told.application_type in request.types
            ):
                chosen.append(told)
        return wire.GetApplicationsResponse(applications=tuple(chosen))

    def _kill(self, request: wire.KillApplicationRequest, call: Incoming) -> wire.KillApplicationResponse:
        found = self._found(request.application_id)
        application = request.application_id or ApplicationId()
        asked = self._kills[application] = self._kills.get(application, 0) + 1
        if found.state in _ENDED:
            return wire.KillApplicationResponse(completed=True)
        if asked <= self.kill_takes:
            return wire.KillApplicationResponse(completed=False)
        said = f"Application {ids.format_application(application)} was killed by user {call.caller.user} at 127.0.0.1"
        self.end(application, ApplicationState.KILLED, f"{said} with diagnostic message: {request.diagnostics}")
        return wire.KillApplicationResponse(completed=True)

    # -- the cluster

    def _node(self, host: str) -> NodeReport:
        return NodeReport(
            id=NodeId(host=host, port=45454),
            http_address=f"{host}:8042",
            rack="/default-rack",
            used=Resource(memory=0, vcores=0),
            capability=self.maximum,
            num_containers=0,
            state=NodeState.RUNNING,
            labels=tuple(label for label, hosts in self.labels.items() if host in hosts),
        )

    def lose(self, host: str) -> None:
        """Lose a node."""
        self.nodes[host] = replace(self.nodes[host], state=NodeState.LOST)

    def _cluster_nodes(self, request: wire.GetClusterNodesRequest, _: Incoming) -> wire.GetClusterNodesResponse:
        chosen = (node for node in self.nodes.values() if not request.states or node.state in request.states)
        return wire.GetClusterNodesResponse(nodes=tuple(chosen))

    def _queue(self, request: wire.GetQueueInfoRequest, _: Incoming) -> wire.GetQueueInfoResponse:
        leaves = {name: QueueInfo(name=name, state=state, capacity=1.0) for name, state in self.queues.items()}
        if request.queue == "root":
            children = leaves.values() if request.include_children or request.recursive else ()
            root = QueueInfo(name="root", state=QueueState.RUNNING, capacity=1.0, children=tuple(children))
            return wire.GetQueueInfoResponse(queue=root)
        return wire.GetQueueInfoResponse(queue=leaves.get((request.queue or "").removeprefix("root.")))

    def _cluster_labels(self, *_: object) -> wire.GetClusterNodeLabelsResponse:
        return wire.GetClusterNodeLabelsResponse(labels=tuple(NodeLabel(name=name) for name in self.labels))
