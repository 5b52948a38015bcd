"""JSON of any length is read by the same rules: what of a long text is not looked at closely cannot break them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.value_strategies import PLAIN
from tony.model import strict_json
from tony.model.codec import Json
from tony.model.strict_json import InvalidJsonError, JsonDepthError, loads

#: Makes of a short text a long one that says the same.
PADDING = " " * strict_json._SHORT

#: Numbers as users may write them: long ones and short ones, and nearly numbers.
WRITTEN = st.from_regex(r"-?[0-9]{1,22}(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,4})?", fullmatch=True) | st.from_regex(
    r"-?[0-9]{17,21}", fullmatch=True
)


def outcome(text: str | bytes) -> tuple[str, str]:
    """The value, or what is wrong with the text."""
    try:
        value = loads(text)
    except InvalidJsonError as error:
        return "", str(error)
    return json.dumps(value), ""


@pytest.mark.parametrize("padding", ["", PADDING], ids=["short", "long"])
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
def test_numbers_are_read(padding: str, number: str, value: float) -> None:
    """Up to the bounds of what every reader of a record can hold."""
    (found,) = loads(f"[{padding}{number}]")
    assert (type(found), found, math.copysign(1, found)) == (type(value), value, math.copysign(1, value))


@pytest.mark.parametrize("as_bytes", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize("padding", ["", PADDING], ids=["short", "long"])
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
def test_numbers_beyond_are_refused(as_bytes: bool, padding: str, number: str, why: str) -> None:
    """Wherever they are, also in an unknown field."""
    text = f'{{"known":1,"é":[{padding}{number}]}}'
    with pytest.raises(InvalidJsonError) as caught:
        loads(text.encode() if as_bytes else text)
    assert str(caught.value) == why


@given(WRITTEN, st.booleans())
@example("9223372036854775808", False)
@example("-9223372036854775809", True)
def test_a_number_means_the_same_in_a_long_text(number: str, as_bytes: bool) -> None:
    short, long = f"[{number}]", f"[{number}]{PADDING}"
    assert outcome(short) == outcome(long.encode() if as_bytes else long)


@given(PLAIN)
def test_a_long_text_is_read_as_it_was_written(plain: Json) -> None:
    assert loads(json.dumps(plain).encode() + PADDING.encode()) == plain


@pytest.mark.parametrize("padding", ["", PADDING], ids=["short", "long"])
def test_invalid_text_is_refused(padding: str) -> None:
    with pytest.raises(InvalidJsonError, match=r"^not UTF-8$"):
        loads(b'["\xff"]' + padding.encode())
    with pytest.raises(InvalidJsonError, match=r"^not UTF-8$"):
        loads('["\\ud800"]' + padding)
    assert loads('["\ud800"]' + padding, halves=True) == ["\ud800"]
    with pytest.raises(JsonDepthError):
        loads("[" * 100_000 + padding)
