"""Filter, sort and page a list of jobs in memory: meant for thousands of jobs, not millions."""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from tony.model.job_query import DAMAGED, Facet, Facets, JobSort, JobsPage, Query
from tony.model.job_summary import JobHead


def select_jobs(heads: Collection[JobHead], query: Query, now: float, problems: Sequence[str] = ()) -> JobsPage:
    """Return the page of jobs that a query selects.

    Args:
        now: seconds since 1970.

    Raises:
        ValueError: `query.after` is not a page cursor.
    """
    found = [head for head in heads if query.matches(head)]
    known = [head for head in found if _sort_value(head, query.sort, now) is not None]
    unknown = [head for head in found if _sort_value(head, query.sort, now) is None]
    known.sort(key=lambda head: (_sort_value(head, query.sort, now) or 0, head.job), reverse=query.descending)
    unknown.sort(key=lambda head: head.job, reverse=query.descending)
    ordered = [*known, *unknown]
    start = _find_start(ordered, query, now) if query.after else 0
    page = ordered[start : start + query.most]
    more = start + query.most < len(ordered)
    return JobsPage(
        heads=tuple(page),
        next=_encode_cursor(page[-1], query.sort, now) if more else "",
        total=len(ordered),
        facets=_facets(heads),
        problems=tuple(problems),
    )


def _sort_value(head: JobHead, sort: JobSort, now: float) -> float | str | None:
    match sort:
        case JobSort.SUBMITTED:
            return head.submitted
        case JobSort.ENDED:
            return head.ended
        case JobSort.DURATION:
            return (head.ended if head.state.ended and head.ended is not None else now) - head.submitted
        case JobSort.NAME:
            return head.name
        case JobSort.USER:
            return head.user
        case JobSort.STATE:
            return head.state.value
        case JobSort.TASKS:
            return head.tasks
        case JobSort.RESTARTS:
            return head.restarts
        case JobSort.GPU_HOURS:
            return head.gpu_hours
        case JobSort.GB_HOURS:
            return head.gb_hours


def _encode_cursor(head: JobHead, sort: JobSort, now: float) -> str:
    plain = json.dumps([_sort_value(head, sort, now), head.job]).encode()
    return base64.urlsafe_b64encode(plain).decode().rstrip("=")


def _find_start(ordered: Sequence[JobHead], query: Query, now: float) -> int:
    """Return the index after the cursor's job, or after its former position if the job is no longer in the list."""
    try:
        padded = query.after + "=" * (-len(query.after) % 4)
        value, job = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        if not isinstance(job, str) or not isinstance(value, str | int | float | None):
            raise ValueError
        for number, head in enumerate(ordered):
            if head.job == job:
                return number + 1
        for number, head in enumerate(ordered):
            own = _sort_value(head, query.sort, now)
            if value is None or own is None:
                is_after = own is None and (value is not None or (head.job > job) is not query.descending)
            else:
                is_after = ((own, head.job) > (value, job)) is not query.descending
            if is_after:
                return number
        return len(ordered)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise ValueError(f"after: {query.after[:60]!r} is not a valid page cursor.") from None


def _facets(heads: Collection[JobHead]) -> Facets:
    return Facets(
        users=_count_values(head.user for head in heads),
        states=_count_values(DAMAGED if head.damaged else head.state.value for head in heads),
        frameworks=_count_values(head.framework for head in heads),
        schedulers=_count_values(head.scheduler for head in heads),
        queues=_count_values(head.queue for head in heads),
        tags=_count_values(tag for head in heads for tag in head.tags),
        failure_classes=_count_values(head.failure_class.value for head in heads if head.failure_class),
    )


def _count_values(values: Iterable[str]) -> tuple[Facet, ...]:
    counts = Counter(value for value in values if value)
    return tuple(Facet(value=value, jobs=jobs) for value, jobs in sorted(counts.items(), key=lambda i: (-i[1], i[0])))
