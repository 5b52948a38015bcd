"""Calls the executors of earlier AM attempts: they cannot know on which node the AM has been restarted.

An executor that is called connects to the AM; `attached` reports that. Those that do not connect are called again until
the timeout. Executors on a Unix socket need no call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from tony.errors import ConnectionFailedError, ProtocolError
from tony.model.ids import TaskId
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Summon
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials
from tony.protocol.shared_messages import Done
from tony.retry import Backoff
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.client_connection import connect

log = logging.getLogger(__name__)

#: Timeout of one call in seconds. A dead node does not answer at all.
CALL_TIMEOUT_SECONDS = 5.0
#: Parallel calls: most executors answer, and each call costs a TLS handshake, 2 ms of CPU time.
MAX_PARALLEL = 64
#: Between two calls of one executor.
_BACKOFF = Backoff(first=0.2, most=5.0, jitter=0.5)
#: Seconds within which an executor that has answered should have connected.
_CONNECT_SECONDS = 2.0


async def call_executors(address: str, credentials: AmCredentials, attempt: int, own_address: str) -> bool:
    """Call one executor once; return True if it agreed to connect.

    Args:
        address: where it listens, `tls:host:port`.
        credentials: those of the AM.
        own_address: where it is to connect.

    Raises:
        ProtocolError: `superseded`: it has obeyed a later AM attempt, so this one is obsolete.
    """
    try:
        connection = await connect(address, credentials, PeerKind.MASTER, timeout=CALL_TIMEOUT_SECONDS)
    except (ConnectionFailedError, ProtocolError, ValueError) as error:
        log.debug("no executor can be called at %s: %s", address, error)
        return False
    try:
        connection.send(Summon(attempt=attempt, address=own_address))
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
            return isinstance(await connection.receive(), Done)
    except TimeoutError:
        return False
    except ProtocolError as error:
        if error.code == Code.SUPERSEDED:
            raise
        log.warning("the executor at %s refuses to reattach: %s", address, error)
        return False
    finally:
        connection.close()


async def find_refused(addresses: Sequence[str]) -> list[bool]:
    """Return for each address whether its host refuses connections: an executor listens as long as it runs.

    No answer at all proves nothing.
    """
    slots = asyncio.Semaphore(MAX_PARALLEL)

    async def is_refused(address: str) -> bool:
        where = parse(address)
        assert isinstance(where, TlsAddress)
        async with slots:
            try:
                async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                    _, writer = await asyncio.open_connection(where.host, where.port)
            except ConnectionRefusedError:
                return True
            except OSError:  # a timeout is one as well
                return False
            writer.close()
            return False

    return await asyncio.gather(*map(is_refused, addresses))


class ReattachCaller:
    """Calls many executors until each has connected, or the timeout has passed.

    Args:
        credentials: those of the AM.
        address: where this AM listens.
        timeout: seconds for all of them together.

    Attributes:
        superseded: an executor has obeyed a later AM attempt; no more calls are made.
    """

    def __init__(self, credentials: AmCredentials, attempt: int, address: str, timeout: float) -> None:
        self.superseded = False
        self._credentials = credentials
        self._attempt = attempt
        self._address = address
        self._timeout = timeout
        self._missing: dict[TaskId, str] = {}
        self._slots = asyncio.Semaphore(MAX_PARALLEL)
        self._all_attached = asyncio.Event()

    def on_attached(self, task: TaskId) -> None:
        """Note that an executor has connected, whether it was expected or not."""
        if self._missing.pop(task, None) is not None and not self._missing:
            self._all_attached.set()

    async def call_all(self, addresses: Mapping[TaskId, str]) -> frozenset[TaskId]:
        """Call executors until all have connected; return those that did not. Call it once.

        Args:
            addresses: executor -> where it listens.
        """
        if not addresses:
            return frozenset()
        self._missing.update(addresses)
        log.info("calling %d executors", len(addresses))
        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(self._call_until_attached(task)) for task in addresses]
            try:
                async with asyncio.timeout(self._timeout):
                    await self._all_attached.wait()
            except TimeoutError:
                log.warning("%d of %d executors did not reattach", len(self._missing), len(addresses))
            for caller in callers:
                caller.cancel()
        return frozenset(self._missing)

    async def _call_until_attached(self, task: TaskId) -> None:
        for pause in _BACKOFF:
            async with self._slots:
                address = self._missing.get(task)
                if address is None:
                    return
                try:
                    is_coming = await call_executors(address, self._credentials, self._attempt, self._address)
                except ProtocolError as error:
                    log.error("%s has obeyed a later AM attempt: %s", task, error)
                    self.superseded = True
                    self._all_attached.set()
                    return
            await asyncio.sleep(_CONNECT_SECONDS if is_coming else pause)
