"""Named deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tony.core.timers import Timers


def test_the_earliest_is_next() -> None:
    """Whatever the order in which they were set; equal times are told apart by name."""
    timers = Timers()
    assert timers.next() is None
    timers.set("b", 2.0)
    timers.set("c", 1.0)
    timers.set("a", 2.0)
    assert timers.next() == (1.0, "c")
    timers.cancel("c")
    assert timers.next() == (2.0, "a")
    assert timers.all == {"a": 2.0, "b": 2.0}


def test_a_deadline_can_be_moved() -> None:
    """Forwards and backwards; only the last word holds."""
    timers = Timers()
    for at in (5.0, 9.0, 3.0, 7.0):
        timers.set("a", at)
    assert timers.next() == (7.0, "a")
    assert not timers.pop_due("a", 6.9)
    assert timers.pop_due("a", 7.0)
    assert timers.next() is None


def test_a_deadline_comes_once() -> None:
    """Not before its time, not twice, not if it was cancelled, not if nobody set it."""
    timers = Timers()
    timers.set("a", 5.0)
    assert not timers.pop_due("a", 4.999)
    assert "a" in timers
    assert timers.pop_due("a", 5.0)
    assert "a" not in timers
    assert not timers.pop_due("a", 6.0)
    timers.set("b", 1.0)
    timers.cancel("b")
    timers.cancel("never set")
    assert not timers.pop_due("b", 2.0)


def test_clearing_forgets_all() -> None:
    """At a job's end."""
    timers = Timers()
    timers.set("a", 5.0)
    timers.clear()
    assert (timers.next(), dict(timers.all)) == (None, {})
    timers.set("a", 5.0)
    assert timers.next() == (5.0, "a")


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
    timers, plain = Timers(), dict[str, float]()
    for what, name, at in steps:
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
        assert timers.next() == min(((when, who) for who, when in plain.items()), default=None)
        assert timers.all == plain


def test_what_was_cancelled_is_not_kept() -> None:
    """A job that restarts for weeks sets millions of deadlines that never come."""
    timers = Timers()
    for session in range(1000):
        for task in range(10):
            timers.set(f"execution:{task}", 1e6 + session)
        for task in range(10):
            timers.cancel(f"execution:{task}")
    timers.set("last", 2e6)
    assert len(timers._heap) < 200
    assert timers.next() == (2e6, "last")
