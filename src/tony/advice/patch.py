"""Changes of a job file: as a diff, in its text with comments and order kept, and written to the file."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tony.advice.recommendation import SettingChange
from tony.config.files.call_settings import from_spec
from tony.config.files.overrides import is_override
from tony.config.files.toml_line_numbers import scan
from tony.config.load import Resolved, is_linkedin_xml, load
from tony.config.table.layers import format_key
from tony.errors import ConfigError, StorageError, UserError
from tony.model.job_spec import JobSpec
from tony.model.masking import is_secret, redact
from tony.model.submission_record import JobRecord


def format_diff(changes: Sequence[SettingChange]) -> list[str]:
    """Return changes as a diff: lines of TOML with `-` and `+`, grouped by table."""
    lines: list[str] = []
    for table, current in _group_by_table(changes).items():
        if table:
            lines.append(f"  [{table}]")
        for change, name in current:
            if change.old:
                lines.append(f"- {name} = {change.old}")
            lines.append(f"+ {name} = {change.new}")
    return lines


def _group_by_table(changes: Iterable[SettingChange]) -> dict[str, list[tuple[SettingChange, str]]]:
    found: dict[str, list[tuple[SettingChange, str]]] = {}
    for change in sorted(changes, key=lambda change: len(change.key) > 1):  # settings outside of tables come first
        table, name = format_key(change.key[:-1]), format_key(change.key[-1:])
        found.setdefault(table, []).append((change, name))
    return found


def apply_changes(text: str, changes: Iterable[SettingChange]) -> str:
    """Return the text of a job file with changed values.

    Raises:
        UserError: it is impossible without changing something else; or `tomlkit` is not installed.
    """
    for change in changes:
        text = _apply_change(text, change)
    return text


def _apply_change(text: str, change: SettingChange) -> str:
    key = change.key
    values = tomllib.loads(text)
    present = _get(values, key)
    new = change.new.value
    if isinstance(present, str) and not isinstance(new, str):  # a variable or parameter in quotes
        new = str(new)
    if present == new and type(present) is type(new):
        return text
    expected = _set(values, key, new)
    methods = (_edit_with_tomlkit,) if present is not None else (_insert_line, _edit_with_tomlkit)
    for method in methods:
        made = method(text, key, new)
        if made is not None and _has_values(made, expected):
            return made
    raise UserError(f"cannot set {change.key} to {change.new} without changing other values; edit the file yourself")


def _has_values(text: str, expected: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False


def _get(values: Mapping[str, Any], key: tuple[str, ...]) -> Any:
    found: Any = values
    for part in key:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _set(values: Mapping[str, Any], key: tuple[str, ...], new: Any) -> dict[str, Any]:
    made = copy.deepcopy(dict(values))
    table = made
    for part in key[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"cannot set {'.'.join(key)} in this file: {part} is not a table")
        table = inner
    table[key[-1]] = new
    return made


def _edit_with_tomlkit(text: str, key: tuple[str, ...], new: Any) -> str | None:
    """Edit with tomlkit: existing values keep their comments, new ones go to the end of the table."""
    try:
        import tomlkit  # late: 60 ms, needed only for a change of a job file
        from tomlkit.exceptions import TOMLKitError
    except ImportError:
        raise UserError("editing a job file needs the package tomlkit: run `pip install 'tony-jobs[web]'`") from None
    try:
        document = tomlkit.parse(text)
        table: Any = document
        for part in key[:-1]:
            if part not in table:
                table[part] = tomlkit.table()
            table = table[part]
        table[key[-1]] = new
        made = tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, AttributeError):
        return None
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        made = made.replace("\r\n", "\n").replace("\n", "\r\n")
    return made


def _insert_line(text: str, key: tuple[str, ...], new: Any) -> str | None:
    """Insert a line below another value of the same table, in the same style; None if there is no such line."""
    siblings = _get(tomllib.loads(text), key[:-1]) if key[:-1] else tomllib.loads(text)
    places = scan(text).lines
    lines = text.splitlines(keepends=True)
    found = [
        (places[(*key[:-1], name)], name)
        for name, value in (siblings or {}).items()
        if isinstance(value, str | int) and (*key[:-1], name) in places
    ]
    for number, name in sorted(found, reverse=True):
        if number > len(lines):
            continue
        line = lines[number - 1]
        match = re.match(rf"([ \t]*(?:[^=#\n{{]*?\.)?){re.escape(name)}[ \t]*=", line)
        if match is None:
            continue
        if not line.endswith("\n"):
            line = f"{line}\n"
        end = "\r\n" if line.endswith("\r\n") else "\n"
        more = f"{match[1]}{key[-1]} = {_format_value(new)}{end}"
        return "".join([*lines[: number - 1], line, more, *lines[number:]])
    return None


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def _explain_read_only(path: Path) -> str:
    """Return why a job file cannot be edited; empty if it can."""
    if is_linkedin_xml(path):
        return (
            f"{path} is XML of LinkedIn TonY, with other names of settings. Make the changes yourself, or convert it "
            f"first: tony convert {path} > job.toml"
        )
    if path.suffix.lower() in (".yaml", ".yml"):
        return f"{path} is YAML, whose comments and order would be lost. Make the changes yourself, or use a TOML file."
    return ""


def _resolve_again(path: Path, record: JobRecord) -> Resolved:
    """Resolve a job file as if submitted now, with the parameters of the job's command line.

    Raises:
        ConfigError: it is not valid.
        UserError: it is the file of another job.
    """
    resolved = load(path, params=_command_line_params(record))
    differences = _differences(resolved.spec, record.spec)
    if differences:
        raise UserError(
            f"{path} is not the file of job {record.job_id}: {'; '.join(differences)}. Nothing was written."
        )
    return resolved


def _command_line_params(record: JobRecord) -> list[str]:
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


def _explain_foreign_value(change: SettingChange, file: JobSpec, record: JobRecord) -> str:
    """Return why a change does not belong in the file: its value differs from the job's, or was set elsewhere."""
    source = record.sources.get(str(change.key), "")
    if is_override(source):
        return f"it was set by {source}: change it there"
    current, recorded = _find_value(file, change), _find_value(record.spec, change)
    if current != recorded:
        return "the file has changed since this job was submitted"
    return ""


def _find_value(spec: JobSpec, change: SettingChange) -> Any:
    values: Any = from_spec(_expand(spec), with_defaults=True)
    for part in change.key:
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
    why = _explain_read_only(path)
    if why:
        raise UserError(why)
    spec = _resolve_again(path, record).spec
    reasons = {change: _explain_foreign_value(change, spec, record) for change in changes}
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
        resolved = load(draft, sets=[f"name={record.spec.name}"], params=_command_line_params(record))
        if check:
            check(resolved)
    except ConfigError as error:
        reasons = "; ".join(problem.message for problem in error.problems)
        raise UserError(f"{path} would not be valid with these changes, so nothing was written: {reasons}") from None
