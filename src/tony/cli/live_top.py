"""`tony top` on a terminal: a live table until the job has ended or the user quits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import aclosing
from typing import TextIO

from tony import clock
from tony.cli.terminal.key_reader import watch_keys
from tony.cli.terminal.live_region import LiveRegion
from tony.cli.terminal.terminal_text import find_size, knows_unicode
from tony.cli.text.top_table import SPARK_COLUMNS, TopSort, build_rows, format_top_table, list_top_series
from tony.errors import raise_first_error
from tony.jobs.job_follower import iterate_reports
from tony.jobs.job_metrics import Reports, fetch_newest, find_job_progress, load_series, read_progress
from tony.model.job_report import JobReport
from tony.model.metric_definitions import Points
from tony.model.state_directory import Home
from tony.model.submission_record import JobRecord

#: Up to this number of tasks, sparklines are drawn; with more, only the last point of each series is read.
_MAX_SPARKLINE_TASKS = 100
#: Interval of reading metrics; for large jobs in proportion to the number of tasks.
_POLL_SECONDS = 1.0
_POLL_SECONDS_PER_TASK = 0.001
#: Least time between two redraws.
_MIN_REDRAW_SECONDS = 0.1


def count_points(tasks: Sequence[str]) -> int:
    """Return how many points of each series to read."""
    return SPARK_COLUMNS if len(tasks) <= _MAX_SPARKLINE_TASKS else 1


class Top:
    """The live table of a running job.

    Args:
        stream: a terminal that supports escape sequences.
    """

    def __init__(self, home: Home, record: JobRecord, stream: TextIO, sort: TopSort) -> None:
        self._home, self._record, self._stream, self._sort = home, record, stream, sort
        self._tasks = [str(task) for task in record.spec.task_ids]
        self._series = list_top_series(record.spec)
        self._table = LiveRegion(stream)
        self._report: JobReport | None = None
        self._points: list[Points] = []
        self._reports = Reports()
        self._changed = asyncio.Event()
        self._quit = False
        self._notice = ""

    async def run(self) -> None:
        """Run until the job has ended or the user quits. The last table stays on the screen."""
        with watch_keys(self._on_key):
            try:
                with raise_first_error():
                    async with asyncio.TaskGroup() as group:
                        readers = [group.create_task(self._follow()), group.create_task(self._poll_metrics())]
                        await self._show()
                        for task in readers:
                            task.cancel()
            finally:
                self._table.leave()

    async def _follow(self) -> None:
        async with aclosing(iterate_reports(self._home, self._record.job_id, self._on_notice, ages=True)) as stream:
            async for self._report in stream:
                self._notice = ""
                self._changed.set()

    async def _poll_metrics(self) -> None:
        folder = self._home.job(self._record.job_id)
        most = count_points(self._tasks)
        self._points = await load_series(folder, self._tasks, self._series, most, live=True)
        self._reports = await read_progress(folder, self._tasks, live=True)
        while True:
            self._changed.set()
            await asyncio.sleep(max(_POLL_SECONDS, _POLL_SECONDS_PER_TASK * len(self._tasks)))
            self._points = await fetch_newest(folder, self._tasks, self._series, most) or self._points
            self._reports = await read_progress(folder, self._tasks, live=True)

    async def _show(self) -> None:
        while not self._quit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):  # redraw for times and window size
                    await self._changed.wait()
            self._changed.clear()
            if self._report is not None:
                self._draw(self._report)
                if self._report.state.ended:
                    return
            await asyncio.sleep(_MIN_REDRAW_SECONDS)

    def _draw(self, report: JobReport) -> None:
        size = find_size(self._stream)
        ended = report.state.ended
        rows = format_top_table(
            report,
            build_rows(report, self._record.spec, self._points, self._reports),
            clock.wall(),
            size.columns - 1,
            size.lines - 1 - bool(self._notice),
            self._sort,
            progress=find_job_progress(self._reports, report),
            unicode=knows_unicode(self._stream),
            keys=not ended,
        )
        if self._notice and not ended:
            rows.append(self._notice[: size.columns - 1])
        self._table.draw(rows[: size.lines - 1])

    def _on_key(self, key: str) -> None:
        if key in ("q", "Q"):
            self._quit = True
        chosen = next((sort for sort in TopSort if sort.value[0] == key.lower()), None)
        self._sort = chosen or self._sort
        self._changed.set()

    def _on_notice(self, text: str) -> None:
        self._notice = " ".join(text.split())
        self._changed.set()
