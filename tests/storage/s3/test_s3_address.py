"""Addresses in S3 that are wrong are refused by the rule that they break."""

from __future__ import annotations

import pytest

from tony.storage.s3.s3_address import split_s3_address

BUCKET = (
    "the name of a bucket has 3 to 63 lowercase letters, digits, dots and hyphens, with a letter or digit at both ends"
)
PREFIX = "what follows the bucket has letters, digits and !_.*'()-, and no part is empty, . or .."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://abc", ("abc", "")),
        ("s3://abc/", ("abc", "")),
        (f"s3://{'a' * 63}/b/C.d_e/", ("a" * 63, "b/C.d_e")),
    ],
)
def test_an_address_is_split(text: str, expected: tuple[str, str]) -> None:
    assert split_s3_address(text) == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("s3:abc", "it names no bucket after s3://"),
        ("s3:///abc", "it names no bucket after s3://"),
        ("s3://b", BUCKET),
        (f"s3://{'a' * 64}", BUCKET),
        ("s3://Abc", BUCKET),
        ("s3://abc-", BUCKET),
        ("s3://abc//", PREFIX),
        ("s3://abc/a//b", PREFIX),
        ("s3://abc/../b", PREFIX),
        ("s3://abc/a b", PREFIX),
    ],
)
def test_a_wrong_address_is_refused_by_its_rule(text: str, rule: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        split_s3_address(text)
    assert str(refused.value) == rule
