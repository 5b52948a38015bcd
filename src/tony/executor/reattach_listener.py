"""Where a later application master can call: it comes up on any node, and an executor cannot know on which.

Whoever calls must hold the job's token *and* prove by its certificate that it is an application master of this job.
Executors and clients hold the token and another name, user programs neither; and all that a call can say is where to
connect to, where whoever answers must prove that name again. Loaded only where messages can leave the machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tony.errors import InfraError
from tony.protocol.error_codes import Code
from tony.protocol.hello import PeerKind
from tony.protocol.launch import LaunchContext
from tony.protocol.messages import Done, Message, Summon
from tony.rpc.am_address import TlsAddress, is_callable, parse
from tony.rpc.connection import RpcConnection
from tony.rpc.server import RpcServer
from tony.rpc.sockets import EVERYWHERE

log = logging.getLogger(__name__)

#: Callers at one time that have not proved who they are: there is one application master, at times two.
_MOST_STRANGERS = 8
#: Callers at one time that do not show the job's tag. A new one takes the place of the oldest.
_MAX_UNRECOGNIZED = 32
#: Seconds that each of them has for it.
_PATIENCE = 5.0
#: Lives of an application master. A scheduler gives up after a few.
_MOST_ATTEMPTS = 10**6


class ReattachListener:
    """The executor's own door, for application masters only.

    Args:
        obey: is told who calls from where; answers whether we come.
    """

    def __init__(self, context: LaunchContext, obey: Callable[[Summon], bool]) -> None:
        self._host = context.container.host
        self._obey = obey
        self._server = RpcServer(
            context.credentials,
            self,
            handshake_timeout=_PATIENCE,
            most_strangers=_MOST_STRANGERS,
            max_unrecognized=_MAX_UNRECOGNIZED,
            min_age_to_drop=0.0,
            guests=frozenset({PeerKind.MASTER}),
        )

    async def open(self) -> str:
        """Begins to listen; answers where we can be called, or nothing if that cannot be."""
        failures = []
        for place in _places(self._host):
            try:
                real = parse(await self._server.listen(str(TlsAddress(host=place, port=0))))
            except InfraError as error:
                failures.append(str(error))
                continue
            assert isinstance(real, TlsAddress)
            return str(TlsAddress(host=self._host, port=real.port))
        log.warning("a later application master cannot call us: %s", "; ".join(failures))
        return ""

    async def close(self) -> None:
        """Listens no more."""
        await self._server.close()

    # --- what the server tells us ---------------------------------------------------------------------------------

    def connected(self, connection: RpcConnection) -> None:
        """An application master has proved itself. It speaks first."""

    def received(self, connection: RpcConnection, message: Message) -> None:
        """It says where it is. One call, one answer."""
        if not isinstance(message, Summon) or not is_sound(message):
            connection.refuse(Code.BAD_MESSAGE, "an executor can be told where its application master is, nothing else")
        elif self._obey(message):
            connection.send(Done())
            connection.close()
        else:
            connection.refuse(Code.SUPERSEDED, f"attempt {message.attempt} is not the latest that has been obeyed here")

    def closed(self, connection: RpcConnection, reason: str) -> None:
        """It is gone."""


def is_sound(summon: Summon) -> bool:
    """Whether a summons makes sense: attempts count from 1, and nobody is sent to a place that speaks no TLS."""
    return is_callable(summon.address) and 1 <= summon.attempt <= _MOST_ATTEMPTS


def _places(host: str) -> tuple[str, ...]:
    """Where to listen: on every address, since a name may mean any; for what never leaves this machine, there only."""
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return (host,)
    return EVERYWHERE, "0.0.0.0"
