"""The source lines below the frames of a stack trace."""

from __future__ import annotations

import os
from pathlib import Path

from tests.facts import mentions
from tony.executor.program.stack_source import add_source_lines

SOURCE = "import time\n\n    time.sleep(1000)  \nx = '\x1b[31m'\n"


def fault(file: object, line: int) -> str:
    return f'Current thread 0x00007f42 (most recent call first):\n  File "{file}", line {line} in <module>'


def spy(file: object, line: int) -> str:
    return f'Thread 42 (idle): "MainThread"\n    main ({file}:{line})'


def test_frames_of_the_work_folder_are_followed_by_their_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SOURCE)
    for text in (fault(script, 3), spy(script, 3), fault("train.py", 3)):
        first, frame, source = add_source_lines(text, str(tmp_path)).split("\n")
        assert f"{first}\n{frame}" == text
        assert source.endswith("> time.sleep(1000)")


def test_the_work_folder_may_be_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "train.py").write_text(SOURCE)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for folder in ("real", "link"):
        text = fault(tmp_path / folder / "train.py", 3)
        assert mentions(add_source_lines(text, str(tmp_path / "link")), "time.sleep(1000)")


def test_a_line_that_is_empty_missing_or_not_printable_does_no_harm(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SOURCE)
    for line in (2, 0, 99):
        assert add_source_lines(fault(script, line), str(tmp_path)) == fault(script, line)
    assert "\x1b" not in add_source_lines(fault(script, 4), str(tmp_path))


def test_only_plain_files_of_the_work_folder_are_read(tmp_path: Path) -> None:
    """Not what a link in it points to: the executor may read files that the program may not."""
    work = tmp_path / "work"
    work.mkdir()
    secret = tmp_path / "secret"
    secret.write_text(SOURCE)
    (work / "link.py").symlink_to(secret)
    (work / "folder").symlink_to(tmp_path)
    os.mkfifo(work / "pipe.py")
    for path in (secret, work / ".." / "secret", work / "link.py", work / "folder" / "secret", work / "pipe.py", work):
        assert add_source_lines(fault(path, 3), str(work)) == fault(path, 3)
