"""Tunnels from clients to ports and remote programs of tasks: a client's connection, joined with an executor's.

Bytes are forwarded unchanged. If one side does not read, the other side is not read either, so its sender waits: a
tunnel needs two open files and at most some 200 KiB in each direction. Other messages use the executors' ordinary
connections, so no transfer delays them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from tony import clock
from tony.am.open_file_limit import raise_tunnel_limit
from tony.model.ids import TaskId
from tony.protocol.error_codes import Code
from tony.protocol.framing import Raw
from tony.protocol.message_base import Message
from tony.protocol.tunnel_messages import (
    DialTunnel,
    EndTunnel,
    JoinTunnel,
    OpenTunnel,
    TunnelFailed,
    TunnelOpened,
    TunnelTaken,
)
from tony.rpc.connection import RpcConnection

log = logging.getLogger(__name__)

#: Seconds that an executor may take: it tries the port on two addresses, and connects to the AM.
TIMEOUT_SECONDS = 30.0
#: Maximum characters of short and long texts of an executor.
_MAX_WORD_CHARACTERS = 100
_MAX_SENTENCE_CHARACTERS = 1000
#: What a tunnel to a port carries in either direction.
_PORT_MESSAGES = (Raw, EndTunnel, TunnelTaken)


@dataclass(slots=True, eq=False)
class _Tunnel:
    """One tunnel, open or being opened.

    Attributes:
        secret_id: by which the executor joins it.
        from_client, from_executor: the messages that it carries.
        requested_at: when (`clock.monotonic`).
        executor: the executor's connection; None until there is one.
    """

    secret_id: str
    task: TaskId
    client: RpcConnection
    from_client: tuple[type[Message], ...]
    from_executor: tuple[type[Message], ...]
    requested_at: float
    executor: RpcConnection | None = None

    def find_other_end(self, end: RpcConnection) -> RpcConnection | None:
        """Return the other end."""
        return self.executor if end is self.client else self.client

    def may_carry(self, end: RpcConnection, message: Message) -> bool:
        """Return True if an end may send a message."""
        return isinstance(message, self.from_client if end is self.client else self.from_executor)


class TunnelBroker:
    """All tunnels of a job.

    Args:
        send: sends to a task's executor; returns False if none is connected.
        most: returns how many tunnels may be open besides the connections of a number of executors.
        timeout: seconds that an executor may take.
    """

    def __init__(
        self,
        send: Callable[[TaskId, Message], bool],
        tasks: Collection[TaskId],
        most: Callable[[int], int] = raise_tunnel_limit,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._send = send
        self._tasks = tasks
        self._most = most
        self._timeout = timeout
        self._by_connection: dict[RpcConnection, _Tunnel] = {}
        self._waiting: dict[str, _Tunnel] = {}
        self._all: set[_Tunnel] = set()
        self._held_up: dict[RpcConnection, bool] = {}

    def __len__(self) -> int:
        return len(self._all)

    # --- from the wire --------------------------------------------------------------------------------------------

    def open(self, client: RpcConnection, message: OpenTunnel) -> None:
        """Handle a client's request for a tunnel to a port."""
        if not 0 <= message.port < 2**16:
            client.send(TunnelFailed(reason=f"there is no port {message.port}"))
            return
        port = message.port
        self.request(
            client,
            message.task,
            lambda secret_id: DialTunnel(tunnel=secret_id, port=port),
            _PORT_MESSAGES,
            _PORT_MESSAGES,
        )

    def request(
        self,
        client: RpcConnection,
        task: TaskId,
        build_request: Callable[[str], Message],
        from_client: tuple[type[Message], ...],
        from_executor: tuple[type[Message], ...],
    ) -> None:
        """Have a task's executor join a client's connection, or answer the client why not.

        Args:
            build_request: returns the message to the executor, for a secret id.
            from_client, from_executor: the messages that the tunnel carries.
        """
        is_used = client in self._by_connection
        reason = "this connection is a tunnel already" if is_used else self.explain_refusal(task)
        if reason:
            client.send(TunnelFailed(reason=reason))
            return
        secret_id = os.urandom(16).hex()
        tunnel = _Tunnel(secret_id, task, client, from_client, from_executor, clock.monotonic())
        self._by_connection[client] = self._waiting[secret_id] = tunnel
        self._all.add(tunnel)
        if not self._send(task, build_request(secret_id)):
            self._fail(tunnel, f"the executor of {task} is not connected")

    def join(self, connection: RpcConnection, message: JoinTunnel) -> None:
        """Join the connection of an executor that has reached the port, or started the program."""
        tunnel = self._waiting.pop(message.tunnel, None)
        if tunnel is None:
            connection.refuse(Code.STALE, "this tunnel is not expected")
            return
        log.debug("a tunnel of %s to %s of %s", tunnel.client.peer, message.address[:_MAX_WORD_CHARACTERS], tunnel.task)
        tunnel.executor = connection
        self._by_connection[connection] = tunnel
        tunnel.client.send(TunnelOpened(address=message.address[:_MAX_WORD_CHARACTERS]))

    def on_failed(self, task: TaskId, message: TunnelFailed) -> None:
        """Handle that an executor could not reach the port, or start the program."""
        tunnel = self._waiting.get(message.tunnel)
        if tunnel and tunnel.task == task:
            self._fail(tunnel, message.reason[:_MAX_SENTENCE_CHARACTERS], message.exit_code)

    def carry(self, end: RpcConnection, message: Message) -> bool:
        """Forward a message of a tunnel's connection; return False if it belongs to no tunnel."""
        tunnel = self._by_connection.get(end)
        if tunnel is None:
            return False
        other = tunnel.find_other_end(end)
        if other is None or not tunnel.may_carry(end, message):
            end.refuse(Code.BAD_MESSAGE, f"a tunnel may not carry {message.kind}")
            return True
        if isinstance(message, Raw):
            other.send_frame(message.frame)
        else:
            other.send(message)
        if other.is_full and end not in self._held_up:
            self._held_up[end] = False
            end.pause_reading()
            other.call_when_drained(partial(self._resume_reading, end))
        return True

    def on_closed(self, end: RpcConnection) -> None:
        """Close the other end of a tunnel whose connection was closed."""
        tunnel = self._by_connection.get(end)
        if tunnel:
            self._forget(tunnel)
            other = tunnel.find_other_end(end)
            if other:
                other.close()

    # --- from the AM ----------------------------------------------------------------------------------------------

    def explain_refusal(self, task: TaskId) -> str:
        """Return why there can be no further tunnel to a task; empty if there can be one."""
        if task not in self._tasks:
            return f"the job has no task {task}"
        if len(self._all) >= (most := self._most(len(self._tasks))):
            return f"{len(self._all)} tunnels of this job are open already; the maximum is {most}"
        return ""

    def on_executor_lost(self, task: TaskId) -> None:
        """Handle that an executor will not come back."""
        for tunnel in [each for each in self._all if each.task == task]:
            if tunnel.executor is None:
                self._fail(tunnel, f"the executor of {task} has exited")
            else:
                tunnel.executor.abort(reset=True)

    def check(self) -> None:
        """Fail tunnels that were not opened in time, and abort those whose peer has hung up. Call it often."""
        now = clock.monotonic()
        for tunnel in [each for each in self._waiting.values() if now - each.requested_at > self._timeout]:
            self._fail(tunnel, f"the executor of {tunnel.task} does not answer")
        for end, before in list(self._held_up.items()):
            self._held_up[end] = end.hung_up
            if before and self._held_up[end]:
                end.abort()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _resume_reading(self, end: RpcConnection) -> None:
        if self._held_up.pop(end, None) is not None:
            end.resume_reading()

    def _fail(self, tunnel: _Tunnel, reason: str, exit_code: int = 0) -> None:
        self._forget(tunnel)
        tunnel.client.send(TunnelFailed(reason=reason, exit_code=exit_code))

    def _forget(self, tunnel: _Tunnel) -> None:
        self._all.discard(tunnel)
        self._waiting.pop(tunnel.secret_id, None)
        for end in (tunnel.client, tunnel.executor):
            if end:
                self._by_connection.pop(end, None)
                self._held_up.pop(end, None)
