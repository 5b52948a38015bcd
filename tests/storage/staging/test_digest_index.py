"""What is remembered of files is believed only while nothing can have changed unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.storage.staging.digest_index import DigestIndex, Stamp, load, save

STAMP = Stamp(5, 1_000_000_000, 1_000_000_000, 7)


def test_round_trip(tmp_path: Path) -> None:
    """What was saved is read again, names that are not UTF-8 included."""
    index = DigestIndex(
        files={"caf\udce9": (STAMP, "d1")}, tree="t", object_digest="o", object_size=9, checked=("folder",)
    )
    save(tmp_path, Path("/somewhere"), index)
    assert load(tmp_path, Path("/somewhere")) == index
    assert load(tmp_path, Path("/elsewhere")) == DigestIndex()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 99}', '{"version": 1, "files": [[1]]}'])
def test_damaged_index_is_no_index(tmp_path: Path, content: str) -> None:
    """Losing it costs reading and nothing else."""
    save(tmp_path, Path("/x"), DigestIndex())
    (place,) = tmp_path.iterdir()
    place.write_text(content)
    assert load(tmp_path, Path("/x")) == DigestIndex()


@pytest.mark.parametrize("field", ["size", "mtime_ns", "ctime_ns", "inode"])
def test_any_difference_counts(field: str) -> None:
    """A time that was set back does not hide a change: the change time cannot be set."""
    index = DigestIndex(files={"a": (STAMP, "d")})
    assert index.find_digest("a", STAMP) == "d"
    assert index.find_digest("a", STAMP._replace(**{field: 6})) is None
    assert index.find_digest("b", STAMP) is None


def test_fresh_file_is_not_trusted() -> None:
    """A file that changed less than two seconds before it was read could change again in the same tick."""
    assert STAMP.settle_stamp(read_at=1.0 + 2.1) == STAMP
    assert STAMP.settle_stamp(read_at=1.0 + 1.9) == Stamp(5, 0, 0, 0)
    assert STAMP._replace(ctime_ns=2_000_000_000).settle_stamp(read_at=3.5) == Stamp(5, 0, 0, 0)
