"""The AM's protocols: ApplicationMasterProtocol (ResourceManager, port 8030), ContainerManagementProtocol (nodes).

Most calls to a node cover several containers. If some of them fail, the call succeeds and lists them in `failed`.
"""

from __future__ import annotations

from typing import Final

from tony.hadoop.wire.placement import RejectedRequest, SchedulingRequest
from tony.hadoop.wire.proto import BOOL, ENUM, INT32, STRING, ProtoMessage, optional, repeated
from tony.hadoop.wire.rpc import Method, Token
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    ContainerLaunchContext,
    ContainerStatus,
    FinalStatus,
    NodeId,
    NodeReport,
    ResourceRequest,
    ResourceTypeInfo,
    SerializedException,
)

MASTER_PROTOCOL: Final = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB"
CONTAINER_PROTOCOL: Final = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB"


class RegisterRequest(ProtoMessage):
    """The address of the AM. The URL may be `host:port`; empty means none."""

    host: str | None = optional(1, STRING)
    rpc_port: int | None = optional(2, INT32)
    tracking_url: str | None = optional(3, STRING)


class NodeToken(ProtoMessage):
    """The token with which the AM authenticates to a NodeManager."""

    node: NodeId | None = optional(1, NodeId)
    token: Token | None = optional(2, Token)


class RegisterResponse(ProtoMessage):
    """The cluster's resource types, and the containers that earlier attempts left running."""

    previous_containers: tuple[Container, ...] = repeated(4, Container)
    queue: str | None = optional(5, STRING)
    previous_node_tokens: tuple[NodeToken, ...] = repeated(6, NodeToken)
    resource_types: tuple[ResourceTypeInfo, ...] = repeated(9, ResourceTypeInfo)


class Blacklist(ProtoMessage):
    """Changes to the list of hosts (or racks) excluded for this application."""

    additions: tuple[str, ...] = repeated(1, STRING)
    removals: tuple[str, ...] = repeated(2, STRING)


class AllocateRequest(ProtoMessage):
    """The heartbeat, with all changes since the last one. Container requests are totals."""

    asks: tuple[ResourceRequest, ...] = repeated(1, ResourceRequest)
    releases: tuple[ContainerId, ...] = repeated(2, ContainerId)
    blacklist: Blacklist | None = optional(3, Blacklist)
    response_id: int | None = optional(4, INT32)
    scheduling_requests: tuple[SchedulingRequest, ...] = repeated(10, SchedulingRequest)


class PreemptedContainer(ProtoMessage):
    """A container selected for preemption."""

    id: ContainerId | None = optional(1, ContainerId)


class StrictPreemption(ProtoMessage):
    """Containers that will be killed."""

    containers: tuple[PreemptedContainer, ...] = repeated(1, PreemptedContainer)


class NegotiablePreemption(ProtoMessage):
    """Resources to release, and the containers that are killed otherwise."""

    containers: tuple[PreemptedContainer, ...] = repeated(2, PreemptedContainer)


class Preemption(ProtoMessage):
    """A preemption notice of the scheduler."""

    strict: StrictPreemption | None = optional(1, StrictPreemption)
    negotiable: NegotiablePreemption | None = optional(2, NegotiablePreemption)


class AllocateResponse(ProtoMessage):
    """Events since the last heartbeat."""

    response_id: int | None = optional(2, INT32)
    allocated: tuple[Container, ...] = repeated(3, Container)
    completed: tuple[ContainerStatus, ...] = repeated(4, ContainerStatus)
    updated_nodes: tuple[NodeReport, ...] = repeated(6, NodeReport)
    num_cluster_nodes: int | None = optional(7, INT32)
    preemption: Preemption | None = optional(8, Preemption)
    node_tokens: tuple[NodeToken, ...] = repeated(9, NodeToken)
    am_rm_token: Token | None = optional(12, Token)
    previous_containers: tuple[Container, ...] = repeated(17, Container)
    rejected: tuple[RejectedRequest, ...] = repeated(18, RejectedRequest)


class FinishRequest(ProtoMessage):
    """The final status and the URL of the application's history."""

    diagnostics: str | None = optional(1, STRING)
    tracking_url: str | None = optional(2, STRING)
    final_status: FinalStatus | None = optional(3, ENUM(FinalStatus))


class FinishResponse(ProtoMessage):
    """True once the AM is unregistered; repeat the call until then."""

    unregistered: bool = optional(1, BOOL, False)


REGISTER: Final = Method(
    MASTER_PROTOCOL, "registerApplicationMaster", RegisterRequest, RegisterResponse, idempotent=True
)
#: Safe to repeat because of the response id.
ALLOCATE: Final = Method(MASTER_PROTOCOL, "allocate", AllocateRequest, AllocateResponse, idempotent=True)
FINISH: Final = Method(MASTER_PROTOCOL, "finishApplicationMaster", FinishRequest, FinishResponse, idempotent=True)


class ContainerFailure(ProtoMessage):
    """A container for which the call failed."""

    container_id: ContainerId | None = optional(1, ContainerId)
    exception: SerializedException | None = optional(2, SerializedException)


class StartContainerRequest(ProtoMessage):
    """The launch context, and the token that came with the container."""

    context: ContainerLaunchContext | None = optional(1, ContainerLaunchContext)
    token: Token | None = optional(2, Token)


class StartContainersRequest(ProtoMessage):
    requests: tuple[StartContainerRequest, ...] = repeated(1, StartContainerRequest)


class StartContainersResponse(ProtoMessage):
    """The containers that were started, and those that were not."""

    succeeded: tuple[ContainerId, ...] = repeated(2, ContainerId)
    failed: tuple[ContainerFailure, ...] = repeated(3, ContainerFailure)


class StopContainersRequest(ProtoMessage):
    container_ids: tuple[ContainerId, ...] = repeated(1, ContainerId)


class StopContainersResponse(ProtoMessage):
    """The containers that were stopped, and those that were not."""

    succeeded: tuple[ContainerId, ...] = repeated(1, ContainerId)
    failed: tuple[ContainerFailure, ...] = repeated(2, ContainerFailure)


class GetContainerStatusesRequest(ProtoMessage):
    container_ids: tuple[ContainerId, ...] = repeated(1, ContainerId)


class GetContainerStatusesResponse(ProtoMessage):
    """The statuses, and the containers that the node does not know."""

    statuses: tuple[ContainerStatus, ...] = repeated(1, ContainerStatus)
    failed: tuple[ContainerFailure, ...] = repeated(2, ContainerFailure)


#: Not idempotent: a repeated call fails with "already started".
START_CONTAINERS: Final = Method(CONTAINER_PROTOCOL, "startContainers", StartContainersRequest, StartContainersResponse)
STOP_CONTAINERS: Final = Method(
    CONTAINER_PROTOCOL, "stopContainers", StopContainersRequest, StopContainersResponse, idempotent=True
)
GET_CONTAINER_STATUSES: Final = Method(
    CONTAINER_PROTOCOL,
    "getContainerStatuses",
    GetContainerStatusesRequest,
    GetContainerStatusesResponse,
    idempotent=True,
)
