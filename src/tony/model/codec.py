"""Converts frozen dataclasses to plain JSON values and back, checked by their type hints.

One codec serves the wire, the event log, the resolved job file and `--json`. It supports: bool, int, float, str, None,
enums (by value), NamedTuples with a `parse` classmethod (as text), tuples of one type, pairs, mappings with text keys,
unions, nested dataclasses, and `Json` (anything plain). A field name's trailing underscore is not written (`try_` is
`try`).

`from_plain` reads the output of `to_plain` back as an equal value. Other input may be hostile: whatever it is,
`from_plain` returns a value that fits the hints or raises `DecodeError` with a short message on one line.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

#: Any plain JSON value.
Json = Any

T = TypeVar("T")
_Convert = Callable[[Any], Any]
#: A field's name, types of values that are taken unchanged, and the decoder for others.
_Field = tuple[str, frozenset[type], _Convert]

#: Types that are their own plain form. Compared by exact type: an IntEnum is an int, too, but not plain.
_PLAIN = frozenset({str, int, bool, type(None)})
#: Characters of a foreign key or value that an error message shows.
_SHOWN = 80


class DecodeError(ValueError):
    """Plain data that does not fit the type; the message says where and why."""


def to_plain(value: object) -> Json:
    """Return a dataclass (or any supported value) as plain JSON values.

    Raises:
        TypeError: for an unsupported type, or a mapping whose keys are not text.
        ValueError: for a number that is not finite: JSON has none.
    """
    return value if type(value) in _PLAIN else _encoder_of(value)(value)


def from_plain(cls: type[T], data: Json, *, ignore_unknown: bool = False) -> T:
    """Build a `cls` from plain JSON values.

    Args:
        ignore_unknown: ignore unknown fields, which on the wire and in logs are those of a newer version; in a job file
            they are errors.

    Raises:
        DecodeError: a missing or unknown field, or a value of the wrong type; the message says where.
    """
    return cast(T, _decoder(cast(Any, cls), ignore_unknown)(data))


def prepare(*classes: type) -> None:
    """Resolve the encoders and (ignoring unknown fields) decoders of these classes now."""
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
    """Return the encoder for values of exactly this class."""
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


#: For each dataclass met so far: resolves the decoders of its fields.
_unresolved: list[Callable[[], None]] = []


@cache
def _decoder(hint: Any, ignore_unknown: bool) -> _Convert:
    """Return the decoder for a type hint."""
    if hint is Any or hint is object:
        return _accept_any
    if hint is type(None):
        return _accept_none
    if hint is float:
        return _float
    if hint in (bool, int, str):
        return _expect_type(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and hasattr(hint, "parse"):
        return _convert_parsed(hint)
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
        return _convert_fixed([_decoder(arg, ignore_unknown) for arg in args])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_decoder(args[0], ignore_unknown), _decoder(args[1], ignore_unknown))
    raise TypeError(f"no decoder for {hint!r}")


def _find_unchanged_types(hint: Any) -> frozenset[type]:
    """Return the types of values that are taken unchanged."""
    options = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    # An option that decodes text as something else, say, may precede.
    return frozenset(options if options <= _PLAIN else options & {type(None)})


def _accept_any(data: Json) -> Any:
    return data


def _accept_none(data: Json) -> None:
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


def _expect_type(cls: type) -> _Convert:
    expected = _KINDS[cls]

    def convert(data: Json) -> Any:
        if type(data) is not cls:
            raise DecodeError(f"expected {expected}, not {_kind(data)}")
        return data

    return convert


def _enum(cls: type[Enum]) -> _Convert:
    # Keyed by type and value, or True would match 1.
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


def _convert_parsed(cls: Any) -> _Convert:
    parse = cls.parse

    def convert(data: Json) -> Any:
        if type(data) is not str:
            raise DecodeError(f"expected text, not {_kind(data)}")
        try:
            return parse(data)
        except ValueError as error:
            raise DecodeError(_format_one_line(error)) from None

    return convert


def _sequence(item: _Convert, make: Callable[[Any], Any]) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, list | tuple):
            raise DecodeError(f"expected a list, not {_kind(data)}")
        return make(_convert_each([item] * len(data), data))

    return convert


def _convert_fixed(items: list[_Convert]) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, list | tuple):
            raise DecodeError(f"expected a list of {len(items)}, not {_kind(data)}")
        if len(data) != len(items):
            raise DecodeError(f"expected a list of {len(items)}, not of {len(data)}")
        return tuple(_convert_each(items, data))

    return convert


def _convert_each(items: list[_Convert], data: list[Json] | tuple[Json, ...]) -> list[Any]:
    values: list[Any] = []
    try:
        for item, value in zip(items, data, strict=True):
            values.append(item(value))
    except DecodeError as error:
        raise _prefix_error(f"[{len(values)}]", error) from None
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
            raise _prefix_error(_place(k), error) from None
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
        raise DecodeError(_choose_best(failures, data))

    return convert


def _choose_best(failures: list[str], data: Json) -> str:
    """Return the most helpful of several failures: that of the best fitting option, nested deepest."""
    deeper = [failure for failure in failures if failure.startswith((".", "["))]
    if deeper or len(failures) == 1:
        return (deeper or failures)[0]
    expectations = [f.removeprefix("expected ").removesuffix(f", not {_kind(data)}") for f in failures]
    return f"expected {' or '.join(expectations)}, not {_kind(data)}"


def _dataclass(cls: type[Any], ignore_unknown: bool) -> _Convert:
    # Filled at the first use: a class may contain itself. Most values are taken unchanged, without a call.
    decoders: dict[str, _Field] = {}
    required = frozenset(
        _key(field.name)
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )

    def resolve() -> None:
        if decoders:
            return
        hints = get_type_hints(cls)
        found = {
            _key(field.name): (
                field.name,
                _find_unchanged_types(hints[field.name]),
                _decoder(hints[field.name], ignore_unknown),
            )
            for field in dataclasses.fields(cls)
        }
        decoders.update(found)  # at once: other threads read it

    def convert(data: Json) -> Any:
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
                    raise _UnknownFieldError
        except _UnknownFieldError:
            raise DecodeError(f"unknown field {_show(key)} in {cls.__name__}") from None
        except DecodeError as error:
            raise _prefix_error(_place(key), error) from None
        if not required <= data.keys():
            missing = sorted(required - data.keys())
            raise DecodeError(f"{cls.__name__} lacks {', '.join(missing)}")
        try:
            return cls(**arguments)
        except ValueError as error:
            raise DecodeError(_format_one_line(error)) from None

    _unresolved.append(resolve)
    return convert


class _UnknownFieldError(Exception):
    """A field that the class does not have."""


# --- error messages -----------------------------------------------------------------------------------------------

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


def _prefix_error(place: str, error: DecodeError) -> DecodeError:
    text = str(error)
    return DecodeError(f"{place}{text}" if text.startswith((".", "[")) else f"{place}: {text}")


def _place(key: object) -> str:
    return f".{key}" if isinstance(key, str) and len(key) <= _SHOWN and key.isprintable() else f".{_show(key)}"


def _show(data: object) -> str:
    """Return a foreign value, short and safe for a log or a terminal."""
    if not isinstance(data, str | int | float | None):
        return _kind(data)
    if isinstance(data, int) and abs(data) >= 10**_SHOWN:
        return "a very large number"
    return ascii(data[:_SHOWN] if isinstance(data, str) else data)


def _format_one_line(error: ValueError) -> str:
    text = str(error)[: 4 * _SHOWN]
    return text if text.isprintable() else ascii(text)
