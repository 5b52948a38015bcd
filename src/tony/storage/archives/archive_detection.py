"""Detects archive formats by content; file names are not trusted."""

from __future__ import annotations

import gzip
import zlib
from enum import Enum
from pathlib import Path
from typing import IO, cast

#: A tar's records have 512 bytes; its magic word is at byte 257 of the first.
_TAR_RECORD = 512
_TAR_MAGIC = slice(257, 262)

_UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!": "rar",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress (.Z)",
}


class Format(Enum):
    """A supported archive format; the value is its file-name ending."""

    TAR = ".tar"
    TAR_GZ = ".tar.gz"
    TAR_BZ2 = ".tar.bz2"
    TAR_XZ = ".tar.xz"
    ZIP = ".zip"


_COMPRESSED = {b"\x1f\x8b": Format.TAR_GZ, b"BZh": Format.TAR_BZ2, b"\xfd7zXZ\x00": Format.TAR_XZ}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # with members, and empty

#: The supported formats, for messages.
KNOWN = "tar, tar.gz, tar.bz2, tar.xz or zip"


def open_expanded(file: IO[bytes], kind: Format) -> IO[bytes]:
    """Return the decompressed tar of a file; errors are those of the decompressor."""
    if kind is Format.TAR_GZ:
        return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))
    if kind is Format.TAR_BZ2:
        import bz2  # late: most jobs have no archive

        return bz2.BZ2File(file)
    if kind is Format.TAR_XZ:
        import lzma  # late: most jobs have no archive

        return lzma.LZMAFile(file)
    return file


def detect(path: Path) -> Format | None:
    """Return the archive format of a file, or None.

    A compressed file counts only if it contains a tar: `data.csv.gz` is no archive.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_TAR_RECORD)
    if head.startswith(_ZIP):
        return Format.ZIP
    for magic, kind in _COMPRESSED.items():
        if head.startswith(magic):
            return kind if _holds_tar(path, kind) else None
    return Format.TAR if _begins_tar(head) else None


def find_unsupported(path: Path) -> str | None:
    """Return the name of a known archive format that is not supported; None for anything else.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in _UNSUPPORTED.items() if head.startswith(magic)), None)


def _holds_tar(path: Path, kind: Format) -> bool:
    import lzma  # late: most jobs have no archive

    try:
        with path.open("rb") as file:
            return _begins_tar(open_expanded(file, kind).read(_TAR_RECORD))
    except EOFError:
        return True  # truncated: the error "damaged" is more helpful than "no archive"
    except (OSError, zlib.error, lzma.LZMAError):
        return False


def _begins_tar(head: bytes) -> bool:
    if head[_TAR_MAGIC] == b"ustar" or head == bytes(_TAR_RECORD):  # the latter is an empty tar
        return True
    import tarfile  # late: it loads every compression module

    try:  # a tar from before 1988 has no magic word, but a checksum
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True
