"""The card of a failure: of the job, or of the session before a restart. What failed, why, and what to do.

And the card of a job that makes no progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from markupsafe import Markup

from tony.core.sentences import names_host, names_signal
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.failure_text import describe_other_tasks
from tony.jobs.next_commands import NextCommand, build_rerun_command
from tony.jobs.root_cause import CitedLine, RootCause, describe_root_cause
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport
from tony.model.log_name import STACKS
from tony.model.states import JobState, TaskState
from tony.web import ansi_html
from tony.web.pages.job_layout import Unknown, await_part
from tony.web.request import PageRequest

#: Files with stack traces that are linked; the page with all files has the others.
_MAX_STACK_FILES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCard:
    """What the page shows of a failure.

    Attributes:
        heading: whether it ended the job, or the session before.
        is_past: the job continued after it.
        is_kill: a user stopped the job.
        evidence: the lines that prove the cause, as far as `tail` does not contain them.
        tail: the last lines of output.
        host, signal: as far as the sentence does not name them.
        log: address of the full log; empty if there is none.
        other_tasks: the fate of the tasks that did not fail; empty while the job continues.
        stacks: the names of the files with the stack traces of a hang, and their paths in the job directory.
        rerun: the command that runs the job again; None if it did not fail, or a user stopped it.
    """

    failure: Failure
    heading: str
    is_past: bool
    is_kill: bool
    cause: RootCause
    evidence: tuple[CitedLine, ...]
    tail: tuple[Markup, ...]
    host: str | None
    signal: str | None
    log: str
    other_tasks: str
    stacks: Mapping[str, str]
    rerun: NextCommand | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StallCard:
    """What the page shows of a job that makes no progress.

    Attributes:
        task: whose stack traces show more: the task that the others wait for, or one that runs; empty if none does.
    """

    sentence: str
    task: str


def build_stall_card(report: JobReport) -> StallCard | None:
    """Return the card of a running job that makes no progress; None if it does."""
    if not report.stalled:
        return None
    sentence = report.waiting
    if sentence.startswith("no "):  # else it begins with the name of a task
        sentence = f"N{sentence[1:]}"
    running = (task.task for task in report.tasks if task.state is TaskState.RUNNING)
    return StallCard(sentence=sentence, task=report.stalled_task or next(running, ""))


async def build_failure_card(
    page_request: PageRequest, view: DirectoryJobView, report: JobReport
) -> FailureCard | None:
    """Return the card of the failure that ended the job, or else of the one after which it restarted last."""
    failure = None if report.state is JobState.SUCCEEDED else report.failure
    is_past = failure is None
    failure = failure or report.previous_failure
    if failure is None:
        return None
    is_kill = failure.failure_class is FailureClass.KILLED
    cause = describe_root_cause(failure)
    shown = set() if is_past else set(failure.tail)
    return FailureCard(
        failure=failure,
        heading=_choose_heading(report, is_past=is_past, is_kill=is_kill),
        is_past=is_past,
        is_kill=is_kill,
        cause=cause,
        evidence=tuple(line for line in cause.evidence if line.text not in shown),
        tail=_render_tail(failure),
        host=None if names_host(failure) else failure.host,
        signal=None if names_signal(failure) else failure.signal,
        log=_find_log(page_request, report, failure),
        other_tasks=describe_other_tasks(report, failure) if report.state.ended and not is_past else "",
        stacks=await _list_stacks(view, failure),
        rerun=build_rerun_command(report, cause) if report.state is JobState.FAILED else None,
    )


async def _list_stacks(view: DirectoryJobView, failure: Failure) -> Mapping[str, str]:
    """Return the saved stack traces of a session that hung, those of the root task first."""
    if failure.cause is not FailureCause.HANG:
        return {}
    files = await await_part(view.files())
    if isinstance(files, Unknown):
        return {}
    root = f"{failure.task.role}-{failure.task.index}.s" if failure.task else ""
    paths = [file.path for file in files if fnmatchcase(file.path, f"logs/*.s{failure.session}.t*.{STACKS}")]
    paths.sort(key=lambda path: not (root and path.startswith(f"logs/{root}")))
    return {path.removeprefix("logs/"): path for path in paths[:_MAX_STACK_FILES]}


def _choose_heading(report: JobReport, *, is_past: bool, is_kill: bool) -> str:
    if is_kill:
        return "Reason"
    if is_past:
        return f"Why session {report.session} was started"
    return "Root cause" if report.state.ended else "Last failure"


def _render_tail(failure: Failure) -> tuple[Markup, ...]:
    style = ansi_html.PLAIN
    made: list[Markup] = []
    for text in failure.tail:
        shown, style = ansi_html.render_line(text, style)
        made.append(shown)
    return tuple(made)


def _find_log(page_request: PageRequest, report: JobReport, failure: Failure) -> str:
    """Return the URL of the output of the failed task in the failure's session; empty if there is none."""
    if failure.task is None:
        return ""
    return page_request.links.to_log(report.job, failure.task, session=failure.session)
