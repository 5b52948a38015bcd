"""What follows from the reported steps of a task or job: rate, remaining time, stalls. Pure.

Every page, command and API answer takes them from here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import asdict

from tony.model.progress import JobProgress, Progress, TaskProgress

#: A program is stalled when it has reported nothing for this many times the median time between its reports, and for at
#: least STALLED_AFTER_SECONDS; while the median is not known, for STALLED_AFTER_UNKNOWN_SECONDS.
STALLED_AFTER_INTERVALS = 5.0
STALLED_AFTER_SECONDS = 30.0
STALLED_AFTER_UNKNOWN_SECONDS = 600.0
#: A report is overdue after this share of the time until a stall: two usual pauses, but 12 s at least.
_OVERDUE_SHARE = 0.4


def share_of(step: float | None, total: float | None, *, succeeded: bool) -> float | None:
    """Return the completed share of the steps, 0 to 1; None if not known.

    A program that counts from 0 reports 49 of 50 last, and one that may stop early reports less: once a program has
    succeeded, anything but the whole is no information.
    """
    if step is None or not total:
        return None
    share = min(1.0, max(0.0, step / total))
    return None if succeeded and share < 1.0 else share


def is_stalled(progress: Progress, now: float) -> bool:
    """Return True if a running program has steps left and has reported nothing for too long."""
    if has_made_all(progress):
        return False
    return progress.stalled_after is not None and now - progress.at > progress.stalled_after


def is_overdue(progress: Progress, now: float) -> bool:
    """Return True if a running program has steps left and its next report should have arrived."""
    if progress.stalled_after is None or has_made_all(progress):
        return False
    # No usual pause is longer than the time of all reports: this bounds a limit that is not known yet.
    bound = max(STALLED_AFTER_SECONDS, STALLED_AFTER_INTERVALS * (progress.at - progress.first_at))
    return now - progress.at > _OVERDUE_SHARE * min(bound, progress.stalled_after)


def is_repeating(progress: Progress, now: float) -> bool:
    """Return True if a program that is not stalled has reported the same step for too long."""
    if progress.stalled_after is None or has_made_all(progress):
        return False
    return progress.at > progress.advanced_at and now - progress.advanced_at > progress.stalled_after


def has_made_all(progress: Progress) -> bool:
    """Return True if a program has made its last step. One whose first step was 0 reports 49 of 50 last.

    One that reports more than the total, such as the steps of all epochs and the total of one, never has.
    """
    if not progress.total or progress.step > progress.total:
        return False
    return progress.step >= (progress.total - 1 if progress.first_step == 0 else progress.total)


def find_step_seconds(progress: Progress) -> float | None:
    """Return the seconds per step, without stalls; None if not known."""
    if progress.first_at < 0:
        return None
    stalled = sum(until - since for since, until in progress.stalls if since < progress.advanced_at)
    spent, made = progress.advanced_at - progress.first_at - stalled, progress.step - progress.first_step
    return spent / made if spent > 0 and made > 0 else None


def measure_task(
    progress: Progress, now: float | None, *, succeeded: bool = False, stalled_task: str = ""
) -> TaskProgress:
    """Return the progress of a task.

    Args:
        now: seconds since the job was accepted, up to which its reports are known; None if its program does not run.
        succeeded: the task, or the whole job, has succeeded.
        stalled_task: the task that stalled ones wait for; empty if not known.
    """
    seconds = find_step_seconds(progress)
    age = None if now is None else max(0.0, now - progress.at)
    stalled = age if now is not None and is_stalled(progress, now) else None
    overdue = age if now is not None and stalled is None and is_overdue(progress, now) else None
    if now is not None and (stalled is not None or overdue is not None or is_repeating(progress, now)):
        seconds = None
    left = None
    if age is not None and seconds and progress.total and progress.step <= progress.total:
        remaining = (progress.total - progress.step) * seconds
        left = remaining - age if age < remaining else None if remaining else 0.0
    return TaskProgress(
        task=progress.task,
        step=progress.step,
        total=progress.total,
        share=share_of(progress.step, progress.total, succeeded=succeeded),
        rate=(progress.recent_rate or 1 / seconds) if seconds else None,
        left=left,
        age=age,
        overdue=overdue,
        stalled=stalled,
        waits_for="" if stalled is None or progress.task == stalled_task else stalled_task,
    )


def measure_job(
    reported: Iterable[Progress],
    now: float | None,
    session: int = 0,
    succeeded: Container[str] = (),
    running: Container[str] | None = None,
    stalled_task: str = "",
) -> JobProgress | None:
    """Return the progress of a job; None until a program of the session has reported a step.

    Args:
        now: as for `measure_task`; None for a job that has ended.
        session: the running session; progress of earlier ones does not count.
        succeeded: tasks that have succeeded, or all of them if the job has.
        running: tasks whose programs run; None for all that have not succeeded.
        stalled_task: as for `measure_task`.
    """
    newest = find_newest(reported, session)
    if not newest:
        return None
    tasks = [
        measure_task(
            progress,
            None if progress.task in succeeded or (running is not None and progress.task not in running) else now,
            succeeded=progress.task in succeeded,
            stalled_task=stalled_task,
        )
        for progress in newest
    ]

    def order(each: TaskProgress) -> tuple[bool, bool, bool, float, float]:
        share = 2.0 if each.share is None else each.share
        return each.task in succeeded, each.stalled is None, bool(each.waits_for), share, each.step

    slowest = min(tasks, key=order)
    return JobProgress(**asdict(slowest), tasks=len(tasks))


def find_newest(reported: Iterable[Progress], session: int = 0) -> list[Progress]:
    """Return the newest attempt of each task in a session, or in the last one with any reports."""
    known = [progress for progress in reported if progress.first_at >= 0]
    session = max([session, *(progress.session for progress in known)])
    newest: dict[str, Progress] = {}
    for progress in known:
        if progress.session == session and (progress.task not in newest or progress.try_ >= newest[progress.task].try_):
            newest[progress.task] = progress
    return list(newest.values())
