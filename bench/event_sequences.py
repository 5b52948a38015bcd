"""What happens to jobs of thousands of tasks, as events for the machine: an ordinary life, and one full of trouble."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.history.event_log import settings_digest
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import FailurePolicy

_ROLE = "worker"
#: Seconds. Far more than a life takes here, so that deadlines are set and cancelled, and pass only when time jumps.
_EXECUTION = 86400.0
_TIMEOUTS = Timeouts(startup=3600.0, execution=_EXECUTION)
_OK = ExitStatus(reason=ExitReason.EXITED, code=0)
_FAILED = ExitStatus(reason=ExitReason.EXITED, code=1)
_STOPPED = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")

#: Events with the time, in seconds, at which each happens.
Story = Iterator[tuple[ev.Event, float]]


def ordinary_spec(tasks: int) -> JobSpec:
    """A gang that may restart once."""
    return JobSpec(command="true", roles={_ROLE: Role(instances=tasks)}, max_restarts=1, timeouts=_TIMEOUTS)


def ordinary(tasks: int) -> Story:
    """A gang fails, restarts in its containers, and succeeds: ten events for each task, in random order."""
    return _timed(_ordinary(tasks))


def troubled_spec(tasks: int) -> JobSpec:
    """One task that counts, and many whose failures are tolerated."""
    roles = {"chief": Role(instances=1), _ROLE: Role(instances=tasks)}
    return JobSpec(
        command="true", roles=roles, failure_policy=FailurePolicy.CHIEF_OR_ALL, timeouts=_TIMEOUTS, max_restarts=1
    )


def troubled(tasks: int) -> Story:
    """Every launch fails once; the pending reason changes each time; half of the executors stop sending heartbeats,
    and the programs of the others exceed their time limit; then a user kills the job."""
    events = _timed(_troubled(tasks))
    for event, at in events:
        yield event, at + (_EXECUTION if isinstance(event, ev.DeadlinePassed | ev.KillRequested) else 0.0)


def _timed(events: Iterator[ev.Event]) -> Story:
    for number, event in enumerate(events):
        yield event, number / 1000


def _begin(spec: JobSpec) -> Iterator[ev.Event]:
    yield ev.AttemptStarted(attempt=1, wall=1_700_000_000.0, settings=settings_digest(spec), pid=1, host="am")
    yield ev.ContainersFound(containers=())
    yield ev.ReconcileClosed()
    yield ev.SessionOpened(session=1, reason="the job begins")


def _ordinary(tasks: int) -> Iterator[ev.Event]:
    chance = random.Random(1)
    order = list(range(tasks))
    yield from _begin(ordinary_spec(tasks))
    for index in order:
        yield ev.Granted(container=f"c-{index}", role=_ROLE, host=f"host-{index % 100}")
    for session in (1, 2):
        for happens in (_registered, _started, _first_output, _exited):
            if happens is not _exited or session == 2:  # the first to end in the first session is the one that fails
                chance.shuffle(order)
            else:
                order.sort()
            for index in order:
                yield happens(index, session)
        if session == 1:
            yield ev.SessionOpened(session=2, reason="worker:0 failed")
    for index in order:
        yield ev.ContainerEnded(container=f"c-{index}", cause="released")


def _registered(index: int, session: int, container: str = "", role: str = _ROLE) -> ev.Event:
    container = container or f"c-{index}"
    return ev.Registered(
        task=TaskId(role, index),
        container=container,
        incarnation=f"i-{container}",
        session=session,
        address=f"host-{index % 100}:{20000 + index}",
        pid=1000 + index,
    )


def _started(index: int, session: int, role: str = _ROLE) -> ev.Event:
    return ev.Started(task=TaskId(role, index), session=session, try_=1, pid=50000 + index)


def _first_output(index: int, session: int) -> ev.Event:
    return ev.FirstOutput(task=TaskId(_ROLE, index), session=session, try_=1)


def _exited(index: int, session: int) -> ev.Event:
    status = _OK if session == 2 else _STOPPED if index else _FAILED
    return ev.Exited(task=TaskId(_ROLE, index), session=session, try_=1, status=status, at=0.0)


def _troubled(tasks: int) -> Iterator[ev.Event]:
    yield from _begin(troubled_spec(tasks))
    yield ev.Granted(container="chief", role="chief", host="host")
    for index in range(tasks):
        yield ev.Queued(reason=f"behind {index} other jobs" if index % 2 else "")
    for index in range(tasks):
        yield ev.Granted(container=f"a-{index}", role=_ROLE, host="host")
    for index in range(tasks):
        yield ev.ActionFailed(action="launch", cause="the node refused it", container=f"a-{index}")
    for index in range(tasks):
        yield ev.Granted(container=f"c-{index}", role=_ROLE, host="host")
    yield _registered(0, 1, "chief", "chief")
    for index in range(tasks):
        yield _registered(index, 1)
    yield _started(0, 1, "chief")
    for index in range(tasks):
        yield _started(index, 1)
    half = tasks // 2
    for index in range(half):
        yield ev.Silent(task=TaskId(_ROLE, index), incarnation=f"i-c-{index}", silence=30.0, container=f"c-{index}")
    for index in range(half, tasks):
        yield ev.DeadlinePassed(deadline=Deadline.parse(f"execution:{_ROLE}:{index}"))
    yield ev.KillRequested(actor=Actor("ann"))
