"""Changes as text, and in the text of a job file (TOML), whose comments, order and ends of lines stay. Pure."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tony.advice.recommendation import SettingChange
from tony.config.toml_line_numbers import scan
from tony.errors import UserError

_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')


def as_diff(changes: Sequence[SettingChange]) -> list[str]:
    """Changes as people read them: lines of TOML with `-` and `+`, each table once."""
    lines: list[str] = []
    for table, mine in _by_table(changes).items():
        if table:
            lines.append(f"  [{table}]")
        for change, name in mine:
            if change.old:
                lines.append(f"- {name} = {change.old}")
            lines.append(f"+ {name} = {change.new}")
    return lines


def _by_table(changes: Iterable[SettingChange]) -> dict[str, list[tuple[SettingChange, str]]]:
    found: dict[str, list[tuple[SettingChange, str]]] = {}
    for change in sorted(changes, key=lambda change: "." in change.key):  # what belongs to no table stands first
        table, _, name = change.key.rpartition(".")
        if change.key.endswith('"'):
            name = _PARTS.findall(change.key)[-1]
            table = change.key.removesuffix(name).rstrip(".")
        found.setdefault(table, []).append((change, name))
    return found


def parts_of(key: str) -> tuple[str, ...]:
    """The parts of a dotted key."""
    return tuple(
        str(tomllib.loads(f"key = {part}")["key"]) if part.startswith('"') else part for part in _PARTS.findall(key)
    )


def rewritten(text: str, changes: Iterable[SettingChange]) -> str:
    """The text of a job file with other values.

    Raises:
        UserError: it cannot be done without touching something else; or `tomlkit` is not there.
    """
    for change in changes:
        text = _with(text, change)
    return text


def _with(text: str, change: SettingChange) -> str:
    key = parts_of(change.key)
    values = tomllib.loads(text)
    present = _get(values, key)
    new = _value(change.new)
    if isinstance(present, str) and not isinstance(new, str):  # a variable or parameter that is written in quotes
        new = str(new)
    if present == new and type(present) is type(new):
        return text
    wanted = _set(values, key, new)
    ways = (_replaced,) if present is not None else (_beside, _replaced)
    for way in ways:
        made = way(text, key, new)
        if made is not None and _same(made, wanted):
            return made
    raise UserError(f"{change.key} cannot be set to {change.new} without touching something else; write it yourself.")


def _value(written: str) -> Any:
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return written


def _same(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
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
            raise UserError(f"{'.'.join(key)} has no place in this file: {part} is no table.")
        table = inner
    table[key[-1]] = new
    return made


def _replaced(text: str, key: tuple[str, ...], new: Any) -> str | None:
    """With tomlkit: what is there keeps its comment; what is not there goes to the end of its table."""
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError:
        raise UserError(
            "writing into a job file needs the package tomlkit: run `pip install 'tony-jobs[web]'`."
        ) from None
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


def _beside(text: str, key: tuple[str, ...], new: Any) -> str | None:
    """A new line below that of another value of its table, written as that one is; None if there is no such line."""
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
        more = f"{match[1]}{key[-1]} = {_written(new)}{end}"
        return "".join([*lines[: number - 1], line, more, *lines[number:]])
    return None


def _written(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
