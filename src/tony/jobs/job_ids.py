"""Job ids: creating them, and resolving abbreviations typed by a user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from tony.errors import UnknownJobError
from tony.history.directory_scan import find_newest_job, list_job_folders, scan
from tony.linux.files import replace_file
from tony.model.ids import JOB_ID
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home
from tony.schedulers import registry
from tony.units import format_first

#: Abbreviation for the newest job.
LAST = "last"
#: Characters of a part that may be in the middle of an id; a shorter one must be its beginning or its end.
_MIN_INNER_LENGTH = 3
_MAX_SHOWN = 3
_MAX_NAMESAKES_SHOWN = 5


def create_job_id(scheduler: str, now: float) -> str:
    """Return a new id such as `local-20260131-235959-0a1b2c`: sorts by time, and is safe as a folder name.

    Args:
        now: seconds since 1970; written as UTC.
    """
    return f"{scheduler}-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def remember(home: Home, job_id: str) -> None:
    """Note which job was submitted last: times are unreliable after the clock was set back."""
    with contextlib.suppress(OSError):
        replace_file(home.last, job_id.encode())


def list_job_ids(home: Home) -> list[str]:
    """Return the ids of all jobs, oldest first."""
    return [job_id for job_id in _list_folders(home) if home.job(job_id).job.exists()]


def _list_folders(home: Home) -> list[str]:
    return sorted(list_job_folders(home), key=_build_sort_key)


def resolve(home: Home, text: str) -> str:
    """Resolve `text` to a job id: a whole id, a name that one job has, a unique part of an id, or `last` for the job
    submitted last.

    Raises:
        UnknownJobError: no job matches, or several do; the message names them, or similar ones.
    """
    if JOB_ID.fullmatch(text) and home.job(text).job.exists():
        return text
    if text == LAST and (last := _find_last(home)):
        return last
    named = _find_named(home, text)
    if len(named) == 1:
        return named[0].job
    found = [job_id for job_id in _list_folders(home) if text and _matches(text, job_id)]
    matches = [job_id for job_id in found if home.job(job_id).job.exists()]
    if len(matches) == 1 and not named:
        return matches[0]
    if not matches and JOB_ID.fullmatch(text) and registry.find_owner(text):
        if _adopt(home, text):
            return text
        raise UnknownJobError(f"there is no job {text!r}, neither in {home.jobs} nor in the cluster")
    raise UnknownJobError(_explain(home, text, list_job_ids(home), matches, named))


def _adopt(home: Home, text: str) -> bool:
    """Return True if it is a job of the cluster that was submitted from another machine or state directory."""
    import asyncio  # late: only ids of a cluster that are not known here

    from tony.jobs.status.remote_job_sync import adopt  # late: only ids of a cluster that are not known here

    return asyncio.run(adopt(home, text))


def find_unique_suffix(job_id: str, ids: Collection[str]) -> str:
    """Return the shortest suffix of an id, starting after a dash, that matches none of the other ids."""
    pieces = job_id.split("-")
    for start in range(len(pieces) - 1, 0, -1):
        end = "-".join(pieces[start:])
        if len(end) >= _MIN_INNER_LENGTH and not any(end in other for other in ids if other != job_id):
            return end
    return job_id


def _find_last(home: Home) -> str | None:
    """Return the job noted as last submitted; if it was removed or none was noted, the newest by its record."""
    noted = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        noted = home.last.read_text(encoding="ascii")
    return noted if JOB_ID.fullmatch(noted) and home.job(noted).job.exists() else find_newest_job(home)


def _matches(text: str, job_id: str) -> bool:
    return job_id.startswith(text) or job_id.endswith(text) or (len(text) >= _MIN_INNER_LENGTH and text in job_id)


def _explain(home: Home, text: str, ids: list[str], matches: list[str], named: Sequence[JobHead]) -> str:
    if not ids:
        return f"there is no job {text!r}: {home.jobs} has no jobs"
    if named:
        newest = format_first(
            [f"{head.job} ({head.state.value if head.state.ended else 'not ended'})" for head in named],
            _MAX_NAMESAKES_SHOWN,
        )
        last = f"; `{LAST}` is the first one" if named[0].job == _find_last(home) else ""
        return f"{len(named)} jobs have the name {text!r}: {newest}. Write an id, or a part of it{last}."
    if matches:
        return f"{len(matches)} jobs match {text!r}: {format_first(matches[::-1], _MAX_SHOWN)}. Write more of the id."
    import difflib  # late: 10 ms, needed only after an error

    near = difflib.get_close_matches(text, ids, n=_MAX_SHOWN, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the newest are {format_first(ids[::-1], _MAX_SHOWN)}"
    return f"there is no job {text!r} in {home.jobs}; {hint}"


def _find_named(home: Home, name: str) -> list[JobHead]:
    """Return all jobs of a name, newest first."""
    found = scan(home)
    named = (head for head in (*found.ended, *found.open) if head.name == name)
    return sorted(named, key=lambda head: _build_sort_key(head.job), reverse=True)


def _build_sort_key(job_id: str) -> tuple[str, str]:
    scheduler, _, rest = job_id.partition("-")
    return rest, scheduler
