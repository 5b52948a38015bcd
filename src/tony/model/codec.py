"""Frozen dataclasses to plain JSON values and back, checked by their type hints.

One codec serves the wire, the event log, the resolved job file and `--json`. It knows: bool, int, float, str, None,
enums (by value), NamedTuples with a `parse` classmethod (as text), tuples of one type, pairs, mappings with text keys,
unions, nested dataclasses, and `Json` (anything plain). A field name's trailing underscore is not written (`try_` is
`try`).

What `to_plain` gives, `from_plain` reads back as an equal value. What comes from elsewhere may be hostile: whatever it
is, `from_plain` answers a value that fits the hints or raises `DecodeError` with a short text on one line.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tony import dataclass as dataclasses

#: Any plain JSON value.
Json = Any

T = TypeVar("T")
_Convert = Callable[[Any], Any]
#: A field's name, types of values that are read as they are, and how others are read.
_Field = tuple[str, frozenset[type], _Convert]

#: What is its own plain form. Compared by exact type: an IntEnum is an int, too, but not this.
_PLAIN = frozenset({str, int, bool, type(None)})
#: Characters of a foreign key or value that an error shows.
_SHOWN = 80
#: From this many records of a class on it pays to compile how they are read: half a millisecond, two microseconds less
#: for each.
_OFTEN = 250


class DecodeError(ValueError):
    """Plain data that does not fit the type; the text says where and why."""


def to_plain(value: object) -> Json:
    """Turns a dataclass (or any value the codec knows) into plain JSON values.

    Raises:
        TypeError: for a type the codec does not know, or a mapping whose keys are not text.
        ValueError: for a number that is not finite: JSON has none.
    """
    return value if type(value) in _PLAIN else _encoder_of(value)(value)


def from_plain(cls: type[T], data: Json, *, ignore_unknown: bool = False) -> T:
    """Builds a `cls` from plain JSON values.

    Args:
        ignore_unknown: on the wire and in logs, fields of a newer version are ignored; in a job file they are mistakes.

    Raises:
        DecodeError: a missing or unknown field, or a value of the wrong type; says where.
    """
    return cast(T, _decoder(cast(Any, cls), ignore_unknown)(data))


def prepare(*classes: type) -> None:
    """Finds out now how these classes are read, fields of a newer version ignored, and how they are written."""
    for cls in classes:
        _encoder(cast(Any, cls))
        _decoder(cast(Any, cls), True)
    while _unresolved:
        _unresolved.pop()()


# --- to plain -----------------------------------------------------------------------------------------------------


def _encoder_of(value: object) -> _Convert:
    cls: Any = type(value)
    return _encoder(cls)


@cache
def _encoder(cls: Any) -> _Convert:
    """How values of exactly this class are written; found once per class."""
    if issubclass(cls, Enum):
        return _enum_to_plain
    if cls is float or issubclass(cls, float):
        return _float_to_plain
    for base in (str, int):
        if issubclass(cls, base):
            return base
    if dataclasses.is_dataclass(cls):
        return _dataclass_to_plain(cast(type[Any], cls))
    if issubclass(cls, tuple):
        return str if hasattr(cls, "parse") else _items_to_plain
    if issubclass(cls, list):
        return _items_to_plain
    if issubclass(cls, Mapping):
        return _mapping_to_plain
    raise TypeError(f"no plain form for {cls.__name__}")


def _enum_to_plain(value: Any) -> Json:
    return value.value


def _float_to_plain(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no plain form: JSON numbers are finite")
    return float(value)


def _items_to_plain(value: Any) -> list[Json]:
    return [item if type(item) in _PLAIN else _encoder_of(item)(item) for item in value]


def _mapping_to_plain(value: Any) -> dict[str, Json]:
    plain: dict[str, Json] = {}
    for key, item in value.items():
        text = to_plain(key)
        if not isinstance(text, str):
            raise TypeError(f"no plain form for a mapping with a key of type {type(key).__name__}")
        plain[text] = item if type(item) in _PLAIN else _encoder_of(item)(item)
    return plain


def _dataclass_to_plain(cls: type[Any]) -> _Convert:
    names = tuple((field.name, _key(field.name)) for field in dataclasses.fields(cls))

    def convert(value: Any) -> dict[str, Json]:
        plain: dict[str, Json] = {}
        for name, key in names:
            item = getattr(value, name)
            plain[key] = item if type(item) in _PLAIN else _encoder_of(item)(item)
        return plain

    return convert


def _key(name: str) -> str:
    return name.removesuffix("_")


# --- from plain ---------------------------------------------------------------------------------------------------


#: Of each dataclass that was met: finds the decoders of its fields.
_unresolved: list[Callable[[], None]] = []


@cache
def _decoder(hint: Any, ignore_unknown: bool) -> _Convert:
    """How data for a type hint is read; found once per hint."""
    if hint is Any or hint is object:
        return _any
    if hint is type(None):
        return _none
    if hint is float:
        return _float
    if hint in (bool, int, str):
        return _exactly(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and hasattr(hint, "parse"):
        return _parsed(hint)
    if dataclasses.is_dataclass(hint):
        return _dataclass(cast(type[Any], hint), ignore_unknown)
    return _generic(hint, ignore_unknown)


def _generic(hint: Any, ignore_unknown: bool) -> _Convert:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(args, ignore_unknown)
    if origin is list or (origin is tuple and len(args) == 2 and args[1] is Ellipsis):
        return _sequence(_decoder(args[0], ignore_unknown), origin)
    if origin is tuple:
        return _fixed([_decoder(arg, ignore_unknown) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_decoder(args[0], ignore_unknown), _decoder(args[1], ignore_unknown))
    raise TypeError(f"no decoder for {hint!r}")


def _kept(hint: Any) -> frozenset[type]:
    """Types of values that are read as they are, whatever else the hint allows."""
    options = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    # One that takes text as something else, say, may come first.
    return frozenset(options if options <= _PLAIN else options & {type(None)})


def _any(data: Json) -> Any:
    return data


def _none(data: Json) -> None:
    if data is not None:
        raise DecodeError(f"expected nothing, not {_kind(data)}")


def _float(data: Json) -> float:
    if type(data) is not float and type(data) is not int:
        raise DecodeError(f"expected a number, not {_kind(data)}")
    try:
        number = float(data)
    except OverflowError:
        raise DecodeError("number too large") from None
    if not math.isfinite(number):
        raise DecodeError("expected a finite number")
    return number


def _exactly(cls: type) -> _Convert:
    expected = _KINDS[cls]

    def convert(data: Json) -> Any:
        if type(data) is not cls:
            raise DecodeError(f"expected {expected}, not {_kind(data)}")
        return data

    return convert


def _enum(cls: type[Enum]) -> _Convert:
    # With the type beside the value, or True would be found where 1 is.
    members = {(type(member.value), member.value): member for member in cls}
    known = ", ".join(str(member.value) for member in cls)

    def convert(data: Json) -> Enum:
        if type(data) not in (str, int):
            raise DecodeError(f"expected one of {known}, not {_kind(data)}")
        try:
            return members[type(data), data]
        except KeyError:
            raise DecodeError(f"{_show(data)} is not one of {known}") from None

    return convert


def _parsed(cls: Any) -> _Convert:
    parse = cls.parse

    def convert(data: Json) -> Any:
        if type(data) is not str:
            raise DecodeError(f"expected text, not {_kind(data)}")
        try:
            return parse(data)
        except ValueError as error:
            raise DecodeError(_one_line(error)) from None

    return convert


def _sequence(item: _Convert, make: Callable[[Any], Any]) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, list | tuple):
            raise DecodeError(f"expected a list, not {_kind(data)}")
        return make(_each([item] * len(data), data))

    return convert


def _fixed(items: list[_Convert]) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, list | tuple):
            raise DecodeError(f"expected a list of {len(items)}, not {_kind(data)}")
        if len(data) != len(items):
            raise DecodeError(f"expected a list of {len(items)}, not of {len(data)}")
        return tuple(_each(items, data))

    return convert


def _each(items: list[_Convert], data: list[Json] | tuple[Json, ...]) -> list[Any]:
    values: list[Any] = []
    try:
        for item, value in zip(items, data, strict=True):
            values.append(item(value))
    except DecodeError as error:
        raise _at(f"[{len(values)}]", error) from None
    return values


def _mapping(key: _Convert, item: _Convert) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, Mapping):
            raise DecodeError(f"expected a table, not {_kind(data)}")
        values: dict[Any, Any] = {}
        k: object = None
        try:
            for k, value in data.items():
                values[key(k)] = item(value)
        except DecodeError as error:
            raise _at(_place(k), error) from None
        return values

    return convert


def _union(hints: tuple[Any, ...], ignore_unknown: bool) -> _Convert:
    optional = type(None) in hints
    options = [_decoder(hint, ignore_unknown) for hint in hints if hint is not type(None)]
    if optional and len(options) == 1:
        only = options[0]
        return lambda data: None if data is None else only(data)

    def convert(data: Json) -> Any:
        if data is None and optional:
            return None
        failures: list[str] = []
        for decode in options:
            try:
                return decode(data)
            except DecodeError as error:
                failures.append(str(error))
        raise DecodeError(_best(failures, data))

    return convert


def _best(failures: list[str], data: Json) -> str:
    """The one to show of several reasons: from the form that fits best, which is where the mistake lies deepest."""
    deeper = [failure for failure in failures if failure.startswith((".", "["))]
    if deeper or len(failures) == 1:
        return (deeper or failures)[0]
    wanted = [f.removeprefix("expected ").removesuffix(f", not {_kind(data)}") for f in failures]
    return f"expected {' or '.join(wanted)}, not {_kind(data)}"


def _dataclass(cls: type[Any], ignore_unknown: bool) -> _Convert:
    fields = {_key(field.name): field for field in dataclasses.fields(cls)}
    required = frozenset(
        key
        for key, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    # Filled at the first use, not now: a class may hold itself. Most values of most records are what they should be
    # and stay it: for those nothing is called.
    decoders: dict[str, _Field] = {}

    def resolve() -> None:
        if decoders:
            return
        hints = get_type_hints(cls)
        decoders.update(
            {
                key: (field.name, _kept(hints[field.name]), _decoder(hints[field.name], ignore_unknown))
                for key, field in fields.items()
            }
        )

    _unresolved.append(resolve)
    left = _OFTEN
    compiled: _Convert | None = None

    def convert(data: Json) -> Any:
        nonlocal left, compiled
        if compiled is not None:
            return compiled(data)
        left -= 1
        if left < 0 and decoders:
            compiled = _compiled(cls, decoders, by_name)
        return by_name(data)

    def by_name(data: Json) -> Any:
        if not isinstance(data, Mapping):
            raise DecodeError(f"expected a table for {cls.__name__}, not {_kind(data)}")
        if not decoders:
            resolve()
        arguments: dict[str, Any] = {}
        key: Any = None
        try:
            for key, value in data.items():
                known = decoders.get(key)
                if known is not None:
                    name, kept, decode = known
                    arguments[name] = value if type(value) in kept else decode(value)
                elif not ignore_unknown:
                    raise _Unknown
        except _Unknown:
            raise DecodeError(f"unknown field {_show(key)} in {cls.__name__}") from None
        except DecodeError as error:
            raise _at(_place(key), error) from None
        if not required <= data.keys():
            missing = sorted(required - data.keys())
            raise DecodeError(f"{cls.__name__} lacks {', '.join(missing)}")
        try:
            return cls(**arguments)
        except ValueError as error:
            raise DecodeError(_one_line(error)) from None

    return convert


def _compiled(cls: type[Any], decoders: Mapping[str, _Field], otherwise: _Convert) -> _Convert:
    """The same for records as `to_plain` writes them, with every field in its place: without a loop, and no table."""
    known: dict[str, Any] = {"cls": cls, "new": cls.__new__, "otherwise": otherwise, "keys": tuple(decoders)}
    known |= {"DecodeError": DecodeError, "at": _at, "place": _place, "one_line": _one_line}
    lines: list[str] = []
    for number, (key, (_, kept, decode)) in enumerate(decoders.items()):
        value, known[f"decode{number}"] = f"v{number}", decode
        others = [f"type({value}) is not {each.__name__}" for each in kept - {type(None)}]
        others += [f"{value} is not None"] if type(None) in kept else []
        lines.append(f"  if {' and '.join(others) or True}: key = {key!r}; {value} = decode{number}({value})")
    given = ", ".join(f"{name}=v{number}" for number, (name, _, _) in enumerate(decoders.values()))
    source = f"""
