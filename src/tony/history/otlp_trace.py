"""A job's life as a trace of OpenTelemetry, in the JSON of its protocol (OTLP). Pure.

One trace: the job, in it its sessions, in these their tasks, in these what each of them did: queue, allocate, set-up,
rendezvous, warm-up, productive, checkpoint, redone, restart, idle. Failures, restarts and deaths are events of the job.

Ids follow from the job's, so that the same job sent twice is one trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tony.dataclass import dataclass
from tony.history.goodput import AttemptFacts, Piece
from tony.history.progress_records import ProgressRecords
from tony.history.timeline import Span, TaskPhase, Timeline
from tony.model.codec import Json
from tony.model.job_report import JobReport
from tony.model.states import JobState

#: Spans of one request.
MOST = 1000
#: Events of the job's span.
_MOST_EVENTS = 500
#: Characters of a text.
_LONGEST = 1000
_INTERNAL, _OK, _ERROR = 1, 1, 2

Attribute = str | int | float | bool


@dataclass(frozen=True, slots=True)
class _Spans:
    """Makes spans of one job."""

    job: str
    accepted: float

    @property
    def trace(self) -> str:
        """The trace's id."""
        return hashlib.sha256(self.job.encode()).hexdigest()[:32]

    def id_of(self, *path: object) -> str:
        """A span's id, from what it is."""
        return hashlib.sha256("/".join(map(str, (self.job, *path))).encode()).hexdigest()[:16]

    def moment(self, at: float) -> str:
        """Nanoseconds since 1970, as text: JSON has no such large numbers."""
        return str(round((self.accepted + at) * 1e6) * 1000)

    def span(
        self,
        name: str,
        path: Sequence[object],
        parent: Sequence[object] | None,
        since: float,
        until: float,
        attributes: Mapping[str, Attribute],
    ) -> dict[str, Json]:
        """One span."""
        return {
            "traceId": self.trace,
            "spanId": self.id_of(*path),
            **({} if parent is None else {"parentSpanId": self.id_of(*parent)}),
            "name": name[:_LONGEST],
            "kind": _INTERNAL,
            "startTimeUnixNano": self.moment(since),
            "endTimeUnixNano": self.moment(until),
            "attributes": _attributes(attributes),
        }


def requests(
    line: Timeline, report: JobReport, marks: ProgressRecords | None = None, version: str = ""
) -> Iterator[Json]:
    """The trace as bodies of requests, `MOST` spans each; the job's own span is in the first.

    Args:
        marks: what its programs told; without it their time is not taken apart.
    """
    spans = _spans(line, report, marks)
    while batch := [span for span, _ in zip(spans, range(MOST), strict=False)]:
        yield {
            "resourceSpans": [
                {
                    "resource": {"attributes": _attributes({"service.name": "tony", "service.version": version})},
                    "scopeSpans": [{"scope": {"name": "tony", "version": version}, "spans": batch}],
                }
            ]
        }


def _spans(line: Timeline, report: JobReport, marks: ProgressRecords | None) -> Iterator[dict[str, Json]]:
    make = _Spans(line.job, line.accepted)
    yield _job(make, line, report)
    for session in line.sessions:
        attributes: dict[str, Attribute] = {"tony.session": session.number, "tony.reason": session.reason}
        path = ("session", session.number)
        yield make.span(f"session {session.number}", path, (), session.since, session.until, attributes)
    opened = {session.number for session in line.sessions}
    told = AttemptFacts(line, marks)
    for task, spans in line.by_task():
        yield from _task(make, task, [span for span in spans if span.what is not TaskPhase.GONE], opened, told)


def _job(make: _Spans, line: Timeline, report: JobReport) -> dict[str, Json]:
    attributes: dict[str, Attribute] = {
        "tony.job": report.job,
        "tony.name": report.name,
        "tony.user": report.user,
        "tony.framework": report.framework,
        "tony.scheduler": report.scheduler,
        "tony.state": report.state.value,
        "tony.sessions": report.session,
        "tony.attempts": report.attempt,
        "tony.tasks": len(report.tasks),
    }
    span = make.span(f"job {report.name or report.job}", (), None, 0.0, line.until, attributes)
    told = sorted(line.marks, key=lambda mark: mark.at)[:_MOST_EVENTS]
    span["events"] = [
        {
            "timeUnixNano": make.moment(mark.at),
            "name": mark.what.value,
            "attributes": _attributes({"tony.task": mark.task, "tony.note": mark.note}),
        }
        for mark in told
    ]
    if report.state in (JobState.FAILED, JobState.KILLED):
        why = report.failure.reason if report.failure else report.state.value
        span["status"] = {"code": _ERROR, "message": why[:_LONGEST]}
    elif report.state is JobState.SUCCEEDED:
        span["status"] = {"code": _OK}
    return span


def _task(
    make: _Spans, task: str, spans: Sequence[Span], opened: set[int], told: AttemptFacts
) -> Iterator[dict[str, Json]]:
    """A task's part in each session, and what it did there."""
    for session in dict.fromkeys(span.session for span in spans):
        mine = [span for span in spans if span.session == session]
        path = ("task", task, session)
        parent = ("session", session) if session in opened else ()
        attributes: dict[str, Attribute] = {"tony.task": task, "tony.role": task.rpartition(":")[0]}
        attributes |= {"tony.session": session, "tony.try": max(span.try_ for span in mine)}
        yield make.span(task, path, parent, mine[0].since, mine[-1].until, attributes)
        for since, until, bucket in _joined(piece for span in mine for piece in told.pieces([span])):
            note = next((span.note for span in mine if span.since <= since < span.until and span.note), "")
            more = {"tony.task": task, **({"tony.note": note} if note else {})}
            yield make.span(bucket.value, (*path, since, bucket.value), path, since, until, more)


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces of one kind that follow each other as one."""
    open_: Piece | None = None
    for since, until, bucket in pieces:
        if open_ and open_[2] is bucket and open_[1] == since:
            open_ = open_[0], until, bucket
            continue
        if open_:
            yield open_
        open_ = since, until, bucket
    if open_:
        yield open_


def _attributes(values: Mapping[str, Attribute]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value != ""]


def _value(value: Attribute) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value[:_LONGEST]}
