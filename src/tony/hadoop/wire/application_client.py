"""ApplicationClientProtocol: calls from clients to the ResourceManager, port 8032."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tony.hadoop.wire.method import Method
from tony.hadoop.wire.proto import BOOL, ENUM, INT64, STRING, ProtoMessage, optional, repeated, required
from tony.hadoop.wire.reports import (
    ApplicationReport,
    ApplicationState,
    ApplicationSubmissionContext,
    AttemptReport,
    ClusterMetrics,
    ContainerReport,
    LabelNodes,
    NodeLabel,
    NodeLabels,
    QueueInfo,
    QueueUserAcls,
    TimeoutExpiry,
)
from tony.hadoop.wire.rpc import (
    CancelDelegationTokenRequest,
    CancelDelegationTokenResponse,
    GetDelegationTokenRequest,
    GetDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    ContainerId,
    NodeAttributeKey,
    NodeAttributeType,
    NodeReport,
    NodeState,
    Priority,
    Resource,
    ResourceTypeInfo,
    SignalCommand,
)

PROTOCOL: Final = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"


class Scope(IntEnum):
    """The applications to list, by ownership."""

    ALL = 0
    VIEWABLE = 1
    OWN = 2


class GetNewApplicationRequest(ProtoMessage):
    """An empty message."""


class GetNewApplicationResponse(ProtoMessage):
    """A new application id, and the maximum resource of one container."""

    application_id: ApplicationId | None = optional(1, ApplicationId)
    maximum_capability: Resource | None = optional(2, Resource)


class SubmitApplicationRequest(ProtoMessage):
    context: ApplicationSubmissionContext | None = optional(1, ApplicationSubmissionContext)


class SubmitApplicationResponse(ProtoMessage):
    """An empty message: poll the report until the application is accepted."""


class GetApplicationReportRequest(ProtoMessage):
    application_id: ApplicationId | None = optional(1, ApplicationId)


class GetApplicationReportResponse(ProtoMessage):
    report: ApplicationReport | None = optional(1, ApplicationReport)


class KillApplicationRequest(ProtoMessage):
    """The application to kill, and the reason."""

    application_id: ApplicationId | None = optional(1, ApplicationId)
    diagnostics: str | None = optional(2, STRING)


class KillApplicationResponse(ProtoMessage):
    """Whether the application is killed; repeat the call until it is."""

    completed: bool = optional(1, BOOL, False)


class FailApplicationAttemptRequest(ProtoMessage):
    """The attempt to end, so that the next one starts."""

    attempt_id: ApplicationAttemptId | None = optional(1, ApplicationAttemptId)


class FailApplicationAttemptResponse(ProtoMessage):
    """An empty message."""


class GetApplicationsRequest(ProtoMessage):
    """Filters for applications; an empty field does not filter."""

    types: tuple[str, ...] = repeated(1, STRING)
    states: tuple[ApplicationState, ...] = repeated(2, ENUM(ApplicationState))
    users: tuple[str, ...] = repeated(3, STRING)
    queues: tuple[str, ...] = repeated(4, STRING)
    limit: int | None = optional(5, INT64)
    start_begin: int | None = optional(6, INT64)
    start_end: int | None = optional(7, INT64)
    finish_begin: int | None = optional(8, INT64)
    finish_end: int | None = optional(9, INT64)
    tags: tuple[str, ...] = repeated(10, STRING)
    scope: Scope = optional(11, ENUM(Scope), Scope.ALL)
    name: str | None = optional(12, STRING)


class GetApplicationsResponse(ProtoMessage):
    applications: tuple[ApplicationReport, ...] = repeated(1, ApplicationReport)


class GetApplicationAttemptReportRequest(ProtoMessage):
    attempt_id: ApplicationAttemptId | None = optional(1, ApplicationAttemptId)


class GetApplicationAttemptReportResponse(ProtoMessage):
    report: AttemptReport | None = optional(1, AttemptReport)


class GetApplicationAttemptsRequest(ProtoMessage):
    application_id: ApplicationId | None = optional(1, ApplicationId)


class GetApplicationAttemptsResponse(ProtoMessage):
    attempts: tuple[AttemptReport, ...] = repeated(1, AttemptReport)


class GetContainerReportRequest(ProtoMessage):
    container_id: ContainerId | None = optional(1, ContainerId)


class GetContainerReportResponse(ProtoMessage):
    report: ContainerReport | None = optional(1, ContainerReport)


class GetContainersRequest(ProtoMessage):
    """The attempt of the containers. The ResourceManager itself knows only running containers."""

    attempt_id: ApplicationAttemptId | None = optional(1, ApplicationAttemptId)


class GetContainersResponse(ProtoMessage):
    containers: tuple[ContainerReport, ...] = repeated(1, ContainerReport)


class MoveApplicationRequest(ProtoMessage):
    """The application to move, and its new queue."""

    application_id: ApplicationId = required(1, ApplicationId)
    target_queue: str = required(2, STRING)


class MoveApplicationResponse(ProtoMessage):
    """An empty message."""


class UpdateApplicationPriorityRequest(ProtoMessage):
    """The application, and its new priority."""

    application_id: ApplicationId = required(1, ApplicationId)
    priority: Priority = required(2, Priority)


class UpdateApplicationPriorityResponse(ProtoMessage):
    """The effective priority: queues limit it."""

    priority: Priority | None = optional(1, Priority)


class UpdateApplicationTimeoutsRequest(ProtoMessage):
    """The application, and its new timeouts."""

    application_id: ApplicationId = required(1, ApplicationId)
    timeouts: tuple[TimeoutExpiry, ...] = repeated(2, TimeoutExpiry)


class UpdateApplicationTimeoutsResponse(ProtoMessage):
    """The effective timeouts."""

    timeouts: tuple[TimeoutExpiry, ...] = repeated(1, TimeoutExpiry)


class GetClusterNodesRequest(ProtoMessage):
    """The states of the nodes to list; empty for all active nodes."""

    states: tuple[NodeState, ...] = repeated(1, ENUM(NodeState))


class GetClusterNodesResponse(ProtoMessage):
    nodes: tuple[NodeReport, ...] = repeated(1, NodeReport)


class GetClusterMetricsRequest(ProtoMessage):
    """An empty message."""


class GetClusterMetricsResponse(ProtoMessage):
    """Counts of the cluster's nodes by state."""

    metrics: ClusterMetrics | None = optional(1, ClusterMetrics)


