"""What is asked of a job that runs, on somebody's word: its next session, where its programs stand, how much it logs.

Each leaves an event that names who has asked. `killing` ends a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tony import clock
from tony.errors import ConnectionFailed, InfraError, ProtocolError, UserError
from tony.history.job_record import record_of
from tony.jobs import facts
from tony.jobs.am_client import PATIENCE, ask_all_stacks, tell_log_level, tell_restart
from tony.jobs.failure_text import outcome
from tony.jobs.log_names import named_tasks
from tony.jobs.whoami import user_name
from tony.model.job_report import JobReport
from tony.model.layout import Home
from tony.model.states import LIVING_TASK_STATES, JobState
from tony.protocol.error_codes import Code
from tony.protocol.messages import Stacks

_LOOK_AGAIN = 0.05
#: What is said of a job that has ended, for each of them.
NOT_RESTARTED = "there is no session to restart; submit it again"
NO_STACKS = "none of its programs runs any more"
NOTHING_LOGS = "none of its processes logs any more"


async def restart(home: Home, job_id: str) -> JobReport:
    """Ends the job's session and begins the next one, for which no restart is charged.

    Returns once that is on its way.

    Returns:
        The job as it stood just before.

    Raises:
        UnknownJobError: there is no such job.
        UserError: it has ended, or there is no session now that could be restarted.
        ConnectionFailed: its application master cannot be reached.
    """
    session: int | None = None

    async def tell(report: JobReport) -> None:
        nonlocal session
        if session is not None and (report.session > session or report.state is JobState.RESTARTING):
            return  # a master that went away without an answer has obeyed nevertheless
        session = report.session
        try:
            await tell_restart(home.job(job_id), user_name())
        except ProtocolError as error:
            if error.code != Code.BUSY:
                raise
            raise UserError(f"job {job_id} ({report.name}): {error}; see: tony status {job_id}") from error

    return await _told(home, job_id, NOT_RESTARTED, tell)


async def set_log_level(home: Home, job_id: str, level: str) -> JobReport:
    """Has the job's application master and executors log from `level` on. Answers and raises as `restart`."""

    async def tell(report: JobReport) -> None:
        await tell_log_level(home.job(job_id), level, user_name())

    return await _told(home, job_id, NOTHING_LOGS, tell)


async def stacks(home: Home, job_id: str, words: Sequence[str] = ()) -> AsyncGenerator[Stacks, None]:
    """Where the programs of tasks stand, one task after the other; of one where nothing can be told, why not.

    Args:
        words: tasks such as `worker:0`, and roles; without any, all tasks whose programs run.

    Raises:
        UnknownJobError: there is no such job.
        UserError: it has no such task, or has ended.
        InfraError: none of its programs runs now.
        ConnectionFailed: its application master cannot be reached.
    """
    chosen = named_tasks(job_id, record_of(home, job_id).spec.task_ids, words)
    report = await facts.load_report(home, job_id)
    try:
        async with aclosing(ask_all_stacks(home.job(job_id), user_name(), select_tasks(report, chosen))) as answers:
            async for told in answers:
                yield told
    except ConnectionFailed as error:
        if error.gone:
            require_running(await facts.load_report(home, job_id), NO_STACKS)
        raise


def select_tasks(report: JobReport, chosen: frozenset[str] | None) -> list[str]:
    """The tasks that are to be asked where they stand; those whose programs run, if none is named.

    Raises:
        UserError: the job has ended.
        InfraError: no program of it runs now.
    """
    require_running(report, NO_STACKS)
    if chosen is not None:
        return [each.task for each in report.tasks if each.task in chosen]
    running = [each.task for each in report.tasks if each.state in LIVING_TASK_STATES]
    if not running:
        raise InfraError(f"{_standing(report)}: none of its programs runs now; see: tony status {report.job}")
    return running


def require_running(report: JobReport, otherwise: str) -> None:
    """Says how a job has ended of which something is asked that only one can do that runs.

    Raises:
        UserError: it has ended.
    """
    if report.state.ended:
        raise UserError(f"{outcome(report)}: {otherwise}")


def _standing(report: JobReport) -> str:
    why = f" ({report.waiting})" if report.waiting else ""
    return f"job {report.job} ({report.name}) is {report.state.value}{why}"


async def _told(home: Home, job_id: str, otherwise: str, tell: Callable[[JobReport], Awaitable[None]]) -> JobReport:
    """Tells the job's master something, which may be coming up just now, or handing over to another one."""
    give_up = clock.monotonic() + PATIENCE
    first: JobReport | None = None
    while True:
        report = await facts.load_report(home, job_id)
        first = first or report
        require_running(report, otherwise)
        try:
            await tell(report)
            return first
        except ConnectionFailed as error:
            late = clock.monotonic() > give_up
            if error.gone and late and report.am is None:
                raise ConnectionFailed(
                    f"{_standing(report)}: nobody could be told; see: tony status {job_id}"
                ) from error
            if not error.gone or late:
                raise
        await asyncio.sleep(_LOOK_AGAIN)
