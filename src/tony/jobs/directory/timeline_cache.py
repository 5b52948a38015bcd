"""The timeline and goodput of a job directory, read on as its event log grows."""

from __future__ import annotations

import threading

from tony import clock
from tony.errors import OverloadedError
from tony.history import event_log
from tony.history.event_log import EventTail
from tony.history.goodput import GoodputLedger, ledger
from tony.history.metrics_reader import Metrics
from tony.history.timeline import Timeline, TimelineReader, with_checkpoints
from tony.linux.thread_pools import get_current_user, lock_held
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord

#: A timeline counts as current for this many times the seconds that it took to build, and at least for so long.
_TIMELINE_COST_FACTOR = 20.0
_MIN_CURRENT_SECONDS = 1.0
#: Time limit for reading an event log in one request of a user, and events between two checks of the clock.
_MAX_READ_SECONDS = 20.0
_EVENTS_PER_CLOCK_CHECK = 1000


class TimelineCache:
    """The timeline and goodput of an event log, read incrementally by one thread at a time."""

    def __init__(self, folder: JobFolder, *, is_own: bool) -> None:
        self._folder = folder
        self._is_own = is_own
        self._lock = threading.Lock()
        self._reader: TimelineReader | None = None
        self._tail = EventTail(folder)
        self._events = 0
        self._loaded: tuple[Timeline, GoodputLedger] | None = None
        self._is_final = False
        self._current_until = 0.0

    def load(self, record: JobRecord, ended: bool) -> tuple[Timeline, GoodputLedger] | None:
        """Return the timeline and goodput so far; None if there are no events."""
        with lock_held(self._lock, f"the event log of {self._folder.job_id} is being read"):
            if self._is_final or clock.monotonic() < self._current_until:
                return self._loaded
            started_at = clock.monotonic()
            if not self._is_own:
                event_log.check_foreign_length(self._folder.path)
            if self._reader is None:
                self._reader = TimelineReader(record)
            for entry in self._tail.read_new():
                self._reader.take(entry)
                self._events += 1
                if (
                    get_current_user() is not None
                    and not self._events % _EVENTS_PER_CLOCK_CHECK
                    and clock.monotonic() - started_at > _MAX_READ_SECONDS
                ):
                    raise OverloadedError(
                        f"the event log of {self._folder.job_id} is long: {self._events:,} events read so far. "
                        "Reload to continue."
                    )
            if not self._events:
                return None
            line = self._reader.timeline()
            if not ended:
                line = self._reader.timeline(clock.wall() - line.accepted)
            self._loaded = self._add_metrics(line)
            if ended:
                self._is_final, self._reader = True, None
            # Limits repeated rebuilding to a small share of a core, however large the job.
            cost = clock.monotonic() - started_at
            self._current_until = clock.monotonic() + max(_MIN_CURRENT_SECONDS, _TIMELINE_COST_FACTOR * cost)
            return self._loaded

    def _add_metrics(self, line: Timeline) -> tuple[Timeline, GoodputLedger]:
        with Metrics(self._folder.metrics, own=self._is_own) as metrics:
            if not metrics.known:
                return line, ledger(line)
            line = with_checkpoints(
                line, [(checkpoint.task, checkpoint.until, checkpoint.step) for checkpoint in metrics.checkpoints()]
            )
            return line, ledger(line, metrics)
