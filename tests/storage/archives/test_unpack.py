"""Archives are unpacked whole and safely, or refused by the name of archive and member."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.storage.samples import Node, odd_member, snapshot, tar_of, zip_of
from tony.errors import ArchiveError
from tony.storage.archives.archive_detection import Format, detect
from tony.storage.archives.unpack import check, unpack
from tony.storage.manifest import ManifestEntryKind

GOOD: dict[str, Node] = {"d": None, "d/run.sh": (b"#!/bin/sh\n", 0o755), "d/x": (b"x" * 3000, 0o640), "l": "d/x"}


def unpacked(archive: Path, *, outside_links: bool = False) -> Path:
    """Unpacks beside the archive; nothing may appear anywhere else."""
    kind = detect(archive)
    assert kind is not None
    target = archive.parent / "out"
    target.mkdir()
    before = sorted(os.listdir(archive.parent))
    try:
        unpack(archive, kind, target, archive.name, outside_links=outside_links)
    finally:
        assert sorted(os.listdir(archive.parent)) == before
    return target


def refusal(archive: Path, *, outside_links: bool = False) -> str:
    """What unpacking says; only looking must say the same."""
    kind = detect(archive)
    assert kind is not None
    with pytest.raises(ArchiveError) as looked:
        check(archive, kind, archive.name, outside_links=outside_links)
    with pytest.raises(ArchiveError) as done:
        unpacked(archive, outside_links=outside_links)
    assert str(done.value) == str(looked.value)
    assert archive.name in str(looked.value)
    return str(looked.value)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_modes_links_and_content_survive(tmp_path: Path, mode: str) -> None:
    archive = zip_of(tmp_path / "a", GOOD) if mode == "zip" else tar_of(tmp_path / "a", GOOD, mode)
    assert snapshot(unpacked(archive)) == {
        "d": ("folder", 0o755, b""),
        "d/run.sh": ("file", 0o755, b"#!/bin/sh\n"),
        "d/x": ("file", 0o640, b"x" * 3000),
        "l": ("link", 0, "d/x"),
    }


def test_times_survive(tmp_path: Path) -> None:
    """Python compiles a package anew when its source's time differs by a second: tar and Info-ZIP's field are exact."""
    info = odd_member("a.py", tarfile.REGTYPE)
    info.mtime = 1_700_000_001
    assert (unpacked(tar_of(tmp_path / "t", {"a.py": info})) / "a.py").stat().st_mtime == 1_700_000_001
    (tmp_path / "z").mkdir()
    with zipfile.ZipFile(tmp_path / "z" / "z.zip", "w") as archive:
        member = zipfile.ZipInfo("a.py")
        member.extra = b"UT\x05\x00\x01" + (1_700_000_001).to_bytes(4, "little")
        archive.writestr(member, b"")
    assert (unpacked(tmp_path / "z" / "z.zip") / "a.py").stat().st_mtime == 1_700_000_001


def test_hard_links_become_files(tmp_path: Path) -> None:
    """Also hard links to links, which GNU tar writes."""
    members: dict[str, Node | tarfile.TarInfo] = {
        "a": (b"x", 0o600),
        "b": odd_member("b", tarfile.LNKTYPE, "./a"),
        "l": "a",
        "m": odd_member("m", tarfile.LNKTYPE, "l"),
    }
    assert snapshot(unpacked(tar_of(tmp_path / "t.tar", members))) == {
        "a": ("file", 0o600, b"x"),
        "b": ("file", 0o600, b"x"),
        "l": ("link", 0, "a"),
        "m": ("link", 0, "a"),
    }


def test_dangerous_bits_are_dropped(tmp_path: Path) -> None:
    """Set-user-id, set-group-id and sticky do not come out of an archive."""
    tar = tar_of(tmp_path / "t.tar", {"a": odd_member("a", tarfile.REGTYPE, mode=0o6755)})
    assert (unpacked(tar) / "a").stat().st_mode & 0o7777 == 0o755


def test_folder_without_write_permission_gets_its_content(tmp_path: Path) -> None:
    """Modes of folders are set last, and stay open to the owner."""
    folder = odd_member("d", tarfile.DIRTYPE, mode=0o555)
    out = unpacked(tar_of(tmp_path / "t.tar", {"d": folder, "d/x": (b"x", 0o444)}))
    assert ((out / "d").stat().st_mode & 0o777, (out / "d" / "x").read_bytes()) == (0o755, b"x")


def test_later_member_wins(tmp_path: Path) -> None:
    """`tar --append` adds newer versions at the end."""
    path = tmp_path / "t.tar"
    with tarfile.open(path, "w") as tar:
        for size in (5, 9):
            info = tarfile.TarInfo("a")
            info.size = size
            tar.addfile(info, io.BytesIO(b"y" * size))
    assert (unpacked(path) / "a").read_bytes() == b"y" * 9


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"../evil": (b"x", 0o644)}, ["../evil", "`..`"]),
        ({"a/../../evil": (b"x", 0o644)}, ["a/../../evil", "`..`"]),
        ({"/tmp/evil": (b"x", 0o644)}, ["/tmp/evil", "absolute"]),
        ({"l": "/etc/passwd"}, ["member l", "/etc/passwd", "out of the folder"]),
        ({"l": "../x"}, ["member l", "out of the folder"]),
        ({"d/up": "..", "z": "d/up/../x"}, ["member z", "out of the folder"]),
        ({"l": "d", "l/x": (b"x", 0o644)}, ["l/x", "is below l", "link"]),
        ({"a": (b"x", 0o644), "a/x": (b"x", 0o644)}, ["a/x", "is below a"]),
        ({"l": ""}, ["member l", "without a target"]),
    ],
)
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_members_that_leave_the_folder_are_refused(
    tmp_path: Path, form: str, members: dict[str, Node], words: list[str]
) -> None:
    """Archive and member are named; nothing is written outside, not even through a link made before."""
    text = refusal((tar_of if form == "tar" else zip_of)(tmp_path / f"my.{form}", members))
    assert all(word in text for word in words), text


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_link_that_leaves_the_folder_is_reported_with_its_fix(tmp_path: Path, form: str) -> None:
    """The one that leaves, as an environment's `python` does, not one that only leads to it."""
    members: dict[str, Node] = {"bin/python3": "python", "bin/python": "/usr/bin/python3"}
    text = refusal((tar_of if form == "tar" else zip_of)(tmp_path / f"venv.{form}", members))
    assert mentions(text, "bin/python", "/usr/bin/python3")
    assert text.endswith("Create it again with the targets of its links: `zip -r` without `-y`, `tar -h`.")


