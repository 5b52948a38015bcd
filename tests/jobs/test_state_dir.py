"""The home is found, made, and closed to others."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tony.errors import StorageError, UserError
from tony.jobs.state_dir import find_state_dir, prepare
from tony.model.state_directory import Home


def test_where_the_state_directory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable says, made absolute; else in the home folder, which the password file knows as well."""
    monkeypatch.chdir(tmp_path)
    known = Path(pwd.getpwuid(os.geteuid()).pw_dir).absolute()
    for environment, expected in (
        ({"TONY_HOME": "/srv/t", "HOME": "/home/u"}, Path("/srv/t")),
        ({"TONY_HOME": "sub/../t"}, tmp_path / "t"),
        ({"TONY_HOME": "", "HOME": "/home/u"}, Path("/home/u/.tony")),
        ({}, known / ".tony"),
    ):
        assert find_state_dir(environment).path == expected


def test_a_home_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"TONY_HOME is .*/file, which is not a folder"):
        find_state_dir({"TONY_HOME": str(tmp_path / "file")})


def test_an_unknown_user_without_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under uids that no password file knows."""
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000 // 2)
    with pytest.raises(StorageError, match="TONY_HOME"):
        find_state_dir({})


def test_a_tilde_is_expanded_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever made in a folder called `~`."""
    assert find_state_dir({"TONY_HOME": "~/t", "HOME": "/home/u"}).path == Path("/home/u/t")
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000 // 2)
    with pytest.raises(UserError, match=r"^TONY_HOME is ~/t, and .*HOME is not set"):
        find_state_dir({"TONY_HOME": "~/t"})


def test_created_files_are_private(tmp_path: Path) -> None:
    """Job files and logs are readable by their owner only, whatever the umask."""
    home = Home(tmp_path / "a" / "b")
    old = os.umask(0)
    try:
        prepare(home)
        prepare(home)
    finally:
        os.umask(old)
    assert [path.stat().st_mode & 0o777 for path in (home.path, home.jobs, home.cache)] == [0o700] * 3


def test_a_folder_of_the_user_keeps_its_mode(tmp_path: Path) -> None:
    """Only what is ours in it is closed: TONY_HOME=/tmp must not close /tmp."""
    tmp_path.chmod(0o755)
    home = Home(tmp_path)
    home.jobs.mkdir(mode=0o755)
    prepare(home)
    assert home.path.stat().st_mode & 0o777 == 0o755
    assert home.jobs.stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_way_is_reported(tmp_path: Path) -> None:
    """The message says what to set."""
    (tmp_path / "home").write_text("x")
    with pytest.raises(StorageError, match=r"cannot create .*home: File exists. Set TONY_HOME"):
        prepare(Home(tmp_path / "home"))
    with pytest.raises(StorageError, match=r"cannot create .*sub: Not a directory. Set TONY_HOME"):
        prepare(Home(tmp_path / "home" / "sub"))


def test_a_state_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could read our secrets."""
    home = Home(tmp_path)
    prepare(home)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match=r"belongs to user .*, not to you"):
        prepare(home)


def test_a_read_only_state_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    prepare(home)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StorageError, match=r"cannot write .*jobs. Set TONY_HOME"):
        prepare(home)
