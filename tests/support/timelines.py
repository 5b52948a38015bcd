"""The timeline of a whole log."""

from collections.abc import Iterable

from tony.history.event_log import LogEntry
from tony.history.timeline import Timeline, TimelineReader
from tony.model.submission_record import JobRecord


def timeline(record: JobRecord, entries: Iterable[LogEntry], until: float | None = None) -> Timeline:
    """Build the timeline of a job.

    Args:
        until: for a running job, the current time in seconds since it was accepted.
    """
    reader = TimelineReader(record)
    for entry in entries:
        reader.take(entry)
    return reader.timeline(until)
