"""The connection to the application master: connect, reconnect, renew the lease, and give up when it has expired."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import chain
from typing import Protocol

from tony.errors import ConnectionFailedError, ProtocolError
from tony.executor.control.lease import Lease
from tony.executor.control.session_protocol import LinkState, SessionProtocol
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Ack, Heartbeat, StartProgram, Welcome
from tony.protocol.launch import LaunchContext
from tony.protocol.message_base import Message
from tony.retry import Backoff
from tony.rpc.client_connection import connect

log = logging.getLogger(__name__)

#: Seconds for the connection, and again for the answer to Attach.
_ANSWER_TIMEOUT_SECONDS = 10.0
#: Seconds, not counting suspend, that an application master has to renew a lease that has expired. So the program of a
#: laptop that was closed for an hour survives. The application master allows for this: `SLACK_SECONDS` in
#: `core/steps/container_loss.py`.
EXPIRY_GRACE_SECONDS = 5.0
#: Seconds by which a timer may fire early.
_TIMER_SLACK_SECONDS = 0.01
#: Between connection attempts, after the first one.
_BACKOFF = Backoff(first=0.05, factor=1.5, most=1.0, jitter=0.5)
#: Errors that may pass: the AM is busy, or it is the wrong one of two.
_TEMPORARY = frozenset({Code.BUSY, Code.SUPERSEDED})


class Clock(Protocol):
    """A clock; `tony.clock` except in tests."""

    def monotonic(self) -> float:
        """Return seconds that never jump and include suspend."""


class AmTransport(Protocol):
    """The part of `tony.rpc.connection.RpcConnection` that is used here."""

    def send(self, message: Message) -> None:
        """Send a message; do nothing on a closed connection."""

    async def receive(self) -> Message | None:
        """Return the next message; None at the end."""

    def close(self) -> None:
        """Close the connection once everything sent has been delivered."""

    @property
    def is_full(self) -> bool:
        """Return True if the send buffer is full."""


#: Connects to the application master within a number of seconds.
Connect = Callable[[float], Awaitable[AmTransport]]


class Reach:
    """Connects to the application master, which may move.

    Attributes:
        address: its latest known address.
    """

    def __init__(self, context: LaunchContext) -> None:
        self.address = context.task.am_address
        self._credentials = context.credentials

    async def __call__(self, timeout: float) -> AmTransport:
        return await connect(self.address, self._credentials, timeout=timeout)


class AmConnection:
    """Keeps the connection to the application master for as long as the lease allows.

    Attributes:
        is_rejected: the application master has rejected this executor for good.
    """

    def __init__(
        self,
        protocol: SessionProtocol,
        lease: Lease,
        connect: Connect,
        clock: Clock,
        heartbeat: Callable[[], Heartbeat],
        perform: Callable[[Message], None],
        on_disconnect: Callable[[], None] = lambda: None,
        on_renew: Callable[[], None] = lambda: None,
        before_reports: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the object; connect nothing yet.

        Args:
            perform: performs a command of the application master.
            on_disconnect: called when a connection has ended.
            on_renew: called when the lease has been renewed.
            before_reports: called before reports are sent, for what must not follow the report of an exit.
        """
        self._protocol = protocol
        self._lease = lease
        self._connect = connect
        self._clock = clock
        self._heartbeat = heartbeat
        self._perform = perform
        self._on_disconnect = on_disconnect
        self._on_renew = on_renew
        self._before_reports = before_reports
        self._connection: AmTransport | None = None
        self._welcome = asyncio.Event()
        self._pauses = chain([0.0], _BACKOFF)
        self._has_no_listener = False
        self._reason = "no connection yet"
        self._logged_sessions: set[int] = set()
        self._is_backing_off = False
        self._wait_timeout: asyncio.Timeout | None = None
        self._attached_at: float | None = None
        self._has_skipped_start = False
        self.is_rejected = False

    def flush(self) -> None:
        """Send the reports that have not been sent."""
        if self._connection:
            self._before_reports()
            for report in self._protocol.take_unsent(self._clock.monotonic()):
                self._connection.send(report)

    @property
    def is_connected(self) -> bool:
        """Return True if there is a connection."""
        return self._connection is not None

    def send(self, message: Message) -> None:
        """Send a message that may get lost; do nothing without a connection."""
        if self._connection:
            self._connection.send(message)

    def send_low_priority(self, message: Message) -> bool:
        """Send a message of low priority unless it would have to wait; return True if it was sent."""
        if self._connection is None or not self._protocol.is_obeying or self._connection.is_full:
            return False
        self._connection.send(message)
        return True

    def on_reattach_request(self, attempt: int, *, moved: bool) -> None:
        """Connect at once to an application master that has called, unless this is its connection.

        Args:
            moved: its address differs from the known one.
        """
        self._pauses = chain([0.0], _BACKOFF)
        if moved or self._is_backing_off or self._protocol.peer_attempt not in (0, attempt):
            log.info("reattach request from AM attempt %d", attempt)
            self._break_off()

    async def keep(self) -> str:
        """Reconnect until the lease has expired or the executor is rejected; return why contact was lost."""
        while True:
            try:
                async with asyncio.timeout(None) as self._wait_timeout:
                    await self._connect_once()
            except TimeoutError:
                if self._wait_timeout is not None:
                    raise  # not from `_break_off`
            self._wait_timeout = None
            if self.is_rejected or self._compute_time_left() <= 0:
                return self._reason

    def _break_off(self) -> None:
        """Cancel the current wait of `keep`, which then decides again."""
        if self._wait_timeout is not None:
            self._wait_timeout.reschedule(asyncio.get_running_loop().time())
            self._wait_timeout = None

    async def _connect_once(self) -> None:
        """Connect once, and handle the connection until it ends."""
        left = self._compute_time_left()
        self._is_backing_off = True
        try:
            await asyncio.sleep(min(next(self._pauses), left))
        finally:
            self._is_backing_off = False
        try:
            connection = await self._connect(min(_ANSWER_TIMEOUT_SECONDS, max(1.0, left)))
        except ConnectionFailedError as error:
            self._record_loss(str(error), no_listener=error.no_listener)
        except ProtocolError as error:
            self._handle_refusal(error, str(error))
        else:
            await self._run_connection(connection)

    def _compute_time_left(self) -> float:
        return self._lease.compute_time_left(self._clock.monotonic(), no_listener=self._has_no_listener)

    def _record_loss(self, why: str, *, no_listener: bool) -> None:
        if why != self._reason:
            log.warning("no connection to the application master: %s", why)
        self._reason, self._has_no_listener = why, no_listener

    def _handle_refusal(self, error: ProtocolError, why: str) -> None:
        """Handle a rejection: give up if it is final, else retry, as another AM attempt may accept."""
        is_for_now = error.code in _TEMPORARY
        self.is_rejected = error.code == Code.STALE or (self._attached_at is None and not is_for_now)
        self._record_loss(why, no_listener=not is_for_now)

    async def _run_connection(self, connection: AmTransport) -> None:
        self._connection = connection
        self._welcome.clear()
        connected_at = self._clock.monotonic()
        connection.send(self._protocol.on_connected())
        try:
            # Heartbeats end with the connection, and an error in either ends both.
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(self._send_heartbeats(connection))
                await self._listen(connection, connected_at)
                beating.cancel()
        finally:
            self._connection = None
            self._protocol.on_disconnected()
            self._on_disconnect()
            connection.close()

    async def _listen(self, connection: AmTransport, connected_at: float) -> None:
        """Handle messages until the connection ends, and record why it ended."""
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_SECONDS) as timeout:
                while (message := await connection.receive()) is not None:
                    self._handle(message, connected_at)
                    if self._protocol.link_state is LinkState.WELCOME:
                        timeout.reschedule(None)
        except TimeoutError:
            self._record_loss(f"no answer to attach within {_ANSWER_TIMEOUT_SECONDS:g} s", no_listener=False)
        except ProtocolError as error:
            self._handle_refusal(error, f"the application master refused the executor: {error}")
        else:
            self._record_loss("the connection was closed", no_listener=False)

    def _handle(self, message: Message, connected_at: float) -> None:
        welcome = self._protocol.link_state is LinkState.ATTACHED
        if isinstance(message, StartProgram) and self._compute_time_left() <= 0:
            # This process was suspended, and the message may be outdated: the AM repeats it if it still applies.
            self._has_skipped_start = True
            return
        refused = self._protocol.refused
        command = self._protocol.on_message(message)
        if self._protocol.refused > refused:
            self._log_ignored(message)
        if welcome and self._protocol.link_state is LinkState.ATTACHED:
            raise ProtocolError(Code.SUPERSEDED, "an older application master answered")
        if welcome:
            log.info("attached; heartbeats every %g s", self._protocol.heartbeat_interval)
            self._attached_at = connected_at
            if isinstance(message, Welcome) and message.renews:
                self._renew(connected_at)
            self._welcome.set()
            self._has_no_listener, self._has_skipped_start, self._reason = False, False, ""
            self._pauses = chain([0.0], _BACKOFF)
        elif isinstance(message, Ack) and message.heard is not None and self._protocol.is_obeying:
            self._renew(min(message.heard, self._clock.monotonic()))
            if self._has_skipped_start and self._compute_time_left() > 0:
                self._break_off()  # on a new connection the AM repeats all current commands
        if command is not None:
            self._perform(command)
        self.flush()

    def _log_ignored(self, message: Message) -> None:
        """Log, once per older session, that a message of it was ignored."""
        session = getattr(message, "session", self._protocol.session)
        if session < self._protocol.session and session not in self._logged_sessions:
            self._logged_sessions.add(session)
            log.warning(
                "ignored %s of session %d: the current one is %d", message.kind, session, self._protocol.session
            )

    def _renew(self, sent: float) -> None:
        self._lease.renew(sent)
        self._on_renew()

    async def _send_heartbeats(self, connection: AmTransport) -> None:
        await self._welcome.wait()
        # The first at a random time within the interval, so that those of many executors are spread.
        await asyncio.sleep(self._compute_heartbeat_pause() * os.urandom(1)[0] / 256)
        while True:
            now = self._clock.monotonic()
            is_expired = self._lease.compute_time_left(now, no_listener=False) <= 0
            asks = self._lease.needs_renewal(now)
            heartbeat = self._heartbeat()
            connection.send(replace(heartbeat, mono=now, asks=True) if asks else heartbeat)
            left = self._lease.compute_time_left(now, no_listener=False)
            await asyncio.sleep(
                EXPIRY_GRACE_SECONDS
                if is_expired
                else min(self._compute_heartbeat_pause(), left + _TIMER_SLACK_SECONDS)
            )
            if is_expired and self._compute_time_left() <= 0:
                self._record_loss(f"no answer for {self._lease.term:.0f} s", no_listener=False)
                self._break_off()

    def _compute_heartbeat_pause(self) -> float:
        return min(self._protocol.heartbeat_interval, self._lease.pulse)
