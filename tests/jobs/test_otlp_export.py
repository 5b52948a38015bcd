"""A job as a trace: spans that lie in each other; they reach a collector, which may be busy, or refuse them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.history.simulated_logs import entries, life, record
from tests.history.test_goodput import EXPECTED, SAID, trained
from tests.support.simulation import Simulation
from tests.support.timelines import timeline
from tony.core.report_builder import ReportContext, build_report
from tony.errors import ConnectionFailedError, InfraError, UserError
from tony.jobs.otlp_export import MAX_SPANS_PER_REQUEST, build_traces_url, parse_headers, requests, send

AROUND = ReportContext(folder="/jobs/sim", user="ann", submitted=1000.0, live={})


def traced(cluster: Simulation, marks: Any = None) -> list[Any]:
    line = timeline(record(cluster.app.state.spec), entries(cluster))
    return list(requests(line, build_report(cluster.app, cluster.now, AROUND), marks, "1.0"))


def spans_of(bodies: list[Any]) -> list[Any]:
    return [
        span
        for body in bodies
        for resource in body["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def check(spans: list[Any]) -> None:
    """One trace, ids of their form, each span within its parent."""
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    roots = [span for span in spans if "parentSpanId" not in span]
    assert len(roots) == 1
    assert {len(span["traceId"]) for span in spans} == {32}
    assert {len(span["spanId"]) for span in spans} == {16}
    for span in spans:
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        if span is not roots[0]:
            parent = by_id[span["parentSpanId"]]
            assert parent["traceId"] == span["traceId"]
            assert int(span["endTimeUnixNano"]) <= int(roots[0]["endTimeUnixNano"])


def seconds(spans: list[Any], name: str) -> float:
    """How long all spans of a name are."""
    return sum(int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"]) for s in spans if s["name"] == name) / 1e9


def test_spans_of_a_job_with_known_phases() -> None:
    """Queue, allocate, set-up, rendezvous, warm-up, run, checkpoint, restart: as the ledger has them."""
    spans = spans_of(traced(trained(), SAID))
    check(spans)
    for name, expected in EXPECTED.items():
        assert seconds(spans, name) == pytest.approx(expected, rel=0.01), name
    names = [span["name"] for span in spans]
    assert {"job job", "session 1", "session 2", "worker:0", "worker:1"} <= set(names)
    root = spans[0]
    assert root["startTimeUnixNano"] == "1000000000000"
    assert root["status"] == {"code": 1}
    assert {event["name"] for event in root["events"]} == {"restart"}
    attributes = {each["key"]: each["value"] for each in root["attributes"]}
    assert attributes["tony.user"] == {"stringValue": "ann"}
    assert attributes["tony.tasks"] == {"intValue": "2"}


def test_the_same_job_is_the_same_trace() -> None:
    """Sent again, also later with more of it, it makes no second trace."""
    assert traced(trained(), SAID) == traced(trained(), SAID)
    early = {span["spanId"] for span in spans_of(traced(trained()))}
    assert spans_of(traced(trained(), SAID))[0]["spanId"] in early


def test_random_lives() -> None:
    """Whatever happened, it is a sound trace; large ones come in pieces."""
    for seed in range(60):
        bodies = traced(life(seed).cluster)
        spans = spans_of(bodies)
        try:
            check(spans)
        except AssertionError as error:
            error.add_note(f"in life {seed}")
            raise
        assert all(len(body["resourceSpans"][0]["scopeSpans"][0]["spans"]) <= MAX_SPANS_PER_REQUEST for body in bodies)


class Collector:
    """Takes traces on a port of this machine, as one of OpenTelemetry does.

    Attributes:
        bodies: what came; headers: of each request, by names in lower case.
        answers: status, headers and body of the next answers; then all is well.
    """

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                code, headers, body = collector.answers.pop(0) if collector.answers else (200, {}, b"{}")
                if code == 200:
                    assert self.path == "/v1/traces"
                    collector.bodies.append(json.loads(data))
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                """Suppress the server's log."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_a_trace_arrives() -> None:
    """With the headers that were wanted, as the protocol has it."""
    bodies = traced(trained(), SAID)
    with collector() as made:
        sent = send(build_traces_url(made.url), bodies, {"Authorization": "Bearer x"})
        assert (sent.spans, sent.rejected, sent.message) == (len(spans_of(bodies)), 0, "")
    assert made.bodies == bodies
    assert made.headers[0]["content-type"] == "application/json"
    assert made.headers[0]["authorization"] == "Bearer x"


