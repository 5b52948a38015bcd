"""How far a job is: as far as its slowest task, with an end to be expected only where that can be said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tony.model.progress import Progress
from tony.model.progress_rules import is_stalled, measure_job, measure_task


def told(task: str, step: float, at: float, total: float | None = 100.0, session: int = 1) -> Progress:
    """Began with step 0 at second 10."""
    return Progress(task, session, 1, 0.0, 10.0, step, at, total)


def test_nothing_is_known() -> None:
    """Without a word of any program nothing is said."""
    assert measure_job([], 50.0) is None


def test_the_slowest_counts() -> None:
    """Half of it in 40 s: as much again, less the age of the report."""
    found = measure_job([told("a:0", 90, 50.0), told("a:1", 50, 50.0)], 55.0)
    assert found is not None
    assert ("a:1", 0.5, 1.25, 50 * 0.8 - 5.0, 5.0, 2) == (
        found.task, found.share, found.rate, found.left, found.age, found.tasks
    )  # fmt: skip


def test_only_the_last_session_counts() -> None:
    """What was told before a restart has ended."""
    found = measure_job([told("a:0", 99, 50.0), told("a:0", 10, 70.0, session=2)], 80.0)
    assert found is not None
    assert 0.1 == found.share


def test_a_session_without_reports_has_no_progress() -> None:
    """The progress of the previous session does not count."""
    assert measure_job([told("a:0", 99, 50.0)], 60.0, 2) is None
    assert measure_job([told("a:0", 99, 50.0)], 60.0, 1) is not None


def test_without_an_end() -> None:
    """A program that does not say how many steps there are has a step, and no share."""
    found = measure_job([told("a:0", 20, 30.0, total=None)], 40.0)
    assert found is not None
    assert (20, None, None, 1.0) == (found.step, found.share, found.left, found.rate)


def test_of_a_job_that_ended() -> None:
    """How far it came; nothing is left of it."""
    found = measure_job([told("a:0", 20, 30.0)], None)
    assert found is not None
    assert (0.2, None, None) == (found.share, found.left, found.age)


def test_a_succeeded_task_has_no_partial_progress() -> None:
    """A program that counts from 0 reports 49 of 50 last: that is not 98 %. A report of all steps stays."""
    short, whole = told("a:0", 49, 30.0, total=50.0), told("a:1", 50, 30.0, total=50.0)
    found = measure_job([short], None, succeeded={"a:0"})
    assert found is not None
    assert (49, 50.0, None) == (found.step, found.total, found.share)
    found = measure_job([whole], None, succeeded={"a:1"})
    assert found is not None
    assert 1.0 == found.share


def test_a_succeeded_task_is_not_the_slowest() -> None:
    """The job waits for the others; an ended task has no remaining time and no age."""
    done, runs = told("a:0", 49, 30.0, total=50.0), told("a:1", 99, 50.0)
    found = measure_job([done, runs], 55.0, succeeded={"a:0"})
    assert found is not None
    assert ("a:1", 0.99, 5.0) == (found.task, found.share, found.age)
    found = measure_job([done], 55.0, succeeded={"a:0"})
    assert found is not None
    assert ("a:0", None, None, None) == (found.task, found.share, found.left, found.age)


def test_odd_numbers() -> None:
    """Steps beyond the total, and all at one moment, break nothing."""
    found = measure_job([Progress("a:0", 1, 1, 5.0, 10.0, 500.0, 10.0, 100.0)], 10.0)
    assert found is not None
    assert (1.0, None, None) == (found.share, found.rate, found.left)


#: Eight steps of half a second each, and none since.
HUNG = Progress("a:1", 1, 1, 0.0, 2.0, 8.0, 6.0, 40.0, stalled_after=30.0)


def test_a_stalled_program_has_no_rate_and_no_end() -> None:
    """Not even an end that is near: only for how long it has been stalled is known."""
    before, after = measure_task(HUNG, 16.0), measure_task(HUNG, 80.0)
    assert (before.rate, before.left, before.stalled) == (2.0, 32 * 0.5 - 10.0, None)
    assert (after.rate, after.left, after.stalled, after.age, after.share) == (None, None, 74.0, 74.0, 0.2)


def test_a_job_is_held_up_by_a_stalled_task() -> None:
    """However far it is: the others may finish, and it does not."""
    far = Progress("a:0", 1, 1, 1.0, 2.0, 39.0, 6.0, 40.0, stalled_after=30.0)
    slow = Progress("a:2", 1, 1, 0.0, 2.0, 5.0, 79.0, 40.0, stalled_after=30.0)
    found = measure_job([far, slow], 80.0)
    assert found is not None
    assert (found.task, found.stalled, found.tasks) == ("a:0", 74.0, 2)


def test_tasks_that_wait_for_the_stalled_one_are_distinguished_from_it() -> None:
    other = replace(HUNG, task="a:0", step=7.0)
    found = measure_job([other, HUNG], 80.0, stalled_task="a:1")
    assert found is not None
    assert (found.task, found.waits_for) == ("a:1", "")
    victim = measure_task(other, 80.0, stalled_task="a:1")
    assert (victim.stalled, victim.waits_for) == (74.0, "a:1")
    assert measure_task(other, 16.0, stalled_task="a:1").waits_for == ""


def test_a_task_that_does_not_run_is_not_stalled() -> None:
    """A task that failed, and one that has made all of its steps."""
    found = measure_job([HUNG], 80.0, running=frozenset())
    assert found is not None
    assert (found.stalled, found.left) == (None, None)
    done = Progress("a:0", 1, 1, 0.0, 2.0, 40.0, 6.0, 40.0, stalled_after=30.0)
    assert measure_task(done, 80.0).stalled is None


@pytest.mark.parametrize(("first", "step", "stalled"), [(0.0, 39.0, False), (1.0, 39.0, True), (0.0, 38.0, True)])
def test_the_last_step_of_a_program_that_counts_from_0(first: float, step: float, stalled: bool) -> None:
    assert is_stalled(Progress("a:0", 1, 1, first, 2.0, step, 6.0, 40.0, stalled_after=30.0), 80.0) is stalled


def test_a_step_beyond_the_total_is_not_the_last() -> None:
    """As of all epochs, where the total is that of one: it may stall, and when it ends is unknown."""
    beyond = Progress("a:0", 1, 1, 1.0, 2.0, 50.0, 6.0, 40.0, stalled_after=30.0)
    assert is_stalled(beyond, 80.0)
    assert measure_task(beyond, 7.0).left is None


def test_a_program_that_reports_the_same_step_again() -> None:
    """After a while no end is to be expected; it is no stall, and how long a step takes does not grow meanwhile."""
    again = replace(HUNG, at=70.0, changed_at=6.0)
    young, old = measure_task(replace(again, at=20.0, stalls=((8.0, 19.0),)), 21.0), measure_task(again, 80.0)
    assert (young.rate, young.left, young.stalled) == (2.0, 32 * 0.5 - 1.0, None)
    assert (old.rate, old.left, old.stalled, old.age) == (None, None, None, 10.0)


def test_the_rate_is_that_of_steps() -> None:
    """The time of a stall before is no part of it."""
    went_on = Progress("a:0", 1, 1, 0.0, 0.0, 20.0, 110.0, 40.0, stalled_after=30.0, stalls=((10.0, 110.0),))
    assert measure_task(went_on, 110.0).rate == 2.0


def test_no_time_left_is_estimated_while_a_report_is_overdue() -> None:
    reported = Progress("a:0", 1, 1, 0.0, 0.0, 100.0, 10.0, 200.0, stalled_after=30.0)
    at_once, later = measure_task(reported, 10.0), measure_task(reported, 12.0)
    assert (at_once.left, later.left, later.overdue) == (10.0, 8.0, None)  # both end at the same time
    assert measure_task(reported, 21.0).left is None  # the estimated end has passed
    silent = measure_task(reported, 25.0)
    assert (silent.left, silent.rate, silent.overdue, silent.stalled) == (None, None, 15.0, None)
    assert measure_task(reported, 45.0).overdue is None  # stalled
    twice = Progress("a:0", 1, 1, 0.0, 0.0, 10.0, 10.0, 200.0, stalled_after=600.0)
    assert (measure_task(twice, 15.0).overdue, measure_task(twice, 35.0).overdue) == (None, 25.0)
