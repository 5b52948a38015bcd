"""Small JSON files are there whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tony.errors import RecordError, StorageError
from tony.history import json_files
from tony.history.json_files import read_json, write_json


def test_json_round_trips(tmp_path: Path) -> None:
    """Any JSON value, and the file is for its owner only."""
    path = tmp_path / "x.json"
    write_json(path, {"a": [1, None, "ä"]})
    assert read_json(path) == {"a": [1, None, "ä"]}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    """No file is no error: the job may not be so far."""
    assert read_json(tmp_path / "x.json") is None
    assert read_json(tmp_path / "nowhere" / "x.json") is None


def test_writing_replaces_in_one_step(tmp_path: Path) -> None:
    """A reader that has the old file open reads on in it; no draft stays behind."""
    path = tmp_path / "x.json"
    write_json(path, 1)
    with path.open() as old:
        write_json(path, 2, durable=True)
        assert old.read() == "1\n"
    assert read_json(path) == 2
    assert os.listdir(tmp_path) == ["x.json"]


def test_an_invalid_json_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(RecordError, match=r"x\.json is not JSON"):
        read_json(path)


def test_file_system_errors_are_reported(tmp_path: Path) -> None:
    """The message names the file and the reason, and no temporary file is left."""
    with pytest.raises(StorageError, match=r"cannot write .*x\.json: No such file"):
        write_json(tmp_path / "nowhere" / "x.json", 1)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"cannot write .*folder"):
        write_json(tmp_path / "folder", 1)
    with pytest.raises(StorageError, match=r"cannot read .*folder"):
        read_json(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A link may lead to what its maker may not read; a pipe would never be read to its end."""
    (tmp_path / "treasure.json").write_text("1")
    (tmp_path / "link.json").symlink_to(tmp_path / "treasure.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(StorageError, match=r"cannot read .*link\.json: it is a link"):
        read_json(tmp_path / "link.json")
    with pytest.raises(StorageError, match=r"cannot read .*pipe\.json: it is no plain file"):
        read_json(tmp_path / "pipe.json")


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """A sparse file would take all memory."""
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(json_files.MAX_JSON_BYTES + 1)
    with pytest.raises(RecordError, match=r"x\.json is longer than 64 MiB"):
        read_json(tmp_path / "x.json")