class GetQueueInfoRequest(ProtoMessage):
    """The queue, and the details to include."""

    queue: str | None = optional(1, STRING)
    include_applications: bool | None = optional(2, BOOL)
    include_children: bool | None = optional(3, BOOL)
    recursive: bool | None = optional(4, BOOL)


class GetQueueInfoResponse(ProtoMessage):
    queue: QueueInfo | None = optional(1, QueueInfo)


class GetQueueUserAclsRequest(ProtoMessage):
    """An empty message."""


class GetQueueUserAclsResponse(ProtoMessage):
    """The caller's permissions on each queue."""

    queues: tuple[QueueUserAcls, ...] = repeated(1, QueueUserAcls)


class GetClusterNodeLabelsRequest(ProtoMessage):
    """An empty message."""


class GetClusterNodeLabelsResponse(ProtoMessage):
    """The labels of the cluster."""

    old_labels: tuple[str, ...] = repeated(1, STRING)
    labels: tuple[NodeLabel, ...] = repeated(2, NodeLabel)


class GetNodeToLabelsRequest(ProtoMessage):
    """An empty message."""


class GetNodeToLabelsResponse(ProtoMessage):
    """The labels of each node."""

    nodes: tuple[NodeLabels, ...] = repeated(1, NodeLabels)


class GetLabelsToNodesRequest(ProtoMessage):
    """The labels to list nodes of; empty for all."""

    labels: tuple[str, ...] = repeated(1, STRING)


class GetLabelsToNodesResponse(ProtoMessage):
    """The nodes of each label."""

    labels: tuple[LabelNodes, ...] = repeated(1, LabelNodes)


class GetResourceTypesRequest(ProtoMessage):
    """An empty message."""


class GetResourceTypesResponse(ProtoMessage):
    """All resource types of the cluster, including memory and vcores."""

    types: tuple[ResourceTypeInfo, ...] = repeated(1, ResourceTypeInfo)


class NodeAttributeInfo(ProtoMessage):
    """A node attribute of the cluster."""

    key: NodeAttributeKey = required(1, NodeAttributeKey)
    type: NodeAttributeType = required(2, ENUM(NodeAttributeType))


class GetClusterNodeAttributesRequest(ProtoMessage):
    """An empty message."""


class GetClusterNodeAttributesResponse(ProtoMessage):
    """The node attributes of the cluster."""

    attributes: tuple[NodeAttributeInfo, ...] = repeated(1, NodeAttributeInfo)


class SignalContainerRequest(ProtoMessage):
    """The container, and the signal to send to its processes."""

    container_id: ContainerId = required(1, ContainerId)
    command: SignalCommand = required(2, ENUM(SignalCommand))


class SignalContainerResponse(ProtoMessage):
    """An empty message."""


