"""Requests to a running job: kill, restart, log level, stack traces."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tony import clock
from tony.errors import ConnectionFailedError, InfraError, ProtocolError, UserError
from tony.history.job_record import KillRequest, build_pending_report, record_of, save_kill_request
from tony.jobs import am_client
from tony.jobs.am_client import ANSWER_TIMEOUT_SECONDS, locate_am, send_command
from tony.jobs.log_files import select_named_tasks
from tony.jobs.remote.log_fetcher import find_remote_submitter
from tony.jobs.saved_stacks import fetch_saved_stacks, read_saved_stacks
from tony.jobs.state_dir import get_user_name
from tony.jobs.status import aborted_submissions, job_status
from tony.linux.thread_pools import to_thread
from tony.model.failure import FailureCause
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import Home, JobFolder
from tony.model.states import LIVING_TASK_STATES, JobState
from tony.protocol.client_messages import KillJob, RestartJob
from tony.protocol.error_codes import Code
from tony.protocol.shared_messages import LOG_LEVELS, SetLogLevel, Stacks
from tony.schedulers import registry
from tony.units import format_duration

_POLL_SECONDS = 0.05
#: Seconds in which a new AM should start and obey a saved request, before the tasks are ended without it.
_START_SECONDS = 5.0
#: Seconds in which an AM should answer before the request is saved: on this machine, and on another one, where the
#: scheduler is queried first.
_ANSWER_SECONDS = 0.5
_REMOTE_ANSWER_SECONDS = 1.5


async def kill(home: Home, job_id: str, *, now: bool = False, actor: str = "") -> JobReport:
    """Request that the AM end the job; return once it has accepted.

    A job that has already ended is left unchanged. If no AM answers, the request is saved for the next AM attempt; if
    none starts, the tasks are ended without it, by this process or by the scheduler.

    Args:
        now: skip the grace period in which programs may save their work.
        actor: who kills it; default: the user of this process.

    Returns:
        The job's status just before.

    Raises:
        UnknownJobError: there is no such job.
        ConnectionFailedError: the AM is alive and cannot be reached.
    """
    actor = actor or get_user_name()
    deadline = clock.monotonic() + ANSWER_TIMEOUT_SECONDS
    folder = home.job(job_id)
    submitter = registry.load_submitter(home, record_of(home, job_id))
    is_local = submitter.capabilities.same_host
    kept: float | None = None
    broken = False
    while True:
        started_at = clock.monotonic()
        try:
            report = await job_status.load_report(home, job_id, _ANSWER_SECONDS if is_local else _REMOTE_ANSWER_SECONDS)
            if report.state.ended:
                folder.kill_request.unlink(missing_ok=True)
                return report
            if not folder.am.exists() and await _end_by_scheduler(home, job_id, actor):
                return report
            if kept is None or not is_local:  # an AM on this machine that answers has found the saved request
                await send_command(folder, KillJob(actor=actor, now=now))
            return report
        except ConnectionFailedError as error:
            # The AM may be starting or ending, or have ended: the next poll finds out.
            hangs = not error.no_listener and (
                broken or clock.monotonic() - started_at > job_status.PROMPT_FAILURE_SECONDS
            )
            if (hangs or clock.monotonic() > deadline) and await _end_by_scheduler(home, job_id, actor):
                return build_pending_report(folder, record_of(home, job_id))
            is_alive = submitter.am_alive(folder) if is_local else not aborted_submissions.is_under_way(home, job_id)
            if kept is None and is_alive and (error.no_listener or (is_local and hangs)):
                save_kill_request(folder, KillRequest(actor=actor, now=now))
                with contextlib.suppress(InfraError):  # then the request is valid only while this process runs
                    await submitter.store_kill_request(folder)
                kept = clock.monotonic()
            if hangs:
                raise _add_kill_hint(error, folder) from error
            if error.no_listener and kept is not None and clock.monotonic() - kept > _START_SECONDS:
                if is_local or not await _end_by_scheduler(home, job_id, actor):
                    return await _end_from_here(home, job_id, actor)
                return build_pending_report(folder, record_of(home, job_id))
            broken = broken or not error.no_listener
            if clock.monotonic() > deadline:
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def _end_from_here(home: Home, job_id: str, actor: str) -> JobReport:
    """End the tasks of a job on this machine whose AM cannot be found, even if it seems to be alive."""
    from tony.jobs.status.report_from_log import report_as_logged  # late: it loads the state machine

    folder, record = home.job(job_id), record_of(home, job_id)
    report = await to_thread(report_as_logged, folder, record)
    await registry.load_submitter(home, record).withdraw(folder, f"killed by {actor}")
    return report


async def _end_by_scheduler(home: Home, job_id: str, actor: str) -> bool:
    """Have the scheduler end a job on another machine whose AM has not started or does not answer.

    Not while it is being submitted: the scheduler would not know the job yet.
    """
    submitter = registry.load_submitter(home, record_of(home, job_id))
    if submitter.capabilities.same_host or aborted_submissions.is_under_way(home, job_id):
        return False
    await submitter.withdraw(home.job(job_id), f"killed by {actor}")
    return True


def _add_kill_hint(error: ConnectionFailedError, folder: JobFolder) -> ConnectionFailedError:
    location = locate_am(folder)
    if location is None:
        return error
    after = f"`tony status {folder.job_id}` then stops the tasks it left."
    if location.supervisor is not None:
        after = "the AM that replaces it ends the job. The request is saved, in case this AM continues."
    return ConnectionFailedError(
        f"{error}. If it hangs, kill it with `kill -9 {location.pid}` on {location.host}; {after}"
    )


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
        ConnectionFailedError: its AM cannot be reached.
    """
    session: int | None = None

    async def send(report: JobReport) -> None:
        nonlocal session
        if session is not None and (report.session > session or report.state is JobState.RESTARTING):
            return  # the AM obeyed, although the connection ended without an answer
        session = report.session
        try:
            await send_command(home.job(job_id), RestartJob(actor=actor or get_user_name()))
        except ProtocolError as error:
            if error.code != Code.BUSY:
                raise
            raise UserError(f"job {job_id} ({report.name}): {error}; see: tony status {job_id}") from error

    return await _send_command(home, job_id, NOT_RESTARTED, send)


