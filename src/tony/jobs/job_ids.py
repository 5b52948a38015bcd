"""A job's id: made, and found again from the part of it that a person types."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from datetime import UTC, datetime

from tony.errors import UnknownJobError
from tony.history.job_listing import newest_jobs, scan
from tony.model.ids import JOB_ID
from tony.model.layout import Home

#: The word for the newest job.
LAST = "last"
#: Characters of a part that may come from the middle of an id; a shorter one must be its beginning or its end.
_ENOUGH = 3
_SHOWN = 3


def new_job_id(scheduler: str, now: float) -> str:
    """A new id such as `local-20260131-235959-0a1b2c`: sorts by time, and is safe as a folder's name.

    Args:
        now: seconds since 1970; written as UTC.
    """
    return f"{scheduler}-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def remember(home: Home, job_id: str) -> None:
    """Notes which job was submitted last: the times on the records do not tell once a clock was set back."""
    draft = home.last.with_name(f".{home.last.name}.{os.urandom(4).hex()}.new")
    with contextlib.suppress(OSError):
        try:
            draft.write_text(job_id, encoding="ascii")
            draft.replace(home.last)
        finally:
            draft.unlink(missing_ok=True)


def known(home: Home) -> list[str]:
    """Ids of all jobs that have a record, oldest first."""
    return [job_id for job_id in _folders(home) if home.job(job_id).job.exists()]


def _folders(home: Home) -> list[str]:
    try:
        names = os.listdir(home.jobs)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((name for name in names if JOB_ID.fullmatch(name)), key=_age)


def resolve(home: Home, text: str) -> str:
    """The id that `text` means: an id, a part of one that no other has, or `last`: the one that was submitted last.

    Raises:
        UnknownJobError: none or several; the message names them, or the nearest ones.
    """
    if JOB_ID.fullmatch(text) and home.job(text).job.exists():
        return text
    if text == LAST and (last := _last(home)):
        return last
    found = [job_id for job_id in _folders(home) if text and _matches(text, job_id)]
    matches = [job_id for job_id in found if home.job(job_id).job.exists()]
    if len(matches) == 1:
        return matches[0]
    if not matches and JOB_ID.fullmatch(text) and _is_of_a_cluster(text):
        if _adopted(home, text):
            return text
        raise UnknownJobError(f"there is no job {text!r}: neither {home.jobs} has it, nor does the cluster know it.")
    raise UnknownJobError(_explain(home, text, known(home), matches))


def _is_of_a_cluster(text: str) -> bool:
    return text.startswith("application_")  # so far the only ids that clusters give


def _adopted(home: Home, text: str) -> bool:
    """Whether it is a job of the cluster that was submitted from another machine, or another home."""
    import asyncio

    from tony.jobs.remote_jobs import adopt

    return asyncio.run(adopt(home, text))


def ending(job_id: str, ids: Collection[str]) -> str:
    """The shortest end of an id, from one of its dashes on, that means it and none of the others."""
    pieces = job_id.split("-")
    for start in range(len(pieces) - 1, 0, -1):
        end = "-".join(pieces[start:])
        if len(end) >= _ENOUGH and not any(end in other for other in ids if other != job_id):
            return end
    return job_id


def _last(home: Home) -> str | None:
    """What was noted when it was submitted; the newest by its record if that job is gone, or nothing was noted."""
    noted = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        noted = home.last.read_text(encoding="ascii")
    return noted if JOB_ID.fullmatch(noted) and home.job(noted).job.exists() else newest_jobs(home)


def _matches(text: str, job_id: str) -> bool:
    return job_id.startswith(text) or job_id.endswith(text) or (len(text) >= _ENOUGH and text in job_id)


def _explain(home: Home, text: str, ids: list[str], matches: list[str]) -> str:
    if matches:
        return f"{len(matches)} jobs match {text!r}: {_format_ids(matches[::-1])}. Write more of the id."
    if not ids:
        return f"there is no job {text!r}: {home.jobs} holds no job yet."
    named = _named(home, text)
    if named:
        count = "1 job" if len(named) == 1 else f"{len(named)} jobs"
        return f"{text!r} is the name of {count}: {_format_ids(named)}. Write the id of the job, or a part of it."
    import difflib  # 10 ms, and only after a mistake

    near = difflib.get_close_matches(text, ids, n=_SHOWN, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the newest are {_format_ids(ids[::-1])}."
    return f"there is no job {text!r} in {home.jobs}; {hint}"


def _named(home: Home, name: str) -> list[str]:
    """Return the ids of all jobs of a name, newest first."""
    found = scan(home)
    return sorted((head.job for head in (*found.ended, *found.open) if head.name == name), key=_age, reverse=True)


def _format_ids(ids: list[str]) -> str:
    rest = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _age(job_id: str) -> tuple[str, str]:
    scheduler, _, rest = job_id.partition("-")
    return rest, scheduler
