"""Calling the executors of earlier attempts: they cannot know on which node their application master has come up again.

An executor that hears the call comes to us by itself, on a connection of its own; `attached` says so here. Those that
do not come are called again, until there is no hope left. Executors on a Unix socket need no call.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from tony.errors import ConnectionFailed, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials
from tony.protocol.messages import Done, Summon
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.client_connection import connect

log = logging.getLogger(__name__)

#: Seconds that one call may take, all of it. A node that is gone gives no answer at all.
ANSWER = 5.0
#: Calls at one time: what is called is mostly there, and each costs a TLS handshake, 2 ms of our processor.
AT_ONCE = 64
#: Seconds between two calls of one executor: the first wait, and the longest.
_FIRST, _MOST = 0.2, 5.0
#: Seconds in which one that has answered should have come.
_ON_ITS_WAY = 2.0

Who = TypeVar("Who", bound=Hashable)


async def call_executors(address: str, credentials: AmCredentials, attempt: int, own_address: str) -> bool:
    """Calls one executor once; answers whether it has said that it comes.

    Args:
        address: where it listens, `tls:host:port`.
        credentials: the application master's own.
        own_address: where it is to connect to.

    Raises:
        ProtocolError: `superseded`: it has obeyed a later attempt than ours, which is therefore over.
    """
    try:
        connection = await connect(address, credentials, PeerKind.MASTER, timeout=ANSWER)
    except (ConnectionFailed, ProtocolError, ValueError) as error:
        log.debug("no executor can be called at %s: %s", address, error)
        return False
    try:
        connection.send(Summon(attempt=attempt, address=own_address))
        async with asyncio.timeout(ANSWER):
            return isinstance(await connection.receive(), Done)
    except TimeoutError:
        return False
    except ProtocolError as error:
        if error.code == Code.SUPERSEDED:
            raise
        log.warning("an executor at %s does not come: %s", address, error)
        return False
    finally:
        connection.close()


async def find_refused(addresses: Sequence[str]) -> list[bool]:
    """Of each whether its host says that nobody listens there: an executor listens as long as it lives.

    No answer at all proves nothing.
    """
    turn = asyncio.Semaphore(AT_ONCE)

    async def is_refused(address: str) -> bool:
        where = parse(address)
        assert isinstance(where, TlsAddress)
        async with turn:
            try:
                async with asyncio.timeout(ANSWER):
                    _, writer = await asyncio.open_connection(where.host, where.port)
            except ConnectionRefusedError:
                return True
            except OSError:  # a time-out is one as well
                return False
            writer.close()
            return False

    return await asyncio.gather(*map(is_refused, addresses))


class ReattachCaller(Generic[Who]):
    """Calls many executors until each has come, or patience is over. Those that are there already are not called.

    Args:
        credentials: the application master's own.
        address: where this application master listens.
        patience: seconds for all of them together.

    Attributes:
        superseded: somebody has obeyed a later attempt than ours; nobody is called any more.
    """

    def __init__(self, credentials: AmCredentials, attempt: int, address: str, patience: float) -> None:
        self.superseded = False
        self._credentials = credentials
        self._attempt = attempt
        self._address = address
        self._patience = patience
        self._missing: dict[Who, str] = {}
        self._calls: list[tuple[float, int, Who, float]] = []
        self._made = 0
        self._over = asyncio.Event()

    def attached(self, who: Who) -> None:
        """It is here: nobody calls it any more. Whoever was not expected is welcome, too."""
        if self._missing.pop(who, None) is not None and not self._missing:
            self._over.set()

    async def call_all(self, addresses: Mapping[Who, str]) -> frozenset[Who]:
        """Calls all of these until they are here; answers who is not. To be called once.

        Args:
            addresses: who -> where it listens.
        """
        if not addresses:
            return frozenset()
        self._missing.update(addresses)
        now = asyncio.get_running_loop().time()
        for who in addresses:
            self._call_at(now, who, _FIRST)
        log.info("calling %d executors", len(addresses))
        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(self._call_on()) for _ in range(min(AT_ONCE, len(addresses)))]
            try:
                async with asyncio.timeout(self._patience):
                    await self._over.wait()
            except TimeoutError:
                log.warning("%d of %d executors did not come", len(self._missing), len(addresses))
            for caller in callers:
                caller.cancel()
        return frozenset(self._missing)

    def _call_at(self, at: float, who: Who, pause: float) -> None:
        self._made += 1  # two calls of one moment are told apart, since those who are called need not be comparable
        heapq.heappush(self._calls, (at, self._made, who, pause))

    async def _call_on(self) -> None:
        """One of several callers. Each has at most one executor in hand, so none is called twice at a time."""
        loop = asyncio.get_running_loop()
        while self._calls:
            at, _, who, pause = heapq.heappop(self._calls)
            await asyncio.sleep(at - loop.time())
            address = self._missing.get(who)
            if address is None:
                continue
            try:
                is_coming = await call_executors(address, self._credentials, self._attempt, self._address)
            except ProtocolError as error:
                log.error("%s has obeyed a later application master: %s", who, error)
                self.superseded = True
                self._over.set()
                return
            jitter = 0.5 + os.urandom(1)[0] / 510
            self._call_at(loop.time() + (_ON_ITS_WAY if is_coming else pause * jitter), who, min(2 * pause, _MOST))
