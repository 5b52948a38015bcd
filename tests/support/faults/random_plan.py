"""Random fault plans, to find unforeseen failures. The same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.faults import plan as fault
from tony.model.ids import TaskId
from tony.model.states import JobState

_SHARES = (0.05, 0.1, 0.3, 1.0)
_STATES = (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING, JobState.STOPPING)


def random_plan(
    seed: int, tasks: Sequence[TaskId], *, faults: int = 3, events: int = 60, longest: float = 5.0
) -> fault.FaultPlan:
    """Return a plan with random faults for a job's processes.

    Args:
        tasks: of the job.
        faults: maximum number of faults; there is at least one.
        events: approximate number of events in the job's log.
        longest: maximum duration of a fault, and maximum time until it begins, in seconds.
    """
    chance = random.Random(seed)
    made = [_inject(chance, tasks, events, longest) for _ in range(chance.randint(1, faults))]
    return fault.FaultPlan(faults=tuple(made), seed=seed)


def _inject(chance: random.Random, tasks: Sequence[TaskId], events: int, longest: float) -> fault.PlannedFault:
    if chance.random() < 0.1:
        stage = chance.choice(list(fault.EventStage))
        moment = fault.Within(seq=chance.randint(1, events), stage=stage)
        return fault.PlannedFault(
            harm=fault.Kill(), target=fault.FaultTarget(part=fault.ProcessKind.MASTER), moment=moment
        )
    harm = _harm(chance, longest)
    on_the_way = isinstance(harm, fault.Partition | fault.Drop | fault.Delay | fault.Duplicate)
    target = (
        fault.FaultTarget(part=fault.ProcessKind.EXECUTOR, task=chance.choice(tasks))
        if on_the_way
        else _target(chance, tasks)
    )
    lasts = None if isinstance(harm, fault.Kill) else _seconds(chance, longest)
    later = chance.choice((0.0, 0.0, _seconds(chance, longest / 2)))
    return fault.PlannedFault(
        harm=harm, target=target, moment=_moment(chance, tasks, events, longest), later=later, lasts=lasts
    )


def _harm(chance: random.Random, longest: float) -> fault.Harm:
    share, traffic = chance.choice(_SHARES), chance.choice(list(fault.Traffic))
    harms: tuple[fault.Harm, ...] = (
        fault.Kill(),
        fault.Kill(),
        fault.Stop(),
        fault.Slow(share=chance.choice(_SHARES[:3])),
        fault.Partition(),
        fault.FillDisk(),
        fault.Drop(share=share, traffic=traffic),
        fault.Delay(seconds=_seconds(chance, longest / 4), share=share, traffic=traffic),
        fault.Duplicate(share=share, traffic=traffic),
    )
    return chance.choice(harms)


def _target(chance: random.Random, tasks: Sequence[TaskId]) -> fault.FaultTarget:
    part = chance.choice(
        (
            fault.ProcessKind.PROGRAM,
            fault.ProcessKind.PROGRAM,
            fault.ProcessKind.EXECUTOR,
            fault.ProcessKind.EXECUTOR,
            fault.ProcessKind.WATCHDOG,
            fault.ProcessKind.MASTER,
        )
    )
    if part is fault.ProcessKind.MASTER:
        return fault.FaultTarget(part=part)
    if chance.random() < 0.3:
        return fault.FaultTarget(part=part, any_of=chance.choice(("", chance.choice(tasks).role)))
    return fault.FaultTarget(part=part, task=chance.choice(tasks))


def _moment(chance: random.Random, tasks: Sequence[TaskId], events: int, longest: float) -> fault.Moment:
    session = chance.choice((None, 1, 2))
    moments: tuple[fault.Moment, ...] = (
        fault.AtStart(),
        fault.AfterTime(seconds=_seconds(chance, longest)),
        fault.AfterEvent(seq=chance.randint(1, events)),
        fault.SessionOpens(session=chance.choice((1, 2))),
        fault.TaskDid(task=chance.choice(tasks), step=chance.choice(list(fault.TaskMilestone)), session=session),
        fault.JobIs(state=chance.choice(_STATES)),
    )
    return chance.choice(moments)


def _seconds(chance: random.Random, longest: float) -> float:
    """Return whole milliseconds, which the text format preserves exactly."""
    return chance.randint(1, max(1, int(longest * 1000))) / 1000
