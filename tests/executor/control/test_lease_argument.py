"""The argument of docs/am-failures.md, with random clocks: when the application master counts on it, nothing lives."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tony.core.steps.container_loss import DRIFT, compute_latest_exit_time
from tony.executor.control.am_connection import EXPIRY_GRACE_SECONDS
from tony.executor.control.lease import Lease

#: Seconds that a connection may stay without the answer that an executor attaches for.
ATTACHING = 11.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Seconds of a machine, whose clock runs at its own rate from its own beginning."""

    rate: float
    ahead: float

    def at(self, true: float) -> float:
        return self.rate * true + self.ahead

    def true(self, shown: float) -> float:
        return (shown - self.ahead) / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A heartbeat that asks: seconds since the one before, on its way there, and of the answer back; None: lost."""

    after: float
    there: float | None
    back: float | None


seconds = st.floats(0.0, 2000.0)
clocks = st.builds(Clock, rate=st.floats(1 - DRIFT / 2, 1 + DRIFT / 2.2), ahead=st.floats(0.0, 1e6))
questions = st.lists(
    st.builds(Question, after=st.floats(0.0, 100.0), there=st.none() | seconds, back=st.none() | seconds), max_size=20
)


@settings(max_examples=500)
@given(clocks, clocks, questions, st.floats(60.0, 5000.0), st.floats(0.0, 900.0))
def test_the_program_is_over_when_another_may_start(
    executor: Clock, master: Clock, asked: list[Question], length: float, grace: float
) -> None:
    """Whatever is lost, late or overtaken, and however fast the two clocks run, within what is assumed of them."""
    lease = Lease(length, 0.0, executor.at(0.0))
    contact = master.at(0.0)  # it has attached
    answers = []
    now = 0.0
    for question in asked:
        now += question.after
        if question.there is None:
            continue
        contact = max(contact, master.at(now + question.there))
        if question.back is not None:
            answers.append((now + question.there + question.back, executor.at(now)))
    for came, sent in sorted(answers):
        if lease.compute_time_left(executor.at(came), no_listener=False) > 0:  # else it has ended before that came
            lease.renew(sent)
    noticed = lease.ends + max(EXPIRY_GRACE_SECONDS, ATTACHING)
    over = executor.true(noticed + grace)
    assert over <= master.true(compute_latest_exit_time(contact, length, grace))
