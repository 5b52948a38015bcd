"""Where the ledger is found, and what cannot be one."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.facts import mentions
from tony.errors import SchedulerError
from tony.model.state_directory import Home
from tony.schedulers.local.claims import ledger as ledgers
from tony.schedulers.local.claims.ledger import explain_unusable, open_ledger
from tony.schedulers.local.settings import LocalSettings


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_shared_folder_is_made_for_all(tmp_path: Path) -> None:
    """The first job makes the folder: any user may add files, only owners may remove them, whatever the umask."""
    shared = tmp_path / "shared"
    before = os.umask(0o077)
    try:
        ledger, notice = open_ledger(LocalSettings(), Home(tmp_path), shared)
    finally:
        os.umask(before)
    ledger.close()
    assert (ledger.path, notice, mode(shared)) == (shared, "", 0o1777)


def test_it_is_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        ledger, notice = open_ledger(LocalSettings(), Home(tmp_path), tmp_path / "shared")
        ledger.close()
        assert notice == ""


def link(path: Path) -> None:
    path.symlink_to(path.parent)


def file(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize("obstacle", [link, file])
def test_own_ledger_where_none_can_be_shared(tmp_path: Path, obstacle: Callable[[Path], None]) -> None:
    """What is no folder of ours is not touched: each user has a ledger of their own then, and is told."""
    obstacle(tmp_path / "shared")
    ledger, notice = open_ledger(LocalSettings(), Home(tmp_path), tmp_path / "shared")
    ledger.close()
    assert ledger.path == tmp_path / "ledger"
    assert mentions(notice, f"{tmp_path}/shared")


def test_a_closed_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's folder must be open to all, and sticky: otherwise its owner could remove claims."""
    monkeypatch.setattr(ledgers.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)  # type: ignore[attr-defined]
    tmp_path.chmod(0o777)
    assert mentions(explain_unusable(tmp_path), "777", "1777")
    tmp_path.chmod(0o1777)
    assert explain_unusable(tmp_path) == ""


def test_missing_folder_is_no_trouble(tmp_path: Path) -> None:
    """It can be made, unless its parent is missing too; looking makes nothing."""
    assert explain_unusable(tmp_path / "new") == ""
    assert "does not exist" in explain_unusable(tmp_path / "none" / "new")
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_configured_ledger_is_an_error(tmp_path: Path) -> None:
    """It is not silently replaced by another."""
    file(tmp_path / "it")
    with pytest.raises(SchedulerError, match=r"it cannot be used: it is not a folder\. Set scheduler\.local\.ledger"):
        open_ledger(LocalSettings(ledger=tmp_path / "it"), Home(tmp_path))


def test_nowhere(tmp_path: Path) -> None:
    """Without any place at all the scheduler cannot be used."""
    with pytest.raises(SchedulerError, match="cannot create a ledger"):
        open_ledger(LocalSettings(), Home(tmp_path / "none"), tmp_path / "none" / "shared")
