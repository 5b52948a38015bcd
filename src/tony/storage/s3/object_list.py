"""Lists of objects in a bucket: the query and the answer of `ListObjectsV2` of the Amazon S3 API. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, unquote, urlencode
from xml.etree import ElementTree

#: Objects of one answer, and bytes of it: a key has 1,024 bytes, each of which may be quoted.
MAX_PAGE_OBJECTS = 1000
MAX_LIST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedObject:
    """An object in a list.

    Attributes:
        size: bytes.
        modified: when it was written, seconds since 1970.
    """

    key: str
    size: int
    modified: float


def build_list_query(prefix: str, token: str, most: int) -> str:
    """Return the query of a request, in the form in which it is signed.

    Args:
        token: of the answer before; empty for the first request.
    """
    fields = {"encoding-type": "url", "list-type": "2", "max-keys": str(min(most, MAX_PAGE_OBJECTS)), "prefix": prefix}
    if token:
        fields["continuation-token"] = token
    return urlencode(sorted(fields.items()), safe="", quote_via=quote)


def parse_list(body: bytes) -> tuple[Sequence[ListedObject], str]:
    """Return the objects of an answer, and the token for the next one; empty if it is the last.

    Raises:
        ValueError: it is not such an answer.
    """
    if b"<!" in body:  # entities could make it very large
        raise ValueError("it has a document type")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    if not root.tag.endswith("ListBucketResult"):
        raise ValueError("it is another document")
    space = root.tag.removesuffix("ListBucketResult")
    found = []
    for each in root.findall(f"{space}Contents"):
        fields = {name: each.findtext(f"{space}{name}") or "" for name in ("Key", "Size", "LastModified")}
        modified, size = datetime.fromisoformat(fields["LastModified"]).timestamp(), int(fields["Size"])
        if size < 0:
            raise ValueError("a size is negative")
        found.append(ListedObject(key=unquote(fields["Key"]), size=size, modified=modified))
    return found, root.findtext(f"{space}NextContinuationToken") or ""
