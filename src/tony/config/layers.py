"""Settings from several places laid over each other, each value still knowing its place.

Weakest first: defaults, site files, job file, `TONY_SET_...`, `--set` and `--param`, arguments of the Python call.
Tables are merged key by key, everything else replaces what was below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tony.config.settings_table import Key
from tony.dataclass import dataclass, field

#: Deeper tables than any setting has are kept as plain values, so that no input makes us recurse without end.
MAX_DEPTH = 6

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Written:
    """A value together with the text it was written as: `1.10`, or whatever stands behind `--set key=`.

    Attributes:
        is_text: the place knows no quotes, so the text may just as well be what is meant.
    """

    value: Any
    text: str
    is_text: bool = True


@dataclass(frozen=True, slots=True)
class Garbled:
    """A flag's text that begins as a TOML value does and is none: a quote was forgotten, or an escape is unknown.

    Attributes:
        why: what the parser says of it, without a full stop.
    """

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Canonical:
    """A value of a JobSpec: bytes and seconds are numbers already."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """All that one place sets.

    Attributes:
        values: nested tables, as they were written.
        where: a key -> its place, such as `job.toml:12`, `--set` or `argument`.
        base: absolute folder that relative paths in it are relative to.
    """

    values: Mapping[str, Any]
    where: Callable[[Key], str]
    base: Path


@dataclass(slots=True, eq=False)
class Leaf:
    """A value and the layer that it comes from."""

    value: Any
    layer: Layer


@dataclass(slots=True, eq=False)
class Branch:
    """A table; `layer` is the strongest that has it."""

    layer: Layer
    children: dict[str, Branch | Leaf] = field(default_factory=dict)


def merge(layers: Iterable[Layer]) -> Branch:
    """Lays the layers over each other, weakest first. Keys stay in the order in which they first appear."""
    nothing = Layer(values={}, where=lambda key: "default", base=Path("/"))
    root = Branch(nothing)
    for layer in layers:
        _lay(root, layer.values, layer, 1)
    return root


def _lay(branch: Branch, values: Mapping[str, Any], layer: Layer, depth: int) -> None:
    for name, value in values.items():
        below = branch.children.get(name)
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            if not isinstance(below, Branch):
                below = branch.children[name] = Branch(layer)
            below.layer = layer
            _lay(below, value, layer, depth + 1)
        elif value is not None or below is None:  # a key without a value (YAML) takes nothing away
            branch.children[name] = Leaf(value, layer)


def leaves(values: Mapping[str, Any], key: Key = ()) -> Iterable[tuple[Key, Any]]:
    """Every value of nested tables with its key; empty tables are passed over."""
    for name, value in values.items():
        if isinstance(value, Mapping) and len(key) + 1 < MAX_DEPTH:
            yield from leaves(value, (*key, name))
        else:
            yield (*key, name), value


def put(values: dict[str, Any], key: Key, value: Any) -> None:
    """Sets one dotted key in nested tables; a table is laid over the one that is there."""
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


def tidy(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Takes `scheduler = "local"` for what it means: `scheduler.name`."""
    scheduler = values.get("scheduler")
    if scheduler is None or isinstance(scheduler, Mapping):
        return values
    return {**values, "scheduler": {"name": scheduler}}


def dotted(key: Key) -> str:
    """A key as it is written: parts that are no plain words are quoted."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else quoted(part) for part in key)


def quoted(text: str) -> str:
    """Text in double quotes on one line; what a terminal would not show as it is, is escaped."""
    inner = "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text)
    return f'"{inner}"'


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escape(char: str) -> str:
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"
