"""The language of `files` is read as the job file's documentation says."""

from __future__ import annotations

import pytest

from tony.model.file_entry import parse_file_entry


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
    entry = parse_file_entry(text)
    assert (entry.path, entry.name, entry.unpack) == (path, name, unpack)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/a::b::c", "more than one"),
        ("/a::/etc/passwd", "inside the working directory"),
        ("/a::../b", "inside the working directory"),
        ("/a::b/../../c", "inside the working directory"),
        ("/a::", "inside the working directory"),
        ("/a::.", "inside the working directory"),
    ],
)
def test_invalid_file_entries_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_file_entry(text)
