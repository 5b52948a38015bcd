"""Addresses of places in S3, as a user may write them."""

from __future__ import annotations

import re

#: "Bucket naming rules" of the Amazon S3 User Guide; of the prefix what needs no quotes.
_FORM = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(?:/[A-Za-z0-9!_.*'()-]+)*)/?")
#: What they may have, for messages.
S3_CHARACTERS = "letters, digits and !_.*'()-"


def split_s3_address(text: str) -> tuple[str, str]:
    """Split `s3://BUCKET/PREFIX` into both; the prefix may be empty.

    Raises:
        ValueError: it is no such address.
    """
    match = _FORM.fullmatch(text)
    if match is None or {".", ".."} & {*match["prefix"].split("/")}:
        raise ValueError(f"{text} is not s3://BUCKET/PREFIX, of {S3_CHARACTERS}")
    return match["bucket"], match["prefix"].strip("/")
