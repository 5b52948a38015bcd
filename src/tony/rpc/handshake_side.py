"""The listening and the connecting side of a handshake."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING

from tony.errors import ProtocolError
from tony.protocol.hello import PeerKind
from tony.protocol.messages import Message

if TYPE_CHECKING:
    from tony.rpc.connection import RpcConnection


class Phase(Enum):
    """The phase of a connection. It only moves down this list."""

    SECURING = "securing"  #: TLS handshake
    GREETING = "greeting"  #: hello and answer
    OPEN = "open"  #: messages
    CLOSING = "closing"  #: this side is done; further data is discarded
    CLOSED = "closed"  #: the socket is closed


class HandshakeSide(ABC):
    """Differences between the listening and the connecting side. Called by `RpcConnection` only."""

    #: Size of the other side's greeting in bytes.
    greeting_size: int
    #: Maximum bytes of incoming and outgoing frames.
    limit_in: int
    limit_out: int

    @abstractmethod
    def on_transport(self, connection: RpcConnection) -> None:
        """Handle a new transport."""

    def may_secure(self, connection: RpcConnection, data: memoryview) -> bool:
        """Return False to leave a TLS handshake, of which bytes have arrived, unanswered until the connection ends."""
        return True

    @abstractmethod
    def build_greeting(self) -> bytes:
        """Return what to send once the connection is secure."""

    @abstractmethod
    def on_greeting(self, connection: RpcConnection, data: bytes) -> tuple[PeerKind, bytes]:
        """Check the other side's greeting; return the kind of the connecting peer, and what to send.

        Raises:
            ProtocolError: the connection ends, after `refusal` of it was sent.
        """

    @abstractmethod
    def build_refusal(self, error: ProtocolError) -> bytes:
        """Return what to send when `greeted` refused; may be empty."""

    @abstractmethod
    def on_open(self, connection: RpcConnection) -> None:
        """Handle that messages may be sent from now on."""

    @abstractmethod
    def on_message(self, connection: RpcConnection, message: Message) -> None:
        """Handle a message."""

    @abstractmethod
    async def take(self, connection: RpcConnection) -> Message | None:
        """Return the next queued message; None at the end."""

    @abstractmethod
    def on_end(self, connection: RpcConnection) -> None:
        """Handle that nothing more will be received; `connection.error` says why. `closed` follows."""

    @abstractmethod
    def on_closed(self, connection: RpcConnection, was: Phase) -> None:
        """Handle the end of a connection, opened or not; `was` is the phase in which its end began."""
