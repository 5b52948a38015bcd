"""ContainerManagementProtocol: calls from the AM to a NodeManager.

Most calls cover several containers. If some of them fail, the call succeeds and lists them in `failed`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tony.hadoop.wire.application_client import SignalContainerRequest, SignalContainerResponse
from tony.hadoop.wire.method import Method
from tony.hadoop.wire.proto import BOOL, ENUM, STRING, ProtoMessage, optional, repeated
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import (
    BytesPair,
    ContainerId,
    ContainerLaunchContext,
    ContainerStatus,
    NamedLocalResource,
    SerializedException,
)

PROTOCOL: Final = "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB"


class LocalizationState(IntEnum):
    """The state of a file's localization."""

    PENDING = 1
    COMPLETED = 2
    FAILED = 3


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

    services: tuple[BytesPair, ...] = repeated(1, BytesPair)
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


class UpdateContainersRequest(ProtoMessage):
    """The new tokens of changed containers."""

    tokens: tuple[Token, ...] = repeated(1, Token)


class UpdateContainersResponse(ProtoMessage):
    """The containers that were updated, and those that were not."""

    succeeded: tuple[ContainerId, ...] = repeated(1, ContainerId)
    failed: tuple[ContainerFailure, ...] = repeated(2, ContainerFailure)


class LocalizeRequest(ProtoMessage):
    """More files for a running container."""

    container_id: ContainerId | None = optional(1, ContainerId)
    local_resources: tuple[NamedLocalResource, ...] = repeated(2, NamedLocalResource)


class LocalizeResponse(ProtoMessage):
    """An empty message."""


class ReinitializeRequest(ProtoMessage):
    """A new program for a running container."""

    container_id: ContainerId | None = optional(1, ContainerId)
    context: ContainerLaunchContext | None = optional(2, ContainerLaunchContext)
    auto_commit: bool = optional(3, BOOL, True)


class ReinitializeResponse(ProtoMessage):
    """An empty message."""


class RestartResponse(ProtoMessage):
    """An empty message."""


class LocalizationStatus(ProtoMessage):
    """A file of a container."""

    key: str | None = optional(1, STRING)
    state: LocalizationState | None = optional(2, ENUM(LocalizationState))
    diagnostics: str | None = optional(3, STRING)


class ContainerLocalization(ProtoMessage):
    """The files of a container."""

    container_id: ContainerId | None = optional(1, ContainerId)
    statuses: tuple[LocalizationStatus, ...] = repeated(2, LocalizationStatus)


class GetLocalizationStatusesRequest(ProtoMessage):
    container_ids: tuple[ContainerId, ...] = repeated(1, ContainerId)


class GetLocalizationStatusesResponse(ProtoMessage):
    """The files, and the containers that the node does not know."""

    statuses: tuple[ContainerLocalization, ...] = repeated(1, ContainerLocalization)
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
UPDATE_CONTAINERS: Final = Method(
    protocol=PROTOCOL,
    name="updateContainer",
    request=UpdateContainersRequest,
    response=UpdateContainersResponse,
)
SIGNAL_CONTAINER: Final = Method(
    protocol=PROTOCOL,
    name="signalToContainer",
    request=SignalContainerRequest,
    response=SignalContainerResponse,
)
LOCALIZE: Final = Method(
    protocol=PROTOCOL,
    name="localize",
    request=LocalizeRequest,
    response=LocalizeResponse,
)
REINITIALIZE_CONTAINER: Final = Method(
    protocol=PROTOCOL,
    name="reInitializeContainer",
    request=ReinitializeRequest,
    response=ReinitializeResponse,
)
RESTART_CONTAINER: Final = Method(
    protocol=PROTOCOL,
    name="restartContainer",
    request=ContainerId,
    response=RestartResponse,
)
GET_LOCALIZATION_STATUSES: Final = Method(
    protocol=PROTOCOL,
    name="getLocalizationStatuses",
    request=GetLocalizationStatusesRequest,
    response=GetLocalizationStatusesResponse,
    idempotent=True,
)
