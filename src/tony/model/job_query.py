"""A query for jobs: filters, order and page, and its conversion to and from URL parameters.

Pages follow one another by key, never by number: `JobsPage.next` goes into the next query's `after`, so jobs that are
added or removed meanwhile shift nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from enum import Enum

from tony.model.failure import FailureClass
from tony.model.job_summary import JobHead
from tony.model.states import JobState

#: The state that selects unreadable history entries; such jobs have `JobHead.damaged`.
DAMAGED = "damaged"
#: Values of `Query.state`: one state, or several at once.
GROUPS: Mapping[str, frozenset[JobState]] = {
    **{state.value: frozenset({state}) for state in JobState},
    "active": frozenset(state for state in JobState if not state.ended),
    "ended": frozenset(state for state in JobState if state.ended),
}
#: Jobs on one page: by default, and at most.
DEFAULT_PAGE_JOBS = 50
MAX_PAGE_JOBS = 1000
#: Maximum characters of a parameter.
MAX_WORD_CHARACTERS = 500


class JobSort(Enum):
    """Sort key. Jobs without a value come last in either direction."""

    SUBMITTED = "submitted"
    ENDED = "ended"
    DURATION = "duration"  #: seconds from submission to the end, or until now
    NAME = "name"
    USER = "user"
    STATE = "state"
    TASKS = "tasks"
    RESTARTS = "restarts"
    GPU_HOURS = "gpu-hours"
    GB_HOURS = "gb-hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which jobs to return; empty and None match all.

    Attributes:
        text: words that must all occur in id, name, user, tags or root cause; the last one may be a prefix.
        state: a key of `GROUPS`, or `DAMAGED`.
        since, until: bounds of the submission time, seconds since 1970, both included.
        readers: names of the requesting user (`ann`, `@team`, `*`): only jobs that one of them owns, may view or change
            are returned. Empty: no restriction. Never part of a URL.
        after: `next` of the previous page.
        most: jobs on the page.
    """

    text: str = ""
    user: str = ""
    state: str = ""
    framework: str = ""
    scheduler: str = ""
    queue: str = ""
    tag: str = ""
    failure_class: FailureClass | None = None
    since: float | None = None
    until: float | None = None
    sort: JobSort = JobSort.SUBMITTED
    descending: bool = True
    readers: tuple[str, ...] = ()
    after: str = ""
    most: int = DEFAULT_PAGE_JOBS

    @property
    def filtered(self) -> bool:
        """Return True if the query has any filter."""
        return any(getattr(self, name) not in ("", None) for name in _FILTERS)

    def matches(self, head: JobHead) -> bool:
        """Return True if a job matches all filters."""
        if self.state == DAMAGED:
            in_state = bool(head.damaged)
        else:
            in_state = not self.state or (head.state in GROUPS[self.state] and not head.damaged)
        searched = " ".join((head.job, head.name, head.user, head.reason, head.cause, *head.tags)).casefold()
        return (
            in_state
            and self.user in ("", head.user)
            and self.framework in ("", head.framework)
            and self.scheduler in ("", head.scheduler)
            and self.queue in ("", head.queue)
            and (not self.tag or self.tag in head.tags)
            and (self.failure_class is None or self.failure_class is head.failure_class)
            and (self.since is None or head.submitted >= self.since)
            and (self.until is None or head.submitted <= self.until)
            and all(word in searched for word in self.text.casefold().split())
            and (not self.readers or not {head.user, *head.viewers, *head.editors}.isdisjoint(self.readers))
        )


_FILTERS = ("text", "user", "state", "framework", "scheduler", "queue", "tag", "failure_class", "since", "until")
#: Never part of a URL: the requesting user is determined by authentication.
_NOT_IN_URL = "readers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One value of a filter, and how many of all jobs have it."""

    value: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """The available filter values, the most frequent first; at most some hundred users, queues and tags."""

    users: tuple[Facet, ...] = ()
    states: tuple[Facet, ...] = ()
    frameworks: tuple[Facet, ...] = ()
    schedulers: tuple[Facet, ...] = ()
    queues: tuple[Facet, ...] = ()
    tags: tuple[Facet, ...] = ()
    failure_classes: tuple[Facet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPage:
    """The answer to a query.

    Attributes:
        next: the `after` of the next page; empty on the last one.
        total: number of matching jobs; None if not counted.
        problems: one sentence for each source whose jobs may be missing, or out of date.
    """

    heads: tuple[JobHead, ...]
    next: str = ""
    total: int | None = None
    facets: Facets = field(default_factory=Facets)
    problems: tuple[str, ...] = ()


def to_words(query: Query) -> dict[str, str]:
    """Return the URL parameters of a query: name -> text, without defaults."""
    words: dict[str, str] = {}
    for each in fields(Query):
        value = getattr(query, each.name)
        if value == getattr(_DEFAULTS, each.name) or each.name == _NOT_IN_URL:
            continue
        if isinstance(value, Enum):
            words[each.name] = str(value.value)
        elif isinstance(value, bool):
            words[each.name] = "yes" if value else "no"
        elif isinstance(value, float):
            words[each.name] = repr(value)
        else:
            words[each.name] = str(value)
    return words


def from_words(words: Mapping[str, str]) -> Query:
    """Return the query of URL parameters. Unknown names and empty values are ignored.

    Raises:
        ValueError: a value is invalid; the message names it and says what is valid.
    """
    values: dict[str, object] = {}
    for each in fields(Query):
        text = words.get(each.name, "").strip()
        if not text or each.name == _NOT_IN_URL:
            continue
        if len(text) > MAX_WORD_CHARACTERS:
            raise ValueError(f"{each.name}: more than {MAX_WORD_CHARACTERS} characters.")
        values[each.name] = _read(each.name, text)
    return Query(**values)  # type: ignore[arg-type]


def _read(name: str, text: str) -> object:
    if name == "state":
        return _check_choice(name, text, (*GROUPS, DAMAGED))
    if name == "failure_class":
        return FailureClass(_check_choice(name, text, [failure_class.value for failure_class in FailureClass]))
    if name == "sort":
        return JobSort(_check_choice(name, text, [sort.value for sort in JobSort]))
    if name == "descending":
        return _check_choice(name, text, ("yes", "no")) == "yes"
    if name == "most":
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_PAGE_JOBS):
            raise ValueError(f"most: expected a whole number from 1 to {MAX_PAGE_JOBS}, not {text[:60]!r}.")
        return int(text)
    if name in ("since", "until"):
        return _parse_time(name, text)
    return text


def _check_choice(name: str, text: str, choices: tuple[str, ...] | list[str]) -> str:
    if text not in choices:
        raise ValueError(f"{name}: {text[:60]!r} is not one of {', '.join(choices)}.")
    return text


def _parse_time(name: str, text: str) -> float:
    """Parse seconds since 1970, or an ISO 8601 date or time; UTC by default. For `until`, a date is its end."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(seconds) and abs(seconds) < 1e11:
            return seconds
        raise ValueError(f"{name}: {text[:60]!r} is not a time.")
    try:
        if len(text) == len("2026-01-31"):
            day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            return day.timestamp() + (86_399.999 if name == "until" else 0.0)
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(
            f"{name}: {text[:60]!r} is not a time; write 2026-01-31, 2026-01-31T18:00 or seconds since 1970."
        ) from None


_DEFAULTS = Query()