@pytest.mark.parametrize(
    ("kind", "target", "word"),
    [
        (tarfile.CHRTYPE, "", "device"),
        (tarfile.BLKTYPE, "", "device"),
        (tarfile.FIFOTYPE, "", "device"),
        (tarfile.LNKTYPE, "../../etc/passwd", "`..`"),
        (tarfile.LNKTYPE, "/etc/passwd", "absolute"),
        (tarfile.LNKTYPE, "missing", "hard link"),
    ],
)
def test_odd_members_are_refused(tmp_path: Path, kind: bytes, target: str, word: str) -> None:
    """Devices, pipes, and hard links to what is not in the archive."""
    text = refusal(tar_of(tmp_path / "my.tar", {"odd": odd_member("odd", kind, target)}))
    assert "odd" in text
    assert word in text


def test_one_name_for_two_things_is_refused(tmp_path: Path) -> None:
    """A link and then a file of its name: the file would be written through the link."""
    path = tar_of(tmp_path / "one.tar", {"l": "/etc/passwd"})
    tar_of(tmp_path / "two.tar", {"l": (b"x", 0o644)})
    with tarfile.open(path, "a") as tar, tarfile.open(tmp_path / "two.tar") as other:
        member = other.getmember("l")
        tar.addfile(member, other.extractfile(member))
    assert "twice" in refusal(path)


def test_outside_links_may_be_allowed(tmp_path: Path) -> None:
    """A venv's `python` is an absolute link; relative ones must stay inside all the same."""
    tar = tar_of(tmp_path / "v.tar", {"bin/python": "/usr/bin/python3", "bin/python3": "python"})
    assert os.readlink(unpacked(tar, outside_links=True) / "bin" / "python") == "/usr/bin/python3"
    (tmp_path / "x").mkdir()
    assert "out of the folder" in refusal(tar_of(tmp_path / "x" / "w.tar", {"a": "../b"}), outside_links=True)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
