"""The README's pictures: small enough to be loaded, wide enough to be read, each of them shown."""

import re
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*"))


def test_each_is_shown_and_said_in_words() -> None:
    """By the README, with what stands in for it where no picture is seen."""
    shown = dict(re.findall(r"!\[(.*)\]\(docs/pictures/(.*)\)", (ROOT / "README.md").read_text()))
    assert sorted(shown.values()) == [path.name for path in PICTURES]
    assert all(len(words) > 40 for words in shown)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: str(path.name))
def test_size(path: Path) -> None:
    """As wide as a desk's window, and of less than 200 KB."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", data[16:20]) == (1280,)
    assert len(data) < 200_000
