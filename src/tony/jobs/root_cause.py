"""Why a job failed: one record for the terminal, the page and programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from tony.model.diagnosis import EvidenceLine, FailureKind
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.log_name import KERNEL
from tony.model.states import JobState

#: The fields that are in the status of a job, too.
ROOT_CAUSE_FIELDS = ("class", "root_task", "evidence", "retry", "advice", "patch")
_KINDS_OF_CLASSES = {
    FailureClass.USER: FailureKind.USER_CODE,
    FailureClass.INFRASTRUCTURE: FailureKind.NODE,
    FailureClass.KILLED: FailureKind.KILLED,
    FailureClass.PLATFORM: FailureKind.OURS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedLine:
    """A line that proves the cause.

    Attributes:
        task: None for the application master.
        file: of the job's logs; `kernel` for what the kernel counted or logged.
        line: number of the line in the stream, from 1; 0 for lines that are not output.
        rule: the rule that it met.
        code_place: `train.py:5 in load: rows[key]`, the user's code that raised the exception; may be empty.
    """

    task: TaskId | None
    file: str
    line: int
    text: str
    rule: str
    code_place: str = ""

    @property
    def place(self) -> str:
        """Return the file and, if it is known, the line."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCause:
    """Why a job failed, or its last session.

    Attributes:
        class_: the kind of the root cause.
        root_task: the task that failed first; None if it was no single one.
        reason: one sentence.
        exit: `exit code 1`, a signal such as `SIGKILL`, or empty.
        evidence: at most four lines, the decisive one first.
        consequences: tasks that failed because of it, at most twenty.
        retry: the failure may go away by itself.
        decision: what was decided: why nothing was restarted, or empty.
        advice: what to do; may be empty.
        patch: lines of the job file that may help, in TOML; may be empty.
    """

    class_: FailureKind
    root_task: TaskId | None
    host: str | None
    session: int
    reason: str
    exit: str
    evidence: tuple[CitedLine, ...]
    consequences: tuple[TaskId, ...]
    retry: bool
    decision: str
    advice: str
    patch: tuple[str, ...]


def build_root_cause(report: JobReport) -> RootCause | None:
    """Return why a job failed, or what failed last while it runs; None if nothing failed."""
    if report.failure is None or report.state is JobState.SUCCEEDED:
        return None
    return describe_root_cause(report.failure)


def find_past_root_cause(report: JobReport) -> RootCause | None:
    """Return why the session before failed, of a job that restarted and has not failed since; None if it has not."""
    is_past = report.failure is None or report.state is JobState.SUCCEEDED
    return describe_root_cause(report.previous_failure) if is_past and report.previous_failure else None


def describe_root_cause(failure: Failure) -> RootCause:
    """Return why a failure happened."""
    found = failure.diagnosis
    kind = found.kind if found else _KINDS_OF_CLASSES[failure.failure_class]
    lines = found.evidence if found else ()
    return RootCause(
        class_=kind,
        root_task=failure.task,
        host=failure.host,
        session=failure.session,
        reason=failure.reason,
        exit=failure.signal or ("" if failure.exit_code is None else f"exit code {failure.exit_code}"),
        evidence=tuple(_build_line(failure.task, failure.log, line) for line in lines),
        consequences=failure.consequences,
        retry=found.retry if found else failure.cause is not FailureCause.KILLED,
        decision=failure.no_restart_reason,
        advice=found.advice if found else "",
        patch=found.patch if found else (),
    )


def _build_line(task: TaskId | None, log: str | None, line: EvidenceLine) -> CitedLine:
    is_in_file = log and line.stream != KERNEL
    file = f"{PurePosixPath(log or '').stem}.{line.stream}" if is_in_file else line.stream
    return CitedLine(task=task, file=file, line=line.number, text=line.text, rule=line.rule, code_place=line.code_place)
