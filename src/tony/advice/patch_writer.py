"""Writes changes to a job file. Blocking."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tony.advice import patch_preconditions
from tony.advice.patch import apply_changes
from tony.advice.recommendation import SettingChange
from tony.config.load import Resolved, load
from tony.errors import ConfigError, StorageError, UserError
from tony.model.submission_record import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of applying changes.

    Attributes:
        before, after: the file's text.
        left: changes that were not made, each with the reason.
    """

    path: Path
    before: str
    after: str
    made: tuple[SettingChange, ...]
    left: tuple[tuple[SettingChange, str], ...]


def apply(
    path: Path, record: JobRecord, changes: Sequence[SettingChange], check: Callable[[Resolved], object] | None = None
) -> Applied:
    """Write changes to the file of a job, atomically. Changes of values that were set elsewhere are skipped.

    Args:
        check: checks that the changed job could run; raises ConfigError if not: then nothing is written.

    Raises:
        UserError: the file cannot be edited, is not the job's, or would not be valid with the changes.
        StorageError: it cannot be read or written.
    """
    why = patch_preconditions.why_not_written(path)
    if why:
        raise UserError(why)
    spec = patch_preconditions.resolve_again(path, record).spec
    reasons = {change: patch_preconditions.why_elsewhere(change, spec, record) for change in changes}
    made = tuple(change for change in changes if not reasons[change])
    mark, before = _read(path)
    after = apply_changes(before, made)
    if after != before:
        _write(path, mark + after.encode(), record, check)
    left = tuple((change, why) for change, why in reasons.items() if why)
    return Applied(path=path, before=before, after=after, made=made, left=left)


def _read(path: Path) -> tuple[bytes, str]:
    """Return the byte order mark, if there is one, and the text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    return mark, data.removeprefix(mark).decode("utf-8")


def _write(path: Path, data: bytes, record: JobRecord, check: Callable[[Resolved], object] | None) -> None:
    target = Path(os.path.realpath(path))  # replace the target of a link, not the link
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
            _check_draft(draft, target, record, check)
            os.replace(draft, target)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _check_draft(draft: Path, path: Path, record: JobRecord, check: Callable[[Resolved], object] | None) -> None:
    """Check that the file is valid with the changes.

    Raises:
        UserError: it is not.
    """
    try:
        resolved = load(
            draft, sets=[f"name={record.spec.name}"], params=patch_preconditions.command_line_params(record)
        )
        if check:
            check(resolved)
    except ConfigError as error:
        reasons = "; ".join(problem.message for problem in error.problems)
        raise UserError(f"{path} would not be valid with these changes, so nothing was written: {reasons}") from None
