"""One job at a glance: how it stands, why it failed, what its tasks did when, how far it is, where its time went."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from starlette.responses import Response

from tony.core.events import Snapshot
from tony.dataclass import dataclass
from tony.history.event_log import LogEntry
from tony.history.goodput import TOLD, Bucket, GoodputLedger
from tony.history.timeline import MarkerKind, Timeline
from tony.jobs.event_text import EventWords
from tony.jobs.failure_hints import find_hints
from tony.jobs.progress import Reports, find_job_progress, read_reports
from tony.linux.threads import to_thread
from tony.model.job_report import Failure, JobReport, TaskReport
from tony.model.states import TaskState
from tony.units import format_duration
from tony.web import ansi_html
from tony.web.job_source import JobView
from tony.web.pages.job_layout import Unknown, await_with_timeout, counts, frame, known
from tony.web.request import PageRequest
from tony.web.svg_cache import SvgCache
from tony.web.template_rendering import render
from tony.web.timeline_svg import LEGEND, Drawing

#: Seconds that a page waits for its timeline: what takes longer comes after it.
_PATIENCE = 0.06
#: Tasks of a job whose picture is not waited for.
_LARGE = 500
#: Tasks and events that the first page shows; there are pages for all of them.
_TASKS, _EVENTS = 12, 8
#: States of tasks that come first there.
_FIRST = (TaskState.FAILED, TaskState.LOST, TaskState.STOPPING, TaskState.STARTING, TaskState.RUNNING)
#: What is worth a line of its own below the picture.
_TOLD_MARKS = (MarkerKind.FAILURE, MarkerKind.DEATH, MarkerKind.RESTART, MarkerKind.ATTEMPT, MarkerKind.COMMAND)
_MOST_MARKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputShare:
    """A bucket of where the time went: `x` and `width` of the picture's bar, per cent."""

    bucket: str
    what: str
    seconds: float | None
    gpu_hours: float | None
    gb_hours: float | None
    share: float
    x: str
    width: str


_BUCKETS = {
    Bucket.QUEUE: "waiting: the scheduler had no room",
    Bucket.ALLOCATE: "waiting for containers",
    Bucket.SET_UP: "containers were prepared",
    Bucket.RENDEZVOUS: "ready, waiting for the other tasks",
    Bucket.WARM_UP: "programs ran, no step yet",
    Bucket.PRODUCTIVE: "steps were made",
    Bucket.STALLED: "no step for far longer than usual",
    Bucket.UNKNOWN: "programs ran and reported no steps",
    Bucket.CHECKPOINT: "checkpoints were saved",
    Bucket.REDONE: "steps that were made before",
    Bucket.RESTART: "from a failure until programs ran again",
    Bucket.IDLE: "programs were over, containers still held",
}


async def page(asked: PageRequest) -> Response:
    """The page."""
    view, report = await asked.job()
    values = await frame(asked, view, report, "")
    events = await known(view.events(-2 * _EVENTS, 2 * _EVENTS))
    values |= {
        "failure": report.failure if report.state.value != "succeeded" else None,
        "tail": _tail(report.failure),
        "hints": find_hints(report.failure.tail) if report.failure else [],
        "failed_log": _failed_log(asked, report),
        "counts": counts(report.tasks),
        "tasks": _first(report.tasks),
        "progress": await _progress(view, report),
        "board": values["boards"] and report.state.ended,
        "events": events if isinstance(events, Unknown) else _latest(events),
    }
    # Of many tasks the picture is made only when the page is there and asks for it: it would hold up the page.
    at_once = len(report.tasks) <= _LARGE or (report.state.ended and _drawings(asked).has(report.job))
    values |= await _life(asked, view, report, _PATIENCE) if at_once else {"timeline": None, "goodput": None}
    return render("job.html", asked, values)


async def timeline(asked: PageRequest) -> Response:
    """The picture alone, or a part of it: for the page's script, and for whoever wants to look closer."""
    view, report = await asked.job()
    values = await frame(asked, view, report, "")
    values |= await _life(asked, view, report, None)
    return render("life.html" if asked.word("part") else "timeline.html", asked, values)


