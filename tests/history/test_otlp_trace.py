"""A job as a trace: spans that lie in each other, ids that stay, times that are the job's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.history.simulated_logs import entries, life, record
from tests.history.test_goodput import EXPECTED, SAID, trained
from tests.support.simulation import Simulation
from tests.support.timelines import timeline
from tony.core.report_builder import ReportContext, build_report
from tony.jobs.otlp_export import MAX_SPANS_PER_REQUEST, requests

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
