"""YARN's records that more than one protocol uses (package `hadoop.yarn`).

Facts: hadoop-yarn-api's yarn_protos.proto, 3.4; older peers know fewer of the fields, with the same numbers. The
Python names differ from the Java ones. Memory is in MiB; times are milliseconds (since 1970, or durations), as in YARN.
"""

from __future__ import annotations

from enum import IntEnum

from tony.hadoop.wire.proto import (
    BOOL,
    BYTES,
    ENUM,
    INT32,
    INT64,
    STRING,
    UINT32,
    ProtoMessage,
    optional,
    repeated,
    required,
)
from tony.hadoop.wire.rpc import Token


class ExecutionType(IntEnum):
    """Guaranteed containers start at once; opportunistic ones wait at the node until there is room."""

    GUARANTEED = 1
    OPPORTUNISTIC = 2


class ContainerState(IntEnum):
    """The state of a container."""

    NEW = 1
    RUNNING = 2
    COMPLETE = 3


class NodeState(IntEnum):
    """The state of a node in the ResourceManager."""

    NEW = 1
    RUNNING = 2
    UNHEALTHY = 3
    DECOMMISSIONED = 4
    LOST = 5
    REBOOTED = 6
    DECOMMISSIONING = 7
    SHUTDOWN = 8


class FinalStatus(IntEnum):
    """The final status that the AM reported."""

    UNDEFINED = 0
    SUCCEEDED = 1
    FAILED = 2
    KILLED = 3
    ENDED = 4


class LocalResourceType(IntEnum):
    """The kind of a local resource. Archives are unpacked into a folder; the file name extension selects the format."""

    ARCHIVE = 1
    FILE = 2
    PATTERN = 3


class LocalResourceVisibility(IntEnum):
    """Sharing of a node's copy: by all users, by the user's applications, or by the application's containers."""

    PUBLIC = 1
    PRIVATE = 2
    APPLICATION = 3


class AccessType(IntEnum):
    """The permission that an application ACL grants."""

    VIEW = 1
    MODIFY = 2


class ResourceKind(IntEnum):
    """The kind of a resource; YARN has only countable resources."""

    COUNTABLE = 0


class ApplicationId(ProtoMessage):
    """An application id: a sequence number and the start time of the ResourceManager that issued it."""

    number: int | None = optional(1, INT32)
    cluster_timestamp: int | None = optional(2, INT64)


class ApplicationAttemptId(ProtoMessage):
    """The id of an application attempt."""

    application: ApplicationId | None = optional(1, ApplicationId)
    number: int | None = optional(2, INT32)


class ContainerId(ProtoMessage):
    """A container id: the upper 24 bits of `number` count ResourceManager restarts, the lower 40 are a sequence.

    The sequence starts again after a restart, so only the whole id is unique.
    """

    application: ApplicationId | None = optional(1, ApplicationId)
    attempt: ApplicationAttemptId | None = optional(2, ApplicationAttemptId)
    number: int | None = optional(3, INT64)


class NodeId(ProtoMessage):
    """A NodeManager: its host and the port of its RPC server. The host name is as the ResourceManager resolved it."""

    host: str | None = optional(1, STRING)
    port: int | None = optional(2, INT32)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Priority(ProtoMessage):
    """A priority. For containers lower numbers come first, for applications higher numbers."""

    priority: int | None = optional(1, INT32)


class StringPair(ProtoMessage):
    """An entry of a map from text to text."""

    key: str | None = optional(1, STRING)
    value: str | None = optional(2, STRING)


class ResourceValue(ProtoMessage):
    """An amount of a named resource, such as `yarn.io/gpu`. Units are "", k, M, G, Ki, Mi, Gi and so on."""

    name: str = required(1, STRING)
    value: int | None = optional(2, INT64)
    units: str | None = optional(3, STRING)
    kind: ResourceKind | None = optional(4, ENUM(ResourceKind))


class Resource(ProtoMessage):
    """Amounts of all resource types. Receivers ignore entries of `others` for memory and vcores."""

    memory: int | None = optional(1, INT64)
    vcores: int | None = optional(2, INT32)
    others: tuple[ResourceValue, ...] = repeated(3, ResourceValue)

    def amounts(self) -> dict[str, int]:
        """Return the amounts by name: memory in MiB as `memory-mb`, cores as `vcores`, others in their own units."""
        named = {other.name: other.value or 0 for other in self.others if other.name not in ("memory-mb", "vcores")}
        return {"memory-mb": self.memory or 0, "vcores": self.vcores or 0, **named}


class ResourceTypeInfo(ProtoMessage):
    """A resource type of the cluster."""

    name: str = required(1, STRING)
    units: str | None = optional(2, STRING)


class Container(ProtoMessage):
    """A granted container. `token` authorizes its start on the node; it expires after ten minutes."""

    id: ContainerId | None = optional(1, ContainerId)
    node: NodeId | None = optional(2, NodeId)
    resource: Resource | None = optional(4, Resource)
    priority: Priority | None = optional(5, Priority)
    token: Token | None = optional(6, Token)
    allocation_request_id: int = optional(8, INT64, -1)
    allocation_tags: tuple[str, ...] = repeated(10, STRING)


