"""ApplicationClientProtocol, calls from clients to the ResourceManager (port 8032), and its records."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tony.hadoop.wire.proto import BOOL, ENUM, FLOAT, INT32, INT64, STRING, ProtoMessage, optional, repeated, required
from tony.hadoop.wire.rpc import Method, Token
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    ContainerLaunchContext,
    FinalStatus,
    LogAggregationContext,
    NodeReport,
    NodeState,
    Priority,
    Resource,
    ResourceRequest,
    ResourceTypeInfo,
)

PROTOCOL: Final = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"


class ApplicationState(IntEnum):
    """The state of an application; the last three are final."""

    NEW = 1
    NEW_SAVING = 2
    SUBMITTED = 3
    ACCEPTED = 4
    RUNNING = 5
    FINISHED = 6
    FAILED = 7
    KILLED = 8


class LogAggregationStatus(IntEnum):
    """The progress of aggregating an application's logs into the file system."""

    DISABLED = 1
    NOT_STARTED = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    TIME_OUT = 6
    RUNNING_WITH_FAILURE = 7


class QueueState(IntEnum):
    """The state of a queue; stopped and draining queues accept no applications."""

    STOPPED = 1
    RUNNING = 2
    DRAINING = 3


class TimeoutType(IntEnum):
    """The kind of an application timeout; YARN has only the lifetime since submission."""

    LIFETIME = 1


class TimeoutSeconds(ProtoMessage):
    """A timeout given at submission, in seconds."""

    type: TimeoutType | None = optional(1, ENUM(TimeoutType))
    timeout: int | None = optional(2, INT64)


class ApplicationSubmissionContext(ProtoMessage):
    """The description of a submitted application. `am_requests` takes precedence over `resource`."""

    application_id: ApplicationId | None = optional(1, ApplicationId)
    name: str | None = optional(2, STRING)
    queue: str | None = optional(3, STRING)
    priority: Priority | None = optional(4, Priority)
    am_container: ContainerLaunchContext | None = optional(5, ContainerLaunchContext)
    cancel_tokens_when_complete: bool = optional(6, BOOL, True)
    unmanaged_am: bool = optional(7, BOOL, False)
    max_attempts: int = optional(8, INT32, 0)
    resource: Resource | None = optional(9, Resource)
    application_type: str | None = optional(10, STRING)
    keep_containers: bool = optional(11, BOOL, False)
    tags: tuple[str, ...] = repeated(12, STRING)
    attempt_failures_validity_interval: int = optional(13, INT64, -1)
    log_aggregation: LogAggregationContext | None = optional(14, LogAggregationContext)
    node_label_expression: str | None = optional(16, STRING)
    am_requests: tuple[ResourceRequest, ...] = repeated(17, ResourceRequest)
    timeouts: tuple[TimeoutSeconds, ...] = repeated(18, TimeoutSeconds)


class ApplicationReport(ProtoMessage):
    """The ResourceManager's report of an application."""

    id: ApplicationId | None = optional(1, ApplicationId)
    user: str | None = optional(2, STRING)
    queue: str | None = optional(3, STRING)
    name: str | None = optional(4, STRING)
    host: str | None = optional(5, STRING)
    rpc_port: int | None = optional(6, INT32)
    state: ApplicationState | None = optional(8, ENUM(ApplicationState))
    tracking_url: str | None = optional(9, STRING)
    diagnostics: str = optional(10, STRING, "N/A")
    start_time: int | None = optional(11, INT64)
    finish_time: int | None = optional(12, INT64)
    final_status: FinalStatus | None = optional(13, ENUM(FinalStatus))
    original_tracking_url: str | None = optional(15, STRING)
    current_attempt: ApplicationAttemptId | None = optional(16, ApplicationAttemptId)
    application_type: str | None = optional(18, STRING)
    am_rm_token: Token | None = optional(19, Token)
    tags: tuple[str, ...] = repeated(20, STRING)
    log_aggregation_status: LogAggregationStatus | None = optional(21, ENUM(LogAggregationStatus))
    launch_time: int | None = optional(27, INT64)
    submit_time: int | None = optional(28, INT64)


class QueueConfiguration(ProtoMessage):
    """A queue's share of the nodes of a label."""

    absolute_max_capacity: float | None = optional(4, FLOAT)
    effective_max_capacity: Resource | None = optional(7, Resource)


class QueueConfigurationEntry(ProtoMessage):
    """A queue's share, keyed by label; the empty label means nodes without one."""

    label: str = required(1, STRING)
    configuration: QueueConfiguration | None = optional(2, QueueConfiguration)


