"""The README's pictures: small enough to be loaded, wide enough to be read, each of them shown."""

import re
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
RECORDING = FOLDER / "demo.svg"


def test_each_picture_is_shown_with_a_description() -> None:
    """The README has a text for readers who see no pictures."""
    shown = dict(re.findall(r"!\[(.*)\]\(docs/pictures/(.*)\)", (ROOT / "README.md").read_text()))
    assert sorted(shown.values()) == sorted(path.name for path in FOLDER.iterdir())
    assert all(len(words) > 40 for words in shown)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.png")), ids=lambda path: str(path.name))
def test_size(path: Path) -> None:
    """As wide as a desk's window, and of less than 200 KB."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", data[16:20]) == (1280,)
    assert len(data) < 200_000


def test_the_recording_is_small_and_names_no_machine() -> None:
    """Of less than 300 KB; it runs no script, loads nothing and shows no path but those of the invented user."""
    text = RECORDING.read_text()
    assert len(text) < 300_000
    assert not re.search(r"<script|<image|@import|url\(", text)
    assert set(re.findall(r"/(?:home/\w+|tmp|root|usr|var|work)\b", text)) <= {"/home/ann"}


def test_the_recording_shows_a_job_that_restarts() -> None:
    lines = re.sub(r"<[^>]+>", "", RECORDING.read_text()).replace("\xa0", " ")
    assert "tony submit job.toml" in lines
    assert "session 2" in lines
