"""JSON that others wrote, read strictly: whatever it is, the answer is a plain value or one kind of error.

Python's own reader takes NaN, whole numbers of any length and half characters, none of which can be counted with,
shown or written again, and fails in three different ways. All that comes over the wire or from a job's record is read
here.
"""

from __future__ import annotations

import json
import math

from tony.model.codec import Json


class BadJson(ValueError):  # noqa: N818 - a noun reads better where it is raised
    """Text that is not JSON, or not as we take it; says why in one line."""


class NestedTooDeeply(BadJson):
    """Lists in lists, or tables in tables, without end."""


def loads(data: bytes | str) -> Json:
    """The value that a text stands for.

    Args:
        data: JSON; bytes are UTF-8. Of a key that stands twice in a table the last one counts.

    Raises:
        BadJson: it is none; or it holds NaN or the like, a number beyond 64 bits or what a double holds, half a
            character, or hundreds of lists in one another.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        plain = _DECODER.decode(text)
        # An escape can smuggle in half a character, which nothing could print or write to a file.
        if "\\u" in text:
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


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False)
