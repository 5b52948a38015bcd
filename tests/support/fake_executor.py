"""A fake executor for tests: it speaks the wire protocol as a real one does and runs no program.

It attaches, reports in order and resends unacknowledged reports by itself. The test decides what its program does.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace

from tony.errors import ConnectionFailedError
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.executor_messages import (
    Ack,
    Attach,
    Prepare,
    ProgramExited,
    ProgramStarted,
    Ready,
    ReleaseExecutor,
    Reported,
    StartProgram,
    StopProgram,
    Welcome,
)
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, TaskPart
from tony.protocol.message_base import Message
from tony.rpc.client_connection import connect
from tony.rpc.connection import RpcConnection

#: Called when a program is started; returns its exit status, or None to run until it is stopped.
Behaviour = Callable[[TaskPart, StartProgram], ExitStatus | None]

OK = ExitStatus(reason=ExitReason.EXITED, code=0)


class FakeExecutor:
    """One executor process, as the application master sees it.

    Attributes:
        received: all received messages, in order.
        connections: how often it has attached.
        last_try: the last task attempt that it reports as started.
        listens: the address at which it reports to listen.
        attempt: the AM attempt that welcomed it last.
        ended: it was released, refused, or cut off.
        away: it is in a network partition.
        stubborn: its program ignores the command to stop.
    """

    def __init__(self, part: TaskPart, credentials: AmCredentials, behaviour: Behaviour) -> None:
        self.part = part
        self.received: list[Message] = []
        self.connections = 0
        self.incarnation = secrets.token_hex(8)
        self._credentials = credentials
        self._behaviour = behaviour
        self._connection: RpcConnection | None = None
        self._reports: list[Reported] = []
        self._n = 0
        self._running: tuple[int, int] | None = None
        self._ends_with: ExitStatus | None = None
        self._told: set[tuple[int, int]] = set()
        self._barred = 0
        self._acked = 0
        self.listens = ""
        self.last_try = 0
        self._session = part.session
        self.attempt = part.attempt
        self._released = False
        self.ended = False
        self.away = False
        self.stubborn = False

    async def run(self) -> None:
        """Run until it is released or refused."""
        try:
            while not self._released:
                if self.away:
                    await asyncio.sleep(0.005)
                    continue
                try:
                    await self._converse()
                except ConnectionFailedError:
                    if not self._told:  # once started, it waits for the next AM attempt
                        raise
                    await asyncio.sleep(0.01)
        finally:
            self.ended = True

    async def _converse(self) -> None:
        connection = await connect(self.part.am_address, self._credentials, PeerKind.EXECUTOR)
        self._connection = connection
        self.connections += 1
        connection.send(
            Attach(
                task=self.part.id,
                container=self.part.container,
                incarnation=self.incarnation,
                highest_attempt=self.attempt,
                pid=4711,
                host="fake",
                session=self._session,
                try_=self.last_try,
                acked=self._acked,
                listens=self.listens,
            )
        )
        if self.connections == 1:
            self._ready(self.part.session)
        for report in self._reports:
            connection.send(report)
        while (message := await connection.receive()) is not None:
            self._take(message)
        connection.close()

    @property
    def runs(self) -> bool:
        """Whether its program is running."""
        return self._running is not None

    async def die(self) -> None:
        """Kill the process: its connection ends, and it does not reconnect."""
        self._released, self._running = True, None
        if self._connection:
            self._connection.abort()
            await self._connection.wait_closed()

    def break_connection(self) -> None:
        """Break the connection; the executor reconnects."""
        if self._connection:
            self._connection.abort()

    def report(self, message: Reported) -> None:
        """Send a report with the next number."""
        self._n += 1
        numbered = replace(message, n=self._n)
        self._reports.append(numbered)
        self.send(numbered)

    def send(self, message: Message) -> None:
        """Send a message unchanged, valid or not."""
        if self._connection and self._connection.is_open:
            self._connection.send(message)

    def _take(self, message: Message) -> None:
        self.received.append(message)
        match message:
            case Ack(n=n) | Welcome(acked=n):
                self._acked = max(self._acked, n)
                self.attempt = message.attempt if isinstance(message, Welcome) else self.attempt
                self._reports = [r for r in self._reports if r.n > n]
            case Prepare(session=session) if session > self._session:
                self._session, self.last_try = session, 0
                self._ready(session)
            case StartProgram():
                self._start(message)
            case StopProgram(session=session):
                self._barred = max(self._barred, session)
                self._stop()
            case ReleaseExecutor():
                self._stop()
                self._released = True
                if self._connection:
                    self._connection.close()

    def _ready(self, session: int) -> None:
        self.report(Ready(n=0, session=session, address=f"127.0.0.1:{5000 + self.part.index}"))

    def _start(self, message: StartProgram) -> None:
        which = message.session, message.try_
        if which in self._told:
            return
        self._told.add(which)
        self.last_try = message.try_
        if message.session <= self._barred:
            status = ExitStatus(reason=ExitReason.NOT_STARTED)
            self.report(ProgramExited(n=0, session=message.session, try_=message.try_, status=status, ago=0.0))
            return
        self._running = which
        self.report(ProgramStarted(n=0, session=message.session, try_=message.try_, pid=4712))
        end = self._behaviour(self.part, message) or self._ends_with
        if end:
            self.exit(end)

    def exit(self, status: ExitStatus) -> None:
        """End the program, or make it end as soon as it is started."""
        if self._running is None:
            self._ends_with = status
        else:
            session, try_ = self._running
            self._running = None
            said = f"{self.part.role}:{self.part.index} in session {session}"
            exports: dict[str, str | None] = dict.fromkeys(self.part.role_settings.exports, said)
            self.report(ProgramExited(n=0, session=session, try_=try_, status=status, ago=0.0, exports=exports))

    def _stop(self) -> None:
        if self._running and not self.stubborn:
            self.exit(ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"))


async def run_until_released(executor: FakeExecutor) -> None:
    """Run an executor; ignore that it is refused or disconnected at the end of the job."""
    from tony.errors import TonyError

    try:
        await executor.run()
    except TonyError:
        pass
    except asyncio.CancelledError:
        raise
