"""Lists of objects: what a server answers is checked."""

from __future__ import annotations

import pytest

from tony.storage.s3.object_list import ListedObject, build_list_query, parse_list

ANSWER = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><IsTruncated>true</IsTruncated>
<NextContinuationToken>a+/=</NextContinuationToken>
<Contents><Key>a%20b</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><Size>7</Size></Contents>
</ListBucketResult>"""


def test_an_answer() -> None:
    expected = ListedObject(key="a b", size=7, modified=1767323045.678)
    assert parse_list(ANSWER) == ([expected], "a+/=")
    assert parse_list(ANSWER.replace(b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', b""))[0] == [expected]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"<html>", "no element found|mismatched"),
        (b"<html></html>", "another document"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + ANSWER[39:], "document type"),
        (ANSWER.replace(b"<Size>7</Size>", b""), "invalid literal"),
        (ANSWER.replace(b"2026-", b""), "Invalid isoformat"),
        (ANSWER.replace(b"<Size>7", b"<Size>-7"), "size"),
        (ANSWER[:-30], "no element found|unclosed"),
        (b"", "no element"),
    ],
)
def test_other_answers(answer: bytes, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse_list(answer)


def test_a_query_is_in_the_order_in_which_it_is_signed() -> None:
    assert build_list_query("a/b c", "t+/=", 5000) == (
        "continuation-token=t%2B%2F%3D&encoding-type=url&list-type=2&max-keys=1000&prefix=a%2Fb%20c"
    )
