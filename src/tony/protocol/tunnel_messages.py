"""Tunnels to a port of a task: from a client through the application master to an executor."""

from __future__ import annotations

from typing import ClassVar

from tony.model.value_class import value_class
from tony.protocol.messages import Message, register


@value_class
class OpenTunnel(Message):
    """From a client: turn this connection into a tunnel to a port of a task.

    Answered by `TunnelOpened` or `TunnelFailed`. After `TunnelOpened` the connection carries bytes (`framing.Raw`) both
    ways, `EndTunnel` and `TunnelTaken`, and nothing else; after `TunnelFailed` it may be requested again. If the
    connection ends before both sides have sent `TunnelTaken`, the tunnel broke.

    Attributes:
        task: `worker:0`.
        port: 0 for the one that was reserved for it: its TB_PORT, or else the one in the cluster spec.
    """

    kind: ClassVar[str] = "open-tunnel"
    task: str
    port: int = 0


@value_class
class DialTunnel(Message):
    """To an executor: connect to that port on its host, and join it on a new connection with `JoinTunnel`.

    Attributes:
        tunnel: a secret id.
        port: as of `OpenTunnel`.
    """

    kind: ClassVar[str] = "dial-tunnel"
    tunnel: str
    port: int


@value_class
class JoinTunnel(Message):
    """First message of an executor's additional connection, which becomes its end of a tunnel.

    Attributes:
        address: the address it is connected to, `127.0.0.1:8888`.
    """

    kind: ClassVar[str] = "join-tunnel"
    tunnel: str
    address: str


@value_class
class TunnelOpened(Message):
    """To a client: the tunnel is open.

    Attributes:
        address: of `JoinTunnel`.
    """

    kind: ClassVar[str] = "tunnel-opened"
    address: str


@value_class
class TunnelFailed(Message):
    """The tunnel could not be opened: from an executor on its ordinary connection, or to a client.

    Attributes:
        tunnel: the executor's; empty for clients.
        reason: for users.
    """

    kind: ClassVar[str] = "tunnel-failed"
    reason: str
    tunnel: str = ""


@value_class
class EndTunnel(Message):
    """No more bytes follow in this direction; the other direction continues."""

    kind: ClassVar[str] = "end-tunnel"


@value_class
class TunnelTaken(Message):
    """Answer to `EndTunnel`: all bytes before it were delivered, and their end."""

    kind: ClassVar[str] = "tunnel-taken"


register(
    OpenTunnel,
    DialTunnel,
    JoinTunnel,
    TunnelOpened,
    TunnelFailed,
    EndTunnel,
    TunnelTaken,
)
