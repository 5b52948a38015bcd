"""Folders, archives and environments for the tests of staging."""

from __future__ import annotations

import io
import os
import pickle
import stat
import subprocess
import sys
import tarfile
import traceback
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st

from tony.model.staged_files import Placement, StagedItem
from tony.storage.archives.archive_detection import Format
from tony.storage.cache.object_cache import Cache
from tony.storage.staging import cache_ingest
from tony.storage.staging.folder_scan import scan

T = TypeVar("T")

#: A file's content and mode, a link's target, or None for a folder.
Node = tuple[bytes, int] | str | None


def write_tree(root: Path, tree: Mapping[str, Node]) -> Path:
    """Makes a folder with these things in it."""
    root.mkdir(parents=True, exist_ok=True)
    for path, node in tree.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if node is None:
            place.mkdir(exist_ok=True)
        elif isinstance(node, str):
            place.symlink_to(node)
        else:
            place.write_bytes(node[0])
            place.chmod(node[1])
    return root


def snapshot(root: Path) -> dict[str, tuple[str, int, bytes | str]]:
    """What is in a folder: path -> kind, mode, content or target."""
    found: dict[str, tuple[str, int, bytes | str]] = {}
    for place in sorted(root.rglob("*")):
        status, path = place.lstat(), str(place.relative_to(root))
        if stat.S_ISLNK(status.st_mode):
            found[path] = ("link", 0, os.readlink(place))
        elif stat.S_ISDIR(status.st_mode):
            found[path] = ("folder", stat.S_IMODE(status.st_mode), b"")
        else:
            found[path] = ("file", stat.S_IMODE(status.st_mode), place.read_bytes())
    return found


def tree_of(root: Path) -> dict[str, Node]:
    """What `write_tree` would need to make this folder."""
    tree: dict[str, Node] = {}
    for path, (kind, mode, content) in snapshot(root).items():
        tree[path] = None if kind == "folder" else content if isinstance(content, str) else (content, mode)
    return tree


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Node]:
    """Folders of files, links that stay inside, empty folders; names as strange as Linux allows."""
    names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
    good = names.filter(lambda name: name not in (".", "..", ".git", ".gitignore", ".tonyignore"))
    folders = draw(st.lists(good, max_size=3, unique=True))
    tree: dict[str, Node] = dict.fromkeys(folders)
    for name in draw(st.lists(good, max_size=6, unique=True)):
        folder = draw(st.sampled_from(["", *(f"{folder}/" for folder in folders)]))
        path = folder + name
        if path in tree:
            continue
        if draw(st.integers(0, 3)) == 0:
            tree[path] = draw(st.sampled_from(["nowhere", name, "./x/y", "../x" if folder else "x"]))
        else:
            tree[path] = (draw(st.binary(max_size=1500)), draw(st.sampled_from([0o644, 0o755, 0o600, 0o440, 0o777])))
    return tree


def tar_of(path: Path, members: Mapping[str, Node | tarfile.TarInfo], mode: str = "w") -> Path:
    """Writes a tar; a TarInfo as value is a member as it is."""
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, node in members.items():
            content = b""
            if isinstance(node, tarfile.TarInfo):
                info = node
            else:
                info = tarfile.TarInfo(name)
                info.mode = 0o755
            if node is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(node, str):
                info.type, info.linkname = tarfile.SYMTYPE, node
            elif isinstance(node, tuple):
                content, info.mode = node
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def odd_member(name: str, kind: bytes, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """A tar member that is neither a plain file nor a folder."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def zip_of(path: Path, members: Mapping[str, Node]) -> Path:
    """Writes a zip with Unix permissions and links."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, node in members.items():
            info = zipfile.ZipInfo(f"{name}/" if node is None else name)
            info.create_system = 3
            if node is None:
                info.external_attr = (stat.S_IFDIR | 0o755) << 16
                archive.writestr(info, b"")
            elif isinstance(node, str):
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
                archive.writestr(info, node)
            else:
                info.external_attr = (stat.S_IFREG | node[1]) << 16
                archive.writestr(info, node[0])
    return path


def cache_at(path: Path) -> Cache:
    cache = Cache(path)
    cache.prepare()
    return cache


def put_folder(cache: Cache, root: Path, placement: Placement = Placement.ROOT, name: str = "source") -> StagedItem:
    stored = cache_ingest.store_folder(cache, scan(root, git=True), lambda: scan(root, git=True), name)
    return StagedItem(digest=stored.digest, size=stored.size, name=name, placement=placement, suffix=Format.TAR.value)


def put_file(
    cache: Cache, path: Path, placement: Placement = Placement.FILE, name: str | None = None, kind: Format | None = None
) -> StagedItem:
    stored = cache_ingest.store_file(cache, path, path.name)
    return StagedItem(
        digest=stored.digest,
        size=stored.size,
        name=name or path.name,
        placement=placement,
        suffix=kind.value if kind else "",
    )


def make_venv(place: Path) -> Path:
    """A venv with a package `greeter` and a script `greet` that an installer would have made. No downloads."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, capture_output=True)
    site = next((place / "lib").glob("python*/site-packages"))
    (site / "greeter.py").write_text("import sys\ndef main():\n    print('hello from', sys.prefix)\n")
    script = place / "bin" / "greet"
    script.write_text(f"#!{place}/bin/python\nfrom greeter import main\nmain()\n")
    script.chmod(0o755)
    return place


def pack_tree(path: Path, folder: Path, top: str = ".") -> Path:
    """Packs a folder as a person would do it."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=top)
    return path


def call_as_unprivileged_user(ask: Callable[[], T]) -> T:
    """Call a function without root's rights: root may read everything, so tests of permissions would show nothing."""
    if os.geteuid() != 0:
        return ask()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, pickle.dumps(ask()))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    result: T = pickle.loads(content)
    return result
