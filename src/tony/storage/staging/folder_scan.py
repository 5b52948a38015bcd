"""Walks a folder to be staged: finds its entries, and those that cannot be staged.

Links are kept as links and never followed, so loops are harmless. A link that leads out of the folder is refused, since
its target is not staged. An absolute link to a place inside the folder is rewritten as a relative one: it leads to the
same file and works wherever the folder is copied.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tony.model.staged_files import LeftOut
from tony.storage.manifest import ManifestEntryKind, resolve_link
from tony.storage.staging.digest_index import Stamp
from tony.storage.staging.ignore_rules import OWN_FILE, IgnoreFileError, IgnoreRules, load_rules

#: Characters of a long path that are shown.
_MAX_SHOWN_CHARACTERS = 100
_LEAVE_OUT = f"Leave it out with {OWN_FILE}."
_FIX_OR_LEAVE_OUT = f"Make it readable, or leave it out with {OWN_FILE}."
#: Maximum depth of folders.
_MAX_DEPTH = 200
#: Bytes of a path inside the folder. Linux allows 4095 in all, including the task's own folder.
_MAX_PATH_BYTES = 3000
#: Maximum number of paths of left-out folders, and of files, that are recorded.
_MAX_LEFT_OUT_FOLDERS = 20
_MAX_LEFT_OUT_FILES = 20
#: Number of entries that `find_largest_entries` returns.
_MAX_LARGEST = 5
#: Name of folders that programs never need.
_BYTECODE_FOLDER = "__pycache__"
_SPECIAL = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedEntry:
    """One entry of the folder.

    Attributes:
        path: inside the folder, parts joined by `/`.
        mode: permission bits; folders are always writable for their owner, or the task's copy could not be removed.
        target: a link's target.
        stamp: of a file.
    """

    path: str
    kind: ManifestEntryKind
    mode: int = 0o777
    target: str = ""
    stamp: Stamp | None = None

    @property
    def size(self) -> int:
        """Return the bytes of a file; 0 for other entries."""
        return self.stamp.size if self.stamp else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The result of a walk.

    Attributes:
        root: the folder, absolute and without links.
        found: sorted by path, every folder before its contents.
        refused: sentences, one per entry that cannot be staged; empty if there is none.
        skipped: sentences, one per entry that is left out because it has no content, and per repository whose tracked
            files are not known.
        left_out: what the ignore files leave out; None if nothing.
    """

    root: Path
    found: tuple[ScannedEntry, ...]
    refused: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    left_out: LeftOut | None = None

    @property
    def size(self) -> int:
        return sum(found.size for found in self.found)


def scan(root: Path, *, git: bool, without: Collection[str] = ()) -> Scan:
    """Walk a folder.

    Args:
        git: honour `.gitignore` where there is no `.tonyignore`.
        without: paths inside the folder that are left out, whatever the rules say.
    """
    top = root.resolve()
    walk = _Walk(frozenset(without))
    try:
        rules = load_rules(top, git=git)
        walk.left_out.ignore_file = rules.file_name
        walk.folder(os.fspath(top), "", rules)
    except IgnoreFileError as error:
        walk.refused.append(str(error))
    found = _make_links_relative(sorted(walk.found, key=lambda f: os.fsencode(f.path)), root, top)
    return Scan(
        root=top,
        found=tuple(found),
        refused=(*walk.refused, *_refuse_links(found)),
        skipped=(*walk.skipped, *walk.unknown.values()),
        left_out=walk.left_out.summary(),
    )


@dataclass(slots=True)
class _LeftOutCounter:
    ignore_file: str = ""
    files: int = 0
    size: int = 0
    folders: int = 0
    folder_paths: list[str] = field(default_factory=list)
    largest: list[tuple[int, str]] = field(default_factory=list)  # a heap

    def add(self, entry: os.DirEntry[str], path: str, *, is_folder: bool) -> None:
        if is_folder:
            self.folders += 1
            self.folder_paths.append(path)
            return
        try:
            size = entry.stat(follow_symlinks=False).st_size
        except OSError:
            size = 0
        self.files += 1
        self.size += size
        heapq.heappush(self.largest, (size, path))
        if len(self.largest) > _MAX_LEFT_OUT_FILES:
            heapq.heappop(self.largest)

    def summary(self) -> LeftOut | None:
        if not self.files and not self.folders:
            return None
        # Folders near the top are the most likely to be missed by a program.
        by_depth = sorted(self.folder_paths, key=lambda path: (path.endswith(_BYTECODE_FOLDER), path.count("/"), path))
        folders = [f"{path}/" for path in by_depth[:_MAX_LEFT_OUT_FOLDERS]]
        files = [path for _, path in sorted(self.largest, reverse=True)]
        return LeftOut(
            ignore_file=self.ignore_file,
            files=self.files,
            size=self.size,
            folders=self.folders,
            paths=(*folders, *files),
        )


