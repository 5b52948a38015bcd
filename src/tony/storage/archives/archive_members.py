"""Reads archives member by member, and refuses everything that would leave the folder it is unpacked in.

Names are cleaned and checked before anything is written, links are checked when all of them are known, and unpackers
create links last, so that no member is ever written through a link. Content is streamed; memory holds one chunk and the
list of names. One limit bounds the size of the content: an archive comes from the user whose program runs next, so it
is protected against accidents only.
"""

from __future__ import annotations

import lzma
import os
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tony.errors import ArchiveError
from tony.storage.archives.archive_detection import Format, open_expanded
from tony.storage.manifest import ManifestEntryKind, resolve_link
from tony.units import format_size

_CHUNK = 1024 * 1024
#: Compression methods inside a zip that Python decompresses in one piece, of any size.
_UNBOUNDED = {zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "LZMA"}
#: Bytes that any archive may unpack to; a larger one to this many times its own size, the most that deflate packs.
_MIN_ALLOWED_BYTES = 1 << 30
_MAX_RATIO = 1100
_TAR_RECORD = 512
_MAX_TARGET_BYTES = 4095  # PATH_MAX without its closing zero
#: Bytes of a path inside the folder: the folder's own path comes before it, and Linux allows 4,095 in all.
_MAX_PATH_BYTES = 3000
_MAX_DEPTH = 200
#: Bytes of one part of a path (Linux's NAME_MAX).
_MAX_NAME_BYTES = 255
#: Characters of a name or a foreign error that a message shows.
_MAX_SHOWN_CHARACTERS = 200
#: Exceptions of the standard library's readers for content that violates the format.
_FORMAT_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    struct.error,
    LookupError,  # a zip's member without a name
    ValueError,  # invalid numbers and texts in headers
    OverflowError,
    NotImplementedError,  # a compression method of zip that Python does not know
    RuntimeError,  # an encrypted zip; endlessly nested headers
    MemoryError,  # a decompressor with an excessive memory request
)
#: Remedies: for an unsafe archive, and for one whose links lead out of it.
_CREATE_HINT = "Create it again from inside its folder, for instance with `tar -C FOLDER -czf X.tar.gz .`"
_FOLLOW_LINKS = "Create it again with the targets of its links: `zip -r` without `-y`, `tar -h`."
#: Seconds since 1970 that every file system and time function can hold: up to the year 2242.
_MAX_TIME = 2**33


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of an archive, unchecked.

    Attributes:
        size: bytes of its content.
        mode: permission bits; set-user-id and the like are dropped.
        mtime: seconds since 1970.
        target: a link's target.
        repeats: name of the member that a hard link, whose kind is FILE, repeats; None for any other.
        chunks: the content; read it before requesting the next member.
    """

    name: str
    kind: ManifestEntryKind
    size: int
    mode: int
    mtime: int
    target: str = ""
    repeats: str | None = None
    chunks: Callable[[], Iterator[bytes]]


class Guard:
    """Admits members that stay inside the folder and do not contradict each other."""

    def __init__(self, archive: str, *, outside_links: bool) -> None:
        """Create a guard for one archive.

        Args:
            archive: its name, for messages.
            outside_links: allow links to absolute paths (a venv has one).
        """
        self._archive = archive
        self._outside_links = outside_links
        self.kinds: dict[str, ManifestEntryKind] = {}
        self.links: dict[str, str] = {}

    def admit(self, member: Member) -> str | None:
        """Return the member's cleaned path, or None for the top folder itself.

        Raises:
            ArchiveError: the member would be outside, below something that is no folder, or in place of another.
        """
        path = self._clean(member.name, member.name)
        if not path:
            if member.kind is ManifestEntryKind.FOLDER:
                return None
            raise self.build_refusal(member.name, "has no name of its own")
        self._admit_parents(path, member.name)
        kind = self._kind_of(member)
        if self.kinds.setdefault(path, kind) is not kind:
            raise self.build_refusal(member.name, f"occurs twice, as a {self.kinds[path].value} and as a {kind.value}")
        if kind is ManifestEntryKind.LINK:
            self.links[path] = self._find_target(member)
        return path

    def find_origin(self, member: Member) -> str:
        """Return the cleaned path of the member that a hard link repeats."""
        return self._clean(member.repeats or "", member.name)

    def finish(self) -> None:
        """Check the links, now that all are known.

        Raises:
            ArchiveError: one leads out of the folder.
        """
        known = {p: t for p, t in self.links.items() if not (self._outside_links and t.startswith("/"))}
        # Absolute links first: others may only lead to these, as an environment's python3 to its python.
        for path, target in sorted(known.items(), key=lambda link: not link[1].startswith("/")):
            if resolve_link(path, target, known) is None:
                why = f"is a link to {escape_name(target)}, which leads out of the folder"
                raise self.build_refusal(path, why, do=_FOLLOW_LINKS)

    def build_refusal(self, member: str, why: str, do: str = _CREATE_HINT) -> ArchiveError:
        """Return the error for a member that is not allowed, and what to do about it."""
        return ArchiveError(
            f"the archive {self._archive} is damaged or not safe to unpack: its member {escape_name(member)} {why}. "
            f"{do}"
        )

    def _kind_of(self, member: Member) -> ManifestEntryKind:
        if member.repeats is None:
            return member.kind
        origin = self.kinds.get(self.find_origin(member))
        if origin is None or origin is ManifestEntryKind.FOLDER:
            raise self.build_refusal(
                member.name, f"is a hard link to {escape_name(member.repeats)}, which is not an earlier file"
            )
        return origin

    def _find_target(self, member: Member) -> str:
        if member.repeats is not None:
            return self.links[self.find_origin(member)]
        if not member.target or "\0" in member.target:
            raise self.build_refusal(member.name, "is a link without a target")
        if len(os.fsencode(member.target)) > _MAX_TARGET_BYTES:
            raise self.build_refusal(member.name, f"is a link with more than {_MAX_TARGET_BYTES} bytes")
        return member.target

    def _admit_parents(self, path: str, name: str) -> None:
        slash = path.rfind("/")
        while slash > 0:
            parent = path[:slash]
            known = self.kinds.get(parent)
            if known is ManifestEntryKind.FOLDER:
                return
            if known is not None:
                raise self.build_refusal(name, f"is below {escape_name(parent)}, which is a {known.value}")
            self.kinds[parent] = ManifestEntryKind.FOLDER
            slash = path.rfind("/", 0, slash)

    def _clean(self, path: str, member: str) -> str:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/"):
            raise self.build_refusal(member, "has an absolute path")
        if ".." in parts:
            raise self.build_refusal(member, "would leave the folder through `..`")
        if "\0" in path:
            raise self.build_refusal(member, "has an invalid name")
        if len(os.fsencode(path)) > _MAX_PATH_BYTES or len(parts) > _MAX_DEPTH:
            raise self.build_refusal(
                member, f"has more than {_MAX_PATH_BYTES} bytes, or {_MAX_DEPTH} parts, in its path"
            )
        if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in parts):
            raise self.build_refusal(member, f"has more than {_MAX_NAME_BYTES} bytes in its name")
        return "/".join(parts)


def read(path: Path, kind: Format, name: str) -> Iterator[Member]:
    """Yield the members of an archive, in its order.

    Args:
        name: the archive's name for messages.

    Raises:
        ArchiveError: it is damaged, truncated, encrypted, expands too much, or contains something other than files,
            folders and links.
        OSError: it cannot be opened.
    """
    with path.open("rb") as file, _damage(name):
        limit = left = max(_MIN_ALLOWED_BYTES, _MAX_RATIO * os.fstat(file.fileno()).st_size)
        for member in _read_zip(file, name) if kind is Format.ZIP else _read_tar(file, kind, name):
            left -= member.size
            if left < 0:
                raise ArchiveError(
                    f"the archive {name} is damaged: it would unpack to more than {format_size(limit)}. Create it "
                    "again; pack content that is really that large and repetitive as a plain tar."
                )
            yield member


@contextmanager
def _damage(archive: str) -> Iterator[None]:
    try:
        yield
    except (*_FORMAT_ERRORS, OSError) as error:
        text = escape_name(str(error) or type(error).__name__)
        if isinstance(error, RuntimeError) and "encrypted" in text:
            raise ArchiveError(f"the archive {archive} is encrypted. Create it again without a password.") from error
        raise ArchiveError(f"the archive {archive} is damaged or truncated ({text}). Create it again.") from error


def _read_tar(file: IO[bytes], kind: Format, name: str) -> Iterator[Member]:
    content = open_expanded(file, kind)
    with tarfile.open(fileobj=content, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined] # or it would keep every header
            yield _tar_member(tar, info, name)
        _require_end(tar, name)


def _tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo, archive: str) -> Member:
    if info.isreg() or info.islnk():
        kind = ManifestEntryKind.FILE
    elif info.isdir():
        kind = ManifestEntryKind.FOLDER
    elif info.issym():
        kind = ManifestEntryKind.LINK
    else:
        raise _build_special_error(info.name, archive)
    return Member(
        name=info.name,
        kind=kind,
        size=info.size,
        mode=info.mode & 0o777,
        mtime=_time(info.mtime),
        target=info.linkname if info.issym() else "",
        repeats=info.linkname if info.islnk() else None,
        chunks=lambda: _chunks(tar.extractfile(info), info.size, archive),
    )


def _build_special_error(member: str, archive: str) -> ArchiveError:
    return ArchiveError(
        f"the archive {archive} contains {escape_name(member)}, which is a device or pipe, not a file, folder or "
        "link. Create it again without it."
    )


def _require_end(tar: tarfile.TarFile, archive: str) -> None:
    """Refuse a tar that is truncated or has a damaged header: the reader takes either for the end."""
    file = tar.fileobj
    assert file is not None
    file.seek(tar.offset)
    if file.read(_TAR_RECORD) != bytes(_TAR_RECORD):
        raise ArchiveError(f"the archive {archive} is damaged or truncated (its end mark is missing). Create it again.")
    while file.read(_CHUNK):  # up to the checksum at the end of a compressed file
        pass


def _read_zip(file: IO[bytes], name: str) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            yield _zip_member(archive, info, name)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Member:
    # Unix permissions and type are in the upper half, if the archive was created on Unix.
    unix = info.external_attr >> 16
    kind, mode, target = ManifestEntryKind.FILE, unix & 0o777 or 0o644, ""
    if info.is_dir():
        kind, mode = ManifestEntryKind.FOLDER, unix & 0o777 or 0o755
    elif stat.S_ISLNK(unix):
        kind, target = ManifestEntryKind.LINK, _zip_target(archive, info, name)
    elif stat.S_IFMT(unix) not in (0, stat.S_IFREG):
        raise _build_special_error(info.filename, name)
    return Member(
        name=info.filename,
        kind=kind,
        size=info.file_size,
        mode=mode,
        mtime=_zip_time(info),
        target=target,
        chunks=lambda: _zip_chunks(archive, info, name),
    )


def _zip_target(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> str:
    if info.file_size > _MAX_TARGET_BYTES:
        raise ArchiveError(
            f"the archive {name} is damaged: its link {escape_name(info.filename)} is too long. Create it again."
        )
    _require_deflate(info, name)
    return archive.read(info).decode("utf-8", "surrogateescape")


def _require_deflate(info: zipfile.ZipInfo, name: str) -> None:
    if info.compress_type in _UNBOUNDED:
        method = _UNBOUNDED[info.compress_type]
        raise ArchiveError(f"the archive {name} is a zip with {method} compression. Create it again with deflate.")


def _zip_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Iterator[bytes]:
    _require_deflate(info, name)
    with _damage(name):
        file = archive.open(info)
    yield from _chunks(file, info.file_size, name)


def _chunks(file: IO[bytes] | None, size: int, archive: str) -> Iterator[bytes]:
    assert file is not None
    left = size
    with file:
        while left:
            with _damage(archive):
                chunk = file.read(min(_CHUNK, left))
            if not chunk:
                raise ArchiveError(f"the archive {archive} is truncated. Create it again.")
            left -= len(chunk)
            yield chunk
        with _damage(archive):
            file.read(1)  # reading past the last byte makes a zip compare its checksum


def _zip_time(info: zipfile.ZipInfo) -> int:
    """Return seconds since 1970: from the extra field of Info-ZIP (id 0x5455), else the local DOS time, precise to 2 s.

    Python regards a compiled module as stale when its source's time differs by a second.
    """
    extra = info.extra
    while len(extra) >= 4:
        size = int.from_bytes(extra[2:4], "little")
        if extra[:2] == b"UT" and size >= 5 and extra[4] & 1:
            return _time(int.from_bytes(extra[5:9], "little", signed=True))
        extra = extra[4 + size :]
    try:
        return _time(time.mktime((*info.date_time, 0, 0, -1)))
    except (ValueError, OverflowError):
        return 0


def escape_name(text: str) -> str:
    """Return an untrusted name or message, short and safe for a terminal."""
    text = text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."
    return text if text.isprintable() else ascii(text)


def _time(seconds: float) -> int:
    return int(min(max(seconds, 0), _MAX_TIME))