@pytest.mark.parametrize("part", [0.2, 0.6, 0.97])
def test_cut_off_archives_are_refused(tmp_path: Path, mode: str, part: float) -> None:
    """Wherever the copy ended: what is left is never taken for the whole."""
    members: dict[str, Node] = {f"f{i}": (os.urandom(3000), 0o644) for i in range(20)}
    path = tmp_path / "cut"
    if mode == "zip":
        zip_of(path, members)
    else:
        tar_of(path, members, mode)
    # A tar is filled up with zeros to 10 KiB; only what matters is cut.
    os.truncate(path, int((20 * 3584 if mode == "w" else path.stat().st_size) * part))
    text = refusal(path)
    assert "damaged or truncated" in text or "is truncated" in text


def test_damaged_header_in_the_middle_is_refused(tmp_path: Path) -> None:
    """The standard reader takes it for the end and leaves the rest out without a word."""
    path = tar_of(tmp_path / "t.tar", {"a": (b"x", 0o644), "b": (b"y", 0o644)})
    content = bytearray(path.read_bytes())
    content[1024] ^= 0xFF
    path.write_bytes(content)
    assert "end mark is missing" in refusal(path)


def test_damaged_content_is_refused(tmp_path: Path) -> None:
    """The checksums of gzip and zip are compared, also at the very end."""
    path = tmp_path / "t.tar.gz"
    content = bytearray(gzip.compress(tar_of(tmp_path / "t", {"a": (b"x" * 5000, 0o644)}).read_bytes(), 0))
    content[2000] ^= 1
    path.write_bytes(content)
    assert "damaged or truncated" in refusal(path)
    (tmp_path / "z").mkdir()
    stored = zip_of(tmp_path / "z" / "a.zip", {"a": (b"x" * 5000, 0o644)})
    content = bytearray(stored.read_bytes())
    content[2000] ^= 1
    stored.write_bytes(content)
    assert "damaged or truncated" in refusal(stored)


def test_encrypted_zip_is_refused(tmp_path: Path) -> None:
    """There is no prompt for a password."""
    path = zip_of(tmp_path / "a.zip", {"a": (b"x", 0o644)})
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert "encrypted" in refusal(path)


def test_the_check_lists_all_entries(tmp_path: Path) -> None:
    """Folders that no member names are listed as well."""
    contents = check(tar_of(tmp_path / "t", {"d/e/x": (b"", 0o644), "l": "d"}), Format.TAR, "t", outside_links=False)
    assert contents.kinds == {
        "d": ManifestEntryKind.FOLDER,
        "d/e": ManifestEntryKind.FOLDER,
        "d/e/x": ManifestEntryKind.FILE,
        "l": ManifestEntryKind.LINK,
    }
    assert contents.links == {"l": "d"}


def test_root_member_and_dots_are_valid(tmp_path: Path) -> None:
    """`tar -C folder -cf x.tar .` names everything from `./`."""
    out = unpacked(tar_of(tmp_path / "t.tar", {".": None, "./d": None, "./d/x": (b"x", 0o644)}))
    assert sorted(snapshot(out)) == ["d", "d/x"]


@pytest.mark.parametrize(("method", "name"), [(zipfile.ZIP_LZMA, "LZMA"), (zipfile.ZIP_BZIP2, "bzip2")])
@pytest.mark.parametrize("kind", [stat.S_IFREG, stat.S_IFLNK])
def test_unbounded_decompression_is_refused(tmp_path: Path, method: int, name: str, kind: int) -> None:
    """In files and in links; the same in a tar is read piece by piece."""
    info = zipfile.ZipInfo("a")
    info.create_system, info.compress_type, info.external_attr = 3, method, (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "target")
    assert f"is a zip with {name} compression" in refusal(tmp_path / "a.zip")


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    """By the size that it declares: two gigabytes, in some hundred bytes."""
    path = zip_of(tmp_path / "a.zip", {"a": (b"x", 0o644)})
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = (2 << 30).to_bytes(4, "little")
    path.write_bytes(content)
    assert "would unpack to more than 1g" in refusal(path)
