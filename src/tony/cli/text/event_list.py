"""Events as text, one line each."""

from __future__ import annotations

from tony.cli.terminal.terminal_text import clock_time, safe
from tony.history.event_log import LogEntry
from tony.jobs.event_text import EventWords, name_event


class EventTeller:
    """Formats the events of a job, in order."""

    def __init__(self) -> None:
        self._words = EventWords()

    def line(self, entry: LogEntry) -> str:
        """Return an event as text: `12:03:04     +0.412  registered         worker:0 at node1:41233 for session 1`."""
        text = self._words.describe(entry.event)
        return safe(f"{clock_time(entry.wall)}  {entry.at:+9.3f}  {name_event(entry.event):17}  {text}".rstrip())
