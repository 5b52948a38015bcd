"""Operations that change a job. Each checks the user's permission, and the job's events name the user."""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import aclosing

from tony import clock
from tony.errors import InfraError
from tony.jobs.directory.view import DirectoryJobView
from tony.model.job_report import JobReport
from tony.web.api.operation import ApiError, OperationCall, Operations, Parameter, ParameterKind
from tony.web.api.response_types import ActionAccepted, TaskStacks
from tony.web.authorization import PortalAction

#: Audit log: which user changed which job.
_audit = logging.getLogger("tony.web.audit")
#: Refused changes that are logged per user and interval, and users that are tracked.
_MAX_REFUSALS = 5
_REFUSAL_SECONDS = 60.0
_MAX_USERS = 1000


class RefusalLog:
    """Logs refused changes, a few per user and minute: otherwise any user with a token could fill the disk."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, what: str, job: str, user: str) -> None:
        """Log a refused change, unless the user's limit is reached."""
        now = clock.monotonic()
        since, count = self._users.pop(user, (now, 0))
        if now - since >= _REFUSAL_SECONDS:
            since, count = now, 0
        self._users[user] = since, count + 1
        while len(self._users) > _MAX_USERS:
            self._users.popitem(last=False)
        if count < _MAX_REFUSALS:
            _audit.warning("refused: %s of %s by %r", what, job, user)
        elif count == _MAX_REFUSALS:
            _audit.warning(
                "refused: more requests by %r; further ones are not logged for %.0f s", user, _REFUSAL_SECONDS
            )


_refusals = RefusalLog()
OPERATIONS = Operations()


@OPERATIONS.add("/jobs/{job}/stop", changes=True)
async def stop_job(call: OperationCall) -> ActionAccepted:
    """Stop a job."""
    view, report = await _authorize(call, "stop")
    await view.kill(actor=call.portal_user.name)
    return _accept(call, report, "stop")


@OPERATIONS.add("/jobs/{job}/restart", changes=True)
async def restart_job(call: OperationCall) -> ActionAccepted:
    """Stop a job's session and start the next; does not count against max_restarts."""
    view, report = await _authorize(call, "restart")
    await view.restart(call.portal_user.name)
    return _accept(call, report, "restart")


@OPERATIONS.add(
    "/jobs/{job}/stacks",
    Parameter("task", "a task such as worker:0", ParameterKind.TASK, required=True),
    changes=True,
)
async def dump_stacks(call: OperationCall) -> TaskStacks:
    """Return the stack traces of a running task."""
    view, report = await _authorize(call, "stacks")
    task = call.find_task(report)
    async with aclosing(view.stacks(task, actor=call.portal_user.name)) as answers:
        found = await anext(answers)
    if not found.text:
        raise InfraError(found.problem)
    return TaskStacks(job=report.job, task=task, text=found.text, how=found.how, problem=found.problem, name=found.name)


@OPERATIONS.add(
    "/jobs/{job}/log-level",
    Parameter("level", "minimum level", required=True, choices=("debug", "info", "warning", "error")),
    changes=True,
)
async def set_log_level(call: OperationCall) -> ActionAccepted:
    """Set the log level of a job's application master and executors."""
    view, report = await _authorize(call, "log-level")
    await view.set_log_level(call.values["level"], call.portal_user.name)
    return _accept(call, report, f"log-level {call.values['level']}")


async def _authorize(call: OperationCall, what: str) -> tuple[DirectoryJobView, JobReport]:
    """Return the job and its report if the user may change it, and it can be changed from here.

    Raises:
        ApiError: it may or can not be changed.
    """
    view, report = await call.find_job()
    if not call.portal_user.may(PortalAction.CHANGE, report):
        _refusals.add(what, report.job, call.portal_user.name)
        raise ApiError(
            403,
            "not-allowed",
            "You may view this job but not change it.",
            "Its owner may; to allow other users, list them in `editors = [...]` in the job file.",
        )
    if report.state.ended:
        raise ApiError(409, "has-ended", f"The job has ended: {report.state.value}.")
    if not view.can_change:
        raise ApiError(
            409,
            "not-own-job",
            "Only a portal of the job's own user can do that.",
            f"This portal does not have the job in its own state directory. Ask {report.user or 'the job owner'}.",
        )
    _audit.info("%s of %s by %r", what, report.job, call.portal_user.name)
    return view, report


def _accept(call: OperationCall, report: JobReport, what: str) -> ActionAccepted:
    return ActionAccepted(job=report.job, asked=what, actor=call.portal_user.name)