class QueueInfo(ProtoMessage):
    """A queue. Capacities are fractions (0 to 1) of the parent's capacity."""

    name: str | None = optional(1, STRING)
    capacity: float | None = optional(2, FLOAT)
    state: QueueState | None = optional(5, ENUM(QueueState))
    children: tuple[QueueInfo, ...] = repeated(6, lambda: QueueInfo)
    accessible_node_labels: tuple[str, ...] = repeated(8, STRING)
    default_node_label_expression: str | None = optional(9, STRING)
    configurations: tuple[QueueConfigurationEntry, ...] = repeated(12, QueueConfigurationEntry)
    path: str | None = optional(15, STRING)
    scheduler_type: str | None = optional(17, STRING)


class NodeLabel(ProtoMessage):
    """A node label. Nodes with an exclusive label run only containers requested with that label."""

    name: str | None = optional(1, STRING)
    exclusive: bool = optional(2, BOOL, True)


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
    """True once the application is killed; repeat the call until then."""

    completed: bool = optional(1, BOOL, False)


class GetApplicationsRequest(ProtoMessage):
    """Filters for applications; an empty field does not filter."""

    types: tuple[str, ...] = repeated(1, STRING)
    states: tuple[ApplicationState, ...] = repeated(2, ENUM(ApplicationState))


class GetApplicationsResponse(ProtoMessage):
    applications: tuple[ApplicationReport, ...] = repeated(1, ApplicationReport)


class GetClusterNodesRequest(ProtoMessage):
    """The states of the nodes to list; empty for all active nodes."""

    states: tuple[NodeState, ...] = repeated(1, ENUM(NodeState))


class GetClusterNodesResponse(ProtoMessage):
    nodes: tuple[NodeReport, ...] = repeated(1, NodeReport)


class GetQueueInfoRequest(ProtoMessage):
    """The queue, and the details to include."""

    queue: str | None = optional(1, STRING)
    include_children: bool | None = optional(3, BOOL)
    recursive: bool | None = optional(4, BOOL)


class GetQueueInfoResponse(ProtoMessage):
    queue: QueueInfo | None = optional(1, QueueInfo)


class GetClusterNodeLabelsRequest(ProtoMessage):
    """An empty message."""


class GetClusterNodeLabelsResponse(ProtoMessage):
    """The labels of the cluster."""

    old_labels: tuple[str, ...] = repeated(1, STRING)
    labels: tuple[NodeLabel, ...] = repeated(2, NodeLabel)


class GetResourceTypesRequest(ProtoMessage):
    """An empty message."""


class GetResourceTypesResponse(ProtoMessage):
    """All resource types of the cluster, including memory and vcores."""

    types: tuple[ResourceTypeInfo, ...] = repeated(1, ResourceTypeInfo)


GET_NEW_APPLICATION: Final = Method(
    PROTOCOL, "getNewApplication", GetNewApplicationRequest, GetNewApplicationResponse, idempotent=True
)
SUBMIT_APPLICATION: Final = Method(
    PROTOCOL, "submitApplication", SubmitApplicationRequest, SubmitApplicationResponse, idempotent=True
)
GET_APPLICATION_REPORT: Final = Method(
    PROTOCOL, "getApplicationReport", GetApplicationReportRequest, GetApplicationReportResponse, idempotent=True
)
FORCE_KILL_APPLICATION: Final = Method(
    PROTOCOL, "forceKillApplication", KillApplicationRequest, KillApplicationResponse, idempotent=True
)
GET_APPLICATIONS: Final = Method(
    PROTOCOL, "getApplications", GetApplicationsRequest, GetApplicationsResponse, idempotent=True
)
GET_CLUSTER_NODES: Final = Method(
    PROTOCOL, "getClusterNodes", GetClusterNodesRequest, GetClusterNodesResponse, idempotent=True
)
GET_QUEUE_INFO: Final = Method(PROTOCOL, "getQueueInfo", GetQueueInfoRequest, GetQueueInfoResponse, idempotent=True)
GET_CLUSTER_NODE_LABELS: Final = Method(
    PROTOCOL, "getClusterNodeLabels", GetClusterNodeLabelsRequest, GetClusterNodeLabelsResponse, idempotent=True
)
GET_RESOURCE_TYPES: Final = Method(
    PROTOCOL, "getResourceTypeInfo", GetResourceTypesRequest, GetResourceTypesResponse, idempotent=True
)
