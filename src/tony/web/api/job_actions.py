"""What changes a job. Each is asked for by somebody who may, and leaves who it was in the job's events."""

from __future__ import annotations

import logging
from collections import OrderedDict

from tony import clock
from tony.model.job_report import JobReport
from tony.web.api.operation import ApiError, OperationCall
from tony.web.api.responses import Asked, TaskStacks
from tony.web.authorization import PortalAction
from tony.web.job_source import JobView

#: Says who has done what, for whoever keeps this server's log.
_audit = logging.getLogger("tony.web.audit")
#: Refused changes of one user that are logged within so many seconds, and users who are remembered.
_MOST_REFUSALS = 5
_REFUSAL_SECONDS = 60.0
_MOST_USERS = 1000


class RefusalLog:
    """Logs refused changes, of each user a few a minute: with a token anyone could fill the disk."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, what: str, job: str, user: str) -> None:
        """Log one refused change, if it is one of the first."""
        now = clock.monotonic()
        since, count = self._of.pop(user, (now, 0))
        if now - since >= _REFUSAL_SECONDS:
            since, count = now, 0
        self._of[user] = since, count + 1
        while len(self._of) > _MOST_USERS:
            self._of.popitem(last=False)
        if count < _MOST_REFUSALS:
            _audit.warning("refused: %s of %s by %r", what, job, user)
        elif count == _MOST_REFUSALS:
            _audit.warning(
                "refused: more requests by %r; no others of this user are logged within %.0f s", user, _REFUSAL_SECONDS
            )


_refusals = RefusalLog()


async def stop(call: OperationCall) -> Asked:
    """Ends the job."""
    view, report = await _changed(call, "stop")
    await view.stop(_actor(call))
    return _asked(call, report, "stop")


async def restart(call: OperationCall) -> Asked:
    """Ends its session, and begins the next."""
    view, report = await _changed(call, "restart")
    await view.restart(_actor(call))
    return _asked(call, report, "restart")


async def stacks(call: OperationCall) -> TaskStacks:
    """Where a task's program stands."""
    view, report = await _changed(call, "stacks")
    task = call.task(report)
    told = await view.stacks(task, _actor(call))
    return TaskStacks(job=report.job, task=task, text=told.text, how=told.how, problem=told.problem, name=told.name)


async def log_level(call: OperationCall) -> Asked:
    """How much its own processes log."""
    view, report = await _changed(call, "log-level")
    await view.log_level(call.values["level"], _actor(call))
    return _asked(call, report, f"log-level {call.values['level']}")


async def _changed(call: OperationCall, what: str) -> tuple[JobView, JobReport]:
    view, report = await call.job()
    if not call.visitor.may(PortalAction.CHANGE, report):
        _refusals.add(what, report.job, call.visitor.name)
        raise ApiError(
            403,
            "not-allowed",
            "You may look at this job, and not change it.",
            "Its owner can: `modifiers = [...]` in the job file names who else may.",
        )
    if report.state.ended:
        raise ApiError(409, "has-ended", f"The job has ended: {report.state.value}.")
    if not view.can_change:
        raise ApiError(
            409,
            "not-own-job",
            "Only a portal of the job's own user can do that.",
            f"This one does not have the job in its own state directory. Ask its user, {report.user or 'its owner'}.",
        )
    _audit.info("%s of %s by %r", what, report.job, call.visitor.name)
    return view, report


def _actor(call: OperationCall) -> str:
    return call.visitor.name


def _asked(call: OperationCall, report: JobReport, what: str) -> Asked:
    return Asked(job=report.job, asked=what, actor=_actor(call))
