"""The lines of a job's logs that an address selects, for the page and for the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tony import clock
from tony.jobs.directory.merged_logs import LogPosition
from tony.jobs.log_files import Selection, select_named_tasks
from tony.linux.time_index import PER_SECOND
from tony.model.job_report import JobReport
from tony.model.log_name import STREAMS
from tony.units import parse_duration

#: Value of `session` for all of them; empty for the newest one of each task.
ALL_SESSIONS = "all"
#: Value of `after` for the beginning.
START = "start"
MAX_SESSION = 10**9 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Lines of a job's logs.

    Attributes:
        words: the parameters that select lines: `task`, `stream`, `session` and `text`, without empty ones.
        selection: of the logs.
        text: only lines that contain it; empty for all.
        start: lines after this position, or before it if `is_backwards`; None for the beginning, or the end.
        shows_context: show lines before and after the start.
    """

    words: Mapping[str, str]
    selection: Selection
    text: str
    start: LogPosition | None
    is_backwards: bool
    shows_context: bool = False

    @classmethod
    def parse(cls, words: Mapping[str, str], report: JobReport) -> LogQuery:
        """Return the query of the parameters of an address.

        Raises:
            ValueError: one is invalid; the message is a sentence.
            UserError: the job has no such task.
        """
        start, is_backwards = _parse_start(words)
        return cls(
            words={name: words[name] for name in ("task", "stream", "session", "text") if words.get(name)},
            selection=_parse_selection(words, report),
            text=words.get("text", ""),
            start=start,
            is_backwards=is_backwards,
            shows_context=bool(words.get("at")),
        )

    def find_tasks(self, report: JobReport) -> list[str]:
        """Return the selected tasks."""
        chosen = self.selection.tasks
        return [each.task for each in report.tasks if chosen is None or each.task in chosen]

    @property
    def is_at_end(self) -> bool:
        """True if these are the newest lines."""
        return self.is_backwards and self.start is None


def _parse_selection(words: Mapping[str, str], report: JobReport) -> Selection:
    task, stream, session = (words.get(name, "") for name in ("task", "stream", "session"))
    tasks = select_named_tasks(report.job, [each.id for each in report.tasks], (task,) if task else ())
    if stream not in ("", *STREAMS):
        raise ValueError(f"stream: {stream[:60]!r} is not out or err.")
    selection = Selection(tasks=tasks, streams=(stream,) if stream else STREAMS, is_newest_only=not session)
    if session in ("", ALL_SESSIONS):
        return selection
    if not (session.isascii() and session.isdigit() and len(session) < 10 and 0 < int(session) <= MAX_SESSION):
        raise ValueError(f"session: {session[:60]!r} is not a number from 1 on, or {ALL_SESSIONS}.")
    return replace(selection, session=int(session))


def _parse_start(words: Mapping[str, str]) -> tuple[LogPosition | None, bool]:
    """Return the start position, and whether lines before it are meant."""
    given = [name for name in ("before", "after", "at", "since") if words.get(name)]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} exclude each other.")
    if not given:
        return None, True
    text = words[given[0]]
    if given[0] == "after" and text == START:
        return None, False
    if given[0] == "since":
        return LogPosition(moment=max(0, int(_parse_time(text) * PER_SECOND))), False
    try:
        return LogPosition.parse(text), given[0] == "before"
    except ValueError as error:
        raise ValueError(f"{given[0]}: {error}.") from None


def _parse_time(text: str) -> float:
    """Parse how long ago (`10m`), or an ISO 8601 date or time, UTC by default, as seconds since 1970."""
    try:
        return clock.wall() - parse_duration(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(
            f"since: {text[:60]!r} is not a time; write how long ago (10m), 2026-01-31 or 2026-01-31T18:00."
        ) from None
