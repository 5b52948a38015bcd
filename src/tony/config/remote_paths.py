"""Addresses of what lies in a cluster's file system: `hdfs://namenode/path`, or `hdfs:///path` in the default one.

Only the words: whether it is there, and what it is, the cluster says when the job is submitted.
"""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE | re.ASCII)
#: As Hadoop's own commands take it as well.
_SHORT = re.compile(r"hdfs:/(?!/)", re.IGNORECASE | re.ASCII)

_FORMS = "Addresses are hdfs://namenode/path, or hdfs:///path in the default file system."
_ADVICE = {
    "file": "a path of this machine stands alone: leave `file://` off.",
    "webhdfs": "write hdfs:// and the NameNode's name; the way over HTTP is found from Hadoop's configuration.",
    "swebhdfs": "write hdfs:// and the NameNode's name; the way over HTTPS is found from Hadoop's configuration.",
    "viewfs": "tables of mounts are not read. Write the hdfs:// address that it leads to.",
}


def is_address(text: str) -> bool:
    """Whether it is no path of this machine, but an address of any kind."""
    return bool(_SCHEME.match(text) or _SHORT.match(text))


def checked(text: str) -> str:
    """An address of HDFS, in the one form that the rest of us reads: no doubled slashes, none at its end.

    Raises:
        ValueError: it is none, with what to write instead.
    """
    text = _SHORT.sub("hdfs:///", text)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    if not match or scheme != "hdfs":
        other = f"{scheme}:// cannot be read. {_FORMS} Copy it there, or let the program read it where it is."
        raise ValueError(_ADVICE.get(scheme, other))
    name, _, path = text[match.end() :].partition("/")
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise ValueError("it names a whole file system. Name a file or a folder in it.")
    if any(part in (".", "..") for part in parts) or "\0" in path:
        raise ValueError("paths in HDFS have no `.` and no `..`. Write the whole path.")
    return f"hdfs://{name}/{'/'.join(parts)}"


def parts(address: str) -> tuple[str, str]:
    """A checked address as its file system, empty for the default one, and the path there."""
    name, slash, path = address.removeprefix("hdfs://").partition("/")
    return (f"hdfs://{name}" if name else ""), slash + path
