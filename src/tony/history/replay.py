"""Replay an event log on a fresh state machine: the same events must lead to the same state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tony.core.application import Application
from tony.core.events import AttemptStarted, Snapshot
from tony.core.state_digest import MACHINE
from tony.errors import InvalidTransitionError
from tony.history.event_log import LogEntry, settings_digest
from tony.model.job_spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay.

    Attributes:
        app: the state machine after the last event.
        events: number of replayed events.
        checked: number of compared state digests; digests logged by another version of the state machine are skipped.
        mismatch: the first difference between log and state machine, one sentence; None if they agree.
        last_at, last_wall: times of the last event.
    """

    app: Application
    events: int
    checked: int
    mismatch: str | None
    last_at: float
    last_wall: float


def find_gap(entry: LogEntry, previous: int, spec: JobSpec) -> str | None:
    """Return why `entry` does not follow event number `previous` of this job; None if it does.

    Beyond a missing event, or with other settings, a state machine may decide otherwise than the AM did.
    """
    if entry.seq != previous + 1:
        return f"event {previous + 1} is missing: the next event is {entry.seq}"
    if isinstance(entry.event, AttemptStarted) and entry.event.settings != settings_digest(spec):
        return f"event {entry.seq}: the log was written with other settings than those of this job"
    return None


def replay(
    job_id: str,
    spec: JobSpec,
    entries: Iterable[LogEntry],
    watch: Callable[[LogEntry, Application], None] | None = None,
) -> Replay:
    """Replay the whole log; stop at the first mismatch.

    Args:
        spec: the job of the log, with or without its secrets.
        watch: called after each event.
    """
    app = Application(job_id, spec)
    events = checked = 0
    at = wall = 0.0
    mismatch = None
    for entry in entries:
        mismatch = find_gap(entry, events, spec)
        if mismatch:
            break
        if isinstance(entry.event, Snapshot) and entry.event.digest.startswith(f"{MACHINE}-"):
            checked += 1
            if app.compute_digest() != entry.event.digest:
                mismatch = f"the replayed state before event {entry.seq} differs from the recorded one"
                break
        try:
            app.handle(entry.event, entry.at)
        except InvalidTransitionError as error:
            mismatch = f"event {entry.seq} ({entry.event.kind}): {error}"
            break
        events, at, wall = entry.seq, entry.at, entry.wall
        if watch:
            watch(entry, app)
    return Replay(app=app, events=events, checked=checked, mismatch=mismatch, last_at=at, last_wall=wall)
