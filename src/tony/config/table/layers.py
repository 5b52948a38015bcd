"""Merges settings from several sources; each value keeps its source.

Weakest first: defaults, site files, job file, `TONY_SET_...`, `--set` and `--param`, arguments of the Python call.
Tables are merged key by key; any other value replaces the weaker one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tony.config.table.settings_table import Key

#: Tables nested deeper than any setting are kept as plain values, to bound the recursion.
MAX_DEPTH = 12

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Written:
    """A value together with the text it was written as: `1.10`, or the text after `--set key=`.

    Attributes:
        is_text: the source has no quotes, so that the text itself may be meant.
    """

    value: Any
    text: str
    is_text: bool = True


@dataclass(frozen=True, slots=True)
class Garbled:
    """Text of a flag that begins like a TOML value and is not valid: a missing quote, or an unknown escape.

    Attributes:
        why: the message of the parser, without a full stop.
    """

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Canonical:
    """A value of a JobSpec: bytes and seconds are already numbers."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """All settings of one source.

    Attributes:
        values: nested tables, as written.
        where: key -> its place, such as `job.toml:12`, `--set` or `argument`.
        base: absolute base of relative paths.
        has_full_keys: each key is written in full, as with `--set`, not below the heading of its section.
    """

    values: Mapping[str, Any]
    where: Callable[[Key], str]
    base: Path
    has_full_keys: bool = False


@dataclass(slots=True, eq=False)
class Leaf:
    """A value and its layer."""

    value: Any
    layer: Layer


@dataclass(slots=True, eq=False)
class Branch:
    """A table; `layer` is the strongest one that has it."""

    layer: Layer
    children: dict[str, Branch | Leaf] = field(default_factory=dict)

    def to_leaf(self) -> Leaf:
        """Return the table as one value."""
        values = {
            name: (each.to_leaf() if isinstance(each, Branch) else each).value for name, each in self.children.items()
        }
        return Leaf(values, self.layer)


def merge(layers: Iterable[Layer]) -> Branch:
    """Merge layers, weakest first. Keys stay in the order in which they first appear."""
    defaults = Layer(values={}, where=lambda key: "default", base=Path("/"))
    root = Branch(defaults)
    for layer in layers:
        _merge_table(root, layer.values, layer, 1)
    return root


def _merge_table(branch: Branch, values: Mapping[str, Any], layer: Layer, depth: int) -> None:
    for name, value in values.items():
        below = branch.children.get(name)
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            if not isinstance(below, Branch):
                below = branch.children[name] = Branch(layer)
            below.layer = layer
            _merge_table(below, value, layer, depth + 1)
        elif value is not None or below is None:  # a key without a value (YAML) overrides nothing
            branch.children[name] = Leaf(value, layer)


def leaves(
    values: Mapping[str, Any], key: Key = (), is_value: Callable[[Key], bool] = lambda key: False
) -> Iterable[tuple[Key, Any]]:
    """Yield every value of nested tables with its key; skips empty tables.

    Args:
        is_value: whether the table of a key is one value.
    """
    for name, value in values.items():
        if isinstance(value, Mapping) and len(key) + 1 < MAX_DEPTH and not is_value((*key, name)):
            yield from leaves(value, (*key, name), is_value)
        else:
            yield (*key, name), value


def put(values: dict[str, Any], key: Key, value: Any) -> None:
    """Set a key in nested tables; a table is merged into an existing one."""
    if key == ("scheduler",) and not isinstance(value, Mapping):
        key = ("scheduler", "name")
    _put(values, key, value)


def _put(values: dict[str, Any], key: Key, value: Any) -> None:
    for part in key[:-1]:
        inner = values.get(part)
        if not isinstance(inner, dict):
            inner = values[part] = {}
        values = inner
    present = values.get(key[-1])
    if isinstance(value, Mapping) and isinstance(present, dict):
        for name, item in value.items():
            _put(present, (name,), item)
    else:
        values[key[-1]] = dict(value) if isinstance(value, Mapping) else value


def normalize_scheduler(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rewrite `scheduler = "local"` as `scheduler.name`."""
    scheduler = values.get("scheduler")
    if scheduler is None or isinstance(scheduler, Mapping):
        return values
    return {**values, "scheduler": {"name": scheduler}}


def name_rules(values: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, int]]:
    """Rewrite the list `[[diagnosis.rules]]` as tables by name, so that files add rules to those of others.

    Returns:
        The settings; and name -> index of each rule that was in a list. One without a valid name is reported later.
    """
    diagnosis = values.get("diagnosis")
    rules = diagnosis.get("rules") if isinstance(diagnosis, Mapping) else None
    if not isinstance(diagnosis, Mapping) or not isinstance(rules, list | tuple):
        return values, {}
    named: dict[str, Any] = {}
    for index, rule in enumerate(rules):
        name = rule.get("name") if isinstance(rule, Mapping) else None
        if not isinstance(name, str) or name in named:
            name = f"{name or ''}[{index}]"
        named[name] = (
            {key: value for key, value in rule.items() if key != "name"} if isinstance(rule, Mapping) else rule
        )
    return {**values, "diagnosis": {**diagnosis, "rules": named}}, {name: index for index, name in enumerate(named)}


def find_rule_place(key: Key, indexes: Mapping[str, int]) -> Key:
    """Return the key of a setting in the file, where rules are in a list."""
    if key[:2] == ("diagnosis", "rules") and len(key) > 2 and key[2] in indexes:
        return (*key[:2], str(indexes[key[2]]), *key[3:])
    return key


def format_key(key: Key) -> str:
    """Return a key as text; parts that are not plain words are quoted."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else quote(part) for part in key)


def quote(text: str) -> str:
    """Return text in double quotes on one line, with unprintable characters escaped."""
    inner = "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text)
    return f'"{inner}"'


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escape(char: str) -> str:
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"
