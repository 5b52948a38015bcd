"""The application master's side of clients: reports on demand and on change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tony import clock
from tony.dataclass import dataclass
from tony.model.job_report import JobReport
from tony.protocol import messages as msg
from tony.protocol.framing import encode_for_many
from tony.rpc.connection import RpcConnection

#: A report may cost so many times less processor time than the pause after it: watching a huge job stays cheap.
_PAUSE_PER_COST = 20.0
#: Seconds without a report, at most, while something changes.
_LONGEST_PAUSE = 5.0
#: Seconds after which a report goes out although nothing has changed: that programs are silent is worth a line, too.
_MAX_REPORT_AGE_SECONDS = 30.0
#: Seconds until we look again whether somebody who was behind has read.
_LATE = 1.0
#: Bytes that a client may leave unread before it gets no further reports until it has read.
_BACKLOG = 4 << 20


@dataclass(slots=True)
class _Watcher:
    connection: RpcConnection
    gather: float
    ages: bool


class Subscribers:
    """Clients that want to hear of every change.

    Args:
        report: makes the job's report.
    """

    def __init__(self, report: Callable[[], JobReport]) -> None:
        self._report = report
        self._watchers: dict[RpcConnection, _Watcher] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._pause = 0.0
        self._for_all = False
        self._waiting = False
        self._sent_at = clock.monotonic()

    def __len__(self) -> int:
        return len(self._watchers)

    def add(self, connection: RpcConnection, gather: float, *, ages: bool = False) -> None:
        """Sends a report now, and from now on after changes; with `ages` also when only time has passed."""
        self._watchers[connection] = _Watcher(connection, min(max(gather, 0.01), 10.0), ages)
        report = self._report()
        self._waiting = bool(report.waiting)
        connection.send(msg.Report(report=report))

    def remove(self, connection: RpcConnection) -> None:
        """The client went away."""
        self._watchers.pop(connection, None)

    def changed(self) -> None:
        """Something is different: a report goes out soon, together with whatever else changes until then."""
        self._for_all = True
        self._schedule()

    def aged(self) -> None:
        """Time has passed, and nothing else happened. Of a job that just runs, few hear often: those who show ages."""
        if self._waiting or clock.monotonic() - self._sent_at >= _MAX_REPORT_AGE_SECONDS:
            self.changed()
        elif any(watcher.ages for watcher in self._watchers.values()):
            self._schedule()

    def tell_now(self) -> None:
        """What stands now would be gone before the report that is due: it goes out at once."""
        self._for_all = True
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._watchers:
            self._send()

    def _schedule(self) -> None:
        if self._watchers and self._timer is None:
            gather = max(min(w.gather for w in self._watchers.values()), self._pause)
            self._timer = asyncio.get_running_loop().call_later(gather, self._send)

    def _send(self) -> None:
        self._timer = None
        wanted = [each.connection for each in self._watchers.values() if each.ages or self._for_all]
        ready = [connection for connection in wanted if connection.backlog <= _BACKLOG]
        if ready:
            began = clock.processor()
            report = self._report()
            self._waiting = bool(report.waiting)
            frame = encode_for_many(msg.Report(report=report))
            for connection in ready:
                connection.send_frame(frame)
            self._pause = min(_PAUSE_PER_COST * (clock.processor() - began), _LONGEST_PAUSE)
            if self._for_all:
                self._sent_at = clock.monotonic()
        self._for_all = len(ready) < len(wanted)
        if self._for_all:
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
