"""User commands to a running job other than `kill`: restart, stack traces, log level.

The event log records who requested each. See `killing` for ending a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tony import clock
from tony.errors import ConnectionFailed, InfraError, ProtocolError, UserError
from tony.history.job_record import record_of
from tony.jobs.am_client import ANSWER_TIMEOUT_SECONDS, ask_all_stacks, tell_log_level, tell_restart
from tony.jobs.logs.log_names import select_named_tasks
from tony.jobs.status import job_status
from tony.jobs.whoami import get_user_name
from tony.model.job_report import JobReport
from tony.model.layout import Home
from tony.model.states import LIVING_TASK_STATES, JobState
from tony.protocol.error_codes import Code
from tony.protocol.messages import LOG_LEVELS, Stacks
from tony.units import format_duration

_POLL_SECONDS = 0.05
#: Beginnings of the error for a job that has ended.
NOT_RESTARTED = "there is no session to restart, submit the job again"
NO_STACKS = "no task is running"
NOTHING_LOGS = "no process of the job is running"


async def restart(home: Home, job_id: str, actor: str = "") -> JobReport:
    """Restart a job: end its session and open the next one. This does not count against max_restarts.

    Returns once the AM has accepted the command.

    Args:
        actor: who restarts it; default: the user of this process.

    Returns:
        The job's status just before.

    Raises:
        UnknownJobError: there is no such job.
        UserError: it has ended, or no session can be restarted now.
        ConnectionFailed: its AM cannot be reached.
    """
    session: int | None = None

    async def tell(report: JobReport) -> None:
        nonlocal session
        if session is not None and (report.session > session or report.state is JobState.RESTARTING):
            return  # the AM obeyed, although the connection ended without an answer
        session = report.session
        try:
            await tell_restart(home.job(job_id), actor or get_user_name())
        except ProtocolError as error:
            if error.code != Code.BUSY:
                raise
            raise UserError(f"job {job_id} ({report.name}): {error}; see: tony status {job_id}") from error

    return await _send_command(home, job_id, NOT_RESTARTED, tell)


async def set_log_level(home: Home, job_id: str, level: str, actor: str = "") -> JobReport:
    """Set the log level of a job's AM and executors. Returns and raises as `restart` does.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LOG_LEVELS:
        raise ValueError(f"level={level!r}: write one of {', '.join(LOG_LEVELS)}")

    async def tell(report: JobReport) -> None:
        await tell_log_level(home.job(job_id), level, actor or get_user_name())

    return await _send_command(home, job_id, NOTHING_LOGS, tell)


async def request_stacks(
    home: Home, job_id: str, words: Sequence[str] = (), actor: str = ""
) -> AsyncGenerator[Stacks, None]:
    """Yield the stack traces of tasks, one task after the other; without traces the answer says why.

    Args:
        words: tasks such as `worker:0`, and roles; empty for all running tasks.

    Raises:
        UnknownJobError: there is no such job.
        UserError: it has no such task, or has ended.
        InfraError: no task is running.
        ConnectionFailed: its AM cannot be reached.
    """
    chosen = select_named_tasks(job_id, record_of(home, job_id).spec.task_ids, words)
    report = await job_status.load_report(home, job_id)
    try:
        async with aclosing(
            ask_all_stacks(home.job(job_id), actor or get_user_name(), select_tasks(report, chosen))
        ) as answers:
            async for told in answers:
                yield told
    except ConnectionFailed as error:
        if error.gone:
            require_running(await job_status.load_report(home, job_id), NO_STACKS)
        raise


def select_tasks(report: JobReport, chosen: frozenset[str] | None) -> list[str]:
    """Return the tasks to get stack traces of: the chosen ones, or all running ones if None.

    Raises:
        UserError: the job has ended.
        InfraError: no task is running.
    """
    require_running(report, NO_STACKS)
    if chosen is not None:
        return [each.task for each in report.tasks if each.task in chosen]
    running = [each.task for each in report.tasks if each.state in LIVING_TASK_STATES]
    if not running:
        raise InfraError(f"{_describe_status(report)}: no task is running; see: tony status {report.job}")
    return running


def require_running(report: JobReport, otherwise: str) -> None:
    """Refuse a command to a job that has ended, saying when it ended.

    Raises:
        UserError: it has ended.
    """
    if report.state.ended:
        ago = "" if report.ended is None else f" {format_duration(max(0.0, clock.wall() - report.ended))} ago"
        raise UserError(f"{otherwise}: job {report.job} ({report.name}) {report.state.value}{ago}")


def _describe_status(report: JobReport) -> str:
    why = f" ({report.waiting})" if report.waiting else ""
    return f"job {report.job} ({report.name}) is {report.state.value}{why}"


async def _send_command(
    home: Home, job_id: str, otherwise: str, tell: Callable[[JobReport], Awaitable[None]]
) -> JobReport:
    """Send a command to the job's AM, retrying while it is starting or being replaced by another AM attempt."""
    give_up = clock.monotonic() + ANSWER_TIMEOUT_SECONDS
    first: JobReport | None = None
    while True:
        report = await job_status.load_report(home, job_id)
        first = first or report
        require_running(report, otherwise)
        try:
            await tell(report)
            return first
        except ConnectionFailed as error:
            late = clock.monotonic() > give_up
            if error.gone and late and report.am is None:
                raise ConnectionFailed(
                    f"{_describe_status(report)}: its application master is not running; see: tony status {job_id}"
                ) from error
            if not error.gone or late:
                raise
        await asyncio.sleep(_POLL_SECONDS)
