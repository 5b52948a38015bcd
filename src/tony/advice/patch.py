"""Applies changes to the text of a TOML job file; keeps comments, order and line endings. Pure."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tony.advice.recommendation import SettingChange
from tony.config.files.toml_line_numbers import scan
from tony.errors import UserError

_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')


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
    for change in sorted(changes, key=lambda change: "." in change.key):  # settings outside of tables come first
        table, _, name = change.key.rpartition(".")
        if change.key.endswith('"'):
            name = _PARTS.findall(change.key)[-1]
            table = change.key.removesuffix(name).rstrip(".")
        found.setdefault(table, []).append((change, name))
    return found


def parts_of(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    return tuple(
        str(tomllib.loads(f"key = {part}")["key"]) if part.startswith('"') else part for part in _PARTS.findall(key)
    )


def apply_changes(text: str, changes: Iterable[SettingChange]) -> str:
    """Return the text of a job file with changed values.

    Raises:
        UserError: it is impossible without changing something else; or `tomlkit` is not installed.
    """
    for change in changes:
        text = _apply_change(text, change)
    return text


def _apply_change(text: str, change: SettingChange) -> str:
    key = parts_of(change.key)
    values = tomllib.loads(text)
    present = _get(values, key)
    new = _value(change.new)
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


def _value(written: str) -> Any:
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return written


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
        import tomlkit
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
