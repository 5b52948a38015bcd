"""A fake NodeManager whose containers run no processes.

manager = FakeNodeManager(tokens=resource_manager.node_tokens)
async with manager.server:
    ...nodes.start(container, context) with container.node == manager.node...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.support.hadoop.ipc_server import Auth, FakeIpcServer, Incoming
from tony.hadoop.ids import format_container, parse_container_id
from tony.hadoop.wire.application_master import (
    GET_CONTAINER_STATUSES,
    START_CONTAINERS,
    STOP_CONTAINERS,
    ContainerFailure,
    GetContainerStatusesRequest,
    GetContainerStatusesResponse,
    StartContainersRequest,
    StartContainersResponse,
    StopContainersRequest,
    StopContainersResponse,
)
from tony.hadoop.wire.yarn_records import (
    ContainerId,
    ContainerLaunchContext,
    ContainerState,
    ContainerStatus,
    NodeId,
    SerializedException,
)

_YARN: Final = "org.apache.hadoop.yarn.exceptions."


class FakeNodeManager:
    """One node. It takes a container's id from its token, as the real one does.

    Args:
        tokens: that AMs must present: identifier -> password.
        ends: called with each stopped container and its exit status, such as `FakeResourceManager.complete`.

    Attributes:
        server: the port; its `order` injects faults.
        running: running container -> launch context.
        ended: ended container -> exit status.
        refusals: container -> error that `startContainers` returns for it.
    """

    def __init__(
        self, tokens: Mapping[bytes, bytes], ends: Callable[[ContainerId, int], object] = lambda container, status: None
    ) -> None:
        self._ends = ends
        self.server = FakeIpcServer(auths=(Auth.TOKEN,), tokens=tokens)
        self.server.on(START_CONTAINERS, self._start)
        self.server.on(STOP_CONTAINERS, self._stop)
        self.server.on(GET_CONTAINER_STATUSES, self._statuses)
        self.running: dict[str, ContainerLaunchContext] = {}
        self.ended: dict[str, int] = {}
        self.refusals: dict[str, str] = {}

    @property
    def node(self) -> NodeId:
        """The node's id, once it listens."""
        return NodeId(host=self.server.address.host, port=self.server.address.port)

    def _start(self, request: StartContainersRequest, call: Incoming) -> StartContainersResponse:
        succeeded, failed = [], []
        for each in request.requests:
            name = each.token.identifier.decode() if each.token else ""
            if name in self.refusals:
                failed.append(_failure(name, self.refusals[name]))
            elif name in self.running:
                failed.append(_failure(name, f"Container {name} already is running on this node!!"))
            else:
                self.running[name] = each.context or ContainerLaunchContext()
                succeeded.append(parse_container_id(name))
        return StartContainersResponse(succeeded=tuple(succeeded), failed=tuple(failed))

    def _stop(self, request: StopContainersRequest, call: Incoming) -> StopContainersResponse:
        succeeded, failed = [], []
        for each in request.container_ids:
            name = format_container(each)
            if self.running.pop(name, None) is not None:
                self.ended[name] = -105
                self._ends(each, -105)
            if name in self.ended:
                succeeded.append(each)
            else:
                failed.append(_failure(name, f"Container {name} is not handled by this NodeManager"))
        return StopContainersResponse(succeeded=tuple(succeeded), failed=tuple(failed))

    def _statuses(self, request: GetContainerStatusesRequest, call: Incoming) -> GetContainerStatusesResponse:
        statuses, failed = [], []
        for each in request.container_ids:
            name = format_container(each)
            if name in self.running:
                statuses.append(ContainerStatus(id=each, state=ContainerState.RUNNING))
            elif name in self.ended:
                status = self.ended[name]
                statuses.append(ContainerStatus(id=each, state=ContainerState.COMPLETE, exit_status=status))
            else:
                failed.append(_failure(name, f"Container {name} is not handled by this NodeManager"))
        return GetContainerStatusesResponse(statuses=tuple(statuses), failed=tuple(failed))


def _failure(name: str, message: str) -> ContainerFailure:
    known: ContainerId = parse_container_id(name)
    exception = SerializedException(class_name=f"{_YARN}YarnException", message=message)
    return ContainerFailure(container_id=known, exception=exception)
