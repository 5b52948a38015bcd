"""Writes a translated job as a job file, with the origin of each value as a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyOrigin
from tony.config.table.layers import format_key, quote
from tony.config.table.schema_tree import settings
from tony.config.table.settings_table import Key

#: Tables that are written on one line.
_INLINE = frozenset({"timeout_after"})
#: Column of the comments, if the value is short enough.
_COMMENT_COLUMN = 42
_MULTI_LINE = re.compile(r"[^'\x00-\x08\x0b-\x1f\x7f]+", re.ASCII)


def job_file(draft: DraftJob) -> str:
    """Return the draft as the text of a job file."""
    sections = [_head(draft)]
    own = [(name, value) for name, value in draft.values.items() if not isinstance(value, Mapping)]
    sections.append("\n".join(_lines(draft, (), own)))
    tables = [name for name, value in draft.values.items() if isinstance(value, Mapping)]
    for name in sorted(tables, key=lambda name: _order((name,))):
        sections += _table(draft, (name,), draft.values[name])
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(draft: DraftJob) -> str:
    made = f"Made from {draft.settings.file} " if draft.settings.file else "Made "
    lines = [
        f"{made}by `tony convert`. The comment after each value names its origin.",
        "Relative paths are relative to the folder of this file: keep it where `tony convert` was run.",
        "The job runs on this machine by default; to run it on the cluster, use `--scheduler yarn` or scheduler.name.",
    ]
    if draft.notes:
        lines += ["", "Settings without effect, or with a different one:", *(f"  {note}" for note in draft.notes)]
    return "\n".join(f"# {_clean(line)}".rstrip() for line in lines)


def _table(draft: DraftJob, key: Key, table: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table and its inner tables, each as a section."""
    own = [(name, value) for name, value in table.items() if not isinstance(value, Mapping) or name in _INLINE]
    if own:
        yield "\n".join([f"[{format_key(key)}]", *_lines(draft, key, own)])
    for name, value in table.items():
        if isinstance(value, Mapping) and name not in _INLINE:
            yield from _table(draft, (*key, name), value)


def _lines(draft: DraftJob, key: Key, values: list[tuple[str, Any]]) -> Iterator[str]:
    for name, value in sorted(values, key=lambda each: _order((*key, each[0]))):
        place = (*key, name)
        text = f"{format_key((name,))} = {_format_value(value)}"
        comment = _comment(draft, place, value)
        if "\n" in text:
            yield f"# {comment}\n{text}" if comment else text
        else:
            yield f"{text:<{_COMMENT_COLUMN}}  # {comment}" if comment else text


def _comment(draft: DraftJob, key: Key, value: Any) -> str:
    found = [draft.origins.get((*key, str(number))) for number in range(len(value))] if isinstance(value, list) else []
    found += [draft.origins.get((*key, name)) for name in value] if isinstance(value, Mapping) else []
    origins = dict.fromkeys(origin for origin in found if origin) or {draft.origins[key]: None}
    return "; ".join(_format_origin(origin) for origin in origins)


def _format_origin(origin: LegacyOrigin) -> str:
    if origin.place == DEFAULTS:
        return "default of LinkedIn TonY"
    return _clean(f"{origin.key}, {origin.place}" if origin.key else origin.place)


def _clean(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _order(key: Key) -> int:
    """Return the position of a setting in the docs; names that the user chooses are all equal."""
    return _places().get(("roles", "<role>", *key[2:3]) if len(key) > 2 and key[0] == "roles" else key[:1], 0)


@cache
def _places() -> dict[Key, int]:
    places: dict[Key, int] = {}
    for number, setting in enumerate(settings()):
        path = setting.path
        places.setdefault(path[:3] if path[0] == "roles" else path[:1], number)
        if path[0] == "roles":
            places.setdefault(path[:1], number)
    return places


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return _list([_format_value(item) for item in value])
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{format_key((name,))} = {_format_value(inner)}" for name, inner in value.items()) + " }"
        )
    return _text(value) if isinstance(value, str) else str(value)


def _list(items: list[str]) -> str:
    text = f"[{', '.join(items)}]"
    return text if len(text) <= 100 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _text(text: str) -> str:
    """Return quoted text: in single quotes if double ones would need escapes."""
    if "\n" in text and _MULTI_LINE.fullmatch(text):
        return f"'''\n{text}'''"
    if ('"' in text or "\\" in text) and "'" not in text and text.isprintable():
        return f"'{text}'"
    return quote(text)
