"""ContainerManagementProtocol: calls from the AM to a NodeManager.

Most calls cover several containers. If some of them fail, the call succeeds and lists them in `failed`.
"""

from __future__ import annotations

from typing import Final

from tony.hadoop.wire.proto import ProtoMessage, optional, repeated
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.rpc_method import Method
from tony.hadoop.wire.yarn_records import (
    ContainerId,
    ContainerLaunchContext,
    ContainerStatus,
    SerializedException,
)

PROTOCOL: Final = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB"


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
START_CONTAINERS: Final = Method(
    protocol=PROTOCOL,
    name="startContainers",
    request=StartContainersRequest,
    response=StartContainersResponse,
)
STOP_CONTAINERS: Final = Method(
    protocol=PROTOCOL,
    name="stopContainers",
    request=StopContainersRequest,
    response=StopContainersResponse,
    idempotent=True,
)
GET_CONTAINER_STATUSES: Final = Method(
    protocol=PROTOCOL,
    name="getContainerStatuses",
    request=GetContainerStatusesRequest,
    response=GetContainerStatusesResponse,
    idempotent=True,
)
