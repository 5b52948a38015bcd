"""A program that misses a file which was left out of its source is told so, and no other one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.facts import mentions
from tony.executor.program.missing_source_hint import explain_missing_file
from tony.model.staged_files import LeftOut

WORK = "/state/jobs/j/work/worker-0"
LEFT_OUT = LeftOut(ignore_file=".gitignore", files=2, folders=1, paths=("data/", "demo/train/a.train", "b.dat"))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'b.dat'", "b.dat"),
        ("cat: b.dat: No such file or directory", "b.dat"),
        ("cat: ./b.dat: No such file or directory", "b.dat"),
        (f"FileNotFoundError: [Errno 2] No such file or directory: '{WORK}/data/a file.csv'", "data/"),
        ("Opening ../train/a.train failed: No such file or directory", "demo/train/a.train"),
        ("FileNotFoundError: ./data/x.bin not found.", "data/"),
        ("ls: cannot access 'data': No such file or directory", "data/"),
        ("dataset data/x.bin not found", "data/"),
        ("error: b.dat does not exist", "b.dat"),
    ],
)
def test_the_file_is_named(line: str, path: str) -> None:
    """Whether the path is absolute, relative, or relative to a folder below."""
    said = explain_missing_file(["Traceback", line, "after it"], LEFT_OUT, WORK)
    assert mentions(said, path, ".gitignore", "gitignore=false")


@pytest.mark.parametrize(
    "line",
    [
        "cat: c.dat: No such file or directory",
        "cat: /data/x: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/elsewhere/b.dat'",
        "reading b.dat",
        "FileNotFoundError: ''",
        "No such file or directory: ../..",
        "column data does not exist",
        "KeyError: 'data' not found in batch",
    ],
)
def test_other_lines_mean_nothing(line: str) -> None:
    """Other files, files elsewhere, and lines that do not speak of a missing file."""
    assert explain_missing_file([line], LEFT_OUT, WORK) == ""


def test_no_hint_without_ignored_files(tmp_path: Path) -> None:
    assert explain_missing_file(["cat: b.dat: No such file or directory"], None, str(tmp_path)) == ""


def test_the_working_directory_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    line = f"No such file or directory: '{tmp_path}/real/b.dat'"
    assert explain_missing_file([line], LEFT_OUT, str(tmp_path / "link")).startswith("b.dat ")
