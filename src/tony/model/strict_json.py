"""A strict reader for untrusted JSON: returns a plain value or raises one kind of error.

Python's own reader accepts NaN and whole numbers of any length, which cannot be calculated with or written again, and
fails in three different ways. Everything from the wire or from a job directory is read here.
"""

from __future__ import annotations

import json
import math

from tony.model.codec import Json


class InvalidJsonError(ValueError):
    """Text that is not acceptable JSON; the message says why in one line."""


class JsonDepthError(InvalidJsonError):
    """Lists or tables that are nested too deeply."""


def loads(data: bytes | str, *, halves: bool = False) -> Json:
    """Parse a text.

    Args:
        data: JSON; bytes are UTF-8. If a table has a key twice, the last one counts.
        halves: accept lone surrogates, which occur in file names that are not valid text. Callers must handle them when
            printing.

    Raises:
        InvalidJsonError: invalid JSON; NaN or the like; a number beyond 64 bits or a double's range; lone surrogates
            where they are not accepted; or hundreds of nested lists.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        plain = _DECODER.decode(text)
        # Only an escape can contain a lone surrogate.
        if not halves and "\\u" in text:
            _ENCODER.encode(plain).encode()
    except RecursionError:
        raise JsonDepthError("nested too deeply") from None
    except ValueError as error:
        raise InvalidJsonError("not UTF-8" if isinstance(error, UnicodeError) else str(error)) from None
    return plain


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond what a double holds")
    return number


def _parse_whole(text: str) -> int:
    # 64 bits: what every reader of the files (SQLite, other languages) can hold.
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**64:
        raise ValueError("a whole number beyond 64 bits")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite, parse_int=_parse_whole)
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False)
