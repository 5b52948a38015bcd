"""Archives from anywhere: damaged, or made to write where they should not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target, hold
from tests.storage.samples import Node, odd_member, tar_of, zip_of
from tony.errors import ArchiveError
from tony.storage.archives.archive_detection import Format, detect, find_unsupported
from tony.storage.archives.unpack import check, unpack

_PACKERS: Sequence[Callable[[bytes], bytes]] = (
    lambda data: data,
    lambda data: gzip.compress(data, 1, mtime=0),
    lambda data: bz2.compress(data, 1),
    lambda data: lzma.compress(data, preset=0),
)


def archive(data: bytes) -> None:
    """Whatever kind of archive the bytes are."""
    _unpacked(data)


def packed_tar(data: bytes) -> None:
    """A tar in the compression that the first byte says: one that is sound, whatever is in it."""
    _unpacked(_PACKERS[data[0] % len(_PACKERS)](data[1:]) if data else b"")


def _unpacked(data: bytes) -> None:
    folder = scratch("archive")
    place = folder / "a"
    place.write_bytes(data)
    kind = detect(place)
    if kind is None:
        find_unsupported(place)
        return
    for number, outside_links in enumerate((False, True)):
        target = folder / f"t{number}"
        target.mkdir()
        try:
            contents = check(place, kind, "a", outside_links=outside_links)
        except ArchiveError as error:
            refused = str(error)
            try:
                unpack(place, kind, target, "a", outside_links=outside_links)
            except ArchiveError as same:
                hold(str(same) == refused, same)
                raise
            raise AssertionError(f"unpacked what was to be refused: {refused}") from error
        entries = unpack(place, kind, target, "a", outside_links=outside_links)
        assert {entry.path for entry in entries} == set(contents.kinds)
        _stays_inside(target, outside_links=outside_links)
        assert {path.name for path in folder.iterdir()} <= {"a", "t0", "t1"}


def _stays_inside(target: Path, *, outside_links: bool) -> None:
    top = os.path.realpath(target)
    for place, folders, files in os.walk(target):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            assert stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode), path
            assert not mode & (stat.S_ISUID | stat.S_ISGID), path
            if stat.S_ISLNK(mode) and not (outside_links and _leads_to_root(path)):
                assert os.path.commonpath([top, os.path.realpath(path)]) == top, path


def _leads_to_root(path: str) -> bool:
    """Whether a link, or one that it leads to, says an absolute path."""
    for _ in range(50):
        if not os.path.islink(path):
            return not os.path.exists(path)
        text = os.readlink(path)
        if text.startswith("/"):
            return True
        path = os.path.join(os.path.dirname(path), text)
    return True


_TREE: dict[str, Node] = {
    "bin": None,
    "bin/python": (b"#!/bin/sh\n", 0o755),
    "lib/a.py": (b"x = 1\n", 0o644),
    "link": "bin/python",
    "up": "lib/../bin",
}


def _tar_seeds() -> list[bytes]:
    folder = scratch("seeds")
    odd: dict[str, Node | tarfile.TarInfo] = {
        "a": (b"a", 0o644),
        "b": odd_member("b", tarfile.LNKTYPE, "a"),
        "x" * 120: (b"long", 0o644),
    }
    tars = [tar_of(folder / "1", _TREE).read_bytes(), tar_of(folder / "2", odd).read_bytes(), _pax(), _sparse()]
    bare = [_bare(seed) for seed in tars]
    return [bytes([number % 4]) + seed for number, seed in enumerate(bare)] + [b"\x00" + seed for seed in bare]


def _bare(tar: bytes) -> bytes:
    """A tar without most of the zeros that fill its last record."""
    return tar.rstrip(b"\0").ljust(-(-len(tar.rstrip(b"\0")) // 512) * 512, b"\0") + bytes(1024)


def _pax() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x"}) as tar:
        info = tarfile.TarInfo("é" * 60)
        info.size, info.pax_headers = 3, {"mtime": "1.5", "SCHILY.xattr.user.a": "b"}
        tar.addfile(info, io.BytesIO(b"abc"))
    return buffer.getvalue()


def _sparse() -> bytes:
    """GNU's old form of a file with holes: 1 KiB, of which the first 512 bytes are there."""
    info = tarfile.TarInfo("holes")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"00000000000\0" + b"00000001000\0"
    head[483:495] = b"00000002000\0"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"x" * 512


def _archive_seeds() -> list[bytes]:
    folder = scratch("seeds")
    plain = zip_of(folder / "z", _TREE).read_bytes()
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w") as made:
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            made.writestr(f"f{method}", b"abc" * 50, compress_type=method)
    small = tar_of(folder / "t", {"a": (b"a", 0o644)}).read_bytes()
    tars = [pack(_bare(small)) for pack in _PACKERS[1:]]
    assert detect(folder / "z") is Format.ZIP
    return [plain, squeezed.getvalue(), *tars]


TARGETS = (
    Target(
        name="archive",
        run=archive,
        errors=(ArchiveError,),
        seeds=_archive_seeds,
        tokens=(b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"../", b"/etc/x", b"\xff\xff\xff\xff"),
        memory=5 << 30,  # of a dictionary that an xz asks for, which is never touched
    ),
    Target(
        name="tar",
        run=packed_tar,
        errors=(ArchiveError,),
        seeds=_tar_seeds,
        tokens=(
            b"ustar\x0000",
            b"ustar  \0",
            b"././@LongLink",
            b"../",
            b"/etc/x",
            b"00000000000\0",
            b"17 path=../../x\n",
        ),
        longest=6144,
        memory=24 << 20,
    ),
)