def test_a_busy_collector_is_retried() -> None:
    """After the time that it gives, or longer each time."""
    pauses: list[float] = []
    with collector() as made:
        made.answers = [(503, {}, b""), (429, {"Retry-After": "7"}, b""), (502, {"Retry-After": "soon"}, b"")]
        send(build_traces_url(made.url), traced(trained()), pause=pauses.append)
        assert len(made.bodies) == 1
    assert pauses == [0.5, 7.0, 2.0]


def test_one_that_is_busy_for_ever() -> None:
    with collector() as made:
        made.answers = [(503, {}, b"later\x1b[2J")] * 4
        with pytest.raises(InfraError, match=r"refused the trace: HTTP 503, later \[2J"):
            send(build_traces_url(made.url), traced(trained()), pause=lambda seconds: None)


def test_a_refusing_collector_is_not_retried() -> None:
    """The error has its response."""
    with collector() as made:
        made.answers = [(401, {}, b"no such token")]
        with pytest.raises(InfraError, match="HTTP 401, no such token"):
            send(build_traces_url(made.url), traced(trained()), pause=lambda seconds: None)
        assert len(made.headers) == 1


def test_redirects_are_refused() -> None:
    """Headers may contain keys: no other host gets them."""
    with collector() as made, collector() as other:
        made.answers = [(302, {"Location": f"{other.url}/v1/traces"}, b"")]
        with pytest.raises(InfraError, match="HTTP 302"):
            send(
                build_traces_url(made.url), traced(trained()), {"Authorization": "Bearer x"}, pause=lambda seconds: None
            )
        assert (len(made.headers), other.headers) == (1, [])


def test_some_spans_are_not_wanted() -> None:
    """The collector takes the others."""
    with collector() as made:
        made.answers = [(200, {}, b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}')]
        sent = send(build_traces_url(made.url), traced(trained()))
        assert (sent.rejected, sent.message) == (3, "too old")
        made.answers = [(200, {}, b"<html>")]
        assert send(build_traces_url(made.url), traced(trained())).rejected == 0


def test_no_collector() -> None:
    with collector() as made:
        url = made.url
    with pytest.raises(ConnectionFailedError, match=f"no collector answers at {url}/v1/traces"):
        send(build_traces_url(url), traced(trained()), pause=lambda seconds: None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h:4318", "http://h:4318/v1/traces"),
        ("https://h/otel/", "https://h/otel/v1/traces"),
        ("http://h/v1/traces", "http://h/v1/traces"),
        ("http://h/x?key=1#y", "http://h/x/v1/traces?key=1"),
    ],
)
def test_where_traces_go(text: str, expected: str) -> None:
    """The path of the protocol is added where it is missing."""
    assert build_traces_url(text) == expected


@pytest.mark.parametrize("text", ["h:4318", "ftp://h", "http://", "file:///etc/passwd", "http://h:x", ""])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="http://host:4318"):
        build_traces_url(text)


def test_headers() -> None:
    """As every exporter reads them; wrong ones are refused without a word of what they hold."""
    assert parse_headers("") == {}
    assert parse_headers("a=b, api-key = x%20y=z") == {"a": "b", "api-key": "x y=z"}
    for text in ("secret", "a b=secret", "a=se%0Acret", "=secret"):
        with pytest.raises(UserError) as caught:
            parse_headers(text)
        assert "secret" not in str(caught.value)
