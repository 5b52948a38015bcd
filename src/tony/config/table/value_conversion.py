"""Converts written values to canonical ones: bytes, seconds, enum members, absolute paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from tony.config.table import path_settings
from tony.config.table.layers import Canonical, Garbled, Written, quote
from tony.config.table.settings_table import Kind, Setting
from tony.config.table.value_format import format_canonical
from tony.name_suggestions import suggest_names
from tony.units import parse_duration, parse_size

T = TypeVar("T")

#: Linux takes at most this many bytes in one argument or variable, its closing NUL included (MAX_ARG_STRLEN).
MAX_ARGUMENT = 128 * 1024
#: How the size of an elastic role is written.
ELASTIC_EXAMPLE = "{ min = 2, max = 8 }"


@dataclass(frozen=True, slots=True)
class ConversionProblem:
    """One error of a value; `item` is the index in a list if it is about one item."""

    message: str
    item: int | None = None


class InvalidValueError(ValueError):
    """A value that its setting cannot have; `items` are the valid items of a list, None in place of the others."""

    def __init__(self, *faults: ConversionProblem, items: Sequence[Any] = ()) -> None:
        self.faults = faults
        self.items = items
        super().__init__("; ".join(fault.message for fault in faults))


def convert(setting: Setting, value: Any, base: Path) -> Any:
    """Convert a value to its canonical form. Reads no file, except to distinguish paths from programs.

    Args:
        value: plain, or a `Written` or `Canonical` one.
        base: absolute folder for relative paths.

    Raises:
        InvalidValueError: the value is not valid; says what to write instead.
    """
    if isinstance(value, Garbled):
        raise InvalidValueError(ConversionProblem(_describe_garbled(value)))
    plain = value.value if isinstance(value, Canonical) else _unwrap(value, setting.kind)
    if plain is None and not isinstance(value, Canonical):
        raise InvalidValueError(ConversionProblem("it has no value. Write one, or remove the key."))
    try:
        if setting.kind is Kind.CHOICE:
            return _choice(setting, plain)
        if setting.kind in _WITH_BASE:
            return _WITH_BASE[setting.kind](plain, base)
        if isinstance(value, Canonical) and setting.kind in _QUANTITIES and not isinstance(plain, str):
            return _check_bounds(setting, _convert_number(setting.kind, plain))
        return _check_bounds(setting, _PLAIN[setting.kind](plain))
    except InvalidValueError:
        raise
    except ValueError as error:
        raise InvalidValueError(ConversionProblem(f"{error}{_from_to(setting, plain)}")) from None


def _from_to(setting: Setting, value: Any) -> str:
    """Return a hint how an elastic size is written, if the value of `instances` looks like a range; else empty."""
    if setting.key != "roles.<role>.instances" or not isinstance(value, str | list) or str(value).strip().isdigit():
        return ""
    return f" For an elastic role: {ELASTIC_EXAMPLE}."


def _describe_garbled(value: Garbled) -> str:
    kind = {"[": "a list", "{": "a table"}.get(value.text.lstrip()[0], "text in quotes")
    meant = " To use it unchanged, put it in single quotes of its own: '...'." if "'" not in value.text else ""
    return f"it begins like {kind} in TOML, but is not valid: {value.why}.{meant}"


def _unwrap(value: Any, kind: Kind, *, is_item: bool = False) -> Any:
    """Return the plain value, also of list items; or its text where the setting takes text."""
    if isinstance(value, list | tuple):
        return [_unwrap(item, kind, is_item=True) for item in value]
    if isinstance(value, Mapping):
        return {name: _unwrap(item, kind) for name, item in value.items()}
    if not isinstance(value, Written):
        return value
    if kind is Kind.WORD or (kind is Kind.COMMAND and is_item):
        return value.text  # numbers are accepted as they are written
    if isinstance(value.value, list):
        return _unwrap(value.value, kind)
    return value.text if kind in _TEXTUAL and value.is_text else value.value


# --- numbers ----------------------------------------------------------------------------------------------------------


def _check_bounds(setting: Setting, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = setting.minimum, setting.maximum
        if low is not None and value < low:
            raise InvalidValueError(
                ConversionProblem(f"too small. The minimum is {format_canonical(setting, _align_type(value, low))}.")
            )
        if high is not None and value > high:
            raise InvalidValueError(
                ConversionProblem(f"too large. The maximum is {format_canonical(setting, _align_type(value, high))}.")
            )
    return value


def _align_type(value: int | float, bound: float) -> int | float:
    return int(bound) if isinstance(value, int) else bound


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        raise ValueError(f"write a whole number without quotes: {int(value)}.")
    raise ValueError(f"expected a whole number, not {_kind(value)}.")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a number such as 1.5, not {_kind(value)}.")
    return float(value)


def _size(value: Any) -> int:
    return parse_size(_measure(value, "a size", '"2g"'))


def _duration(value: Any) -> float:
    return parse_duration(_measure(value, "a duration", '"30s"'))


def _measure(value: Any, what: str, example: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18:
        return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    raise ValueError(f"expected {what} such as {example}, not {_kind(value)}.")


def _timeout(value: Any) -> float | None:
    return _duration_or_off(value, '"off" means no limit.') or None


def _wait(value: Any) -> float | None:
    return _duration_or_off(value, '"off" means no end of the wait, "0s" no wait.')


def _duration_or_off(value: Any, hint: str) -> float | None:
    if value == "off":
        return None
    try:
        return _duration(value)
    except ValueError as error:
        raise ValueError(f"{error} {hint}") from None


def _convert_number(kind: Kind, value: Any) -> int | float | None:
    """Return the bytes or seconds of a JobSpec; None is off."""
    may_be_off = kind in (Kind.TIMEOUT, Kind.WAIT)
    if may_be_off and value is None:
        return None
    unit, types = ("bytes", (int,)) if kind is Kind.SIZE else ("seconds", (int, float))
    if isinstance(value, bool) or not isinstance(value, types) or not math.isfinite(value):
        raise ValueError(f"expected a number of {unit}, not {_kind(value)}.")
    if may_be_off and value < 0:
        raise ValueError("a duration cannot be negative.")
    if kind is Kind.TIMEOUT:
        return float(value) or None
    return value if kind is Kind.SIZE else float(value)


# --- words ------------------------------------------------------------------------------------------------------------


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"expected true or false, without quotes, not {_kind(value)}.")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, not {_kind(value)}. Text needs quotes.")
    if "\0" in value:
        raise ValueError("text cannot contain a NUL character.")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("this is not valid UTF-8 text.")
    return value


def _word(value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError(f'true and false are ambiguous as text: write it in quotes, such as "{int(value)}".')
    if isinstance(value, int | float):
        value = format_number(value)
    return _argument(_text(value))


def _argument(text: str) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    if size >= MAX_ARGUMENT:
        raise ValueError(
            f"{size} bytes are too long: Linux allows at most {MAX_ARGUMENT - 1} in one argument or variable."
        )
    return text


def format_number(number: int | float) -> str:
    """Return a number as text for an argument or variable.

    Raises:
        ValueError: it has too many digits.
    """
    if isinstance(number, int) and number.bit_length() > 256:
        raise ValueError("a number that long must be written as text.")
    return str(number)


def _choice(setting: Setting, value: Any) -> Enum:
    assert setting.choices is not None
    if isinstance(value, setting.choices):
        return value
    words = [str(member.value) for member in setting.choices]
    if isinstance(value, str) and value in words:
        return setting.choices(value)
    known = " or ".join([", ".join(map(quote, words[:-1])), quote(words[-1])])
    hint = suggest_names(value, words) if isinstance(value, str) else ""
    raise ValueError(f"it must be {known}{f'; {hint}' if hint else '.'}")


def _command(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        if not value.strip():
            raise ValueError('the command is empty. Write what to run: "python train.py".')
        return _argument(_text(value))
    if not isinstance(value, list | tuple):
        raise ValueError(
            f'a command is text, "python train.py", or a list, ["python", "train.py"], not {_kind(value)}.'
        )
    if not value or (isinstance(value[0], str) and not value[0].strip()):
        raise ValueError('the command is empty. Write what to run: ["python", "train.py"].')
    return tuple(_items(value, _word))


def _ports(value: Any) -> tuple[int, int]:
    wrong = 'write a port range as "20000-20100" or [20000, 20100]'
    if isinstance(value, str):
        first, dash, last = (part.strip() for part in value.partition("-"))
        if not dash or not all(p.isascii() and p.isdigit() and len(p) < 10 for p in (first, last)):
            raise ValueError(f"{wrong}.")
        value = [int(first), int(last)]
    if not isinstance(value, list | tuple) or [type(item) for item in value] != [int, int]:
        raise ValueError(f"{wrong}.")
    low, high = value
    if low < 1024 or high > 65535:
        raise ValueError("ports must be 1024 to 65535.")
    if low > high:
        raise ValueError(f'the first port is greater than the last. Write "{high}-{low}".')
    return low, high


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f'expected a table such as {{ key = "value" }}, not {_kind(value)}.')
    for name, each in value.items():
        _check_json(each, name)
    return value


def _check_json(value: Any, path: str) -> None:
    """Raise ValueError if a value is none of JSON, as dates of TOML are.

    Args:
        path: of the value in its table: `spec.containers[0].name`.
    """
    if isinstance(value, Mapping):
        for name, each in value.items():
            _check_json(each, f"{path}.{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            _check_json(each, f"{path}[{number}]")
    elif isinstance(value, str):
        try:
            _text(value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    elif not isinstance(value, int | float) or not math.isfinite(value):
        found = value if isinstance(value, float) else _kind(value)
        raise ValueError(f"{path}: expected text, a number, true, false, a list or a table, not {found}.")


# --- lists and paths --------------------------------------------------------------------------------------------------


def _items(values: Any, read: Callable[[Any], T]) -> list[T]:
    faults: list[ConversionProblem] = []
    items: list[T] = []
    partial: list[T | None] = []
    for number, value in enumerate(values):
        try:
            items.append(read(value))
            partial.append(items[-1])
        except ValueError as error:
            faults.append(ConversionProblem(str(error), number))
            partial.append(None)
    if faults:
        raise InvalidValueError(*faults, items=partial)
    return items


def _list(value: Any, example: str) -> Any:
    if isinstance(value, list | tuple):
        return value
    hint = f"[{quote(value)}]" if isinstance(value, str) and len(value) < 60 else example
    raise ValueError(f"expected a list: {hint}.")


def _names(value: Any) -> tuple[str, ...]:
    return tuple(_items(_list(value, '["chief", "worker"]'), _text))


def _codes(value: Any) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"expected a list: [{value}].")
    if isinstance(value, str):
        raise ValueError("expected a list of numbers such as [2, 127], not text.")
    return tuple(_items(_list(value, "[2, 127]"), _code))


def _code(value: Any) -> int:
    if not 1 <= _integer(value) <= 255:
        raise ValueError("exit codes of failures are 1 to 255.")
    return int(value)


def _files(value: Any, base: Path) -> tuple[str, ...]:
    values = _list(value, '["data.npz", "big.zip#archive"]')
    return tuple(_items(values, lambda item: path_settings.file_entry(_text(item), base)))


def _path(value: Any, base: Path) -> str:
    return path_settings.make_absolute(_text(value), base)


def _source(value: Any, base: Path) -> str:
    return path_settings.make_absolute_or_address(_text(value), base)


def _python(value: Any, base: Path) -> str:
    return path_settings.interpreter(_text(value), base)


def _secret(value: Any, base: Path) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("the text is empty. Leave the key out.")
    kind, _, place = text.partition(":")
    if kind == "file":
        return f"file:{path_settings.make_absolute(place, base)}"
    if kind == "env" and not (place.isascii() and place.replace("_", "a").isalnum()):
        raise ValueError("write the name of a variable after `env:`, such as env:HOOK.")
    return text


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float):
        return "a fraction"
    names = {
        str: "text",
        int: "a whole number",
        list: "a list",
        tuple: "a list",
        dict: "a table",
        type(None): "nothing",
    }
    return names.get(type(value), f"a {type(value).__name__}")


_PLAIN: dict[Kind, Callable[[Any], Any]] = {
    Kind.SIZE: _size,
    Kind.DURATION: _duration,
    Kind.TIMEOUT: _timeout,
    Kind.WAIT: _wait,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.TRUTH: _truth,
    Kind.TEXT: _text,
    Kind.WORD: _word,
    Kind.NAMES: _names,
    Kind.TAGS: lambda value: tuple(_items(_list(value, '["trainer", "a100"]'), _text)),
    Kind.COMMAND: _command,
    Kind.CODES: _codes,
    Kind.PORTS: _ports,
    Kind.TABLE: _table,
}
_WITH_BASE: dict[Kind, Callable[[Any, Path], Any]] = {
    Kind.FILES: _files,
    Kind.PATH: _path,
    Kind.SOURCE: _source,
    Kind.PYTHON: _python,
    Kind.SECRET: _secret,
}
_QUANTITIES = (Kind.SIZE, Kind.DURATION, Kind.TIMEOUT, Kind.WAIT)
#: Kinds that take the text of a flag or plain YAML scalar, even if it looks like a number: `--set name=123`.
_TEXTUAL = frozenset(
    (Kind.TEXT, Kind.PATH, Kind.SOURCE, Kind.PYTHON, Kind.COMMAND, Kind.FILES, Kind.NAMES, Kind.TAGS, Kind.SECRET)
)
