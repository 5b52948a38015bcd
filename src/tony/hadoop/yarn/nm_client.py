"""The AM's client of the NodeManagers: start containers, stop them, query their status.

    nodes = NodeClients(master.node_tokens)
    await nodes.start(container, context)
    for container_id, error in (await nodes.stop(container.node, [container.id])).items(): ...
    await nodes.close()

One connection per node in use, opened on demand with the newest token; calls may run concurrently. Calls for several
containers return a result for each: a failure of one does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tony.address import Address
from tony.hadoop.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    HadoopError,
    NodeManagerNotReadyError,
    RemoteError,
    RetriableError,
    build_remote_error,
)
from tony.hadoop.ids import format_container
from tony.hadoop.ipc.connection import IpcConnection, connect
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.ipc.tcp_connection import DEFAULTS, ConnectionOptions
from tony.hadoop.sasl.digest_layers import Protection
from tony.hadoop.wire.application_master import (
    CONTAINER_PROTOCOL,
    GET_CONTAINER_STATUSES,
    START_CONTAINERS,
    STOP_CONTAINERS,
    ContainerFailure,
    GetContainerStatusesRequest,
    StartContainerRequest,
    StartContainersRequest,
    StopContainersRequest,
)
from tony.hadoop.wire.rpc import Method, Request, Response, Token
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    ContainerLaunchContext,
    ContainerStatus,
    NodeId,
    SerializedException,
)
from tony.retry import Backoff

#: Messages of a NodeManager when a container is started twice: it is running, or its token was already used.
_ALREADY_STARTED_TEXTS: Final = ("already is running on this node", "Attempt to relaunch the same container")
_BACKOFF: Final = Backoff(first=0.1, most=1.0)
#: Simultaneous connection attempts.
_MAX_DIALING = 32


class MissingNodeTokenError(HadoopError):
    """The ResourceManager issued no token for the node, so this application has no container there."""


class _Slot:
    """The connection to a node, and its calls."""

    __slots__ = ("connection", "lock", "retired", "token", "users")

    def __init__(self) -> None:
        self.connection: IpcConnection | None = None
        self.lock = asyncio.Lock()
        self.token: Token | None = None
        #: Connections with an old token that still have calls in flight.
        self.retired: list[IpcConnection] = []
        #: Calls in flight or about to start.
        self.users = 0


class NodeClients:
    """The client of all nodes of an application. Use it in one event loop.

    Args:
        tokens: newest token of each node, kept up to date by `MasterClient`.
        protections: SASL protection levels, in order of preference.
        most: maximum number of open connections; the least recently used ones are closed first.
        timeout: seconds to retry an unreachable node, which may be starting.
    """

    def __init__(
        self,
        tokens: Mapping[NodeId, Token],
        *,
        protections: tuple[Protection, ...] = (),
        options: ConnectionOptions = DEFAULTS,
        most: int = 256,
        timeout: float = 10.0,
    ) -> None:
        self._tokens, self._protections, self._options = tokens, protections, options
        self._most, self._timeout = most, timeout
        self._dialing = asyncio.Semaphore(_MAX_DIALING)
        self._slots: OrderedDict[NodeId, _Slot] = OrderedDict()

    # -- calls

    async def start(self, container: Container, context: ContainerLaunchContext) -> None:
        """Start a granted container; its token expires after ten minutes.

        Raises:
            RemoteError: the node refused; the class depends on the Java exception.
            MissingNodeTokenError: no container was granted on that node.
            HadoopError: the node cannot be reached. The container may have been started: release it.
        """
        if container.node is None or container.id is None:
            raise ValueError(f"no container of a node: {container}")
        request = StartContainersRequest(requests=(StartContainerRequest(context=context, token=container.token),))
        is_repeated = False
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timeout
        while True:
            try:
                answer = await self._call(container.node, START_CONTAINERS, request, until)
                break
            except ConnectionLostError:
                # The outcome is unknown; repeating is safe, because the node starts no container twice.
                if loop.time() >= until:
                    raise
                is_repeated = True
        for failure in answer.failed:
            error = _error(container.node, "startContainers", failure)
            if not (is_repeated and any(message in error.remote_message for message in _ALREADY_STARTED_TEXTS)):
                raise error

    async def stop(self, node: NodeId, containers: Iterable[ContainerId]) -> dict[ContainerId, HadoopError | None]:
        """Stop containers: SIGTERM, and SIGKILL about 250 ms later. Their exit status will be -105.

        Returns:
            the error of each container, or None if it was stopped or had already ended.

        Raises:
            HadoopError: the node cannot be reached, or refused the whole call.
        """
        container_ids = tuple(containers)
        if not container_ids:
            return {}
        answer = await self._call(
            node, STOP_CONTAINERS, StopContainersRequest(container_ids=container_ids), self._compute_deadline()
        )
        return {**dict.fromkeys(container_ids), **_errors(node, "stopContainers", answer.failed)}

    async def fetch_statuses(
        self, node: NodeId, containers: Iterable[ContainerId]
    ) -> dict[ContainerId, ContainerStatus | HadoopError]:
        """Return the status of each container of a node, or the error why it is unknown.

        Raises:
            HadoopError: the node cannot be reached, or refused the whole call.
        """
        container_ids = tuple(containers)
        if not container_ids:
            return {}
        request = GetContainerStatusesRequest(container_ids=container_ids)
        answer = await self._call(node, GET_CONTAINER_STATUSES, request, self._compute_deadline())
        found: dict[ContainerId, ContainerStatus | HadoopError] = {}
        found.update(_errors(node, "getContainerStatuses", answer.failed))
        found.update((status.id, status) for status in answer.statuses if status.id is not None)
        return found

    async def close(self) -> None:
        """Close all connections."""
        slots, self._slots = self._slots, OrderedDict()
        for slot in slots.values():
            await _hang_up(slot)

    # -- connections

    def _compute_deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._timeout

    async def _call(self, node: NodeId, method: Method[Request, Response], request: Request, until: float) -> Response:
        """Call a method, repeating it if that is safe until the deadline."""
        loop, pauses = asyncio.get_running_loop(), iter(_BACKOFF)
        while True:
            try:
                return await self._ask(node, method, request)
            except (ConnectError, NodeManagerNotReadyError, RetriableError) as error:
                failure: HadoopError = error
            except (ConnectionLostError, CallTimeoutError) as error:
                if not method.idempotent and getattr(error, "maybe_executed", True):
                    raise
                failure = error
            pause = next(pauses)
            if loop.time() + pause > until:
                raise failure
            await asyncio.sleep(pause)

    async def _ask(self, node: NodeId, method: Method[Request, Response], request: Request) -> Response:
        slot = self._slots.setdefault(node, _Slot())
        self._slots.move_to_end(node)
        slot.users += 1
        try:
            connection = await self._connect(node, slot)
            return await connection.call(method, request)
        finally:
            slot.users -= 1
            await _close_idle(slot)
            await self._tidy()

    async def _connect(self, node: NodeId, slot: _Slot) -> IpcConnection:
        async with slot.lock:
            token = self._tokens.get(node)
            if token is None:
                raise MissingNodeTokenError(
                    f"no token for node {node}: the ResourceManager issues one with the first container on a node"
                )
            connection = slot.connection
            if connection is not None and connection.is_open and slot.token == token:
                return connection
            async with self._dialing:
                new = await connect(
                    Address(host=node.host or "", port=node.port or 0),
                    LoginIdentity(token=token, protections=self._protections),
                    protocol=CONTAINER_PROTOCOL,
                    options=self._options,
                )
            slot.connection, slot.token = new, token
            if connection is not None:
                slot.retired.append(connection)
            return new

    async def _tidy(self) -> None:
        """Close the least recently used connections if there are too many."""
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
    named = format_container(failure.container_id) if failure.container_id else "a container"
    return build_remote_error(exception.class_name or "", exception.message or "", where=f"{node} {method} of {named}")
