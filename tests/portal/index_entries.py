"""Made-up jobs, and what a query must answer of them, found the slow way."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from tony.model.failure import FailureClass
from tony.model.job_query import DAMAGED, GROUPS, JobSort, Query
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.portal.job_index.index_schema import IndexEntry

NOW = 1_760_000_000.0


def head(number: int = 0, **more: Any) -> JobHead:
    known: dict[str, Any] = {
        "job": f"application_1760000000000_{number:04d}",
        "name": "digits",
        "state": JobState.SUCCEEDED,
        "user": "ann",
        "scheduler": "yarn",
        "framework": "jax",
        "tasks": 4,
        "submitted": NOW + number,
        "ended": NOW + number + 60,
        "exit_code": 0,
        "sessions": 1,
    }
    return JobHead(**{**known, **more})


def entry(number: int = 0, place: str = "/here", **more: Any) -> IndexEntry:
    """The same as the index keeps it."""
    made = head(number, **more)
    return IndexEntry(head=made, place=place, path=f"jobs/{made.job}", stamp="1")


words = st.sampled_from(["digits", "ranker", "Übung", "a-b_c", "x", "résumé", "77"])
_hours = st.none() | st.sampled_from([0.0, 0.5, 2.0, 100.0])


@st.composite
def heads(draw: st.DrawFn, most: int = 30) -> Sequence[JobHead]:
    """Some jobs, many of which have much in common."""
    return [_head(draw, number) for number in range(draw(st.integers(0, most)))]


def _head(draw: st.DrawFn, number: int) -> JobHead:
    submitted = NOW + draw(st.integers(0, 5))
    ended = draw(st.none() | st.integers(0, 5).map(lambda seconds: submitted + seconds))
    damaged = draw(st.sampled_from(["", "", "", "job.json is not JSON"]))
    state = draw(st.sampled_from(JobState))
    return head(
        number,
        name=draw(words),
        state=JobState.FAILED if damaged else state,
        user=draw(st.sampled_from(["ann", "bob", "cy"])),
        framework=draw(st.sampled_from(["jax", "none"])),
        queue=draw(st.sampled_from(["", "root.a", "root.b"])),
        tags=tuple(draw(st.lists(words, max_size=2, unique=True))),
        submitted=submitted,
        ended=ended,
        tasks=draw(st.none() | st.integers(0, 3)),
        reason=draw(st.sampled_from(["", "worker:1: exit code 3", "boom"])),
        failure_class=draw(st.none() | st.sampled_from(FailureClass)),
        cause=draw(st.sampled_from(["", "program"])),
        restarts=draw(st.integers(0, 2)),
        gpu_hours=draw(_hours),
        gb_hours=draw(_hours),
        viewers=tuple(draw(st.lists(st.sampled_from(["bob", "@team", "*"]), max_size=2, unique=True))),
        editors=tuple(draw(st.lists(st.sampled_from(["cy", "@ops"]), max_size=1))),
        pinned=draw(st.booleans()),
        damaged=damaged,
    )


queries = st.builds(
    Query,
    text=st.sampled_from(
        ["", "", "digits", "dig", "WORKER", "resume ", "1 exit", "a b", "--", "application_1760", "7"]
    ),
    user=st.sampled_from(["", "", "ann", "eve"]),
    state=st.sampled_from(["", "", DAMAGED, *GROUPS]),
    framework=st.sampled_from(["", "", "jax"]),
    queue=st.sampled_from(["", "", "root.a"]),
    tag=st.sampled_from(["", "", "digits", "Übung"]),
    failure_class=st.none() | st.sampled_from(FailureClass),
    since=st.none() | st.integers(0, 5).map(lambda seconds: NOW + seconds),
    until=st.none() | st.integers(0, 5).map(lambda seconds: NOW + seconds + 0.5),
    readers=st.sampled_from([(), (), ("ann",), ("bob", "@team"), ("dee", "*")]),
    sort=st.sampled_from(JobSort),
    descending=st.booleans(),
    most=st.integers(1, 7),
)


def wanted(all_: Iterable[JobHead], query: Query) -> list[JobHead]:
    return [each for each in all_ if _matches(each, query)]


def _matches(each: JobHead, query: Query) -> bool:
    state = DAMAGED if each.damaged else each.state
    readers = {each.user, *each.viewers, *each.editors}
    return (
        (not query.user or query.user == each.user)
        and (not query.framework or query.framework == each.framework)
        and (not query.queue or query.queue == each.queue)
        and (not query.tag or query.tag in each.tags)
        and (not query.failure_class or query.failure_class is each.failure_class)
        and (not query.state or state == query.state or state in GROUPS.get(query.state, ()))
        and (query.since is None or each.submitted >= query.since)
        and (query.until is None or each.submitted <= query.until)
        and (not query.readers or bool(readers & set(query.readers)))
        and _holds(each, query.text)
    )


def _holds(each: JobHead, text: str) -> bool:
    if not text.strip():
        return True
    sought = _words(text)
    text = "\n".join((each.job, each.name, each.user, *each.tags, each.damaged or each.reason))
    has = _words(text)
    last = sought[-1:]
    begun = any(word.startswith(last[0]) for word in has) if last and len(last[0]) > 1 else set(last) <= set(has)
    return bool(sought) and set(sought[:-1]) <= set(has) and begun


def _words(text: str) -> list[str]:
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))
    return re.findall(r"[^\W_]+", plain)


def key(each: JobHead, sort: JobSort) -> Any:
    """What a job is ordered by; None if it is not known."""
    if sort is JobSort.DURATION:
        return None if each.ended is None else each.ended - each.submitted
    if sort is JobSort.STATE:
        return DAMAGED if each.damaged else each.state.value
    return getattr(each, sort.value.replace("-", "_"))
