"""All jobs of a home at a glance, without reading all of every record each time.

Of those that have ended the index tells; the rest is read from the records, and added to it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from tony.dataclass import dataclass, replace
from tony.errors import RecordError, TonyError
from tony.history import ended_jobs_index
from tony.history.ended_jobs_index import JobHead
from tony.history.job_record import check_version
from tony.history.json_files import read_json
from tony.model.codec import DecodeError, Json, from_plain
from tony.model.ids import JOB_ID
from tony.model.layout import Home, JobFolder
from tony.model.states import JobState

#: Lines of the index about jobs that are gone, or that stand in it twice, after which the index is written anew.
_STALE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListing:
    """What a home holds.

    Attributes:
        ended: jobs with a summary.
        open: jobs without one, as their record says; how they stand only their application master knows.
        unreadable: job id -> why its record cannot be read.
    """

    ended: tuple[JobHead, ...]
    open: tuple[JobHead, ...]
    unreadable: Mapping[str, str]


def scan(home: Home) -> JobListing:
    """Looks at every job of a home. Blocking; touches only the records that the index lacks."""
    try:
        ids = [name for name in os.listdir(home.jobs) if JOB_ID.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError):
        ids = []
    indexed, lines = ended_jobs_index.read(home)
    ended: dict[str, JobHead] = {}
    still_open: list[JobHead] = []
    unreadable: dict[str, str] = {}
    for job_id in ids:
        if job_id in indexed:
            ended[job_id] = _as_pinned(home, indexed[job_id])
            continue
        try:
            head = head_of(home.job(job_id))
        except TonyError as error:
            unreadable[job_id] = str(error)
            continue
        if head is None:
            continue
        head = _as_pinned(home, head)
        if head.state.ended:
            ended[job_id] = head
        else:
            still_open.append(head)
    _update_index(home, indexed, ended, lines)
    return JobListing(ended=tuple(ended.values()), open=tuple(still_open), unreadable=unreadable)


def _as_pinned(home: Home, head: JobHead) -> JobHead:
    """The index knows nothing of pins: they come and go after a job's end."""
    return replace(head, pinned=True) if os.path.exists(home.job(head.job).pinned) else head


def newest_jobs(home: Home) -> str | None:
    """The id of the job that was submitted last, be it one that a newer version wrote; None without any. Blocking."""
    listing = scan(home)
    submitted = [(head.submitted, head.job) for head in (*listing.ended, *listing.open)]
    submitted += [(_submitted(home.job(job_id)), job_id) for job_id in listing.unreadable]
    return max(submitted, default=(0.0, None))[1]


def _submitted(folder: JobFolder) -> float:
    """When a job was submitted whose record we do not understand, as far as that can be seen; 0 if not at all."""
    with contextlib.suppress(TonyError):
        record = read_json(folder.job)
        when = record.get("submitted") if isinstance(record, Mapping) else None
        if isinstance(when, int | float):
            return float(when)
    return 0.0


def head_of(folder: JobFolder) -> JobHead | None:
    """One job as its files tell; None if there is no such job.

    Raises:
        RecordError: its record is of a newer version, or damaged.
        StorageError: its record cannot be read.
    """
    record = read_json(folder.job)
    return None if record is None else head_from(folder, record, read_json(folder.summary))


def head_from(folder: JobFolder, record: Json, summary: Json | None) -> JobHead:
    """One job as the content of its files tells.

    Args:
        folder: named where something is wrong.
        record: of `job.json`; `summary`: of `summary.json`, None without one.

    Raises:
        RecordError: they are of a newer version, or damaged.
    """
    check_version(folder, record)
    if summary is not None and not isinstance(summary, Mapping):
        raise RecordError(f"{folder.summary} is no summary of a job")
    spec = _table(record, "spec")
    plain = {
        "job": folder.job_id,
        "name": spec.get("name"),
        "state": JobState.SUBMITTED.value,
        "user": record.get("user"),
        "scheduler": spec.get("scheduler"),
        "framework": spec.get("framework"),
        "tasks": _count(spec),
        "submitted": record.get("submitted"),
        **_marks(spec),
    }
    if summary is not None:
        failure, restarts, used = (_table(summary, key) for key in ("failure", "restarts", "used"))
        plain |= {
            "state": summary.get("state"),
            "ended": summary.get("ended"),
            "exit_code": summary.get("exit_code"),
            "reason": failure.get("reason", ""),
            "failure_class": failure.get("failure_class"),
            "cause": failure.get("cause", ""),
            "sessions": summary.get("session", 0),
            "restarts": sum(_number(restarts.get(key)) for key in ("charged", "free")),
            "gpu_hours": used.get("gpu_hours"),
            "gb_hours": used.get("gb_hours"),
        }
    try:
        return from_plain(JobHead, plain)
    except DecodeError as error:
        raise RecordError(f"{folder.path} is not a job's record: {error}") from error


def _marks(spec: Mapping[str, Json]) -> dict[str, Json]:
    """Queue and tags, as `JobSpec.queue` and `all_tags`; what makes no sense is left out."""
    settings, own = _table(spec, "scheduler_settings"), spec.get("tags")
    queue, theirs = settings.get("queue"), settings.get("tags")
    tags = _texts(own)
    tags += [tag.strip() for tag in theirs.split(",") if tag.strip()] if isinstance(theirs, str) else []
    people = {key: _texts(spec.get(key)) for key in ("viewers", "modifiers")}
    return {"queue": "" if queue is None else str(queue), "tags": list(dict.fromkeys(tags)), **people}


def _texts(value: Json) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _number(value: Json) -> int:
    return value if type(value) is int else 0


def _count(spec: Mapping[str, Json]) -> int | None:
    """How many tasks a job has; None, which is refused where the head is read, if the record makes no sense."""
    roles = _table(spec, "roles")
    counts = [role.get("instances", 1) if isinstance(role, Mapping) else None for role in roles.values()]
    whole = [count for count in counts if type(count) is int]
    return (sum(whole) if roles else 1) if len(whole) == len(counts) else None


def _table(data: Json, key: str) -> Mapping[str, Json]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _update_index(home: Home, indexed: Mapping[str, JobHead], ended: Mapping[str, JobHead], lines: int) -> None:
    new = [head for job_id, head in ended.items() if job_id not in indexed]
    if lines - len(ended) > _STALE:
        ended_jobs_index.write(home, ended.values())
    elif new:
        ended_jobs_index.append_entry(home, new)
