"""An application's master and the NodeManagers: start containers, stop them, ask after them.

    nodes = NodeClients(master.node_tokens)
    await nodes.start(container, context)
    for container_id, error in (await nodes.stop(container.node, [container.id])).items(): ...
    await nodes.close()

One connection for each node that is in use, opened when it is needed, with the newest token; any number of calls at
once. Answers about several containers come one by one: that some fail is no failure of the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from tony.hadoop.address import Address
from tony.hadoop.ids import container_text
from tony.hadoop.ipc.connection import IpcConnection, connect
from tony.hadoop.ipc.connection_options import DEFAULTS, ConnectionOptions
from tony.hadoop.ipc.errors import (
    CallTimeout,
    ConnectError,
    ConnectionLost,
    HadoopError,
    NodeManagerNotReadyError,
    RemoteError,
    RetriableError,
    remote_error,
)
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.sasl.quality_of_protection import Protection
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire.application_client import SignalContainerRequest
from tony.hadoop.wire.container_management import (
    GET_CONTAINER_STATUSES,
    PROTOCOL,
    SIGNAL_CONTAINER,
    START_CONTAINERS,
    STOP_CONTAINERS,
    ContainerFailure,
    GetContainerStatusesRequest,
    StartContainerRequest,
    StartContainersRequest,
    StopContainersRequest,
)
from tony.hadoop.wire.method import Method, Request, Response
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    ContainerLaunchContext,
    ContainerStatus,
    NodeId,
    SerializedException,
    SignalCommand,
)
from tony.hadoop.yarn.nm_tokens import NodeTokens

#: What a NodeManager says when a container is started a second time: by its list, and by the token it has seen.
_STARTED_ALREADY: Final = ("already is running on this node", "Attempt to relaunch the same container")
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0

Connector = Callable[..., Coroutine[Any, Any, IpcConnection]]


class NoNodeToken(HadoopError):  # noqa: N818 - a noun reads better where it is raised
    """The ResourceManager gave no token for the node, so no container of ours can be there."""


class _Slot:
    """A node that is in use."""

    __slots__ = ("connection", "lock", "retired", "token", "users")

    def __init__(self) -> None:
        self.connection: IpcConnection | None = None
        self.lock = asyncio.Lock()
        self.token: HadoopToken | None = None
        #: Connections with an old token, on which calls still wait.
        self.retired: list[IpcConnection] = []
        #: Calls that are on their way, or about to be.
        self.users = 0


class NodeClients:
    """All the nodes of an application. For one event loop.

    Args:
        tokens: the newest token of each node, kept up to date by the master's client.
        protections: of the traffic, in order of preference.
        options: of the connections.
        most: connections that stay open; of more, the ones are closed that were not used for longest.
        dialing: connections that are made at once.
        patience: seconds for which a node is sought that cannot be reached; it may be starting.
        connector: makes connections; for tests.
    """

    def __init__(
        self,
        tokens: NodeTokens,
        *,
        protections: tuple[Protection, ...] = (),
        options: ConnectionOptions = DEFAULTS,
        most: int = 256,
        dialing: int = 32,
        patience: float = 10.0,
        connector: Connector = connect,
    ) -> None:
        self._tokens, self._protections, self._options = tokens, protections, options
        self._most, self._patience, self._connector = most, patience, connector
        self._dialing = asyncio.Semaphore(dialing)
        self._slots: OrderedDict[NodeId, _Slot] = OrderedDict()

    # -- calls

    async def start(self, container: Container, context: ContainerLaunchContext) -> None:
        """Starts a container that was granted, within the ten minutes that its token lives.

        Raises:
            RemoteError: the node refused it; the class follows the Java exception.
            NoNodeToken: nothing was granted on that node.
            HadoopError: the node cannot be reached. It may have been started all the same: release it.
        """
        if container.node is None or container.id is None:
            raise ValueError(f"no container of a node: {container}")
        request = StartContainersRequest(requests=(StartContainerRequest(context=context, token=container.token),))
        is_repeated = False
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        while True:
            try:
                answer = await self._call(container.node, START_CONTAINERS, request, until)
                break
            except ConnectionLost:
                # Nobody knows whether it runs. The node does: it starts nothing twice.
                if loop.time() >= until:
                    raise
                is_repeated = True
        for failure in answer.failed:
            error = _error(container.node, "startContainers", failure)
            if not (is_repeated and any(said in error.remote_message for said in _STARTED_ALREADY)):
                raise error

    async def stop(self, node: NodeId, containers: Iterable[ContainerId]) -> dict[ContainerId, HadoopError | None]:
        """Ends containers: SIGTERM, and SIGKILL some 250 ms later. Their exit status will be -105.

        Returns:
            for each the reason why not, or None. Containers that ended before are no failure.

        Raises:
            HadoopError: the node cannot be reached, or refused the whole call.
        """
        wanted = tuple(containers)
        if not wanted:
            return {}
        answer = await self._call(node, STOP_CONTAINERS, StopContainersRequest(container_ids=wanted), self._until())
        return {**dict.fromkeys(wanted), **_errors(node, "stopContainers", answer.failed)}

    async def statuses(
        self, node: NodeId, containers: Iterable[ContainerId]
    ) -> dict[ContainerId, ContainerStatus | HadoopError]:
        """What containers of a node do, or why that is not known.

        Raises:
            HadoopError: the node cannot be reached, or refused the whole call.
        """
        wanted = tuple(containers)
        if not wanted:
            return {}
        request = GetContainerStatusesRequest(container_ids=wanted)
        answer = await self._call(node, GET_CONTAINER_STATUSES, request, self._until())
        found: dict[ContainerId, ContainerStatus | HadoopError] = {}
        found.update(_errors(node, "getContainerStatuses", answer.failed))
        found.update((status.id, status) for status in answer.statuses if status.id is not None)
        return found

    async def signal(self, node: NodeId, container: ContainerId, command: SignalCommand) -> None:
        """Sends the processes of a container a signal.

        Raises:
            HadoopError: the node cannot be reached, or refused.
        """
        request = SignalContainerRequest(container_id=container, command=command)
        await self._call(node, SIGNAL_CONTAINER, request, self._until())

    async def close(self) -> None:
        """Ends all connections."""
        slots, self._slots = self._slots, OrderedDict()
        for slot in slots.values():
            await _hang_up(slot)

    # -- connections

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self._patience

    async def _call(self, node: NodeId, method: Method[Request, Response], request: Request, until: float) -> Response:
        """Calls, and repeats what may be repeated until the time is up."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while True:
            try:
                return await self._ask(node, method, request)
            except (ConnectError, NodeManagerNotReadyError, RetriableError) as error:
                failure: HadoopError = error
            except (ConnectionLost, CallTimeout) as error:
                if not method.idempotent and getattr(error, "maybe_executed", True):
                    raise
                failure = error
            if loop.time() + pause > until:
                raise failure
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _ask(self, node: NodeId, method: Method[Request, Response], request: Request) -> Response:
        slot = self._slots.setdefault(node, _Slot())
        self._slots.move_to_end(node)
        slot.users += 1
        try:
            connection = await self._connected(node, slot)
            return await connection.call(method, request)
        finally:
            slot.users -= 1
            await _close_idle(slot)
            await self._tidy()

    async def _connected(self, node: NodeId, slot: _Slot) -> IpcConnection:
        async with slot.lock:
            token = self._tokens.get(node)
            if token is None:
                raise NoNodeToken(
                    f"no token for node {node}: the ResourceManager gives one with the first container on a node"
                )
            connection = slot.connection
            if connection is not None and connection.is_open and slot.token == token:
                return connection
            async with self._dialing:
                new = await self._connector(
                    Address(host=node.host or "", port=node.port or 0),
                    LoginIdentity.with_token(token, protections=self._protections),
                    protocol=PROTOCOL,
                    options=self._options,
                )
            slot.connection, slot.token = new, token
            if connection is not None:
                slot.retired.append(connection)
            return new

    async def _tidy(self) -> None:
        """Closes connections that were not used for longest, if there are too many."""
        if len(self._slots) <= self._most:
            return
        for node, slot in list(self._slots.items()):
            if len(self._slots) <= self._most:
                return
            if not slot.users:
                del self._slots[node]
                await _hang_up(slot)


async def _hang_up(slot: _Slot) -> None:
    connections = [*slot.retired, *([slot.connection] if slot.connection else [])]
    slot.connection, slot.retired = None, []
    for connection in connections:
        await connection.close()


async def _close_idle(slot: _Slot) -> None:
    idle = [connection for connection in slot.retired if not connection.pending]
    slot.retired = [connection for connection in slot.retired if connection not in idle]
    for connection in idle:
        await connection.close()


def _errors(node: NodeId, method: str, failures: Sequence[ContainerFailure]) -> Mapping[ContainerId, HadoopError]:
    return {
        failure.container_id: _error(node, method, failure) for failure in failures if failure.container_id is not None
    }


def _error(node: NodeId, method: str, failure: ContainerFailure) -> RemoteError:
    exception = failure.exception or SerializedException()
    named = container_text(failure.container_id) if failure.container_id else "a container"
    return remote_error(exception.class_name or "", exception.message or "", where=f"{node} {method} of {named}")
