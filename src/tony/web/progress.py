"""How far a job is, and when it may end, from what its programs told of their steps."""

from __future__ import annotations

from collections.abc import Container

from tony.dataclass import dataclass
from tony.history.marks import Progress, share_of
from tony.history.metrics import Metrics
from tony.history.timeline import Timeline
from tony.linux.threads import beside
from tony.model.report import JobReport
from tony.model.states import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The slowest of the tasks that told something: a gang is as far as that one. What succeeded is not slow.

    Attributes:
        share: 0 to 1; None where no program says how many steps there will be, or it has succeeded with less.
        rate: steps a second, since its first one.
        left: seconds, if it goes on so; None if that is not known, or it is over.
        age: seconds since it told something last; None if it is over.
        tasks: that told something in the last session.
    """

    task: str
    step: float
    total: float | None
    share: float | None
    rate: float | None
    left: float | None
    age: float | None
    tasks: int


async def progress_of(metrics: Metrics, line: Timeline | None, report: JobReport) -> JobProgress | None:
    """What is known of it; None without a word of any program.

    Args:
        metrics: is closed.
        line: of a job that runs.
    """
    told = await beside(_told, metrics)
    done = report.state is JobState.SUCCEEDED
    succeeded = {task.task for task in report.tasks if done or task.state is TaskState.SUCCEEDED}
    if line is None or line.ended is not None:
        return judge(told, None, succeeded=succeeded)
    return judge(told, line.until, line.sessions[-1].number if line.sessions else 0, succeeded)


def _told(metrics: Metrics) -> list[Progress]:
    with metrics:
        return list(metrics.progress())


def judge(
    told: list[Progress], now: float | None, session: int = 0, succeeded: Container[str] = ()
) -> JobProgress | None:
    """The same of what was told.

    Args:
        now: seconds since the job was accepted; None for one that has ended.
        session: that runs; until a program of it told something, how far the one before came says nothing any more.
        succeeded: tasks that have, or all of them if the job has.
    """
    session = max([session, *(each.session for each in told)])
    last: dict[str, Progress] = {}
    for each in told:
        if each.session == session and (each.task not in last or each.try_ >= last[each.task].try_):
            last[each.task] = each
    if not last:
        return None
    shares = {name: share_of(each.step, each.total, succeeded=name in succeeded) for name, each in last.items()}

    def place(each: Progress) -> tuple[bool, float, float]:
        share = shares[each.task]
        return each.task in succeeded, 2.0 if share is None else share, each.step

    slowest = min(last.values(), key=place)
    if slowest.task in succeeded:
        now = None
    span = slowest.at - slowest.first_at
    rate = (slowest.step - slowest.first_step) / span if slowest.first_at >= 0 and span > 0 else None
    left = None
    if now is not None and rate and rate > 0 and slowest.total:
        left = max(0.0, (slowest.total - slowest.step) / rate - (now - slowest.at))
    return JobProgress(
        task=slowest.task,
        step=slowest.step,
        total=slowest.total,
        share=shares[slowest.task],
        rate=rate if rate and rate > 0 else None,
        left=left,
        age=None if now is None else max(0.0, now - slowest.at),
        tasks=len(last),
    )
