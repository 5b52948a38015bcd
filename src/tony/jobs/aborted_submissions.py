"""Submissions that were killed before their job was whole. Each holds a lock as long as it lives, and is known by that.

A job's folder is filled piece by piece, and its record comes last. Whoever is killed (SIGKILL) in between leaves a
folder that no command shows. The next submission removes it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tony.model.ids import JOB_ID
from tony.model.layout import Home, JobFolder


@contextmanager
def mark_submission(home: Home, job_id: str) -> Iterator[None]:
    """Inside, the job's folder is being filled; should we die in there, others can tell.

    Where no mark can be made nothing is marked: it is a help, nothing more.
    """
    place = home.submitting / job_id
    draft = home.submitting / f".{job_id}"
    lock = -1
    try:
        with suppress(OSError):
            home.submitting.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.rename(place)  # it appears with its lock, so nobody takes us for dead
        yield
    finally:
        if lock >= 0:
            with suppress(OSError):
                place.unlink()
            os.close(lock)


def is_under_way(home: Home, job_id: str) -> bool:
    """Whether a job is being submitted at this moment, on this machine. Its scheduler need not know it yet."""
    try:
        lock = os.open(home.submitting / job_id, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def remove_aborted_submissions(home: Home) -> None:
    """Removes what killed submissions have left. Blocking; looks at those alone that have not ended in order."""
    try:
        names = os.listdir(home.submitting)
    except OSError:
        return
    for name in names:
        if JOB_ID.fullmatch(name):
            with suppress(OSError):
                _sweep_one(home, name)


def _sweep_one(home: Home, job_id: str) -> None:
    lock = os.open(home.submitting / job_id, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused as long as its process lives
        folder = home.job(job_id)
        if not folder.job.exists():
            remove(folder)
        (home.submitting / job_id).unlink()
    finally:
        os.close(lock)


def remove(folder: JobFolder) -> None:
    """Removes a job that is not whole. The record first: a job that is half there must not be seen."""
    folder.job.unlink(missing_ok=True)
    import shutil  # late: it loads every compressor

    shutil.rmtree(folder.path, ignore_errors=True)