class YarnExitStatus(IntEnum):
    """The reason why YARN ended a container (`ContainerExitStatus`).

    A status of 0 or more is the exit code of the container's command, in shell notation: 137 is SIGKILL, 143 SIGTERM;
    YARN itself sends both.
    """

    #: Not ended yet, or never started because its files could not be fetched.
    INVALID = -1000
    #: Released by its AM, left by a dead attempt, or on a node that was lost.
    ABORTED = -100
    #: The node's disks failed.
    DISKS_FAILED = -101
    #: Preempted by the scheduler.
    PREEMPTED = -102
    #: Exceeded the virtual memory that the node allows for the requested memory.
    KILLED_EXCEEDED_VMEM = -103
    #: Exceeded the requested physical memory.
    KILLED_EXCEEDED_PMEM = -104
    #: Stopped by its AM.
    KILLED_BY_APPMASTER = -105
    #: Killed by the ResourceManager, for example when a lost node came back or the attempt ended.
    KILLED_BY_RESOURCEMANAGER = -106
    #: The application had ended.
    KILLED_AFTER_APP_COMPLETION = -107
    #: Killed by the node's container scheduler to make room (opportunistic containers).
    KILLED_BY_CONTAINER_SCHEDULER = -108
    #: Wrote more logs than the node allows.
    KILLED_FOR_EXCESS_LOGS = -109


#: Statuses not caused by the program: the same command may succeed elsewhere.
NOT_THE_PROGRAM = frozenset(
    {
        YarnExitStatus.ABORTED,
        YarnExitStatus.DISKS_FAILED,
        YarnExitStatus.PREEMPTED,
        YarnExitStatus.KILLED_BY_RESOURCEMANAGER,
        YarnExitStatus.KILLED_BY_CONTAINER_SCHEDULER,
    }
)


def exit_status(status: int) -> YarnExitStatus | None:
    """Return the YARN status, or None if it is a program's exit code or unknown."""
    try:
        return YarnExitStatus(status)
    except ValueError:
        return None


class ContainerStatus(ProtoMessage):
    """The status of a container. Exit codes below zero are YARN's own."""

    id: ContainerId | None = optional(1, ContainerId)
    state: ContainerState | None = optional(2, ENUM(ContainerState))
    diagnostics: str = optional(3, STRING, "N/A")
    exit_status: int = optional(4, INT32, YarnExitStatus.INVALID)
    execution_type: ExecutionType = optional(6, ENUM(ExecutionType), ExecutionType.GUARANTEED)


class Url(ProtoMessage):
    """The location of a file. For `hdfs://name/path` without port the port is -1."""

    scheme: str | None = optional(1, STRING)
    host: str | None = optional(2, STRING)
    port: int | None = optional(3, INT32)
    file: str | None = optional(4, STRING)


class LocalResource(ProtoMessage):
    """A file that the NodeManager localizes for a container. Size and timestamp must exactly match the file."""

    resource: Url | None = optional(1, Url)
    size: int | None = optional(2, INT64)
    timestamp: int | None = optional(3, INT64)
    type: LocalResourceType | None = optional(4, ENUM(LocalResourceType))
    visibility: LocalResourceVisibility | None = optional(5, ENUM(LocalResourceVisibility))


class NamedLocalResource(ProtoMessage):
    """A local resource, keyed by the name of its link in the container's working directory."""

    key: str | None = optional(1, STRING)
    value: LocalResource | None = optional(2, LocalResource)


class ApplicationAcl(ProtoMessage):
    """The users and groups that may view or modify: `user1,user2 group1,group2`, or `*`."""

    access: AccessType | None = optional(1, ENUM(AccessType))
    acl: str = optional(2, STRING, " ")


class ContainerLaunchContext(ProtoMessage):
    """The program of a container. Variables in `environment` are visible in the logs: put secrets into `tokens`.

    The commands are joined by spaces and placed inside double quotes in a bash script.
    """

    local_resources: tuple[NamedLocalResource, ...] = repeated(1, NamedLocalResource)
    tokens: bytes | None = optional(2, BYTES)
    environment: tuple[StringPair, ...] = repeated(4, StringPair)
    commands: tuple[str, ...] = repeated(5, STRING)
    acls: tuple[ApplicationAcl, ...] = repeated(6, ApplicationAcl)


class LogAggregationContext(ProtoMessage):
    """Patterns (Java regular expressions) of the container log files to aggregate."""

    include: str = optional(1, STRING, ".*")
    exclude: str = optional(2, STRING, "")
    rolled_include: str = optional(3, STRING, "")
    rolled_exclude: str = optional(4, STRING, ".*")


class SerializedException(ProtoMessage):
    """A Java exception inside a response."""

    message: str | None = optional(1, STRING)
    class_name: str | None = optional(3, STRING)
    cause: SerializedException | None = optional(4, lambda: SerializedException)


class ExecutionTypeRequest(ProtoMessage):
    """The requested execution type, and whether it is mandatory."""

    execution_type: ExecutionType = optional(1, ENUM(ExecutionType), ExecutionType.GUARANTEED)
    enforce: bool = optional(2, BOOL, False)


class ResourceRequest(ProtoMessage):
    """The total number of containers requested at a location: a host, a rack, or `*`."""

    priority: Priority | None = optional(1, Priority)
    resource_name: str | None = optional(2, STRING)
    capability: Resource | None = optional(3, Resource)
    num_containers: int | None = optional(4, INT32)
    relax_locality: bool = optional(5, BOOL, True)
    node_label_expression: str | None = optional(6, STRING)
    execution_type: ExecutionTypeRequest | None = optional(7, ExecutionTypeRequest)
    allocation_request_id: int = optional(8, INT64, -1)


class NodeReport(ProtoMessage):
    """The ResourceManager's report of a node."""

    id: NodeId | None = optional(1, NodeId)
    http_address: str | None = optional(2, STRING)
    rack: str | None = optional(3, STRING)
    used: Resource | None = optional(4, Resource)
    capability: Resource | None = optional(5, Resource)
    num_containers: int | None = optional(6, INT32)
    state: NodeState | None = optional(7, ENUM(NodeState))
    health_report: str | None = optional(8, STRING)
    labels: tuple[str, ...] = repeated(10, STRING)
    decommissioning_timeout: int | None = optional(13, UINT32)