@dataclass(slots=True)
class _Walk:
    without: frozenset[str]
    found: list[ScannedEntry] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    left_out: _LeftOutCounter = field(default_factory=_LeftOutCounter)
    unknown: dict[Path, str] = field(default_factory=dict)

    def folder(self, place: str, prefix: str, rules: IgnoreRules) -> bool:
        """Walk one folder; return False if it had entries and none was kept."""
        if prefix.count("/") > _MAX_DEPTH:
            self.refused.append(
                f"the folder {shorten_path(prefix)} is nested more than {_MAX_DEPTH} levels deep. {_LEAVE_OUT}"
            )
            return True
        try:
            with os.scandir(place) as entries:
                content = list(entries)
        except OSError as error:
            self.refused.append(f"the folder {prefix or place} cannot be read ({error.strerror}). {_FIX_OR_LEAVE_OUT}")
            return True
        kept = [self.entry(entry, prefix + entry.name, rules) for entry in content]
        return any(kept) or not kept

    def entry(self, entry: os.DirEntry[str], path: str, rules: IgnoreRules) -> bool:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or path in self.without:
            return False
        if rules.ignores(path, is_folder=is_folder):
            if not rules.tracks(path):
                self.leave_out(entry, path, rules, is_folder=is_folder)
                return False
            rules = replace(rules, only_tracked=True)
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # removed since the folder was listed
            return False
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            self.refused.append(f"the path {shorten_path(path)} has more than {_MAX_PATH_BYTES} bytes. {_LEAVE_OUT}")
            return True
        if is_folder:
            return self.subfolder(entry, path, stat.S_IMODE(status.st_mode), rules)
        if entry.is_symlink():
            self.found.append(ScannedEntry(path=path, kind=ManifestEntryKind.LINK, target=os.readlink(entry.path)))
        elif stat.S_ISREG(status.st_mode):
            self.file(entry, path, status)
        else:
            self.skipped.append(f"{path} is {_SPECIAL[stat.S_IFMT(status.st_mode)]} and is left out")
            return False
        return True

    def leave_out(self, entry: os.DirEntry[str], path: str, rules: IgnoreRules, *, is_folder: bool) -> None:
        self.left_out.add(entry, path, is_folder=is_folder)
        if rules.tracked and rules.tracked.problem:
            self.unknown[rules.tracked.folder] = (
                f"cannot find out which files git tracks in {rules.tracked.folder} ({rules.tracked.problem}), so "
                ".gitignore may leave out some of them"
            )

    def subfolder(self, entry: os.DirEntry[str], path: str, mode: int, rules: IgnoreRules) -> bool:
        # A folder whose whole content is ignored is left out as well: `__pycache__` would change the digest.
        if not self.folder(entry.path, f"{path}/", rules.enter(Path(entry.path), f"{path}/")):
            return False
        self.found.append(ScannedEntry(path=path, kind=ManifestEntryKind.FOLDER, mode=mode & 0o777 | 0o700))
        return True

    def file(self, entry: os.DirEntry[str], path: str, status: os.stat_result) -> None:
        if not os.access(entry.path, os.R_OK):
            self.refused.append(f"{path} cannot be read (permission denied). {_FIX_OR_LEAVE_OUT}")
        mode = stat.S_IMODE(status.st_mode) & 0o777
        self.found.append(
            ScannedEntry(path=path, kind=ManifestEntryKind.FILE, mode=mode, stamp=Stamp.from_status(status))
        )


def shorten_path(path: str) -> str:
    return (
        path
        if len(path) <= _MAX_SHOWN_CHARACTERS
        else f"{path[: _MAX_SHOWN_CHARACTERS // 2]}…{path[-_MAX_SHOWN_CHARACTERS // 2 :]}"
    )


def _make_links_relative(found: list[ScannedEntry], root: Path, top: Path) -> list[ScannedEntry]:
    """Return the entries with absolute links to places inside the folder rewritten as relative ones."""
    tops = {os.path.abspath(root), os.fspath(top)}
    return [_make_relative(f, tops) if f.target.startswith("/") else f for f in found]


def _make_relative(link: ScannedEntry, tops: Collection[str]) -> ScannedEntry:
    target = os.path.normpath(link.target)
    for top in tops:
        if target == top or target.startswith(f"{top}/"):
            relative = os.path.relpath(target, os.path.join(top, os.path.dirname(link.path)))
            return replace(link, target=relative)
    return link


def _refuse_links(found: list[ScannedEntry]) -> list[str]:
    """Say which links lead out of the folder; of a virtual environment only that it is one."""
    links = {f.path: f.target for f in found if f.kind is ManifestEntryKind.LINK}
    outside = [path for path in links if resolve_link(path, links[path], links) is None]
    marked = {f.path.removesuffix("/pyvenv.cfg") for f in found if f.path.endswith("/pyvenv.cfg")}
    environments = {path: root for path in outside if (root := path.rpartition("/bin/")[0]) in marked}
    refused = [
        f"{root} is a virtual environment, whose Python is outside of the folder. Leave it out with {OWN_FILE} "
        f"({root}/), and name it, or its archive, by `python`."
        for root in dict.fromkeys(environments.values())
    ]
    return refused + [
        f"the link {path} -> {links[path]} leads out of the folder. List its target under `files`, or leave it out "
        f"with {OWN_FILE}."
        for path in outside
        if path not in environments
    ]


def find_largest_entries(scan: Scan) -> list[tuple[str, int]]:
    """Return the largest entries at the folder's top; one with a dominant entry is replaced by that."""
    sizes: dict[str, int] = {}
    for found in scan.found:
        path = found.path
        while path:
            sizes[path] = sizes.get(path, 0) + found.size
            path = path.rpartition("/")[0]
    tops = sorted((path for path in sizes if "/" not in path), key=lambda path: -sizes[path])[:_MAX_LARGEST]
    return [_descend_to_dominant(path, sizes) for path in tops if sizes[path]]


def _descend_to_dominant(path: str, sizes: Mapping[str, int]) -> tuple[str, int]:
    depth = path.count("/") + 1
    entries = [p for p in sizes if p.startswith(f"{path}/") and p.count("/") == depth]
    biggest = max(entries, key=lambda p: sizes[p], default=None)
    if biggest is None or sizes[biggest] * 2 <= sizes[path]:
        return path, sizes[path]
    return _descend_to_dominant(biggest, sizes)
