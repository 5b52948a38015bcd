"""Why sessions began is read from the log without reading all of it."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.fake_am import logged, recorded
from tony.core.events import Event, FailureClassified, FailureResponse, SessionOpened, Snapshot
from tony.history.event_log import segments
from tony.history.event_queries import TELLING, list_lone_restarts, read_session_reasons, read_session_sizes
from tony.model.ids import TaskId
from tony.model.state_directory import Home


def test_reasons(tmp_path: Path) -> None:
    """Other events, and lines that make no sense, say nothing."""
    folder, _ = recorded(Home(tmp_path))
    assert read_session_reasons(folder) == {}
    logged(
        folder,
        [SessionOpened(session=1, reason="go"), Snapshot(digest="x"), SessionOpened(session=2, reason="it failed")],
    )
    with segments(folder.path)[-1].open("ab") as file:
        file.write(b'"session-opened" torn\n{"event": "session-opened"}\n')
    assert read_session_reasons(folder) == {1: "go", 2: "it failed"}


def test_lone_restarts(tmp_path: Path) -> None:
    """Each with its session; a verdict of another kind is none."""
    folder, _ = recorded(Home(tmp_path))
    first, second = (
        FailureClassified(
            task=TaskId("worker", index), failure="it failed", decision=FailureResponse.RETRY, reason="why"
        )
        for index in range(2)
    )
    opened = [SessionOpened(session=number, reason="go") for number in (1, 2)]
    gang = FailureClassified(
        task=TaskId("worker", 0), failure="it failed", decision=FailureResponse.RESTART, reason="why"
    )
    logged(folder, [opened[0], first, gang, opened[1], second])
    assert list_lone_restarts(folder) == [(1, first), (2, second)]


def test_session_facts_from_received_events() -> None:
    """Without an event log, events received from elsewhere give the same facts."""
    first = FailureClassified(
        task=TaskId("worker", 0), failure="it failed", decision=FailureResponse.RETRY, reason="why"
    )
    told: list[Event] = [SessionOpened(session=1, reason="go"), first, SessionOpened(session=2, reason="it failed")]
    assert all(isinstance(event, TELLING) for event in told)
    assert read_session_reasons(told) == {1: "go", 2: "it failed"}
    assert list_lone_restarts(told) == [(1, first)]
    assert read_session_sizes(told) == {}
