"""Export a job as an OpenTelemetry trace, in the JSON form of its protocol (OTLP). Pure functions.

The job's span contains its sessions, these their tasks, and these one span per goodput bucket. Failures, restarts and
lost containers are events of the job's span.

Ids are derived from the job's id, so that sending the same job twice yields one trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.history.goodput import AttemptFacts, Piece
from tony.history.timeline import Span, TaskPhase, Timeline
from tony.model.codec import Json
from tony.model.ids import parse_role
from tony.model.job_report import JobReport
from tony.model.progress import ProgressRecords
from tony.model.states import JobState

#: Spans of one request.
MAX_SPANS_PER_REQUEST = 1000
#: Events of the job's span.
_MAX_SPAN_EVENTS = 500
#: Characters of a text.
_MAX_TEXT_LENGTH = 1000
_INTERNAL = 1
_OK = 1
_ERROR = 2

Attribute = str | int | float | bool


@dataclass(frozen=True, slots=True)
class _SpanBuilder:
    """Builds the spans of one job."""

    job: str
    accepted: float

    @property
    def trace(self) -> str:
        """The id of the trace."""
        return hashlib.sha256(self.job.encode()).hexdigest()[:32]

    def id_of(self, *path: object) -> str:
        """Return a span's id, derived from its path in the trace."""
        return hashlib.sha256("/".join(map(str, (self.job, *path))).encode()).hexdigest()[:16]

    def moment(self, at: float) -> str:
        """Return nanoseconds since 1970, as text: too large for a JSON number."""
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
        """Build one span."""
        return {
            "traceId": self.trace,
            "spanId": self.id_of(*path),
            **({} if parent is None else {"parentSpanId": self.id_of(*parent)}),
            "name": name[:_MAX_TEXT_LENGTH],
            "kind": _INTERNAL,
            "startTimeUnixNano": self.moment(since),
            "endTimeUnixNano": self.moment(until),
            "attributes": _attributes(attributes),
        }


def requests(
    line: Timeline, report: JobReport, marks: ProgressRecords | None = None, version: str = ""
) -> Iterator[Json]:
    """Yield the trace as request bodies of `MAX_SPANS_PER_REQUEST` spans each; the job's own span is in the first.

    Args:
        marks: reported progress and checkpoints; without them, running time is not split.
    """
    spans = _build_spans(line, report, marks)
    while batch := [span for span, _ in zip(spans, range(MAX_SPANS_PER_REQUEST), strict=False)]:
        yield {
            "resourceSpans": [
                {
                    "resource": {"attributes": _attributes({"service.name": "tony", "service.version": version})},
                    "scopeSpans": [{"scope": {"name": "tony", "version": version}, "spans": batch}],
                }
            ]
        }


def _build_spans(line: Timeline, report: JobReport, marks: ProgressRecords | None) -> Iterator[dict[str, Json]]:
    make = _SpanBuilder(line.job, line.accepted)
    yield _build_job_span(make, line, report)
    for session in line.sessions:
        attributes: dict[str, Attribute] = {"tony.session": session.number, "tony.reason": session.reason}
        path = ("session", session.number)
        yield make.span(f"session {session.number}", path, (), session.since, session.until, attributes)
    opened = {session.number for session in line.sessions}
    facts = AttemptFacts(line, marks)
    for task, spans in line.group_by_task():
        yield from _build_task_spans(
            make, task, [span for span in spans if span.what is not TaskPhase.NO_CONTAINER], opened, facts
        )


def _build_job_span(make: _SpanBuilder, line: Timeline, report: JobReport) -> dict[str, Json]:
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
    markers = sorted(line.marks, key=lambda mark: mark.at)[:_MAX_SPAN_EVENTS]
    span["events"] = [
        {
            "timeUnixNano": make.moment(mark.at),
            "name": mark.what.value,
            "attributes": _attributes({"tony.task": mark.task, "tony.note": mark.note}),
        }
        for mark in markers
    ]
    if report.state in (JobState.FAILED, JobState.KILLED):
        why = report.failure.reason if report.failure else report.state.value
        span["status"] = {"code": _ERROR, "message": why[:_MAX_TEXT_LENGTH]}
    elif report.state is JobState.SUCCEEDED:
        span["status"] = {"code": _OK}
    return span


def _build_task_spans(
    make: _SpanBuilder, task: str, spans: Sequence[Span], opened: set[int], facts: AttemptFacts
) -> Iterator[dict[str, Json]]:
    """Yield a task's span in each session, and the spans below it."""
    for session in dict.fromkeys(span.session for span in spans):
        session_spans = [span for span in spans if span.session == session]
        path = ("task", task, session)
        parent = ("session", session) if session in opened else ()
        attributes: dict[str, Attribute] = {"tony.task": task, "tony.role": parse_role(task)}
        attributes |= {"tony.session": session, "tony.try": max(span.try_ for span in session_spans)}
        yield make.span(task, path, parent, session_spans[0].since, session_spans[-1].until, attributes)
        for since, until, bucket in _merge_adjacent(piece for span in session_spans for piece in facts.pieces([span])):
            note = next((span.note for span in session_spans if span.since <= since < span.until and span.note), "")
            more = {"tony.task": task, **({"tony.note": note} if note else {})}
            yield make.span(bucket.value, (*path, since, bucket.value), path, since, until, more)


def _merge_adjacent(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Merge adjacent pieces of the same bucket."""
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
    return {"stringValue": value[:_MAX_TEXT_LENGTH]}
