"""Checks of what jobs on this machine use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tony.linux import container_cgroup
from tony.model.health_check import Health, HealthCheck
from tony.schedulers.local.health_checks import check_machine
from tony.schedulers.local.settings import read_settings


def by_name(ledger: Path, gpus: int = 0) -> dict[str, HealthCheck]:
    settings, _ = read_settings({})
    settings = replace(settings, ledger=ledger, gpus=gpus)
    return {check.name: check for check in check_machine(settings)}


def test_gpus(tmp_path: Path) -> None:
    assert by_name(tmp_path)["GPUs"].state is Health.MISSING
    checks = by_name(tmp_path, 2)
    assert (checks["GPUs"].state, checks["GPUs"].detail[:1]) == (Health.OK, "2")
    assert "GPU metrics" in checks


@pytest.mark.parametrize("folders", [(), ("/sys/fs/cgroup/tony/x",), ("/sys/fs/cgroup/memory/tony/x",)])
def test_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: tuple[str, ...]) -> None:
    """Without them jobs run, with weaker limits. The one that was made is removed."""
    removed: list[object] = []
    monkeypatch.setattr(container_cgroup, "create", lambda *_: folders)
    monkeypatch.setattr(container_cgroup, "remove", removed.append)
    check = by_name(tmp_path)["control groups"]
    assert check.state is (Health.OK if folders else Health.MISSING)
    assert not check.is_broken
    assert removed == ([folders] if folders else [])


def test_a_ledger_that_the_settings_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert by_name(tmp_path / "file")["ledger"].is_broken
    assert by_name(tmp_path)["ledger"].state is Health.OK
