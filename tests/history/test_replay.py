"""The logs of real jobs lead a fresh machine to the same states, and nothing else passes for that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.facts import mentions
from tests.support.invariants import find_violations
from tony.core import events as ev
from tony.core.application import Application
from tony.core.state_digest import MACHINE
from tony.errors import InvalidTransitionError
from tony.history.event_log import LogEntry, read, segments
from tony.history.replay import Replay, replay
from tony.model.codec import from_plain
from tony.model.failure import Failure
from tony.model.submission_record import JobRecord

LOGS = Path(__file__).parent.parent / "logs"

#: Log -> state of the job, exit code, sessions, the failure's cause and task, and how its tasks ended.
OUTCOMES: dict[str, tuple[str, int, int, str | None, str | None, dict[str, int]]] = {
    "two-restarts": ("succeeded", 0, 3, None, None, {"succeeded": 4, "stopped": 1}),
    "failure": ("failed", 1, 1, "program", "worker:1", {"succeeded": 1, "failed": 1, "stopped": 2}),
    "killed": ("killed", 4, 1, "killed", None, {"stopped": 2}),
    "lost-executor": ("succeeded", 0, 2, None, None, {"succeeded": 3}),
    "group-time-out": ("failed", 1, 1, "group-timeout", "evaluator:0", {"succeeded": 1, "failed": 1}),
    "setup-role": ("succeeded", 0, 2, None, None, {"succeeded": 4}),
}


def record(name: str) -> JobRecord:
    """The job of one of the logs."""
    return from_plain(JobRecord, json.loads((LOGS / name / "job.json").read_text()))


def entries(name: str) -> list[LogEntry]:
    """The events of one of the logs."""
    return list(read(segments(LOGS / name)))


def replayed(name: str, events: Sequence[LogEntry]) -> Replay:
    """What a fresh machine makes of them."""
    job = record(name)
    return replay(job.job_id, job.spec, events)


def numbered(events: Sequence[LogEntry]) -> list[LogEntry]:
    """The same events in this order, as if they had been logged so."""
    return [replace(entry, seq=number, at=number * 1.0) for number, entry in enumerate(events, start=1)]


def test_every_log_is_looked_at() -> None:
    """A folder without an outcome here is forgotten."""
    assert {path.name for path in LOGS.iterdir() if path.is_dir()} == OUTCOMES.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_real_job_replays_to_the_same_end(name: str) -> None:
    """Every digest matches, every invariant holds on the way, and the outcome is the same."""
    job = record(name)
    wrong: list[tuple[int, str]] = []

    def watch(entry: LogEntry, app: Application) -> None:
        wrong.extend((entry.seq, text) for text in find_violations(app))

    result = replay(job.job_id, job.spec, entries(name), watch)
    assert (result.mismatch, wrong) == (None, [])
    state = result.app.state
    failure: Failure | None = state.final.failure if state.final else None
    assert (
        state.job.value,
        result.app.exit_code,
        state.session,
        failure and failure.cause,
        failure and failure.task and str(failure.task),
        Counter(task.state.value for task in state.tasks.values()),
    ) == OUTCOMES[name]


@pytest.mark.parametrize("name", OUTCOMES)
def test_digests_are_compared(name: str) -> None:
    """Those of this machine's version; the log of a newer machine would say nothing."""
    events = entries(name)
    of_ours = sum(isinstance(e.event, ev.Snapshot) and e.event.digest.startswith(f"{MACHINE}-") for e in events)
    assert replayed(name, events).checked == of_ours


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_prefix_of_a_log_replays(name: str) -> None:
    """Every beginning of a log is a log."""
    events = entries(name)
    for length in range(len(events)):
        result = replayed(name, events[:length])
        assert (result.mismatch, result.events) == (None, length)


def test_a_gap_is_found() -> None:
    events = entries("failure")
    result = replayed("failure", events[:5] + events[6:])
    assert result.mismatch == "event 6 is missing: the next event is 7"
    assert result.events == 5


def test_another_state_is_found() -> None:
    """A digest that is not met is where log and machine part."""
    *events, last = entries("failure")
    forged = replace(last, event=ev.Snapshot(digest=f"{MACHINE}-" + "0" * 64))
    result = replayed("failure", [*events, forged])
    assert result.mismatch is not None
    assert f"state before event {last.seq} differs" in result.mismatch


def test_the_digest_of_another_machine_is_not_compared() -> None:
    """It remembers otherwise: that is no difference between log and machine."""
    *events, last = entries("failure")
    older = replace(last, event=ev.Snapshot(digest=f"{MACHINE + 1}-" + "0" * 64))
    result = replayed("failure", [*events, older])
    assert (result.mismatch, result.checked) == (None, 0)


def test_another_job_is_found() -> None:
    """A log is replayed with the settings it was made with, or not at all."""
    job = record("failure")
    result = replay(job.job_id, replace(job.spec, max_restarts=7), entries("failure"))
    assert result.mismatch is not None
    assert result.mismatch.startswith("event 1: the log was written with other settings")


def test_an_impossible_event_is_found() -> None:
    """The machine refuses an AM attempt whose number does not rise."""
    events = entries("failure")
    twice = [*events[:3], replace(events[0], seq=4)]
    result = replayed("failure", twice)
    assert mentions(result.mismatch, "attempt 1", "4", "AM")


@settings(max_examples=100)
@given(name=st.sampled_from(sorted(OUTCOMES)), data=st.data())
def test_no_order_of_real_events_breaks_the_machine(name: str, data: st.DataObject) -> None:
    """Doubled, lost and swapped events of real jobs: refused or taken, and every invariant holds."""
    first, *rest = [entry for entry in entries(name) if not isinstance(entry.event, ev.Snapshot)]
    places = data.draw(st.lists(st.integers(0, len(rest) - 1), max_size=2 * len(rest)))
    app = Application("x", record(name).spec)
    for entry in numbered([first, *(rest[place] for place in places)]):
        try:
            app.handle(entry.event, entry.at)
        except InvalidTransitionError:
            assert isinstance(entry.event, ev.SessionOpened)
        assert find_violations(app) == []