GET_NEW_APPLICATION: Final = Method(
    protocol=PROTOCOL,
    name="getNewApplication",
    request=GetNewApplicationRequest,
    response=GetNewApplicationResponse,
    idempotent=True,
)
SUBMIT_APPLICATION: Final = Method(
    protocol=PROTOCOL,
    name="submitApplication",
    request=SubmitApplicationRequest,
    response=SubmitApplicationResponse,
    idempotent=True,
)
GET_APPLICATION_REPORT: Final = Method(
    protocol=PROTOCOL,
    name="getApplicationReport",
    request=GetApplicationReportRequest,
    response=GetApplicationReportResponse,
    idempotent=True,
)
FORCE_KILL_APPLICATION: Final = Method(
    protocol=PROTOCOL,
    name="forceKillApplication",
    request=KillApplicationRequest,
    response=KillApplicationResponse,
    idempotent=True,
)
FAIL_APPLICATION_ATTEMPT: Final = Method(
    protocol=PROTOCOL,
    name="failApplicationAttempt",
    request=FailApplicationAttemptRequest,
    response=FailApplicationAttemptResponse,
)
GET_APPLICATIONS: Final = Method(
    protocol=PROTOCOL,
    name="getApplications",
    request=GetApplicationsRequest,
    response=GetApplicationsResponse,
    idempotent=True,
)
GET_APPLICATION_ATTEMPT_REPORT: Final = Method(
    protocol=PROTOCOL,
    name="getApplicationAttemptReport",
    request=GetApplicationAttemptReportRequest,
    response=GetApplicationAttemptReportResponse,
    idempotent=True,
)
GET_APPLICATION_ATTEMPTS: Final = Method(
    protocol=PROTOCOL,
    name="getApplicationAttempts",
    request=GetApplicationAttemptsRequest,
    response=GetApplicationAttemptsResponse,
    idempotent=True,
)
GET_CONTAINER_REPORT: Final = Method(
    protocol=PROTOCOL,
    name="getContainerReport",
    request=GetContainerReportRequest,
    response=GetContainerReportResponse,
    idempotent=True,
)
GET_CONTAINERS: Final = Method(
    protocol=PROTOCOL,
    name="getContainers",
    request=GetContainersRequest,
    response=GetContainersResponse,
    idempotent=True,
)
MOVE_APPLICATION: Final = Method(
    protocol=PROTOCOL,
    name="moveApplicationAcrossQueues",
    request=MoveApplicationRequest,
    response=MoveApplicationResponse,
    idempotent=True,
)
UPDATE_APPLICATION_PRIORITY: Final = Method(
    protocol=PROTOCOL,
    name="updateApplicationPriority",
    request=UpdateApplicationPriorityRequest,
    response=UpdateApplicationPriorityResponse,
    idempotent=True,
)
UPDATE_APPLICATION_TIMEOUTS: Final = Method(
    protocol=PROTOCOL,
    name="updateApplicationTimeouts",
    request=UpdateApplicationTimeoutsRequest,
    response=UpdateApplicationTimeoutsResponse,
    idempotent=True,
)
GET_CLUSTER_NODES: Final = Method(
    protocol=PROTOCOL,
    name="getClusterNodes",
    request=GetClusterNodesRequest,
    response=GetClusterNodesResponse,
    idempotent=True,
)
GET_CLUSTER_METRICS: Final = Method(
    protocol=PROTOCOL,
    name="getClusterMetrics",
    request=GetClusterMetricsRequest,
    response=GetClusterMetricsResponse,
    idempotent=True,
)
GET_QUEUE_INFO: Final = Method(
    protocol=PROTOCOL,
    name="getQueueInfo",
    request=GetQueueInfoRequest,
    response=GetQueueInfoResponse,
    idempotent=True,
)
GET_QUEUE_USER_ACLS: Final = Method(
    protocol=PROTOCOL,
    name="getQueueUserAcls",
    request=GetQueueUserAclsRequest,
    response=GetQueueUserAclsResponse,
    idempotent=True,
)
GET_CLUSTER_NODE_LABELS: Final = Method(
    protocol=PROTOCOL,
    name="getClusterNodeLabels",
    request=GetClusterNodeLabelsRequest,
    response=GetClusterNodeLabelsResponse,
    idempotent=True,
)
GET_NODE_TO_LABELS: Final = Method(
    protocol=PROTOCOL,
    name="getNodeToLabels",
    request=GetNodeToLabelsRequest,
    response=GetNodeToLabelsResponse,
    idempotent=True,
)
GET_LABELS_TO_NODES: Final = Method(
    protocol=PROTOCOL,
    name="getLabelsToNodes",
    request=GetLabelsToNodesRequest,
    response=GetLabelsToNodesResponse,
    idempotent=True,
)
GET_RESOURCE_TYPES: Final = Method(
    protocol=PROTOCOL,
    name="getResourceTypeInfo",
    request=GetResourceTypesRequest,
    response=GetResourceTypesResponse,
    idempotent=True,
)
GET_CLUSTER_NODE_ATTRIBUTES: Final = Method(
    protocol=PROTOCOL,
    name="getClusterNodeAttributes",
    request=GetClusterNodeAttributesRequest,
    response=GetClusterNodeAttributesResponse,
    idempotent=True,
)
SIGNAL_CONTAINER: Final = Method(
    protocol=PROTOCOL,
    name="signalToContainer",
    request=SignalContainerRequest,
    response=SignalContainerResponse,
)
GET_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="getDelegationToken",
    request=GetDelegationTokenRequest,
    response=GetDelegationTokenResponse,
    idempotent=True,
)
RENEW_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="renewDelegationToken",
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    idempotent=True,
)
CANCEL_DELEGATION_TOKEN: Final = Method(
    protocol=PROTOCOL,
    name="cancelDelegationToken",
    request=CancelDelegationTokenRequest,
    response=CancelDelegationTokenResponse,
    idempotent=True,
)
