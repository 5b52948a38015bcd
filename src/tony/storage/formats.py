"""Which kind of archive a file is, told by its content; its name is not trusted."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from enum import Enum
from pathlib import Path

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
            return kind if _holds_tar(path) else None
    if head[_TAR_MAGIC] == b"ustar":
        return Format.TAR
    # A tar without the magic word is of the time before 1988, or has no members at all.
    return Format.TAR if len(head) == _TAR_RECORD and _holds_tar(path) else None


def unsupported(path: Path) -> str | None:
    """The name of an archive format that we know but cannot unpack; None for anything else.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in _UNSUPPORTED.items() if head.startswith(magic)), None)


def _holds_tar(path: Path) -> bool:
    try:
        with tarfile.open(path) as tar:
            tar.next()
    except EOFError:
        return True  # cut off in the middle: an archive, and a damaged one
    except (tarfile.TarError, zlib.error, lzma.LZMAError, ValueError):
        return False
    return True
