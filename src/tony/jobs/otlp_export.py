"""Exports a job as an OpenTelemetry trace: in the JSON form of its protocol (OTLP), sent to a collector over HTTP."""

from __future__ import annotations

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tony.errors import ConnectionFailedError, InfraError, UserError
from tony.history.goodput import AttemptFacts, Piece
from tony.history.timeline import Span, TaskPhase, Timeline
from tony.model.codec import Json
from tony.model.ids import parse_role
from tony.model.job_report import JobReport
from tony.model.progress import ProgressRecords
from tony.model.states import JobState
from tony.retry import Backoff

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


#: Path under which collectors accept traces.
PATH = "/v1/traces"
#: Standard environment variables of exporters; headers are written `name=value,name=value`.
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_REQUEST_TIMEOUT_SECONDS = 30.0
_MAX_ATTEMPTS = 4
#: Between two attempts; longer if the collector says so, up to its maximum.
_PAUSES = Backoff(first=0.5, most=30.0)
#: HTTP status codes after which to retry.
_RETRY_STATUS = {429, 502, 503, 504}
#: Maximum bytes read of a response.
_MAX_ANSWER_BYTES = 64 << 10


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the headers may contain keys, which are meant for one host only."""

    def redirect_request(self, *_: object) -> None:
        """Return None: treat a redirect as an error."""
        return


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of an export.

    Attributes:
        spans: number of spans sent.
        rejected: how many of these the collector rejected.
        message: the collector's explanation; may be empty.
    """

    spans: int
    rejected: int
    message: str


def build_traces_url(url: str) -> str:
    """Return the URL for traces of a collector's address.

    Raises:
        UserError: the address is invalid.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise UserError(f"{url!r:.200} is not a collector address; use http://host:4318 or https://...")
    path = parts.path.rstrip("/")
    return urllib.parse.urlunsplit(parts._replace(path=path if path.endswith(PATH) else path + PATH, fragment=""))


def parse_headers(text: str) -> dict[str, str]:
    """Parse `name=value,name=value` with URL-encoded values (`%20`).

    Raises:
        UserError: the text is invalid. The message contains no values: they may be secrets.
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        value = urllib.parse.unquote(value.strip())
        is_valid_name = name.strip().isascii() and name.strip().replace("-", "").replace("_", "").isalnum()
        if not equals or not is_valid_name or not value.isprintable():
            raise UserError("headers must have the form name=value,name=value")
        found[name.strip()] = value
    return found


def send(
    url: str,
    bodies: Iterable[Json],
    headers: Mapping[str, str] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Sent:
    """Send request bodies in order, retrying while the collector is overloaded or unreachable.

    Args:
        url: as returned by `build_traces_url`.

    Raises:
        ConnectionFailedError: the collector does not answer.
        InfraError: the collector refuses the trace.
    """
    spans = rejected = 0
    message = ""
    for body in bodies:
        data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        answer = _send(url, data, headers or {}, pause)
        spans += sum(len(scope["spans"]) for each in body["resourceSpans"] for scope in each["scopeSpans"])
        less, text = _parse_partial_success(answer)
        rejected, message = rejected + less, text or message
    return Sent(spans, rejected, message)


def _send(url: str, data: bytes, headers: Mapping[str, str], pause: Callable[[float], None]) -> bytes:
    opener = urllib.request.build_opener(_RefuseRedirects)
    for attempt, wait in enumerate(_PAUSES, start=1):
        request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method="POST")
        try:
            with opener.open(request, timeout=_REQUEST_TIMEOUT_SECONDS) as answer:
                return bytes(answer.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _RETRY_STATUS or attempt == _MAX_ATTEMPTS:
                    raise InfraError(f"the collector at {url} refused the trace: {_describe_error(error)}") from None
            pause(min(max(wait, _parse_seconds(error.headers.get("Retry-After", ""))), _PAUSES.most))
        except (OSError, http.client.HTTPException) as error:
            if attempt == _MAX_ATTEMPTS:
                reason = getattr(error, "reason", None) or error
                raise ConnectionFailedError(f"no collector answers at {url}: {reason}") from None
            pause(wait)
    raise AssertionError("the last attempt returns or raises")


def _describe_error(error: urllib.error.HTTPError) -> str:
    text = error.read(500).decode("utf-8", "replace").strip()
    readable = "".join(char if char.isprintable() else " " for char in text)
    return f"HTTP {error.code}{f', {readable[:200]}' if readable else ''}"


def _parse_seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


def _parse_partial_success(answer: bytes) -> tuple[int, str]:
    """Return the number of rejected spans, and the reason."""
    try:
        found = json.loads(answer or b"{}").get("partialSuccess") or {}
        return int(found.get("rejectedSpans") or 0), str(found.get("errorMessage") or "")[:200]
    except (ValueError, AttributeError, TypeError):
        return 0, ""
