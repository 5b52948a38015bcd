"""Unpacks an archive into an empty folder, or only checks it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tony.storage.archives.archive_detection import Format
from tony.storage.archives.archive_members import Guard, Member, read
from tony.storage.manifest import ManifestEntry, ManifestEntryKind

_FOLDER_MODE = 0o755  # of folders that the archive does not mention


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of an archive.

    Attributes:
        kinds: path -> kind, including implied folders.
        links: path of a link -> its target.
    """

    kinds: Mapping[str, ManifestEntryKind]
    links: Mapping[str, str]


def check(archive: Path, kind: Format, name: str, *, outside_links: bool) -> Contents:
    """Read an archive to its end without writing anything.

    Args:
        name: its name in messages.
        outside_links: allow links to absolute paths (a venv has one to its interpreter).

    Raises:
        ArchiveError: it cannot be unpacked, or not safely.
        OSError: it cannot be opened.
    """
    guard = Guard(name, outside_links=outside_links)
    for member in read(archive, kind, name):
        guard.admit(member)
        if member.kind is ManifestEntryKind.FILE and member.repeats is None:
            for _ in member.chunks():
                pass
    guard.finish()
    return Contents(kinds=guard.kinds, links=guard.links)


def unpack(archive: Path, kind: Format, target: Path, name: str, *, outside_links: bool) -> tuple[ManifestEntry, ...]:
    """Unpack an archive into `target`, which is empty and not used by others yet.

    Links are created last, when all of them are known to be harmless: until then nothing in `target` leads out of it.
    On disk everything stays accessible to its owner; the entries have the intended modes.

    Returns:
        The entries of `target`, sorted by path.

    Raises:
        ArchiveError: it cannot be unpacked, or not safely.
        OSError: `target` cannot be written.
    """
    unpacker = _Unpacker(os.fspath(target), Guard(name, outside_links=outside_links))
    for member in read(archive, kind, name):
        unpacker.add(member)
    return unpacker.finish()


@dataclass(slots=True)
class _Unpacker:
    target: str
    guard: Guard
    entries: dict[str, ManifestEntry] = field(default_factory=dict)

    def add(self, member: Member) -> None:
        path = self.guard.admit(member)
        if path is None:
            return
        self.make_parents(path)
        if member.repeats is not None:
            self.hard_link(member, path)
            return
        match member.kind:
            case ManifestEntryKind.FILE:
                self.file(member, path)
            case ManifestEntryKind.FOLDER:
                self.folder(member, path)
            case ManifestEntryKind.LINK:
                self.link(path)

    def make_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.entries:
            self.make_parents(parent)
            os.mkdir(f"{self.target}/{parent}", 0o700)
            self.entries[parent] = ManifestEntry(path=parent, kind=ManifestEntryKind.FOLDER, mode=_FOLDER_MODE)

    def folder(self, member: Member, path: str) -> None:
        if path not in self.entries:
            os.mkdir(f"{self.target}/{path}", 0o700)
        self.entries[path] = ManifestEntry(path=path, kind=ManifestEntryKind.FOLDER, mode=member.mode | 0o700)

    def link(self, path: str) -> None:
        self.entries[path] = ManifestEntry(path=path, kind=ManifestEntryKind.LINK, target=self.guard.links[path])

    def hard_link(self, member: Member, path: str) -> None:
        if path in self.guard.links:
            self.link(path)
            return
        origin = self.guard.find_origin(member)
        if origin == path:
            return
        if path in self.entries:
            os.unlink(f"{self.target}/{path}")
        os.link(f"{self.target}/{origin}", f"{self.target}/{path}")
        entry = self.entries[origin]
        self.entries[path] = ManifestEntry(
            path=path, kind=ManifestEntryKind.FILE, mode=entry.mode, size=entry.size, mtime=entry.mtime
        )

    def file(self, member: Member, path: str) -> None:
        place = f"{self.target}/{path}"
        if path in self.entries:  # a duplicate: the later one counts, as with every unpacker
            os.unlink(place)
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = 0
            for chunk in member.chunks():
                size += len(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[os.write(file, view) :]
            os.fchmod(file, member.mode | 0o600)
            os.utime(file, (member.mtime, member.mtime))
        finally:
            os.close(file)
        self.entries[path] = ManifestEntry(
            path=path, kind=ManifestEntryKind.FILE, mode=member.mode, size=size, mtime=member.mtime
        )

    def finish(self) -> tuple[ManifestEntry, ...]:
        self.guard.finish()
        entries = sorted(self.entries.values(), key=lambda entry: os.fsencode(entry.path))
        for entry in reversed(entries):
            place = f"{self.target}/{entry.path}"
            if entry.kind is ManifestEntryKind.LINK:
                os.symlink(entry.target, place)
            elif entry.kind is ManifestEntryKind.FOLDER:
                os.chmod(place, entry.mode)
        return tuple(entries)
