"""What the ResourceManager reports to clients, and what they submit (package `hadoop.yarn`)."""

from __future__ import annotations

from enum import IntEnum

from tony.hadoop.wire.proto import BOOL, ENUM, FLOAT, INT32, INT64, STRING, ProtoMessage, optional, repeated, required
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import (
    ApplicationAttemptId,
    ApplicationId,
    ContainerLaunchContext,
    FinalStatus,
    LogAggregationContext,
    Priority,
    Resource,
    ResourceRequest,
    StringPair,
)


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


class ReservationId(ProtoMessage):
    """The id of a reservation of future cluster capacity."""

    number: int | None = optional(1, INT64)
    cluster_timestamp: int | None = optional(2, INT64)


class TimeoutSeconds(ProtoMessage):
    """A timeout given at submission, in seconds."""

    type: TimeoutType | None = optional(1, ENUM(TimeoutType))
    timeout: int | None = optional(2, INT64)


class ApplicationTimeout(ProtoMessage):
    """A timeout in a report: the expiry time in ISO 8601, and the remaining seconds."""

    type: TimeoutType = required(1, ENUM(TimeoutType))
    expire_time: str | None = optional(2, STRING)
    remaining_time: int | None = optional(3, INT64)


class ApplicationTimeoutEntry(ProtoMessage):
    """A timeout of a report, keyed by its type."""

    type: TimeoutType | None = optional(1, ENUM(TimeoutType))
    timeout: ApplicationTimeout | None = optional(2, ApplicationTimeout)


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
    reservation_id: ReservationId | None = optional(15, ReservationId)
    node_label_expression: str | None = optional(16, STRING)
    am_requests: tuple[ResourceRequest, ...] = repeated(17, ResourceRequest)
    timeouts: tuple[TimeoutSeconds, ...] = repeated(18, TimeoutSeconds)
    scheduling_properties: tuple[StringPair, ...] = repeated(19, StringPair)


class ResourceUsage(ProtoMessage):
    """The current and accumulated resource usage of an application."""

    num_used_containers: int | None = optional(1, INT32)
    num_reserved_containers: int | None = optional(2, INT32)
    used: Resource | None = optional(3, Resource)
    reserved: Resource | None = optional(4, Resource)
    needed: Resource | None = optional(5, Resource)
    memory_seconds: int | None = optional(6, INT64)
    vcore_seconds: int | None = optional(7, INT64)
    queue_usage_percentage: float | None = optional(8, FLOAT)
    cluster_usage_percentage: float | None = optional(9, FLOAT)
    preempted_memory_seconds: int | None = optional(10, INT64)
    preempted_vcore_seconds: int | None = optional(11, INT64)


class ApplicationReport(ProtoMessage):
    """The ResourceManager's report of an application."""

    id: ApplicationId | None = optional(1, ApplicationId)
    user: str | None = optional(2, STRING)
    queue: str | None = optional(3, STRING)
    name: str | None = optional(4, STRING)
    host: str | None = optional(5, STRING)
    rpc_port: int | None = optional(6, INT32)
    client_to_am_token: Token | None = optional(7, Token)
    state: ApplicationState | None = optional(8, ENUM(ApplicationState))
    tracking_url: str | None = optional(9, STRING)
    diagnostics: str = optional(10, STRING, "N/A")
    start_time: int | None = optional(11, INT64)
    finish_time: int | None = optional(12, INT64)
    final_status: FinalStatus | None = optional(13, ENUM(FinalStatus))
    usage: ResourceUsage | None = optional(14, ResourceUsage)
    original_tracking_url: str | None = optional(15, STRING)
    current_attempt: ApplicationAttemptId | None = optional(16, ApplicationAttemptId)
    progress: float | None = optional(17, FLOAT)
    application_type: str | None = optional(18, STRING)
    am_rm_token: Token | None = optional(19, Token)
    tags: tuple[str, ...] = repeated(20, STRING)
    log_aggregation_status: LogAggregationStatus | None = optional(21, ENUM(LogAggregationStatus))
    unmanaged: bool = optional(22, BOOL, False)
    priority: Priority | None = optional(23, Priority)
    node_label_expression: str | None = optional(24, STRING)
    am_node_label_expression: str | None = optional(25, STRING)
    timeouts: tuple[ApplicationTimeoutEntry, ...] = repeated(26, ApplicationTimeoutEntry)
    launch_time: int | None = optional(27, INT64)
    submit_time: int | None = optional(28, INT64)


