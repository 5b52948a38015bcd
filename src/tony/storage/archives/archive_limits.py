"""Limits the expansion of archives. A few KB can be crafted to fill every disk or all memory, or to take weeks.

The limits depend on the archive's own size: no normal archive of the usual kinds comes near them, and one that does (a
gigabyte of zeros in a few KB) has to be packed otherwise.
"""

from __future__ import annotations

from typing import Protocol

from tony.errors import ArchiveError
from tony.units import format_size

#: Bytes that any archive may unpack to.
_MIN_ALLOWED_BYTES = 1 << 30
#: Limit for larger archives: unpacked bytes per packed byte. Deflate packs at most 1,032 bytes into one.
_MAX_RATIO = 1100
#: Members that any archive may have.
_MIN_ALLOWED_MEMBERS = 100_000
#: Limit for larger archives: packed bytes per member, at the very least.
_MIN_MEMBER_BYTES = 10
#: Bytes of everything before one member's content: long names, attributes, a map of holes.
_MAX_HEADER_BYTES = 1 << 20
#: Fields that a tar may set for all of its members at once; there are some twenty.
_MAX_GLOBAL_FIELDS = 1000


class ExpansionLimit:
    """The remaining allowance of an archive.

    Args:
        archive: its name, for messages.
        size: its bytes.
    """

    def __init__(self, archive: str, size: int) -> None:
        self.most = max(_MIN_ALLOWED_BYTES, _MAX_RATIO * size)
        self._archive = archive
        self._members = max(_MIN_ALLOWED_MEMBERS, size // _MIN_MEMBER_BYTES)
        self._left = self.most

    def take(self, size: int) -> None:
        """Count one more member of `size` bytes.

        Raises:
            ArchiveError: that is too much.
        """
        self._members -= 1
        self._left -= size
        if self._left < 0 or size < 0:
            raise self.refused(f"more than {format_size(self.most)}")
        if self._members < 0:
            raise self.refused("far too many members for its size")

    def refused(self, what: str) -> ArchiveError:
        """Return the error for an archive that contains `what`."""
        return ArchiveError(
            f"the archive {self._archive} is damaged or malicious: it would unpack to {what}. Create it again; "
            "pack content that is really that large and repetitive as a plain tar."
        )


class ReadableStream(Protocol):
    """The source of a tar."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes; fewer at the end only."""

    def seek(self, offset: int, /) -> int:
        """Go to an offset from the beginning."""

    def tell(self) -> int:
        """Return the offset of the next byte."""


class BoundedStream:
    """Bounds the reads of a tar: the standard library's reader trusts whatever sizes the tar declares.

    Args:
        file: already decompressed.
    """

    def __init__(self, file: ReadableStream, room: ExpansionLimit) -> None:
        self._file = file
        self._room = room
        self._left = 0
        self.header()

    def header(self) -> None:
        """Start to count the bytes of another member's header."""
        self._left = _MAX_HEADER_BYTES

    def content(self) -> None:
        """Note that content follows, which is counted elsewhere."""
        self._left = self._room.most

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, /) -> int:
        """Seek, but refuse an offset that no archive of this size reaches."""
        if not 0 <= offset <= self._room.most:
            raise self._room.refused(f"more than {format_size(self._room.most)}")
        return self._file.seek(offset)

    def read(self, size: int, /) -> bytes:
        """Read, but refuse more than a header or a piece of content has."""
        self._left -= size
        if self._left < 0 or size < 0:
            raise self._room.refused(f"a member with a header of more than {format_size(_MAX_HEADER_BYTES)}")
        if self._file.tell() > self._room.most:
            raise self._room.refused(f"more than {format_size(self._room.most)}")
        return self._file.read(size)


def check_globals(fields: int, room: ExpansionLimit) -> None:
    """Refuse a tar that sets too many fields for all of its members: each member's header is a copy of them.

    Raises:
        ArchiveError: it does.
    """
    if fields > _MAX_GLOBAL_FIELDS:
        raise room.refused(f"{fields} fields for each member")
