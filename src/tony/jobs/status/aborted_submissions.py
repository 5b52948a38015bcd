"""Detection and removal of submissions that were killed half-way.

A job directory is filled piece by piece, with the record last. A client killed (SIGKILL) in between leaves a directory
that no command shows. Each submission holds a lock while it lives; the next submission removes directories without one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tony.linux.liveness_lock import is_held, try_lock
from tony.model.ids import JOB_ID
from tony.model.state_directory import Home, JobFolder


@contextmanager
def mark_submission(home: Home, job_id: str) -> Iterator[None]:
    """Mark a job as being submitted inside the context, so that others notice if this process dies.

    If no mark can be made, the submission continues without it.
    """
    place = home.submitting / job_id
    draft = home.submitting / f".{job_id}"
    lock = -1
    try:
        with suppress(OSError):
            home.submitting.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.rename(place)  # it appears already locked, so it never looks abandoned
        yield
    finally:
        if lock >= 0:
            with suppress(OSError):
                place.unlink()
            os.close(lock)


def is_under_way(home: Home, job_id: str) -> bool:
    """Return True while a job is being submitted on this machine; its scheduler may not know it yet."""
    try:
        return is_held(home.submitting / job_id)
    except OSError:
        return False


def remove_aborted_submissions(home: Home) -> None:
    """Remove the directories of killed submissions. Blocking; opens only unfinished submissions."""
    try:
        names = os.listdir(home.submitting)
    except OSError:
        return
    for name in names:
        if JOB_ID.fullmatch(name):
            with suppress(OSError):
                _remove_if_aborted(home, name)


def _remove_if_aborted(home: Home, job_id: str) -> None:
    with try_lock(home.submitting / job_id, create=False) as is_aborted:
        if is_aborted:
            folder = home.job(job_id)
            if not folder.job.exists():
                remove(folder)
            (home.submitting / job_id).unlink()


def remove(folder: JobFolder) -> None:
    """Remove an incomplete job directory, the record first so that no command shows it half-removed."""
    folder.job.unlink(missing_ok=True)
    import shutil  # late: it loads every compressor

    shutil.rmtree(folder.path, ignore_errors=True)
