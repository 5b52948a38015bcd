"""Checks of the environment: what is there, what a lack costs, and what is broken."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.jobs.recording_scheduler import Desk, Office
from tony.errors import InfraError
from tony.jobs import health_checks
from tony.jobs.health_checks import check_health
from tony.model.health_check import Health, HealthCheck
from tony.model.state_directory import Home
from tony.schedulers import registry


class CheckedDesk(Desk):
    def check_health(self) -> Iterable[HealthCheck]:
        yield HealthCheck(name="cluster", state=Health.OK, detail="here")
        raise InfraError("broken configuration\nsecond line")


@pytest.fixture(autouse=True)
def one_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "names", lambda: ("fake",))
    monkeypatch.setattr(registry, "load", lambda name: Office(CheckedDesk()))


def by_name(home: Home) -> dict[str, HealthCheck]:
    return {check.name: check for check in check_health(home)}


def test_this_machine(tmp_path: Path) -> None:
    """What the tests need is there, and nothing was created."""
    home = Home(tmp_path / "no" / "home")
    checks = by_name(home)
    for name in ("Python", "pidfd", "ports", "state directory"):
        assert (checks[name].state, checks[name].required) == (Health.OK, True)
    assert os.listdir(tmp_path) == []
    assert not any(check.is_broken for check in checks.values())


def test_every_lack_has_a_cost_and_a_remedy(tmp_path: Path) -> None:
    checks = by_name(Home(tmp_path))
    assert checks["cluster"].state is Health.OK
    failed = checks["scheduler fake"]
    assert (failed.state, failed.detail, failed.is_broken) == (Health.UNKNOWN, "broken configuration", False)
    assert all(bool(check.cost) == bool(check.remedy) == (check.state is not Health.OK) for check in checks.values())


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, is_broken in ((1024**3, False), (1024**2, True)):
        monkeypatch.setattr(health_checks, "measure_free_bytes", lambda folder, free=free: free)
        space = by_name(Home(tmp_path))["disk space"]
        assert (space.state, space.is_broken) == (Health.MISSING, is_broken)


def test_a_state_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "jobs").touch()
    check = by_name(Home(tmp_path))["state directory"]
    assert check.is_broken
    assert "disk space" not in by_name(Home(tmp_path))


def test_an_old_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert by_name(Home(tmp_path))["pidfd"].is_broken
