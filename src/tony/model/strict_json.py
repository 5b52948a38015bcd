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
        careful = len(text) < _SHORT or _may_be_refused(data)
        plain = (_CAREFUL if careful else _DECODER).decode(text)
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


def _may_be_refused(data: bytes | str) -> bool:
    """Return True if a long text may contain a number that `_parse_finite` or `_parse_whole` refuse.

    Calling them for each number takes half as long as all the rest. The numbers that they refuse have many digits, or
    many in the exponent, which is fast to search for. Digits in names and digests match, too: that only costs time.
    """
    digits = (data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).translate(_DIGITS, b"+")
    return _LONG in digits or _HIGH in digits


#: Characters of a text in which each number is checked: for a short one that is faster.
_SHORT = 2000
#: Every digit becomes 0, E becomes e, and everything else a point; `+`, which may be in an exponent, is removed.
_DIGITS = bytes(ord("0") if chr(n) in "0123456789" else ord("e") if chr(n) in "eE" else ord(".") for n in range(256))
#: As many digits as 2**63 has, and the exponent that exceeds a double with fewer.
_LONG = b"0" * 19
_HIGH = b"e000"
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_CAREFUL = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite, parse_int=_parse_whole)
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False)
