"""Restores the state of a job from the event logs of earlier AM attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tony import clock
from tony.clock import JobClock
from tony.core.application import Application
from tony.core.events import Event, KillRequested
from tony.errors import InvalidTransitionError, PlatformError, RecordError
from tony.history.event_log import read, segments
from tony.history.job_record import KillRequest, load_kill_request
from tony.history.replay import replay
from tony.model.actor import Actor
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.schedulers.allocator_interface import KnownContainer


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
    except (RecordError, InvalidTransitionError) as error:
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
            memory=held.memory,
            task=held.task,
            executor_pid=state.tasks[held.task].executor_pid if held.task else None,
        )
        for held in state.containers.values()
    ]


#: Seconds between checks: a client may have found the AM suspended, or not yet listening.
_POLL_SECONDS = 1.0


async def apply_stored_kill_requests(folder: JobFolder, feed: Callable[[Event], None]) -> None:
    """Feed a stored request, and later ones. Runs until it is cancelled; start it before the job runs."""
    obeyed: KillRequest | None = None
    while True:
        request = load_kill_request(folder)
        if request and request != obeyed:
            feed(KillRequested(actor=Actor(request.actor), now=request.now))
            obeyed = request
        await asyncio.sleep(_POLL_SECONDS)
