"""The application master's side of clients: reports on demand and on change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tony import clock
from tony.dataclass import dataclass
from tony.model.report import JobReport
from tony.protocol import messages as msg
from tony.protocol.framing import encode_for_many
from tony.rpc.connection import Connection

#: A report may cost so many times less processor time than the pause after it: watching a huge job stays cheap.
_PAUSE_PER_COST = 20.0
#: Seconds without a report, at most, while something changes.
_LONGEST_PAUSE = 5.0
#: Seconds until we look again whether somebody who was behind has read.
_LATE = 1.0
#: Bytes that a client may leave unread before it gets no further reports until it has read.
_BACKLOG = 4 << 20


@dataclass(slots=True)
class _Watcher:
    connection: Connection
    gather: float


class Watchers:
    """Clients that want to hear of every change.

    Args:
        report: makes the job's report.
    """

    def __init__(self, report: Callable[[], JobReport]) -> None:
        self._report = report
        self._watchers: dict[Connection, _Watcher] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._pause = 0.0

    def add(self, connection: Connection, gather: float) -> None:
        """Sends a report now, and from now on after changes."""
        self._watchers[connection] = _Watcher(connection, min(max(gather, 0.01), 10.0))
        connection.send(msg.Report(report=self._report()))

    def remove(self, connection: Connection) -> None:
        """The client went away."""
        self._watchers.pop(connection, None)

    def changed(self) -> None:
        """Something is different: a report goes out soon, together with whatever else changes until then."""
        if self._watchers and self._timer is None:
            gather = max(min(w.gather for w in self._watchers.values()), self._pause)
            self._timer = asyncio.get_running_loop().call_later(gather, self._send)

    def _send(self) -> None:
        self._timer = None
        ready = [each.connection for each in self._watchers.values() if each.connection.backlog <= _BACKLOG]
        if ready:
            began = clock.processor()
            frame = encode_for_many(msg.Report(report=self._report()))
            for connection in ready:
                connection.send_frame(frame)
            self._pause = min(_PAUSE_PER_COST * (clock.processor() - began), _LONGEST_PAUSE)
        if len(ready) < len(self._watchers):
            self._timer = asyncio.get_running_loop().call_later(max(_LATE, self._pause), self._send)

    async def finish(self, report: JobReport, patience: float) -> None:
        """Sends the last report and waits until it is on its way, at most `patience` seconds."""
        if self._timer:
            self._timer.cancel()
        frame = encode_for_many(msg.Report(report=report, final=True))
        for watcher in list(self._watchers.values()):
            watcher.connection.send_frame(frame)
        drains = [watcher.connection.drain() for watcher in self._watchers.values()]
        if drains:
            try:
                await asyncio.wait_for(asyncio.gather(*drains, return_exceptions=True), patience)
            except TimeoutError:
                pass
