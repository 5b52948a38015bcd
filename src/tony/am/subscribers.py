"""Sends reports to clients that subscribed: now, on change, and when time passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tony import clock
from tony.model.job_report import JobReport
from tony.protocol import client_messages as msg
from tony.protocol.framing import encode_for_many
from tony.rpc.connection import RpcConnection

#: Seconds for which changes are collected into one report.
_GATHER_SECONDS = 0.05
#: Minimum ratio of the pause after a report to its CPU time: watching a huge job stays cheap.
_PAUSE_PER_COST = 20.0
#: Maximum seconds without a report while something changes.
_MAX_PAUSE_SECONDS = 5.0
#: Seconds after which a report is sent although nothing has changed: silent programs are news, too.
_MAX_REPORT_AGE_SECONDS = 30.0
#: Seconds until the next check of clients that were reading too slowly.
_LATE = 1.0
#: Bytes that a client may leave unread before it gets no further reports until it has read.
_BACKLOG = 4 << 20


class Subscribers:
    """Clients that subscribed to the job's reports.

    Args:
        report: builds the job's report.
    """

    def __init__(self, report: Callable[[], JobReport]) -> None:
        self._report = report
        #: Connection -> whether it also gets reports when only time has passed.
        self._subscribers: dict[RpcConnection, bool] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._pause = 0.0
        self._for_all = False
        self._waiting = False
        self._sent_at = clock.monotonic()

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, connection: RpcConnection, *, ages: bool = False) -> None:
        """Send a report now, and from now on after changes; with `ages` also when only time has passed."""
        self._subscribers[connection] = ages
        report = self._report()
        self._waiting = bool(report.waiting)
        connection.send(msg.Report(report=report))

    def remove(self, connection: RpcConnection) -> None:
        """Remove a client that has disconnected."""
        self._subscribers.pop(connection, None)

    def on_change(self) -> None:
        """Schedule a report; further changes until then go out with it."""
        self._for_all = True
        self._schedule()

    def on_time_passed(self) -> None:
        """Handle that only time has passed: clients that show ages get a report, the others one now and then."""
        if self._waiting or clock.monotonic() - self._sent_at >= _MAX_REPORT_AGE_SECONDS:
            self.on_change()
        elif any(self._subscribers.values()):
            self._schedule()

    def send_now(self) -> None:
        """Send the current state at once, because it would be overwritten before the next scheduled report."""
        self._for_all = True
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._subscribers:
            self._send()

    def _schedule(self) -> None:
        if self._subscribers and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(max(_GATHER_SECONDS, self._pause), self._send)

    def _send(self) -> None:
        self._timer = None
        connections = [connection for connection, ages in self._subscribers.items() if ages or self._for_all]
        ready = [connection for connection in connections if connection.backlog <= _BACKLOG]
        if ready:
            started_at = clock.processor()
            report = self._report()
            self._waiting = bool(report.waiting)
            frame = encode_for_many(msg.Report(report=report))
            for connection in ready:
                connection.send_frame(frame)
            self._pause = min(_PAUSE_PER_COST * (clock.processor() - started_at), _MAX_PAUSE_SECONDS)
            if self._for_all:
                self._sent_at = clock.monotonic()
        self._for_all = len(ready) < len(connections)
        if self._for_all:
            self._timer = asyncio.get_running_loop().call_later(max(_LATE, self._pause), self._send)

    async def finish(self, report: JobReport, timeout: float) -> None:
        """Send the last report and wait until it is sent, at most `timeout` seconds."""
        if self._timer:
            self._timer.cancel()
        frame = encode_for_many(msg.Report(report=report, final=True))
        for connection in list(self._subscribers):
            connection.send_frame(frame)
        drains = [connection.drain() for connection in self._subscribers]
        if drains:
            try:
                await asyncio.wait_for(asyncio.gather(*drains, return_exceptions=True), timeout)
            except TimeoutError:
                pass
