"""Frozen dataclasses to plain JSON values and back, checked by their type hints.

One codec serves the wire, the event log, the resolved job file and `--json`. It knows: bool, int, float, str, None,
enums (by value), NamedTuples with a `parse` classmethod (as text), tuples of one type, pairs, mappings with text keys,
unions, nested dataclasses, and `Json` (anything plain). A field name's trailing underscore is not written (`try_` -> `try`).
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



class DecodeError(ValueError):
    """Plain data that does not fit the type; the text says where and why."""


def to_plain(value: object) -> Json:
    """Turns a dataclass (or any value the codec knows) into plain JSON values.

    Raises:
        TypeError: for a type the codec does not know.
    """
    if value is None or isinstance(value, bool | int | float | str) and not isinstance(value, Enum):
        return value
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {key: to_plain(getattr(value, name)) for name, key in _names(type(value))}
    if isinstance(value, tuple):
        return str(value) if hasattr(value, "parse") else [to_plain(item) for item in value]
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    raise TypeError(f"no plain form for {type(value).__name__}")


def from_plain(cls: type[T], data: Json, *, ignore_unknown: bool = False) -> T:
    """Builds a `cls` from plain JSON values.

    Args:
        ignore_unknown: on the wire and in logs, fields of a newer version are ignored; in a job file they are mistakes.

    Raises:
        DecodeError: a missing or unknown field, or a value of the wrong type; says where.
    """
    return cast(T, _decoder(cls, ignore_unknown)(data))


@cache
def _names(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.name.removesuffix("_")) for f in dataclasses.fields(cls))


@cache
def _decoder(hint: Any, ignore_unknown: bool) -> _Convert:
    if hint is Any or hint is object:
        return _any
    if hint is float:
        return _float
    if hint in (bool, int, str):
        return lambda data: _scalar(hint, data)
    if hint is type(None):
        return _none
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda data: _enum(hint, data)
    if isinstance(hint, type) and hasattr(hint, "parse"):
        return lambda data: _parsed(hint, data)
    if dataclasses.is_dataclass(hint):
        return _dataclass(cast(type[Any], hint), ignore_unknown)
    return _generic(hint, ignore_unknown)


def _generic(hint: Any, ignore_unknown: bool) -> _Convert:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union([(arg, _decoder(arg, ignore_unknown)) for arg in args])
    if origin in (tuple, list):
        many = origin is list or (len(args) == 2 and args[1] is Ellipsis)
        if many:
            return _sequence(_decoder(args[0], ignore_unknown), tuple if origin is tuple else list)
        return _fixed([_decoder(arg, ignore_unknown) for arg in args])
    if origin in (dict, Mapping) or origin is not None and issubclass(origin, Mapping):
        return _mapping(_decoder(args[0], ignore_unknown), _decoder(args[1], ignore_unknown))
    raise TypeError(f"no decoder for {hint!r}")


def _any(data: Json) -> Any:
    return data


def _none(data: Json) -> None:
    if data is not None:
        raise DecodeError(f"expected nothing, not {_kind(data)}")


def _float(data: Json) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise DecodeError(f"expected a number, not {_kind(data)}")
    try:
        number = float(data)
    except OverflowError:
        raise DecodeError("number too large") from None
    if not math.isfinite(number):
        raise DecodeError("expected a finite number")
    return number


def _scalar(hint: type, data: Json) -> Any:
    if type(data) is not hint:
        raise DecodeError(f"expected {hint.__name__}, not {_kind(data)}")
    return data


def _enum(hint: type[Enum], data: Json) -> Enum:
    try:
        return hint(data)
    except ValueError:
        known = ", ".join(str(member.value) for member in hint)
        raise DecodeError(f"{data!r:.80} is not one of {known}") from None


def _parsed(hint: Any, data: Json) -> Any:
    if not isinstance(data, str):
        raise DecodeError(f"expected text, not {_kind(data)}")
    try:
        return hint.parse(data)
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _sequence(item: _Convert, make: Callable[[Any], Any]) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, list | tuple):
            raise DecodeError(f"expected a list, not {_kind(data)}")
        return make([_at(f"[{i}]", item, value) for i, value in enumerate(data)])

    return convert


def _fixed(items: list[_Convert]) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, list | tuple) or len(data) != len(items):
            raise DecodeError(f"expected a list of {len(items)}, not {_kind(data)}")
        return tuple(_at(f"[{i}]", item, value) for i, (item, value) in enumerate(zip(items, data, strict=True)))

    return convert


def _mapping(key: _Convert, item: _Convert) -> _Convert:
    def convert(data: Json) -> Any:
        if not isinstance(data, Mapping):
            raise DecodeError(f"expected a table, not {_kind(data)}")
        return {_at(f".{k}", key, k): _at(f".{k}", item, value) for k, value in data.items()}

    return convert


def _union(options: list[tuple[Any, _Convert]]) -> _Convert:
    def convert(data: Json) -> Any:
        failures: list[str] = []
        if data is None and any(hint is type(None) for hint, _ in options):
            return None
        for hint, decode in options:
            if hint is type(None):
                continue
            try:
                return decode(data)
            except DecodeError as error:
                failures.append(str(error))
        raise DecodeError(failures[0] if failures else f"unexpected {_kind(data)}")

    return convert


def _dataclass(cls: type[Any], ignore_unknown: bool) -> _Convert:
    hints = get_type_hints(cls)
    fields = {f.name.removesuffix("_"): f for f in dataclasses.fields(cls)}
    required = {
        key
        for key, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    decoders: dict[str, _Convert] = {}

    def convert(data: Json) -> Any:
        if not isinstance(data, Mapping):
            raise DecodeError(f"expected a table for {cls.__name__}, not {_kind(data)}")
        if not decoders:
            decoders.update({key: _decoder(hints[f.name], ignore_unknown) for key, f in fields.items()})
        arguments: dict[str, Any] = {}
        for key, value in data.items():
            if key in decoders:
                arguments[fields[key].name] = _at(f".{key}", decoders[key], value)
            elif not ignore_unknown:
                raise DecodeError(f"unknown field {key!r:.80} in {cls.__name__}")
        missing = [key for key in required if key not in data]
        if missing:
            raise DecodeError(f"{cls.__name__} lacks {', '.join(sorted(missing))}")
        try:
            return cls(**arguments)
        except ValueError as error:
            raise DecodeError(str(error)) from None

    return convert


def _at(where: str, decode: _Convert, value: Json) -> Any:
    try:
        return decode(value)
    except DecodeError as error:
        text = str(error)
        raise DecodeError(f"{where}{text}" if text.startswith((".", "[")) else f"{where}: {text}") from None


def _kind(data: Json) -> str:
    names = {dict: "a table", list: "a list", str: "text", bool: "a truth value", int: "a whole number"}
    return names.get(type(data), "nothing" if data is None else type(data).__name__)