def read(data):
 if type(data) is not dict or tuple(data) != keys: return otherwise(data)
 {"".join(f"v{number}, " for number in range(len(decoders)))} = data.values()
 try:
{chr(10).join(lines)}
 except DecodeError as error: raise at(place(key), error) from None
 it = new(cls)
 try: cls.__init__(it, {given})
 except ValueError as error: raise DecodeError(one_line(error)) from None
 return it
"""
    exec(source, known)
    return cast(_Convert, known["read"])


class _Unknown(Exception):  # noqa: N818 - it never leaves this module
    """A field that the class does not have."""


# --- what errors say ----------------------------------------------------------------------------------------------

_KINDS: Mapping[type, str] = {
    dict: "a table",
    list: "a list",
    str: "text",
    bool: "a truth value",
    int: "a whole number",
    float: "a number",
    type(None): "nothing",
}


def _kind(data: Json) -> str:
    return _KINDS.get(type(data), type(data).__name__)


def _at(place: str, error: DecodeError) -> DecodeError:
    text = str(error)
    return DecodeError(f"{place}{text}" if text.startswith((".", "[")) else f"{place}: {text}")


def _place(key: object) -> str:
    return f".{key}" if isinstance(key, str) and len(key) <= _SHOWN and key.isprintable() else f".{_show(key)}"


def _show(data: object) -> str:
    """A foreign value, short and harmless in a log and on a terminal."""
    if not isinstance(data, str | int | float | None):
        return _kind(data)
    if isinstance(data, int) and abs(data) >= 10**_SHOWN:
        return "a very large number"
    return ascii(data[:_SHOWN] if isinstance(data, str) else data)


def _one_line(error: ValueError) -> str:
    text = str(error)[: 4 * _SHOWN]
    return text if text.isprintable() else ascii(text)
