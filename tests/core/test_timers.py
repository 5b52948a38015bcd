"""Deadlines that are set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tony.core.deadline import Deadline, DeadlineKind, Timers


def named(host: str) -> Deadline:
    """One of the deadlines of which there may be many."""
    return Deadline(DeadlineKind.EXCLUSION, host)


def test_the_earliest_is_next() -> None:
    """Whatever the order in which they were set; of equal times the one that was set first."""
    timers = Timers()
    assert timers.find_next() is None
    timers.set(named("b"), 2.0)
    timers.set(named("c"), 1.0)
    timers.set(named("a"), 2.0)
    assert timers.find_next() == (1.0, named("c"))
    timers.cancel(named("c"))
    assert timers.find_next() == (2.0, named("b"))
    assert timers.all == {named("a"): 2.0, named("b"): 2.0}


def test_clearing_forgets_all() -> None:
    timers = Timers()
    timers.set(named("a"), 5.0)
    timers.clear()
    assert (timers.find_next(), dict(timers.all)) == (None, {})
    timers.set(named("a"), 5.0)
    assert timers.find_next() == (5.0, named("a"))


NAMES = st.sampled_from("abcde")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, st.integers(0, 20)),
        st.tuples(st.just("cancel"), NAMES, st.just(0)),
        st.tuples(st.just("pop"), NAMES, st.integers(0, 20)),
    ),
    max_size=60,
)


@given(STEPS)
def test_they_behave_like_a_plain_table(steps: list[tuple[str, str, int]]) -> None:
    """Any sequence of calls: the same as with a dict that is searched each time."""
    timers, plain = Timers(), dict[Deadline, float]()
    for what, letter, at in steps:
        name = named(letter)
        if what == "set":
            timers.set(name, at)
            plain[name] = at
        elif what == "cancel":
            timers.cancel(name)
            plain.pop(name, None)
        else:
            due = name in plain and plain[name] <= at
            assert timers.pop_due(name, at) is due
            if due:
                del plain[name]
        following = timers.find_next()
        assert (following and following[0]) == min(plain.values(), default=None)
        assert following is None or plain[following[1]] == following[0]
        assert timers.all == plain


def test_cancelled_timers_are_not_kept() -> None:
    """A job that restarts for weeks sets millions of deadlines that never pass."""
    timers = Timers()
    for session in range(1000):
        for task in range(10):
            timers.set(named(f"execution:{task}"), 1e6 + session)
        for task in range(10):
            timers.cancel(named(f"execution:{task}"))
    timers.set(named("last"), 2e6)
    assert len(timers._heap) < 200
    assert timers.find_next() == (2e6, named("last"))
