"""The two sides of a connection: what the one who listens and the one who connects do differently."""

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
    """How far a connection is. It only goes down this list."""

    SECURING = "securing"  #: TLS handshake
    GREETING = "greeting"  #: hello and answer
    OPEN = "open"  #: messages
    CLOSING = "closing"  #: we are done; what still comes is thrown away
    CLOSED = "closed"  #: nothing there any more


class HandshakeSide(ABC):
    """What differs between the one who listens and the one who connects. Called by `RpcConnection` only."""

    #: Bytes that the other side's half of the greeting has.
    greeting_size: int
    #: Largest frame that comes in, and that may go out.
    limit_in: int
    limit_out: int

    @abstractmethod
    def began(self, connection: RpcConnection) -> None:
        """There is a transport."""

    def may_secure(self, connection: RpcConnection, data: memoryview) -> bool:
        """Return False to leave a TLS handshake, of which bytes have arrived, as it is until the connection ends."""
        return True

    @abstractmethod
    def greeting(self) -> bytes:
        """What to send once the connection is secure."""

    @abstractmethod
    def greeted(self, connection: RpcConnection, data: bytes) -> tuple[PeerKind, bytes]:
        """Judges the other side's half; answers which kind of peer is at the connecting end, and what to send.

        Raises:
            ProtocolError: the connection ends, after `refusal` of it was sent.
        """

    @abstractmethod
    def refusal(self, error: ProtocolError) -> bytes:
        """What to send before the end when `greeted` refused; may be nothing."""

    @abstractmethod
    def opened(self, connection: RpcConnection) -> None:
        """Messages may be sent from now on."""

    @abstractmethod
    def received(self, connection: RpcConnection, message: Message) -> None:
        """A message came."""

    @abstractmethod
    async def take(self, connection: RpcConnection) -> Message | None:
        """The next message that waits; None at the end."""

    @abstractmethod
    def ended(self, connection: RpcConnection) -> None:
        """Nothing more will be received; `connection.error` says why. `closed` follows."""

    @abstractmethod
    def closed(self, connection: RpcConnection, was: Phase) -> None:
        """It is gone, whether or not it had been opened; `was` is the phase in which its end began."""
