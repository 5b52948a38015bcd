"""Restores the state of a job from the event logs of earlier AM attempts."""

from __future__ import annotations

from dataclasses import dataclass

from tony import clock
from tony.am.job_clock import JobClock
from tony.core.application import Application
from tony.errors import InvalidTransition, PlatformError, RecordError
from tony.history.event_log import read, segments
from tony.history.replay import replay
from tony.model.layout import JobFolder
from tony.model.submission_record import JobRecord
from tony.schedulers.interface import KnownContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """The restored state of a job.

    Attributes:
        app: the state machine, after all logged events.
        next_seq: number of the next event.
        clock: the job's own time, continued.
    """

    app: Application
    next_seq: int
    clock: JobClock


def recover_state(folder: JobFolder, record: JobRecord) -> RecoveredState:
    """Read what earlier AM attempts have logged; for a new job the state is the initial one.

    Raises:
        PlatformError: their logs are damaged.
        StorageError: they cannot be read.
    """
    logs = segments(folder.path)
    if not logs:
        app = Application(record.job_id, record.spec)
        return RecoveredState(app=app, next_seq=1, clock=JobClock(clock.wall() - record.submitted))
    try:
        result = replay(record.job_id, record.spec, read(logs))
    except (RecordError, InvalidTransition) as error:
        raise PlatformError(f"the event log of earlier AM attempts cannot be read: {error}") from error
    if result.mismatch:
        raise PlatformError(f"the event log of earlier AM attempts cannot be replayed: {result.mismatch}")
    if not result.events:
        since = clock.wall() - record.submitted
    else:
        since = result.last_at + max(0.0, clock.wall() - result.last_wall)
    return RecoveredState(app=result.app, next_seq=result.events + 1, clock=JobClock(since))


def find_known_containers(app: Application) -> list[KnownContainer]:
    """Return the containers that were granted and have not ended, according to the log."""
    state = app.state
    return [
        KnownContainer(
            id=held.id,
            role=held.role,
            host=held.host,
            task=held.task,
            executor_pid=state.tasks[held.task].executor_pid if held.task else None,
        )
        for held in state.containers.values()
    ]
