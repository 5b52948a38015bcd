"""Which jobs of many are wanted, in which order, and a page of them. What an address says, and the other way round.

Pages follow one another by key, never by number: `JobsPage.next` goes into the next query's `after`, and a job that
comes or goes meanwhile shifts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import Enum

from tony.dataclass import dataclass, field, fields
from tony.model.job_report import FailureClass
from tony.model.job_summary import JobHead
from tony.model.states import JobState

#: The state by which records are asked for that cannot be read; jobs of it have `JobHead.damaged`.
DAMAGED = "damaged"
#: What `Query.state` may be: one state, or several at once.
GROUPS: Mapping[str, frozenset[JobState]] = {
    **{state.value: frozenset({state}) for state in JobState},
    "active": frozenset(state for state in JobState if not state.ended),
    "ended": frozenset(state for state in JobState if state.ended),
}
#: Jobs on one page: unless something is said, and at most.
PAGE, MOST = 50, 1000
#: Characters of a word in an address: longer ones are no search.
LONGEST = 500


class JobSort(Enum):
    """By what jobs are ordered. Those of which it is not known come last in either direction."""

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
    """Which jobs are wanted; what is empty or None takes all.

    Attributes:
        text: words that id, name, user, tags or first cause hold, all of them; the beginning of the last
            one is enough.
        state: a word of `GROUPS`, or `DAMAGED`.
        since, until: bounds of the time of submission, seconds since 1970, both included.
        readers: who asks, by any of these names (`ann`, `@team`, `*`): jobs that none of them owns, may look at or
            change are left out. Empty: one who may see all. No address says this.
        after: what the page before said as its `next`.
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
    most: int = PAGE

    @property
    def filtered(self) -> bool:
        """Whether it leaves any job out."""
        return any(getattr(self, name) not in ("", None) for name in _FILTERS)


_FILTERS = ("text", "user", "state", "framework", "scheduler", "queue", "tag", "failure_class", "since", "until")
#: What no address says: who asks is found out in other ways.
_UNTOLD = "readers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One value that can be filtered by, and how many of all jobs have it."""

    value: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """What there is to filter by, the most frequent first; of users, queues and tags some hundred at most."""

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
        total: how many jobs match; None if nobody has counted.
        problems: one sentence for each place whose jobs may be missing, or out of date.
    """

    heads: tuple[JobHead, ...]
    next: str = ""
    total: int | None = None
    facets: Facets = field(default_factory=Facets)
    problems: tuple[str, ...] = ()


def to_words(query: Query) -> dict[str, str]:
    """What of a query goes into an address: name -> text, without what is as usual."""
    words: dict[str, str] = {}
    for each in fields(Query):
        value = getattr(query, each.name)
        if value == getattr(_USUAL, each.name) or each.name == _UNTOLD:
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
    """The query that an address says. Names that mean nothing here are left alone, empty values say nothing.

    Raises:
        ValueError: a value makes no sense; the text names it and says what does.
    """
    told: dict[str, object] = {}
    for each in fields(Query):
        text = words.get(each.name, "").strip()
        if not text or each.name == _UNTOLD:
            continue
        if len(text) > LONGEST:
            raise ValueError(f"{each.name}: more than {LONGEST} characters.")
        told[each.name] = _read(each.name, text)
    return Query(**told)  # type: ignore[arg-type]


def _read(name: str, text: str) -> object:
    if name == "state":
        return _one_of(name, text, (*GROUPS, DAMAGED))
    if name == "failure_class":
        return FailureClass(_one_of(name, text, [each.value for each in FailureClass]))
    if name == "sort":
        return JobSort(_one_of(name, text, [each.value for each in JobSort]))
    if name == "descending":
        return _one_of(name, text, ("yes", "no")) == "yes"
    if name == "most":
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST):
            raise ValueError(f"most: a whole number from 1 to {MOST} is expected, not {text[:60]!r}.")
        return int(text)
    if name in ("since", "until"):
        return _moment(name, text)
    return text


def _one_of(name: str, text: str, choices: tuple[str, ...] | list[str]) -> str:
    if text not in choices:
        raise ValueError(f"{name}: {text[:60]!r} is none of {', '.join(choices)}.")
    return text


def _moment(name: str, text: str) -> float:
    """Seconds since 1970, or a date or time of ISO 8601; without a zone it is UTC, and `until` a day is its end."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(seconds) and abs(seconds) < 1e11:
            return seconds
        raise ValueError(f"{name}: {text[:60]!r} is no time.")
    try:
        if len(text) == len("2026-01-31"):
            day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            return day.timestamp() + (86_399.999 if name == "until" else 0.0)
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(
            f"{name}: {text[:60]!r} is no time; write 2026-01-31, 2026-01-31T18:00 or seconds since 1970."
        ) from None


_USUAL = Query()
