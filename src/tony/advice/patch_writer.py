"""Changes written into a job file. Blocking."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tony.advice import editable_file
from tony.advice.patch import rewritten
from tony.advice.recommendation import SettingChange
from tony.config.load import Resolved, load
from tony.dataclass import dataclass
from tony.errors import ConfigError, StorageError, UserError
from tony.model.job_record import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of changes.

    Attributes:
        before, after: the file's text.
        left: changes that were not made, each with why.
    """

    path: Path
    before: str
    after: str
    made: tuple[SettingChange, ...]
    left: tuple[tuple[SettingChange, str], ...]


def apply(
    path: Path, record: JobRecord, changes: Sequence[SettingChange], check: Callable[[Resolved], object] | None = None
) -> Applied:
    """Writes changes into the file of a job, in one step. Changes that belong elsewhere are left, and told.

    Args:
        check: asks whether such a job could run; raises ConfigError if not: then nothing is written.

    Raises:
        UserError: the file is none that is written into, or not the job's; or it would be refused with the changes.
        StorageError: it cannot be read or written.
    """
    why = editable_file.why_not_written(path)
    if why:
        raise UserError(why)
    spec = editable_file.resolved_again(path, record).spec
    reasons = {change: editable_file.why_elsewhere(change, spec, record) for change in changes}
    made = tuple(change for change in changes if not reasons[change])
    mark, before = _read(path)
    after = rewritten(before, made)
    if after != before:
        _write(path, mark + after.encode(), record, check)
    left = tuple((change, why) for change, why in reasons.items() if why)
    return Applied(path=path, before=before, after=after, made=made, left=left)


def _read(path: Path) -> tuple[bytes, str]:
    """A byte order mark, if there is one, and the text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    return mark, data.removeprefix(mark).decode("utf-8")


def _write(path: Path, data: bytes, record: JobRecord, check: Callable[[Resolved], object] | None) -> None:
    target = Path(os.path.realpath(path))  # what a link leads to is replaced, not the link
    draft = target.with_name(f".{target.stem}.{os.getpid()}.new.toml")
    try:
        mode = target.stat().st_mode & 0o7777
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _look_again(draft, target, record, check)
            os.replace(draft, target)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _look_again(draft: Path, path: Path, record: JobRecord, check: Callable[[Resolved], object] | None) -> None:
    """Whether the file with the changes would be taken.

    Raises:
        UserError: it would not.
    """
    try:
        resolved = load(draft, sets=[f"name={record.spec.name}"], params=editable_file.given(record))
        if check:
            check(resolved)
    except ConfigError as error:
        reasons = "; ".join(problem.message for problem in error.problems)
        raise UserError(f"with these changes {path} would be refused, so nothing was written: {reasons}") from None