class QueueStatistics(ProtoMessage):
    """Statistics of a queue."""

    apps_submitted: int | None = optional(1, INT64)
    apps_running: int | None = optional(2, INT64)
    apps_pending: int | None = optional(3, INT64)
    apps_completed: int | None = optional(4, INT64)
    apps_killed: int | None = optional(5, INT64)
    apps_failed: int | None = optional(6, INT64)
    active_users: int | None = optional(7, INT64)
    available_memory: int | None = optional(8, INT64)
    allocated_memory: int | None = optional(9, INT64)
    pending_memory: int | None = optional(10, INT64)
    reserved_memory: int | None = optional(11, INT64)
    available_vcores: int | None = optional(12, INT64)
    allocated_vcores: int | None = optional(13, INT64)
    pending_vcores: int | None = optional(14, INT64)
    reserved_vcores: int | None = optional(15, INT64)
    allocated_containers: int | None = optional(16, INT64)
    pending_containers: int | None = optional(17, INT64)
    reserved_containers: int | None = optional(18, INT64)


class QueueConfiguration(ProtoMessage):
    """A queue's share of the nodes of a label."""

    capacity: float | None = optional(1, FLOAT)
    absolute_capacity: float | None = optional(2, FLOAT)
    max_capacity: float | None = optional(3, FLOAT)
    absolute_max_capacity: float | None = optional(4, FLOAT)
    max_am_percentage: float | None = optional(5, FLOAT)
    effective_min_capacity: Resource | None = optional(6, Resource)
    effective_max_capacity: Resource | None = optional(7, Resource)
    configured_min_capacity: Resource | None = optional(8, Resource)
    configured_max_capacity: Resource | None = optional(9, Resource)


class QueueConfigurationEntry(ProtoMessage):
    """A queue's share, keyed by label; the empty label stands for nodes without one."""

    label: str = required(1, STRING)
    configuration: QueueConfiguration | None = optional(2, QueueConfiguration)


class QueueInfo(ProtoMessage):
    """A queue. Capacities are fractions (0 to 1) of the parent's capacity."""

    name: str | None = optional(1, STRING)
    capacity: float | None = optional(2, FLOAT)
    maximum_capacity: float | None = optional(3, FLOAT)
    current_capacity: float | None = optional(4, FLOAT)
    state: QueueState | None = optional(5, ENUM(QueueState))
    children: tuple[QueueInfo, ...] = repeated(6, lambda: QueueInfo)
    applications: tuple[ApplicationReport, ...] = repeated(7, ApplicationReport)
    accessible_node_labels: tuple[str, ...] = repeated(8, STRING)
    default_node_label_expression: str | None = optional(9, STRING)
    statistics: QueueStatistics | None = optional(10, QueueStatistics)
    preemption_disabled: bool | None = optional(11, BOOL)
    configurations: tuple[QueueConfigurationEntry, ...] = repeated(12, QueueConfigurationEntry)
    path: str | None = optional(15, STRING)
    max_parallel_applications: int | None = optional(16, INT32)
    scheduler_type: str | None = optional(17, STRING)


class NodeLabel(ProtoMessage):
    """A node label. Nodes with an exclusive label run only containers requested with that label."""

    name: str | None = optional(1, STRING)
    exclusive: bool = optional(2, BOOL, True)
