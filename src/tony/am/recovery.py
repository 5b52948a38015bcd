"""What an application master takes over from those before it: the job as their event logs leave it."""

from __future__ import annotations

from tony import clock
from tony.am.job_clock import JobClock
from tony.core.application import Application
from tony.dataclass import dataclass
from tony.errors import InvalidTransition, PlatformError, RecordError
from tony.history.event_log import read, segments
from tony.history.replay import replay
from tony.model.job_record import JobRecord
from tony.model.layout import JobFolder
from tony.schedulers.interface import KnownContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """Where the job stands.

    Attributes:
        app: the machine, which knows all that was logged.
        next_seq: number of the next event.
        clock: the job's own time, which goes on.
    """

    app: Application
    next_seq: int
    clock: JobClock


def recover_state(folder: JobFolder, record: JobRecord) -> RecoveredState:
    """Reads what earlier attempts have logged; of a job that begins there is nothing.

    Raises:
        PlatformError: their logs cannot be trusted.
        StorageError: they cannot be read.
    """
    logs = segments(folder.path)
    if not logs:
        app = Application(record.job_id, record.spec)
        return RecoveredState(app=app, next_seq=1, clock=JobClock(clock.wall() - record.submitted))
    try:
        result = replay(record.job_id, record.spec, read(logs))
    except (RecordError, InvalidTransition) as error:
        raise PlatformError(f"the event log of the attempts before cannot be read: {error}") from error
    if result.mismatch:
        raise PlatformError(f"the event log of the attempts before does not fit this program: {result.mismatch}")
    if not result.events:
        since = clock.wall() - record.submitted
    else:
        since = result.last_at + max(0.0, clock.wall() - result.last_wall)
    return RecoveredState(app=result.app, next_seq=result.events + 1, clock=JobClock(since))


def known_containers(app: Application) -> list[KnownContainer]:
    """Those that were granted and have not ended, as far as the log says."""
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
