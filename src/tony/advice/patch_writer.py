"""Writes changes to a job file. Blocking."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tony.advice.patch import apply_changes, parts_of
from tony.advice.recommendation import SettingChange
from tony.config.files.call_settings import from_spec
from tony.config.load import Resolved, is_linkedin_xml, load
from tony.errors import ConfigError, StorageError, UserError
from tony.model.job_spec import JobSpec
from tony.model.masking import is_secret, redact
from tony.model.submission_record import JobRecord


def is_toml(path: Path) -> bool:
    """Return True if a job file can be edited, by its name."""
    return not is_linkedin_xml(path) and path.suffix.lower() not in (".yaml", ".yml")


def explain_read_only(path: Path) -> str:
    """Return why a job file cannot be edited; empty if it can."""
    if is_linkedin_xml(path):
        return (
            f"{path} is XML of LinkedIn TonY, with other names of settings. Make the changes yourself, or convert it "
            f"first: tony convert {path} > job.toml"
        )
    if not is_toml(path):
        return f"{path} is YAML, whose comments and order would be lost. Make the changes yourself, or use a TOML file."
    return ""


def resolve_again(path: Path, record: JobRecord) -> Resolved:
    """Resolve a job file as if submitted now, with the parameters of the job's command line.

    Raises:
        ConfigError: it is not valid.
        UserError: it is the file of another job.
    """
    resolved = load(path, params=command_line_params(record))
    differences = _differences(resolved.spec, record.spec)
    if differences:
        raise UserError(
            f"{path} is not the file of job {record.job_id}: {'; '.join(differences)}. Nothing was written."
        )
    return resolved


def command_line_params(record: JobRecord) -> list[str]:
    """Return the parameters from the job's command line, except secrets, which are not kept."""
    return [
        f"{name}={value}"
        for name, value in record.spec.params.items()
        if record.sources.get(f"params.{name}", "").startswith("--") and not is_secret(name, record.spec.secret)
    ]


def _differences(file: JobSpec, job: JobSpec) -> list[str]:
    file = redact(file)  # as the job's record has it
    found = [
        f"its {what} is {current!r}, the job's is {recorded!r}"
        for what, current, recorded in (
            ("name", file.name, job.name),
            ("framework", file.framework, job.framework),
            ("roles", ", ".join(file.effective_roles), ", ".join(job.effective_roles)),
        )
        if current != recorded
    ]
    if not found:
        found = [
            f"the command of {name} differs"
            for name in job.effective_roles
            if file.command_of(name) != job.command_of(name)
        ]
    return found


def explain_foreign_value(change: SettingChange, file: JobSpec, record: JobRecord) -> str:
    """Return why a change does not belong in the file: its value differs from the job's, or was set elsewhere."""
    source = record.sources.get(change.key, "")
    if source.startswith(("--", "env ", "argument")):
        return f"it was set by {source}: change it there"
    current, recorded = _value(file, change), _value(record.spec, change)
    if current != recorded:
        return "the file has changed since this job was submitted"
    return ""


def _value(spec: JobSpec, change: SettingChange) -> Any:
    values: Any = from_spec(_expand(spec), with_defaults=True)
    for part in parts_of(change.key):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _expand(spec: JobSpec) -> JobSpec:
    """Return the job with its default role, if it has no roles."""
    return spec if spec.roles else replace(spec, roles=dict(spec.effective_roles))


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
    why = explain_read_only(path)
    if why:
        raise UserError(why)
    spec = resolve_again(path, record).spec
    reasons = {change: explain_foreign_value(change, spec, record) for change in changes}
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
        resolved = load(draft, sets=[f"name={record.spec.name}"], params=command_line_params(record))
        if check:
            check(resolved)
    except ConfigError as error:
        reasons = "; ".join(problem.message for problem in error.problems)
        raise UserError(f"{path} would not be valid with these changes, so nothing was written: {reasons}") from None
