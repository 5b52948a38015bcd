"""`tony trace`: a job's life goes to a collector, or is shown as it would go there."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Tony
from tests.cli.test_reading_commands import write_killed_job
from tests.facts import mentions
from tests.jobs.fake_am import JOB, failed, recorded
from tests.jobs.test_otlp_export import check, collector, spans_of
from tony import clock
from tony.history.job_record import write_summary
from tony.model.state_directory import Home


@pytest.fixture
def job(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was killed; no collector is configured."""
    folder, record = recorded(home)
    write_killed_job(folder, record)
    write_summary(folder, failed(folder, record))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("job")
def test_it_is_sent(tony: Tony, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the collector that is named, or that the environment names; with its headers."""
    with collector() as made:
        answer = tony("trace", JOB, "--otlp", made.url)
        assert (answer.code, answer.err) == (0, "")
        count = len(spans_of(made.bodies))
        assert answer.out == f"Sent {count} spans of {JOB} to {made.url}/v1/traces\n"
        check(spans_of(made.bodies))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=x")
        assert tony("trace", JOB, "--json").json == {"job": JOB, "spans": count, "rejected": 0, "message": ""}
        assert made.headers[-1]["api-key"] == "x"
        made.answers = [(200, {}, b'{"partialSuccess": {"rejectedSpans": 1, "errorMessage": "no"}}')]
        assert mentions(tony("trace", JOB).out.splitlines()[1], "rejected 1")


@pytest.mark.usefixtures("job")
def test_it_is_shown(tony: Tony) -> None:
    """One request a line, where there is no collector."""
    answer = tony("trace", JOB, "--json")
    assert answer.code == 0
    check(spans_of([json.loads(line) for line in answer.out.splitlines()]))


@pytest.mark.usefixtures("job")
def test_no_collector(tony: Tony) -> None:
    """The error says what to do, also for a wrong address and for a collector that does not answer."""
    answer = tony("trace", JOB)
    assert answer.code == 2
    assert f"tony trace {JOB} --otlp http://host:4318" in answer.err
    assert f"tony trace {JOB} --json" in answer.err
    assert tony("trace", JOB, "--otlp", "nonsense").code == 2


def test_nothing_has_happened(tony: Tony, home: Home) -> None:
    recorded(home, submitted=clock.wall())
    answer = tony("trace", JOB, "--json")
    assert answer.code == 2
    assert f"job {JOB} has no events yet" in answer.err
