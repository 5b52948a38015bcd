"""Addresses of places in S3, as a user may write them."""

from __future__ import annotations

import re

#: "Bucket naming rules" of the Amazon S3 User Guide; of the prefix what needs no quotes.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()-]+(?:/[A-Za-z0-9!_.*'()-]+)*")
_SCHEME = "s3://"


def split_s3_address(text: str) -> tuple[str, str]:
    """Split `s3://BUCKET/PREFIX` into both; the prefix may be empty.

    Raises:
        ValueError: it is no such address; the text is the rule that it breaks.
    """
    bucket, _, rest = text.removeprefix(_SCHEME).partition("/")
    prefix = rest.removesuffix("/")
    if not text.startswith(_SCHEME) or not bucket:
        raise ValueError(f"it names no bucket after {_SCHEME}")
    if not _BUCKET.fullmatch(bucket):
        rule = "3 to 63 lowercase letters, digits, dots and hyphens, with a letter or digit at both ends"
        raise ValueError(f"the name of a bucket has {rule}")
    if rest and (not _PREFIX.fullmatch(prefix) or {".", ".."} & {*prefix.split("/")}):
        raise ValueError("what follows the bucket has letters, digits and !_.*'()-, and no part is empty, . or ..")
    return bucket, prefix
