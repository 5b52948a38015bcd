"""Which kind of archive a file is, told by its content; its name is not trusted.

Compressors are loaded when one is met: most jobs are submitted without an archive.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from tony.storage.archive_limits import ReadableStream

#: A tar's records are 512 bytes; its magic word stands at byte 257 of the first.
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
    """An archive that can be unpacked; the value is the file-name ending that stands for it."""

    TAR = ".tar"
    TAR_GZ = ".tar.gz"
    TAR_BZ2 = ".tar.bz2"
    TAR_XZ = ".tar.xz"
    ZIP = ".zip"


_COMPRESSED = {b"\x1f\x8b": Format.TAR_GZ, b"BZh": Format.TAR_BZ2, b"\xfd7zXZ\x00": Format.TAR_XZ}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # with members, and empty

#: What to say of a file that is none of them.
KNOWN = "tar, tar.gz, tar.bz2, tar.xz or zip"


def expanded(file: IO[bytes], kind: Format) -> ReadableStream:
    """The tar inside a file, its compression taken off; errors are those of the compression's own reader."""
    if kind is Format.TAR_GZ:
        import gzip

        return gzip.GzipFile(fileobj=file, mode="rb")
    if kind is Format.TAR_BZ2:
        import bz2

        return bz2.BZ2File(file)
    if kind is Format.TAR_XZ:
        from tony.storage.xz_reader import XzFile

        return XzFile(file)
    return file


def detect(path: Path) -> Format | None:
    """The kind of archive that a file is, or None.

    A compressed file counts only if there is a tar inside: `data.csv.gz` is no archive.

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


def unsupported(path: Path) -> str | None:
    """The name of an archive format that we know but cannot unpack; None for anything else.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in _UNSUPPORTED.items() if head.startswith(magic)), None)


def _holds_tar(path: Path, kind: Format) -> bool:
    import lzma
    import zlib

    try:
        with path.open("rb") as file:
            return _begins_tar(expanded(file, kind).read(_TAR_RECORD))
    except EOFError:
        return True  # cut off at once: whatever it was, saying "damaged" is more use than saying "no archive"
    except (OSError, zlib.error, lzma.LZMAError):
        return False


def _begins_tar(head: bytes) -> bool:
    if head[_TAR_MAGIC] == b"ustar" or head == bytes(_TAR_RECORD):  # the latter has no members
        return True
    import tarfile

    try:  # without the magic word it is of the time before 1988; its checksum tells
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True
