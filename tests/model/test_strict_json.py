"""JSON from others is a plain value or one kind of error."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from tests.value_strategies import PLAIN
from tony.model.codec import Json
from tony.model.strict_json import InvalidJsonError, JsonDepthError, loads


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("-0.0", -0.0),
        (str(2**64 - 1), 2**64 - 1),
        (str(-(2**63)), -(2**63)),
        ("999999999999999999", 10**18 - 1),
        ("1e99", 1e99),
        ("999999999999999999e99", 1e117),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("1E+0000000001", 10.0),
        ("1e-999", 0.0),
        ("0." + "1" * 400, 1 / 9),
    ],
)
def test_numbers_are_read(number: str, value: float) -> None:
    """Up to the bounds of what every reader of a record can hold."""
    (found,) = loads(f"[{number}]")
    assert (type(found), found, math.copysign(1, found)) == (type(value), value, math.copysign(1, value))


@pytest.mark.parametrize("as_bytes", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize(
    ("number", "why"),
    [
        (str(2**64), "a whole number beyond 64 bits"),
        (str(-(2**63) - 1), "a whole number beyond 64 bits"),
        ("1" * 5000, "a whole number beyond 64 bits"),
        ("1e309", "a number beyond what a double holds"),
        ("1E+309", "a number beyond what a double holds"),
        ("-1e00999", "a number beyond what a double holds"),
        ("1" * 310 + ".0", "a number beyond what a double holds"),
        ("999999999999999999e291", "a number beyond what a double holds"),
        ("NaN", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
    ],
)
def test_numbers_beyond_are_refused(as_bytes: bool, number: str, why: str) -> None:
    """Wherever they are, also in an unknown field."""
    text = f'{{"known":1,"é":[{number}]}}'
    with pytest.raises(InvalidJsonError) as caught:
        loads(text.encode() if as_bytes else text)
    assert str(caught.value) == why


@given(PLAIN)
def test_text_is_read_as_it_was_written(plain: Json) -> None:
    assert loads(json.dumps(plain).encode()) == plain


def test_invalid_text_is_refused() -> None:
    with pytest.raises(InvalidJsonError, match=r"^not UTF-8$"):
        loads(b'["\xff"]')
    with pytest.raises(InvalidJsonError, match=r"^not UTF-8$"):
        loads('["\\ud800"]')
    assert loads('["\ud800"]', halves=True) == ["\ud800"]
    with pytest.raises(JsonDepthError):
        loads("[" * 100_000)
