"""How far a job is: as far as its slowest task, with an end to be expected only where that can be said."""

from __future__ import annotations

from tony.history.marks import Progress
from tony.web.progress import judge


def told(task: str, step: float, at: float, total: float | None = 100.0, session: int = 1) -> Progress:
    """Began with step 0 at second 10."""
    return Progress(task, session, 1, 0.0, 10.0, step, at, total)


def test_nothing_is_known() -> None:
    """Without a word of any program nothing is said."""
    assert judge([], 50.0) is None


def test_the_slowest_counts() -> None:
    """Half of it in 40 s: as much again, less what has passed since."""
    found = judge([told("a:0", 90, 50.0), told("a:1", 50, 50.0)], 55.0)
    assert found is not None
    assert ("a:1", 0.5, 1.25, 35.0, 5.0, 2) == (
        found.task, found.share, found.rate, found.left, found.age, found.tasks
    )  # fmt: skip


def test_only_the_last_session_counts() -> None:
    """What was told before a restart is over."""
    found = judge([told("a:0", 99, 50.0), told("a:0", 10, 70.0, session=2)], 80.0)
    assert found is not None
    assert 0.1 == found.share


def test_a_session_that_told_nothing_yet() -> None:
    """How far the one before came is not how far this one is."""
    assert judge([told("a:0", 99, 50.0)], 60.0, 2) is None
    assert judge([told("a:0", 99, 50.0)], 60.0, 1) is not None


def test_without_an_end() -> None:
    """A program that does not say how many steps there are has a step, and no share."""
    found = judge([told("a:0", 20, 30.0, total=None)], 40.0)
    assert found is not None
    assert (20, None, None, 1.0) == (found.step, found.share, found.left, found.rate)


def test_of_a_job_that_ended() -> None:
    """How far it came; nothing is left of it."""
    found = judge([told("a:0", 20, 30.0)], None)
    assert found is not None
    assert (0.2, None, None) == (found.share, found.left, found.age)


def test_what_succeeded_did_not_stop_short() -> None:
    """Who counts from 0 tells 49 of 50 last: that is no 98 %. Who told all of it was told to the end."""
    short, whole = told("a:0", 49, 30.0, total=50.0), told("a:1", 50, 30.0, total=50.0)
    found = judge([short], None, succeeded={"a:0"})
    assert found is not None
    assert (49, 50.0, None) == (found.step, found.total, found.share)
    found = judge([whole], None, succeeded={"a:1"})
    assert found is not None
    assert 1.0 == found.share


def test_who_succeeded_is_not_the_slowest() -> None:
    """The others are what is waited for; of one that is over nothing is left, and nothing more to be told."""
    done, runs = told("a:0", 49, 30.0, total=50.0), told("a:1", 99, 50.0)
    found = judge([done, runs], 55.0, succeeded={"a:0"})
    assert found is not None
    assert ("a:1", 0.99, 5.0) == (found.task, found.share, found.age)
    found = judge([done], 55.0, succeeded={"a:0"})
    assert found is not None
    assert ("a:0", None, None, None) == (found.task, found.share, found.left, found.age)


def test_odd_numbers() -> None:
    """Steps beyond the total, and all at one moment, break nothing."""
    found = judge([Progress("a:0", 1, 1, 5.0, 10.0, 500.0, 10.0, 100.0)], 10.0)
    assert found is not None
    assert (1.0, None, None) == (found.share, found.rate, found.left)
