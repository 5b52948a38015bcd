"""ApplicationClientProtocol: calls from clients to the ResourceManager, port 8032."""

from __future__ import annotations

from typing import Final

from tony.hadoop.wire.proto import BOOL, ENUM, STRING, ProtoMessage, optional, repeated
from tony.hadoop.wire.reports import (
    ApplicationReport,
    ApplicationState,
    ApplicationSubmissionContext,
    NodeLabel,
    QueueInfo,
)
from tony.hadoop.wire.rpc_method import Method
from tony.hadoop.wire.yarn_records import (
    ApplicationId,
    NodeReport,
    NodeState,
    Resource,
    ResourceTypeInfo,
)

PROTOCOL: Final = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"


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
GET_APPLICATIONS: Final = Method(
    protocol=PROTOCOL,
    name="getApplications",
    request=GetApplicationsRequest,
    response=GetApplicationsResponse,
    idempotent=True,
)
GET_CLUSTER_NODES: Final = Method(
    protocol=PROTOCOL,
    name="getClusterNodes",
    request=GetClusterNodesRequest,
    response=GetClusterNodesResponse,
    idempotent=True,
)
GET_QUEUE_INFO: Final = Method(
    protocol=PROTOCOL,
    name="getQueueInfo",
    request=GetQueueInfoRequest,
    response=GetQueueInfoResponse,
    idempotent=True,
)
GET_CLUSTER_NODE_LABELS: Final = Method(
    protocol=PROTOCOL,
    name="getClusterNodeLabels",
    request=GetClusterNodeLabelsRequest,
    response=GetClusterNodeLabelsResponse,
    idempotent=True,
)
GET_RESOURCE_TYPES: Final = Method(
    protocol=PROTOCOL,
    name="getResourceTypeInfo",
    request=GetResourceTypesRequest,
    response=GetResourceTypesResponse,
    idempotent=True,
)
