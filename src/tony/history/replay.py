"""Feeds an event log to a fresh machine: the same events must lead to the same state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tony.core.application import Application
from tony.core.events import AttemptStarted, Snapshot
from tony.core.state_digest import MACHINE
from tony.dataclass import dataclass
from tony.errors import InvalidTransition
from tony.history.event_log import LogEntry, settings_digest
from tony.model.job_spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came out.

    Attributes:
        app: the machine after the last event.
        events: how many were fed; checked: how many digests were compared. Those that a machine of another version
            has logged are not.
        mismatch: where log and machine differ first, one sentence; None if they agree.
        last_at, last_wall: of the last event.
    """

    app: Application
    events: int
    checked: int
    mismatch: str | None
    last_at: float
    last_wall: float


def _is_ours(digest: str) -> bool:
    version, dash, _ = digest.partition("-")
    return not dash or version == str(MACHINE)


def replay(
    job_id: str,
    spec: JobSpec,
    entries: Iterable[LogEntry],
    watch: Callable[[LogEntry, Application], None] | None = None,
) -> Replay:
    """Runs the whole log. Stops at the first mismatch.

    Args:
        spec: the job that the log was made with, with or without its secrets.
        watch: called after each event, for those who want to see every step.
    """
    app = Application(job_id, spec)
    events = checked = 0
    at = wall = 0.0
    mismatch = None
    for entry in entries:
        if entry.seq != events + 1:
            mismatch = f"event {events + 1} is missing: the next one is {entry.seq}"
            break
        if isinstance(entry.event, AttemptStarted) and entry.event.settings != settings_digest(spec):
            mismatch = f"event {entry.seq}: the log was made with other settings than those of this job"
            break
        if isinstance(entry.event, Snapshot) and _is_ours(entry.event.digest):
            checked += 1
            if app.digest() != entry.event.digest:
                mismatch = f"the state before event {entry.seq} is not the one that was recorded there"
                break
        try:
            app.handle(entry.event, entry.at)
        except InvalidTransition as error:
            mismatch = f"event {entry.seq} ({entry.event.kind}): {error}"
            break
        events, at, wall = entry.seq, entry.at, entry.wall
        if watch:
            watch(entry, app)
    return Replay(app=app, events=events, checked=checked, mismatch=mismatch, last_at=at, last_wall=wall)
