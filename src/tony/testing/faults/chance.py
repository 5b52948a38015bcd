"""Plans by lot: for rehearsals of what nobody thought of. The same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tony.model.ids import TaskId
from tony.model.states import JobState
from tony.testing.faults.plan import (
    AfterEvent,
    AfterTime,
    Delay,
    Drop,
    Duplicate,
    FillDisk,
    FromTheStart,
    Harm,
    JobIs,
    Kill,
    Moment,
    Part,
    Partition,
    Plan,
    SessionOpens,
    Slow,
    Stage,
    Step,
    Stop,
    Strike,
    Target,
    TaskDid,
    Traffic,
    Within,
)

_SHARES = (0.05, 0.1, 0.3, 1.0)
_STATES = (JobState.STARTING, JobState.RUNNING, JobState.RESTARTING, JobState.STOPPING)


def random_plan(
    seed: int, tasks: Sequence[TaskId], *, strikes: int = 3, events: int = 60, longest: float = 5.0
) -> Plan:
    """Some strikes among a job's processes.

    Args:
        tasks: of the job.
        strikes: how many at most; at least one.
        events: how many the job's log is about to have.
        longest: seconds that a strike lasts at most, and after which it begins at the latest.
    """
    chance = random.Random(seed)
    made = [_strike(chance, tasks, events, longest) for _ in range(chance.randint(1, strikes))]
    return Plan(strikes=tuple(made), seed=seed)


def _strike(chance: random.Random, tasks: Sequence[TaskId], events: int, longest: float) -> Strike:
    if chance.random() < 0.1:
        stage = chance.choice(list(Stage))
        moment = Within(seq=chance.randint(1, events), stage=stage)
        return Strike(harm=Kill(), target=Target(part=Part.MASTER), moment=moment)
    harm = _harm(chance, longest)
    on_the_way = isinstance(harm, Partition | Drop | Delay | Duplicate)
    target = Target(part=Part.EXECUTOR, task=chance.choice(tasks)) if on_the_way else _target(chance, tasks)
    lasts = None if isinstance(harm, Kill) else _seconds(chance, longest)
    later = chance.choice((0.0, 0.0, _seconds(chance, longest / 2)))
    return Strike(harm=harm, target=target, moment=_moment(chance, tasks, events, longest), later=later, lasts=lasts)


def _harm(chance: random.Random, longest: float) -> Harm:
    share, traffic = chance.choice(_SHARES), chance.choice(list(Traffic))
    harms: tuple[Harm, ...] = (
        Kill(),
        Kill(),
        Stop(),
        Slow(share=chance.choice(_SHARES[:3])),
        Partition(),
        FillDisk(),
        Drop(share=share, traffic=traffic),
        Delay(seconds=_seconds(chance, longest / 4), share=share, traffic=traffic),
        Duplicate(share=share, traffic=traffic),
    )
    return chance.choice(harms)


def _target(chance: random.Random, tasks: Sequence[TaskId]) -> Target:
    part = chance.choice((Part.PROGRAM, Part.PROGRAM, Part.EXECUTOR, Part.EXECUTOR, Part.WATCHDOG, Part.MASTER))
    if part is Part.MASTER:
        return Target(part=part)
    if chance.random() < 0.3:
        return Target(part=part, any_of=chance.choice(("", chance.choice(tasks).role)))
    return Target(part=part, task=chance.choice(tasks))


def _moment(chance: random.Random, tasks: Sequence[TaskId], events: int, longest: float) -> Moment:
    session = chance.choice((None, 1, 2))
    moments: tuple[Moment, ...] = (
        FromTheStart(),
        AfterTime(seconds=_seconds(chance, longest)),
        AfterEvent(seq=chance.randint(1, events)),
        SessionOpens(session=chance.choice((1, 2))),
        TaskDid(task=chance.choice(tasks), step=chance.choice(list(Step)), session=session),
        JobIs(state=chance.choice(_STATES)),
    )
    return chance.choice(moments)


def _seconds(chance: random.Random, longest: float) -> float:
    """Whole milliseconds: they are the same again when they were written and read."""
    return chance.randint(1, max(1, int(longest * 1000))) / 1000
