"""An archive is known by its content."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.samples import tar_of, zip_of
from tony.storage.archives.archive_detection import Format, detect, find_unsupported


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("w", Format.TAR), ("w:gz", Format.TAR_GZ), ("w:bz2", Format.TAR_BZ2), ("w:xz", Format.TAR_XZ)],
)
def test_tars_are_detected_by_their_content(tmp_path: Path, mode: str, expected: Format) -> None:
    assert detect(tar_of(tmp_path / "data.npz", {"a": (b"x", 0o644)}, mode)) is expected


def test_zip_is_known(tmp_path: Path) -> None:
    assert detect(zip_of(tmp_path / "a.tar", {"a": (b"x", 0o644)})) is Format.ZIP
    assert detect(zip_of(tmp_path / "b", {})) is Format.ZIP


def test_old_and_empty_tars_are_known(tmp_path: Path) -> None:
    """A tar of the time before the magic word, and one without members."""
    old = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    old[257:265] = bytes(8)
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old[:512])
    (tmp_path / "old").write_bytes(bytes(old) + bytes(1024))
    (tmp_path / "empty").write_bytes(bytes(10240))
    assert detect(tmp_path / "old") is Format.TAR
    assert detect(tmp_path / "empty") is Format.TAR


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_file_is_no_archive(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """`data.csv.gz` holds a file, not a folder."""
    (tmp_path / "data.csv.gz").write_bytes(compress(b"1,2,3\n" * 1000))
    assert detect(tmp_path / "data.csv.gz") is None


@pytest.mark.parametrize("content", [b"", b"x", b"print('hello')\n" * 100, b"\x7fELF" + b"1" * 1000])
def test_other_files_are_no_archives(tmp_path: Path, content: bytes) -> None:
    """Programs, texts and empty files are not mistaken for archives."""
    (tmp_path / "file.tar").write_bytes(content)
    assert detect(tmp_path / "file.tar") is None
    assert find_unsupported(tmp_path / "file.tar") is None


def test_known_but_unsupported_is_named(tmp_path: Path) -> None:
    """A format that we do not unpack has a name that a message can give."""
    (tmp_path / "a.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 600)
    assert detect(tmp_path / "a.tar.zst") is None
    assert find_unsupported(tmp_path / "a.tar.zst") == "zstd"
