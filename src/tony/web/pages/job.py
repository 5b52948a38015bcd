"""Overview of one job: status, failure, progress, timeline, tasks, goodput, latest events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.responses import Response

from tony.core.events import Snapshot
from tony.core.sentences import names_host, names_signal
from tony.history.event_log import LogEntry
from tony.history.goodput import Bucket, GoodputLedger
from tony.history.timeline import MarkerKind, Timeline
from tony.history.timeline_drawing import PHASE_TEXTS
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.event_text import EventWords
from tony.jobs.job_metrics import Reports, find_job_progress, read_reports
from tony.jobs.root_cause import build_root_cause
from tony.model.failure import Failure
from tony.model.job_report import JobReport, TaskReport
from tony.model.log_name import ERR, LogName
from tony.model.states import TaskState
from tony.units import format_duration
from tony.web import ansi_html
from tony.web.pages.job_layout import Unknown, await_part, await_with_timeout, build_frame, count_states
from tony.web.request import PageRequest
from tony.web.template_rendering import render
from tony.web.timeline_svg import Drawing

#: How long the page waits for its timeline; if it takes longer, the script loads it afterwards.
_TIMELINE_TIMEOUT_SECONDS = 0.06
#: Above this number of tasks, the page does not wait for the timeline at all.
_LARGE_JOB_TASKS = 500
#: Tasks and events on this page; other pages show all of them.
_SHOWN_TASKS = 12
_SHOWN_EVENTS = 8
#: Task states that are shown first.
_FIRST_STATES = (TaskState.FAILED, TaskState.LOST, TaskState.STOPPING, TaskState.STARTING, TaskState.RUNNING)
#: Markers listed in the text version of the timeline.
_LISTED_MARKERS = (
    MarkerKind.FAILURE,
    MarkerKind.DEATH,
    MarkerKind.RESTART,
    MarkerKind.ATTEMPT,
    MarkerKind.STALL,
    MarkerKind.COMMAND,
)
_MAX_LISTED_MARKERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputShare:
    """A goodput bucket; `x` and `width` of its bar are in percent."""

    bucket: str
    what: str
    seconds: float | None
    gpu_hours: float | None
    gb_hours: float | None
    share: float
    x: str
    width: str


BUCKET_TEXTS = {
    Bucket.QUEUE: "waiting: not enough free resources",
    Bucket.ALLOCATE: "waiting for containers",
    Bucket.SET_UP: "container setup",
    Bucket.RENDEZVOUS: "ready, waiting for other tasks",
    Bucket.WARM_UP: "running, before the first step",
    Bucket.PRODUCTIVE: "running, making progress",
    Bucket.STALLED: "no step for much longer than usual",
    Bucket.UNKNOWN: "running, no steps reported",
    Bucket.CHECKPOINT: "saving checkpoints",
    Bucket.REDONE: "recomputing lost steps",
    Bucket.RESTART: "from a failure until tasks ran again",
    Bucket.IDLE: "exited, container not yet released",
}


async def render_page(page_request: PageRequest) -> Response:
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "")
    events = await await_part(view.read_events(-2 * _SHOWN_EVENTS, 2 * _SHOWN_EVENTS))
    values |= {
        "failure": report.failure if report.state.value != "succeeded" else None,
        **_select_details(report.failure),
        "tail": _render_tail(report.failure),
        **_select_root_cause(report),
        "failed_log": _find_failed_log(page_request, report),
        "counts": count_states(report.tasks),
        "tasks": _select_tasks(report.tasks),
        "progress": await _load_progress(view, report),
        "board": values["boards"] and report.state.ended,
        "events": events if isinstance(events, Unknown) else _select_latest(events),
    }
    # The timeline of a large job would delay the page: the script requests it once the page is shown.
    wait = len(report.tasks) <= _LARGE_JOB_TASKS or (
        report.state.ended and page_request.context.drawings.has(report.job)
    )
    values |= (
        await _load_timeline(page_request, view, report, _TIMELINE_TIMEOUT_SECONDS)
        if wait
        else {"timeline": None, "goodput": None}
    )
    return render("job.html", page_request, values)


async def render_timeline(page_request: PageRequest) -> Response:
    """Return the timeline alone, or a time range of it; with the parameter `part`, as a fragment for the script."""
    view, report = await page_request.find_job()
    values = await build_frame(page_request, view, report, "")
    values |= await _load_timeline(page_request, view, report, None)
    return render("life.html" if page_request.get_word("part") else "timeline.html", page_request, values)


async def _load_timeline(
    page_request: PageRequest, view: DirectoryJobView, report: JobReport, timeout_seconds: float | None
) -> dict[str, object]:
    """Return the timeline and the goodput for the template; None for what takes longer than the timeout."""
    since, until = float(page_request.get_number("since", 0)), float(page_request.get_number("until", 0))
    work = page_request.context.drawings.load_drawing(view, since, until or None)
    found = await await_part(work) if timeout_seconds is None else await await_with_timeout(work, timeout_seconds)
    if not isinstance(found, tuple):
        return {"timeline": found, "goodput": None}
    line, drawing = found
    return {
        "timeline": _build_timeline_values(page_request, report, line, drawing),
        "goodput": _build_goodput_values(await await_part(view.goodput())),
    }


def _select_latest(events: Sequence[LogEntry]) -> list[tuple[LogEntry, str]]:
    """Return the latest events with their text, newest first, without snapshots."""
    words = EventWords()
    texts = [(event, words.describe(event.event)) for event in events if not isinstance(event.event, Snapshot)]
    return texts[: -_SHOWN_EVENTS - 1 : -1]


def _select_tasks(tasks: Sequence[TaskReport]) -> Sequence[TaskReport]:
    """Return the tasks to show: failed ones, then running ones, then others, each in the order of the job file."""
    if len(tasks) <= _SHOWN_TASKS:
        return tasks
    found: dict[TaskState, list[TaskReport]] = {state: [] for state in _FIRST_STATES}
    others: list[TaskReport] = []
    for task in tasks:
        same = found.get(task.state, others)
        if len(same) < _SHOWN_TASKS:
            same.append(task)
    return [task for same in (*found.values(), others) for task in same][:_SHOWN_TASKS]


def _render_tail(failure: Failure | None) -> list[Markup]:
    style = ansi_html.PLAIN
    made: list[Markup] = []
    for text in failure.tail if failure else ():
        shown, style = ansi_html.render_line(text, style)
        made.append(shown)
    return made


def _select_root_cause(report: JobReport) -> dict[str, object]:
    """Return the root cause, and its lines that the last lines of output do not contain."""
    cause = build_root_cause(report)
    if cause is None or report.failure is None:
        return {"root_cause": None, "evidence": ()}
    shown = set(report.failure.tail)
    return {"root_cause": cause, "evidence": [line for line in cause.evidence if line.text not in shown]}


def _select_details(failure: Failure | None) -> dict[str, str | None]:
    """Return host and signal of a failure, each as far as its sentence does not name it."""
    if failure is None:
        return {"host": None, "signal": None}
    return {
        "host": None if names_host(failure) else failure.host,
        "signal": None if names_signal(failure) else failure.signal,
    }


def _find_failed_log(page_request: PageRequest, report: JobReport) -> str:
    """Return the URL of the full log of the task that failed first; empty if there is none."""
    failure = report.failure
    if failure is None or failure.task is None:
        return ""
    name = (failure.log or "").rpartition("/")[2]
    known = LogName.parse(name)
    stream = known.stream if known else ERR
    return page_request.links.to_log(report.job, failure.task, stream, {"name": name})


async def _load_progress(view: DirectoryJobView, report: JobReport) -> object:
    reports = await await_part(view.query_metrics(read_reports))
    return find_job_progress(reports, report) if isinstance(reports, Reports) else None


def _build_timeline_values(
    page_request: PageRequest, report: JobReport, line: Timeline, drawing: Drawing
) -> dict[str, object]:
    marks = [mark for mark in line.marks if mark.what in _LISTED_MARKERS]
    return {
        "drawing": drawing,
        "line": line,
        "legend": [(phase.value, text) for phase, text in PHASE_TEXTS.items() if phase.value in drawing.shown],
        "marks": marks[-_MAX_LISTED_MARKERS:],
        "more_marks": max(0, len(marks) - _MAX_LISTED_MARKERS),
        "checkpoints": sum(mark.what is MarkerKind.CHECKPOINT for mark in line.marks),
        "sessions": line.sessions,
        "at": lambda seconds: line.accepted + seconds,
        "label_href": lambda lane: (
            page_request.links.to_task(report.job, lane.task)
            if lane.task
            else page_request.links.to_job(report.job, "tasks", {"role": lane.role})
        ),
    }


def _build_goodput_values(ledger: GoodputLedger | Unknown | None) -> object:
    if ledger is None or isinstance(ledger, Unknown) or ledger.whole <= 0:
        return None
    at = 0.0
    shares: list[GoodputShare] = []
    for bucket, what in BUCKET_TEXTS.items():
        seconds = ledger.seconds[bucket.value]
        share = (seconds or 0.0) / ledger.whole
        shares.append(
            GoodputShare(
                bucket=bucket.value,
                what=what,
                seconds=seconds,
                gpu_hours=ledger.gpu_hours[bucket.value],
                gb_hours=ledger.gb_hours[bucket.value],
                share=share,
                x=f"{100 * at:.3f}%",
                width=f"{100 * share:.3f}%",
            )
        )
        at += share
    return {
        "shares": shares,
        "ledger": ledger,
        "unreported": (ledger.seconds[Bucket.UNKNOWN.value] or 0.0) / ledger.whole,
        "lacks_checkpoints": ledger.seconds[Bucket.CHECKPOINT.value] is None,
        "whole": format_duration(ledger.whole),
        "gpus": ledger.whole_gpu_hours > 0,
    }
