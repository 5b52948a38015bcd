"""How far an archive may expand. A few KB can be made to fill every disk, or to ask for all memory, or to take weeks.

What is measured is the archive's own size: no sound one of the usual kinds comes near these bounds, and one that does
(a gigabyte of zeros in a few KB) has to be packed otherwise.
"""

from __future__ import annotations

from typing import Protocol

from tony.errors import ArchiveError
from tony.units import format_size

#: Bytes that any archive may take unpacked, and how many times its own size a larger one: deflate packs at most 1,032
#: bytes into one.
_LEAST, _RATIO = 1 << 30, 1100
#: Members that any archive may have, and bytes that each further one takes packed, at the very least.
_FEW, _SMALLEST = 100_000, 10
#: Bytes of everything that stands before one member's content: long names, attributes, a map of holes.
_HEADER = 1 << 20
#: Fields that a tar may set for all of its members at once; there are some twenty.
_GLOBALS = 1000


class ExpansionLimit:
    """What is left to an archive.

    Args:
        archive: its name, for messages.
        size: its bytes.
    """

    def __init__(self, archive: str, size: int) -> None:
        self.most = max(_LEAST, _RATIO * size)
        self._archive = archive
        self._members = max(_FEW, size // _SMALLEST)
        self._left = self.most

    def take(self, size: int) -> None:
        """One more member, of so many bytes.

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
        """The error for an archive that holds `what`."""
        return ArchiveError(
            f"the archive {self._archive} is damaged, or made to do harm: it would unpack to {what}. Make it again; "
            "what is really that large and empty may be packed as a plain tar."
        )


class ReadableStream(Protocol):
    """What a tar is read from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer at the end only."""

    def seek(self, offset: int, /) -> int:
        """Goes to a place, counted from the beginning."""

    def tell(self) -> int:
        """The place where the next byte comes from."""


class Watched:
    """A tar's bytes: the reader of the standard library trusts whatever sizes stand in them.

    Args:
        file: already expanded.
    """

    def __init__(self, file: ReadableStream, room: ExpansionLimit) -> None:
        self._file = file
        self._room = room
        self._left = 0
        self.header()

    def header(self) -> None:
        """What is read from here on belongs to another member's header."""
        self._left = _HEADER

    def content(self) -> None:
        """What is read from here on is content, piece by piece, and counted elsewhere."""
        self._left = self._room.most

    def tell(self) -> int:
        """As of a file."""
        return self._file.tell()

    def seek(self, offset: int, /) -> int:
        """As of a file, but not to where no archive of this size reaches."""
        if not 0 <= offset <= self._room.most:
            raise self._room.refused(f"more than {format_size(self._room.most)}")
        return self._file.seek(offset)

    def read(self, size: int, /) -> bytes:
        """As of a file, but not more than a header or a piece of content has."""
        self._left -= size
        if self._left < 0 or size < 0:
            raise self._room.refused(f"a member with a header of more than {format_size(_HEADER)}")
        if self._file.tell() > self._room.most:
            raise self._room.refused(f"more than {format_size(self._room.most)}")
        return self._file.read(size)


def check_globals(fields: int, room: ExpansionLimit) -> None:
    """Refuses a tar that sets too many fields for all of its members: each member's header is a copy of them.

    Raises:
        ArchiveError: it does.
    """
    if fields > _GLOBALS:
        raise room.refused(f"{fields} fields for each member")