async def _life(asked: PageRequest, view: JobView, report: JobReport, patience: float | None) -> dict[str, object]:
    """What became of its tasks' time: the picture, and where it went. None for what takes longer than `patience`."""
    since, until = float(asked.number("since", 0)), float(asked.number("until", 0))
    work = _drawings(asked).of(view, since, until or None)
    found = await known(work) if patience is None else await await_with_timeout(work, patience)
    if not isinstance(found, tuple):
        return {"timeline": found, "goodput": None}
    line, drawing = found
    return {
        "timeline": _picture(asked, report, line, drawing),
        "goodput": _goodput(await known(view.goodput())),
    }


def _drawings(asked: PageRequest) -> SvgCache:
    """Of this server."""
    state = asked.request.app.state
    if not hasattr(state, "drawings"):
        state.drawings = SvgCache()
    found: SvgCache = state.drawings
    return found


def _latest(events: Sequence[LogEntry]) -> list[tuple[LogEntry, str]]:
    """In words, the last one first; what stands in the log for its own sake is left out."""
    words = EventWords()
    told = [(each, words.of(each.event)) for each in events if not isinstance(each.event, Snapshot)]
    return told[: -_EVENTS - 1 : -1]


def _first(tasks: Sequence[TaskReport]) -> Sequence[TaskReport]:
    """Those that the page shows, in the order of the job file: what failed, then what runs, then the others."""
    if len(tasks) <= _TASKS:
        return tasks
    found: dict[TaskState, list[TaskReport]] = {state: [] for state in _FIRST}
    others: list[TaskReport] = []
    for task in tasks:
        same = found.get(task.state, others)
        if len(same) < _TASKS:
            same.append(task)
    return [task for same in (*found.values(), others) for task in same][:_TASKS]


def _tail(failure: Failure | None) -> list[Markup]:
    style = ansi_html.PLAIN
    made: list[Markup] = []
    for text in failure.tail if failure else ():
        shown, style = ansi_html.line(text, style)
        made.append(shown)
    return made


def _failed_log(asked: PageRequest, report: JobReport) -> str:
    """Where the whole output stands of the program that failed first."""
    failure = report.failure
    if failure is None or failure.task is None:
        return ""
    name = (failure.log or "").rpartition("/")[2]
    stream = "out" if name.endswith(".out") else "err"
    return asked.links.log(report.job, failure.task, stream, {"name": name})


async def _progress(view: JobView, report: JobReport) -> object:
    metrics = await known(view.metrics())
    if metrics is None or isinstance(metrics, Unknown):
        return None

    def read() -> Reports:
        with metrics:
            return read_reports(metrics)

    return find_job_progress(await to_thread(read), report)


def _picture(asked: PageRequest, report: JobReport, line: Timeline, drawing: Drawing) -> dict[str, object]:
    """What the template needs of a timeline."""
    marks = [mark for mark in line.marks if mark.what in _TOLD_MARKS]
    return {
        "drawing": drawing,
        "line": line,
        "legend": [(what.value, said) for what, said in LEGEND if what.value in drawing.shown],
        "marks": marks[-_MOST_MARKS:],
        "more_marks": max(0, len(marks) - _MOST_MARKS),
        "checkpoints": sum(mark.what is MarkerKind.CHECKPOINT for mark in line.marks),
        "sessions": line.sessions,
        "at": lambda seconds: line.accepted + seconds,
        "label_href": lambda lane: (
            asked.links.task(report.job, lane.task)
            if lane.task
            else asked.links.job(report.job, "tasks", {"role": lane.role})
        ),
    }


def _goodput(ledger: GoodputLedger | Unknown | None) -> object:
    if ledger is None or isinstance(ledger, Unknown) or ledger.whole <= 0:
        return None
    at = 0.0
    shares: list[GoodputShare] = []
    for bucket, what in _BUCKETS.items():
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
        "unknown": [bucket.value for bucket in TOLD if ledger.seconds[bucket.value] is None],
        "whole": format_duration(ledger.whole),
        "gpus": ledger.whole_gpu_hours > 0,
    }
