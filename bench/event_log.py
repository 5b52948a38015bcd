"""The event log on this machine: events appended a second, and how long an event takes through an application master.

The writer alone: lines made and handed to the kernel, each event by itself or many at a time, as a busy master does.
Then a whole master, a process as in production: a hundred simulated executors over its Unix socket report something;
each report is an event, logged, handled, handed to the kernel and only then acknowledged. As fast as each is
acknowledged, and at a steady load; what is timed is the way from a report's sending to its acknowledgement, both ends
on this machine. The events are further first lines of programs, for which there is nothing to do.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.crowded import TIMEOUT_SECONDS, address_of, running_master, submitted, until_granted
from bench.harness import CannotRunError, Figures, Line, Result, Unit, at_least, at_most, interleaved
from tests.support.executor_load import address_of as port_of
from tests.support.executor_load import container_of
from tony import clock
from tony.core.events import FirstOutput
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter
from tony.model.ids import TaskId
from tony.model.setting_choices import TlsMode
from tony.protocol.executor_messages import Ack, Attach, ProgramOutput, ProgramStarted, Ready, StartProgram
from tony.protocol.hello import PeerKind
from tony.protocol.launch import JobCredentials
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Refused
from tony.rpc import connect
from tony.rpc.connection import RpcConnection

TITLE = "The event log on this machine"

_EXECUTORS = 100
#: Events a second, all executors together.
_LOAD = 1000
#: Events that a busy master logs at a time.
_BATCH = 20
_EVENT = FirstOutput(task=TaskId(role="worker", index=4711), session=1, try_=1)


def measure(quick: bool) -> Result:
    """The writer, then the master."""
    count = 2_000 if quick else 100_000
    rounds = interleaved(
        {"one": partial(_appended, count, 1), "many": partial(_appended, count, _BATCH)}, 1 if quick else 7
    )
    busy, waits = asyncio.run(_master(1.0 if quick else 10.0))
    more = at_least(5_000)
    return Result(
        lines=(
            rounds.line("appended, each by itself", "one", "rate", unit=Unit.PER_SECOND, target=more),
            rounds.line(f"appended, {_BATCH} at a time", "many", "rate", unit=Unit.PER_SECOND, target=more),
            Line(what="a whole application master, as fast as it can", unit=Unit.PER_SECOND, value=busy),
            Line(
                what=f"sent → logged and acknowledged, {_LOAD:,} events/s",
                value=statistics.median(waits),
                low=min(waits),
                high=max(waits),
                target=at_most(0.05),
            ),
            Line(
                what="the same, worst of a hundred", value=statistics.quantiles(waits, n=100)[-1], target=at_most(0.05)
            ),
            Line(what="the same, worst of all", value=max(waits)),
        ),
        notes=(f"{len(waits):,} events of {_EXECUTORS} executors, which are simulated on the same cores",),
    )


def _appended(count: int, batch: int) -> Figures:
    """Into a new file."""
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as folder:
        header = Header(format=FORMAT, version=VERSION, job="bench", attempt=1, settings="")
        writer = LogWriter(Path(folder) / "events.1.jsonl", header)
        begin = time.monotonic()
        for number in range(count):
            writer.append(_EVENT, number * 0.001, clock.wall())
            if number % batch == 0:
                writer.flush()
        writer.flush()
        took = time.monotonic() - begin
        writer.close()
    return {"rate": count / took}


async def _master(seconds: float) -> tuple[float, Sequence[float]]:
    """Events a second as fast as it can, and how long each took at a steady load."""
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as home:
        folder, credentials = submitted(Path(home), "none", _EXECUTORS, tls=TlsMode.AUTO)
        with running_master(folder) as master:
            try:
                address = address_of(folder, master)
                await until_granted(address, credentials, _EXECUTORS)
                return await _talk(address, credentials, seconds)
            except (CannotRunError, OSError) as error:
                raise CannotRunError(
                    f"{error}; the application master said: {folder.am_log.read_text()[-2000:]}"
                ) from error


async def _talk(address: str, credentials: JobCredentials, seconds: float) -> tuple[float, Sequence[float]]:
    talkers = [_Talker(index) for index in range(_EXECUTORS)]
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.gather(*(talker.come(address, credentials) for talker in talkers))
        until = time.monotonic() + seconds
        counts = await asyncio.gather(*(talker.hurry(until) for talker in talkers))
        until = time.monotonic() + seconds
        waits = await asyncio.gather(*(talker.steadily(until) for talker in talkers))
    return sum(counts) / seconds, [wait for each in waits for wait in each]


class _Talker:
    """A simulated executor whose program runs."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._connection: RpcConnection
        self._n = 0
        self._sent: deque[tuple[int, float]] = deque()
        self._waits: list[float] = []

    async def come(self, address: str, credentials: JobCredentials) -> None:
        """Attaches, registers and starts its program."""
        self._connection = await connect(address, credentials.executors, PeerKind.EXECUTOR)
        attach = Attach(
            task=TaskId("worker", self._index),
            container=container_of(self._index),
            incarnation=f"fake-{self._index}",
            highest_attempt=1,
            pid=1,
            host="fake",
        )
        self._connection.send(attach)
        self._connection.send(Ready(n=self._next(), session=1, address=port_of(self._index)))
        while not isinstance(await self._receive(), StartProgram):
            pass
        self._connection.send(ProgramStarted(n=self._next(), session=1, try_=1, pid=4711))
        await self._acknowledged()

    async def hurry(self, until: float) -> int:
        """Reports as soon as the last report is acknowledged; how many were."""
        count = 0
        while time.monotonic() < until:
            self._say()
            await self._acknowledged()
            count += 1
        return count

    async def steadily(self, until: float) -> Sequence[float]:
        """Reports at its share of the load; how long each took."""
        pause = _EXECUTORS / _LOAD
        listening = asyncio.get_running_loop().create_task(self._listen())
        due = time.monotonic() + pause * self._index / _EXECUTORS
        while due < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._say()
            due += pause
        while self._sent:
            await asyncio.sleep(pause)
        listening.cancel()
        return self._waits

    def _next(self) -> int:
        self._n += 1
        return self._n

    def _say(self) -> None:
        number = self._next()
        self._sent.append((number, time.monotonic()))
        self._connection.send(ProgramOutput(n=number, session=1, try_=1))

    async def _listen(self) -> None:
        while True:
            message = await self._receive()
            now = time.monotonic()
            while isinstance(message, Ack) and self._sent and self._sent[0][0] <= message.n:
                self._waits.append(now - self._sent.popleft()[1])

    async def _acknowledged(self) -> None:
        while True:
            message = await self._receive()
            if isinstance(message, Ack) and message.n >= self._n:
                self._sent.clear()
                return

    async def _receive(self) -> Message:
        message = await self._connection.receive()
        if message is None or isinstance(message, Refused):
            raise CannotRunError(f"executor {self._index} was sent away: {message}")
        return message
