"""The language of `files` is read as the job file's documentation says."""

from __future__ import annotations

import pytest

from tony.storage.staging.staging_requests import FileEntry, clashes, find_remote_scheme, parse


@pytest.mark.parametrize(
    ("text", "path", "name", "unpack"),
    [
        ("/d/data.npz", "/d/data.npz", "data.npz", False),
        ("/d/big.zip#archive", "/d/big.zip", "big.zip", True),
        ("/d/a.txt::renamed.txt", "/d/a.txt", "renamed.txt", False),
        ("/d/big.zip::data#archive", "/d/big.zip", "data", True),
        ("/d/a.txt::conf/./b.txt", "/d/a.txt", "conf/b.txt", False),
        ("/d/folder/", "/d/folder/", "folder", False),
        ("/d/ünï cödé", "/d/ünï cödé", "ünï cödé", False),
    ],
)
def test_entries(text: str, path: str, name: str, unpack: bool) -> None:
    """Path, name and whether to unpack."""
    assert parse(text) == FileEntry(path=path, name=name, unpack=unpack)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/a::b::c", "more than one"),
        ("::b", "no path"),
        ("", "no path"),
        ("#archive", "no path"),
        ("/a::/etc/passwd", "absolute"),
        ("/a::../b", "leads out"),
        ("/a::b/../../c", "leads out"),
        ("/a::", "empty"),
        ("/a::.", "empty"),
        ("/", "no name of its own"),
        ("/a/..", "no name of its own"),
    ],
)
def test_mistakes(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


def test_clashes() -> None:
    """Equal names, and a name below another; similar beginnings are no clash."""
    assert clashes(["a", "b", "a", "b/c", "ab", "b.c"]) == [(2, 0), (3, 1)]
    assert clashes(["x/y", "x"]) == [(1, 0)]


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("hdfs://nn/x", "hdfs"),
        ("/job/s3://bucket/x", "s3"),
        ("/job/https:/host/x", "https"),
        ("file:///x", "file"),
        ("/a/b:c", None),
        ("/a/b", None),
    ],
)
def test_addresses(path: str, scheme: str | None) -> None:
    """Also one that was taken for a relative path on its way here."""
    assert find_remote_scheme(path) == scheme
