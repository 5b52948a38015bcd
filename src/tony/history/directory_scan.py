"""List all jobs of a state directory without reading every job directory each time.

Finished jobs come from the index; the others are read from their directories and added to it when they have finished.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tony.errors import RecordError, TonyError
from tony.history import ended_jobs_index
from tony.history.job_record import check_version
from tony.history.json_files import read_json
from tony.model.codec import DecodeError, Json, from_plain
from tony.model.ids import JOB_ID
from tony.model.job_summary import JobHead, add_hung_task
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState

#: Stale or duplicate lines after which the index is rewritten.
_MAX_STALE_LINES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListing:
    """The jobs of a state directory.

    Attributes:
        ended: jobs with a summary.
        open: jobs without one, as submitted; only their AM knows their status.
        unreadable: job id -> why its files cannot be read.
    """

    ended: tuple[JobHead, ...]
    open: tuple[JobHead, ...]
    unreadable: Mapping[str, str]


def list_job_folders(home: Home) -> list[str]:
    """Return the names of all folders that may be job directories."""
    try:
        return [name for name in os.listdir(home.jobs) if JOB_ID.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def scan(home: Home) -> JobListing:
    """List every job of a state directory. Blocking; opens only job directories that the index lacks."""
    indexed, lines = ended_jobs_index.read(home)
    ended: dict[str, JobHead] = {}
    still_open: list[JobHead] = []
    unreadable: dict[str, str] = {}
    for job_id in list_job_folders(home):
        if job_id in indexed:
            ended[job_id] = _with_pin(home, indexed[job_id])
            continue
        try:
            head = head_of(home.job(job_id))
        except TonyError as error:
            unreadable[job_id] = str(error)
            continue
        if head is None:
            continue
        head = _with_pin(home, head)
        if head.state.ended:
            ended[job_id] = head
        else:
            still_open.append(head)
    _update_index(home, indexed, ended, lines)
    return JobListing(ended=tuple(ended.values()), open=tuple(still_open), unreadable=unreadable)


def _with_pin(home: Home, head: JobHead) -> JobHead:
    """Add the pin, which the index does not hold: pins may change after a job has ended."""
    return replace(head, pinned=True) if os.path.exists(home.job(head.job).pinned) else head


def find_newest_job(home: Home) -> str | None:
    """Return the id of the job submitted last, even if a newer version wrote it; None without jobs. Blocking."""
    listing = scan(home)
    submitted = [(head.submitted, head.job) for head in (*listing.ended, *listing.open)]
    submitted += [(_submission_time(home.job(job_id)), job_id) for job_id in listing.unreadable]
    return max(submitted, default=(0.0, None))[1]


def _submission_time(folder: JobFolder) -> float:
    """Return when a job with an unsupported record was submitted, if that can be read; else 0."""
    with contextlib.suppress(TonyError):
        record = read_json(folder.job)
        when = record.get("submitted") if isinstance(record, Mapping) else None
        if isinstance(when, int | float):
            return float(when)
    return 0.0


def head_of(folder: JobFolder) -> JobHead | None:
    """Return one job from its files; None if there is no such job.

    Raises:
        RecordError: its files are damaged, or were written by a newer version.
        StorageError: its files cannot be read.
    """
    record = read_json(folder.job)
    return None if record is None else head_from(folder, record, read_json(folder.summary))


def head_from(folder: JobFolder, record: Json, summary: Json | None) -> JobHead:
    """Return one job from the content of its files.

    Args:
        folder: for error messages.
        record: of `job.json`.
        summary: of `summary.json`; None without one.

    Raises:
        RecordError: the content is damaged, or was written by a newer version.
    """
    check_version(folder, record)
    if summary is not None and not isinstance(summary, Mapping):
        raise RecordError(f"{folder.summary} is not a valid job summary")
    spec = _mapping(record, "spec")
    plain = {
        "job": folder.job_id,
        "name": spec.get("name"),
        "state": JobState.SUBMITTED.value,
        "user": record.get("user"),
        "scheduler": spec.get("scheduler"),
        "framework": spec.get("framework"),
        "tasks": _count_tasks(spec),
        "submitted": record.get("submitted"),
        **_labels_and_permissions(spec),
    }
    if summary is not None:
        failure, restarts, used = (_mapping(summary, key) for key in ("failure", "restarts", "used"))
        plain |= {
            "state": summary.get("state"),
            "ended": summary.get("ended"),
            "exit_code": summary.get("exit_code"),
            "reason": failure.get("reason") or next(iter(_strings(summary.get("warnings"))), ""),
            "error_line": _find_error_line(failure),
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
        raise RecordError(f"{folder.path} is not a valid job directory: {error}") from error


def _find_error_line(failure: Mapping[str, Json]) -> str:
    """Return the line of output that proves a failure, as in `head_of_report`; empty if there is none."""
    evidence = _mapping(failure, "diagnosis").get("evidence")
    first = evidence[0] if isinstance(evidence, list) and evidence else None
    text = first.get("text") if isinstance(first, Mapping) else None
    return add_hung_task(text, failure.get("cause"), str(failure.get("task") or "")) if isinstance(text, str) else ""


def _labels_and_permissions(spec: Mapping[str, Json]) -> dict[str, Json]:
    """Return queue, tags and permissions, as `JobSpec.queue` and `all_tags` do; invalid values are left out."""
    settings, own = _mapping(spec, "scheduler_settings"), spec.get("tags")
    queue, extra_tags = settings.get("queue"), settings.get("tags")
    tags = _strings(own)
    tags += [tag.strip() for tag in extra_tags.split(",") if tag.strip()] if isinstance(extra_tags, str) else []
    people = {key: _strings(spec.get(key)) for key in ("viewers", "editors")}
    return {"queue": "" if queue is None else str(queue), "tags": list(dict.fromkeys(tags)), **people}


def _strings(value: Json) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _number(value: Json) -> int:
    return value if type(value) is int else 0


def _count_tasks(spec: Mapping[str, Json]) -> int | None:
    """Return the number of tasks of a job; None if the roles are invalid, which decoding then refuses."""
    roles = _mapping(spec, "roles")
    counts = [role.get("instances", 1) if isinstance(role, Mapping) else None for role in roles.values()]
    whole = [count for count in counts if type(count) is int]
    return (sum(whole) if roles else 1) if len(whole) == len(counts) else None


def _mapping(data: Json, key: str) -> Mapping[str, Json]:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _update_index(home: Home, indexed: Mapping[str, JobHead], ended: Mapping[str, JobHead], lines: int) -> None:
    new = [head for job_id, head in ended.items() if job_id not in indexed]
    if lines - len(ended) > _MAX_STALE_LINES:
        ended_jobs_index.write(home, ended.values())
    elif new:
        ended_jobs_index.append_entry(home, new)
