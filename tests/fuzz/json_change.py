"""Changes to JSON that leave it JSON: what gets past the parser, and into the code behind it.

For inputs of one JSON value to a line, or of several with other lines between. Both drivers use it: chance comes as an
argument.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

#: Values that are wrong in most places, and right in some.
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    1000,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64,
    10**40,
    0.5,
    -0.001,
    1e17,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "0",
    "x",
    "worker",
    "worker:0",
    "worker:1",
    "missing:7",
    "c-1",
    "c-99",
    "a\nb",
    "\x1b[2J\x07",
    "\u202egnp",
    "\ud800",
    "\0",
    "²",
    "é" * 500,
    "x" * 3000,
    "../../x",
    "/dev/zero",
    [],
    {},
    [[]],
    {"": {}},
    [1, "a", None],
    ["x"] * 200,
)
_SEQ = "seq"

Place = tuple[Any, Any]


def change(data: bytes, chance: Random) -> bytes:
    """The input with one to four changes in it; as it was, if no line of it is JSON."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 4))):
        lines = chance.choice(_CHANGES)(lines, chance)
    return b"\n".join(lines)


def _change_value(lines: list[bytes], chance: Random) -> list[bytes]:
    """Something inside one line is another value, gone, or there under another name."""
    for at in chance.sample(range(len(lines)), min(4, len(lines))):
        root = [_parsed(lines[at])]
        if isinstance(root[0], dict | list):
            holder, key = chance.choice(_places(root))
            chance.choice(_EDITS)(holder, key, root, chance)
            return [*lines[:at], _written(root[0]), *lines[at + 1 :]] if root else lines
    return lines


def _replace(holder: Any, key: Any, root: list[Any], chance: Random) -> None:
    holder[key] = chance.choice(_VALUES)


def _nudge(holder: Any, key: Any, root: list[Any], chance: Random) -> None:
    value = holder[key]
    if isinstance(value, int | float):
        holder[key] = chance.choice((value + 1, value - 1, -value, value * 2, value * 1e6, str(value)))
    elif isinstance(value, str):
        holder[key] = chance.choice((value + "x", value[:-1], value * 2, value.upper(), f" {value}", [value]))
    elif isinstance(value, list):
        holder[key] = chance.choice((value * 2, value[1:], value * 300, value[::-1]))
    else:
        _replace(holder, key, root, chance)


def _remove(holder: Any, key: Any, root: list[Any], chance: Random) -> None:
    if holder is not root:
        del holder[key]


def _rename(holder: Any, key: Any, root: list[Any], chance: Random) -> None:
    if isinstance(holder, dict):
        name = chance.choice([value for value in _VALUES if isinstance(value, str)])
        holder[name] = holder.pop(key) if chance.random() < 0.5 else holder[key]


def _copy(holder: Any, key: Any, root: list[Any], chance: Random) -> None:
    """The value of another place: of the right kind more often than not."""
    other, place = chance.choice(_places(root))
    holder[key] = json.loads(json.dumps(other[place]))


_EDITS: tuple[Callable[[Any, Any, list[Any], Random], None], ...] = (
    _replace,
    _replace,
    _nudge,
    _remove,
    _rename,
    _copy,
)


def _drop_line(lines: list[bytes], chance: Random) -> list[bytes]:
    at = chance.randrange(len(lines))
    return _numbered(lines[:at] + lines[at + 1 :], chance) if len(lines) > 1 else lines


def _repeat_line(lines: list[bytes], chance: Random) -> list[bytes]:
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines) + 1)
    return _numbered([*lines[:to], lines[at], *lines[to:]], chance)


def _move_line(lines: list[bytes], chance: Random) -> list[bytes]:
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    rest = lines[:at] + lines[at + 1 :]
    return _numbered([*rest[:to], lines[at], *rest[to:]], chance)


_CHANGES: tuple[Callable[[list[bytes], Random], list[bytes]], ...] = (
    _change_value,
    _change_value,
    _change_value,
    _drop_line,
    _repeat_line,
    _move_line,
)


def _numbered(lines: list[bytes], chance: Random) -> list[bytes]:
    """The lines of an event log with their numbers in order again: else nothing behind the gap is ever looked at."""
    if chance.random() < 0.2:
        return lines
    number = 0
    counted = []
    for line in lines:
        plain = _parsed(line)
        if isinstance(plain, dict) and _SEQ in plain:
            number += 1
            plain[_SEQ] = number
            line = _written(plain)
        counted.append(line)
    return counted


def _places(root: list[Any]) -> list[Place]:
    """Every place of a value: what holds it, and under which key."""
    found: list[Place] = [(root, 0)]
    for holder, key in found:  # grows on the way
        value = holder[key]
        if isinstance(value, dict):
            found += [(value, name) for name in value]
        elif isinstance(value, list):
            found += [(value, number) for number in range(min(len(value), 50))]
        if len(found) > 2000:
            break
    return found


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _written(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
