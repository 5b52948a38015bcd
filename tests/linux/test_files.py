"""Which files only root can change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tony.linux.files import is_changed_by_root_only

OTHER_USER = 12345


def test_a_program_of_the_system_is_roots() -> None:
    assert is_changed_by_root_only(os.path.realpath("/bin/sh"))


def test_a_file_that_is_not_there() -> None:
    assert not is_changed_by_root_only("/no/such/file")


@pytest.mark.parametrize("changed", ["owner", "mode", "folder's owner", "folder's mode"])
def test_a_file_that_others_can_change(tmp_path: Path, changed: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    folder = tmp_path / "folder"
    file = folder / "file"
    folder.mkdir(mode=0o755)
    file.touch(mode=0o755)
    path = os.path.realpath(file)
    assert is_changed_by_root_only(path)
    target = folder if "folder" in changed else file
    if "owner" in changed:
        os.chown(target, OTHER_USER, OTHER_USER)
    else:
        target.chmod(0o775)
    assert not is_changed_by_root_only(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/bin/sh")
    assert not is_changed_by_root_only(str(tmp_path / "link"))
