"""JSON that others wrote, read strictly: whatever it is, the answer is a plain value or one kind of error.

Python's own reader takes NaN and whole numbers of any length, which cannot be counted with or written again, and fails
in three different ways. All that comes over the wire or from a job's record is read here.
"""

from __future__ import annotations

import json
import math

from tony.model.codec import Json


class BadJson(ValueError):  # noqa: N818 - a noun reads better where it is raised
    """Text that is not JSON, or not as we take it; says why in one line."""


class NestedTooDeeply(BadJson):
    """Lists in lists, or tables in tables, without end."""


def loads(data: bytes | str, *, halves: bool = False) -> Json:
    """The value that a text stands for.

    Args:
        data: JSON; bytes are UTF-8. Of a key that stands twice in a table the last one counts.
        halves: take half characters, which names of files that are no text are made of. They can be printed by those
            who know of them only.

    Raises:
        BadJson: it is none; or it holds NaN or the like, a number beyond 64 bits or what a double holds, half a
            character where they are not taken, or hundreds of lists in one another.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        careful = len(text) < _SHORT or _may_be_refused(data)
        plain = (_CAREFUL if careful else _DECODER).decode(text)
        # Only an escape can smuggle in half a character.
        if not halves and "\\u" in text:
            _ENCODER.encode(plain).encode()
    except RecursionError:
        raise NestedTooDeeply("nested too deeply") from None
    except ValueError as error:
        raise BadJson("not UTF-8" if isinstance(error, UnicodeError) else str(error)) from None
    return plain


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond what a double holds")
    return number


def _whole(text: str) -> int:
    # 64 bits: what every reader of our records (SQLite, other languages) can hold.
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**64:
        raise ValueError("a whole number beyond 64 bits")
    return number


def _may_be_refused(data: bytes | str) -> bool:
    """Whether a long text may hold a number that `_finite` or `_whole` refuse.

    To ask them about each number takes half as long as all the rest. What they refuse has many digits, or many of them
    in its exponent; to look for these takes little. Those of names and digests count, too: they cost time, no more.
    """
    digits = (data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).translate(_DIGITS, b"+")
    return _LONG in digits or _HIGH in digits


#: Letters of a text in which each number is looked at: for a message that is quicker.
_SHORT = 2000
#: Every digit becomes 0, E becomes e, and all else a point; `+` is left out, as it may be in an exponent.
_DIGITS = bytes(ord("0") if chr(n) in "0123456789" else ord("e") if chr(n) in "eE" else ord(".") for n in range(256))
#: As many digits as 2**63 has, and the exponent that it takes to go beyond a double with fewer.
_LONG, _HIGH = b"0" * 19, b"e000"
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_CAREFUL = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False)
