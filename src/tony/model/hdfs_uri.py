"""URIs of files in HDFS, as a user may write them."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE | re.ASCII)
#: Hadoop's own commands accept this form, too.
_SHORT = re.compile(r"hdfs:/(?!/)", re.IGNORECASE | re.ASCII)
_FORMS = "Addresses are hdfs://namenode/path, or hdfs:///path in the default file system."
_REMEDIES = {
    "file": "write a local path without `file://`.",
    "webhdfs": "write hdfs:// and the name of the NameNode; the HTTP address comes from Hadoop's configuration.",
    "swebhdfs": "write hdfs:// and the name of the NameNode; the HTTPS address comes from Hadoop's configuration.",
    "viewfs": "mount tables are not supported. Write the hdfs:// address that it resolves to.",
}


def is_address(text: str) -> bool:
    """Return True if the text is an address of any kind, not a local path."""
    return bool(_SCHEME.match(text) or _SHORT.match(text))


def normalize_hdfs_uri(text: str) -> str:
    """Return an HDFS address in canonical form: without double or trailing slashes.

    Raises:
        ValueError: it is not an HDFS address; says what to write instead.
    """
    text = _SHORT.sub("hdfs:///", text)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    if not match or scheme != "hdfs":
        other = f"{scheme}:// is not supported. {_FORMS} Copy the file to HDFS, or let the program read it."
        raise ValueError(_REMEDIES.get(scheme, other))
    name, _, path = text[match.end() :].partition("/")
    parts = [part for part in path.split("/") if part]
    if not parts:
        raise ValueError("this is a whole file system. Name a file or a folder in it.")
    if any(part in (".", "..") for part in parts) or "\0" in path:
        raise ValueError("paths in HDFS must not contain `.` or `..`. Write the full path.")
    return f"hdfs://{name}/{'/'.join(parts)}"


def split_address(address: str) -> tuple[str, str]:
    """Split a canonical address into the file system, empty for the default one, and the path."""
    name, slash, path = address.removeprefix("hdfs://").partition("/")
    return (f"hdfs://{name}" if name else ""), slash + path
