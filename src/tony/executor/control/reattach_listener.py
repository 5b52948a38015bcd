"""Listens for a later application master, which may start on any node, unknown to the executor.

The caller must hold the job's token *and* prove by its certificate that it is an application master of this job.
Executors and clients hold the token and a certificate of another name, user programs neither. All that a call can do is
to say where to connect to, and the peer there must prove that name again. Loaded only where messages can leave the
machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tony.errors import InfraError
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Summon
from tony.protocol.hello import PeerKind
from tony.protocol.launch import LaunchContext
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done
from tony.rpc.am_address import TlsAddress, is_callable, parse
from tony.rpc.connection import RpcConnection
from tony.rpc.server import HandshakeLimits, RpcServer
from tony.rpc.sockets import EVERYWHERE

log = logging.getLogger(__name__)

#: There is one application master, at times two. A new connection replaces the oldest unrecognized one.
_LIMITS = HandshakeLimits(timeout_seconds=5.0, max_unauthenticated=8, max_unrecognized=32, min_age_seconds=0.0)
#: Upper bound of AM attempts. A scheduler gives up after a few.
_MAX_AM_ATTEMPTS = 10**6


class ReattachListener:
    """The executor's own server, for application masters only.

    Args:
        accept: gets the reattach request; returns True if the executor accepts it.
    """

    def __init__(self, context: LaunchContext, accept: Callable[[Summon], bool]) -> None:
        self._host = context.container.host
        self._accept = accept
        self._server = RpcServer(
            context.credentials,
            self,
            limits=_LIMITS,
            guests=frozenset({PeerKind.MASTER}),
        )

    async def open(self) -> str:
        """Start to listen; return the address to call, or an empty string if listening is impossible."""
        failures = []
        for place in _listen_addresses(self._host):
            try:
                real = parse(await self._server.listen(str(TlsAddress(host=place, port=0))))
            except InfraError as error:
                failures.append(str(error))
                continue
            assert isinstance(real, TlsAddress)
            return str(TlsAddress(host=self._host, port=real.port))
        log.warning("cannot listen for a later AM attempt: %s", "; ".join(failures))
        return ""

    async def close(self) -> None:
        await self._server.close()

    # --- callbacks of the server ----------------------------------------------------------------------------------

    def on_connected(self, connection: RpcConnection) -> None:
        """Do nothing: an AM has authenticated, and sends the first message."""

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        """Answer a reattach request; one per connection."""
        if not isinstance(message, Summon) or not is_valid(message):
            connection.refuse(Code.BAD_MESSAGE, "an executor accepts only reattach requests")
        elif self._accept(message):
            connection.send(Done())
            connection.close()
        else:
            connection.refuse(Code.SUPERSEDED, f"AM attempt {message.attempt} is older than one already accepted")

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        """Do nothing."""


def is_valid(summon: Summon) -> bool:
    """Return True if a reattach request is valid: an AM attempt from 1 on and a TLS address."""
    return is_callable(summon.address) and 1 <= summon.attempt <= _MAX_AM_ATTEMPTS


def _listen_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses to listen on: all, since a name may mean any, but only loopback for a loopback host."""
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return (host,)
    return EVERYWHERE, "0.0.0.0"
