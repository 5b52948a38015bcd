"""Whether another session follows, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.specs import workers
from tony.core.policies.restart import LONGEST_BACKOFF, PORT_RESTARTS, backoff, decide
from tony.core.state import State


def after(*, max_restarts: int, charged: int = 0, for_ports: int = 0) -> State:
    """A job that has restarted so often."""
    state = State("j", workers(1, max_restarts=max_restarts))
    state.restarts_charged, state.restarts_for_ports = charged, for_ports
    return state


TABLE = [
    # max_restarts, charged so far, for ports so far, cause -> restart, charged, the reason
    (0, 0, 0, "program", False, True, "max_restarts = 0"),
    (1, 0, 0, "program", True, True, "restart 1 of 1"),
    (1, 1, 0, "program", False, True, "all 1 restarts (max_restarts) are used up"),
    (3, 2, 0, "lost", True, True, "restart 3 of 3"),
    (0, 0, 0, "port-collision", True, False, "not charged: a reserved port was taken (1 of 3)"),
    (0, 0, 2, "port-collision", True, False, "not charged: a reserved port was taken (3 of 3)"),
    (0, 0, 3, "port-collision", False, True, "max_restarts = 0"),
    (2, 0, 3, "port-collision", True, True, "restart 1 of 2"),
    (2, 2, 0, "port-collision", True, False, "not charged: a reserved port was taken (1 of 3)"),
    (2, 2, 3, "port-collision", False, True, "all 2 restarts (max_restarts) are used up"),
]


@pytest.mark.parametrize(("limit", "charged", "ports", "cause", "restart", "is_charged", "reason"), TABLE)
def test_the_budget(
    limit: int, charged: int, ports: int, cause: str, restart: bool, is_charged: bool, reason: str
) -> None:
    """Failures are charged, taken ports are not, three times."""
    decision = decide(after(max_restarts=limit, charged=charged, for_ports=ports), cause)
    assert (decision.restart, decision.reason) == (restart, reason)
    assert not restart or decision.charged is is_charged


def test_the_first_restart_is_at_once() -> None:
    """And so is one for a taken port, however many there were."""
    assert decide(after(max_restarts=5), "program").delay == 0.0
    assert decide(after(max_restarts=5, charged=4), "port-collision").delay == 0.0
    assert decide(after(max_restarts=5, charged=1), "program").delay >= 1.0
    assert PORT_RESTARTS == 3


@given(st.floats(0, 1e6), st.integers(0, 10_000), st.text(max_size=10))
def test_the_pause_doubles_up_to_a_minute_with_jitter(base: float, done: int, seed: str) -> None:
    """Never longer than the longest, never shorter than it was said, but for the jitter at the longest."""
    pause = backoff(base, done, seed)
    plain = 0.0 if done == 0 else min(base * 2.0 ** min(done - 1, 30), LONGEST_BACKOFF)
    assert 0.0 <= pause <= LONGEST_BACKOFF
    assert 0.75 * plain <= pause <= 1.25 * plain
    if plain < LONGEST_BACKOFF * 0.75:
        assert pause >= plain


def test_the_jitter_differs_between_jobs_and_not_between_replays() -> None:
    """Jobs that failed together do not come back together, not even at the longest pause."""
    for done in (1, 20):
        pauses = {backoff(1.0, done, f"job-{n}") for n in range(50)}
        assert len(pauses) == 50
    assert backoff(1.0, 3, "job-1") == backoff(1.0, 3, "job-1")
