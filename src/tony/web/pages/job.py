"""Overview of one job: status, failure, progress, timeline, tasks, goodput, latest events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from tony.history.event_log import LogEntry
from tony.history.goodput import Bucket, GoodputLedger
from tony.history.timeline import MarkerKind, Timeline
from tony.history.timeline_drawing import PHASE_TEXTS
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.event_text import INTERNAL_EVENTS, EventWords, name_event
from tony.jobs.job_metrics import find_job_progress
from tony.jobs.next_commands import build_resubmission_command
from tony.jobs.task_use import TaskUse
from tony.model.job_report import JobReport, TaskReport
from tony.model.progress import TaskProgress
from tony.model.states import TaskState
from tony.units import format_duration
from tony.web.pages.charts import select_overview
from tony.web.pages.failure_card import build_failure_card, build_stall_card
from tony.web.pages.job_layout import Unknown, await_part, await_with_timeout, build_frame, count_states
from tony.web.pages.readings import load_readings
from tony.web.pages.task_table import build_task_table
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
#: Tasks whose lone restart is explained below the timeline, at most.
_SHOWN_RESTARTS = 3
#: Events read for them: those of one kind in a row are shown as one.
_READ_EVENTS = 300
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
    view, report = await page_request.find_job(shown=ShownFiles(metrics=True))
    values = await build_frame(page_request, view, report, "")
    events = await await_part(view.read_events(-_READ_EVENTS, _READ_EVENTS))
    readings = await load_readings(view, report)
    table = build_task_table(report, values["record"], readings)
    values |= {
        "card": await build_failure_card(page_request, view, report),
        "resubmission": build_resubmission_command(report) if report.state.ended and report.warnings else None,
        "stall": build_stall_card(report),
        "counts": count_states(report.tasks),
        "tasks": _select_tasks(report.tasks, table.uses),
        "numbers": table,
        "task_columns": table.build_headings(),
        "progress": find_job_progress(readings.reports, report),
        "charts": select_overview(readings.series, readings.newest),
        "board": values["boards"] and report.state.ended,
        "events": events if isinstance(events, Unknown) else _fold_latest(events),
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
    line = values["timeline"]["line"] if isinstance(values["timeline"], dict) else None
    values["accepted"] = line.accepted if line else report.submitted or 0.0
    return render("job.html", page_request, values)


async def render_timeline(page_request: PageRequest) -> Response:
    """Return the timeline alone, or a time range of it; with the parameter `part`, as a fragment for the script."""
    view, report = await page_request.find_job(shown=ShownFiles(metrics=True))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """Consecutive events of one kind: the latest of them, and their number."""

    wall: float
    kind: str
    text: str
    count: int


def _fold_latest(events: Sequence[LogEntry]) -> list[EventRun]:
    """Return the latest events with their text, newest first, without those that only tony needs.

    Events of one kind in a row are one, also if they alternate with those of another kind, as at the end of many tasks.
    """
    words = EventWords()
    found: list[EventRun] = []
    for event in events:
        if isinstance(event.event, INTERNAL_EVENTS):
            continue
        kind, count = name_event(event.event), 1
        same = next((run for run in found[-2:] if run.kind == kind), None)
        if same is not None:
            found.remove(same)
            count += same.count
        found.append(EventRun(wall=event.wall, kind=kind, text=words.describe(event.event), count=count))
    return found[: -_SHOWN_EVENTS - 1 : -1]


def _select_tasks(tasks: Sequence[TaskReport], uses: Mapping[str, TaskUse]) -> Sequence[TaskReport]:
    """Return the tasks to show: failed ones, then running ones, then others.

    Each in the order of the job file, but of the running ones the stalled and the slowest first.
    """
    if len(tasks) <= _SHOWN_TASKS:
        return tasks
    found: dict[TaskState, list[TaskReport]] = {state: [] for state in _FIRST_STATES}
    others: list[TaskReport] = []
    for task in tasks:
        found.get(task.state, others).append(task)
    found[TaskState.RUNNING].sort(key=lambda task: _order_by_progress(uses[task.task].progress))
    return [task for same in (*found.values(), others) for task in same][:_SHOWN_TASKS]


def _order_by_progress(progress: TaskProgress | None) -> tuple[bool, bool, bool, float]:
    if progress is None:
        return True, True, False, 0.0
    return False, progress.stalled is None, bool(progress.waits_for), progress.step


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
        "lone_restarts": line.lone_restarts[:_SHOWN_RESTARTS],
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
