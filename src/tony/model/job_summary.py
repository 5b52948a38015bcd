"""One job in a list."""

from __future__ import annotations

from dataclasses import dataclass

from tony.model.diagnosis import strip_modules
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport
from tony.model.states import JobState

#: Characters of an error line by which it is found in a reason, which may be cut.
_QUOTED_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHead:
    """The summary of a job in a list.

    Attributes:
        submitted, ended: seconds since 1970.
        tasks: number of tasks; None if only its scheduler knows the job.
        reason: why it failed, or what is suspicious about it, one sentence; empty otherwise.
        error_line: the line of output that proves it, of a hang with the task; empty if there is none.
        cause: the stable word for it, as in `Failure`; `hang` of a running job that is stalled; empty otherwise.
        queue: its scheduler's queue; empty if the job names none.
        sessions: number of sessions started; restarts: number of restarts, including those of single tasks.
        gpu_hours, gb_hours: resources granted to its containers, times the hours they were allocated; a GB is 1024³
            bytes. None: not known.
        viewers, editors: who may view it, and change it, besides its owner.
        pinned: it is kept, however old.
        damaged: why its history entry cannot be read, one sentence. All other fields of such a job are guesses.
    """

    job: str
    name: str
    state: JobState
    user: str
    scheduler: str
    framework: str
    tasks: int | None
    submitted: float
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    error_line: str = ""
    queue: str = ""
    tags: tuple[str, ...] = ()
    failure_class: FailureClass | None = None
    cause: str = ""
    sessions: int = 0
    restarts: int = 0
    gpu_hours: float | None = None
    gb_hours: float | None = None
    viewers: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    pinned: bool = False
    damaged: str = ""

    @property
    def is_stalled(self) -> bool:
        """True for a running job whose programs make no progress."""
        return self.state is JobState.RUNNING and self.cause == FailureCause.HANG

    @property
    def short_reason(self) -> str:
        """What is wrong with the job: the error of its program, if the reason quotes it; may be empty."""
        if self.damaged:
            return self.damaged
        if self.state.ended and self.cause == FailureCause.HANG and self.error_line:
            return f"hang: {self.error_line}"
        error = strip_modules(self.error_line)
        is_quoted = error and error[:_QUOTED_CHARACTERS] in self.reason
        return error if is_quoted else self.reason


def head_of_report(report: JobReport) -> JobHead:
    """Return the summary of a report of the application master."""
    failure, restarts, used = report.failure, report.restarts, report.used
    return JobHead(
        job=report.job,
        name=report.name,
        state=report.state,
        user=report.user,
        scheduler=report.scheduler,
        framework=report.framework,
        tasks=len(report.tasks),
        submitted=report.submitted or 0.0,
        ended=report.ended,
        exit_code=report.exit_code,
        reason=_find_reason(report),
        error_line=_find_error_line(failure) if failure else "",
        queue=report.queue,
        tags=report.tags,
        failure_class=failure.failure_class if failure else None,
        cause=failure.cause if failure else FailureCause.HANG if report.stalled else "",
        sessions=report.session,
        restarts=restarts.total if restarts else 0,
        gpu_hours=used.gpu_hours if used else None,
        gb_hours=used.gb_hours if used else None,
        viewers=report.viewers,
        editors=report.editors,
    )


def _find_error_line(failure: Failure) -> str:
    return add_hung_task(failure.error_line, failure.cause, str(failure.task or ""))


def add_hung_task(line: str, cause: object, task: str) -> str:
    """Return the error line of a failure; of a hang it says which task is where, for lists of jobs."""
    return f"{task} in {line}" if line and task and cause == FailureCause.HANG else line


def _find_reason(report: JobReport) -> str:
    """Return why a job failed, or what is suspicious about it; empty if nothing is."""
    if report.failure:
        return report.failure.reason
    if report.stalled:
        return report.waiting
    if report.previous_failure and not report.state.ended:
        return f"restarted: {report.previous_failure.reason}"
    return report.warnings[0] if report.warnings else ""
