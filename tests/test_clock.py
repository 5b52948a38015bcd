"""The job's own time."""

from __future__ import annotations

import json

import pytest

from tony import clock
from tony.clock import JobClock


def test_the_clock_continues_from_its_start_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds since the job was accepted, whatever the monotonic clock shows."""
    now = 5000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    job = JobClock(12.5)
    assert job.now() == 12.5
    now += 3.25
    assert job.now() == 15.75


def test_it_begins_at_nought_at_the_earliest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that was put back between submission and start makes no negative times."""
    monkeypatch.setattr(clock, "monotonic", lambda: 5000.0)
    assert JobClock(-3.0).now() == 0.0


def test_a_log_holds_its_times_exactly() -> None:
    """What is written as JSON is read as the same number."""
    job = JobClock(1234.567891)
    for _ in range(100):
        now = job.now()
        assert json.loads(json.dumps(now)) == now == round(now, 6)
