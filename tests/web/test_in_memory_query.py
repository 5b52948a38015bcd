"""Jobs that are at hand are found, ordered and paged as an index would."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tony.model.job_query import DAMAGED, JobSort, Query
from tony.model.job_report import FailureClass
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.web.in_memory_query import select_jobs

NOW = 10_000.0


def head(number: int, **more: object) -> JobHead:
    """One job; what is odd failed, every third runs."""
    state = JobState.RUNNING if number % 3 == 0 else JobState.FAILED if number % 2 else JobState.SUCCEEDED
    made = JobHead(
        job=f"local-{number:03}",
        name=f"job {number % 4}",
        state=state,
        user=("ann", "bob")[number % 2],
        scheduler="local",
        framework="none",
        tasks=number,
        submitted=1000.0 + number // 2,
        ended=None if state is JobState.RUNNING else 2000.0 + number,
        failure_class=FailureClass.USER if state is JobState.FAILED else None,
        reason="no such file" if state is JobState.FAILED else "",
        tags=("night",) if number % 5 == 0 else (),
        gpu_hours=None if number % 7 else float(number),
    )
    return replace(made, **more)  # type: ignore[arg-type]


HEADS = [head(number) for number in range(40)]


def found(query: Query) -> list[int]:
    """Numbers of the jobs of all pages, in order."""
    numbers: list[int] = []
    for _ in range(100):
        page = select_jobs(HEADS, query, NOW)
        numbers += [int(each.job[-3:]) for each in page.heads]
        if not page.next:
            assert len(numbers) == page.total
            return numbers
        query = replace(query, after=page.next)
    raise AssertionError("pages without an end")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(user="ann", state="failed"), []),
        (Query(user="bob", state="failed"), [n for n in range(40) if n % 2 and n % 3]),
        (Query(state="active"), list(range(0, 40, 3))),
        (Query(tag="night"), list(range(0, 40, 5))),
        (Query(text="NO SUCH file"), [n for n in range(40) if n % 2 and n % 3]),
        (Query(text="local-017"), [17]),
        (Query(failure_class=FailureClass.PLATFORM), []),
        (Query(since=1003.0, until=1004.0), [6, 7, 8, 9]),
        (Query(readers=("bob", "*")), list(range(1, 40, 2))),
        (Query(state=DAMAGED), []),
    ],
)
def test_filters(query: Query, expected: list[int]) -> None:
    """Each leaves out what does not have it."""
    assert expected == sorted(found(query))


@pytest.mark.parametrize(
    ("sort", "descending", "most"), list(itertools.product(JobSort, (True, False), (1, 7, 40, 50)))
)
def test_pages_follow_one_another(sort: JobSort, descending: bool, most: int) -> None:
    """Whatever the order and the size of a page: each job once, and those of which it is not known come last."""
    numbers = found(Query(sort=sort, descending=descending, most=most))
    assert sorted(numbers) == list(range(40))
    if sort is JobSort.GPU_HOURS:
        assert set(numbers[:6]) == {0, 7, 14, 21, 28, 35}
    if sort is JobSort.TASKS:
        assert numbers == sorted(range(40), reverse=descending)


def test_a_page_goes_on_although_its_last_job_has_gone() -> None:
    """What comes next is what would have come next."""
    first = select_jobs(HEADS, Query(most=10), NOW)
    left = [each for each in HEADS if each.job != first.heads[-1].job]
    second = select_jobs(left, Query(most=10, after=first.next), NOW)
    assert select_jobs(HEADS, Query(most=20), NOW).heads[10:] == second.heads


@pytest.mark.parametrize("after", ["x", "%%%", "bnVsbA", "W10", "WzEsIDJd", "é"])
def test_a_place_that_is_none(after: str) -> None:
    """What is no answer of ours is said to be none."""
    with pytest.raises(ValueError, match="after"):
        select_jobs(HEADS, Query(after=after), NOW)


def test_what_can_be_chosen() -> None:
    """The most frequent values first, of all jobs."""
    facets = select_jobs([*HEADS, head(99, damaged="unreadable")], Query(user="ann"), NOW).facets
    assert [("bob", 21), ("ann", 20)] == [(each.value, each.jobs) for each in facets.users]
    assert (DAMAGED, 1) in [(each.value, each.jobs) for each in facets.states]