async def set_log_level(home: Home, job_id: str, level: str, actor: str = "") -> JobReport:
    """Set the log level of a job's AM and executors. Returns and raises as `restart` does.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LOG_LEVELS:
        raise ValueError(f"level={level!r}: write one of {', '.join(LOG_LEVELS)}")

    async def send(report: JobReport) -> None:
        await send_command(home.job(job_id), SetLogLevel(level=level, actor=actor or get_user_name()))

    return await _send_command(home, job_id, NOTHING_LOGS, send)


async def request_stacks(
    home: Home, job_id: str, words: Sequence[TaskId | str] = (), actor: str = ""
) -> AsyncGenerator[Stacks, None]:
    """Yield the stack traces of tasks, one task after the other; without traces the answer says why.

    Of a job that has ended these are the last ones that were saved.

    Args:
        words: tasks such as `worker:0`, and roles; empty for all running tasks.

    Raises:
        UnknownJobError: there is no such job.
        UserError: it has no such task, or has ended and no stack traces are saved.
        InfraError: no task is running.
        ConnectionFailedError: its AM cannot be reached.
    """
    chosen = select_named_tasks(job_id, record_of(home, job_id).spec.task_ids, words)
    report = await job_status.load_report(home, job_id)
    saved = await _find_saved_stacks(home, report, chosen) if report.state.ended else []
    for stacks in saved:
        yield stacks
    if saved:
        return
    try:
        async with aclosing(
            am_client.request_stacks(home.job(job_id), actor or get_user_name(), select_tasks(report, chosen))
        ) as answers:
            async for stacks in answers:
                yield stacks
    except ConnectionFailedError as error:
        if error.no_listener:
            require_running(await job_status.load_report(home, job_id), NO_STACKS)
        raise


async def _find_saved_stacks(home: Home, report: JobReport, chosen: frozenset[str] | None) -> Sequence[Stacks]:
    """Return the saved stack traces of an ended job; of one on a cluster only if it hung, since a search takes time."""
    folder = home.job(report.job)
    saved = await to_thread(read_saved_stacks, folder.logs, chosen)
    if not saved and report.failure and report.failure.cause is FailureCause.HANG:
        submitter = await to_thread(find_remote_submitter, home, record_of(home, report.job))
        if submitter:
            saved = await fetch_saved_stacks(submitter, folder, chosen)
    return saved


def select_tasks(report: JobReport, chosen: frozenset[str] | None) -> list[str]:
    """Return the tasks to get stack traces of: the chosen ones, or all running ones if None.

    Raises:
        UserError: the job has ended.
        InfraError: no task is running.
    """
    require_running(report, NO_STACKS)
    if chosen is not None:
        return [task.task for task in report.tasks if task.task in chosen]
    running = [task.task for task in report.tasks if task.state in LIVING_TASK_STATES]
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
    home: Home, job_id: str, otherwise: str, send: Callable[[JobReport], Awaitable[None]]
) -> JobReport:
    """Send a command to the job's AM, retrying while it is starting or being replaced by another AM attempt."""
    deadline = clock.monotonic() + ANSWER_TIMEOUT_SECONDS
    first: JobReport | None = None
    while True:
        report = await job_status.load_report(home, job_id)
        first = first or report
        require_running(report, otherwise)
        try:
            await send(report)
            return first
        except ConnectionFailedError as error:
            late = clock.monotonic() > deadline
            if error.no_listener and late and report.am is None:
                raise ConnectionFailedError(
                    f"{_describe_status(report)}: its application master is not running; see: tony status {job_id}"
                ) from error
            if not error.no_listener or late:
                raise
        await asyncio.sleep(_POLL_SECONDS)
