"""Tunnels to a port of a task: from a client through the application master to an executor."""

from __future__ import annotations

from tony.model.ids import TaskId
from tony.model.value_class import value_class
from tony.protocol.message_base import Message


@value_class
class OpenTunnel(Message, kind="open-tunnel"):
    """From a client: turn this connection into a tunnel to a port of a task.

    Answered by `TunnelOpened` or `TunnelFailed`. After `TunnelOpened` the connection carries bytes (`framing.Raw`) both
    ways, `EndTunnel` and `TunnelTaken`, and nothing else; after `TunnelFailed` it may be requested again. If the
    connection ends before both sides have sent `TunnelTaken`, the tunnel broke.

    Attributes:
        port: 0 for the one that was reserved for it: its TB_PORT, or else the one in the cluster spec.
    """

    task: TaskId
    port: int = 0


@value_class
class DialTunnel(Message, kind="dial-tunnel"):
    """To an executor: connect to that port on its host, and join it on a new connection with `JoinTunnel`.

    Attributes:
        tunnel: a secret id.
        port: as of `OpenTunnel`.
    """

    tunnel: str
    port: int


@value_class
class JoinTunnel(Message, kind="join-tunnel"):
    """First message of an executor's additional connection, which becomes its end of a tunnel.

    Attributes:
        address: the address it is connected to, `127.0.0.1:8888`.
    """

    tunnel: str
    address: str


@value_class
class TunnelOpened(Message, kind="tunnel-opened"):
    """To a client: the tunnel is open.

    Attributes:
        address: of `JoinTunnel`.
    """

    address: str


@value_class
class TunnelFailed(Message, kind="tunnel-failed"):
    """The tunnel could not be opened: from an executor on its ordinary connection, or to a client.

    Attributes:
        tunnel: the executor's; empty for clients.
        reason: for users.
        exit_code: of a remote program that could not be started, as a shell has it: 126 or 127; else 0.
    """

    reason: str
    tunnel: str = ""
    exit_code: int = 0


@value_class
class EndTunnel(Message, kind="end-tunnel"):
    """No more bytes follow in this direction; the other direction continues."""


@value_class
class TunnelTaken(Message, kind="tunnel-taken"):
    """Answer to `EndTunnel`: all bytes before it were delivered, and their end."""
